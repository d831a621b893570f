/* Derivatives written by hand as fast as we know how: the yardstick of `pullback bench derivatives`.
 *
 * Every function takes its inputs, its outputs and working memory, all sizes are macros given at compilation, and it
 * returns 0, as compiled functions of the package do: all are called the same way. double, vectors of 32 bytes.
 * N is the size of the case, K the rank of a factorization.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#define LANES 4
typedef double vec __attribute__((vector_size(32)));
typedef double loose __attribute__((vector_size(32), aligned(8), may_alias));
typedef int64_t bits __attribute__((vector_size(32)));

INLINE vec load(const double *p) { return *(const loose *)p; }
INLINE void store(double *p, vec v) { *(loose *)p = v; }
INLINE vec all(double x) { return (vec){x, x, x, x}; }
INLINE double sum(vec v) { return (v[0] + v[2]) + (v[1] + v[3]); }
#if defined(__AVX__)
INLINE vec larger(vec a, vec b) { return (vec)_mm256_max_pd((__m256d)a, (__m256d)b); }
#else
INLINE vec larger(vec a, vec b) {
    const bits mask = a > b;
    return (vec)((mask & (bits)a) | (~mask & (bits)b));
}
#endif
INLINE double largest(vec v) {
    double a = v[0] > v[2] ? v[0] : v[2], b = v[1] > v[3] ? v[1] : v[3];
    return a > b ? a : b;
}

/* exp for arguments that are at most 0: Cody and Waite, Taylor to degree 13 by Estrin; below -708 it gives 0 or tiny */
INLINE vec exponential(vec x) {
    x = larger(x, all(-708.0));
    const vec shifted = x * 1.4426950408889634 + 6755399441055744.0, n = shifted - 6755399441055744.0;
    const vec r = x - n * 0.693147180369123816490 - n * 1.90821492927058770002e-10;
    const vec r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;
    const vec a = (r + 1.0) + r2 * (r * (1.0 / 6) + 0.5);
    const vec b = (r * (1.0 / 120) + 1.0 / 24) + r2 * (r * (1.0 / 5040) + 1.0 / 720);
    const vec c = (r * (1.0 / 362880) + 1.0 / 40320) + r2 * (r * (1.0 / 39916800) + 1.0 / 3628800);
    const vec d = r * (1.0 / 6227020800) + 1.0 / 479001600;
    const vec p = (a + r4 * b) + r8 * (c + r4 * d);
    return (vec)((bits)p + ((bits)shifted << 52));
}

/* gradient of v . w in both */
int dot(const double *restrict v, const double *restrict w, double *restrict v_bar, double *restrict w_bar, void *arena) {
    (void)arena;
    memcpy(v_bar, w, sizeof(double) * N);
    memcpy(w_bar, v, sizeof(double) * N);
    return 0;
}

/* gradient of max v: the largest of each block, then the place in the best block */
int max(const double *restrict v, double *restrict v_bar, void *arena) {
    (void)arena;
    enum { BLOCK = 256 };
    double best = -INFINITY;
    int64_t from = 0, n = 0;
    for (; n + BLOCK <= N; n += BLOCK) {
        vec m[8];
        UNROLL for (int k = 0; k < 8; k++) m[k] = load(v + n + LANES * k);
        for (int64_t i = 8 * LANES; i < BLOCK; i += 8 * LANES)
            UNROLL for (int k = 0; k < 8; k++) m[k] = larger(load(v + n + i + LANES * k), m[k]);
        UNROLL for (int k = 4; k > 0; k /= 2) UNROLL for (int j = 0; j < k; j++) m[j] = larger(m[j], m[j + k]);
        double here = largest(m[0]);
        if (here > best) best = here, from = n;
    }
    for (int64_t start = n; n < N; n++)
        if (v[n] > best) best = v[n], from = start;
    while (v[from] != best) from++;
    memset(v_bar, 0, sizeof(double) * N);
    v_bar[from] = 1.0;
    return 0;
}

/* Jacobian of v + w by v */
int plus(const double *restrict v, const double *restrict w, double *restrict jacobian, void *arena) {
    (void)v, (void)w, (void)arena;
    memset(jacobian, 0, sizeof(double) * N * N);
    for (int64_t n = 0; n < N; n++) jacobian[n * (N + 1)] = 1.0;
    return 0;
}

/* Jacobian of s v by s */
int scale(const double *restrict s, const double *restrict v, double *restrict jacobian, void *arena) {
    (void)s, (void)arena;
    memcpy(jacobian, v, sizeof(double) * N);
    return 0;
}

