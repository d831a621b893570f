# x = []
# -> total = 0
# -> product = 1
# -> some = false
# -> every = true
empty_reductions(x: f32[N]) {
  total = build { sum n < N { x[n] } }
  product = build { prod n < N { x[n] } }
  some = build { any n < N { x[n] > 0.0 } }
  every = build { all n < N { x[n] > 0.0 } }
  return total, product, some, every }
