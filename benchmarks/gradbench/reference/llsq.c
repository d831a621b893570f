/* Blocks of 64 points in registers: Horner's rule, then powers times residuals, summed lane by lane. */

ALWAYS lanes points(int64_t i, int64_t n) {
  lanes k;
  for (int l = 0; l < L; l++) k[l] = i + l;
  return -1 + 2.0 * k / (double)(n - 1);
}

ALWAYS void residuals(const double *x, int64_t M, int64_t n, int64_t i, int V, lanes *t, lanes *r) {
  for (int v = 0; v < V; v++) t[v] = points(i + L * v, n), r[v] = all(0);
  for (int64_t j = M - 1; j >= 0; j--)
    for (int v = 0; v < V; v++) r[v] = r[v] * t[v] + x[j];
  for (int v = 0; v < V; v++) {
    r[v] -= either(t[v] > 0, all(1), either(t[v] < 0, all(-1), all(0)));
    for (int l = 0; l < L; l++) /* beyond the last point */
      if (i + L * v + l >= n) r[v][l] = 0;
  }
}

ALWAYS lanes block(const double *x, int64_t M, int64_t n, int64_t i, int V, lanes *sums) {
  lanes t[8], r[8], y = all(0);
  residuals(x, M, n, i, V, t, r);
  for (int v = 0; v < V; v++) y += r[v] * r[v];
  for (int64_t j = 0; sums && j < M; j++) {
    lanes s = sums[j];
    for (int v = 0; v < V; v++) s += r[v], r[v] *= t[v];
    sums[j] = s;
  }
  return y;
}

void primal(const double *x, int64_t M, int64_t n, double *y) {
  lanes total = all(0);
  int64_t i = 0;
  for (; i + 8 * L <= n; i += 8 * L) total += block(x, M, n, i, 8, 0);
  for (; i < n; i += L) total += block(x, M, n, i, 1, 0);
  *y = sum(total) / 2;
}

void gradient(const double *x, int64_t M, int64_t n, double *x_bar) {
  lanes sums[M];
  int64_t i = 0;
  memset(sums, 0, sizeof sums);
  for (; i + 8 * L <= n; i += 8 * L) block(x, M, n, i, 8, sums);
  for (; i < n; i += L) block(x, M, n, i, 1, sums);
  for (int64_t j = 0; j < M; j++) x_bar[j] = sum(sums[j]);
}
