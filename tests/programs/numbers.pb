# x = 1
# -> a = -0.0
# -> b = inf
# -> c = nan
# -> d = 0.1
# -> e = -9223372036854775808
# -> f = 18446744073709551615
numbers(x: f32) {
  a = build { f32(-0.0) }
  b = build { f64(inf) }
  c = build { f64(nan) }
  d = build { f32(0.1) }
  e = build { i64(-9223372036854775808) }
  f = build { u64(18446744073709551615) }
  return a, b, c, d, e, f }
