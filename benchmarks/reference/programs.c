/* Programs with their gradients, written by hand as plain loops that a compiler turns into vectors: what a C
 * programmer would ship, compiled with -O3 and fast mathematics. Each function takes its inputs, its outputs and working
 * memory, as compiled functions of the package do, and returns 0. Sizes are macros given at compilation.
 */
#include <math.h>
#include <string.h>

/* value and gradient of log Σ exp v, the largest element taken out first */
int log_sum_exp(const float *restrict v, float *restrict value, float *restrict v_bar, float *restrict work) {
    (void)work;
    float largest = v[0], total = 0;
    for (int i = 0; i < N; ++i) largest = v[i] > largest ? v[i] : largest;
    for (int i = 0; i < N; ++i) total += v_bar[i] = expf(v[i] - largest);
    const float scale = 1 / total;
    for (int i = 0; i < N; ++i) v_bar[i] *= scale;
    *value = largest + logf(total);
    return 0;
}

/* largest elements of 2 × 2 blocks of P images, and the cotangent g sent to the first of each */
int max_pool(const float *restrict x, const float *restrict g, float *restrict y, float *restrict x_bar,
             float *restrict work) {
    (void)work;
    for (int p = 0; p < P; ++p)
        for (int i = 0; i < H / 2; ++i) {
            const float *a = x + (p * H + 2 * i) * W, *b = a + W, *own = g + (p * (H / 2) + i) * (W / 2);
            float *c = x_bar + (p * H + 2 * i) * W, *d = c + W, *out = y + (p * (H / 2) + i) * (W / 2);
            for (int j = 0; j < W / 2; ++j) {
                const float s = a[2 * j], t = a[2 * j + 1], u = b[2 * j], v = b[2 * j + 1];
                const float top = s >= t ? s : t, bottom = u >= v ? u : v, most = top >= bottom ? top : bottom;
                const int first = s == most, second = !first & (t == most), third = !first & !second & (u == most);
                out[j] = most;
                c[2 * j] = first ? own[j] : 0;
                c[2 * j + 1] = second ? own[j] : 0;
                d[2 * j] = third ? own[j] : 0;
                d[2 * j + 1] = !first & !second & !third ? own[j] : 0;
            }
        }
    return 0;
}

/* Σ n: log Σ k: exp(height k - Σ d: z² / 2) with z = (x[n, d] - mean[k, d]) exp(-scale[k, d]), one pass over points */
int mixture(const float *restrict weight, const float *restrict mean, const float *restrict scale,
            const float *restrict x, float *restrict value, float *restrict weight_bar, float *restrict mean_bar,
            float *restrict scale_bar, float *restrict work) {
    float *height = work, *score = work + K, *sharp = work + 2 * K, *middle = sharp + K * D; /* axes d, k: k innermost */
    float *m_bar = middle + K * D, *s_bar = m_bar + K * D;
    float largest = weight[0], total = 0, sum = 0;
    for (int k = 0; k < K; ++k) largest = weight[k] > largest ? weight[k] : largest;
    for (int k = 0; k < K; ++k) total += expf(weight[k] - largest);
    const float whole = largest + logf(total);
    for (int k = 0; k < K; ++k) {
        height[k] = weight[k] - whole;
        for (int d = 0; d < D; ++d) {
            height[k] -= scale[k * D + d];
            sharp[d * K + k] = expf(-scale[k * D + d]);
            middle[d * K + k] = mean[k * D + d];
        }
    }
    memset(weight_bar, 0, K * sizeof(float));
    memset(m_bar, 0, 2 * K * D * sizeof(float));
    for (int n = 0; n < N; ++n) {
        for (int k = 0; k < K; ++k) score[k] = 0;
        for (int d = 0; d < D; ++d)
            for (int k = 0; k < K; ++k) {
                const float z = (x[n * D + d] - middle[d * K + k]) * sharp[d * K + k];
                score[k] += z * z;
            }
        float most = height[0] - score[0] / 2, all = 0;
        for (int k = 0; k < K; ++k) {
            score[k] = height[k] - score[k] / 2;
            most = score[k] > most ? score[k] : most;
        }
        for (int k = 0; k < K; ++k) all += score[k] = expf(score[k] - most);
        const float share = 1 / all;
        for (int k = 0; k < K; ++k) weight_bar[k] += score[k] *= share;
        for (int d = 0; d < D; ++d)
            for (int k = 0; k < K; ++k) {
                const float z = (x[n * D + d] - middle[d * K + k]) * sharp[d * K + k];
                m_bar[d * K + k] += score[k] * z;
                s_bar[d * K + k] += score[k] * z * z;
            }
        sum += most + logf(all);
    }
    *value = sum;
    for (int k = 0; k < K; ++k) {
        for (int d = 0; d < D; ++d) {
            mean_bar[k * D + d] = m_bar[d * K + k] * sharp[d * K + k];
            scale_bar[k * D + d] = s_bar[d * K + k] - weight_bar[k];
        }
    }
    for (int k = 0; k < K; ++k) weight_bar[k] -= N * expf(weight[k] - whole);
    return 0;
}
