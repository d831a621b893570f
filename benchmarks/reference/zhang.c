/* Zhang's network, written by hand as fast as we know how: the yardstick of the benchmark.
 *
 *   image   [28,28]     c1 [6,24,24]   s1 [6,12,12]   c2 [12,8,8]   s2 [12,4,4]   y [10]
 *
 * float, or double with -DREAL_IS_DOUBLE=1. Vectors are 32 bytes wide; every loop over lanes has a constant extent, so
 * the accumulators of a tile stay in registers. One image updates the parameters at once; nothing is allocated.
 */
#include <stdint.h>
#include <string.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#if REAL_IS_DOUBLE
typedef double REAL;
#else
typedef float REAL;
#endif
#define BYTES 32
#define LANES ((int)(BYTES / sizeof(REAL)))
#define IS_F32 (sizeof(REAL) == 4)
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

typedef REAL vec __attribute__((vector_size(BYTES)));
typedef REAL loose __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias)); /* at any element */
typedef uint32_t bits32 __attribute__((vector_size(BYTES)));
typedef uint64_t bits64 __attribute__((vector_size(BYTES)));

typedef struct {
    REAL k1[6][5][5], b1[6], k2[12][6][5][5], b2[12], fc[10][12][4][4], b[10];
} parameters;

INLINE vec load(const REAL *p) { return *(const loose *)p; }
INLINE void store(REAL *p, vec v) { *(loose *)p = v; }

/* A load that stays one: compilers like to repeat it as an operand of every multiply-add that uses it. */
#if defined(__x86_64__)
#define KEEP(v) __asm__("" : "+x"(v))
#elif defined(__aarch64__)
#define KEEP(v) __asm__("" : "+w"(v))
#else
#define KEEP(v) ((void)(v))
#endif
INLINE vec fetch(const REAL *p) {
    vec v = load(p);
    KEEP(v);
    return v;
}

