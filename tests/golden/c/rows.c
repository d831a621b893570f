/* rows
 *
 * inputs   h0: f64[3], x: f64[4, 3]
 *
 * outputs  h: f64[3], old: f64[4, 3], new: f64[4, 3], twice: f64[4, 4, 3]
 *
 * 252 multiply-adds, 0 buffers, peak 0 bytes
 */

#include <math.h>
#include <stdint.h>
#include <string.h>

/* r = build n < 3 { tanh(h[n] + x[t, n]) } */
static inline void rows_r(const double *restrict x, double *restrict h, int64_t t) {
    for (int64_t n = 0; n < 3; ++n) {
        h[n] = tanh(h[n] + x[t * 3 + n]);
    }
}

/* Returns 0. `arena` is not used and may be null. */
int rows(const double *h0, const double *restrict x, double *restrict h, double *restrict old, double *restrict new_,
         double *restrict twice, void *restrict arena) {
    (void)arena;

    /* h_1, old, new, twice = fold t < 4 (h = h0) */
    if (h != h0) memcpy(h, h0, 24);
    for (int64_t t = 0; t < 4; ++t) {
        old[t * 3] = h[0];
        old[t * 3 + 1] = h[1];
        old[t * 3 + 2] = h[2];
        rows_r(x, h, t);
        new_[t * 3] = h[0];
        new_[t * 3 + 1] = h[1];
        new_[t * 3 + 2] = h[2];
        memcpy(twice + t * 12, x, 96);
    }
    return 0;
}
