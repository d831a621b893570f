"""Small programs for devices: each strategy, a condition, a loop and a check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pullback.ir.parser import parse_program
from pullback.ir.program import Program

PROGRAMS: Final[Mapping[str, tuple[str, Mapping[str, int]]]] = {
    "elements": ("f(x: f32[N, M]) { y = build n < N, m < M { exp(x[n, m]) * 2.0 } return y }", {"N": 33, "M": 21}),
    "product": ("""layer(x: f32[B, I], w: f32[I, O], b: f32[O]) {
      y = build b1 < B, o < O { tanh(sum i < I { x[b1, i] * w[i, o] } + b[o]) } return y }""",
      {"B": 33, "I": 50, "O": 19}),
    "tensor": ("""products(x as bf16: f32[B, I], w as bf16: f32[I, O], b: f32[O]) {
      y = build b1 < B, o < O { tanh(sum i < I { x[b1, i] * w[i, o] } + b[o]) } return y }""",
      {"B": 260, "I": 136, "O": 200}),
    "tree": ("rows(x: f64[N, M]) { y = build n < N { sqrt(sum m < M { x[n, m] * x[n, m] }) } return y }",
             {"N": 5, "M": 300}),
    "trees": ("total(x: f32[N]) { y = build { max n < N { x[n] } } z = build { sum n < N { x[n] } } return y, z }",
              {"N": 70_000}),
    "position": ("first(x: f32[N]) { y = build { argmax n < N { x[n] } } return y }", {"N": 50_000}),
    "positions": ("firsts(x: f64[N, M]) { y = build n < N { argmin m < M { x[n, m] * x[n, m] } } return y }",
                  {"N": 3, "M": 500}),
    "rest": ("rest(x: f64[N]) { y = build { 1.0 + sum n < N { x[n] } } return y }", {"N": 30_000}),
    "checked": ("""checked(x: f64[N, M], at: i64[N]) { y = build { sum n < N { x[n, check(at[n], M)] } } return y }""",
                {"N": 300, "M": 7}),
    "scan": ("""scan(x: f64[N, M]) {
      z = build n < N { f64(0.0) }
      s, y = fold m < M (a = z) { b = build n < N { a[n] + x[n, m] } yield b, b } return y, s }""", {"N": 3, "M": 600}),
    "scans": ("""scans(x: f32[N]) {
      z = build { f32(0.0) }
      s, y, o = fold n < N (a = z) { b = build { 0.5 * a + x[-n + N - 1] } c = build { exp(b - a) } yield b, c, a }
      return y, o, s }""", {"N": 70_000}),
    "sort": ("sorted(x: f64[N, M]) { y = sort n < N, m < M { x[n, m] } return y }", {"N": 2, "M": 1100}),
    "order": ("order(x: f32[N, M]) { y = order n < N, m < M { x[n, m] } return y }", {"N": 3, "M": 90}),
    "scatter": ("""scatter(x: f32[N, M], at: i64[N]) {
      y: f32[9, M] = scatter n < N, m < M { [check(at[n], 9), m] += x[n, m] } return y }""", {"N": 100, "M": 30}),
    "tally": ("""tally(x: i64[N]) {
      y: i64[5] = scatter n < N { [data(x[n])] += [4 >= data(x[n]), data(x[n]) >= 0] 1 } return y }""", {"N": 9000}),
    "check": ("""gather(x: f64[M], at: i64[N]) { y = build n < N { x[check(at[n], M)] } return y }""",
              {"N": 40, "M": 7}),
    "branch": ("""branch(x: f64[N]) {
      s = build { sum n < N { x[n] } }
      positive = build { s > 0.0 }
      y = if positive { a = build n < N { x[n] / s } yield a } else { b = build n < N { -x[n] } yield b }
      return y }""", {"N": 130}),
    "sides": ("""sides(x: f64[N], a0: f64[N]) {
      s = build { sum n < N { x[n] } }
      positive = build { s > 0.0 }
      y, z = if positive {
        a = build n < N { sum k < 4 { x[n] / (s + as_f64(k)) } } yield a, x
      } else { b = build n < N { sum k < 4 { x[n] * (s + as_f64(k)) } } yield b, a0 }
      return y, z }""", {"N": 60_000}),
    "either": ("""either(x: f64[N, M], w: f64[M]) {
      s = build { sum m < M { w[m] } }
      positive = build { s > 0.0 }
      y = if positive { a = build n < N { sum m < M { x[n, m] * w[m] } } yield a
      } else { c = build n < N { max m < M { x[n, m] * w[m] } } yield c }
      return y }""", {"N": 5, "M": 9000}),
    "recurrent": ("""recurrent(w: f64[N, N], x: f64[T, N], h0: f64[N]) {
      h, all = fold t < T (s = h0) {
        a = build n < N { tanh(x[t, n] + sum m < N { w[n, m] * s[m] }) }
        b = build n < N { a[n] * a[N - 1 - n] }
        yield b, a }
      return h, all }""", {"N": 40, "T": 5}),
    "scalar": ("""scalar(first: f64[]) {
      s = while (a = first) at most 50 { c = build { a * a > 0.001 } yield c } do { b = build { a * 0.5 } yield b }
      return s }""", {}),
    "nested": ("""nested(x: f64[N], w: f64[N, N]) {
      y = fold i < 3 (a = x) {
        b = fold j < 4 (c = a) { d = build n < N { sum m < N { w[n, m] * c[m] } } yield d }
        e = build n < N { b[n] + x[n] * as_f64(i) }
        yield e }
      return y }""", {"N": 33}),
    "until": ("""until(x: f64[N], w: f64[N, N]) {
      y = while (a = x) at most 1000 {
        s = build { sum n < N { a[n] * a[n] } } c = build { s > 0.25 } yield c
      } do { b = build n < N { 0.5 * a[n] + 0.01 * sum m < N { w[n, m] * a[m] } } yield b }
      return y }""", {"N": 35}),
    "choice": ("""choice(x: f64[N], c: i64[T]) {
      y = fold t < T (a = x) {
        d = build { c[t] > 2 }
        e = if d { f = build n < N { a[n] + a[N - 1 - n] } yield f } else { yield a }
        yield e }
      return y }""", {"N": 37, "T": 6}),
    "rows": ("""rows(x: f64[N, M]) {
      y = fold t < 4 (a = x) {
        s = build n < N { sum m < M { a[n, m] } }
        b = build n < N, m < M { a[n, m] / (1.0 + s[n] * s[n]) }
        yield b }
      return y }""", {"N": 2, "M": 200}),
    "hops": ("""hops(x: f64[N], at: i64[N]) {
      y = fold t < 3 (s = x) { a = build n < N { s[check(at[n], N)] * 0.5 + x[n] } yield a }
      return y }""", {"N": 7}),
    "later": ("""later(x: i64[M], at: i64[N], w: f64[M]) {
      total = build { sum m < M { w[m] } }
      a = build n < N { x[check(at[n], M)] }
      b = build n < N { w[data(at[N - 1 - n], M)] }
      c = build n < N { w[check(a[N - 1 - n], M)] }
      last = build { max m < M { w[m] } }
      return total, a, b, c, last }""", {"N": 40, "M": 7}),
    "around": ("""around(x: i64[N], at: i64[N]) {
      y = fold t < 3 (s = at) {
        a = build n < N { x[check(s[n], N)] }
        b = build n < N { (a[N - 1 - n] + x[data(s[N - 1 - n], N)]) // 2 }
        yield b }
      return y }""", {"N": 7}),
    "twice": ("""twice(w: f64[N, M], at: i64[N]) {
      z = build n < N { f64(0.0) }
      y, r = fold t < 3 (s = at, e = z) {
        a = build n < N { w[check(s[n], N), 0] }
        b = build n < N { sum m < M { w[data(s[data(s[n], N)], N), m] * w[n, m] } }
        c = build n < N { s[N - 1 - n] }
        d = build n < N { b[n] + a[N - 1 - n] + e[n] }
        yield c, d }
      return y, r }""", {"N": 7, "M": 600}),
    "batch": ("""batch(w: f64[G, N, N], x: f64[T, B, N], h0: f64[B, N]) {
      h, all = fold t < T (s = h0) {
        a = build g < G, b < B, n < N { tanh(x[t, b, n] + sum m < N { w[g, n, m] * s[b, m] }) }
        c = build b < B, n < N { a[0, b, n] * a[1, b, n] + a[G - 1, b, N - 1 - n] }
        yield c, c }
      return h, all }""", {"N": 20, "T": 5, "B": 24, "G": 3}),
    "mixed": ("""mixed(x: f64[B, N]) {
      y = fold t < 4 (s = x) {
        a = build b < B, n < N { sum m < N { tanh(s[b, m] * s[B - 1 - b, n]) } }
        yield a }
      return y }""", {"N": 20, "B": 24}),
    "large": ("""large(x: f64[N]) {
      y = fold t < 3 (a = x) { b = build n < N { a[n] * 0.5 + a[N - 1 - n] } yield b }
      return y }""", {"N": 400_000}),
    "turn": ("""turn(x: f32[B, N, M], z: f32[B, M, N]) {
      y = build b < B, m < M, n < N { x[b, n, m] + exp(z[b, m, n]) * x[B - 1 - b, n, m] } return y }""",
      {"B": 3, "N": 70, "M": 100}),
    "columns": ("columns(x: f32[N, M]) { y = build m < M { sqrt(sum n < N { x[n, m] * x[n, m] }) } return y }",
                {"N": 3000, "M": 41}),
    "many": ("many(x: f32[N, M], w: f32[M]) { y = build n < N, m < M { exp(x[n, m]) * w[m] } return y }",
             {"N": 3, "M": 250_000}),
    "all": ("all(x: f64[N, M]) { y = build n < N, m < M { x[n, m] * x[n, m] + 1.0 } return y }",
            {"N": 1001, "M": 601}),
    "range": ("""range(x: f64[N, M]) {
      a = build n < N { max m < M { x[n, m] } }
      y = build n < N { a[n] - min m < M { x[n, m] } } return y }""", {"N": 5, "M": 60}),
    "sums": ("sums(x: f32[N, M]) { y = build m < M { 1.0 - sum n < N { x[n, m] } } return y }", {"N": 3000, "M": 132}),
    "firsts": ("firsts(x: f32[N, M]) { y = build n < N { argmax m < M { x[n, m] } } return y }", {"N": 300, "M": 500}),
    "short": ("short(x: f64[N, M]) { y = build n < N { max m < M { x[n, m] * x[n, m] } } return y }",
              {"N": 700, "M": 9}),
    "softmax": ("""softmax(x: f32[N, M]) {
      a = build n < N { max m < M { x[n, m] } }
      e = build n < N, m < M { exp(x[n, m] - a[n]) }
      s = build n < N { sum m < M { e[n, m] } }
      y = build n < N, m < M { e[n, m] / s[n] }
      return y, s }""", {"N": 33, "M": 70}),
    "normal": ("""normal(x: f64[N, M], g: f64[M]) {
      a = build n < N { sum m < M { x[n, m] } / as_f64(M) }
      c = build n < N, m < M { x[n, m] - a[n] }
      v = build n < N { sum m < M { c[n, m] * c[n, m] } / as_f64(M) }
      r = build n < N { 1.0 / sqrt(v[n] + 0.00001) }
      y = build n < N, m < M { c[n, m] * r[n] * g[m] }
      p = build n < N { argmax m < M { y[n, m] } }
      return y, p }""", {"N": 5, "M": 600}),
}  # fmt: skip


def program(name: str) -> tuple[Program, Mapping[str, int]]:
    """A program with its dims."""
    text, dims = PROGRAMS[name]
    return parse_program(text), dims
