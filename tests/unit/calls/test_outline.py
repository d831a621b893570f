"""Derivatives known in outline: nothing is derived where machine code is found, and never is the wrong code found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array
from pullback.ad import reverse
from pullback.errors import DerivativeError
from pullback.ir.printer import print_program, structurally_equal
from pullback.ir.program import Outline
from pullback.runtime import record
from pullback.tracing import tree
from pullback.tracing.tracer import Tracer

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache."""
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))


@pytest.fixture
def derived(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the programs of which a vector-Jacobian product is taken from here on."""
    names: list[str] = []
    vjp = reverse.vjp

    def noted(program: Any, wrt: Any) -> Any:
        names.append(program.name)
        return vjp(program, wrt)

    monkeypatch.setattr(reverse, "vjp", noted)
    return names


def descent(factor: float = 2.0) -> tuple[pb.Function, pb.Function]:
    """A loss, and a step of descent that does more than take its gradient."""

    @pb.function
    def loss(w: Float64[Array, "N"], x: Float64[Array, "M N"]) -> Float64[Array, ""]:
        return pb.sum(pb.tanh(pb.matmul(x, w)) ** 2) * factor

    @pb.function
    def step(w: Float64[Array, "N"], x: Float64[Array, "M N"]) -> Any:
        first = w + 1.0
        value, g = pb.value_and_grad(loss)(first, x)
        again = pb.grad(loss)(first - g, x)
        return first - g * again, value

    return loss, step


W, X = np.linspace(-1, 1, 3), np.linspace(0, 1, 12).reshape(4, 3)


def test_nothing_is_derived_where_machine_code_is_found(derived: list[str]) -> None:
    first = descent()[1](W, X)
    assert derived == ["loss", "loss"]
    derived.clear()
    _, step = descent()
    for a, b in zip(step(W, X), first, strict=True):
        np.testing.assert_array_equal(a, b)
    assert derived == []
    assert "tanh" in step.ir  # made when somebody looks
    assert derived == ["loss", "loss"]


def test_versions_of_the_package_share_a_cache(derived: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    versions = [f"version {k}" for k in range(5)]  # folders are listed in any order
    for again in (False, True):
        for version in versions:
            monkeypatch.setattr(record, "fingerprint", lambda version=version: version)
            descent()[1](W, X)
            assert derived == ([] if again else ["loss", "loss"])
            derived.clear()


CALLS: dict[str, tuple[Callable[[pb.Function], pb.Function], tuple[Any, ...]]] = {
    "grad": (pb.grad, (W, X)),
    "grad of grad": (lambda f: pb.grad(pb.function(lambda w, x: pb.sum(pb.grad(f)(w, x)))), (W, X)),
    "value_and_grad": (lambda f: pb.value_and_grad(f, wrt=("x", "w")), (W, X)),
    "vjp": (pb.vjp, (W, X, 2.0)),
    "jvp": (pb.jvp, ((W, X), (None, X))),
    "hvp": (pb.hvp, ((W, X), W)),
    "jacobian": (pb.jacobian, (W, X)),
    "mixed": (lambda f: pb.jacobian(f, wrt=("w", "x"), mode="mixed"), (W, X)),
    "hessian": (pb.hessian, (W, X)),
    "vmap": (lambda f: pb.vmap(pb.grad(f), in_axes=(1, None), out_axes=-1), (X.T, X)),
}


def report() -> pb.Function:
    """A function of a tree that gives a tree: a number to differentiate, and what comes with it."""

    @pb.function
    def described(p: Any, k: Int64[Array, "M"]) -> Any:
        y = pb.stack([p["a"] * p["b"], p["b"]])
        return pb.sum(y * y), {"largest": pb.argmax(p["a"]), "picked": k + 1, "y": y}

    return described


TREE = ({"a": W, "b": W + 1.0}, np.array([0, 2]))
TREES: dict[str, tuple[Callable[[pb.Function], pb.Function], tuple[Any, ...]]] = {
    "aux": (lambda f: pb.grad(f, has_aux=True), TREE),
    "value and aux": (lambda f: pb.value_and_grad(f, has_aux=True), TREE),
    "vjp of a tree": (pb.vjp, (*TREE, (1.0, {"largest": None, "picked": None, "y": None}))),
    "jvp of a tree": (pb.jvp, (TREE, ({"a": W, "b": None}, None))),
    "jacobian of a tree": (lambda f: pb.jacobian(f, mode="forward"), TREE),
}


@pytest.mark.parametrize("kind", [*CALLS, *TREES])
def test_a_derivative_is_found_without_being_taken(kind: str) -> None:
    made, args = CALLS.get(kind) or TREES[kind]
    define = report if kind in TREES else lambda: descent()[0]
    first = made(define())(*args)
    f = made(define())
    second = f(*args)
    ((_, traced),) = f._traces.items()
    known = traced.known
    assert isinstance(known, Outline)
    assert "program" not in vars(known)
    for a, b in zip(tree.flatten(first)[0], tree.flatten(second)[0], strict=True):
        np.testing.assert_array_equal(a, b)
    program = known.program  # what the outline says of it is so
    assert known.inputs == program.inputs
    assert [(r.dtype, r.shape) for r in known.outputs] == [(r.dtype, r.shape) for r in program.outputs]
    assert (known.name, known.output_names, known.requires) == (program.name, program.output_names, program.requires)


@pytest.mark.parametrize("change", ["constant", "wrt", "exact", "memory", "name"])
def test_another_function_is_another_program(change: str, derived: list[str]) -> None:
    loss, _ = descent()
    pb.grad(loss)(W, X)
    derived.clear()
    if change == "constant":
        found, scale = pb.grad(descent(3.0)[0])(W, X), 1.5
        np.testing.assert_allclose(found, scale * pb.grad(loss)(W, X), rtol=1e-12)
    elif change == "wrt":
        assert pb.grad(descent()[0], wrt="x")(W, X).shape == X.shape
    elif change == "exact":
        with pb.exact():
            exact = pb.grad(descent()[0])
            exact(W, X)
        assert exact.program(W, X).settings.exact
    elif change == "memory":
        pb.grad(pb.function(memory="least")(descent()[0].python))(W, X)
    else:
        pb.hvp(descent()[0])((W, X), W)
    assert derived


def test_joining_later_gives_the_program_of_joining_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    later = descent()[1]
    known = later.determined().known
    assert isinstance(known, Outline)
    monkeypatch.setattr(Tracer, "defer", lambda *_: None)
    at_once = descent()[1]
    assert not isinstance(at_once.determined().known, Outline)
    assert structurally_equal(later.program(), at_once.program())
    assert print_program(later.program()) == print_program(at_once.program())
    assert [(r.dtype, r.shape) for r in known.outputs] == [(r.dtype, r.shape) for r in later.program().outputs]


def test_identities_tell_programs_apart() -> None:
    def outer(k: int) -> pb.Function:
        loss, _ = descent()

        @pb.function
        def f(w: Float64[Array, "N"], v: Float64[Array, "N"], x: Float64[Array, "M N"]) -> Any:
            g = pb.grad(loss)
            if k == 0:
                return g(w, x) + g(v, x)
            if k == 1:
                return g(w, x) + g(w, x)
            if k == 2:
                return g(v, x) - g(w, x)
            return pb.grad(loss, wrt="x")(w, x)[0] + g(w, x)

        return f

    identities = [outer(k).determined().identity for k in range(4)]
    assert len(set(identities)) == 4
    assert identities == [outer(k).determined().identity for k in range(4)]


def test_what_cannot_be_derived_is_refused_each_time() -> None:
    def define() -> None:
        @pb.function
        def f(x: Float64[Array, ""]) -> Any:
            return pb.while_loop(lambda y: y < 10.0, lambda y: y * x, x)

        @pb.function
        def g(x: Float64[Array, ""]) -> Any:
            return pb.grad(f)(x)

    for _ in range(2):
        with pytest.raises(DerivativeError, match="E203"):
            define()


def test_closures_captured_arrays_and_bounds_keep_their_meaning() -> None:
    table = np.array([1.0, 2.0, 4.0])

    def define() -> pb.Function:
        @pb.function
        def loss(x: Float64[Array, "3"], i: Int64[Array, ""]) -> Any:
            return pb.sum(x * pb.asarray(table)) * x[pb.in_range(i, 3)]

        @pb.function
        def f(x: Float64[Array, "3"], i: Int64[Array, ""]) -> Any:
            inner = pb.grad(loss)(x, pb.in_range(i, 3))
            return inner, pb.sum(pb.grad(lambda y: pb.sum(y * y * inner))(x))

        return f

    first, second = (define()(np.ones(3), 1) for _ in range(2))
    np.testing.assert_array_equal(first[0], [1.0, 9.0, 4.0])
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(pb.PullbackError, match="E402"):
        define()(np.ones(3), 3)


def test_extents_of_zero_run_in_the_interpreter() -> None:
    for _ in range(2):
        _, step = descent()
        step(W, X)
        assert step(np.zeros(0), np.zeros((4, 0)))[0].shape == (0,)


@pytest.mark.parametrize("mode", ["jvp", "vjp"])
def test_a_rule_that_changes_is_another_derivative(mode: str) -> None:
    def slopes(factor: float) -> Any:
        def square(x: Float64[Array, "N"]) -> Any:
            return x * x

        rules: dict[str, Any] = {
            "jvp": lambda primals, out, tangents: tangents[0] * primals[0] * factor,
            "vjp": lambda primals, out, cotangent: (cotangent * primals[0] * factor,),
        }
        squared = pb.custom_derivative(square, **{mode: rules[mode]})

        @pb.function
        def total(x: Float64[Array, "N"]) -> Any:
            return pb.sum(squared(x))

        return pb.grad(total)(np.array([1.0, 2.0])).tolist()

    assert [slopes(f) for f in (2.0, 2.0, 3.0)] == [[2.0, 4.0], [2.0, 4.0], [3.0, 6.0]]


@pytest.mark.parametrize("made", [pb.stop_gradient, pb.sin, lambda v: v * 2.0], ids=["stop_gradient", "sin", "product"])
def test_a_closure_over_an_expression_of_a_derivative(made: Any) -> None:
    """The call that gives the derivative joins later; a closure that reads an expression of it cannot, and is made."""

    def sine(t: Float64[Array, ""]):
        return pb.sin(t)

    @pb.function
    def twice(y: Float64[Array, ""], d: Float64[Array, ""]):
        scale = made(pb.vjp(pb.function(sine))(y, cotangent=d)[1][0])

        def scaled(t: Float64[Array, ""]):
            return t * scale

        return pb.vjp(pb.function(scaled))(y, cotangent=d)[1][0]

    wanted = {"stop_gradient": np.cos(0.7), "sin": np.sin(np.cos(0.7))}.get(made.__name__, 2 * np.cos(0.7))
    for call in (twice, twice.interpret):
        np.testing.assert_allclose(call(np.float64(0.7), np.float64(1.0)), wanted, rtol=1e-14)
