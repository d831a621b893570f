# x = [1, 2, 3, 4]
# w = [1, 10, 100]
# -> y = [210, 321, 432, 43]
# ---
# x = [5]
# w = [1, 10]
# -> y = [50]
convolution_padded(x: f64[N], w: f64[K]) {
  y = build i < N { sum k < K { [i + k >= 1, N >= i + k] x[i + k - 1] * w[k] } }
  return y }
