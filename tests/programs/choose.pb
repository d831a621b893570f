# x = [1, 2]
# c = true
# -> y = [2, 4]
# ---
# x = [1, 2]
# c = false
# -> y = [-1, -2]
choose(x: f64[N], c: bool) {
  y = if c {
    a = build i < N { 2.0 * x[i] }
    yield a } else {
    b = build i < N { -x[i] }
    yield b }
  return y }
