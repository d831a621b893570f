# j = [0, 5, -1, 1]
# x = [1, 2, 4, 8]
# n = [0, 0]
# -> s = [1, 8]
scatter_guarded(j: i32[M], x: f64[M], n: bool[N]) {
  s: f64[N] = scatter m < M { [data(j[m])] += [data(j[m]) >= 0, N >= data(j[m]) + 1] x[m] }
  return s }
