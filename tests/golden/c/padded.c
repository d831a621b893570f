/* padded
 *
 * inputs   x: f64[20], w: f64[5]
 *
 * outputs  y: f64[20], z: f64[24]
 *
 * 100 multiply-adds, 1 buffer, peak 192 bytes
 */

#include <stdint.h>
#include <string.h>

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

/* x_padded = build p0 < 24 { [21 >= p0, p0 >= 2] x[p0 - 2] } */
/* stretches: split p0 0 2 22 | vector p0 4 */
static void padded_x_padded(const double *restrict x, double *restrict x_padded) {
#ifdef PB_VECTORS
    for (int64_t p0 = 0; p0 < 2; ++p0) {
        x_padded[p0] = 0.0;
    }
    for (int64_t p0 = 0; p0 < 20; p0 += 4) {
        const pb_f64x4 x2 = *(const pb_f64x4u *)(x + p0);
        *(pb_f64x4u *)(x_padded + p0 + 2) = x2;
    }
    for (int64_t p0 = 0; p0 < 2; ++p0) {
        x_padded[p0 + 22] = 0.0;
    }
#else
    memset(x_padded, 0, 16);
    for (int64_t p0 = 2; p0 < 22; ++p0) {
        x_padded[p0] = x[p0 - 2];
    }
    memset(x_padded + 22, 0, 16);
#endif
}

/* y = build n < 20 { sum k < 5 { w[k] * x_padded[n + k] } } */
/* tile: vector n 4×4 */
static void padded_y(const double *restrict w, const double *restrict x_padded, double *restrict y) {
#ifdef PB_VECTORS
    pb_f64x4 sum = (pb_f64x4){0};
    pb_f64x4 sum2 = (pb_f64x4){0};
    pb_f64x4 sum3 = (pb_f64x4){0};
    pb_f64x4 sum4 = (pb_f64x4){0};
    for (int64_t k = 0; k < 5; ++k) {
        const double w2 = w[k];
        const pb_f64x4 x_padded2 = *(const pb_f64x4u *)(x_padded + k);
        sum += w2 * x_padded2;
        const pb_f64x4 x_padded3 = *(const pb_f64x4u *)(x_padded + k + 4);
        sum2 += w2 * x_padded3;
        const pb_f64x4 x_padded4 = *(const pb_f64x4u *)(x_padded + k + 8);
        sum3 += w2 * x_padded4;
        const pb_f64x4 x_padded5 = *(const pb_f64x4u *)(x_padded + k + 12);
        sum4 += w2 * x_padded5;
    }
    *(pb_f64x4u *)(y) = sum;
    *(pb_f64x4u *)(y + 4) = sum2;
    *(pb_f64x4u *)(y + 8) = sum3;
    *(pb_f64x4u *)(y + 12) = sum4;
    pb_f64x4 sum5 = (pb_f64x4){0};
    for (int64_t k = 0; k < 5; ++k) {
        const double w2 = w[k];
        const pb_f64x4 x_padded2 = *(const pb_f64x4u *)(x_padded + k + 16);
        sum5 += w2 * x_padded2;
    }
    *(pb_f64x4u *)(y + 16) = sum5;
#else
    for (int64_t n = 0; n < 20; ++n) {
        double sum = 0.0;
        for (int64_t k = 0; k < 5; ++k) {
            sum += w[k] * x_padded[n + k];
        }
        y[n] = sum;
    }
#endif
}

/* Returns 0. `arena` has 192 bytes, aligned to 64. */
int padded(const double *restrict x, const double *restrict w, double *restrict y, double *restrict z,
           void *restrict arena) {
    double *const x_padded = (double *)arena; /* f64[24] */

    padded_x_padded(x, x_padded);
    padded_y(w, x_padded, y);
    padded_x_padded(y, z);
    return 0;
}
