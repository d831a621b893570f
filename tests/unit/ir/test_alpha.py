"""Statements that differ in names alone have one key."""

from __future__ import annotations

import pytest

from pullback.ir.alpha import alpha_key
from pullback.ir.parser import parse_program
from pullback.ir.program import Build, Scatter, Statement


def statement(text: str, at: int = 0) -> Build | Scatter:
    s: Statement = parse_program(text).body.statements[at]
    assert isinstance(s, Build | Scatter)
    return s


def body(value: str, inputs: str = "x: f64[8], w: f64[8]", over: str = "n < 8") -> Build | Scatter:
    return statement(f"f({inputs}) {{ y = build {over} {{ {value} }} return y }}")


SAME = [
    (body("x[n] * w[n]"), body("b[i] * a[i]", "b: f64[8], a: f64[8]", "i < 8")),
    (body("sum m < 8 { x[m] * w[n] }"), body("sum k < 8 { b[k] * a[i] }", "b: f64[8], a: f64[8]", "i < 8")),
    (
        body("[n + m >= 3] x[n]", over="n < 8, m < 8"),
        body("[q + p >= 3] x[p]", over="p < 8, q < 8"),
    ),
]
OTHER = [
    (body("x[n] * w[n]"), body("x[n] * x[n]")),
    (body("x[n] * w[n]"), body("x[n] + w[n]")),
    (body("x[n] - w[n]"), body("w[n] - x[7 - n]")),
    (body("x[n] * 2.0"), body("x[n] * 3.0")),
    (body("x[n]"), body("x[n]", "x: f32[8]")),
    (body("x[n]", over="n < 8, m < 8"), body("x[m]", over="n < 8, m < 8")),
    (body("[n >= 3] x[n]"), body("[n >= 4] x[n]")),
    (body("[n >= 3] x[n]"), body("x[n]")),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_names_do_not_count(a: Build, b: Build) -> None:
    (key, refs), (other, others) = alpha_key(a), alpha_key(b)
    assert key == other
    assert len(refs) == len(others)


@pytest.mark.parametrize(("a", "b"), OTHER)
def test_everything_else_counts(a: Build, b: Build) -> None:
    assert alpha_key(a)[0] != alpha_key(b)[0]


def test_arrays_come_in_the_order_in_which_they_are_counted() -> None:
    s = body("w[n] * x[n]")
    assert [r.name for r in alpha_key(s)[1]] == ["y", "w", "x"]


def test_variables_from_outside_stay_themselves() -> None:
    text = """
    f(x: f64[4, 4]) {
        y = fold t < 4 (s = x) { r = build i < 4, j < 4 { s[t, j] } yield r }
        z = fold t < 4 (s = x) { r = build i < 4, j < 4 { s[t, j] } yield r }
        return y, z
    }
    """
    first, second = (f.body.statements[0] for f in parse_program(text).body.statements)  # type: ignore[union-attr]
    assert isinstance(first, Build)
    assert isinstance(second, Build)
    assert alpha_key(first)[0] == alpha_key(first)[0]
    assert alpha_key(first)[0] != alpha_key(second)[0]
