# x = [1, 2]
# -> s = [0, 0]
scatter_of_nothing(x: f64[N]) {
  s: f64[N] = scatter i < N { [2 * i + 2] += {} }
  return s }
