/* Expansion into minors from the last row up, each minor once: minor[8 u + l] has the columns in the set of bits
 * 8 u + l and as many last rows; the sets l of the first three columns are lanes. A minor is, with alternating signs,
 * the sum over its columns of an element of its first row times a smaller minor: in other vectors for columns of u, by
 * one vector of elements; in the same vector for those of l. The latter make a triangular system, the same for all u of
 * r columns, so its inverse, which has the minors of at most three columns, is found once for each r. Backward the
 * transposed system gives what every equation costs, and products with the minors the gradient. */

enum { MOST = 10 }; /* of sizes of u and none: n <= 12 */

typedef struct {
  int64_t n, K;                        /* columns, those beyond the first three */
  lanes across[MOST][MOST];            /* [column of u][r], by lane */
  double rows[MOST][L][L], columns[MOST][L][L]; /* the inverse, and transposed */
} expansion;

ALWAYS int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
ALWAYS double sign(int64_t set) { return 1 - 2 * (__builtin_popcountll(set) & 1); }

/* Where the element of column j is that multiplies the minors of `size` rows less one; -1 is outside. */
ALWAYS int64_t place(int64_t n, int64_t size, int64_t j) { return size <= n && j < n ? (n - size) * n + j : -1; }

static void prepare(const double *a, int64_t n, expansion *E) {
  E->n = n, E->K = n > 3 ? n - 3 : 0;
  for (int64_t r = 0; r <= E->K; r++) {
    for (int64_t l = 0; l < L; l++) {
      int64_t size = r + __builtin_popcountll(l);
      lanes row = {0};
      row[l] = 1;
      for (int64_t j = 0; j < 3; j++) {
        int64_t p = place(n, size, j);
        if (l >> j & 1 && p >= 0) row += sign(l & ((1 << j) - 1)) * a[p] * load(E->rows[r][l ^ 1 << j]);
      }
      store(E->rows[r][l], row);
      for (int64_t m = 0; m < L; m++) E->columns[r][m][l] = row[m];
      for (int64_t j = 0; j < E->K; j++) E->across[j][r][l] = size <= n ? sign(l) * a[place(n, size, j + 3)] : 0;
    }
  }
}

ALWAYS lanes product(const double (*matrix)[L], lanes x) {
  lanes y[2] = {{0}, {0}};
  for (int l = 0; l < L; l++) y[l % 2] += load(matrix[l]) * x[l];
  return y[0] + y[1];
}

static double forward(const expansion *E, lanes *minor) {
  minor[0] = load(E->columns[0][0]); /* the empty minor is 1 */
  for (int64_t u = 1; u < (int64_t)1 << E->K; u++) {
    int64_t r = __builtin_popcountll(u);
    lanes plus = {0}, minus = {0};
    for (int64_t left = u; left; left &= left - 1) {
      int64_t j = __builtin_ctzll(left);
      plus += E->across[j][r] * minor[u ^ (int64_t)1 << j];
      if (!(left &= left - 1)) break;
      j = __builtin_ctzll(left);
      minus += E->across[j][r] * minor[u ^ (int64_t)1 << j];
    }
    minor[u] = product(E->columns[r], plus - minus);
  }
  return minor[((int64_t)1 << E->K) - 1][(1 << least(E->n, 3)) - 1];
}

void primal(const double *a, int64_t n, double *y) {
  expansion E;
  prepare(a, n, &E);
  *y = forward(&E, (lanes *)room(L << E.K));
}

void gradient(const double *a, int64_t n, double *a_bar) {
  expansion E;
  prepare(a, n, &E);
  int64_t sets = (int64_t)1 << E.K;
  lanes *minor = (lanes *)room(2 * L << E.K), *bar = minor + sets;
  lanes across[MOST][MOST] = {{{0}}}, within[MOST][3] = {{{0}}};
  const choice without[3] = {{0, 0, 2, 2, 4, 4, 6, 6}, {0, 1, 0, 1, 4, 5, 4, 5}, {0, 1, 2, 3, 0, 1, 2, 3}};
  forward(&E, minor);
  memset(bar, 0, sizeof(lanes) * sets);
  bar[sets - 1][(1 << least(n, 3)) - 1] = 1;
  for (int64_t u = sets - 1; u >= 0; u--) {
    int64_t r = __builtin_popcountll(u);
    lanes cost = product(E.rows[r], bar[u]), other = -cost;
    for (int j = 0; j < 3; j++) within[r][j] += cost * __builtin_shuffle(minor[u], without[j]);
    for (int64_t left = u; left; left &= left - 1) {
      int64_t j = __builtin_ctzll(left), smaller = u ^ (int64_t)1 << j;
      bar[smaller] += E.across[j][r] * cost;
      across[j][r] += minor[smaller] * cost;
      lanes swap = cost;
      cost = other, other = swap;
    }
  }
  memset(a_bar, 0, sizeof(double) * n * n);
  for (int64_t r = 0; r <= E.K; r++)
    for (int64_t l = 0; l < L; l++) {
      int64_t size = r + __builtin_popcountll(l);
      if (size > n) continue;
      for (int64_t j = 0; j < least(n, 3); j++)
        if (l >> j & 1) a_bar[place(n, size, j)] += sign(l & ((1 << j) - 1)) * within[r][j][l];
      for (int64_t j = 0; j < E.K; j++)
        if (r) a_bar[place(n, size, j + 3)] += sign(l) * across[j][r][l];
    }
}
