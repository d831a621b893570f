"""Shaikhha et al.: the language of Fig. 3, its typing rules, and `deriv` (Algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxtyping import Bool, Float64, Int64

import pullback as pb
from pullback import Array
from pullback.errors import PullbackError

Vector = Float64[Array, "N"]
Number = Float64[Array, ""]
V, W = np.array([0.5, 1.5, 2.5]), np.array([1.0, -1.0, 2.0])


# D01: typing rules, one program that each accepts and one that it rejects --------------------------------------------


@pb.function
def norm(x: Vector) -> Any:
    return pb.sum(x * x)


def accepted_app(x: Vector) -> Any:
    return norm(x) + norm(x * 2)


def rejected_app(x: Float64[Array, "N M"]) -> Any:
    return norm(x)


def accepted_abs(x: Vector) -> Any:
    return (lambda y: y * x)(x)


def rejected_abs(x: Vector) -> Any:
    return lambda y: y * x  # a function is no element of a result


def accepted_var(x: Vector) -> Any:
    return x


def rejected_var(x: Vector) -> Any:
    return pb.build(x.shape[0], lambda n: x[n, n])


def accepted_let(x: Vector) -> Any:
    y = x * x
    return y + y


def rejected_let(x: Vector, z: Float64[Array, "M"]) -> Any:
    y = x * x
    return y + z


def accepted_if(x: Vector, c: Bool[Array, ""]) -> Any:
    return pb.cond(c, lambda: x * 2, lambda: x)


def rejected_if(x: Vector, c: Bool[Array, ""]) -> Any:
    return pb.cond(c, lambda: x * 2, lambda: pb.sum(x))


def accepted_if_test(x: Vector) -> Any:
    return pb.where(x > 0, x, 0.0)


def rejected_if_test(x: Vector) -> Any:
    return pb.where(x, x, 0.0)  # the test is no Bool


RULES = ("app", "abs", "var", "let", "if", "if_test")


@pytest.mark.parametrize("rule", RULES)
def test_d01_typing_rule_accepts(rule: str) -> None:
    assert pb.function(globals()[f"accepted_{rule}"]).type


@pytest.mark.parametrize("rule", RULES)
def test_d01_typing_rule_rejects(rule: str) -> None:
    with pytest.raises(PullbackError):
        pb.function(globals()[f"rejected_{rule}"])


def test_d01_pairs_hold_anything_but_functions() -> None:
    @pb.function
    def pairs(x: Vector) -> Any:
        return (x, (norm(x), x > 1)), {"n": x.shape[0] + 0 * pb.astype(x > 1, pb.int64)}

    (a, (b, c)), d = pairs(V)
    assert a.shape == (3,) and float(b) == float(V @ V) and c.tolist() == [False, True, True]
    assert d["n"].tolist() == [3, 3, 3]


# D02: the constants of Fig. 3 ---------------------------------------------------------------------------------------

BINARY: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "+": (lambda x, y: x + y, lambda x, y: x + y),
    "-": (lambda x, y: x - y, lambda x, y: x - y),
    "*": (lambda x, y: x * y, lambda x, y: x * y),
    "/": (lambda x, y: x / y, lambda x, y: x / y),
    "**": (lambda x, y: x**y, lambda x, y: x**y),
    "<": (lambda x, y: x < y, lambda x, y: x < y),
    ">": (lambda x, y: x > y, lambda x, y: x > y),
    "==": (lambda x, y: x == y, lambda x, y: x == y),
    "<>": (lambda x, y: x != y, lambda x, y: x != y),
    "&&": (lambda x, y: (x > 1) & (y > 1), lambda x, y: x > 1 and y > 1),
    "||": (lambda x, y: (x > 1) | (y > 1), lambda x, y: x > 1 or y > 1),
    "!": (lambda x, y: ~(x > y), lambda x, y: not x > y),
    "sin": (lambda x, y: pb.sin(x), lambda x, y: math.sin(x)),
    "cos": (lambda x, y: pb.cos(x), lambda x, y: math.cos(x)),
    "tan": (lambda x, y: pb.tan(x), lambda x, y: math.tan(x)),
    "log": (lambda x, y: pb.log(x), lambda x, y: math.log(x)),
    "exp": (lambda x, y: pb.exp(x), lambda x, y: math.exp(x)),
    "sqrt": (lambda x, y: pb.sqrt(x), lambda x, y: math.sqrt(x)),
    "pair, fst": (lambda x, y: (x, y)[0], lambda x, y: x),
    "pair, snd": (lambda x, y: (x, y)[1], lambda x, y: y),
}


@pytest.mark.parametrize("name", BINARY)
def test_d02_constant(name: str) -> None:
    ours, python = BINARY[name]

    @pb.function
    def f(x: Number, y: Number) -> Any:
        return ours(x, y)

    for x, y in ((0.5, 2.0), (2.0, 0.5), (1.5, 1.5)):
        assert float(f(x, y)) == pytest.approx(float(python(x, y)), rel=1e-14)


def test_d02_build_ifold_get_length() -> None:
    @pb.function
    def f(x: Vector, at: Int64[Array, ""]) -> Any:
        n = x.shape[0]
        built = pb.build(n, lambda i: x[n - 1 - i])  # build, length, get
        folded = pb.fold(n, 1.0, lambda s, i: s * x[i])  # ifold
        return built, folded, n + at, x[pb.in_range(at, n)]  # e₀[e₁] for an index that is a number

    built, folded, length, element = f(V, 1)
    assert built.tolist() == V[::-1].tolist() and length == 4 and element == V[1]
    assert float(folded) == pytest.approx(V.prod(), rel=1e-14)


# D04: arrays of any size --------------------------------------------------------------------------------------------


def test_d04_sizes_are_known_when_it_runs() -> None:
    @pb.function
    def f(x: Vector) -> Any:
        return pb.build((x.shape[0], x.shape[0]), lambda i, j: x[i] - x[j])

    gradient = pb.vjp(f)
    for n in (1, 2, 5, 17):
        x = np.linspace(0, 1, n)
        np.testing.assert_array_equal(f(x), x[:, None] - x[None, :])
        np.testing.assert_allclose(gradient(x, cotangent=np.ones((n, n)))[1][0], np.zeros(n), atol=1e-12)
    assert pb.grad(norm).ir.count("N") >= 1  # one program for all


# D05: deriv, by any free variable ------------------------------------------------------------------------------------


@pytest.mark.parametrize("independent", ["x", "s", "m"])
def test_d05_by_any_free_variable_of_a_closure(independent: str) -> None:
    """`deriv e v` for a scalar, vector and matrix v, where e stands inside a function that has v around it."""

    def e(x: Any, s: Any, m: Any) -> Any:
        return pb.sum(pb.sin(m @ x) * s)

    @pb.function
    def deriv(x: Vector, s: Number, m: Float64[Array, "M N"]) -> Any:
        free = {"x": x, "s": s, "m": m}
        around = free[independent]

        def closure(v: Any) -> Any:
            return e(**{**free, independent: v})

        return pb.grad(closure)(around)

    def value(**names: Any) -> Any:
        return np.sum(np.sin(names["m"] @ names["x"]) * names["s"])

    given: dict[str, Any] = {"x": V, "s": np.array(1.5), "m": np.arange(6.0).reshape(2, 3) / 5}
    found = np.asarray(deriv(**given))
    assert found.shape == given[independent].shape
    for at in np.ndindex(found.shape):
        ends = []
        for sign in (1, -1):
            moved = given[independent].copy()
            moved[at] += sign * 1e-6
            ends.append(value(**{**given, independent: moved}))
        assert found[at] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)


def test_d05_value_and_derivative_of_deriv() -> None:
    """The macro gives both; `snd` of it is the derivative alone (D09)."""

    def f(a: Number) -> Any:
        return pb.cos(a)

    value, derivative = pb.value_and_grad(f)(0.7)
    assert float(value) == pytest.approx(math.cos(0.7), rel=1e-15)
    assert float(derivative) == pytest.approx(-math.sin(0.7), rel=1e-15)


# Omissions -----------------------------------------------------------------------------------------------------------


def test_f15_rows_may_differ_in_length() -> None:
    """Array<Array<Double>> of Fig. 3 says nothing about the lengths of rows: here they are values and offsets."""

    @pb.function
    def squares(x: Any) -> Any:
        return (x * x).sum()

    rows = [[1.0, 3.0], [], [5.0, 2.0, 4.0]]
    x = pb.jagged(rows)
    np.testing.assert_array_equal(squares(x), [sum(a * a for a in row) for row in rows])
    gradient = pb.grad(pb.function(lambda v, x: pb.sum(squares(x.with_values(v)) * np.array([1.0, 2.0, 3.0]))))
    np.testing.assert_array_equal(gradient(x.values, x), [2.0, 6.0, 30.0, 12.0, 24.0])
    with pytest.raises(PullbackError, match="E153"):
        pb.Jagged(x.values, np.array([0, 4, 2, 5]))


def test_f16_trip_counts_are_data() -> None:
    @pb.function
    def by_size(x: Number, n: pb.Size["S"]) -> Any:
        return pb.fold(n, pb.ones(()), lambda s, i: s * x)

    @pb.function
    def by_data(x: Number, n: Int64[Array, "N"]) -> Any:
        """A count for each element, that an array holds."""
        going, body = lambda s: s[1] < pb.max(n), lambda s: (pb.where(s[1] < n, s[0] * x, s[0]), s[1] + 1)
        return pb.sum(pb.while_loop(going, body, (pb.ones(n.shape), pb.asarray(0)), max_trips=10)[0])

    for n in (1, 2, 5):
        assert by_size(2.0, n) == 2.0**n
        assert pb.grad(by_size)(2.0, n) == n * 2.0 ** (n - 1)
    counts = np.array([0, 3, 1, 5])
    assert by_data(2.0, counts) == (2.0**counts).sum()
    assert pb.grad(by_data)(2.0, counts) == (counts * 2.0 ** (counts - 1)).sum()
    with pytest.raises(PullbackError, match="E404"):
        by_data(2.0, np.array([11]))


def test_f17_slices_have_ends_that_are_known_at_run_time() -> None:
    @pb.function
    def part(v: Vector, start: pb.Size["S"], end: pb.Size["E"]) -> Any:
        return pb.linalg.slice(v, start, end)

    @pb.function
    def energy(v: Vector, start: pb.Size["S"], end: pb.Size["E"]) -> Any:
        return pb.sum(part(v, start, end) ** 2)

    v = np.arange(6.0)
    for start, end in [(0, 0), (1, 3), (2, 5), (0, 5)]:
        np.testing.assert_array_equal(part(v, start, end), v[start : end + 1])
        np.testing.assert_array_equal(part.interpret(v, start, end), v[start : end + 1])
        gradient = pb.grad(energy)(v, start, end)
        np.testing.assert_array_equal(gradient, np.where((np.arange(6) >= start) & (np.arange(6) <= end), 2 * v, 0))
    assert part.type == "(v: f64[N], start: S, end: E) -> f64[E - S + 1] where E >= S"
    for start, end, code in [(2, 6, "E401"), (4, 2, "E114"), (-1, 2, "E113")]:
        with pytest.raises(PullbackError, match=code):
            part(v, start, end)
    assert "return 1" in part.c_source()  # the bounds check
