/* triangular
 *
 * inputs   a: f64[6, 6], b: f64[6, 6]
 *
 * outputs  c: f64[6, 6], d: f64[6, 6], e: f64[6]
 *
 * 252 multiply-adds, 0 buffers, peak 0 bytes
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

#if defined(PB_VECTORS) && defined(__SSE2__)
#define PB_HOLD_8(v) __asm__("" : "+x"(v))
#else
#define PB_HOLD_8(v) (void)0
#endif

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
#endif

/* c = build i < 6, j < 6 { sum k < 6 { [i >= k, k >= j] a[i, k] * b[k, j] } } */
/* masked: mask j | vector j 4 rest 1 */
static void triangular_c(const double *restrict a, const double *restrict b, double *restrict c) {
#ifdef PB_VECTORS
    for (int64_t i = 0; i < 6; ++i) {
        pb_f64x4 sum = (pb_f64x4){0};
        for (int64_t k = 0; k < i + 1; ++k) {
            const pb_i64x4 holds = k + (pb_i64x4){0, -1, -2, -3} >= (pb_i64x4){0};
            const pb_f64x4 b2 = *(const pb_f64x4u *)(b + k * 6);
            const pb_f64x4 product = a[i * 6 + k] * b2;
            sum += pb_choose_f64x4(holds, product, (pb_f64x4){0});
        }
        *(pb_f64x4u *)(c + i * 6) = sum;
    }
    for (int64_t i = 0; i < 6; ++i) {
        for (int64_t j = 0; j < 2; ++j) {
            double sum = 0.0;
            for (int64_t k = j + 4; k < i + 1; ++k) {
                sum += a[i * 6 + k] * b[k * 6 + j + 4];
                PB_HOLD_8(sum);
            }
            c[i * 6 + j + 4] = sum;
        }
    }
#else
    for (int64_t i = 0; i < 6; ++i) {
        for (int64_t j = 0; j < 6; ++j) {
            double sum = 0.0;
            for (int64_t k = j; k < i + 1; ++k) {
                sum += a[i * 6 + k] * b[k * 6 + j];
            }
            c[i * 6 + j] = sum;
        }
    }
#endif
}

/* d = build i < 6, j < 6 { [2 * i + 3 >= 3 * j, 2 * j >= i] a[i, j] } */
/* masked: mask j | vector j 4 rest 1 */
static void triangular_d(const double *restrict a, double *restrict d) {
#ifdef PB_VECTORS
    for (int64_t i = 0; i < 6; ++i) {
        const pb_i64x4 holds = (i * 2 + 3 + (pb_i64x4){0, -3, -6, -9} >= (pb_i64x4){0}) & (-i + (pb_i64x4){0, 2, 4,
            6} >= (pb_i64x4){0});
        const pb_f64x4 a2 = *(const pb_f64x4u *)(a + i * 6);
        *(pb_f64x4u *)(d + i * 6) = pb_choose_f64x4(holds, a2, (pb_f64x4){0});
    }
    for (int64_t i = 0; i < 6; ++i) {
        for (int64_t j = 0; j < 2; ++j) {
            d[i * 6 + j + 4] = i * 2 >= j * 3 + 9 ? a[i * 6 + j + 4] : 0.0;
        }
    }
#else
    for (int64_t i = 0; i < 6; ++i) {
        memset(d + i * 6, 0, (size_t)((i + 1) / 2 * 8));
        for (int64_t j = (i + 1) / 2; j < i * 2 / 3 + 2; ++j) {
            d[i * 6 + j] = a[i * 6 + j];
        }
        memset(d + i * 6 + i * 2 / 3 + 2, 0, (size_t)(32 - i * 2 / 3 * 8));
    }
#endif
}

/* e = build i < 6 { sum k < 6 { [2 >= k, 3 * k >= i] a[2 * k, k] * b[i, k] } } */
static void triangular_e(const double *restrict a, const double *restrict b, double *restrict e) {
    for (int64_t i = 0; i < 6; ++i) {
        double sum = 0.0;
        for (int64_t k = (i + 2) / 3; k < 3; ++k) {
            sum += a[k * 13] * b[i * 6 + k];
        }
        e[i] = sum;
    }
}

/* Returns 0. `arena` is not used and may be null. */
int triangular(const double *restrict a, const double *restrict b, double *restrict c, double *restrict d,
               double *restrict e, void *restrict arena) {
    (void)arena;

    triangular_c(a, b, c);
    triangular_d(a, d);
    triangular_e(a, b, e);
    return 0;
}
