# x1 = [false, false]
# x2 = [-8, 6]
# x3 = [9]
# x4 = [[-4, -4], [-4, 32767]]
# -> t22 = [true, false]
# -> f12 = [0, 0]
types_share_no_memory(x1: bool[N], x2: i32[M], x3: u64[K], x4: i16[M, N]) {
  f12 = fold t < M (c7 = x2) {
    r9 = build i < M { max m < 3, p < 3 { [M >= 2 * i + 2 * p + 2] c7[2 * i + 2 * p + 1] } }
    yield r9 }
  f19 = fold t < N (c14 = x1) {
    r17 = build i < N { sum m < M { x3[data(as_i64(m - 1) % as_i64(K), K)] } < [K >= 2 * i + 1] 1 << x3[K - 1] }
    yield r17 }
  t21, t22 = build i < N { false; f19[i] }
  return t22, f12 }
