"""`debug.print`: what compiled and interpreted functions print, once each, in order."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def root(x: float):
    def step(guess, i):
        pb.debug.print("{}: {guess:.2f}", i, guess=guess)
        return (guess + x / guess) / 2

    pb.debug.print("root of {}", x)
    found = pb.fold(2, x, step)
    pb.debug.print("is {:.3f}", found)
    return found


@pb.function
def rows(x: Float64[Array, "N M"]):
    def row(total, n):
        def column(sum, m):
            pb.debug.print("{} {} {label}", n, m, label="here")
            return sum + x[n, m]

        pb.debug.print("row {}", {"n": n, "x": x[n]})
        return total + pb.fold(m + 0, 0.0, column)

    m = x.shape[1]
    return pb.fold(x.shape[0], 0.0, row)


ROOT = ["root of 2.0", "0: 2.00", "1: 1.50", "is 1.417"]


def printed(capsys: pytest.CaptureFixture[str], f, *args):
    """What a call prints, line by line."""
    capsys.readouterr()
    f(*args)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    "f",
    [root, root.interpret, pb.grad(root), pb.value_and_grad(root), pb.hessian(root), pb.function(lambda x: root(x))],
)
def test_primal_values_are_printed_once(capsys, f):
    for _ in range(2):
        assert printed(capsys, f, 2.0) == ROOT


def test_directions_and_gradients_inside(capsys):
    assert printed(capsys, pb.jvp(root), (2.0,), (1.0,)) == ROOT
    inside = pb.function(lambda x: pb.grad(root)(x) * 2)
    assert printed(capsys, inside, 2.0) == ROOT
    assert inside(2.0) == pytest.approx(2 * pb.grad(root)(2.0))


def test_loops_in_loops(capsys):
    x = np.arange(4.0).reshape(2, 2)
    wanted = []
    for n in range(2):
        wanted += [f"row {{'n': {np.int64(n)!r}, 'x': array({x[n].tolist()})}}".replace(".0", ".")]
        wanted += [f"{n} {m} here" for m in range(2)]
    assert printed(capsys, rows, x) == wanted
    assert printed(capsys, rows.interpret, x) == wanted
    assert rows(x) == 6
    assert printed(capsys, pb.grad(rows), x) == wanted


def test_all_calls_of_a_batch(capsys):
    assert printed(capsys, pb.vmap(root), np.array([2.0, 4.0])) == [
        "root of [2. 4.]", "[0 0]: [2.00 4.00]", "[1 1]: [1.50 2.50]", "is [1.417 2.050]"]  # fmt: skip


def test_what_may_be_printed(capsys):
    table = np.array([1, 2])

    @pb.function
    def f(z):
        pb.debug.print("{} {z:.1f} {} {}", z, table, "text", z=z.real)
        pb.debug.print("{{}}")
        return 2 * z

    z = np.array([1.5 + 2j])
    assert printed(capsys, f, z) == ["[1.5+2.j] [1.5] [1 2] text", "{}"]
    out = np.empty(2)
    double = pb.function(lambda x: (pb.debug.print("{}", x), 2 * x)[1])
    assert double(np.ones(2), out=out) is out
    assert out.tolist() == [2, 2]
    assert printed(capsys, lambda: pb.debug.print("{} {n}", np.ones(2), n=1)) == ["[1. 1.] 1"]


def test_programs_are_as_if_nothing_were_printed():
    @pb.function
    def quiet(x: float):
        return pb.fold(2, x, lambda guess, i: (guess + x / guess) / 2)

    def c(f):
        return f.c_source(names="canonical", comments=False).replace(f.name, "f")

    assert c(quiet) == c(root)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: pb.build(3, lambda i: (pb.debug.print("{}", i), x)[1]),
        lambda x: pb.cond(x > 0, lambda y: (pb.debug.print("{}", y), y)[1], lambda y: y, x),
        lambda x: pb.while_loop(lambda y: y < 3, lambda y: (pb.debug.print("{}", y), y + 1)[1], x),
        lambda x: pb.sum_over(3, lambda i: root(x)),
    ],
)
def test_where_it_is_not_known_how_often(f):
    with pytest.raises(pb.TraceError, match=r"\[E133\] debug.print inside of a `build`"):
        pb.function(f)(1.0)
