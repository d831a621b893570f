"""The law of the interpreter for speed: sums of products as matrix products are what the reference computes.

Bounds come from the reference in double precision (`tests/support/bounds.py`). Blocks are small: they have edges.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.ir import contracting, expr, types
from pullback.ir.expr import Ref, Scalar
from pullback.ir.index import Index, Var, as_index, cond, floor_divide, modulo
from pullback.ir.interpret import interpret
from pullback.ir.program import Block, Build, Program
from pullback.ir.traverse import walk
from tests.laws.test_c import assert_within_bounds
from tests.laws.test_contractions import contraction
from tests.support.bounds import interpret_with_bounds
from tests.support.programs import random_program


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrix products whether they pay or not, over blocks that these sizes cross."""
    monkeypatch.setattr(contracting, "SMALL", 0)
    monkeypatch.setattr(contracting, "RESULTS", 200)
    monkeypatch.setattr(contracting, "FACTOR", 500)


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with every matrix product."""
    made: list[int] = []
    multiply = contracting.contracted

    def counted(*args: Any) -> Any:
        made.append(1)
        return multiply(*args)

    monkeypatch.setattr(contracting, "contracted", counted)
    return made


def small(random: np.random.Generator) -> Program:
    """A contraction that the reference computes in some milliseconds."""
    while True:
        program = contraction(random)
        (statement,) = program.body.statements
        assert isinstance(statement, Build)
        terms = [e for e in walk(statement.values[0]) if isinstance(e, expr.Reduce)]
        if prod(int(v.extent.constant or 0) for v in (*statement.vars, *terms[0].vars)) <= 30_000:
            return program


def check(program: Program, inputs: list[Any]) -> None:
    values, bounds = interpret_with_bounds(program, inputs, {})
    for out, value, bound in zip(interpret(program, inputs, contracts=True), values, bounds, strict=True):
        assert (np.abs(out - value) <= 2 * bound).all()


@pytest.mark.parametrize("part", range(10))
def test_random_contractions(part: int, products: list[int]) -> None:
    for seed in range(20 * part, 20 * part + 20):
        random = np.random.default_rng((seed, 1))
        program = small(random)
        shapes = [[d.constant for d in r.shape] for r in program.inputs]
        check(program, [random.normal(size=s).astype(r.dtype.numpy) for s, r in zip(shapes, program.inputs)])
    assert len(products) >= 20


@pytest.mark.parametrize("part", range(10))
def test_random_programs(part: int) -> None:
    for seed in range(2000 + 20 * part, 2020 + 20 * part):
        case = random_program(np.random.default_rng(seed))
        assert_within_bounds(case, interpret(case.program, case.inputs, case.sizes, contracts=True))


def digit(v: Var, random: np.random.Generator) -> tuple[Index, int]:
    """A quotient or remainder of a variable, with the size of an axis that it indexes."""
    n, d, shift = int(v.extent.constant or 0), int(random.integers(2, 7)), int(random.integers(0, 3))
    if random.random() < 0.5:
        return floor_divide(as_index(v) + shift, as_index(d)), (n - 1 + shift) // d + 1
    return modulo(as_index(v) + shift, as_index(d)), d


def digits(random: np.random.Generator) -> Program:
    """A sum of products whose operands read quotients and remainders of their variables."""
    row, column, k = (Var(name, int(random.integers(2, 30))) for name in ("i", "j", "k"))
    refs: list[Ref] = []
    factors: list[Scalar] = []
    for name, own in (("a", row), ("b", column)):
        reads = [digit(own, random), digit(k, random), (as_index(own), int(own.extent.constant or 0))]
        reads += [digit(row, random)] if random.random() < 0.5 else [(as_index(k), int(k.extent.constant or 0))]
        order = random.permutation(len(reads))
        refs.append(Ref(name, types.f64, [reads[m][1] for m in order]))
        factors.append(expr.get(refs[-1], *(reads[m][0] for m in order)))
    term = expr.mul(*factors)
    if random.random() < 0.4:
        term = expr.bracket([cond(">=", as_index(k) - as_index(row) // 2)], term)
    y = Ref("y", types.f64, [row.extent, column.extent])
    body = Block((Build((y,), (row, column), (expr.reduce("sum", [k], term),)),), (y,))
    return Program("digits", tuple(refs), body, ("y",))


@pytest.mark.parametrize("part", range(10))
def test_quotients_and_remainders(part: int, products: list[int]) -> None:
    for seed in range(30 * part, 30 * part + 30):
        random = np.random.default_rng((seed, 2))
        program = digits(random)
        check(program, [random.normal(size=[d.constant for d in r.shape]) for r in program.inputs])
    assert len(products) >= 30


def test_a_quotient_of_two_variables() -> None:
    """One of them in steps of the divisor, the other one by one."""
    i, j, k = Var("i", 7), Var("j", 5), Var("k", 6)
    a, b = Ref("a", types.f64, [7, 9]), Ref("b", types.f64, [6, 5])
    at = floor_divide(as_index(i) * 2 + as_index(k), as_index(2))
    term = expr.mul(expr.get(a, i, at), expr.get(b, k, j))
    y = Ref("y", types.f64, [7, 5])
    program = Program("both", (a, b), Block((Build((y,), (i, j), (expr.reduce("sum", [k], term),)),), (y,)), ("y",))
    random = np.random.default_rng(3)
    check(program, [random.normal(size=(7, 9)), random.normal(size=(6, 5))])


def test_exact_programs_add_in_order(products: list[int]) -> None:
    with pb.exact():
        f = pb.function(lambda x, y: x @ y)
    x, y = np.random.default_rng(4).normal(size=(2, 20, 20))
    _, traced, arrays, sizes = f.arrays_of([x, y])
    (found,), (wanted,) = (interpret(traced.program, arrays, sizes, contracts=c) for c in (True, False))
    np.testing.assert_array_equal(found, wanted)
    assert not products


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_convolutions_and_their_gradients(groups: int, stride: int, products: list[int]) -> None:
    """Grouped, strided, padded; beside the reference, which multiplies everywhere."""
    net = pb.nn.conv(6, 3, stride=stride, padding=1, groups=groups, bias=False).on("N 6 9 8")
    f = pb.function(lambda p, x: pb.sum(pb.tanh(net(p, x))))
    g = pb.grad(f, wrt=("p", "x"))
    random = np.random.default_rng(groups)
    p = {"w": random.normal(size=(6, 6 // groups, 3, 3)).astype(np.float32)}
    x = random.normal(size=(2, 6, 9, 8)).astype(np.float32)
    _, traced, arrays, sizes = g.arrays_of([p, x])
    program = traced.program
    found = interpret(program, arrays, sizes, contracts=True)
    for a, b in zip(found, interpret(program, arrays, sizes, float64=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert products


def test_infinity_where_a_sum_has_no_term() -> None:
    """Zero times infinity is not part of a sum that a condition cuts short."""
    i, j, k = Var("i", 4), Var("j", 5), Var("k", 6)
    a, b = Ref("a", types.f64, [4, 6]), Ref("b", types.f64, [6, 5])
    term = expr.bracket([cond(">=", i - as_index(k))], expr.mul(expr.get(a, i, k), expr.get(b, k, j)))
    y = Ref("y", types.f64, [4, 5])
    program = Program("lower", (a, b), Block((Build((y,), (i, j), (expr.reduce("sum", [k], term),)),), (y,)), ("y",))
    right = np.ones((6, 5))
    right[3] = np.inf
    (found,) = interpret(program, [np.ones((4, 6)), right], contracts=True)
    np.testing.assert_array_equal(found, [[1] * 5, [2] * 5, [3] * 5, [np.inf] * 5])


def test_an_index_out_of_range_is_an_error() -> None:
    f = pb.function(lambda x, w, i: pb.build((3, 5), lambda n, m: pb.sum(pb.build(4, lambda k: x[n, i[k]] * w[k, m]))))
    x, w = np.ones((3, 7)), np.ones((4, 5))
    _, traced, arrays, sizes = f.arrays_of([x, w, np.array([0, 6, 7, 1])])
    with pytest.raises(pb.errors.IndexRangeError, match=r"\[E401\].*= 7 is outside 0 … 6"):
        interpret(traced.program, arrays, sizes, contracts=True)
