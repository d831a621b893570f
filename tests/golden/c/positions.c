/* positions
 *
 * inputs   x: f64[6, 5]
 *
 * outputs  a: i64[6], b: i64[], c: f64[5], d: f64[5], e: f64[6], f: bool[6], g: bool[6]
 *
 * 300 multiply-adds, 0 buffers, peak 0 bytes
 */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#if !defined(PB_NO_VECTORS) && (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 9)) && \
    (__FLT_EVAL_METHOD__ == 0 || __FLT_EVAL_METHOD__ >= 16) /* as their types say: not on x87 */ && \
    (defined(__SSE2__) || defined(__ARM_NEON) || defined(__wasm_simd128__) || defined(__VSX__) || \
     defined(__riscv_vector)) /* with registers for them: else compilers write out every lane */
#define PB_VECTORS
#pragma GCC diagnostic ignored "-Wpsabi" /* no vector crosses the boundary of this file */
#endif

static inline double pb_minimum_f64(double a, double b) {
    return b < a || b != b ? b : a;
}

static inline double pb_maximum_f64(double a, double b) {
    return a < b || b != b ? b : a;
}

#ifdef PB_VECTORS
#define PB_INLINE static inline __attribute__((always_inline, unused)) /* which are used depends on the processor */

static inline int64_t pb_saturate_i64(double x) {
    if (x != x) return 0;
    return x <= (double)INT64_MIN ? INT64_MIN : x >= (double)INT64_MAX ? INT64_MAX : (int64_t)x;
}

typedef double pb_f64x4 __attribute__((vector_size(32)));
typedef double pb_f64x4u __attribute__((vector_size(32), aligned(8), may_alias));

typedef int64_t pb_i64x4 __attribute__((vector_size(32)));
typedef int64_t pb_i64x4u __attribute__((vector_size(32), aligned(8), may_alias));

#ifdef __has_builtin
#define PB_HAS(builtin) __has_builtin(builtin)
#else
#define PB_HAS(builtin) 1 /* gcc before 10, which has them */
#endif

PB_INLINE pb_f64x4 pb_choose_f64x4(pb_i64x4 mask, pb_f64x4 a, pb_f64x4 b) {
#if defined(__AVX__) && PB_HAS(__builtin_ia32_blendvpd256)
    return __builtin_ia32_blendvpd256(b, a, (pb_f64x4)mask);
#else
    return (pb_f64x4)((mask & (pb_i64x4)a) | (~mask & (pb_i64x4)b));
#endif
}

typedef double pb_f64x2 __attribute__((vector_size(16)));
typedef double pb_f64x2u __attribute__((vector_size(16), aligned(8), may_alias));

PB_INLINE double pb_min_across_f64x2(pb_f64x2 v) {
    return pb_minimum_f64(v[0], v[1]);
}

typedef int64_t pb_i64x2 __attribute__((vector_size(16)));
typedef int64_t pb_i64x2u __attribute__((vector_size(16), aligned(8), may_alias));

PB_INLINE pb_f64x2 pb_choose_f64x2(pb_i64x2 mask, pb_f64x2 a, pb_f64x2 b) {
#if defined(__SSE4_1__) && PB_HAS(__builtin_ia32_blendvpd)
    return __builtin_ia32_blendvpd(b, a, (pb_f64x2)mask);
#else
    return (pb_f64x2)((mask & (pb_i64x2)a) | (~mask & (pb_i64x2)b));
#endif
}

PB_INLINE pb_f64x2 pb_min_f64x2(pb_f64x2 a, pb_f64x2 b) {
#if defined(__SSE2__) && PB_HAS(__builtin_ia32_minpd)
    return pb_choose_f64x2(a != a, a, __builtin_ia32_minpd(a, b));
#else
    return pb_choose_f64x2((b < a) | (b != b), b, a);
#endif
}

PB_INLINE double pb_min_across_f64x4(pb_f64x4 v) {
    const pb_f64x2 low = ((const pb_f64x2u *)&v)[0], high = ((const pb_f64x2u *)&v)[1];
    return pb_min_across_f64x2(pb_min_f64x2(low, high));
}

