# x = [1, 2, 3, 4, 5]
# w = [1, 1]
# -> y = [3, 5, 7, 9]
# ---
# x = [1]
# w = [1, 1]
# -> error E114
solved_dims(x: f64[N], w: f64[K]) where N >= K {
  y = build i < N - K + 1 { sum k < K { x[i + k] * w[k] } }
  return y }
