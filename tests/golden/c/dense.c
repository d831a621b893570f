/* dense
 *
 * inputs   x: f32[5, 7], w: f32[3, 7], b: f32[3]
 *
 * outputs  y: f32[5, 3]
 *
 * 420 multiply-adds, 0 buffers, peak 0 bytes
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

#if defined(PB_VECTORS) && defined(__SSE__)
#define PB_HOLD_4(v) __asm__("" : "+x"(v))
#else
#define PB_HOLD_4(v) (void)0
#endif

typedef float pb_f32x2 __attribute__((vector_size(8)));
typedef float pb_f32x2u __attribute__((vector_size(8), aligned(4), may_alias));

typedef int32_t pb_i32x2 __attribute__((vector_size(8)));
typedef int32_t pb_i32x2u __attribute__((vector_size(8), aligned(4), may_alias));

PB_INLINE pb_f32x2 pb_choose_f32x2(pb_i32x2 mask, pb_f32x2 a, pb_f32x2 b) {
    return (pb_f32x2)((mask & (pb_i32x2)a) | (~mask & (pb_i32x2)b));
}

PB_INLINE pb_f32x2 pb_least_f32x2(pb_f32x2 bound, pb_f32x2 x)
{
    return pb_choose_f32x2(bound < x, bound, x);
}

PB_INLINE pb_f32x2 pb_most_f32x2(pb_f32x2 bound, pb_f32x2 x)
{
    return pb_choose_f32x2(bound > x, bound, x);
}

PB_INLINE pb_f32x2 pb_exp_f32x2(pb_f32x2 x)
{
    x = pb_most_f32x2((pb_f32x2){0} + -104.0f, pb_least_f32x2((pb_f32x2){0} + 89.0f, x));
    pb_f32x2 t = x * 1.44269504f + 12582912.0f, n = t - 12582912.0f;
    pb_f32x2 r = x - n * 0.693359375f - n * -2.12194440e-4f, r2 = r * r;
    pb_f32x2 q = (0.00836919248f * r2 + 0.166665167f) * r + ((0.00138389028f * r2 + 0.0416681021f) * r2 + 0.49999994f);
    pb_f32x2 z = r + r2 * q; /* e^r - 1 */
    pb_f32x2 t1 = n * 0.5f + 12582912.0f, t2 = n - (t1 - 12582912.0f) + 12582912.0f;
    pb_f32x2 s1 = (pb_f32x2)(((pb_i32x2)t1 << 23) + 0x3f800000), s2 = (pb_f32x2)(((pb_i32x2)t2 << 23) + 0x3f800000);
    return (s1 + s1 * z) * s2;
}
#endif

/* Returns 0. `arena` is not used and may be null. */
int dense(const float *restrict x, const float *restrict w, const float *restrict b, float *restrict y,
          void *restrict arena) {
    (void)arena;

    /* y = build n < 5, k < 3 { exp(sum m < 7 { x[n, m] * w[k, m] } + b[k]) } */
#ifdef PB_VECTORS
    const float b2 = b[2];
    pb_f32x2 sum = (pb_f32x2){0};
    float sum2 = 0.0f;
    pb_f32x2 sum3 = (pb_f32x2){0};
    float sum4 = 0.0f;
    pb_f32x2 sum5 = (pb_f32x2){0};
    float sum6 = 0.0f;
    pb_f32x2 sum7 = (pb_f32x2){0};
    float sum8 = 0.0f;
    pb_f32x2 sum9 = (pb_f32x2){0};
    float sum10 = 0.0f;
    for (int64_t m = 0; m < 7; ++m) {
        const float x2 = x[m];
        const pb_f32x2 w2 = (pb_f32x2){w[m], w[m + 7]};
        sum += x2 * w2;
        const float w3 = w[m + 14];
        sum2 += x2 * w3;
        PB_HOLD_4(sum2);
        const float x3 = x[m + 7];
        sum3 += x3 * w2;
        sum4 += x3 * w3;
        PB_HOLD_4(sum4);
        const float x4 = x[m + 14];
        sum5 += x4 * w2;
        sum6 += x4 * w3;
        PB_HOLD_4(sum6);
        const float x5 = x[m + 21];
        sum7 += x5 * w2;
        sum8 += x5 * w3;
        PB_HOLD_4(sum8);
        const float x6 = x[m + 28];
        sum9 += x6 * w2;
        sum10 += x6 * w3;
        PB_HOLD_4(sum10);
    }
    const pb_f32x2 b3 = *(const pb_f32x2u *)(b);
    const pb_f32x2 exp_ = pb_exp_f32x2(sum + b3);
    *(pb_f32x2u *)(y) = exp_;
    y[2] = expf(sum2 + b2);
    const pb_f32x2 exp_2 = pb_exp_f32x2(sum3 + b3);
    *(pb_f32x2u *)(y + 3) = exp_2;
    y[5] = expf(sum4 + b2);
    const pb_f32x2 exp_3 = pb_exp_f32x2(sum5 + b3);
    *(pb_f32x2u *)(y + 6) = exp_3;
    y[8] = expf(sum6 + b2);
    const pb_f32x2 exp_4 = pb_exp_f32x2(sum7 + b3);
    *(pb_f32x2u *)(y + 9) = exp_4;
    y[11] = expf(sum8 + b2);
    const pb_f32x2 exp_5 = pb_exp_f32x2(sum9 + b3);
    *(pb_f32x2u *)(y + 12) = exp_5;
    y[14] = expf(sum10 + b2);
#else
    for (int64_t n = 0; n < 5; ++n) {
        for (int64_t k = 0; k < 3; ++k) {
            float sum = 0.0f;
            for (int64_t m = 0; m < 7; ++m) {
                sum += x[n * 7 + m] * w[k * 7 + m];
            }
            y[n * 3 + k] = expf(sum + b[k]);
        }
    }
#endif
    return 0;
}
