/* collatz
 *
 * inputs   a0: i64[], n0: i64[]
 *
 * outputs  a: i64[], n: i64[]
 *
 * 22 multiply-adds, 0 buffers, peak 0 bytes
 */

#include <stdbool.h>
#include <stdint.h>

static inline int64_t pb_remainder_i64(int64_t a, int64_t b) {
    if (b == 0 || b == -1) return 0;
    int64_t r = (int64_t)(a % b);
    return (int64_t)(r != 0 && (r < 0) != (b < 0) ? r + b : r);
}

static inline int64_t pb_floor_divide_i64(int64_t a, int64_t b) {
    if (b == 0) return 0;
    if (b == -1) return (int64_t)((uint64_t)0 - (uint64_t)a); /* wraps */
    return (int64_t)(a / b - ((a % b != 0) && ((a < 0) != (b < 0))));
}

/* Returns 0. `arena` is not used and may be null. */
int collatz(const int64_t *a0, const int64_t *n0, int64_t *restrict a, int64_t *restrict n, void *restrict arena) {
    (void)arena;
    bool c[1]; /* bool[] */

    /* a_1, n_1 = while (a = a0, n = n0) at most 1000 */
    a[0] = a0[0];
    n[0] = n0[0];
    for (int64_t trip = 0; trip < 1000; ++trip) {
        /* c = build { a > 1 } */
        c[0] = a[0] > 1;
        if (!c[0]) {
            break;
        }
        /* b = build { a % 2 == 0 ? a // 2 : 3 * a + 1 } */
        const int64_t a2 = a[0];
        a[0] = pb_remainder_i64(a2, 2) == 0 ? pb_floor_divide_i64(a2, 2) : (int64_t)((uint64_t)(int64_t)((uint64_t)3
            * (uint64_t)a2) + (uint64_t)1);
        /* m = build { n + 1 } */
        n[0] = (int64_t)((uint64_t)n[0] + (uint64_t)1);
    }
    return 0;
}
