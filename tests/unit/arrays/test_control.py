"""Loops and choices with state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Float64, Int64

import pullback as pb
from pullback import Array


class Pair(NamedTuple):
    a: Float64[Array, "N"]
    b: Float64[Array, ""]


@dataclass(frozen=True)
class Body:
    position: Float64[Array, "N"]
    speed: Float64[Array, "N"]


def test_fold_over_trees(check):
    @pb.function
    def f(start: Pair, x: Float64[Array, "K"]):
        return pb.fold(x.shape[0], start, lambda s, k: Pair(s.a + x[k], s.b * 2 + k))

    x = np.array([1.0, 2.0, 4.0])
    b = 1.0
    for k in range(3):
        b = b * 2 + k
    check(f, Pair(np.zeros(2), np.float64(1.0)), x, expected=Pair(np.full(2, 7.0), b))


def test_states_may_be_dataclasses_dicts_and_lists(check):
    @pb.function
    def f(body: Body, h: float):
        def step(state, _):
            body, seen = state["body"], state["seen"]
            speed = body.speed - h * body.position
            return {"body": Body(body.position + h * speed, speed), "seen": [seen[0] + 1, pb.sum(body.position)]}

        return pb.fold(3, {"body": body, "seen": [0, 0.0]}, step)

    q, p, seen = np.ones(2), np.zeros(2), [0, 0.0]
    for _ in range(3):
        seen = [seen[0] + 1, q.sum()]
        p = p - 0.1 * q
        q = q + 0.1 * p
    result = f.interpret(Body(np.ones(2), np.zeros(2)), 0.1)
    assert isinstance(result["body"], Body)
    np.testing.assert_allclose(result["body"].position, q)
    np.testing.assert_allclose(result["seen"], seen)


def test_a_python_number_takes_the_dtype_of_the_body():
    @pb.function
    def f(x: Float32[Array, "N"], k: Int64[Array, "N"]):
        N = x.shape[0]
        return (
            pb.fold(N, 0.0, lambda s, n: s + x[n]),
            pb.fold(N, 0, lambda s, n: s + k[n]),
            pb.fold(N, 0.0, lambda s, n: s / 2),
            pb.fold(N, 1, lambda s, n: s * x[n]),
        )

    assert [r.dtype.name for r in f.program().outputs] == ["f32", "i64", "f32", "f32"]


def test_a_size_gives_the_number_of_steps(check):
    @pb.function
    def power(x: Float64[Array, "N N"], steps: pb.Size["S"]):
        return pb.fold(steps, pb.eye(x.shape[0]), lambda y, _: y @ x)

    assert power.type == "(x: f64[N, N], steps: S) -> f64[N, N]"
    x = np.array([[1.0, 1.0], [0.0, 1.0]])
    check(power, x, 5, expected=np.linalg.matrix_power(x, 5))


def test_scan_keeps_rows_of_trees(check):
    @pb.function
    def f(x: Float64[Array, "N M"]):
        def step(total, n):
            total = total + x[n]
            return total, {"mean": pb.mean(total), "step": n}

        return pb.scan(x.shape[0], pb.zeros(x.shape[1]), step)

    x = np.arange(6.0).reshape(3, 2)
    check(f, x, expected=(x.sum(0), {"mean": np.cumsum(x, 0).mean(1), "step": np.arange(3)}))


def test_statements_in_a_fold_read_what_is_around_it(check):
    @pb.function
    def f(x: Float64[Array, "N M"], w: Float64[Array, "M"]):
        scale = pb.exp(w)
        return pb.fold(x.shape[0], pb.zeros_like(w), lambda s, n: pb.where(n > 0, s + scale * x[n - 1], s))

    x, w = np.arange(6.0).reshape(3, 2), np.array([0.1, 0.2])
    check(f, x, w, expected=(np.exp(w) * x[:-1]).sum(0))


def test_a_guard_inside_a_fold_counts_for_statements_in_it(check):
    @pb.function
    def f(x: Float64[Array, "N M"]):
        return pb.fold(x.shape[0], 0.0, lambda s, n: s + pb.where(n > 0, pb.sum(pb.exp(x[n - 1])), 0.0))

    x = np.arange(6.0).reshape(3, 2) / 10
    check(f, x, expected=np.exp(x[:-1]).sum())


def test_nested_folds(check):
    @pb.function
    def f(x: Float64[Array, "N M"]):
        N, M = x.shape
        return pb.fold(N, 0.0, lambda s, n: pb.fold(M, s, lambda t, m: 0.5 * t + x[n, m]))

    x = np.arange(6.0).reshape(3, 2)
    total = 0.0
    for v in x.reshape(-1):
        total = 0.5 * total + v
    check(f, x, expected=total)


def test_while_loop(check):
    @pb.function
    def root(x: float):
        return pb.while_loop(lambda s: pb.abs(s * s - x) > 1e-12, lambda s: (s + x / s) / 2, x, max_trips=100)

    @pb.function
    def collatz(n: int):
        return pb.while_loop(
            lambda s: s[0] > 1, lambda s: (pb.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, 0)
        )[1]

    check(root, 2.0, expected=np.sqrt(2.0))
    check(collatz, 27, expected=111)


def test_a_while_loop_inside_a_fold(check):
    @pb.function
    def f(x: Float64[Array, "N"]):
        return pb.fold(x.shape[0], 0.0, lambda s, n: s + pb.while_loop(lambda v: v > 1, lambda v: v / 2, x[n]))

    check(f, np.array([4.0, 3.0]), expected=1.75)


def test_cond_runs_one_side(check):
    @pb.function
    def f(x: Float64[Array, "N"], flag: bool):
        return pb.cond(flag, lambda v: {"y": v * 2, "n": 1}, lambda v: {"y": pb.flip(v), "n": 0}, x)

    x = np.array([1.0, 2.0])
    check(f, x, True, expected={"y": 2 * x, "n": 1})
    check(f, x, False, expected={"y": x[::-1], "n": 0})
    assert "if flag" in f.ir or "choose" in f.ir or "then" in f.ir


def test_a_branch_with_an_element_type_is_traced_once(check):
    """Twice at each level would be 2^5 times for the innermost of these."""
    calls = []

    def nested(x, depth):
        calls.append(depth)
        return pb.cond(x > depth, lambda: nested(x / 2, depth - 1), lambda: x) if depth else x

    @pb.function
    def f(x: Float64[Array, ""]):
        return nested(x, 5)

    check(f, np.array(40.0), expected=40 / 2**5)
    assert calls == [5, 4, 3, 2, 1, 0]


def test_a_number_takes_the_type_of_the_other_branch(check):
    @pb.function
    def f(x: Float32[Array, ""]):
        return pb.cond(x > 0, lambda: 1, lambda: x), pb.cond(x > 0, lambda: x, lambda: 1)

    check(f, np.array(-2.0, "float32"), expected=(np.float32(-2), np.float32(1)))


def test_a_static_test_chooses_while_tracing():
    @pb.function
    def f(x: Float64[Array, "N"], flag: pb.Static):
        return pb.cond(flag, lambda: x, lambda: pb.sum(x))

    assert f.interpret(np.ones(2), True).shape == (2,)
    assert f.interpret(np.ones(2), False) == 2.0


def test_where_on_arrays(check):
    @pb.function
    def f(x: Float64[Array, "N M"], m: Float64[Array, "M"]):
        return pb.where(x > m, x, 0.0), pb.where(m > 1, m, x)

    x, m = np.arange(6.0).reshape(3, 2), np.array([1.0, 2.0])
    check(f, x, m, expected=(np.where(x > m, x, 0), np.where(m > 1, m, x)))
