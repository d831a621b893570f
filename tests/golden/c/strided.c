/* strided
 *
 * inputs   x: f32[3, 17], w: f32[4, 3, 3]
 *
 * outputs  z: f32[4], y: f32[4, 8]
 *
 * 320 multiply-adds, 0 buffers, peak 0 bytes
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

#if defined(__GNUC__) && __GNUC__ >= 8 && !defined(__clang__)
#define PB_KEPT __attribute__((noipa)) /* gcc 12 leaves out some calls that it thinks do nothing */
#else
#define PB_KEPT
#endif

static inline float pb_maximum_f32(float a, float b) {
    return a < b || b != b ? b : a;
}

#ifdef PB_VECTORS
#define PB_INLINE static inline __attribute__((always_inline, unused)) /* which are used depends on the processor */

typedef float pb_f32x8 __attribute__((vector_size(32)));
typedef float pb_f32x8u __attribute__((vector_size(32), aligned(4), may_alias));

PB_INLINE pb_f32x8 pb_splat_f32x8(float x) {
    return (pb_f32x8){x, x, x, x, x, x, x, x};
}

typedef int32_t pb_i32x8 __attribute__((vector_size(32)));
typedef int32_t pb_i32x8u __attribute__((vector_size(32), aligned(4), may_alias));

#ifdef __has_builtin
#define PB_HAS(builtin) __has_builtin(builtin)
#else
#define PB_HAS(builtin) 1 /* gcc before 10, which has them */
#endif

PB_INLINE pb_f32x8 pb_choose_f32x8(pb_i32x8 mask, pb_f32x8 a, pb_f32x8 b) {
#if defined(__AVX__) && PB_HAS(__builtin_ia32_blendvps256)
    return __builtin_ia32_blendvps256(b, a, (pb_f32x8)mask);
#else
    return (pb_f32x8)((mask & (pb_i32x8)a) | (~mask & (pb_i32x8)b));
#endif
}

PB_INLINE pb_f32x8 pb_max_f32x8(pb_f32x8 a, pb_f32x8 b) {
#if defined(__AVX__) && PB_HAS(__builtin_ia32_maxps256)
    return pb_choose_f32x8(a != a, a, __builtin_ia32_maxps256(a, b));
#else
    return pb_choose_f32x8((a < b) | (b != b), b, a);
#endif
}

typedef float pb_f32x4 __attribute__((vector_size(16)));
typedef float pb_f32x4u __attribute__((vector_size(16), aligned(4), may_alias));

typedef float pb_f32x2 __attribute__((vector_size(8)));
typedef float pb_f32x2u __attribute__((vector_size(8), aligned(4), may_alias));

PB_INLINE float pb_max_across_f32x2(pb_f32x2 v) {
    return pb_maximum_f32(v[0], v[1]);
}

typedef int32_t pb_i32x2 __attribute__((vector_size(8)));
typedef int32_t pb_i32x2u __attribute__((vector_size(8), aligned(4), may_alias));

PB_INLINE pb_f32x2 pb_choose_f32x2(pb_i32x2 mask, pb_f32x2 a, pb_f32x2 b) {
    return (pb_f32x2)((mask & (pb_i32x2)a) | (~mask & (pb_i32x2)b));
}

PB_INLINE pb_f32x2 pb_max_f32x2(pb_f32x2 a, pb_f32x2 b) {
    return pb_choose_f32x2((a < b) | (b != b), b, a);
}

PB_INLINE float pb_max_across_f32x4(pb_f32x4 v) {
    const pb_f32x2 low = ((const pb_f32x2u *)&v)[0], high = ((const pb_f32x2u *)&v)[1];
    return pb_max_across_f32x2(pb_max_f32x2(low, high));
}

typedef int32_t pb_i32x4 __attribute__((vector_size(16)));
typedef int32_t pb_i32x4u __attribute__((vector_size(16), aligned(4), may_alias));

PB_INLINE pb_f32x4 pb_choose_f32x4(pb_i32x4 mask, pb_f32x4 a, pb_f32x4 b) {
#if defined(__SSE4_1__) && PB_HAS(__builtin_ia32_blendvps)
    return __builtin_ia32_blendvps(b, a, (pb_f32x4)mask);
#else
    return (pb_f32x4)((mask & (pb_i32x4)a) | (~mask & (pb_i32x4)b));
#endif
}

