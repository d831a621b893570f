# x = [1, 2]
# S = 3
# -> y = [[1, 2], [2, 3], [3, 4]]
sizes(x: f64[N], S: size) {
  y = build s < S, n < N { x[n] + as_f64(s) }
  return y }
