# x = [1.5, 2.5, 3.5]
# j = [2, 0]
# -> y = [3.5, 1.5]
# ---
# x = [1.5, 2.5, 3.5]
# j = [2, 3]
# -> error E401
# ---
# x = [1.5, 2.5, 3.5]
# j = [-1, 0]
# -> error E401
gather_checked(x: f64[N], j: i32[M]) {
  y = build m < M { x[check(j[m], N)] }
  return y }
