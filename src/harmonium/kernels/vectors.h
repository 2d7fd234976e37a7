// Vectors of LANES floats, in the vector extensions of gcc and clang, so that one text serves every instruction set.
// A block is 32 columns of a matrix, PARTS vectors. Sums have the same order for every width, and products are not
// fused with sums (-ffp-contract=off), so all instruction sets and numbers of threads give the same bits.
#pragma once
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif
#define BLOCK 32
#define PARTS (BLOCK / LANES)
#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(4 * LANES), may_alias));
typedef float vec_unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(4 * LANES), may_alias));
typedef uint32_t words __attribute__((vector_size(4 * LANES), may_alias));
typedef struct { vec part[PARTS]; } row; // one row of a block

INLINE long least(long a, long b) { return a < b ? a : b; }

INLINE vec same(float x) { return (vec){0} + x; } // x may not be -0, which becomes 0

// Whether a lane is one of the first n.
INLINE ints first(long n) {
    ints lane;
    for (int k = 0; k < LANES; k++) lane[k] = k;
    return lane < (ints){0} + (int32_t)n;
}

// n numbers, and zeros behind them.
INLINE vec load(const float *p, long n) {
    if (n >= LANES) return (vec)*(const vec_unaligned *)p;
    if (n <= 0) return (vec){0};
#if LANES == 16
    return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#elif LANES == 8
    return (vec)_mm256_maskload_ps(p, (__m256i)first(n));
#else
    vec v = {0};
    for (int k = 0; k < n; k++) v[k] = p[k];
    return v;
#endif
}

INLINE void store(float *p, vec v, long n) {
    if (n >= LANES) *(vec_unaligned *)p = v;
    else if (n > 0) {
#if LANES == 16
        _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#elif LANES == 8
        _mm256_maskstore_ps(p, (__m256i)first(n), (__m256)v);
#else
        for (int k = 0; k < n; k++) p[k] = v[k];
#endif
    }
}

INLINE row load_row(const float *p, long n) {
    row r;
    for (int k = 0; k < PARTS; k++) r.part[k] = load(p + LANES * k, n - LANES * k);
    return r;
}

INLINE void store_row(float *p, row r, long n) {
    for (int k = 0; k < PARTS; k++) store(p + LANES * k, r.part[k], n - LANES * k);
}

INLINE row sum(row a, row b) {
    for (int k = 0; k < PARTS; k++) a.part[k] += b.part[k];
    return a;
}

INLINE row scaled(row a, float factor) {
    for (int k = 0; k < PARTS; k++) a.part[k] *= factor;
    return a;
}

// The result of a comparison as bits, one for each lane.
INLINE uint64_t bits(ints mask) {
#if LANES == 16
    return _mm512_movepi32_mask((__m512i)mask);
#elif LANES == 8
    return (uint64_t)_mm256_movemask_ps((__m256)mask);
#else
    uint64_t found = 0;
    for (int k = 0; k < LANES; k++) found |= (uint64_t)(mask[k] < 0) << k;
    return found;
#endif
}

// Lanes of a where the mask is set, else of b.
INLINE vec choose(ints mask, vec a, vec b) { return (vec)(((ints)a & mask) | ((ints)b & ~mask)); }

// Transpose LANES vectors in place.
INLINE void transpose(vec *r) {
    vec s[LANES];
    for (int n = 1; n < LANES; n *= 2) {
        for (int k = 0; k < LANES / 2; k++) {
            vec a = r[k], b = r[k + LANES / 2];
#if LANES == 16
            s[2 * k] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            s[2 * k + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#elif LANES == 8
            s[2 * k] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
            s[2 * k + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
            s[2 * k] = __builtin_shufflevector(a, b, 0, 4, 1, 5);
            s[2 * k + 1] = __builtin_shufflevector(a, b, 2, 6, 3, 7);
#endif
        }
        memcpy(r, s, sizeof s);
    }
}
