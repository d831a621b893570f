# data = [1, 2, 3]
# size = 2
# -> sum = 12
# -> zero = [1, 1, 1]
words_as_names(data: f64[N], size: f64) {
  build = build { sum in < N { data[in] } }
  sum = build { size * build }
  zero = build max < N { maximum(min n < N { data[n] }, sum - 12.0) }
  return sum, zero }
