/* The maximum in four chains, then exponentials, which the gradient keeps. */

static double largest(const double *x, int64_t n) {
  lanes m[4] = {all(x[0]), all(x[0]), all(x[0]), all(x[0])};
  int64_t i = 0;
  for (; i + 4 * L <= n; i += 4 * L)
    for (int v = 0; v < 4; v++) m[v] = larger(load(x + i + L * v), m[v]);
  m[0] = larger(larger(m[0], m[1]), larger(m[2], m[3]));
  double most = m[0][0];
  for (int l = 1; l < L; l++) most = fmax(most, m[0][l]);
  for (; i < n; i++) most = fmax(most, x[i]);
  return most;
}

void primal(const double *x, int64_t n, double *y) {
  double most = largest(x, n), total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < n; i++) total += exp(x[i] - most);
  *y = most + log(total);
}

void gradient(const double *x, int64_t n, double *restrict x_bar) {
  double most = largest(x, n), total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < n; i++) total += x_bar[i] = exp(x[i] - most);
  double share = 1 / total;
  EACH for (int64_t i = 0; i < n; i++) x_bar[i] *= share;
}
