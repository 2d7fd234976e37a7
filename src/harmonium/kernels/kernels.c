// Matrix products with binary states, means and draws: what a Gibbs step of an RBM needs. docs/kernels.md explains it.
//
// Plain C without headers of Python or torch. All matrices are dense, in rows, float32. A function returns 1 if it
// computed the result, and 0 if it did nothing: the states have other values or too many ones, or there is no memory.
#include <math.h>
#include <stdlib.h>

#include "vectors.h"
#include "threads.h"
#include "products.h"
#include "draws.h"
#include "means.h"
