"""`pb.exact()`: the same bits in C, in the interpreter and, where the text says the order, in NumPy."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.ir import types
from pullback.ir.expr import Apply
from pullback.ir.interpret import interpret
from pullback.ir.program import Elementwise, scalars_of, walk_statements
from pullback.ir.settings import Settings
from pullback.ir.traverse import walk
from pullback.runtime.executor import compile_program
from tests.support.programs import random_program

TYPES = [np.float64, np.float32]


def sample(kind: Any) -> list[Any]:
    r = np.random.default_rng(0)
    wide = r.normal(size=(37, 53)) * 10.0 ** r.uniform(-5, 5, (37, 53))
    return [a.astype(kind) for a in (wide, r.normal(size=(37, 53)), r.normal(size=53))]


def same_bits(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


TEXTS: list[Callable[..., Any]] = [
    lambda x, y, v: x * (y * 2.5) + y * (x + (y - x)) - x * (-y * (x * y)),
    lambda x, y, v: x + y + x,
    lambda x, y, v: x + x + (y + (y + y)),
    lambda x, y, v: x * y + x * y,
    lambda x, y, v: 3 * x * y * 2.0 * (x * 0.5),
    lambda x, y, v: x * 0.1 * y * 0.3,
    lambda x, y, v: x * y * (v * 7.0) - (x - (y - v)),
    lambda x, y, v: x / v[0] + y / v[0],
    lambda x, y, v: (x / 3.0) * (y / 3.0) / (v / 7.0),
    lambda x, y, v: -(x * (y * v)) * (-2.0 * (x * v)),
    lambda x, y, v: 0.3 * (x - y) * v,
    lambda x, y, v: -1.5 * (x * (y - x)) * v * y,
]


@pytest.mark.parametrize("kind", TYPES)
def test_elements_have_the_bits_of_numpy(kind: Any) -> None:
    arrays = sample(kind)
    with pb.exact():
        f = pb.function(lambda x, y, v: tuple(text(x, y, v) for text in TEXTS))
    for way in (f, f.interpret):
        for k, (text, found) in enumerate(zip(TEXTS, way(*arrays), strict=True)):
            assert same_bits(found, text(*arrays)), (k, way)


SUMS: list[Callable[..., Any]] = [
    lambda x, y, v: pb.sum(x),
    lambda x, y, v: pb.sum(x, axis=0),
    lambda x, y, v: pb.sum(x * y, axis=1),
    lambda x, y, v: x @ y.T,
    lambda x, y, v: x @ v,
    lambda x, y, v: pb.prod(y, axis=1),
    lambda x, y, v: pb.var(x, axis=0),
    lambda x, y, v: x / pb.sum(pb.abs(x), axis=1, keepdims=True),
    lambda x, y, v: pb.build(40, lambda i: pb.sum_over(10, lambda k: v[i + k] * y[0, k])),
    lambda x, y, v: pb.einsum("ij,ij,j->i", x, y, v),
    lambda x, y, v: pb.zeros(53, dtype=x.dtype).add(pb.asarray(np.arange(53) % 7), v),
    lambda x, y, v: pb.fold(37, v, lambda s, i: s * 0.5 + x[i] * y[i]),
    lambda x, y, v: pb.where(x > 0, x * y * x, y) * x,
    lambda x, y, v: pb.cumulative_sum(x, axis=1),
    lambda x, y, v: pb.sum(pb.where(pb.abs(x) > 1, x, -0.0), axis=1),
    lambda x, y, v: pb.max(x, axis=1) - pb.min(y, axis=1),
]


@pytest.mark.parametrize("kind", TYPES)
def test_sums_and_derivatives_have_the_same_bits_in_c_and_the_interpreter(kind: Any) -> None:
    arrays = sample(kind)
    with pb.exact():
        f = pb.function(lambda x, y, v: tuple(text(x, y, v) for text in SUMS))
        slope = pb.grad(pb.function(lambda x, y, v: sum(pb.sum(pb.square(a)) for a in f(x, y, v))), wrt=("x", "y", "v"))
    for g in (f, slope):
        for k, (a, b) in enumerate(zip(g(*arrays), g.interpret(*arrays), strict=True)):
            assert same_bits(a, b), (g.name, k)


@pytest.mark.parametrize("seed", range(300 if os.environ.get("PULLBACK_NIGHTLY") else 30))
def test_random_programs_have_the_same_bits_in_c_and_the_interpreter(seed: int) -> None:
    """But for those that call libm."""
    case = random_program(np.random.default_rng(seed), dtypes=(types.f64, types.f32, types.i64))
    program = replace(case.program, settings=Settings(exact=True))
    values = [v for s in walk_statements(program.body) if isinstance(s, Elementwise) for v in scalars_of(s)]
    called = {e.primitive for v in values for e in walk(v) if isinstance(e, Apply)}
    if any(p.transcendental or p.name == "hypot" for p in called):
        return
    found = compile_program(program, case.dims).run(list(case.inputs))
    for a, b in zip(found, interpret(program, case.inputs, case.sizes), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a.astype(float))[b == b], np.signbit(b.astype(float))[b == b])


def test_sums_are_in_the_order_of_the_text() -> None:
    x = sample(np.float32)[0]
    with pb.exact():
        f = pb.function(lambda x: pb.sum(x))
    total = np.float32(0)
    for v in x.ravel():
        total = np.float32(total + v)
    assert f(x) == f.interpret(x) == total
    assert pb.function(lambda x: pb.sum(x)).interpret(x) != total


X, Y, Z = np.array([-1e16]), np.array([1e16]), np.array([1.0])


def text(x: Any, y: Any, z: Any) -> Any:
    return y + (x + z)  # 0, and 1 in another order


def results(f: Any) -> list[float]:
    return [f(X, Y, Z).item(), f.interpret(X, Y, Z).item()]


def fused(x: Any, y: Any, z: Any) -> Any:
    return pb.build(1, lambda i: y[i] + (x[i] + z[i]))


def test_a_function_is_exact_where_it_is_made() -> None:
    """Wherever it is called first."""
    outside = pb.function(fused)
    with pb.exact():
        inside = pb.function(fused)
        derived = pb.vjp(outside)
        assert results(outside) == [1.0, 1.0]
    assert results(inside) == [0.0, 0.0]
    assert results(outside) == [1.0, 1.0]
    with pb.exact():
        assert results(inside) == [0.0, 0.0]
        assert results(outside) == [1.0, 1.0]
    assert inside.program(X, Y, Z).settings.exact
    assert not outside.program(X, Y, Z).settings.exact
    assert derived(X, Y, Z, cotangent=Z)[0].item() == 0.0


def test_a_function_that_is_called_by_another_is_computed_as_that_one_is() -> None:
    plain = pb.function(fused)
    assert results(plain) == [1.0, 1.0]
    with pb.exact():
        exact = pb.function(fused)
        outer = pb.function(lambda x, y, z: plain(x, y, z))
    assert results(outer) == [0.0, 0.0]
    assert results(plain) == [1.0, 1.0]
    assert not pb.function(lambda x, y, z: exact(x, y, z)).program(X, Y, Z).settings.exact


def test_derivatives_and_other_options_stay_exact() -> None:
    with pb.exact():
        f = pb.function(fused)
    assert results(pb.function(memory="less")(f)) == [0.0, 0.0]
    assert pb.vjp(f)(X, Y, Z, cotangent=Z)[0].item() == 0.0
    assert pb.vjp(f).program(X, Y, Z, Z).settings.exact
