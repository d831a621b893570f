# x = [1, 2, 3, 4, 5]
# -> y = [1, 3, 5]
stride_two(x: f32[2 * P - 1]) {
  y = build p < P { x[2 * p] }
  return y }
