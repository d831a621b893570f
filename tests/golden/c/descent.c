/* descent
 *
 * inputs   p0: f64[6], q0: f64[6], x: f64[4, 6]
 *
 * outputs  p: f64[6], q: f64[6], losses: f64[4]
 *
 * 192 multiply-adds, 0 buffers, peak 0 bytes
 */

#include <stdint.h>
#include <string.h>

/* l = build { sum n < 6 { p[n] * q[n] * x[t, n] } } */
static inline void descent_l(const double *restrict p, const double *restrict q, const double *restrict x,
                             double *restrict l, int64_t t) {
    double sum = 0.0;
    for (int64_t n = 0; n < 6; ++n) {
        sum += p[n] * q[n] * x[t * 6 + n];
    }
    l[0] = sum;
}

/* p_new = build n < 6 { p[n] - 0.1 * l * q[n] } */
static inline void descent_p_new(const double *restrict p, const double *restrict l, const double *restrict q,
                                 double *restrict p_new) {
    const double l2 = l[0];
    for (int64_t n = 0; n < 6; ++n) {
        p_new[n] = p[n] + -0.1 * l2 * q[n];
    }
}

/* q_new = build n < 6 { q[n] - 0.1 * l * p[n] } */
static inline void descent_q_new(const double *restrict l, const double *restrict p, double *restrict q) {
    const double l2 = l[0];
    for (int64_t n = 0; n < 6; ++n) {
        q[n] = q[n] + -0.1 * l2 * p[n];
    }
}

/* Returns 0. `arena` is not used and may be null. */
int descent(const double *p0, const double *q0, const double *restrict x, double *restrict p, double *restrict q,
            double *restrict losses, void *restrict arena) {
    (void)arena;
    double p_new[6]; /* f64[6] */

    /* p_1, q_1, losses = fold t < 4 (p = p0, q = q0) */
    if (p != p0) memcpy(p, p0, 48);
    if (q != q0) memcpy(q, q0, 48);
    for (int64_t t = 0; t < 4; ++t) {
        descent_l(p, q, x, losses + t, t);
        descent_p_new(p, losses + t, q, p_new);
        descent_q_new(losses + t, p, q);
        memcpy(p, p_new, 48);
    }
    return 0;
}
