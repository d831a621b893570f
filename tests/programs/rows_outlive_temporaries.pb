# x = [1, 2, 3]
# j = [0, 1, 0, 2, 2]
# -> s = [-1, -1, -1, -1, -1]
# -> y = [1, 1, 1]
# The rows a fold stacks must not share memory with what later trips compute on the way.
rows_outlive_temporaries(x: f64[N], j: i64[M]) {
  s, rows = fold t < 3 (c = j) {
    r = build i < M { x[0] > x[check(argmin m < 3 { x[0] } % as_i64(N), N)] ? j[M - i - 1] : -1 }
    ones = build i < N { f64(1.0) }
    yield r, ones }
  y = fold t < N (d = x) {
    r = build i < N { rows[0, i] }
    yield r }
  return s, y }
