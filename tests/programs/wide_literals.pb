# x = [5, 18446744073709551615]
# -> y = [18446744073709551610, 0]
# -> z = [18446744073709551615, 18446744073709551615]
wide_literals(x: u64[N]) {
  y = build i < N { bitwise_invert(x[i]) }
  z = build i < N { bitwise_invert([i >= N] x[i]) | x[i] }
  return y, z }
