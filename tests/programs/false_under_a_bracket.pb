# x = [1, 2, 3]
# -> y = [3, 3, 3]
# After fusion the test is a bracket around false, which is false everywhere.
false_under_a_bracket(x: f64[N]) {
  b, c = build i < N { false; i16(1) }
  y = build i < N { sum m < N { [m >= 1] b[m - 1] ? as_f64(m + 7) : 1.0 } }
  return y }
