"""Distributions with density ∝ e^{hx - px²/2} on an interval or a half line: ln Z, moments, draws, derivatives.

The closed forms (error functions, Dawson's integral) suffer from cancellation if p ≈ 0 or if the weight is concentrated
at a boundary. Here every quantity is a sum of positive terms instead. The exponent is a parabola, so the *window* in
which it is within ``depth`` of its maximum is known in closed form, and Gauss-Legendre quadrature on that window gives
every moment to rounding error, for any sign of p and arbitrarily far in the tail. Error functions are used where they
are well conditioned.
"""

from .half_line import HalfLine, normal_below
from .matching import smoothed, solve_increasing, solve_moments
from .moments import Family, expectation
from .segment import Segment

__all__ = [
    "Family",
    "HalfLine",
    "Segment",
    "expectation",
    "normal_below",
    "smoothed",
    "solve_increasing",
    "solve_moments",
]
