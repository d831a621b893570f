/* Strips of 512 elements, each taken through all steps while it is near: a stage needs the element before, so a strip
 * needs the last vectors of the strip before it, one for each stage and step. Backward the other way round, from a tape
 * of the states. In front of the first element x is 0 and y is 1, which are what the stages give there, too. */

enum { STRIP = 64 };

typedef struct { lanes y, a, b, c; } edge; /* the neighboring vector of the state and of three stages */

ALWAYS lanes before(lanes last, lanes x) {
  return __builtin_shuffle(last, x, (choice){7, 8, 9, 10, 11, 12, 13, 14});
}

ALWAYS lanes after(lanes x, lanes next) {
  return __builtin_shuffle(x, next, (choice){1, 2, 3, 4, 5, 6, 7, 8});
}

static void forward(const double *x, const double *from, double *to, int64_t n, double h, edge *e) {
  edge last = *e;
  for (int64_t i = 0; i < n; i++) {
    lanes X = load(x + L * i), y = load(from + L * i);
    lanes k1 = X * before(last.y, y), a = y + h / 2 * k1;
    lanes k2 = X * before(last.a, a), b = y + h / 2 * k2;
    lanes k3 = X * before(last.b, b), c = y + h * k3;
    lanes k4 = X * before(last.c, c);
    store(to + L * i, y + h / 6 * (k1 + k4) + h / 3 * (k2 + k3));
    last = (edge){y, a, b, c};
  }
  *e = last;
}

void primal(const double *x, int64_t N, int64_t s, double *y) {
  int64_t V = (N + L - 1) / L;
  double *X = room(2 * L * V + 4 * L * s), *Y = X + L * V;
  edge *edges = (edge *)(Y + L * V);
  memcpy(X, x, N * 8), memset(X + N, 0, (L * V - N) * 8), memset(Y, 0, L * V * 8);
  for (int64_t t = 0; t < s; t++) edges[t] = (edge){all(1), all(1), all(1), all(1)};
  for (int64_t v = 0; v < V; v += STRIP)
    for (int64_t t = 0, n = V - v < STRIP ? V - v : STRIP; t < s; t++)
      forward(X + L * v, Y + L * v, Y + L * v, n, 2.0 / s, edges + t);
  memcpy(y, Y, N * 8);
}

static void backward(const double *x, const double *y, double *y_bar, double *x_bar, int64_t n, double h, edge *e,
                     edge last) {
  lanes y0[STRIP], a0[STRIP], b0[STRIP], c0[STRIP]; /* the stages at the element before */
  for (int64_t i = 0; i < n; i++) {
    lanes X = load(x + L * i), Y = load(y + L * i), a, b, c;
    y0[i] = before(last.y, Y), a = Y + h / 2 * X * y0[i];
    a0[i] = before(last.a, a), b = Y + h / 2 * X * a0[i];
    b0[i] = before(last.b, b), c = Y + h * X * b0[i];
    c0[i] = before(last.c, c), last = (edge){Y, a, b, c};
  }
  edge next = *e; /* x times the adjoints of the slopes */
  for (int64_t i = n - 1; i >= 0; i--) {
    lanes X = load(x + L * i), s = load(y_bar + L * i), r = load(x_bar + L * i);
    lanes k4 = h / 6 * s, c = after(X * k4, next.c);
    lanes k3 = h / 3 * s + h * c, b = after(X * k3, next.b);
    lanes k2 = h / 3 * s + h / 2 * b, a = after(X * k2, next.a);
    lanes k1 = h / 6 * s + h / 2 * a;
    store(y_bar + L * i, s + a + b + c + after(X * k1, next.y));
    store(x_bar + L * i, r + k1 * y0[i] + k2 * a0[i] + k3 * b0[i] + k4 * c0[i]);
    next = (edge){X * k1, X * k2, X * k3, X * k4};
  }
  *e = next;
}

void gradient(const double *x, int64_t N, int64_t s, double *x_bar) {
  int64_t V = (N + L - 1) / L, strips = (V + STRIP - 1) / STRIP;
  double *X = room(L * V * (s + 4) + 4 * L * s * (strips + 1)), *X_bar = X + L * V, *Y_bar = X_bar + L * V;
  double *tape = Y_bar + L * V;
  edge *edges = (edge *)(tape + L * V * (s + 1)), *starts = edges + s;
  memcpy(X, x, N * 8), memset(X + N, 0, (L * V - N) * 8), memset(X_bar, 0, 2 * L * V * 8);
  Y_bar[N - 1] = 1;
  for (int64_t t = 0; t < s; t++) edges[t] = (edge){all(1), all(1), all(1), all(1)};
  for (int64_t k = 0; k < strips; k++) {
    int64_t v = k * STRIP, n = V - v < STRIP ? V - v : STRIP;
    double *row = tape + L * v * (s + 1);
    memset(row, 0, L * n * 8), memcpy(starts + k * s, edges, s * sizeof(edge));
    for (int64_t t = 0; t < s; t++) forward(X + L * v, row + L * n * t, row + L * n * (t + 1), n, 2.0 / s, edges + t);
  }
  memset(edges, 0, s * sizeof(edge));
  for (int64_t k = strips - 1; k >= 0; k--) {
    int64_t v = k * STRIP, n = V - v < STRIP ? V - v : STRIP;
    for (int64_t t = s - 1; t >= 0; t--)
      backward(X + L * v, tape + L * v * (s + 1) + L * n * t, Y_bar + L * v, X_bar + L * v, n, 2.0 / s, edges + t,
               starts[k * s + t]);
  }
  memcpy(x_bar, X_bar, N * 8);
}