/* gradient of log(sum(exp(v))) */
int lse(const double *restrict v, double *restrict v_bar, void *arena) {
    (void)arena;
    const int64_t whole = N - N % (4 * LANES);
    vec m[4];
    UNROLL for (int k = 0; k < 4; k++) m[k] = all(-INFINITY);
    for (int64_t n = 0; n < whole; n += 4 * LANES)
        UNROLL for (int k = 0; k < 4; k++) m[k] = larger(load(v + n + LANES * k), m[k]);
    double top = largest(larger(larger(m[0], m[1]), larger(m[2], m[3])));
    for (int64_t n = whole; n < N; n++)
        if (v[n] > top) top = v[n];
    vec s[4] = {{0}, {0}, {0}, {0}};
    for (int64_t n = 0; n < whole; n += 4 * LANES)
        UNROLL for (int k = 0; k < 4; k++) {
            const vec e = exponential(load(v + n + LANES * k) - top);
            store(v_bar + n + LANES * k, e);
            s[k] += e;
        }
    double total = sum((s[0] + s[1]) + (s[2] + s[3]));
    for (int64_t n = whole; n < N; n++) total += v_bar[n] = exp(v[n] - top);
    const double factor = 1 / total;
    for (int64_t n = 0; n < whole; n += LANES) store(v_bar + n, load(v_bar + n) * factor);
    for (int64_t n = whole; n < N; n++) v_bar[n] *= factor;
    return 0;
}

/* Gradients of sum(log P + A / P), P = W H: with B = 1 / P - A / P^2 they are B Ht and Wt B.
   Rank 1: 1 / (w h) = (1 / w) (1 / h), so the inner loop divides nothing. */
int nnmf(const double *restrict a, const double *restrict w, const double *restrict h, double *restrict w_bar,
         double *restrict h_bar, void *arena) {
    double *restrict inverse = arena;
    for (int64_t n = 0; n < N; n++) inverse[n] = 1 / h[n];
    memset(h_bar, 0, sizeof(double) * N);
    const int64_t rows = N - N % 4, columns = N - N % LANES;
    for (int64_t m = 0; m < rows; m += 4) {
        vec total[4] = {{0}, {0}, {0}, {0}};
        double one[4];
        UNROLL for (int k = 0; k < 4; k++) one[k] = 1 / w[m + k];
        for (int64_t n = 0; n < columns; n += LANES) {
            const vec i = load(inverse + n), g = load(h + n);
            vec c = load(h_bar + n);
            UNROLL for (int k = 0; k < 4; k++) {
                const vec r = i * one[k], b = r - load(a + (m + k) * N + n) * (r * r);
                total[k] += b * g;
                c += b * w[m + k];
            }
            store(h_bar + n, c);
        }
        UNROLL for (int k = 0; k < 4; k++) {
            double t = sum(total[k]);
            for (int64_t n = columns; n < N; n++) {
                const double r = inverse[n] * one[k], b = r - a[(m + k) * N + n] * (r * r);
                t += b * h[n];
                h_bar[n] += b * w[m + k];
            }
            w_bar[m + k] = t;
        }
    }
    for (int64_t m = rows; m < N; m++) {
        double t = 0;
        for (int64_t n = 0; n < N; n++) {
            const double r = inverse[n] / w[m], b = r - a[m * N + n] * (r * r);
            t += b * h[n];
            h_bar[n] += b * w[m];
        }
        w_bar[m] = t;
    }
    return 0;
}

/* Rank K, W (N, K), H (K, N): four rows at a time, columns in blocks that stay in the first cache with H's rows. */
int nnmf_rank(const double *restrict a, const double *restrict w, const double *restrict h, double *restrict w_bar,
              double *restrict h_bar, void *arena) {
    enum { BLOCK = 200 };
    double *restrict b = arena; /* 4 x BLOCK */
    memset(h_bar, 0, sizeof(double) * K * N);
    memset(w_bar, 0, sizeof(double) * N * K);
    for (int64_t start = 0; start < N; start += BLOCK) {
        const int64_t width = N - start < BLOCK ? N - start : BLOCK, whole = width - width % LANES;
        for (int64_t m = 0; m < N; m += 4) {
            for (int64_t n = 0; n < whole; n += LANES) {
                vec p[4] = {{0}, {0}, {0}, {0}};
                for (int64_t k = 0; k < K; k++) {
                    const vec g = load(h + k * N + start + n);
                    UNROLL for (int i = 0; i < 4; i++) p[i] += g * w[(m + i) * K + k];
                }
                UNROLL for (int i = 0; i < 4; i++) {
                    const vec r = 1.0 / p[i];
                    store(b + i * BLOCK + n, r - load(a + (m + i) * N + start + n) * (r * r));
                }
            }
            for (int64_t n = whole; n < width; n++)
                for (int i = 0; i < 4; i++) {
                    double p = 0;
                    for (int64_t k = 0; k < K; k++) p += h[k * N + start + n] * w[(m + i) * K + k];
                    b[i * BLOCK + n] = 1 / p - a[(m + i) * N + start + n] / (p * p);
                }
            for (int64_t k = 0; k < K; k++) {
                vec t[4] = {{0}, {0}, {0}, {0}};
                for (int64_t n = 0; n < whole; n += LANES) {
                    const vec g = load(h + k * N + start + n);
                    vec c = load(h_bar + k * N + start + n);
                    UNROLL for (int i = 0; i < 4; i++) {
                        const vec x = load(b + i * BLOCK + n);
                        t[i] += x * g;
                        c += x * w[(m + i) * K + k];
                    }
                    store(h_bar + k * N + start + n, c);
                }
                UNROLL for (int i = 0; i < 4; i++) w_bar[(m + i) * K + k] += sum(t[i]);
                for (int64_t n = whole; n < width; n++)
                    for (int i = 0; i < 4; i++) {
                        w_bar[(m + i) * K + k] += b[i * BLOCK + n] * h[k * N + start + n];
                        h_bar[k * N + start + n] += b[i * BLOCK + n] * w[(m + i) * K + k];
                    }
            }
        }
    }
    return 0;
}

