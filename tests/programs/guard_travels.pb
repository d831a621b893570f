# x = [0, 1, 4]
# -> y = [0, 0, 1.3862943611198906]
# -> d = [0, 1, 0.25]
guard_travels(x: f64[N]) {
  y = build i < N { x[i] > 0.0 ? log(x[i]) : 0.0 }
  d = build i < N { x[i] > 0.0 ? 1.0 / x[i] : {} }
  return y, d }
