# x = [1, 2]
# -> y = [0, 0]
structural_zero(x: f32[N]) {
  y = build i < N { f32({}) }
  return y }
