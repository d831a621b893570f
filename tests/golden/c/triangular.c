/* triangular
 *
 * inputs   a: f64[6, 6], b: f64[6, 6]
 *
 * outputs  c: f64[6, 6], d: f64[6, 6], e: f64[6]
 *
 * 432 multiply-adds, 0 buffers, peak 0 bytes
 */

#include <stdint.h>
#include <string.h>

static inline int64_t pb_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* c = build i < 6, j < 6 { sum k < 6 { [i >= k, k >= j] a[i, k] * b[k, j] } } */
static void triangular_c(const double *restrict a, const double *restrict b, double *restrict c) {
    for (int64_t i = 0; i < 6; ++i) {
        for (int64_t j = 0; j < 6; ++j) {
            double sum = 0.0;
            for (int64_t k = j; k < i + 1; ++k) {
                sum += a[i * 6 + k] * b[k * 6 + j];
            }
            c[i * 6 + j] = sum;
        }
    }
}

/* d = build i < 6, j < 6 { [2 * i + 3 >= 3 * j, 2 * j >= i] a[i, j] } */
static void triangular_d(const double *restrict a, double *restrict d) {
    for (int64_t i = 0; i < 6; ++i) {
        memset(d + i * 6, 0, (size_t)((i + 1) / 2 * 8));
        for (int64_t j = (i + 1) / 2; j < i * 2 / 3 + 2; ++j) {
            d[i * 6 + j] = a[i * 6 + j];
        }
        memset(d + i * 6 + i * 2 / 3 + 2, 0, (size_t)(32 - i * 2 / 3 * 8));
    }
}

/* e = build i < 6 { sum j < 6, k < 6 { [j + k >= i, j == 2 * k] a[j, k] * b[i, k] } } */
static void triangular_e(const double *restrict a, const double *restrict b, double *restrict e) {
    for (int64_t i = 0; i < 6; ++i) {
        double sum = 0.0;
        for (int64_t j = 0; j < 6; ++j) {
            for (int64_t k = pb_max((j + 1) / 2, i - j); k < j / 2 + 1; ++k) {
                sum += a[j * 6 + k] * b[i * 6 + k];
            }
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