PB_INLINE pb_f64x4 pb_min_f64x4(pb_f64x4 a, pb_f64x4 b) {
#if defined(__AVX__) && PB_HAS(__builtin_ia32_minpd256)
    return pb_choose_f64x4(a != a, a, __builtin_ia32_minpd256(a, b));
#else
    return pb_choose_f64x4((b < a) | (b != b), b, a);
#endif
}

PB_INLINE pb_f64x4 pb_splat_f64x4(double x) {
    return (pb_f64x4){x, x, x, x};
}

PB_INLINE pb_f64x4 pb_max_f64x4(pb_f64x4 a, pb_f64x4 b) {
#if defined(__AVX__) && PB_HAS(__builtin_ia32_maxpd256)
    return pb_choose_f64x4(a != a, a, __builtin_ia32_maxpd256(a, b));
#else
    return pb_choose_f64x4((a < b) | (b != b), b, a);
#endif
}

PB_INLINE pb_f64x4 pb_abs_f64x4(pb_f64x4 x)
{
    return (pb_f64x4)((pb_i64x4)x & ~INT64_MIN);
}
#endif

/* a = build n < 6 { argmax m < 5 { x[n, m] } } */
static void positions_a(const double *restrict x, int64_t *restrict a) {
    for (int64_t n = 0; n < 6; ++n) {
        double best = -(double)INFINITY;
        int64_t position = 0;
        for (int64_t m = 0; m < 5; ++m) {
            const double value = x[n * 5 + m];
            if (value > best || (value != value && best == best)) {
                best = value;
                position = m;
            }
        }
        a[n] = position;
    }
}

/* b = build { argmin n < 6, m < 5 { x[n, m] } } */
/* position: vector m 4 */
static void positions_b(const double *restrict x, int64_t *restrict b) {
#ifdef PB_VECTORS
    const pb_f64x4 x2 = *(const pb_f64x4u *)(x);
    pb_f64x4 best = x2;
    pb_f64x4 at = (pb_f64x4){0.0, 1.0, 2.0, 3.0};
    const pb_f64x4 x3 = *(const pb_f64x4u *)(x + 4);
    pb_f64x4 best2 = x3;
    pb_f64x4 at2 = (double)4 + (pb_f64x4){0.0, 1.0, 2.0, 3.0};
    for (int64_t m = 8; m < 24; m += 8) {
        const pb_f64x4 x4 = *(const pb_f64x4u *)(x + m);
        const pb_i64x4 better = ((x4 >= best) == (pb_i64x4){0}) & (best == best);
        best = pb_choose_f64x4(better, x4, best);
        at = pb_choose_f64x4(better, (double)m + (pb_f64x4){0.0, 1.0, 2.0, 3.0}, at);
        const pb_f64x4 x5 = *(const pb_f64x4u *)(x + m + 4);
        const pb_i64x4 better2 = ((x5 >= best2) == (pb_i64x4){0}) & (best2 == best2);
        best2 = pb_choose_f64x4(better2, x5, best2);
        at2 = pb_choose_f64x4(better2, (double)(m + 4) + (pb_f64x4){0.0, 1.0, 2.0, 3.0}, at2);
    }
    const pb_f64x4 x4 = *(const pb_f64x4u *)(x + 24);
    const pb_i64x4 better = ((x4 >= best) == (pb_i64x4){0}) & (best == best);
    best = pb_choose_f64x4(better, x4, best);
    at = pb_choose_f64x4(better, (double)24 + (pb_f64x4){0.0, 1.0, 2.0, 3.0}, at);
    const pb_f64x4 x5 = *(const pb_f64x4u *)(x + 26);
    const pb_i64x4 better2 = ((x5 >= best) == (pb_i64x4){0}) & (best == best);
    best = pb_choose_f64x4(better2, x5, best);
    at = pb_choose_f64x4(better2, (double)26 + (pb_f64x4){0.0, 1.0, 2.0, 3.0}, at);
    const double found = pb_min_across_f64x4(pb_min_f64x4(best, best2));
    const double first = pb_min_across_f64x4(pb_min_f64x4(pb_choose_f64x4((best == found) | (best != best), at,
        pb_splat_f64x4(30.0)), pb_choose_f64x4((best2 == found) | (best2 != best2), at2, pb_splat_f64x4(30.0))));
    b[0] = pb_saturate_i64(first);
#else
    double best = (double)INFINITY;
    int64_t position = 0;
    for (int64_t n = 0; n < 6; ++n) {
        for (int64_t m = 0; m < 5; ++m) {
            const double value = x[n * 5 + m];
            if (value < best || (value != value && best == best)) {
                best = value;
                position = n * 5 + m;
            }
        }
    }
    b[0] = position;
#endif
}

