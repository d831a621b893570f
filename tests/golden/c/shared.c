/* shared
 *
 * inputs   x: f64[5], y: f64[5]
 *
 * outputs  b: f64[5, 5]
 *
 * 320 multiply-adds, 2 buffers, peak 128 bytes
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

typedef double pb_f64x4 __attribute__((vector_size(32)));
typedef double pb_f64x4u __attribute__((vector_size(32), aligned(8), may_alias));
#endif

/* a = build n < 5 {
       let t = y[n] * exp(x[n]) + 1.0;
       t * t + t / (2.0 + y[n] * exp(x[n])) } */
static void shared_a(const double *restrict y, const double *restrict x, double *restrict a) {
    for (int64_t n = 0; n < 5; ++n) {
        const double product = y[n] * exp(x[n]);
        const double sum = product + 1.0;
        a[n] = sum * sum + sum / (2.0 + product);
    }
}

/* b_sin = build n < 5 { sin(x[n]) } */
static void shared_b_sin(const double *restrict x, double *restrict b_sin) {
    for (int64_t n = 0; n < 5; ++n) {
        b_sin[n] = sin(x[n]);
    }
}

/* b = build n < 5, m < 5 { x[n] * y[n] * a[m] + b_sin[n] } */
/* tile: vector m 4 rest 1 */
static void shared_b(const double *restrict x, const double *restrict y, const double *restrict a,
                     const double *restrict b_sin, double *restrict b) {
#ifdef PB_VECTORS
    const double a2 = a[4];
    for (int64_t n = 0; n < 5; ++n) {
        const double x2 = x[n];
        const double y2 = y[n];
        const double b_sin2 = b_sin[n];
        const double x3 = x[n];
        const double y3 = y[n];
        const pb_f64x4 a3 = *(const pb_f64x4u *)(a);
        const double b_sin3 = b_sin[n];
        *(pb_f64x4u *)(b + n * 5) = b_sin3 + x3 * y3 * a3;
        b[n * 5 + 4] = x2 * y2 * a2 + b_sin2;
    }
#else
    for (int64_t n = 0; n < 5; ++n) {
        const double x2 = x[n];
        const double y2 = y[n];
        const double b_sin2 = b_sin[n];
        for (int64_t m = 0; m < 5; ++m) {
            b[n * 5 + m] = x2 * y2 * a[m] + b_sin2;
        }
    }
#endif
}

/* Returns 0. `arena` has 128 bytes, aligned to 64. */
int shared(const double *restrict x, const double *restrict y, double *restrict b, void *restrict arena) {
    double *const a = (double *)arena; /* f64[5] */
    double *const b_sin = (double *)((char *)arena + 64); /* f64[5] */

    shared_a(y, x, a);
    shared_b_sin(x, b_sin);
    shared_b(x, y, a, b_sin, b);
    return 0;
}
