# verify error E313
out_of_range(x: f64[N]) {
  y = build i < N { x[i + 1] }
  return y }
