"""Small programs that cover every statement and what the C backend makes of it: name -> (text, dims)."""

CASES: dict[str, tuple[str, dict[str, int]]] = {
    "dense": ("""dense(x: f32[N, M], w: f32[K, M], b: f32[K]) {
      s = build n < N, k < K { sum m < M { x[n, m] * w[k, m] } }
      y = build n < N, k < K { exp(s[n, k] + b[k]) }
      return y }""", {"N": 5, "M": 7, "K": 3}),
    "padded": ("""padded(x: f64[N], w: f64[K]) {
      y = build n < N { sum k < K { [n + k >= 2, n + k - 2 < N] x[n + k - 2] * w[k] } }
      z = build n < N + 4 { [n >= 2, n < N + 2] y[n - 2] }
      return y, z }""", {"N": 20, "K": 5}),
    "descent": ("""descent(p0: f64[N], q0: f64[N], x: f64[T, N]) {
      p, q, losses = fold t < T (p = p0, q = q0) {
        l = build { sum n < N { p[n] * x[t, n] * q[n] } }
        q_new = build n < N { q[n] - 0.1 * (l * p[n]) }
        p_new = build n < N { p[n] - 0.1 * (l * q[n]) }
        yield p_new, q_new, l }
      return p, q, losses }""", {"N": 6, "T": 4}),
    "swap": ("""swap(a0: f64[N], b0: f64[N]) {
      a, b = fold t < 3 (a = a0, b = b0) {
        c = build n < N { a[n] + 1.0 }
        yield b, c }
      return b, a }""", {"N": 4}),
    "same_init": ("""same_init(a0: f64[N]) {
      z = build n < N { a0[n] * 2.0 }
      a, b = fold t < 3 (a = z, b = z) {
        c = build n < N { a[n] + b[n] }
        d = build n < N { a[n] - b[N - 1 - n] }
        yield c, d }
      e = build n < N { a[n] * b[n] + z[n] }
      return e, a, a }""", {"N": 5}),
    "rows": ("""rows(h0: f64[N], x: f64[T, N]) {
      h, old, new, twice = fold t < T (h = h0) {
        r = build n < N { tanh(h[n] + x[t, n]) }
        yield r, h, r, x }
      return h, old, new, twice }""", {"N": 3, "T": 4}),
    "nested": ("""nested(a0: f64[N], x: f64[T, N]) {
      a = fold t < T (a = a0) {
        b, ls = fold s < 3 (b = a) {
          l = build { sum n < N { b[n] * x[t, n] } }
          c = build n < N { b[n] - 0.1 * (l * x[t, n]) }
          yield c, l }
        m = build { max s < 3 { ls[s] } }
        d = build n < N { b[n] * m }
        yield d }
      return a }""", {"N": 6, "T": 4}),
    "unchanged": ("""unchanged(a0: f64[N], b0: f64) where N >= 5 {
      a, b = fold t < 5 (a = a0, b = b0) {
        c = build { b + a[t] }
        yield a, c }
      return a, b }""", {"N": 6}),
    "collatz": ("""collatz(a0: i64, n0: i64) {
      a, n = while (a = a0, n = n0) at most 1000 { c = build { a > 1 } yield c } do {
        b = build { a % 2 == 0 ? a // 2 : 3 * a + 1 }
        m = build { n + 1 }
        yield b, m }
      return a, n }""", {}),
    "chosen": ("""chosen(x: f64[N], y: f64[N]) {
      s = build { sum n < N { x[n] } > 0.0 }
      a, b = if s { c = build n < N { x[n] + y[n] } yield c, x } else { d = build n < N { x[n] * y[n] } yield y, d }
      t = build n < N { x[n] * 2.0 }
      z = if s { e = build n < N { t[n] + 1.0 } yield e } else { yield t }
      return a, b, z }""", {"N": 5}),
    "gathered": ("""gathered(x: f32[N, M], j: i32[K], w: f32[K]) {
      y = build k < K, m < M { x[check(j[k], N), m] * w[k] }
      s: f32[N] = scatter k < K { [check(j[k], N)] += w[k] }
      t: f32[N] = scatter k < K { [data(j[k], N)] += [k >= 1] (w[k] * y[k, 0]) }
      return y, s, t }""", {"N": 5, "M": 4, "K": 7}),
    "positions": ("""positions(x: f64[N, M]) {
      a = build n < N { argmax m < M { x[n, m] } }
      b = build { argmin n < N, m < M { x[n, m] } }
      c = build m < M { max n < N { x[n, m] } }
      d = build m < M { min n < N { abs(x[n, m]) } }
      e = build n < N { prod m < M { x[n, m] } }
      f = build n < N { any m < M { x[n, m] > 1.0 } }
      g = build n < N { all m < M { x[n, m] > -1.0 } }
      return a, b, c, d, e, f, g }""", {"N": 6, "M": 5}),
    "guarded": ("""guarded(x: f64[N]) {
      y = build n < N { x[n] > 0.0 ? log(x[n]) : 0.0 }
      z = build n < N { x[n] > 0.0 ? sum m < N { x[m] * y[n] } : x[n] * 2.0 }
      u = build n < N, m < N { [n > m] x[n] + [n < m] y[m] + [n == m] 1.0 }
      v = build n < N { [n % 3 == 1] x[n] }
      w = build n < N { sum m < N { [(n + m) % 2 == 0] (x[m] * y[n]) } }
      return y, z, u, v, w }""", {"N": 7}),
    "triangular": ("""triangular(a: f64[N, N], b: f64[N, N]) {
      c = build i < N, j < N { sum k < N { [k <= i, k >= j] (a[i, k] * b[k, j]) } }
      d = build i < N, j < N { [2 * j >= i, 3 * j < 2 * i + 4] a[i, j] }
      e = build i < N { sum j < N, k < N { [j == 2 * k, j + k >= i] (a[j, k] * b[i, k]) } }
      return c, d, e }""", {"N": 6}),
    "strided": ("""strided(x: f32[C, H], w: f32[O, C, K]) {
      y = build o < O, h < (H - K) // 2 + 1 { sum c < C, k < K { x[c, 2 * h + k] * w[o, c, k] } }
      z = build o < O { max h < (H - K) // 2 + 1 { y[o, h] } }
      return z, y }""", {"C": 3, "H": 17, "O": 4, "K": 3}),
    "shared": ("""shared(x: f64[N], y: f64[N]) {
      a = build n < N { let t = exp(x[n]) * y[n] + 1.0; t * t + t / (1.0 + t) }
      b = build n < N, m < N { x[n] * y[n] * a[m] + sin(x[n]) }
      return b }""", {"N": 5}),
    "repeated": ("""repeated(x: f64[N]) {
      return x, x }""", {"N": 5}),
    "reshaped": ("""reshaped(x: f32[N, M]) {
      y = build i < M, j < N { x[(i * N + j) // M, (i * N + j) % M] }
      z = build i < N * M { y[i // N, i % N] * f32(as_i32(i)) }
      return z }""", {"N": 4, "M": 6}),
    "slices": ("""slices(a0: f64[N, M], b0: f64[N], g: f64[M]) {
      a, b, s = fold t < N (a = a0, b = b0, s = b0) {
        c = build n < N, m < M { a[n, m] + [n == t] (g[m] * b[n]) + [n >= t + 1, m == 0] 1.0 }
        d = build n < N { [n == N - 1 - t] (2.0 * b[n]) + [n != N - 1 - t] b[n] }
        e = build n < N { s[n] + [n >= t] s[N - 1 - n] }
        yield c, d, e }
      return a, b, s }""", {"N": 4, "M": 3}),
    "packed": ("""packed(x: f32[M, K], y: f32[N, K], b: f32[N], image: f32[C, H, W], w: f32[O, C, P, P],
        v: f32[R, Q]) where K >= R {
      z = build m < M, n < N { maximum(sum k < K { x[m, k] * y[n, k] } + b[n], 0.0) }
      u = build o < O, i < H - P + 1, j < W - P + 1 { sum c < C, p < P, q < P {
        image[c, i + p, j + q] * w[o, c, p, q] } }
      g = build o < O, c < C, p < P, q < P { sum i < H - P + 1, j < W - P + 1 { u[o, i, j] * image[c, i + p, j + q] } }
      r = build q < Q { sum s < R { x[0, s] * v[s, q] } }
      return z, u, g, r }""", {"M": 41, "N": 45, "K": 150, "C": 7, "H": 13, "W": 14, "O": 10, "P": 3, "R": 130,
                                "Q": 700}),
}
