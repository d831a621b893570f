# x = [0, 1]
# -> y = [0.5, 0.7310585786300049]
# builds: 1
shared_parts(x: f64[N]) {
  y = build i < N {
      let e = exp(-x[i]);
      let d = 1.0 + e;
      d / (d * d) }
  return y }