/* Bundle adjustment. y = R (x - c) with R = R(r); e = y12 / y3; q = |e|^2; out = f e (1 + k1 q + k2 q^2) + x0.
   R and its three derivatives by r do not depend on the point. */
typedef struct {
    double rotation[9], by_r[3][9], c[3], f, k1, k2;
} camera;

static camera prepared(const double *p) {
    camera m;
    const double square = p[0] * p[0] + p[1] * p[1] + p[2] * p[2], angle = sqrt(square);
    const double v[3] = {p[0] / angle, p[1] / angle, p[2] / angle};
    const double s = sin(angle), t = cos(angle);
    /* R = t I + s [v] + (1 - t) v vT;  d angle / d r_j = v_j;  d v_i / d r_j = ([i = j] - v_i v_j) / angle */
    const double cross[9] = {0, -v[2], v[1], v[2], 0, -v[0], -v[1], v[0], 0};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) m.rotation[3 * i + k] = t * (i == k) + s * cross[3 * i + k] + (1 - t) * v[i] * v[k];
    for (int j = 0; j < 3; j++) {
        double d[3];
        for (int i = 0; i < 3; i++) d[i] = ((i == j) - v[i] * v[j]) / angle;
        const double turn[9] = {0, -d[2], d[1], d[2], 0, -d[0], -d[1], d[0], 0};
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 3; k++)
                m.by_r[j][3 * i + k] = v[j] * (-s * (i == k) + t * cross[3 * i + k] + s * v[i] * v[k]) +
                                       s * turn[3 * i + k] + (1 - t) * (d[i] * v[k] + v[i] * d[k]);
    }
    memcpy(m.c, p + 3, sizeof m.c);
    m.f = p[6], m.k1 = p[9], m.k2 = p[10];
    return m;
}

/* The derivatives of out (2) of LANES points by camera (11) and point (3). */
INLINE void derivatives_of(const camera *m, const vec x[3], vec by_camera[2][11], vec by_point[2][3]) {
    vec z[3], y[3];
    UNROLL for (int k = 0; k < 3; k++) z[k] = x[k] - m->c[k];
    UNROLL for (int k = 0; k < 3; k++)
        y[k] = m->rotation[3 * k] * z[0] + m->rotation[3 * k + 1] * z[1] + m->rotation[3 * k + 2] * z[2];
    const vec w = 1.0 / y[2], e[2] = {y[0] * w, y[1] * w}, q = e[0] * e[0] + e[1] * e[1];
    const vec d = 1.0 + q * (m->k1 + m->k2 * q), slope = 2 * (m->k1 + 2 * m->k2 * q);
    UNROLL for (int i = 0; i < 2; i++) {
        vec g[3];
        g[0] = m->f * (slope * e[i] * e[0] + (i == 0 ? d : all(0))) * w;
        g[1] = m->f * (slope * e[i] * e[1] + (i == 1 ? d : all(0))) * w;
        g[2] = -(g[0] * e[0] + g[1] * e[1]);
        UNROLL for (int j = 0; j < 3; j++) {
            const double *a = m->by_r[j];
            by_camera[i][j] = g[0] * (a[0] * z[0] + a[1] * z[1] + a[2] * z[2]) +
                              g[1] * (a[3] * z[0] + a[4] * z[1] + a[5] * z[2]) +
                              g[2] * (a[6] * z[0] + a[7] * z[1] + a[8] * z[2]);
            by_point[i][j] = g[0] * m->rotation[j] + g[1] * m->rotation[3 + j] + g[2] * m->rotation[6 + j];
            by_camera[i][3 + j] = -by_point[i][j];
        }
        by_camera[i][6] = e[i] * d;
        by_camera[i][7] = all(i == 0);
        by_camera[i][8] = all(i == 1);
        by_camera[i][9] = m->f * e[i] * q;
        by_camera[i][10] = by_camera[i][9] * q;
    }
}

