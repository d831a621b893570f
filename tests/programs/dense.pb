# x = [[1, 2, 3], [4, 5, 6]]
# w = [[1, 0, -1], [0.5, 0.5, 0.5]]
# b = [10, 20]
# -> y = [[8, 23], [8, 27.5]]
# builds: 2, reductions: 1
dense(x: f32[N, M], w: f32[K, M], b: f32[K]) {
  s = build n < N, k < K { sum m < M { x[n, m] * w[k, m] } }
  y = build n < N, k < K { s[n, k] + b[k] }
  return y }
