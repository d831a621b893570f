/* chosen
 *
 * inputs   x: f64[5], y: f64[5]
 *
 * outputs  a: f64[5], b: f64[5], z: f64[5]
 *
 * 21 multiply-adds, 2 buffers, peak 128 bytes
 */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* s = build { sum n < 5 { x[n] } > 0.0 } */
static void chosen_s(const double *restrict x, bool *restrict s) {
    double sum = 0.0;
    for (int64_t n = 0; n < 5; ++n) {
        sum += x[n];
    }
    s[0] = sum > 0.0;
}

/* t = build n < 5 { 2.0 * x[n] } */
static void chosen_t(const double *restrict x, double *restrict t) {
    for (int64_t n = 0; n < 5; ++n) {
        t[n] = 2.0 * x[n];
    }
}

/* c = build n < 5 { x[n] + y[n] } */
static void chosen_c(const double *restrict x, const double *restrict y, double *restrict c) {
    for (int64_t n = 0; n < 5; ++n) {
        c[n] = x[n] + y[n];
    }
}

/* d = build n < 5 { x[n] * y[n] } */
static void chosen_d(const double *restrict x, const double *restrict y, double *restrict d) {
    for (int64_t n = 0; n < 5; ++n) {
        d[n] = x[n] * y[n];
    }
}

/* e = build n < 5 { t[n] + 1.0 } */
static void chosen_e(const double *restrict t, double *restrict e) {
    for (int64_t n = 0; n < 5; ++n) {
        e[n] = t[n] + 1.0;
    }
}

/* Returns 0. `arena` has 128 bytes, aligned to 64. */
int chosen(const double *restrict x, const double *restrict y, double *restrict a, double *restrict b,
           double *restrict z, void *restrict arena) {
    bool *const s = (bool *)((char *)arena + 64); /* bool[] */
    double *const t = (double *)arena; /* f64[5] */

    chosen_s(x, s);
    chosen_t(x, t);
    /* a, b = if s */
    if (s[0]) {
        chosen_c(x, y, a);
        memcpy(b, x, 40);
    } else {
        chosen_d(x, y, b);
        memcpy(a, y, 40);
    }
    /* z = if s */
    if (s[0]) {
        chosen_e(t, z);
    } else {
        memcpy(z, t, 40);
    }
    return 0;
}
