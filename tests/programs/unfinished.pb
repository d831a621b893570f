# parse error E302 3:27
unfinished(x: f64[N]) {
  y = build i < N { x[i + ] }
  return y }
