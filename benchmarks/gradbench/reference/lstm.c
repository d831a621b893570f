/* Units in lanes: k counts the groups of eight of all layers, V in a layer, the last of which is padded. What a layer
 * does at a step waits for the layer below at this step and for itself a step before, so layers and steps on a diagonal
 * are independent, and their exponentials overlap. The forget gate, ingate and change share a quotient, as do the
 * outgate and the tanh of the cell. Backward from a tape of all states and gates, group by group, with its slopes in
 * registers. */

enum { SHORT = 32 }; /* steps of a strip without tape */

typedef struct { lanes forget, in, out, change, shown; } gates; /* shown: the tanh of the cell */

typedef struct {
  int64_t V, K, B, T;      /* vectors of a layer and of all, units, steps of a strip */
  lanes *w, *around;       /* [k][weights, biases], -1 times or for the change twice; [scale, scale, bias][v] */
  lanes *hidden, *cell;    /* [V + k][1 + t], what comes in first; [k][1 + t] */
} network;

/* 2^(n / 16) from a table, and six terms: within 4 units of the last place for |x| <= 5, 110 for |x| <= 700. */
ALWAYS lanes exponential(lanes x) {
  const lanes low = {1.0, 1.0442737824274138, 1.0905077326652577, 1.1387886347566916,
                     1.189207115002721, 1.241857812073484, 1.2968395546510096, 1.3542555469368927};
  const lanes high = {1.4142135623730951, 1.4768261459394993, 1.5422108254079407, 1.6104903319492543,
                      1.681792830507429, 1.7562521603732995, 1.8340080864093424, 1.9152065613971474};
  choice n = __builtin_convertvector(x * 23.083120654223414 + 16384.5, choice) - 16384;
  lanes r = x - __builtin_convertvector(n, lanes) * 0.04332169878499658, s = r * r;
  lanes power = (lanes)((choice)__builtin_shuffle(low, high, n) + (n >> 4 << 52));
  return power + power * (r + s * ((1. / 2 + r * (1. / 6)) + s * ((1. / 24 + r * (1. / 120)) + s * (1. / 720))));
}

ALWAYS lanes bounded(lanes x, double most) { return smaller(all(most), larger(all(-most), x)); }

/* Units 8 v and following of a row of B, and zeros. */
ALWAYS lanes units(const double *row, int64_t B, int64_t v) {
  if (L * (v + 1) <= B) return load(row + L * v);
  const choice from = (choice){0, 1, 2, 3, 4, 5, 6, 7} + (L * (v + 1) - B);
  if (B >= L) return __builtin_shuffle(load(row + B - L), (lanes){0}, from);
  double some[L] = {0};
  for (int64_t b = 0; b < B; b++) some[b] = row[b];
  return load(some);
}

ALWAYS gates step(const lanes *w, lanes x, lanes h, lanes before, lanes *cell, lanes *hidden) {
  lanes forget = 1 + exponential(bounded(x * w[0] + w[4], 230)), in = 1 + exponential(bounded(h * w[1] + w[5], 230));
  lanes out = 1 + exponential(bounded(x * w[2] + w[6], 230)), change = exponential(bounded(h * w[3] + w[7], 230));
  lanes both = forget * in, one = 1 / (both * (1 + change));
  gates g = {.change = one * both * (change - 1)};
  g.forget = one * (in * (1 + change)), g.in = one * (forget * (1 + change));
  *cell = before * g.forget + g.in * g.change;
  lanes e = exponential(bounded(2 * *cell, 230));
  one = 1 / (out * (1 + e)), g.out = one * (1 + e), g.shown = one * out * (e - 1);
  *hidden = one * (e - 1);
  return g;
}

/* Some steps from slot 0 on; a tape [k][t] if it is to be kept. */
ALWAYS void forward(const network *N, const double *sequence, int64_t steps, gates *tape) {
  int64_t V = N->V, layers = N->K / V, T = N->T, S = T + 1;
  for (int64_t t = 0; t < steps; t++)
    for (int64_t v = 0; v < V; v++) N->hidden[v * S + t + 1] = units(sequence + t * N->B, N->B, v) * N->around[v];
  for (int64_t d = 0; d < steps + layers - 1; d++)
    for (int64_t n = d < steps ? 0 : d - steps + 1; n < layers && n <= d; n++)
      for (int64_t k = n * V, t = d - n; k < (n + 1) * V; k++) {
        lanes *h = N->hidden + (V + k) * S + t, *c = N->cell + k * S + t;
        gates g = step(N->w + 8 * k, N->hidden[k * S + t + 1], h[0], c[0], c + 1, h + 1);
        if (tape) tape[k * T + t] = g;
      }
}

static lanes *prepare(network *N, lanes *at, const double *main, const double *extra, const double *state) {
  int64_t B = N->B, V = N->V;
  N->w = at, N->around = N->w + 8 * N->K, N->hidden = N->around + 3 * V;
  N->cell = N->hidden + (V + N->K) * (N->T + 1);
  for (int64_t k = 0; k < N->K; k++) {
    for (int p = 0; p < 8; p++) N->w[8 * k + p] = (p % 4 == 3 ? 2. : -1.) * units(main + (k / V * 8 + p) * B, B, k % V);
    N->hidden[(V + k) * (N->T + 1)] = units(state + k / V * 2 * B, B, k % V);
    N->cell[k * (N->T + 1)] = units(state + (k / V * 2 + 1) * B, B, k % V);
  }
  for (int64_t v = 0; v < V; v++) {
    for (int p = 0; p < 3; p++) N->around[p * V + v] = units(extra + p * B, B, v);
    for (int l = 0; l < L; l++) N->around[2 * V + v][l] -= L * v + l < B ? 0 : 1e4; /* e to the padding's power is 0 */
  }
  return N->cell + N->K * (N->T + 1);
}

