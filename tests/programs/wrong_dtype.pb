# parse error E304 3:28
wrong_dtype(x: f64[N], j: i32[N]) {
  y = build i < N { x[i] + j[i] }
  return y }
