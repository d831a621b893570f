/* Blocks of 32 points in lanes; Q is lower triangular, and only that half is multiplied. The gradient by Q needs no
 * second look at Q (x - mu): sum over i of w z a' = Q S with S = sum over i of w a a', z = Q a and a = x - mu. */

enum { V = 4, B = V * L };

ALWAYS void factor(const double *q, const double *l, int64_t D, double *Q) {
  for (int64_t j = 0; j < D; j++) {
    for (int64_t i = 0; i < j; i++) Q[i * D + j] = 0;
    Q[j * D + j] = exp(q[j]);
    for (int64_t i = j + 1; i < D; i++) Q[i * D + j] = *l++;
  }
}

/* The squared lengths of Q a for a block, R rows of Q at a time. */
ALWAYS void rows(const double *Q, const double *away, int64_t D, int64_t r, int R, lanes *squared) {
  lanes z[4][V] = {{{0}}};
  for (int64_t c = 0; c < r + R; c++)
    for (int v = 0; v < V; v++) {
      lanes a = load(away + c * B + v * L);
      HELD(a);
      for (int k = 0; k < R; k++) z[k][v] += Q[(r + k) * D + c] * a;
    }
  for (int k = 0; k < R; k++)
    for (int v = 0; v < V; v++) squared[v] += z[k][v] * z[k][v];
}

/* beta[k][i]; x has the points turned, D rows of M points. */
static void forward(const double *alpha, const double *mu, const double *q, const double *l, const double *x, int64_t D,
                    int64_t K, int64_t M, double *Q, double *beta) {
  double away[D * B];
  for (int64_t k = 0; k < K; k++) {
    double *Qk = Q + k * D * D, start = alpha[k];
    factor(q + k * D, l + k * (D * (D - 1) / 2), D, Qk);
    for (int64_t j = 0; j < D; j++) start += q[k * D + j];
    for (int64_t i = 0; i < M; i += B) {
      lanes squared[V] = {{0}};
      int64_t r = 0;
      for (int64_t c = 0; c < D; c++)
        for (int v = 0; v < V; v++) store(away + c * B + v * L, load(x + c * M + i + v * L) - mu[k * D + c]);
      for (; r + 4 <= D; r += 4) rows(Qk, away, D, r, 4, squared);
      for (; r < D; r++) rows(Qk, away, D, r, 1, squared);
      for (int v = 0; v < V; v++) store(beta + k * M + i + v * L, start - squared[v] / 2);
    }
  }
}

/* The logarithm of the sum of exponentials of each column; the shares in their place. Returns the sum over columns. */
static double shares(double *beta, int64_t K, int64_t N, int64_t M) {
  double total = 0, most[M], sums[M];
  EACH for (int64_t i = 0; i < M; i++) most[i] = -1e308, sums[i] = 0;
  for (int64_t k = 0; k < K; k++)
    EACH for (int64_t i = 0; i < M; i++) most[i] = beta[k * M + i] > most[i] ? beta[k * M + i] : most[i];
  for (int64_t k = 0; k < K; k++)
    EACH for (int64_t i = 0; i < M; i++) sums[i] += beta[k * M + i] = exp(beta[k * M + i] - most[i]);
  for (int64_t i = 0; i < N; i++) total += most[i] + log(sums[i]);
  EACH for (int64_t i = 0; i < M; i++) sums[i] = i < N ? 1 / sums[i] : 0;
  for (int64_t k = 0; k < K; k++)
    EACH for (int64_t i = 0; i < M; i++) beta[k * M + i] *= sums[i];
  return total;
}

static int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

static void turned(const double *x, int64_t N, int64_t D, int64_t M, double *across) {
  for (int64_t i = 0; i < M; i++)
    for (int64_t d = 0; d < D; d++) across[d * M + i] = x[(i < N ? i : N - 1) * D + d];
}

/* room: K D D + K M + D M doubles */
void objective(const double *alpha, const double *mu, const double *q, const double *l, const double *x, int64_t D,
               int64_t K, int64_t N, double m, double gamma, double constant, double *room, double *y) {
  int64_t M = padded(N, B);
  double *Q = room, *beta = Q + K * D * D, *across = beta + K * M, squares = 0, logs = 0, top = -1e308, sum = 0;
  turned(x, N, D, M, across);
  forward(alpha, mu, q, l, across, D, K, M, Q, beta);
  for (int64_t k = 0; k < K * D * D; k++) squares += Q[k] * Q[k];
  for (int64_t k = 0; k < K * D; k++) logs += q[k];
  for (int64_t k = 0; k < K; k++) top = fmax(top, alpha[k]);
  for (int64_t k = 0; k < K; k++) sum += exp(alpha[k] - top);
  double prior = m * logs - gamma * gamma / 2 * squares, density = D * log(2 * M_PI) / 2 + top + log(sum);
  *y = shares(beta, K, N, M) - N * density + prior + constant;
}