/* What a step predicts, its exponentials, and 2 more than their sum. */
ALWAYS double predict(const network *N, int64_t t, lanes *y, lanes *e) {
  lanes total = {0};
  for (int64_t v = 0; v < N->V; v++) {
    y[v] = N->hidden[(N->K + v) * (N->T + 1) + t + 1] * N->around[N->V + v] + N->around[2 * N->V + v];
    total += e[v] = exponential(bounded(y[v], 700));
  }
  return 2 + sum(total);
}

void objective(const double *main, const double *extra, const double *state, const double *sequence, int64_t layers,
               int64_t B, int64_t C, double *loss) {
  int64_t V = (B + L - 1) / L, K = layers * V, T = SHORT;
  network N = {V, K, B, T, 0, 0, 0, 0};
  lanes *y = (lanes *)room(L * (8 * K + 5 * V + (2 * K + V) * (T + 1))), *e = y + V, total = {0};
  prepare(&N, e + V, main, extra, state);
  for (int64_t from = 0, steps; from < C - 1; from += steps) {
    steps = C - 1 - from < T ? C - 1 - from : T;
    forward(&N, sequence + from * B, steps, 0);
    for (int64_t t = 0; t < steps; t++) {
      double whole = log(predict(&N, t, y, e));
      for (int64_t v = 0; v < V; v++) total += units(sequence + (from + t + 1) * B, B, v) * (y[v] - whole);
    }
    for (int64_t k = V; k < V + 2 * K; k++) /* the cells follow */
      N.hidden[k * (T + 1)] = N.hidden[k * (T + 1) + steps];
  }
  *loss = -sum(total) / ((C - 1) * B);
}

/* A group backward: above has what its outputs cost, then what its inputs cost. */
static void backward(const network *N, int64_t k, const gates *tape, lanes *above, lanes *slope) {
  int64_t S = N->T + 1;
  const lanes *x = N->hidden + k * S + 1, *h = N->hidden + (N->V + k) * S, *c = N->cell + k * S;
  lanes s[8] = {{0}}, h_bar = {0}, c_bar = {0}, w[4];
  memcpy(w, N->w + 8 * k, sizeof w);
  for (int64_t t = N->T - 1; t >= 0; t--) {
    gates g = tape[t];
    h_bar += above[t];
    lanes out = h_bar * g.shown * g.out * (1 - g.out);
    c_bar += h_bar * (g.out * (1 - g.shown * g.shown));
    lanes forget = c_bar * (c[t] * g.forget * (1 - g.forget)), in = c_bar * (g.change * g.in * (1 - g.in));
    lanes change = c_bar * (g.in * (1 - g.change * g.change));
    c_bar *= g.forget, h_bar = change * (w[3] / 2) - in * w[1];
    above[t] = -(forget * w[0] + out * w[2]);
    s[0] += forget * x[t], s[1] += in * h[t], s[2] += out * x[t], s[3] += change * h[t];
    s[4] += forget, s[5] += in, s[6] += out, s[7] += change;
  }
  memcpy(slope, s, sizeof s);
}

static void put(lanes x, double *row, int64_t B, int64_t v) {
  for (int64_t l = 0; l < L && L * v + l < B; l++) row[L * v + l] = x[l];
}

void jacobian(const double *main, const double *extra, const double *state, const double *sequence, int64_t layers,
              int64_t B, int64_t C, double *slopes) {
  int64_t V = (B + L - 1) / L, K = layers * V, T = C - 1;
  network N = {V, K, B, T, 0, 0, 0, 0};
  lanes *y = (lanes *)room(L * (16 * K + 8 * V + (2 * K + V) * (T + 1) + (5 * K + V) * T)), *e = y + V;
  lanes *slope = e + V, *outer = slope + 8 * K, *above = prepare(&N, outer + 3 * V, main, extra, state);
  gates *tape = (gates *)(above + V * T);
  memset(outer, 0, sizeof(lanes) * 3 * V);
  forward(&N, sequence, T, tape);
  for (int64_t t = 0; t < T; t++) {
    double whole = predict(&N, t, y, e), share = 0;
    for (int64_t v = 0; v < V; v++) share += sum(y[v] = units(sequence + (t + 1) * B, B, v));
    for (int64_t v = 0; v < V; v++) {
      lanes bar = (e[v] * (share / whole) - y[v]) / (double)(T * B);
      outer[V + v] += bar * N.hidden[(K + v) * (T + 1) + t + 1], outer[2 * V + v] += bar;
      above[v * T + t] = bar * N.around[V + v];
    }
  }
  for (int64_t k = K - 1; k >= 0; k--) backward(&N, k, tape + k * T, above + k % V * T, slope + 8 * k);
  for (int64_t v = 0; v < V; v++)
    for (int64_t t = 0; t < T; t++) outer[v] += above[v * T + t] * units(sequence + t * B, B, v);
  for (int64_t k = 0; k < K; k++)
    for (int p = 0; p < 8; p++) put(slope[8 * k + p], slopes + (k / V * 8 + p) * B, B, k % V);
  for (int64_t v = 0; v < V; v++)
    for (int p = 0; p < 3; p++) put(outer[p * V + v], slopes + (layers * 8 + p) * B, B, v);
}
