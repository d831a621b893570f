/* Bones once, each with its derivatives by the angles on the way to it; vertices once, where a point needs them, of
 * their bones those that have a weight; a point is a weighted sum of three vertices. */

#ifdef __AVX512DQ__
#include <immintrin.h>
#endif

enum { MOST = 32, ANGLES = 20 };
typedef double frame[12]; /* the upper three rows of a 4 x 4 matrix whose last is 0 0 0 1 */

typedef struct {
  frame placed[MOST], to[MOST];    /* where a bone is; what it does to a point at rest, not yet turned as a whole */
  frame by[MOST][8], to_by[MOST][8]; /* the same by the angles on its way, of which there are `angles` */
  int angle[MOST][8], angles[MOST];
  double whole[9], whole_by[3][9];
} Pose;

ALWAYS void product(const double *a, const double *b, double moved, double *c) {
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 4; j++)
      c[4 * i + j] =
          a[4 * i] * b[j] + a[4 * i + 1] * b[4 + j] + a[4 * i + 2] * b[8 + j] + (j == 3) * moved * a[4 * i + 3];
}

ALWAYS void bent(double sx, double cx, double sz, double cz, double *c) {
  double rows[12] = {cz, -sz * cx, sz * sx, 0, sz, cz * cx, -cz * sx, 0, 0, sx, cx, 0};
  memcpy(c, rows, sizeof rows);
}

/* A rotation, axis times angle, and its derivatives, by Rodrigues' formula. */
static void turned(const double *v, double mirror, double *r, double (*by)[9]) {
  double angle = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]), n[3], s = sin(angle), c = cos(angle);
  memset(by, 0, 3 * sizeof *by);
  for (int i = 0; i < 9; i++) r[i] = i % 4 == 0;
  if (angle >= 1e-4) {
    for (int i = 0; i < 3; i++) n[i] = v[i] / angle;
    double k[9] = {0, -n[2], n[1], n[2], 0, -n[0], -n[1], n[0], 0};
    for (int i = 0; i < 9; i++) r[i] = c * r[i] + s * k[i] + (1 - c) * n[i / 3] * n[i % 3];
    for (int d = 0; d < 3; d++) {
      double m[3], w = n[d];
      for (int i = 0; i < 3; i++) m[i] = ((i == d) - n[i] * w) / angle;
      double kd[9] = {0, -m[2], m[1], m[2], 0, -m[0], -m[1], m[0], 0};
      for (int i = 0; i < 9; i++)
        by[d][i] = w * (c * k[i] + s * (n[i / 3] * n[i % 3] - (i % 4 == 0))) + s * kd[i] +
                   (1 - c) * (m[i / 3] * n[i % 3] + n[i / 3] * m[i % 3]);
    }
  }
  for (int i = 0; i < 9; i += 3) {
    r[i] *= mirror;
    for (int d = 0; d < 3; d++) by[d][i] *= mirror;
  }
}

static void pose(const double *theta, const int64_t *parents, const double *relatives, const double *inverses,
                 int64_t N, double mirror, int derived, Pose *p) {
  turned(theta, mirror, p->whole, p->whole_by);
  for (int64_t b = 0; b < N; b++) {
    frame bend, local, bend_by, local_by;
    const double *relative = relatives + 16 * b, *inverse = inverses + 16 * b;
    int f = (int)(b - 1) / 4, i = (int)(b - 1) % 4, at = 6 + 4 * f, own[2], count = 0;
    int64_t parent = parents[b];
    double x = 0, z = 0;
    if (b >= 1 && b <= ANGLES && i >= 1) own[count++] = i == 1 ? at : at + i, x = theta[own[0]];
    if (b >= 1 && b <= ANGLES && i == 1) own[count++] = at + 1, z = theta[at + 1];
    double sx = sin(x), cx = cos(x), sz = sin(z), cz = cos(z);
    bent(sx, cx, sz, cz, bend);
    product(relative, bend, 1, local);
    if (parent < 0) memcpy(p->placed[b], local, sizeof local);
    else product(p->placed[parent], local, 1, p->placed[b]);
    product(p->placed[b], inverse, 1, p->to[b]);
    int n = p->angles[b] = 0;
    if (!derived) continue;
    for (int k = 0; parent >= 0 && k < p->angles[parent]; k++, n++) {
      p->angle[b][n] = p->angle[parent][k];
      product(p->by[parent][k], local, 1, p->by[b][n]);
    }
    for (int k = 0; k < count; k++, n++) {
      p->angle[b][n] = own[k];
      if (k) {
        double rows[12] = {-sz, -cz * cx, cz * sx, 0, cz, -sz * cx, sz * sx, 0};
        memcpy(bend_by, rows, sizeof rows);
      } else {
        double rows[12] = {0, sz * sx, sz * cx, 0, 0, -cz * sx, -cz * cx, 0, 0, cx, -sx, 0};
        memcpy(bend_by, rows, sizeof rows);
      }
      product(relative, bend_by, 0, local_by);
      if (parent < 0) memcpy(p->by[b][n], local_by, sizeof local_by);
      else product(p->placed[parent], local_by, 0, p->by[b][n]);
    }
    for (int k = 0; k < n; k++) product(p->by[b][k], inverse, 1, p->to_by[b][k]);
    p->angles[b] = n;
  }
}