#define SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)

/* Four vectors, one element of each of four points, to each point's four neighboring elements. */
INLINE void store_transposed(double *p, int64_t stride, vec a, vec b, vec c, vec d) {
    const vec ab = SHUFFLE(a, b, 0, 4, 2, 6), cd = SHUFFLE(c, d, 0, 4, 2, 6);
    const vec ba = SHUFFLE(a, b, 1, 5, 3, 7), dc = SHUFFLE(c, d, 1, 5, 3, 7);
    store(p, SHUFFLE(ab, cd, 0, 1, 4, 5));
    store(p + stride, SHUFFLE(ba, dc, 0, 1, 4, 5));
    store(p + 2 * stride, SHUFFLE(ab, cd, 2, 3, 6, 7));
    store(p + 3 * stride, SHUFFLE(ba, dc, 2, 3, 6, 7));
}

INLINE void points(const double *p, vec x[3]) {
    UNROLL for (int k = 0; k < 3; k++) x[k] = (vec){p[k], p[k + 3], p[k + 6], p[k + 9]};
}

/* the rest of the points, fewer than LANES, is filled up with copies of the last one */
INLINE void last_points(const double *p, int64_t count, vec x[3]) {
    UNROLL for (int k = 0; k < 3; k++)
        for (int lane = 0; lane < LANES; lane++) x[k][lane] = p[3 * (lane < count ? lane : count - 1) + k];
}

/* the derivatives of points n .. by the camera, (N, 2, 11) */
INLINE void store_by_camera(double *restrict to, const vec c[2][11], int64_t count) {
    const vec *f = &c[0][0];
    if (count < LANES) {
        for (int lane = 0; lane < count; lane++)
            for (int k = 0; k < 22; k++) to[lane * 22 + k] = f[k][lane];
        return;
    }
    UNROLL for (int k = 0; k < 20; k += 4) store_transposed(to + k, 22, f[k], f[k + 1], f[k + 2], f[k + 3]);
    store_transposed(to + 18, 22, f[18], f[19], f[20], f[21]);
}

/* per point: by the camera (N, 2, 11) and by the point (N, 2, 3) */
int blocks(const double *restrict p, const double *restrict x, double *restrict by_camera, double *restrict by_point,
           void *arena) {
    (void)arena;
    const camera m = prepared(p);
    for (int64_t n = 0; n < N; n += LANES) {
        const int64_t count = N - n < LANES ? N - n : LANES;
        vec z[3], c[2][11], d[2][3];
        if (count < LANES) last_points(x + 3 * n, count, z);
        else points(x + 3 * n, z);
        derivatives_of(&m, z, c, d);
        store_by_camera(by_camera + n * 22, c, count);
        double *at = by_point + n * 6;
        const vec *g = &d[0][0];
        if (count < LANES) {
            for (int lane = 0; lane < count; lane++)
                for (int k = 0; k < 6; k++) at[lane * 6 + k] = g[k][lane];
        } else {
            store_transposed(at, 6, g[0], g[1], g[2], g[3]);
            store_transposed(at + 2, 6, g[2], g[3], g[4], g[5]);
        }
    }
    return 0;
}

/* the dense Jacobian, a row for each of 2 N results: by the camera (N, 2, 11) and by all points (N, 2, N, 3) */
int project(const double *restrict p, const double *restrict x, double *restrict by_camera, double *restrict by_points,
            void *arena) {
    (void)arena;
    const camera m = prepared(p);
    memset(by_points, 0, sizeof(double) * 2 * N * 3 * N);
    for (int64_t n = 0; n < N; n += LANES) {
        const int64_t count = N - n < LANES ? N - n : LANES;
        vec z[3], c[2][11], d[2][3];
        if (count < LANES) last_points(x + 3 * n, count, z);
        else points(x + 3 * n, z);
        derivatives_of(&m, z, c, d);
        store_by_camera(by_camera + n * 22, c, count);
        for (int64_t lane = 0; lane < count; lane++)
            for (int k = 0; k < 6; k++)
                by_points[(2 * (n + lane) + k / 3) * 3 * N + 3 * (n + lane) + k % 3] = d[k / 3][k % 3][lane];
    }
    return 0;
}
