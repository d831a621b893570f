/* reshaped
 *
 * inputs   x: f32[4, 6]
 *
 * outputs  z: f32[24]
 *
 * 48 multiply-adds, 0 buffers, peak 0 bytes
 */

#include <stdint.h>

/* Returns 0. `arena` is not used and may be null. */
int reshaped(const float *restrict x, float *restrict z, void *restrict arena) {
    (void)arena;

    /* z = build i < 24 { x[i // 6, i % 6] * f32(as_i32(i)) } */
    for (int64_t i = 0; i < 24; ++i) {
        z[i] = x[i] * (float)(int32_t)i;
    }
    return 0;
}
