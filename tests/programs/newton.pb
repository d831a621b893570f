# a = 2
# x0 = 1
# -> x = 1.4142135623730951
# -> n = 5
newton(a: f64, x0: f64) {
  zero = build { i32(0) }
  x, n = while (y = x0, k = zero) at most 100 {
    c = build { abs(y * y - a) > 1e-12 }
    yield c } do {
    z = build { 0.5 * (y + a / y) }
    k_next = build { k + 1 }
    yield z, k_next }
  return x, n }
