# x = [1, 2, 3]
# z = 0
# -> total = 6
# -> sums = [1, 3, 6]
running_sum(x: f32[T], z: f32) {
  total, sums = fold t < T (s = z) {
    r = build { s + x[t] }
    yield r, r }
  return total, sums }
