/* gathered
 *
 * inputs   x: f32[5, 4], j: i32[7], w: f32[7]
 *
 * outputs  y: f32[7, 4], s: f32[5], t: f32[5]
 *
 * 49 multiply-adds, 0 buffers, peak 0 bytes
 */

#include <stdint.h>
#include <string.h>

/* y = build k < 7, m < 4 { w[k] * x[check(j[k], 5), m] } */
static int gathered_y(const float *restrict w, const float *restrict x, const int32_t *restrict j, float *restrict y,
                      int64_t *fault) {
    for (int64_t k = 0; k < 7; ++k) {
        const float w2 = w[k];
        const int64_t j_at = (int64_t)j[k];
        if (j_at < 0 || j_at >= 5) {
            if (fault) fault[0] = j_at, fault[1] = 5;
            return 1;
        }
        for (int64_t m = 0; m < 4; ++m) {
            y[k * 4 + m] = w2 * x[j_at * 4 + m];
        }
    }
    return 0;
}

/* s: f32[5] = scatter k < 7 { [check(j[k], 5)] += w[k] } */
static int gathered_s(const int32_t *restrict j, const float *restrict w, float *restrict s, int64_t *fault) {
    memset(s, 0, 20);
    for (int64_t k = 0; k < 7; ++k) {
        const int64_t j_at = (int64_t)j[k];
        if (j_at < 0 || j_at >= 5) {
            if (fault) fault[0] = j_at, fault[1] = 5;
            return 2;
        }
        s[j_at] += w[k];
    }
    return 0;
}

/* t: f32[5] = scatter k < 7 { [data(j[k], 5)] += [k >= 1] w[k] * y[k, 0] } */
static void gathered_t(const int32_t *restrict j, const float *restrict w, const float *restrict y, float *restrict t) {
    memset(t, 0, 20);
    for (int64_t k = 1; k < 7; ++k) {
        const int64_t j_at = (int64_t)j[k];
        t[j_at] += w[k] * y[k * 4];
    }
}

/* Returns 0, or the number of the range check that failed; `fault` may be null, else it gets
   the index and its bound. `arena` is not used and may be null. */
int gathered(const float *restrict x, const int32_t *restrict j, const float *restrict w, float *restrict y,
             float *restrict s, float *restrict t, void *restrict arena, int64_t *fault) {
    (void)arena;
    int status;

    if ((status = gathered_y(w, x, j, y, fault))) return status;
    if ((status = gathered_s(j, w, s, fault))) return status;
    gathered_t(j, w, y, t);
    return 0;
}