/* c = build m < 5 { max n < 6 { x[n, m] } } */
/* tile: vector m 4 rest 1 */
static void positions_c(const double *restrict x, double *restrict c) {
#ifdef PB_VECTORS
    pb_f64x4 max = pb_splat_f64x4(-(double)INFINITY);
    double max2 = -(double)INFINITY;
    for (int64_t n = 0; n < 6; ++n) {
        const pb_f64x4 x2 = *(const pb_f64x4u *)(x + n * 5);
        max = pb_max_f64x4(max, x2);
        max2 = pb_maximum_f64(max2, x[n * 5 + 4]);
    }
    *(pb_f64x4u *)(c) = max;
    c[4] = max2;
#else
    for (int64_t m = 0; m < 5; ++m) {
        double largest = -(double)INFINITY;
        for (int64_t n = 0; n < 6; ++n) {
            largest = pb_maximum_f64(largest, x[n * 5 + m]);
        }
        c[m] = largest;
    }
#endif
}

/* d = build m < 5 { min n < 6 { abs(x[n, m]) } } */
/* tile: vector m 4 rest 1 */
static void positions_d(const double *restrict x, double *restrict d) {
#ifdef PB_VECTORS
    pb_f64x4 min = pb_splat_f64x4((double)INFINITY);
    double min2 = (double)INFINITY;
    for (int64_t n = 0; n < 6; ++n) {
        const pb_f64x4 x2 = *(const pb_f64x4u *)(x + n * 5);
        const pb_f64x4 abs_ = pb_abs_f64x4(x2);
        min = pb_min_f64x4(min, abs_);
        min2 = pb_minimum_f64(min2, fabs(x[n * 5 + 4]));
    }
    *(pb_f64x4u *)(d) = min;
    d[4] = min2;
#else
    for (int64_t m = 0; m < 5; ++m) {
        double smallest = (double)INFINITY;
        for (int64_t n = 0; n < 6; ++n) {
            smallest = pb_minimum_f64(smallest, fabs(x[n * 5 + m]));
        }
        d[m] = smallest;
    }
#endif
}

/* e = build n < 6 { prod m < 5 { x[n, m] } } */
static void positions_e(const double *restrict x, double *restrict e) {
    for (int64_t n = 0; n < 6; ++n) {
        double product = 1.0;
        for (int64_t m = 0; m < 5; ++m) {
            product *= x[n * 5 + m];
        }
        e[n] = product;
    }
}

/* f = build n < 6 { any m < 5 { x[n, m] > 1.0 } } */
static void positions_f(const double *restrict x, bool *restrict f) {
    for (int64_t n = 0; n < 6; ++n) {
        bool any = false;
        for (int64_t m = 0; m < 5; ++m) {
            any = any || x[n * 5 + m] > 1.0;
        }
        f[n] = any;
    }
}

/* g = build n < 6 { all m < 5 { x[n, m] > -1.0 } } */
static void positions_g(const double *restrict x, bool *restrict g) {
    for (int64_t n = 0; n < 6; ++n) {
        bool all = true;
        for (int64_t m = 0; m < 5; ++m) {
            all = all && x[n * 5 + m] > -1.0;
        }
        g[n] = all;
    }
}

/* Returns 0. `arena` is not used and may be null. */
int positions(const double *restrict x, int64_t *restrict a, int64_t *restrict b, double *restrict c,
              double *restrict d, double *restrict e, bool *restrict f, bool *restrict g, void *restrict arena) {
    (void)arena;

    positions_a(x, a);
    positions_b(x, b);
    positions_c(x, c);
    positions_d(x, d);
    positions_e(x, e);
    positions_f(x, f);
    positions_g(x, g);
    return 0;
}