/* S += sum over a block of w a a', V vectors of eight of its rows; rows of a have W elements. */
ALWAYS void update(const double *a, const double *wa, int64_t W, int64_t i, int64_t j, int wide, double *S) {
  lanes s[L][2];
  for (int r = 0; r < L; r++)
    for (int v = 0; v < wide; v++) s[r][v] = load(S + (i + r) * W + j + v * L);
  for (int64_t n = 0; n < B; n++)
    for (int v = 0; v < wide; v++) {
      lanes column = load(a + n * W + j + v * L);
      HELD(column);
      for (int r = 0; r < L; r++) s[r][v] += wa[n * W + i + r] * column;
    }
  for (int r = 0; r < L; r++)
    for (int v = 0; v < wide; v++) store(S + (i + r) * W + j + v * L, s[r][v]);
}

void jacobian(const double *alpha, const double *mu, const double *q, const double *l, const double *x, int64_t D,
              int64_t K, int64_t N, double m, double gamma, double constant, double *room, double *alpha_bar,
              double *mu_bar, double *q_bar, double *l_bar) {
  int64_t M = padded(N, B), W = padded(D, L);
  double *Q = room, *w = Q + K * D * D, *across = w + K * M, top = -1e308, sum = 0;
  double a[B * W], wa[B * W], S[W * W], z[D], drift[W];
  (void)constant;
  turned(x, N, D, M, across);
  forward(alpha, mu, q, l, across, D, K, M, Q, w);
  shares(w, K, N, M);
  for (int64_t k = 0; k < K; k++) top = fmax(top, alpha[k]);
  for (int64_t k = 0; k < K; k++) sum += exp(alpha[k] - top);
  memset(a, 0, sizeof a), memset(wa, 0, sizeof wa);
  for (int64_t k = 0; k < K; k++) {
    const double *Qk = Q + k * D * D;
    double weight = 0;
    memset(S, 0, sizeof S), memset(drift, 0, sizeof drift);
    for (int64_t i = 0; i < M; i += B) {
      for (int64_t n = 0; n < B; n++) {
        double share = w[k * M + i + n];
        const double *p = x + (i + n < N ? i + n : N - 1) * D;
        weight += share;
        EACH for (int64_t d = 0; d < D; d++) {
          a[n * W + d] = p[d] - mu[k * D + d];
          drift[d] += wa[n * W + d] = share * a[n * W + d];
        }
      }
      for (int64_t r = 0; r < W; r += L) {
        int64_t c = 0;
        for (; c + L <= r; c += 2 * L) update(a, wa, W, r, c, 2, S);
        if (c <= r) update(a, wa, W, r, c, 1, S);
      }
    }
    for (int64_t r = 0; r < D; r++)
      for (int64_t c = r + 1; c < D; c++) S[r * W + c] = S[c * W + r];
    for (int64_t r = 0; r < D; r++) {
      double row[W];
      memset(row, 0, sizeof row), z[r] = 0;
      for (int64_t j = 0; j <= r; j++) {
        z[r] += Qk[r * D + j] * drift[j];
        EACH for (int64_t c = 0; c <= r; c++) row[c] += Qk[r * D + j] * S[j * W + c];
      }
      for (int64_t c = 0; c < r; c++)
        l_bar[k * (D * (D - 1) / 2) + c * (2 * D - c - 1) / 2 + r - c - 1] = -row[c] - gamma * gamma * Qk[r * D + c];
      q_bar[k * D + r] = (-row[r] - gamma * gamma * Qk[r * D + r]) * Qk[r * D + r] + weight + m;
    }
    for (int64_t c = 0; c < D; c++) {
      mu_bar[k * D + c] = 0;
      for (int64_t r = c; r < D; r++) mu_bar[k * D + c] += z[r] * Qk[r * D + c];
    }
    alpha_bar[k] = weight - N * exp(alpha[k] - top) / sum;
  }
}
