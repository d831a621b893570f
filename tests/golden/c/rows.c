/* rows
 *
 * inputs   h0: f64[3], x: f64[4, 3]
 *
 * outputs  h: f64[3], old: f64[4, 3], new: f64[4, 3], twice: f64[4, 4, 3]
 *
 * 252 multiply-adds, 1 buffer, peak 64 bytes
 */

#include <math.h>
#include <stdint.h>
#include <string.h>

/* r = build n < 3 { tanh(h[n] + x[t, n]) } */
static void rows_r(const double *restrict h, const double *restrict x, double *restrict r, int64_t t) {
    for (int64_t n = 0; n < 3; ++n) {
        r[n] = tanh(h[n] + x[t * 3 + n]);
    }
}

/* Returns 0. `arena` has 64 bytes, aligned to 64. */
int rows(const double *h0, const double *restrict x, double *restrict h, double *restrict old, double *restrict new_,
         double *restrict twice, void *restrict arena) {
    double *const r = (double *)arena; /* f64[3] */

    /* h_1, old, new, twice = fold t < 4 (h = h0) { */
    if (h != h0) memcpy(h, h0, 24);
    for (int64_t t = 0; t < 4; ++t) {
        memcpy(old + t * 3, h, 24);
        rows_r(h, x, r, t);
        memcpy(new_ + t * 3, r, 24);
        memcpy(twice + t * 12, x, 96);
        memcpy(h, r, 24);
    }
    return 0;
}
