# Programs that make every strategy do something, each under its name.

# product
f(a: f32[9, 10], b: f32[10, 11]) {
  c = build i < 9, j < 11 { sum k < 10 { a[i, k] * b[k, j] } }
  return c }


# product of transposed
f(a: f32[10, 6], b: f32[9, 10]) {
  c = build i < 6, j < 9 { sum k < 10 { a[k, i] * b[j, k] } }
  return c }


# product in double precision
f(a: f64[5, 7], b: f64[7, 6]) {
  c = build i < 5, j < 6 { sum k < 7 { a[i, k] * b[k, j] } }
  return c }


# product with a vector
f(a: f32[6, 9], x: f32[9]) {
  y = build i < 6 { sum k < 9 { a[i, k] * x[k] } }
  return y }


# product of few rows
f(x: f32[2, 20], y: f32[20, 40]) {
  z = build i < 2, j < 40 { sum k < 20 { x[i, k] * y[k, j] } }
  return z }


# product in groups
f(w: f32[12, 3], g: f32[12, 5]) {
  y = build i < 6, k < 5 { sum o < 6 { w[o + 6 * (i // 3), i % 3] * g[o + 6 * (i // 3), k] } }
  return y }


# convolution
f(x: f32[2, 7, 7], w: f32[3, 2, 3, 3]) {
  y = build o < 3, i < 7, j < 7 { sum c < 2, p < 3, q < 3 { [7 >= i + p, 7 >= j + q, i + p >= 1, j + q >= 1] x[c, i + p - 1, j + q - 1] * w[o, c, p, q] } }
  return y }


# convolution in steps of two
f(x: f32[2, 9, 9], w: f32[3, 2, 3, 3]) {
  y = build o < 3, i < 4, j < 4 { sum c < 2, p < 3, q < 3 { x[c, 2 * i + p, 2 * j + q] * w[o, c, p, q] } }
  return y }


# elementwise
f(x: f32[7, 9], y: f32[9]) {
  z = build i < 7, j < 9 { exp(x[i, j]) / y[j] + x[i, j] / y[j] }
  return z }


# statements over one space
f(x: f32[9, 6], w: f32[6]) {
  a = build i < 9 { sum j < 6 { x[i, j] * w[j] } }
  b = build i < 9 { tanh(a[i]) }
  c = build i < 9, j < 6 { b[i] * x[i, j] }
  d = build i < 9 { b[i] * b[i] + a[i] }
  return c, d }


# softmax
f(x: f32[5, 9]) {
  m = build i < 5 { max j < 9 { x[i, j] } }
  e = build i < 5, j < 9 { exp(x[i, j] - m[i]) }
  s = build i < 5 { sum j < 9 { e[i, j] } }
  y = build i < 5, j < 9 { e[i, j] / s[i] }
  return y }


# triangle
f(x: f32[9, 9], w: f32[9]) {
  y = build i < 9, j < 9 { [i >= j] x[i, j] * w[j] + [j >= i + 2] w[i] }
  return y }


# stencil
f(x: f32[11, 9]) {
  y = build i < 11, j < 9 { [9 >= i, i >= 1] x[i - 1, j] + [j >= 1] x[i, j - 1] }
  return y }


# joined
f(x: f32[9], y: f32[7]) {
  z = build i < 16 { [8 >= i] x[i] + [i >= 9] y[i - 9] }
  return z }


# interleaved
f(x: f32[12], y: f32[12]) {
  z = build i < 24 { [i % 2 == 0] x[i // 2] + [i % 2 == 1] y[i // 2] }
  return z }


# turned
f(x: f32[9, 8]) {
  y = build i < 8, j < 9 { x[-j + 8, i] + x[j, -i + 7] }
  return y }


# positions
f(x: f32[5, 33], y: f64[40]) {
  p = build i < 5 { argmax j < 33 { x[i, j] } }
  q = build { argmin j < 40 { y[j] } }
  return p, q }


# extremes
f(x: f32[33], y: i32[20]) {
  a = build { max i < 33 { x[i] } }
  b = build { min i < 20 { y[i] } }
  return a, b }


# sums
f(x: f32[33], y: f64[9, 5]) {
  a = build { sum i < 33 { x[i] * x[i] } }
  b = build j < 5 { sum i < 9 { y[i, j] } }
  c = build { prod i < 5 { y[0, i] } }
  return a, b, c }


# bools
f(x: f32[9], b: bool[9]) {
  c = build i < 9 { b[i] && x[i] < 0.5 }
  d = build { any i < 9 { c[i] } }
  e = build i < 9 { b[i] ? x[i] : -x[i] }
  return c, d, e }


# integers
f(x: i32[9], y: i32[9]) {
  z = build i < 9 { x[i] * y[i] - 3 * x[i] + x[i] // (y[i] + 2) }
  s = build { sum i < 9 { z[i] } }
  return z, s }


# scatter
f(x: f32[9, 3], p in [0, 5): i64[9]) {
  y: f32[5, 3] = scatter i < 9, j < 3 { [data(p[i], 5), j] += 2.0 * x[i, j] }
  return y }


# gather
f(x: f32[7, 4], p in [0, 7): i64[9]) {
  y = build i < 9, j < 4 { x[data(p[i], 7), j] }
  return y }


# sort
f(x: f32[3, 9]) {
  y = sort r < 3, i < 9 { x[r, i] }
  p = order r < 3, i < 9 { x[r, i] }
  return y, p }


# recurrence
f(x: f32[5, 9], a: f32[9]) {
  s = build i < 9 { f32(0.0) }
  y, ys = fold t < 5 (c = s) {
    n = build i < 9 { a[i] * c[i] + x[t, i] }
    r = build i < 9 { tanh(n[i]) }
    yield n, r }
  return y, ys }


# network that recurs
f(x: f32[4, 5], w: f32[5, 5], h: f32[5]) {
  y, ys = fold t < 4 (c = h) {
    a = build i < 5 { sum j < 5 { w[i, j] * c[j] } }
    n = build i < 5 { tanh(a[i] + x[t, i]) }
    r = build i < 5 { n[i] * n[i] }
    yield n, r }
  return y, ys }


# update
f(x: f32[9], v: f32[5]) {
  y = fold t < 5 (c = x) {
    n = build i < 9 { [t + 1 == i] v[t] * c[i] + [t + 1 != i] c[i] }
    yield n }
  return y }


# update of rows
f(x: f32[9, 5], v: f32[4, 5]) {
  y = fold t < 4 (c = x) {
    n = build i < 9, j < 5 { c[i, j] + [t + 1 == i] v[t, j] }
    yield n }
  return y }


# choice
f(x: f32[9]) {
  c = build { x[0] < x[1] }
  y = if c {
    a = build i < 9 { 2.0 * x[i] }
    yield a } else {
    b = build i < 9 { x[i] * x[i] }
    yield b }
  return y }


# loop by data
f(x: f32[5]) {
  n = build { i32(0) }
  y, k = while (c = x, m = n) at most 6 {
    g = build { m < 4 }
    yield g } do {
    d = build i < 5 { c[i] * x[i] }
    o = build { m + 1 }
    yield d, o }
  return y, k }


# interleaved with a rest
f(x: f32[13], y: f32[12]) {
  z = build i < 25 { [i % 2 == 0] x[i // 2] + [i % 2 == 1] y[i // 2] }
  return z }


# triangle at the other corner
f(x: f32[9, 9], w: f32[9]) {
  y = build i < 9, j < 9 { [8 >= i + j] x[i, j] * w[j] + x[i, j] }
  return y }


# scatter of many
f(x: f32[300], p in [0, 3): i64[300]) {
  y: f32[3] = scatter i < 300 { [data(p[i], 3)] += exp(x[i]) }
  return y }


# product of any sizes
f(a: f32[N, K], b: f32[K, M]) {
  c = build i < N, j < M { sum k < K { a[i, k] * b[k, j] } }
  return c }

# triangle of any size
f(x: f32[N, N], w: f32[N]) {
  y = build i < N, j < N { [i >= j] x[i, j] * w[j] + [N >= i + j + 1] x[i, j] }
  return y }

# softmax of any size
f(x: f32[M, N]) {
  m = build i < M { max j < N { x[i, j] } }
  e = build i < M, j < N { exp(x[i, j] - m[i]) }
  s = build i < M { sum j < N { e[i, j] } }
  y = build i < M, j < N { e[i, j] / s[i] }
  p = build i < M { argmax j < N { x[i, j] } }
  return y, p }
