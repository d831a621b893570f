# x = []
# -> error E105
# ---
# x = [1, 2]
# -> y = 2
empty_maximum(x: f32[N]) {
  y = build { max n < N { x[n] } }
  return y }