typedef struct {
  double here[3], by[3][24]; /* before the whole is turned, and by the angles, of which there are 20 */
} Vertex;

ALWAYS void apply(const double *m, const double *x, double share, double *y, int step) {
  for (int i = 0; i < 3; i++)
    y[i * step] += share * (m[4 * i] * x[0] + m[4 * i + 1] * x[1] + m[4 * i + 2] * x[2] + m[4 * i + 3] * x[3]);
}

ALWAYS void rotate(const double *r, const double *x, double share, double *y, int64_t step) {
  for (int i = 0; i < 3; i++) y[i * step] += share * (r[3 * i] * x[0] + r[3 * i + 1] * x[1] + r[3 * i + 2] * x[2]);
}

/* A bit for each lane that is chosen. */
ALWAYS unsigned marked(choice which) {
#ifdef __AVX512DQ__
  return (unsigned)_cvtmask8_u32(_mm512_movepi64_mask((__m512i)which));
#else
  unsigned bits = 0;
  for (int l = 0; l < L; l++) bits |= (unsigned)(which[l] & 1) << l;
  return bits;
#endif
}

/* A vertex, if it is not known yet. */
ALWAYS const Vertex *found(const Pose *p, const double *weights, const double *x, int64_t N, int derived, Vertex *v,
                           char *known) {
  if (*known) return v;
  memset(v, 0, sizeof *v), *known = 1;
  for (int64_t first = 0; first < N; first += L) {
    lanes w = {0};
    if (first + L <= N) w = load(weights + first);
    else memcpy(&w, weights + first, (N - first) * sizeof *weights);
    for (unsigned some = marked(w != 0); some; some &= some - 1) {
      int64_t b = first + __builtin_ctz(some);
      apply(p->to[b], x, weights[b], v->here, 1);
      for (int k = 0; derived && k < p->angles[b]; k++)
        apply(p->to_by[b][k], x, weights[b], &v->by[0][p->angle[b][k] - 6], 24);
    }
  }
  return v;
}

ALWAYS void all_points(const double *us, const double *theta, const int64_t *parents, const double *relatives,
                       const double *inverses, const double *rest, const double *weights, const int64_t *triangles,
                       const int64_t *at, const double *points, int64_t N, int64_t C, double mirror, Vertex *room,
                       int64_t V, int derived, double *out) {
  Pose p;
  pose(theta, parents, relatives, inverses, N, mirror, derived, &p);
  char *known = (char *)(room + V);
  memset(known, 0, V);
  for (int64_t c = 0; c < C; c++) {
    double u[3] = {us[2 * c], us[2 * c + 1], 1 - us[2 * c] - us[2 * c + 1]}, sum[3] = {0}, d[2][3];
    const Vertex *corner[3];
    for (int t = 0; t < 3; t++) {
      int64_t v = triangles[3 * at[c] + t];
      corner[t] = found(&p, weights + v * N, rest + 4 * v, N, derived, room + v, known + v);
      for (int i = 0; i < 3; i++) sum[i] += u[t] * corner[t]->here[i];
    }
    if (!derived) {
      for (int i = 0; i < 3; i++) out[3 * c + i] = points[3 * c + i] - theta[3 + i];
      rotate(p.whole, sum, -1, out + 3 * c, 1);
      continue;
    }
    double *row = out + c * 3 * 28, by[3][24];
    for (int i = 0; i < 3; i++) {
      for (int k = 0; k < 8; k++) row[28 * i + k] = k == 5 + i ? -1 : 0;
      for (int t = 0; t < 2; t++) d[t][i] = corner[t]->here[i] - corner[2]->here[i];
      EACH for (int k = 0; k < 24; k++)
        by[i][k] = u[0] * corner[0]->by[i][k] + u[1] * corner[1]->by[i][k] + u[2] * corner[2]->by[i][k];
    }
    rotate(p.whole, d[0], -1, row, 28), rotate(p.whole, d[1], -1, row + 1, 28);
    for (int k = 0; k < 3; k++) rotate(p.whole_by[k], sum, -1, row + 2 + k, 28);
    for (int i = 0; i < 3; i++)
      EACH for (int k = 0; k < ANGLES; k++)
        row[28 * i + 8 + k] =
            -(p.whole[3 * i] * by[0][k] + p.whole[3 * i + 1] * by[1][k] + p.whole[3 * i + 2] * by[2][k]);
  }
}

#define TAKEN                                                                                                          \
  const double *us, const double *theta, const int64_t *parents, const double *relatives, const double *inverses,     \
      const double *rest, const double *weights, const int64_t *triangles, const int64_t *at, const double *points,   \
      int64_t N, int64_t C, double mirror, Vertex *room, int64_t V, double *out
#define GIVEN us, theta, parents, relatives, inverses, rest, weights, triangles, at, points, N, C, mirror, room, V
void objective(TAKEN) { all_points(GIVEN, 0, out); }
void jacobian(TAKEN) { all_points(GIVEN, 1, out); }
