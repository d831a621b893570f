/* nested
 *
 * inputs   a0: f64[6], x: f64[4, 6]
 *
 * outputs  a: f64[6]
 *
 * 324 multiply-adds, 0 buffers, peak 0 bytes
 */

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline double pb_maximum_f64(double a, double b) {
    return a < b || b != b ? b : a;
}

/* l = build { sum n < 6 { b[n] * x[t, n] } } */
static inline void nested_l(const double *restrict b, const double *restrict x, double *restrict l, int64_t t) {
    double sum = 0.0;
    for (int64_t n = 0; n < 6; ++n) {
        sum += b[n] * x[t * 6 + n];
    }
    l[0] = sum;
}

/* c = build n < 6 { b[n] - 0.1 * l * x[t, n] } */
static inline void nested_c(const double *restrict l, const double *restrict x, double *restrict b, int64_t t) {
    const double l2 = l[0];
    for (int64_t n = 0; n < 6; ++n) {
        b[n] = b[n] + -0.1 * l2 * x[t * 6 + n];
    }
}

/* m = build { max s < 3 { ls[s] } } */
static inline void nested_m(const double *restrict ls, double *restrict m) {
    double largest = -(double)INFINITY;
    for (int64_t s = 0; s < 3; ++s) {
        largest = pb_maximum_f64(largest, ls[s]);
    }
    m[0] = largest;
}

/* d = build n < 6 { m * b[n] } */
static inline void nested_d(const double *restrict m, double *restrict b) {
    const double m2 = m[0];
    for (int64_t n = 0; n < 6; ++n) {
        b[n] = m2 * b[n];
    }
}

/* Returns 0. `arena` is not used and may be null. */
int nested(const double *a0, const double *restrict x, double *restrict a, void *restrict arena) {
    (void)arena;
    double ls[3]; /* f64[3] */
    double m[1]; /* f64[] */

    /* a_1 = fold t < 4 (a = a0) */
    if (a != a0) memcpy(a, a0, 48);
    for (int64_t t = 0; t < 4; ++t) {
        /* b_1, ls = fold s < 3 (b = a) */
        for (int64_t s = 0; s < 3; ++s) {
            nested_l(a, x, ls + s, t);
            nested_c(ls + s, x, a, t);
        }
        nested_m(ls, m);
        nested_d(m, a);
    }
    return 0;
}
