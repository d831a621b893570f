/* guarded
 *
 * inputs   x: f64[7]
 *
 * outputs  y: f64[7], z: f64[7], u: f64[7, 7], v: f64[7], w: f64[7]
 *
 * 371 multiply-adds, 0 buffers, peak 0 bytes
 */

#include <math.h>
#include <stdint.h>

#if !defined(PB_NO_VECTORS) && (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 9)) && \
    (__FLT_EVAL_METHOD__ == 0 || __FLT_EVAL_METHOD__ >= 16) /* as their types say: not on x87 */ && \
    (defined(__SSE2__) || defined(__ARM_NEON) || defined(__wasm_simd128__) || defined(__VSX__) || \
     defined(__riscv_vector)) /* with registers for them: else compilers write out every lane */
#define PB_VECTORS
#pragma GCC diagnostic ignored "-Wpsabi" /* no vector crosses the boundary of this file */
#endif

#ifdef PB_VECTORS
#define PB_INLINE static inline __attribute__((always_inline, unused)) /* which are used depends on the processor */

#if defined(PB_VECTORS) && defined(__SSE2__)
#define PB_HOLD_8(v) __asm__("" : "+x"(v))
#else
#define PB_HOLD_8(v) (void)0
#endif

typedef double pb_f64x4 __attribute__((vector_size(32)));
typedef double pb_f64x4u __attribute__((vector_size(32), aligned(8), may_alias));

typedef double pb_f64x2 __attribute__((vector_size(16)));
typedef double pb_f64x2u __attribute__((vector_size(16), aligned(8), may_alias));

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

PB_INLINE pb_f64x4 pb_splat_f64x4(double x) {
    return (pb_f64x4){x, x, x, x};
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

PB_INLINE pb_f64x2 pb_splat_f64x2(double x) {
    return (pb_f64x2){x, x};
}

PB_INLINE pb_i64x4 pb_splat_i64x4(int64_t x) {
    return (pb_i64x4){x, x, x, x};
}
#endif

/* y = build n < 7 { x[n] > 0.0 ? log(x[n]) : 0.0 } */
static void guarded_y(const double *restrict x, double *restrict y) {
    for (int64_t n = 0; n < 7; ++n) {
        const double x2 = x[n];
        y[n] = x2 > 0.0 ? log(x2) : 0.0;
    }
}

/* z = build n < 7 { x[n] > 0.0 ? sum m < 7 { x[m] * y[n] } : 2.0 * x[n] } */
/* tile: vector n 4 rest 2 1 */
static void guarded_z(const double *restrict x, const double *restrict y, double *restrict z) {
#ifdef PB_VECTORS
    const double x2 = x[6];
    pb_f64x4 sum = (pb_f64x4){0};
    pb_f64x2 sum2 = (pb_f64x2){0};
    double sum3 = 0.0;
    const double y2 = y[6];
    for (int64_t m = 0; m < 7; ++m) {
        const double x3 = x[m];
        const pb_f64x4 y3 = *(const pb_f64x4u *)(y);
        sum += x3 * y3;
        const pb_f64x2 y4 = *(const pb_f64x2u *)(y + 4);
        sum2 += x3 * y4;
        sum3 += x3 * y2;
        PB_HOLD_8(sum3);
    }
    const pb_f64x4 x3 = *(const pb_f64x4u *)(x);
    const pb_i64x4 holds = x3 > (pb_f64x4){0};
    *(pb_f64x4u *)(z) = pb_choose_f64x4(holds, sum, pb_splat_f64x4(2.0) * x3);
    const pb_f64x2 x4 = *(const pb_f64x2u *)(x + 4);
    const pb_i64x2 holds2 = x4 > (pb_f64x2){0};
    *(pb_f64x2u *)(z + 4) = pb_choose_f64x2(holds2, sum2, pb_splat_f64x2(2.0) * x4);
    z[6] = x2 > 0.0 ? sum3 : 2.0 * x2;
#else
    for (int64_t n = 0; n < 7; ++n) {
        const double x2 = x[n];
        double chosen = 0.0;
        if (x2 > 0.0) {
            double sum = 0.0;
            const double y2 = y[n];
            for (int64_t m = 0; m < 7; ++m) {
                sum += x[m] * y2;
            }
            chosen = sum;
        } else {
            chosen = 2.0 * x2;
        }
        z[n] = chosen;
    }
#endif
}

/* u = build n < 7, m < 7 { [n >= m + 1] x[n] + [m >= n + 1] y[m] + [n == m] 1.0 } */
static void guarded_u(const double *restrict x, const double *restrict y, double *restrict u) {
    for (int64_t n = 0; n < 7; ++n) {
        const double x2 = x[n];
        for (int64_t m = 0; m < 7; ++m) {
            u[n * 7 + m] = (n >= m + 1 ? x2 : 0.0) + (m >= n + 1 ? y[m] : 0.0) + (m == n ? 1.0 : 0.0);
        }
    }
}

/* v = build n < 7 { [n % 3 == 1] x[n] } */
static void guarded_v(const double *restrict x, double *restrict v) {
    for (int64_t n = 0; n < 7; ++n) {
        if (n % 3 == 1) {
            v[n] = x[n];
        } else {
            v[n] = 0.0;
        }
    }
}

/* w = build n < 7 { sum m < 7 { [(n + m) % 2 == 0] x[m] * y[n] } } */
/* masked: mask n | vector n 4 rest 1 */
static void guarded_w(const double *restrict x, const double *restrict y, double *restrict w) {
#ifdef PB_VECTORS
    pb_f64x4 sum = (pb_f64x4){0};
    const pb_f64x4 y2 = *(const pb_f64x4u *)(y);
    for (int64_t m = 0; m < 7; ++m) {
        const pb_i64x4 index = m + (pb_i64x4){0, 1, 2, 3};
        const pb_i64x4 holds = (index & pb_splat_i64x4(1)) == (pb_i64x4){0};
        const pb_f64x4 product = x[m] * y2;
        sum += pb_choose_f64x4(holds, product, (pb_f64x4){0});
    }
    *(pb_f64x4u *)(w) = sum;
    for (int64_t n = 0; n < 3; ++n) {
        double sum2 = 0.0;
        const double y3 = y[n + 4];
        for (int64_t m = 0; m < 7; ++m) {
            if ((m + n) % 2 == 0) {
                sum2 += x[m] * y3;
                PB_HOLD_8(sum2);
            }
        }
        w[n + 4] = sum2;
    }
#else
    for (int64_t n = 0; n < 7; ++n) {
        double sum = 0.0;
        const double y2 = y[n];
        for (int64_t m = 0; m < 7; ++m) {
            if ((n + m) % 2 == 0) {
                sum += x[m] * y2;
            }
        }
        w[n] = sum;
    }
#endif
}

/* Returns 0. `arena` is not used and may be null. */
int guarded(const double *restrict x, double *restrict y, double *restrict z, double *restrict u, double *restrict v,
            double *restrict w, void *restrict arena) {
    (void)arena;

    guarded_y(x, y);
    guarded_z(x, y, z);
    guarded_u(x, y, u);
    guarded_v(x, v);
    guarded_w(x, y, w);
    return 0;
}
