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

/* y = build n < 7 { x[n] > 0.0 ? log(x[n]) : 0.0 } */
static void guarded_y(const double *restrict x, double *restrict y) {
    for (int64_t n = 0; n < 7; ++n) {
        const double x2 = x[n];
        y[n] = x2 > 0.0 ? log(x2) : 0.0;
    }
}

/* z = build n < 7 { x[n] > 0.0 ? sum m < 7 { x[m] * y[n] } : 2.0 * x[n] } */
static void guarded_z(const double *restrict x, const double *restrict y, double *restrict z) {
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
static void guarded_w(const double *restrict x, const double *restrict y, double *restrict w) {
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
