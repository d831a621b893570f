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
}  # fmt: skip


def program(name: str) -> tuple[Program, Mapping[str, int]]:
    """A program with its dims."""
    text, dims = PROGRAMS[name]
    return parse_program(text), dims
