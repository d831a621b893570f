"""Reverse mode on small programs, each with one feature, against central differences of the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.ad.reverse import vjp
from pullback.errors import DerivativeError
from pullback.ir import types
from pullback.ir.expr import Get, Ref, Scalar, apply, bracket, const, data_index, from_index, get, reduce, select
from pullback.ir.index import DimSymbol, Index, Var, as_index, cond, symbol
from pullback.ir.interpret import interpret
from pullback.ir.program import Block, Build, Program, Scatter, While, walk_statements
from pullback.ir.traverse import Substitution
from pullback.ir.verify import verify
from pullback.passes.pipeline import optimize

F64 = types.f64
N, M = symbol("N"), symbol("M")
DIMS = {"N": 4, "M": 3}


class Maker:
    """Collects inputs and statements of a program."""

    def __init__(self) -> None:
        self.inputs: list[Ref] = []
        self.statements: list[Build] = []

    def input(self, name: str, *shape: Index | int, dtype: types.DType = F64, below: Index | None = None) -> Ref:
        bounds = None if below is None else (as_index(0), below)
        self.inputs.append(Ref(name, dtype, shape, bounds))
        return self.inputs[-1]

    def build(self, name: str, shape: tuple[Index | int, ...], f: Callable[..., Scalar]) -> Ref:
        variables = tuple(Var("ijklmn"[k], d) for k, d in enumerate(shape))
        value = f(*(as_index(v) for v in variables))
        out = Ref(name, value.dtype, shape)
        self.statements.append(Build((out,), variables, (value,)))
        return out

    def done(self, out: Ref) -> Program:
        return Program("f", tuple(self.inputs), Block(tuple(self.statements), (out,)), (out.name,))


def over(op: str, extents: tuple[Index | int, ...], f: Callable[..., Scalar]) -> Scalar:
    variables = [Var("uvw"[k], d) for k, d in enumerate(extents)]
    return reduce(op, variables, f(*(as_index(v) for v in variables)))  # type: ignore[arg-type]


def upsample(p: Maker) -> Program:
    x = p.input("x", N)
    return p.done(p.build("y", (N * 2,), lambda i: get(x, i // 2) * get(x, i // 2)))


def reshape(p: Maker) -> Program:
    x = p.input("x", N, M)
    return p.done(p.build("y", (N * M,), lambda i: apply("sin", get(x, i // M, i % M))))


def transpose(p: Maker) -> Program:
    x = p.input("x", N, M)
    return p.done(p.build("y", (M, N), lambda i, j: get(x, j, i) * get(x, j, i)))


def max_pool(p: Maker) -> Program:
    x = p.input("x", N * 2, M * 2)
    return p.done(
        p.build("y", (N, M), lambda i, j: over("max", (2, 2), lambda u, v: get(x, i * 2 + u, j * 2 + v) * 2.0))
    )


def overlapping_max(p: Maker) -> Program:
    x = p.input("x", N + 2)
    return p.done(p.build("y", (N,), lambda i: over("max", (3,), lambda u: get(x, i + u))))


def log_sum_exp(p: Maker) -> Program:
    x = p.input("x", N, M)
    m = p.build("m", (N,), lambda i: over("max", (M,), lambda u: get(x, i, u)))
    return p.done(
        p.build(
            "y",
            (N,),
            lambda i: apply("log", over("sum", (M,), lambda u: apply("exp", get(x, i, u) - get(m, i)))) + get(m, i),
        )
    )


def product(p: Maker) -> Program:
    x = p.input("x", N, M)
    return p.done(p.build("y", (N,), lambda i: over("prod", (M,), lambda u: get(x, i, u))))


def diagonal(p: Maker) -> Program:
    x = p.input("x", N, N)
    return p.done(p.build("y", (N,), lambda i: get(x, i, i) * get(x, i, i)))


def triangle(p: Maker) -> Program:
    x = p.input("x", N)
    return p.done(p.build("y", (N, N), lambda i, j: bracket((cond(">=", i - j),), get(x, i - j)) * get(x, j)))


def choice(p: Maker) -> Program:
    x = p.input("x", N)
    return p.done(
        p.build(
            "y",
            (N,),
            lambda i: select(
                apply("greater", get(x, i), const(0, F64)), apply("log", get(x, i) * get(x, i)), apply("sin", get(x, i))
            ),
        )
    )


def nested_sums(p: Maker) -> Program:
    x = p.input("x", N, M)
    return p.done(
        p.build(
            "y",
            (N,),
            lambda i: apply(
                "tanh",
                over(
                    "sum",
                    (M,),
                    lambda u: apply("exp", get(x, i, u)) * over("sum", (N,), lambda v: get(x, v, u) * get(x, v, u)),
                ),
            ),
        )
    )


def strided(p: Maker) -> Program:
    x = p.input("x", N * 3)
    return p.done(p.build("y", (N,), lambda i: over("sum", (3,), lambda u: get(x, i * 3 + u) * from_index(u + 1, F64))))


def reversed_quotient(p: Maker) -> Program:
    x = p.input("x", N)
    return p.done(
        p.build(
            "y",
            (N, 2),
            lambda i, j: (
                apply("divide", get(x, i), get(x, N - 1 - i) * get(x, N - 1 - i) + 1.0) * from_index(j + 1, F64)
            ),
        )
    )


def rolled(p: Maker) -> Program:
    x = p.input("x", N)
    return p.done(p.build("y", (N,), lambda i: get(x, (i + 2) % N) * get(x, i)))


def powers(p: Maker) -> Program:
    x = p.input("x", N)
    return p.done(
        p.build(
            "y",
            (N,),
            lambda i: (
                apply("power", get(x, i), const(2.0, F64)) + apply("power", apply("abs", get(x, i)) + 0.5, get(x, 0))
            ),
        )
    )


def turned(p: Maker) -> Program:
    """The derivative of a sine is a cosine, and `t` holds the cosines of other elements."""
    x = p.input("x", N, N)
    t = p.build("t", (N, N), lambda i, j: apply("cos", get(x, j, N - 1 - i)))
    return p.done(p.build("y", (N, N), lambda i, j: apply("sin", get(x, i, j)) * get(t, i, j)))


def depth_to_space(p: Maker) -> Program:
    x = p.input("x", N, 4)
    return p.done(p.build("y", (N * 2, 2), lambda i, j: get(x, i // 2, (i % 2) * 2 + j) * get(x, i // 2, 0)))


AFFINE = (
    upsample,
    reshape,
    transpose,
    max_pool,
    overlapping_max,
    log_sum_exp,
    product,
    diagonal,
    triangle,
    choice,
    nested_sums,
    strided,
    reversed_quotient,
    rolled,
    powers,
    turned,
    depth_to_space,
)


def gather(p: Maker) -> Program:
    x = p.input("x", N, M)
    rows = p.input("rows", 5, dtype=types.i64, below=N)
    return p.done(
        p.build(
            "y", (5, M), lambda i, j: get(x, data_index(get(rows, i), N), j) * get(x, data_index(get(rows, i), N), j)
        )
    )


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("make", [*AFFINE, gather], ids=lambda f: f.__name__)
def test_vjp_equals_finite_differences(make: Callable[[Maker], Program], optimized: bool) -> None:
    program = make(Maker())
    rng = np.random.default_rng(3)
    dims = Substitution(dims={DimSymbol(k): as_index(v) for k, v in DIMS.items()})
    inputs = []
    for r in program.inputs:
        shape = tuple(dims.index(d).constant or 0 for d in r.shape)
        inputs.append(rng.standard_normal(shape) if r.dtype is F64 else rng.integers(0, 4, shape))
    (y,) = interpret(program, inputs)
    g = rng.standard_normal(y.shape)
    derived = vjp(program, [0])
    if optimized:
        derived = optimize(derived, DIMS)
    if make is not gather:
        assert not any(isinstance(s, Scatter) for s in walk_statements(derived.body))
    primal, x_bar = interpret(derived, [*inputs, g])
    expected = np.zeros_like(inputs[0])
    h = 1e-6
    for k in np.ndindex(*expected.shape):
        up, down = inputs[0].copy(), inputs[0].copy()
        up[k] += h
        down[k] -= h
        difference = interpret(program, [up, *inputs[1:]])[0] - interpret(program, [down, *inputs[1:]])[0]
        expected[k] = (difference * g).sum() / (2 * h)
    np.testing.assert_allclose(primal, y, rtol=1e-13)
    np.testing.assert_allclose(x_bar, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("split", [False, True])
def test_the_guard_of_where_travels_with_the_cotangent(split: bool) -> None:
    p = Maker()
    x = p.input("x", N)
    if split:
        log = p.build("log", (N,), lambda i: apply("log", get(x, i)))
        y = p.build("y", (N,), lambda i: select(apply("greater", get(x, i), const(0, F64)), get(log, i), const(0, F64)))
    else:
        y = p.build(
            "y",
            (N,),
            lambda i: select(apply("greater", get(x, i), const(0, F64)), apply("log", get(x, i)), const(0, F64)),
        )
    _, x_bar = interpret(vjp(p.done(y), [0]), [np.array([0.0, 2.0, -1.0]), np.ones(3)])
    assert x_bar.tolist() == [0.0, 0.5, 0.0]


def test_first_of_equal_values_gets_the_derivative_of_max() -> None:
    p = Maker()
    x = p.input("x", N)
    y = p.build("y", (), lambda: over("max", (N,), lambda u: get(x, u)))
    _, x_bar = interpret(vjp(p.done(y), [0]), [np.array([1.0, 3.0, 3.0]), np.array(1.0)])
    assert x_bar.tolist() == [0.0, 1.0, 0.0]


def test_second_derivative_is_the_vjp_of_the_vjp() -> None:
    p = Maker()
    x = p.input("x", N)
    y = p.build("y", (), lambda: over("sum", (N,), lambda u: apply("exp", get(x, u)) * get(x, u)))
    once = vjp(p.done(y), [0])
    twice = vjp(once, [0])
    at = np.array([0.3, -1.2])
    outputs = interpret(twice, [at, np.array(1.0), np.array(0.0), np.ones(2)])
    np.testing.assert_allclose(outputs[1], np.exp(at) * (at + 1))
    np.testing.assert_allclose(outputs[-1], np.exp(at) * (at + 2))


def test_an_input_without_influence_has_a_zero_cotangent() -> None:
    p = Maker()
    x, z = p.input("x", N), p.input("z", M)
    y = p.build("y", (N,), lambda i: get(x, i) * 2.0)
    out = interpret(vjp(p.done(y), [0, 1]), [np.ones(2), np.ones(3), np.ones(2)])
    assert z.rank == 1
    assert [o.tolist() for o in out[1:]] == [[2.0, 2.0], [0.0, 0.0, 0.0]]


def test_an_unbounded_while_is_refused() -> None:
    x = Ref("x", F64, ())
    state, new, out = (Ref(n, F64, ()) for n in ("s", "t", "y"))
    going = Ref("g", types.bool_, ())
    test = Block((Build((going,), (), (apply("less", get(state), const(9, F64)),)),), (going,))
    body = Block((Build((new,), (), (get(state) * get(state),)),), (new,))
    loop = While((out,), (state,), (x,), test, body)
    program = Program("f", (x,), Block((loop,), (out,)), ("y",))
    with pytest.raises(DerivativeError) as error:
        vjp(program, [0])
    assert str(error.value).splitlines() == [
        "DerivativeError [E203] reverse mode needs a bound on the trips of a while_loop: y depends on x",
        "  try: `max_trips=n`, the most steps it may take: its states are stored for each"
        "      See `pullback explain-error E203`",
    ]


def test_matrix_calculus_identities() -> None:
    """d(u.v)/du = v, d tr(M)/dM = I and d tr(MA)/dM = A^T come out as exactly that, for all sizes."""
    p = Maker()
    u, v = p.input("u", N), p.input("v", N)
    dot = vjp(p.done(p.build("y", (), lambda: over("sum", (N,), lambda k: get(u, k) * get(v, k)))), [0])
    value = dot.body.statements[-1].values[0]  # type: ignore[union-attr]
    assert {n.ref.name for n in value.args} == {"y_bar", "v"}  # type: ignore[union-attr]
    p = Maker()
    m, a = p.input("m", N, N), p.input("a", N, N)
    trace = vjp(p.done(p.build("y", (), lambda: over("sum", (N, N), lambda i, j: get(m, i, j) * get(a, j, i)))), [0])
    last = trace.body.statements[-1]
    assert isinstance(last, Build)
    i, j = last.vars
    reads = [n for n in last.values[0].args if isinstance(n, Get) and n.ref is a]  # type: ignore[union-attr]
    assert [r.indices for r in reads] == [(as_index(j), as_index(i))]


@pytest.mark.parametrize("keepdims", [False, True])
def test_guards_travel_through_axes_of_extent_one(keepdims: bool) -> None:
    """Where a row is -inf throughout, its derivative is that of the branch taken, not of log(sum(exp(nan)))."""

    def f(x: Any) -> Any:
        largest = pb.max(x, axis=1, keepdims=True)
        total = pb.sum(pb.exp(x - pb.stop_gradient(largest)), axis=1, keepdims=keepdims)
        known = largest > -np.inf
        return pb.sum(pb.where(known if keepdims else known[:, 0], pb.log(total), 0.0))

    x = np.array([[1.0, 2.0], [-np.inf, -np.inf]])
    expected = np.array([np.exp(x[0]) / np.exp(x[0]).sum(), [0.0, 0.0]])
    for call in (pb.grad(f), pb.grad(f).interpret):
        np.testing.assert_allclose(call(x), expected, rtol=1e-12)


def test_a_guard_under_a_condition_on_indices_is_tested_where_that_holds() -> None:
    """x[i - 1] > 0 is no test where i is 0."""

    def f(x: Any) -> Any:
        y = pb.build(x.shape[0], lambda i: pb.where(i > 0, pb.where(x[i - 1] > 0.0, pb.log(x[i - 1]), 0.0), 0.0))
        return pb.sum(y)

    x = np.array([2.0, 0.0, 4.0])
    verify(pb.grad(f).program(x))
    for call in (pb.grad(f), pb.grad(f).interpret):
        np.testing.assert_allclose(call(x), [0.5, 0.0, 0.0])


def test_a_test_inside_a_condition_is_not_made_outside_of_it() -> None:
    """The Jacobian of a gradient: x[i - 1] > 0 is read where i >= 1 alone."""

    def f(x: Any) -> Any:
        first = pb.sum_over(x.shape[0], lambda i: pb.where(x[i] > 0, x[i], x.at(i + 1)))
        return pb.fold(2, (0.0, first), lambda s, t: (s[1], pb.sin(s[1])))[0]

    x = np.array([0.0, 0.5])
    twice = pb.jacobian(pb.grad(f), mode="reverse")
    verify(twice.program(x))
    np.testing.assert_allclose(twice(x), twice.interpret(x))
