# x = [[3, 1, 3], [-1, -1, -2]]
# -> total = 3
# -> largest = [3, -1]
# -> where_largest = [0, 0]
# -> smallest = [1, -2]
# -> where_smallest = 5
# -> product = [9, -2]
# -> some = [true, false]
# -> every = false
# ---
# x = [[nan, 1, 3], [1, nan, 2]]
# -> total = nan
# -> largest = [nan, nan]
# -> where_largest = [0, 1]
# -> smallest = [nan, nan]
# -> where_smallest = 0
# -> product = [nan, nan]
# -> some = [true, true]
# -> every = false
reductions(x: f64[N, M]) {
  total = build { sum n < N, m < M { x[n, m] } }
  largest = build n < N { max m < M { x[n, m] } }
  where_largest = build n < N { argmax m < M { x[n, m] } }
  smallest = build n < N { min m < M { x[n, m] } }
  where_smallest = build { argmin n < N, m < M { x[n, m] } }
  product = build n < N { prod m < M { x[n, m] } }
  some = build n < N { any m < M { x[n, m] > 0.0 } }
  every = build { all n < N, m < M { x[n, m] > 0.0 } }
  return total, largest, where_largest, smallest, where_smallest, product, some, every }