#if REAL_IS_DOUBLE
INLINE vec all(REAL x) { return (vec){x, x, x, x}; }
#else
INLINE vec all(REAL x) { return (vec){x, x, x, x, x, x, x, x}; }
#endif
INLINE vec choose(bits32 mask, vec a, vec b) { return (vec)((mask & (bits32)a) | (~mask & (bits32)b)); }
#if defined(__AVX__) && REAL_IS_DOUBLE
INLINE vec larger(vec a, vec b) { return (vec)_mm256_max_pd((__m256d)a, (__m256d)b); }
INLINE vec smaller(vec a, vec b) { return (vec)_mm256_min_pd((__m256d)a, (__m256d)b); }
#elif defined(__AVX__)
INLINE vec larger(vec a, vec b) { return (vec)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE vec smaller(vec a, vec b) { return (vec)_mm256_min_ps((__m256)a, (__m256)b); }
#else
INLINE vec larger(vec a, vec b) { return choose((bits32)(a > b), a, b); }
INLINE vec smaller(vec a, vec b) { return choose((bits32)(a < b), a, b); }
#endif

/* exp by x = n ln 2 + r, |r| <= ln 2 / 2, and the Taylor series of exp(r); n is added to the exponent bits. */
INLINE vec exponential(vec x) {
    const double limit = IS_F32 ? 87.0 : 708.0;
    const double rounding = IS_F32 ? 12582912.0 : 6755399441055744.0; /* 1.5 * 2^23, 1.5 * 2^52 */
    const double ln2_high = IS_F32 ? 0.693145751953125 : 0.693147180369123816490;
    const double ln2_low = 0.693147180559945309417 - ln2_high;
    x = smaller(larger(x, all((REAL)-limit)), all((REAL)limit));
    const vec shifted = x * (REAL)1.44269504088896340736 + (REAL)rounding;
    const vec n = shifted - (REAL)rounding;
    const vec r = x - n * (REAL)ln2_high - n * (REAL)(IS_F32 ? ln2_low : 1.90821492927058770002e-10);
    const int degree = IS_F32 ? 7 : 13;
    static const double inverse_factorial[14] = {
        1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880,
        1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
    vec p = all((REAL)inverse_factorial[degree]);
    UNROLL for (int i = degree - 1; i >= 0; i--) p = p * r + (REAL)inverse_factorial[i];
    if (IS_F32) return p * (vec)(((bits32)shifted + 127u) << 23);
    return p * (vec)(((bits64)shifted + 1023u) << 52);
}

INLINE vec logistic_of(vec x) { return (REAL)1 / ((REAL)1 + exponential(-x)); }

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define HAVE_SHUFFLE 1
#define SHUFFLE __builtin_shufflevector
#endif
#endif

INLINE void logistic(int count, REAL *x) {
    for (int j = 0; j < count; j += 4 * LANES)
        UNROLL for (int t = 0; t < 4; t++) store(x + j + t * LANES, logistic_of(load(x + j + t * LANES)));
}

/* Sums of the lanes of LANES vectors, one per lane of the result. */
INLINE vec sums_of_lanes(const vec *v) {
#if HAVE_SHUFFLE && REAL_IS_DOUBLE
    const vec ab = SHUFFLE(v[0], v[1], 0, 4, 2, 6) + SHUFFLE(v[0], v[1], 1, 5, 3, 7);
    const vec cd = SHUFFLE(v[2], v[3], 0, 4, 2, 6) + SHUFFLE(v[2], v[3], 1, 5, 3, 7);
    return SHUFFLE(ab, cd, 0, 1, 4, 5) + SHUFFLE(ab, cd, 2, 3, 6, 7);
#elif HAVE_SHUFFLE
#define PAIRS(a, b) (SHUFFLE(a, b, 0, 2, 8, 10, 4, 6, 12, 14) + SHUFFLE(a, b, 1, 3, 9, 11, 5, 7, 13, 15))
    const vec ab = PAIRS(v[0], v[1]), cd = PAIRS(v[2], v[3]), ef = PAIRS(v[4], v[5]), gh = PAIRS(v[6], v[7]);
    const vec abcd = PAIRS(ab, cd), efgh = PAIRS(ef, gh);
    return SHUFFLE(abcd, efgh, 0, 1, 2, 3, 8, 9, 10, 11) + SHUFFLE(abcd, efgh, 4, 5, 6, 7, 12, 13, 14, 15);
#else
    vec sums = {0};
    for (int i = 0; i < LANES; i++)
        for (int lane = 0; lane < LANES; lane++) sums[i] += v[i][lane];
    return sums;
#endif
}

INLINE REAL sum_of_lanes(vec v) {
    REAL sum = 0;
    UNROLL for (int lane = 0; lane < LANES; lane++) sum += v[lane];
    return sum;
}

/* What one image leaves behind for its backward pass. */
typedef struct {
    REAL c1[6][24][24], s1[6][12][12], c2[12][8][8], s2[12][4][4], y[10];
} activations;

/* Mean of 2 x 2 blocks of two rows. */
INLINE void pool(int columns, const REAL *upper, const REAL *lower, REAL *out) {
    for (int j = 0; j < columns; j++)
        out[j] = (upper[2 * j] + upper[2 * j + 1] + lower[2 * j] + lower[2 * j + 1]) * (REAL)0.25;
}

#define ROW2 (8 / LANES)            /* vectors in a row of c2 */
#define TILE2_ROWS (IS_F32 ? 2 : 1) /* rows of c2 at a time, by 6 channels: 12 accumulators */

/* c1[c,i,j] = logistic(b1[c] + sum p,q: image[i+p, j+q] k1[c,p,q]): 3 channels by 3 vectors at a time */
INLINE void layer1(const parameters *w, const REAL (*image)[28], activations *a) {
    for (int c = 0; c < 6; c += 3)
        for (int i = 0; i < 24; i++)
            for (int j = 0; j < 24; j += 3 * LANES) {
                vec sum[3][3];
                UNROLL for (int t = 0; t < 3; t++)
                    UNROLL for (int v = 0; v < 3; v++) sum[t][v] = all(w->b1[c + t]);
                for (int p = 0; p < 5; p++)
                    UNROLL for (int q = 0; q < 5; q++) {
                        vec x[3];
                        UNROLL for (int v = 0; v < 3; v++) x[v] = fetch(&image[i + p][q + j + v * LANES]);
                        UNROLL for (int t = 0; t < 3; t++)
                            UNROLL for (int v = 0; v < 3; v++) sum[t][v] += x[v] * w->k1[c + t][p][q];
                    }
                UNROLL for (int t = 0; t < 3; t++)
                    UNROLL for (int v = 0; v < 3; v++) store(&a->c1[c + t][i][j + v * LANES], sum[t][v]);
            }
    logistic(6 * 24 * 24, &a->c1[0][0][0]);
    for (int c = 0; c < 6; c++)
        for (int i = 0; i < 12; i++) pool(12, a->c1[c][2 * i], a->c1[c][2 * i + 1], a->s1[c][i]);
}

/* c2[o,i,j] = logistic(b2[o] + sum c,p,q: s1[c, i+p, j+q] k2[o,c,p,q]) */
INLINE void layer2(const parameters *w, activations *a) {
    for (int o = 0; o < 12; o += 6)
        for (int i = 0; i < 8; i += TILE2_ROWS) {
            vec sum[6][TILE2_ROWS][ROW2];
            UNROLL for (int t = 0; t < 6; t++)
                UNROLL for (int r = 0; r < TILE2_ROWS; r++)
                    UNROLL for (int j = 0; j < ROW2; j++) sum[t][r][j] = all(w->b2[o + t]);
            for (int c = 0; c < 6; c++)
                for (int p = 0; p < 5; p++)
                    UNROLL for (int q = 0; q < 5; q++) {
                        vec x[TILE2_ROWS][ROW2];
                        UNROLL for (int r = 0; r < TILE2_ROWS; r++)
                            UNROLL for (int j = 0; j < ROW2; j++) x[r][j] = fetch(&a->s1[c][i + r + p][q + j * LANES]);
                        UNROLL for (int t = 0; t < 6; t++)
                            UNROLL for (int r = 0; r < TILE2_ROWS; r++)
                                UNROLL for (int j = 0; j < ROW2; j++) sum[t][r][j] += x[r][j] * w->k2[o + t][c][p][q];
                    }
            UNROLL for (int t = 0; t < 6; t++)
                UNROLL for (int r = 0; r < TILE2_ROWS; r++)
                    UNROLL for (int j = 0; j < ROW2; j++)
                        store(&a->c2[o + t][i + r][j * LANES], sum[t][r][j]);
        }
    logistic(12 * 8 * 8, &a->c2[0][0][0]);
    for (int o = 0; o < 12; o++)
        for (int i = 0; i < 4; i++) pool(4, a->c2[o][2 * i], a->c2[o][2 * i + 1], a->s2[o][i]);
}

/* y[n] = logistic(b[n] + sum j: fc[n,j] s2[j]) */
INLINE void layer3(const parameters *w, activations *a) {
    REAL sums[16] __attribute__((aligned(BYTES))) = {0};
    const REAL *s2 = &a->s2[0][0][0];
    for (int n = 0; n < 10; n += 5) {
        vec sum[5];
        UNROLL for (int t = 0; t < 5; t++) sum[t] = all(0);
        for (int j = 0; j < 192; j += LANES) {
            const vec x = load(s2 + j);
            UNROLL for (int t = 0; t < 5; t++) sum[t] += x * load(&w->fc[n + t][0][0][0] + j);
        }
        UNROLL for (int t = 0; t < 5; t++) sums[n + t] = sum_of_lanes(sum[t]) + w->b[n + t];
    }
    for (int j = 0; j < 16; j += LANES) store(sums + j, logistic_of(load(sums + j)));
    memcpy(a->y, sums, sizeof a->y);
}

INLINE void forward(const parameters *w, const REAL *image, activations *a) {
    layer1(w, (const REAL(*)[28])image, a);
    layer2(w, a);
    layer3(w, a);
}

/* LANES / 2 elements, each twice. May read LANES / 2 elements more. */
INLINE vec twice(const REAL *p) {
    const vec v = load(p);
#if !HAVE_SHUFFLE
    vec pairs = v;
    for (int lane = 0; lane < LANES; lane++) pairs[lane] = v[lane / 2];
    return pairs;
#elif REAL_IS_DOUBLE
    return SHUFFLE(v, v, 0, 0, 1, 1);
#else
    return SHUFFLE(v, v, 0, 0, 1, 1, 2, 2, 3, 3);
#endif
}

/* Back through a pool and a logistic, two rows at once: bar = (pooled, spread over 2 x 2) / 4 * y * (1 - y).
 * Returns the lanes' sums. */
INLINE vec unpool(int columns, const REAL *pooled, const REAL *y, REAL *bar) {
    vec sum = all(0);
    UNROLL for (int j = 0; j < columns; j += LANES) {
        const vec spread = twice(pooled + j / 2) * (REAL)0.25;
        const vec upper = load(y + j), lower = load(y + columns + j);
        const vec g = spread * upper * ((REAL)1 - upper), h = spread * lower * ((REAL)1 - lower);
        store(bar + j, g);
        store(bar + columns + j, h);
        sum += g + h;
    }
    return sum;
}

/* Third layer: s2_bar, and fc and b stepped in place. Returns the loss. */
INLINE double backward3(parameters *w, const activations *a, int label, REAL rate, REAL *s2_bar) {
    double loss = 0;
    REAL d[10];
    for (int n = 0; n < 10; n++) {
        const REAL y = a->y[n], difference = y - (REAL)(n == label);
        loss += 0.5 * (double)difference * (double)difference;
        d[n] = difference * y * (1 - y);
        w->b[n] -= rate * d[n];
    }
    const REAL *s2 = &a->s2[0][0][0];
    for (int j = 0; j < 192; j += LANES) {
        const vec x = load(s2 + j);
        vec sum = all(0);
        UNROLL for (int n = 0; n < 10; n++) {
            REAL *row = &w->fc[n][0][0][0] + j;
            const vec k = load(row);
            sum += k * d[n];
            store(row, k - x * (rate * d[n]));
        }
        store(s2_bar + j, sum);
    }
    return loss;
}

/* k[n] -= rate * (sum of the lanes of partial[n]), n < 150 */
INLINE void step(REAL *k, const vec *partial, REAL rate) {
    REAL steps[152];
    for (int n = 0; n < 152; n += LANES) store(steps + n, sums_of_lanes(partial + n) * rate);
    for (int n = 0; n < 150; n++) k[n] -= steps[n];
}

/* s1_bar[c,u,v] = sum o,p,q: c2_bar[o,u-p,v-q] k2[o,c,p,q]: one partial sum per q in registers, shifted when stored.
 * Rows of c2_bar have one row of zeros above and below, so that two rows u share their weights. */
INLINE void backward2_input(const parameters *w, const REAL (*c2_bar)[10][8], REAL (*s1_bar)[12][12]) {
    REAL partial[12][5][16]; /* partial[u][q][4 + v] */
    memset(partial, 0, sizeof partial);
    for (int c = 0; c < 6; c++) {
        for (int u = 0; u < 12; u += 2) {
            const int first = u - 7 > 0 ? u - 7 : 0, last = u + 1 < 4 ? u + 1 : 4;
            for (int j = 0; j < ROW2; j++) {
                vec sum[2][5];
                UNROLL for (int q = 0; q < 5; q++) sum[0][q] = sum[1][q] = all(0);
                for (int p = first; p <= last; p++)
                    for (int o = 0; o < 12; o++) {
                        const vec upper = fetch(&c2_bar[o][u - p + 1][j * LANES]);
                        const vec lower = fetch(&c2_bar[o][u - p + 2][j * LANES]);
                        UNROLL for (int q = 0; q < 5; q++) {
                            const vec k = all(w->k2[o][c][p][q]);
                            sum[0][q] += upper * k;
                            sum[1][q] += lower * k;
                        }
                    }
                UNROLL for (int q = 0; q < 5; q++) {
                    store(&partial[u][q][4 + j * LANES], sum[0][q]);
                    store(&partial[u + 1][q][4 + j * LANES], sum[1][q]);
                }
            }
        }
        for (int u = 0; u < 12; u++)
            for (int v = 0; v < 12; v++) {
                REAL sum = 0;
                UNROLL for (int q = 0; q < 5; q++) sum += partial[u][q][4 + v - q];
                s1_bar[c][u][v] = sum;
            }
    }
}

/* k2[o,c,p,q] -= rate * sum i,j: c2_bar[o,i,j] s1[c,i+p,j+q] */
INLINE void backward2_weights(parameters *w, const activations *a, const REAL (*c2_bar)[10][8], REAL rate) {
    vec partial[2][152];
    UNROLL for (int t = 0; t < 2; t++) partial[t][150] = partial[t][151] = all(0);
    for (int o = 0; o < 12; o += 2) {
        for (int c = 0; c < 6; c++)
            for (int p = 0; p < 5; p++) {
                vec sum[2][5];
                UNROLL for (int q = 0; q < 5; q++) sum[0][q] = sum[1][q] = all(0);
                for (int i = 0; i < 8; i++)
                    UNROLL for (int j = 0; j < ROW2; j++) {
                        const vec first = fetch(&c2_bar[o][i + 1][j * LANES]);
                        const vec second = fetch(&c2_bar[o + 1][i + 1][j * LANES]);
                        UNROLL for (int q = 0; q < 5; q++) {
                            const vec x = fetch(&a->s1[c][i + p][q + j * LANES]);
                            sum[0][q] += first * x;
                            sum[1][q] += second * x;
                        }
                    }
                UNROLL for (int q = 0; q < 5; q++) {
                    partial[0][c * 25 + p * 5 + q] = sum[0][q];
                    partial[1][c * 25 + p * 5 + q] = sum[1][q];
                }
            }
        step(&w->k2[o][0][0][0], partial[0], rate);
        step(&w->k2[o + 1][0][0][0], partial[1], rate);
    }
}

/* k1[c,p,q] -= rate * sum i,j: c1_bar[c,i,j] image[i+p,j+q] */
INLINE void backward1(parameters *w, const REAL (*image)[28], const REAL (*c1_bar)[24][24], REAL rate) {
    vec partial[152];
    partial[150] = partial[151] = all(0);
    for (int c = 0; c < 6; c += 2)
        for (int p = 0; p < 5; p++) {
            vec sum[2][5];
            UNROLL for (int q = 0; q < 5; q++) sum[0][q] = sum[1][q] = all(0);
            for (int i = 0; i < 24; i++)
                UNROLL for (int j = 0; j < 24; j += LANES) {
                    const vec first = fetch(&c1_bar[c][i][j]), second = fetch(&c1_bar[c + 1][i][j]);
                    UNROLL for (int q = 0; q < 5; q++) {
                        const vec x = fetch(&image[i + p][q + j]);
                        sum[0][q] += first * x;
                        sum[1][q] += second * x;
                    }
                }
            UNROLL for (int q = 0; q < 5; q++) {
                partial[c * 25 + p * 5 + q] = sum[0][q];
                partial[c * 25 + 25 + p * 5 + q] = sum[1][q];
            }
        }
    step(&w->k1[0][0][0], partial, rate);
}

static double train_one(parameters *w, const REAL *image, int label, REAL rate) {
    activations a;
    /* The two pooled cotangents have room at their end, because `twice` reads ahead. */
    REAL s2_bar[13][4][4], c2_bar[12][10][8], s1_bar[7][12][12], c1_bar[6][24][24];
    memset(s2_bar[12], 0, sizeof s2_bar[12]);
    memset(s1_bar[6], 0, sizeof s1_bar[6]);
    forward(w, image, &a);
    const double loss = backward3(w, &a, label, rate, &s2_bar[0][0][0]);
    REAL b2_bar[12], b1_bar[6];
    for (int o = 0; o < 12; o++) {
        memset(c2_bar[o][0], 0, sizeof c2_bar[o][0]);
        memset(c2_bar[o][9], 0, sizeof c2_bar[o][9]);
        vec sum = all(0);
        for (int i = 0; i < 4; i++) sum += unpool(8, s2_bar[o][i], a.c2[o][2 * i], c2_bar[o][2 * i + 1]);
        b2_bar[o] = sum_of_lanes(sum);
    }
    backward2_input(w, (const REAL(*)[10][8])c2_bar, s1_bar);
    backward2_weights(w, &a, (const REAL(*)[10][8])c2_bar, rate);
    for (int c = 0; c < 6; c++) {
        vec sum = all(0);
        for (int i = 0; i < 12; i++) sum += unpool(24, s1_bar[c][i], a.c1[c][2 * i], c1_bar[c][2 * i]);
        b1_bar[c] = sum_of_lanes(sum);
    }
    backward1(w, (const REAL(*)[28])image, (const REAL(*)[24][24])c1_bar, rate);
    for (int o = 0; o < 12; o++) w->b2[o] -= rate * b2_bar[o];
    for (int c = 0; c < 6; c++) w->b1[c] -= rate * b1_bar[c];
    return loss;
}

/* One pass over `count` images, updating `w` at every image. Returns the sum of the losses. */
double zhang_train(parameters *w, int64_t count, const REAL *images, const uint8_t *labels, double rate) {
    double loss = 0;
    for (int64_t n = 0; n < count; n++) loss += train_one(w, images + n * 784, labels[n], (REAL)rate);
    return loss;
}

/* The most likely digit of each image. */
void zhang_recognize(const parameters *w, int64_t count, const REAL *images, uint8_t *digits) {
    activations a;
    for (int64_t n = 0; n < count; n++) {
        forward(w, images + n * 784, &a);
        int best = 0;
        for (int k = 1; k < 10; k++)
            if (a.y[k] > a.y[best]) best = k;
        digits[n] = (uint8_t)best;
    }
}
