# The second sum is made apart, and then lies where the first result is written.
# w = [[1, 2, 3, 4, 5, 6, 7, 8], [5, 6, 7, 8, 0, 1, 0, 1], [1, 0, 1, 0, 1, 0, 1, 0], [9, 1, 1, 1, 1, 1, 2, 3], [1, 0, 0, 0, 0, 0, 0, 0]]
# z = [1, 0, 2, 1, 0]
# -> place = 0
# -> most = -10
results_over_what_is_read(w: f64[5, 8], z: f64[5]) {
  u, v = build i < 8 {
      w[0, i] - sum k < 5 { w[k, i] * z[k] };
      w[1, i] - sum k < 5 { w[k, i] + z[k] } }
  place = build { argmax i < 8 { hypot(u[i], v[i]) } }
  most = build { max i < 8 { u[-i + 7] + v[i] } }
  return place = place, most = most }
