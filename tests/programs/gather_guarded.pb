# x = [1.5, 2.5, 3.5]
# j = [2, 7, -1]
# -> y = [3.5, 0, 0]
# -> z = [3.5, -1, -1]
gather_guarded(x: f64[N], j: i32[M]) {
  y = build m < M { [data(j[m]) >= 0, N >= data(j[m]) + 1] x[data(j[m])] }
  z = build m < M { [data(j[m]) >= 0, N >= data(j[m]) + 1] true ? x[check(j[m], N)] : -1.0 }
  return y, z }
