# j = [0, 2, 2, 1, 2]
# n = [0, 0, 0]
# -> h = [1, 1, 3]
# -> total = 5
histogram(j: u8[M], n: i32[N]) {
  h: i32[N] = scatter m < M { [check(j[m], N)] += 1 }
  total: i64 = scatter m < M { [] += 1 }
  return h, total }
