# x = [[1, 2, 3], [4, 5, 6]]
# -> y = [1, 2, 3, 4, 5, 6]
# -> z = [[1, 2, 3], [4, 5, 6]]
# -> v = [[1, 2], [3, 4], [5, 6]]
reshape(x: f32[N, M]) {
  y = build i < N * M { x[i // M, i % M] }
  z = build n < N, m < M { y[n * M + m] }
  v = build m < M, n < N { y[m * N + n] }
  return y, z, v }