PB_INLINE pb_f32x4 pb_max_f32x4(pb_f32x4 a, pb_f32x4 b) {
#if defined(__SSE2__) && PB_HAS(__builtin_ia32_maxps)
    return pb_choose_f32x4(a != a, a, __builtin_ia32_maxps(a, b));
#else
    return pb_choose_f32x4((a < b) | (b != b), b, a);
#endif
}

PB_INLINE float pb_max_across_f32x8(pb_f32x8 v) {
    const pb_f32x4 low = ((const pb_f32x4u *)&v)[0], high = ((const pb_f32x4u *)&v)[1];
    return pb_max_across_f32x4(pb_max_f32x4(low, high));
}
#endif

/* y = build o < 4, h < 8 { sum c < 3, k < 3 { x[c, 2 * h + k] * w[o, c, k] } } */
/* tile: tile o 4 | vector h 8 */
static PB_KEPT void strided_y(const float *restrict x, const float *restrict w, float *restrict y) {
#ifdef PB_VECTORS
    pb_f32x8 sum = (pb_f32x8){0};
    pb_f32x8 sum2 = (pb_f32x8){0};
    pb_f32x8 sum3 = (pb_f32x8){0};
    pb_f32x8 sum4 = (pb_f32x8){0};
    for (int64_t c = 0; c < 3; ++c) {
        for (int64_t k = 0; k < 3; ++k) {
            const pb_f32x8 x2 = (pb_f32x8){x[c * 17 + k], x[c * 17 + k + 2], x[c * 17 + k + 4], x[c * 17 + k + 6],
                x[c * 17 + k + 8], x[c * 17 + k + 10], x[c * 17 + k + 12], x[c * 17 + k + 14]};
            const float w2 = w[c * 3 + k];
            sum += w2 * x2;
            const float w3 = w[c * 3 + k + 9];
            sum2 += w3 * x2;
            const float w4 = w[c * 3 + k + 18];
            sum3 += w4 * x2;
            const float w5 = w[c * 3 + k + 27];
            sum4 += w5 * x2;
        }
    }
    *(pb_f32x8u *)(y) = sum;
    *(pb_f32x8u *)(y + 8) = sum2;
    *(pb_f32x8u *)(y + 16) = sum3;
    *(pb_f32x8u *)(y + 24) = sum4;
#else
    for (int64_t o = 0; o < 4; ++o) {
        for (int64_t h = 0; h < 8; ++h) {
            float sum = 0.0f;
            for (int64_t c = 0; c < 3; ++c) {
                for (int64_t k = 0; k < 3; ++k) {
                    sum += x[c * 17 + h * 2 + k] * w[o * 9 + c * 3 + k];
                }
            }
            y[o * 8 + h] = sum;
        }
    }
#endif
}

/* z = build o < 4 { max h < 8 { y[o, h] } } */
/* tile: tile o 4 | vector h 8 */
static void strided_z(const float *restrict y, float *restrict z) {
#ifdef PB_VECTORS
    pb_f32x8 max = pb_splat_f32x8(-INFINITY);
    pb_f32x8 max2 = pb_splat_f32x8(-INFINITY);
    pb_f32x8 max3 = pb_splat_f32x8(-INFINITY);
    pb_f32x8 max4 = pb_splat_f32x8(-INFINITY);
    const pb_f32x8 y2 = *(const pb_f32x8u *)(y);
    max = pb_max_f32x8(max, y2);
    const pb_f32x8 y3 = *(const pb_f32x8u *)(y + 8);
    max2 = pb_max_f32x8(max2, y3);
    const pb_f32x8 y4 = *(const pb_f32x8u *)(y + 16);
    max3 = pb_max_f32x8(max3, y4);
    const pb_f32x8 y5 = *(const pb_f32x8u *)(y + 24);
    max4 = pb_max_f32x8(max4, y5);
    const float total = pb_max_across_f32x8(max);
    const float total2 = pb_max_across_f32x8(max2);
    const float total3 = pb_max_across_f32x8(max3);
    const float total4 = pb_max_across_f32x8(max4);
    z[0] = total;
    z[1] = total2;
    z[2] = total3;
    z[3] = total4;
#else
    for (int64_t o = 0; o < 4; ++o) {
        float largest = -INFINITY;
        for (int64_t h = 0; h < 8; ++h) {
            largest = pb_maximum_f32(largest, y[o * 8 + h]);
        }
        z[o] = largest;
    }
#endif
}

/* Returns 0. `arena` is not used and may be null. */
int strided(const float *restrict x, const float *restrict w, float *restrict z, float *restrict y,
            void *restrict arena) {
    (void)arena;

    strided_y(x, w, y);
    strided_z(y, z);
    return 0;
}
