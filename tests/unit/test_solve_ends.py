"""Every solver, and every way in which it ends without what it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32, Float64

import pullback as pb
from pullback import Array, solvers
from pullback.errors import TraceError, UnfinishedError

NAN, INF = np.nan, np.inf
Solver = Callable[[Any, str], Any]  # of a number and at_limit


def last(found: Any) -> Any:
    """The state at the last time of `odeint`."""
    return (found[0][-1], found[1][-1]) if isinstance(found, tuple) else found[-1]


def ode(slope: Callable[[Any, Any, Any], Any], times: Any = (0.0, 1.0), **options: Any) -> Solver:
    return lambda a, at: last(pb.odeint(slope, 1.0, np.array(times), a, at_limit=at, **options))


def wrong_slope(x: Any, a: Any) -> Any:
    """(x - a)², upside down for a > 1, with the derivative that it has otherwise."""
    return (x - a) ** 2 - pb.where(a > 1, 2.0, 0.0) * pb.stop_gradient((x - a) ** 2)


# name: the solver, a number for which it succeeds with the result and its derivative, and one for which it does not
CASES: dict[str, tuple[Solver, tuple[float, float, float] | None, float]] = {
    "root, no root": (lambda a, at: pb.root(lambda x, a: x * x - a, 1.0, a, at_limit=at), (4.0, 2.0, 0.25), -1.0),
    "root, too few steps": (
        lambda a, at: pb.root(lambda x, a: x * x - a, 1.0, a, max_steps=3, at_limit=at), (1.0, 1.0, 0.5), 9e9),
    "root, singular": (lambda a, at: pb.root(lambda x, a: a * x * 0 + a, 1.0, a, at_limit=at), None, 2.0),
    "root, NaN in f": (lambda a, at: pb.root(lambda x, a: pb.log(x) - a, 1.0, a, at_limit=at), (0.0, 1.0, 1.0), -3.0),
    "root, NaN given": (lambda a, at: pb.root(lambda x, a: x - a, 1.0, a, at_limit=at), (2.0, 2.0, 1.0), NAN),
    "root, infinity given": (lambda a, at: pb.root(lambda x, a: x - a, 1.0, a, at_limit=at), (2.0, 2.0, 1.0), INF),
    "root_scalar, one sign": (
        lambda a, at: pb.root_scalar(lambda x, a: x * x - a, 0.0, 3.0, a, at_limit=at), (4.0, 2.0, 0.25), -1.0),
    "root_scalar, one sign below": (
        lambda a, at: pb.root_scalar(lambda x, a: x * x - a, 0.0, 3.0, a, at_limit=at), (4.0, 2.0, 0.25), 10.0),
    "root_scalar, a pole": (
        lambda a, at: pb.root_scalar(lambda x, a: 1 / (x - a), 0.0, 3.0, a, at_limit=at), None, 1.1),
    "root_scalar, NaN at an end": (
        lambda a, at: pb.root_scalar(lambda x, a: pb.sqrt(x + a) - 2, 0.0, 9.0, a, at_limit=at),
        (1.0, 3.0, -1.0), -1.0),
    "root_scalar, NaN inside": (
        lambda a, at: pb.root_scalar(lambda x, a: x - 2 + 0 * pb.sqrt((x - 1.3) ** 2 - a), 0.0, 3.0, a, at_limit=at),
        (-1.0, 2.0, 0.0), 0.64),
    "root_scalar, NaN given": (
        lambda a, at: pb.root_scalar(lambda x, a: x - a, 0.0, 3.0, a, at_limit=at), (2.0, 2.0, 1.0), NAN),
    "root_scalar, an infinite end": (
        lambda a, at: pb.root_scalar(lambda x, a: x - a * a / 4, pb.where(a < 0, -INF, 0.0), 3.0, a, at_limit=at),
        (2.0, 1.0, 1.0), -2.0),
    "minimize, too few steps": (
        lambda a, at: pb.minimize(lambda x, a: (x - a) ** 4 * a + (x - a) ** 2, a * 0, a, max_steps=6, at_limit=at),
        (0.0, 0.0, 1.0), 30.0),
    "minimize, no minimum": (
        lambda a, at: pb.minimize(lambda x, a: a * x * x + x, 0.0, a, at_limit=at), (0.5, -1.0, 2.0), -1.0),
    "minimize, no smaller value": (lambda a, at: pb.minimize(wrong_slope, 0.0, a, at_limit=at), (0.5, 0.5, 1.0), 2.0),
    "minimize, NaN given": (
        lambda a, at: pb.minimize(lambda x, a: (x - a) ** 2, 0.0, a, at_limit=at), (2.0, 2.0, 1.0), NAN),
    "minimize, infinity given": (
        lambda a, at: pb.minimize(lambda x, a: (x - a) ** 2, 0.0, a, at_limit=at), (2.0, 2.0, 1.0), INF),
    "least_squares, too few steps": (
        lambda a, at: pb.least_squares(lambda x, a: (x - a) ** 3 + x - a, a * 0, a, max_steps=6, at_limit=at),
        (0.0, 0.0, 1.0), 30.0),
    "least_squares, NaN given": (
        lambda a, at: pb.least_squares(lambda x, a: x - a, 0.0, a, at_limit=at), (2.0, 2.0, 1.0), NAN),
    "least_squares, infinity given": (
        lambda a, at: pb.least_squares(lambda x, a: x - a, 0.0, a, at_limit=at), (2.0, 2.0, 1.0), INF),
    "odeint, too few steps": (ode(lambda y, t, a: -a * y, max_steps=12), (1.0, np.exp(-1), -np.exp(-1)), 400.0),
    "odeint, without end": (ode(lambda y, t, a: a * y * y), (0.5, 2.0, 4.0), 1.5),
    "odeint, NaN in the slope": (ode(lambda y, t, a: pb.log(a - t)), (2.0, 2 * np.log(2), np.log(2)), 0.5),
    "odeint, NaN given": (ode(lambda y, t, a: a * y), (1.0, np.e, np.e), NAN),
    "odeint, no tolerance": (ode(lambda y, t, a: a * y, rtol=0.0, atol=0.0), None, 1.0),
    "odeint, NaN time": (
        lambda a, at: last(pb.odeint(lambda y, t: y, 1.0, pb.stack([0.0, a]), at_limit=at)), (1.0, np.e, np.e), NAN),
    "odeint, infinite time": (
        lambda a, at: last(pb.odeint(lambda y, t: y, 1.0, pb.stack([0.0, a]), at_limit=at)), (1.0, np.e, np.e), INF),
}  # fmt: skip


def traced(solver: Solver, at: str) -> Any:
    @pb.function
    def solved(a: Float64[Array, ""]):
        return solver(a, at)

    return solved


def value(solver: Solver) -> Any:
    @pb.function
    def solved(a: Float64[Array, ""]):
        return solver(a, "report")[0]

    return solved


@pytest.mark.parametrize("name", CASES)
def test_ends(name: str) -> None:
    """An error where the result or its derivative is needed; else NaN and a bool that says so."""
    solver, good, bad = CASES[name]
    stops, reports, alone = traced(solver, "error"), traced(solver, "report"), value(solver)
    with np.errstate(all="ignore"):
        for f in (stops, pb.grad(stops)):
            with pytest.raises(UnfinishedError, match="E404") as raised:
                f.interpret(bad)
            assert raised.value.what.startswith(name.partition(",")[0] + ":")
        x, failed = reports.interpret(bad)
        assert failed
        assert np.isnan(x) or name.startswith(("minimize", "least_squares"))
        assert np.isnan(pb.grad(alone).interpret(bad))
        if good is not None:
            a, wanted, slope = good
            x, failed = reports.interpret(a)
            assert not failed
            assert [x, stops.interpret(a)] == pytest.approx([wanted] * 2, rel=1e-5, abs=1e-7)
            found = [pb.grad(stops).interpret(a), pb.grad(alone).interpret(a)]
            assert found == pytest.approx([slope] * 2, rel=1e-4, abs=1e-6)


def test_every_solver_is_in_the_table() -> None:
    assert {name.partition(",")[0] for name in CASES} == set(solvers.__all__)


@pytest.mark.slow
def test_compiled_and_mapped() -> None:
    """One program of all cases in C: which succeeded is the same there, also for many numbers at once."""
    names = [n for n, (_, good, _) in CASES.items() if good is not None]

    @pb.function
    def flags(a: Float64[Array, str(len(names))]):  # type: ignore[valid-type]
        return pb.stack([CASES[n][0](a[k], "report")[1] for k, n in enumerate(names)])

    good = np.array([CASES[n][1][0] for n in names])  # type: ignore[index]
    bad = np.array([CASES[n][2] for n in names])
    assert not flags(good).any()
    assert flags(bad).all()

    @pb.function
    def roots(a: Float64[Array, "N"]):
        one = lambda a: pb.root_scalar(lambda x, a: x**3 - a, 0.0, 10.0, a, at_limit="report")
        return pb.vmap(pb.function(one))(a)

    x, failed = roots(np.array([8.0, -1.0, 27.0]))
    np.testing.assert_allclose(x, [2.0, NAN, 3.0], rtol=1e-12)
    assert failed.tolist() == [False, True, False]


def test_inside_of_build() -> None:
    @pb.function
    def f(a: Float64[Array, "N"]):
        return pb.build(a.shape[0], lambda i: pb.root_scalar(lambda x, a: x**3 - a, 0.0, 10.0, a[i]))

    for call in (f, f.interpret):
        np.testing.assert_allclose(call(np.array([8.0, 27.0])), [2.0, 3.0], rtol=1e-12)
        with pytest.raises(UnfinishedError, match="E404"):
            call(np.array([8.0, -27.0]))


def test_roots_at_the_ends_and_between_discontinuities() -> None:
    @pb.function
    def f(low: Float64[Array, ""], high: Float64[Array, ""], c: Float64[Array, ""]):
        return pb.root_scalar(lambda x, c: (x - c) * (x + 1), low, high, c)

    assert f.interpret(0.0, 2.0, 0.0) == 0.0
    assert f.interpret(-1.0, 0.0, 0.0) in (-1.0, 0.0)
    assert f.interpret(2.0, 0.0, 0.5) == pytest.approx(0.5)
    assert f.interpret(0.0, 2.0, 2.0) == 2.0


def test_minima_that_rounding_hides() -> None:
    """The tolerance cannot be reached in single precision, nor beside a large constant; nobody could do better."""

    @pb.function
    def single(a: Float32[Array, ""]):
        return pb.minimize(lambda x, a: pb.sum((x - a / 3) ** 2 + pb.exp(x * 0.1)), pb.zeros(2, dtype="float32"), a)

    for a in np.linspace(-3, 3, 7, dtype=np.float32):
        x = single.interpret(a)
        assert 2 * (x - a / 3) + 0.1 * np.exp(0.1 * x) == pytest.approx(0, abs=1e-5)

    @pb.function
    def beside(a: Float64[Array, ""]):
        return pb.minimize(lambda x, a: 1e6 + (x - a) ** 2 + 0.1 * (x - a) ** 4, 0.0, a)

    for k in np.linspace(-3.0, 3.0, 7):
        assert beside.interpret(k) == pytest.approx(k, abs=1e-3)


@pytest.mark.parametrize("kind", ["root", "root_scalar", "minimize", "odeint"])
def test_settings(kind: str) -> None:
    arguments = {"root_scalar": (0.0, 1.0), "odeint": (0.0, np.array([0.0, 1.0]))}.get(kind, (0.0,))
    with pytest.raises(TraceError, match=rf"E144\] {kind}: at_limit='stop' is none of 'error', 'report'"):
        pb.function(lambda a: getattr(pb, kind)(lambda x, *t: x - a, *arguments, at_limit="stop"))(1.0)


def test_no_steps_of_the_classical_method() -> None:
    with pytest.raises(TraceError, match=r"E135\] odeint: steps is 0"):
        pb.function(lambda a: pb.odeint(lambda y, t: y, a, np.array([0.0, 1.0]), method="rk4", steps=0))(1.0)
