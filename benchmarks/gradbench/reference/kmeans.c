/* Blocks of 32 points in lanes, each coordinate beside those of the other points; two centroids at a time. */

enum { V = 4, B = V * L };

/* The squared distances of a block to the nearest centroids, and which those are. No infinity: the flags rule it out. */
ALWAYS void nearest(const double *centroids, int64_t K, int64_t D, const double *across, lanes *least, choice *which) {
  for (int v = 0; v < V; v++) least[v] = all(1e308), which[v] = (choice){0};
  for (int64_t k = 0; k < K; k += 2) {
    const double *c[2] = {centroids + k * D, centroids + (k + 1 < K ? k + 1 : k) * D};
    lanes far[2][V] = {{{0}}};
    for (int64_t d = 0; d < D; d++)
      for (int v = 0; v < V; v++)
        for (int b = 0; b < 2; b++) {
          lanes away = load(across + d * B + L * v) - c[b][d];
          far[b][v] += away * away;
        }
    for (int b = 0; b < 2; b++)
      for (int v = 0; v < V; v++) {
        choice less = far[b][v] < least[v];
        least[v] = either(less, far[b][v], least[v]);
        which[v] = (which[v] & ~less) | ((k + b) & less);
      }
  }
}

ALWAYS void turned(const double *points, int64_t N, int64_t D, int64_t i, double *across) {
  for (int64_t b = 0; b < B; b++)
    for (int64_t d = 0; d < D; d++) across[d * B + b] = points[(i + b < N ? i + b : N - 1) * D + d];
}

void cost(const double *centroids, const double *points, int64_t K, int64_t N, int64_t D, double *y) {
  double across[D * B], total = 0;
  for (int64_t i = 0; i < N; i += B) {
    lanes least[V];
    choice which[V];
    turned(points, N, D, i, across);
    nearest(centroids, K, D, across, least, which);
    if (i + B <= N) total += sum((least[0] + least[1]) + (least[2] + least[3]));
    else
      for (int64_t b = 0; b < N - i; b++) total += least[b / L][b % L];
  }
  *y = total;
}

/* From the mean of a centroid's points to the centroid. */
void dir(const double *centroids, const double *points, int64_t K, int64_t N, int64_t D, double *restrict step) {
  double across[D * B], count[K];
  memset(count, 0, sizeof count), memset(step, 0, K * D * sizeof *step);
  for (int64_t i = 0; i < N; i += B) {
    lanes least[V];
    choice which[V];
    turned(points, N, D, i, across);
    nearest(centroids, K, D, across, least, which);
    for (int64_t b = 0; b < B && i + b < N; b++) {
      int64_t k = which[b / L][b % L];
      const double *p = points + (i + b) * D;
      double *s = step + k * D;
      count[k]++;
      EACH for (int64_t d = 0; d < D; d++) s[d] += p[d];
    }
  }
  for (int64_t k = 0; k < K; k++)
    for (int64_t d = 0; d < D; d++) step[k * D + d] = centroids[k * D + d] - step[k * D + d] / count[k];
}
