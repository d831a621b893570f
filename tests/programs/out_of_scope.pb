# parse error E303 3:21
out_of_scope(x: f64[N]) {
  y = build i < N { z[i] }
  return y }
