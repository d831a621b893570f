# a = 3
# -> b = 12
at_most(a: i32) {
  b = while (s = a) at most 2 {
    yes = build { true }
    yield yes } do {
    d = build { 2 * s }
    yield d }
  return b }
