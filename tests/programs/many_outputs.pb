# x = [3, 4]
# -> first = [9, 16]
# -> second = [3, 4]
many_outputs(x: f64[N]) {
  a, b = build i < N { x[i] * x[i]; sqrt(x[i] * x[i]) }
  return first = a, second = b }
