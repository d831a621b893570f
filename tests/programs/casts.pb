# x = [1.9, -1.9, 300, -300, nan, inf]
# -> a = [1, -1, 127, -128, 0, 127]
# -> b = [1, 0, 255, 0, 0, 255]
# -> c = [true, true, true, true, true, true]
# -> d = [0, 1, 2, 3, 4, 5]
casts(x: f64[N]) {
  a = build i < N { i8(x[i]) }
  b = build i < N { u8(x[i]) }
  c = build i < N { bool(x[i]) }
  d = build i < N { as_f32(i) }
  return a, b, c, d }
