/* Eight observations at a time: camera and point are read from where they lie, and every row of the Jacobian is written
 * once. y is the point turned, p = y / y[2], and the error w (f L(p . p) p + u - m). */

#ifdef __x86_64__
__attribute__((simd("notinbranch"))) double sin(double); /* libmvec */
__attribute__((simd("notinbranch"))) double cos(double);
#endif

typedef struct {
  lanes r[3], x[3], a[3], y[3], p[2], k[2], along, angle, sine, cosine, squared, distortion, f, w, e[2];
  choice turns;
} view;

ALWAYS lanes dot(const lanes *a, const lanes *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

ALWAYS void cross(const lanes *a, const lanes *b, lanes *c) {
  for (int i = 0; i < 3; i++) c[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

ALWAYS lanes every(const double *from, const int64_t *at, int64_t row, int k, int n) {
  lanes out = all(0);
  for (int l = 0; l < L; l++) out[l] = from[at[l < n ? l : 0] * row + k];
  return out;
}

ALWAYS void see(view *v, const double *cameras, const double *points, const double *weights, const double *features,
                const int64_t *camera, const int64_t *point, int n) {
  static const int64_t each[L] = {0, 1, 2, 3, 4, 5, 6, 7};
  lanes turned[3], crossed[3], u[2];
  for (int i = 0; i < 3; i++) {
    v->r[i] = every(cameras, camera, 11, i, n);
    v->x[i] = every(points, point, 3, i, n) - every(cameras, camera, 11, 3 + i, n);
  }
  v->f = every(cameras, camera, 11, 6, n), v->w = every(weights, each, 1, 0, n);
  for (int i = 0; i < 2; i++)
    u[i] = every(cameras, camera, 11, 7 + i, n) - every(features, each, 2, i, n),
    v->k[i] = every(cameras, camera, 11, 9 + i, n);
  lanes square = dot(v->r, v->r);
  v->turns = square > 0, square = either(v->turns, square, all(1));
  double angle[L], sine[L], cosine[L];
  store(angle, square);
  EACH for (int l = 0; l < L; l++) angle[l] = sqrt(angle[l]);
  EACH for (int l = 0; l < L; l++) sine[l] = sin(angle[l]);
  EACH for (int l = 0; l < L; l++) cosine[l] = cos(angle[l]);
  v->angle = load(angle), v->sine = load(sine), v->cosine = load(cosine);
  for (int i = 0; i < 3; i++) v->a[i] = v->r[i] / v->angle;
  v->along = dot(v->a, v->x);
  cross(v->a, v->x, turned), cross(v->r, v->x, crossed);
  for (int i = 0; i < 3; i++)
    v->y[i] = either(v->turns, v->x[i] * v->cosine + turned[i] * v->sine + v->a[i] * v->along * (1 - v->cosine),
                     v->x[i] + crossed[i]);
  for (int i = 0; i < 2; i++) v->p[i] = v->y[i] / v->y[2];
  v->squared = v->p[0] * v->p[0] + v->p[1] * v->p[1];
  v->distortion = 1 + v->squared * (v->k[0] + v->k[1] * v->squared);
  for (int i = 0; i < 2; i++) v->e[i] = v->p[i] * v->distortion * v->f + u[i];
}

void objective(const double *cameras, const double *points, const double *weights, const double *features,
               const int64_t *camera, const int64_t *point, int64_t P, double *regular, double *errors) {
  for (int64_t i = 0; i < P; i += L) {
    view v;
    int n = P - i < L ? P - i : L;
    if (n == L) see(&v, cameras, points, weights + i, features + 2 * i, camera + i, point + i, L);
    else see(&v, cameras, points, weights + i, features + 2 * i, camera + i, point + i, n);
    for (int l = 0; l < n; l++) {
      for (int k = 0; k < 2; k++) errors[2 * (i + l) + k] = v.w[l] * v.e[k][l];
      regular[i + l] = 1 - weights[i + l] * weights[i + l];
    }
  }
}

ALWAYS void row(const view *v, int k, lanes *out) {
  lanes g[2], h[3], turn[3], by_a[3], b = v->w * v->f * (v->k[0] + 2 * v->k[1] * v->squared) * 2 * v->p[k];
  for (int i = 0; i < 2; i++) g[i] = b * v->p[i];
  g[k] += v->w * v->f * v->distortion;
  for (int i = 0; i < 2; i++) h[i] = g[i] / v->y[2];
  h[2] = -(g[0] * v->p[0] + g[1] * v->p[1]) / v->y[2];
  /* the error's derivative by y is h; by the rotation, of angle and axis */
  lanes c = v->cosine, s = v->sine, ha = dot(h, v->a), hx = dot(h, v->x), at_a = all(0);
  cross(v->x, h, turn);
  lanes by_angle = dot(turn, v->a) * c + s * (v->along * ha - hx);
  for (int i = 0; i < 3; i++) by_a[i] = s * turn[i] + (1 - c) * (h[i] * v->along + ha * v->x[i]), at_a += by_a[i] * v->a[i];
  lanes back[3];
  cross(h, v->a, back);
  for (int i = 0; i < 3; i++) {
    out[i] = either(v->turns, by_angle * v->a[i] + (by_a[i] - at_a * v->a[i]) / v->angle, turn[i]);
    out[11 + i] = either(v->turns, c * h[i] + s * back[i] + (1 - c) * ha * v->a[i], h[i]);
    out[3 + i] = -out[11 + i];
  }
  out[6] = v->w * v->p[k] * v->distortion;
  out[7] = out[8] = all(0), out[7 + k] = v->w;
  out[9] = v->w * v->f * v->p[k] * v->squared, out[10] = out[9] * v->squared;
  out[14] = v->e[k];
}

void jacobian(const double *cameras, const double *points, const double *weights, const double *features,
              const int64_t *camera, const int64_t *point, int64_t N, int64_t M, int64_t P, int64_t *starts,
              int64_t *columns, double *values) {
  int64_t first_point = 11 * N, first_weight = 11 * N + 3 * M;
  for (int64_t i = 0; i < P; i += L) {
    view v;
    int n = P - i < L ? P - i : L;
    if (n == L) see(&v, cameras, points, weights + i, features + 2 * i, camera + i, point + i, L);
    else see(&v, cameras, points, weights + i, features + 2 * i, camera + i, point + i, n);
    for (int k = 0; k < 2; k++) {
      lanes out[15];
      row(&v, k, out);
      for (int l = 0; l < n; l++) {
        double *value = values + 30 * (i + l) + 15 * k;
        int64_t *column = columns + 30 * (i + l) + 15 * k;
        for (int j = 0; j < 15; j++) value[j] = out[j][l];
        for (int j = 0; j < 11; j++) column[j] = 11 * camera[i + l] + j;
        for (int j = 0; j < 3; j++) column[11 + j] = first_point + 3 * point[i + l] + j;
        column[14] = first_weight + i + l;
      }
    }
  }
  for (int64_t i = 0; i < P; i++) values[30 * P + i] = -2 * weights[i], columns[30 * P + i] = first_weight + i;
  for (int64_t i = 0; i < 2 * P; i++) starts[i] = 15 * i;
  for (int64_t i = 2 * P; i <= 3 * P; i++) starts[i] = 28 * P + i;
}
