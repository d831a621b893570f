"""Elimination: every order gives the same Jacobian; the cheapest beats both sweeps where it must; no blow-up."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32, Float64, Int64

import pullback as pb
from pullback import Array
from pullback.ad.edges import Edge
from pullback.ad.eliminate import _product_cost, eliminate, vertices
from pullback.ad.jacobian import jacobian
from pullback.ad.maps import linear_map
from pullback.ir import expr, types
from pullback.ir.expr import Ref
from pullback.ir.index import Var, as_index, symbol
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Program, Scatter
from pullback.ir.verify import verify
from pullback.passes.operations import operation_count
from tests.support.programs import random_program

RNG = np.random.default_rng(3)


def values(program: Program, wrt: list[int], order: Any, inputs: Any) -> list[np.ndarray]:
    derived = eliminate(program, wrt, order)
    verify(derived)
    return interpret(derived, list(inputs))


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("seed", [*range(24), 112])
def test_all_orders_agree_on_random_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    statements, depth = (4, 3) if seed == 112 else (3, 2)  # a loop's rows that another loop reads, and adds up
    case = random_program(rng, statements=statements, depth=depth, dtypes=(types.f64,))
    program, inputs = case.program, list(case.inputs)
    wrt = [k for k, r in enumerate(program.inputs) if r.dtype.is_floating]
    if not wrt:
        return
    expected = [found for k in wrt for found in interpret(jacobian(program, k, "forward"), inputs, case.sizes)]
    permutation = [int(k) for k in rng.permutation(len(vertices(program, wrt)))]
    for order in ("forward", "reverse", "cheapest", permutation):
        found = interpret(eliminate(program, wrt, order), inputs, case.sizes)  # which checks every index
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


@pb.function
def hourglass(x: Float64[Array, "N"], a: Float64[Array, "2 N"], b: Float64[Array, "N 2"]) -> Any:
    return pb.tanh(b @ pb.tanh(a @ pb.sin(x)))


@pb.function
def layered(x: Float64[Array, "N N"], w: Float64[Array, "N N"]) -> Any:
    for _ in range(6):
        x = x @ w + pb.sin(x)
    return x


@pb.function
def diamonds(x: Float64[Array, "N"]) -> Any:
    for _ in range(60):
        x = x * 0.5 + pb.sin(x)
    return x


@pb.function
def branches(x: Float64[Array, "N"], w: Float64[Array, "M N"], v: Float64[Array, "N M"]) -> Any:
    z = pb.sin(x)
    return pb.exp(v @ (w @ z)) + v @ pb.tanh(w @ z)


@pytest.mark.parametrize(
    ("f", "dims"),
    [(hourglass, {"N": 1000}), (layered, {"N": 10}), (branches, {"N": 200, "M": 3}), (diamonds, {"N": 100})],
    ids=lambda v: getattr(v, "name", ""),
)
def test_mixed_takes_fewer_operations_than_both_sweeps(f: Any, dims: dict[str, int]) -> None:
    counts = {mode: operation_count(pb.jacobian(f, mode=mode).program(), dims) for mode in ("forward", "reverse")}
    assert operation_count(pb.jacobian(f, mode="mixed").program(), dims) < 0.9 * min(counts.values())


def test_the_hourglass_costs_what_its_waist_allows() -> None:
    """The product of an n by 2 and a 2 by n matrix takes 4 n² operations; either sweep also scales n² elements."""
    found = operation_count(pb.jacobian(hourglass, mode="mixed").program(), {"N": 1000})
    assert 4 * 1000**2 <= found <= 4.03 * 1000**2


def test_every_permutation_of_a_small_program() -> None:
    program = branches.program()
    x, w, v = RNG.standard_normal(4), RNG.standard_normal((2, 4)), RNG.standard_normal((4, 2))
    (expected,) = interpret(jacobian(program, 0, "reverse"), [x, w, v])
    inner = vertices(program, [0])
    assert 5 <= len(inner) <= 8
    for order in itertools.islice(itertools.permutations(range(len(inner))), 0, None, 37):
        (found,) = values(program, [0], order, [x, w, v])
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_the_program_grows_with_the_statements_and_not_with_the_paths() -> None:
    program = diamonds.program()
    derived = jacobian(program, 0, "mixed")
    assert len(derived.body.statements) < 6 * len(program.body.statements)


def test_jacobians_are_named_after_outputs() -> None:
    program = parse_program("f(x: f64[N]) { y = build n < N { x[n] * x[n] } return square = y }")
    assert eliminate(program, [0]).output_names == ("square_jacobian",)
    assert eliminate(replace(program, output_names=()), [0]).output_names == ("y_jacobian",)


def test_what_a_product_of_edges_costs() -> None:
    """A product costs one multiplication per value of the variables, and one addition if some are summed."""
    n, k, m = symbol("N"), symbol("K"), symbol("M")
    x, y, z = Ref("x", types.f64, [m]), Ref("y", types.f64, [k]), Ref("z", types.f64, [n])

    def dense(out: Ref, operand: Ref) -> Edge:
        i, j = (Var(r.name, r.shape[0]) for r in (out, operand))
        weight = expr.get(Ref("w", types.f64, [i.extent, j.extent]), i, j)
        return Edge(operand, (as_index(j),), out, (as_index(i),), (i, j), weight)

    def diagonal(r: Ref) -> Edge:
        i = Var(r.name, r.shape[0])
        return Edge(r, (as_index(i),), r, (as_index(i),), (i,), expr.get(r, i))

    dims = {"N": 2, "K": 3, "M": 5}
    assert _product_cost(dense(z, y), dense(y, x), dims) == 2 * 2 * 3 * 5
    assert _product_cost(diagonal(y), dense(y, x), dims) == _product_cost(dense(y, x), diagonal(x), dims) == 3 * 5
    assert _product_cost(diagonal(y), diagonal(y), dims) == 3


@pytest.mark.parametrize(("place", "has_edges"), [("ik", True), ("ki", True), ("i0", False), ("kk", False)])
def test_a_scatter_has_edges_if_each_summand_is_another_element(place: str, has_edges: bool) -> None:
    n = symbol("N")
    i, k = Var("i", n), Var("k", n)
    at = {"i": as_index(i), "k": as_index(k), "0": as_index(0)}
    x, p, y = Ref("x", types.f64, [n, n]), Ref("p", types.i64, [n], (as_index(0), n)), Ref("y", types.f64, [n])
    value = expr.mul(expr.get(x, *(at[c] for c in place)), expr.get(x, *(at[c] for c in place)))
    scatter = Scatter(y, (i, k), (expr.data_index(expr.get(p, i), n),), value)
    assert (linear_map(scatter, {x}).matrix() is not None) == has_edges


def test_inputs_that_are_outputs_and_outputs_that_others_read() -> None:
    @pb.function
    def f(x: Float64[Array, "N"], c: Float64[Array, "N"]) -> Any:
        y = pb.sin(x)
        return x, y, pb.cos(y), c, pb.sum(c)

    x = RNG.standard_normal(3)
    found = interpret(eliminate(f.program(), [0]), [x, x])
    expected = [np.eye(3), np.diag(np.cos(x)), np.diag(-np.sin(np.sin(x)) * np.cos(x)), np.zeros((3, 3)), np.zeros(3)]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("order", ["forward", "reverse", "cheapest"])
def test_a_guard_protects_what_is_multiplied_later(order: Any) -> None:
    """1 / x and log are infinite where the guard is false; no product meets them there."""

    @pb.function
    def f(x: Float64[Array, "N"], a: Float64[Array, "N N"]) -> Any:
        inner = pb.sqrt(x)
        return a @ pb.where(x > 0.0, pb.where(x > 0.5, pb.log(inner) * inner, inner), 0.0)

    x, a = np.array([0.0, 4.0, 0.0, 0.25]), RNG.standard_normal((4, 4))
    with np.errstate(all="ignore"):
        (found,) = values(f.program(), [0], order, [x, a])
    local = np.array([0.0, (np.log(2.0) + 1.0) / 4.0, 0.0, 1.0])
    np.testing.assert_allclose(found, a * local, rtol=1e-12)


def test_gathers_scatters_maxima_and_mixed_precision() -> None:
    @pb.function
    def f(x: Float32[Array, "N"], idx: Int64[Array, "M"], w: Float64[Array, "M"]) -> Any:
        y = pb.build(idx.shape[0], lambda m: pb.astype(x[idx[m]], pb.float64) * w[m])
        z = pb.sin(y)
        return z * pb.max(z), pb.grad(lambda v: pb.sum(pb.build(idx.shape[0], lambda m: v[idx[m]] ** 3)))(pb.cos(x))

    x, idx, w = np.float32([0.5, 0.25, 1.0]), np.array([2, 0, 2, 1]), RNG.standard_normal(4)
    program = f.program(x, idx, w)
    expected = interpret(jacobian(program, 0, "forward"), [x, idx, w])
    for order in ("forward", "reverse", "cheapest"):
        for a, b in zip(values(program, [0], order, [x, idx, w]), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
