# x = [1, 2]
# j = [1, 0, 1]
# -> y = [2, 1, 2]
# ---
# x = [1, 2]
# j = [1, 2, 1]
# -> error E402
bounds_declared(x: f32[N], j in [0, N): i64[M]) {
  y = build m < M { x[data(j[m], N)] }
  return y }
