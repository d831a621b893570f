"""The law of packed products: random contractions in C agree with the interpreter, whatever the blocks."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest

from pullback.ir import expr, types
from pullback.ir.dims import evaluate
from pullback.ir.expr import Ref, Scalar
from pullback.ir.index import Index, Var, as_index, cond, symbol
from pullback.ir.program import Block, Build, Program
from pullback.loops.memory.verify import verify_function
from pullback.loops.product import blocking, packed
from pullback.runtime.compile import compiler_command
from pullback.runtime.executor import compile_general, compile_program
from tests.packing import pack_all
from tests.support.bounds import interpret_with_bounds

pytestmark = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
SEEDS = range(40)


def ends(i: Index) -> tuple[Index, Index]:
    """The least and the greatest value of an affine index of variables."""
    ways = [(v.extent - 1) * int(i.coefficient(v).constant or 0) for v in i.free]
    signs = [int(i.coefficient(v).constant or 0) > 0 for v in i.free]
    zero = as_index(0)
    return (sum((w for w, up in zip(ways, signs, strict=True) if not up), zero),
            sum((w for w, up in zip(ways, signs, strict=True) if up), zero))


def operand(name: str, variables: list[Var], dtype: Any, random: np.random.Generator) -> tuple[Ref, Scalar]:
    """An array read at the variables: one to an axis or two, in any order, with strides, reversed, padded."""
    rest = [variables[k] for k in random.permutation(len(variables))]
    axes: list[Index] = []
    while rest:
        i = as_index(rest.pop()) * int(random.choice([1, 1, 1, 2, -1]))
        if rest and random.random() < 0.3:
            i = i + as_index(rest.pop()) * int(random.choice([1, 2]))
        axes.append(i)
    conds = []
    shape = []
    for k, i in enumerate(axes):
        low, high = ends(i)
        axes[k] = i - low
        shape.append(high - low + 1)
        long = (shape[k].constant or 3) >= 3
        if long and random.random() < 0.15:  # a border of zeros
            axes[k] = axes[k] - 1
            shape[k] = shape[k] - 2 if shape[k].constant else shape[k]
            conds += [cond(">=", axes[k]), cond(">=", shape[k] - 1 - axes[k])]
    ref = Ref(name, dtype, shape)
    return ref, expr.bracket(conds, expr.get(ref, *axes))


def contraction(random: np.random.Generator, open_share: float = 0.0) -> Program:
    """A sum of products with a rest around it; so many of the sizes, by and large, are dims."""
    dtype = types.f32 if random.random() < 0.7 else types.f64

    def some(name: str, low: int, high: int, most: int) -> list[Var]:
        extents = [int(random.integers(low, high)) for _ in range(int(random.integers(1, most + 1)))]
        opened = random.random(len(extents)) < open_share if open_share else [False] * len(extents)
        return [Var(f"{name}{k}", symbol(f"{name}{k}".upper()) if is_open or (open_share and name == "n") else n)
                for k, (n, is_open) in enumerate(zip(extents, opened, strict=True))]

    rows, columns, depth = some("m", 2, 20, 2), some("n", 3, 40, 2), some("k", 2, 60, 2)
    shared = some("b", 2, 4, 1) if random.random() < 0.3 else []
    a, left = operand("a", [*shared, *rows, *depth], dtype, random)
    b, right = operand("b", [*shared, *columns, *depth], dtype, random)
    c = Ref("c", dtype, [v.extent for v in columns])
    outs = [*shared, *rows, *columns]
    if random.random() < 0.4:
        outs = [outs[k] for k in random.permutation(len(outs))]
    total = expr.reduce("sum", depth, expr.mul(left, right))
    if isinstance(left, expr.Bracket) or isinstance(right, expr.Bracket):
        conds = [c for e in (left, right) if isinstance(e, expr.Bracket) for c in e.conds]
        plain = [e.arg if isinstance(e, expr.Bracket) else e for e in (left, right)]
        total = expr.reduce("sum", depth, expr.bracket(conds, expr.mul(*plain)))
    bias = expr.get(c, *(as_index(v) for v in columns))
    choices = [total, expr.add(total, bias), expr.apply("maximum", expr.add(total, bias), expr.zero(dtype))]
    value = choices[int(random.integers(len(choices)))]
    y = Ref("y", dtype, [v.extent for v in outs])
    body = Block((Build((y,), tuple(outs), (value,)),), (y,))
    dims = tuple(sorted({d.name for v in (*outs, *depth) for d in v.extent.symbols}))
    return Program("contraction", (a, b, c), body, ("y",), sizes=dims)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Packing whatever the estimates say, with blocks whose edges these sizes cross."""
    pack_all(monkeypatch, blocking.Blocks(16, 2048, 4096, 512, 8192))
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    yield


def surrounded(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array with no numbers around it in memory: what reads past its ends shows in the result."""
    whole = np.full(a.size + 512, np.nan, a.dtype)
    inside = whole[256 : 256 + a.size].reshape(a.shape)
    inside[...] = a
    return inside


@pytest.mark.parametrize("seed", SEEDS)
def test_random_contractions(seed: int) -> None:
    random = np.random.default_rng(seed)
    program = contraction(random)
    inputs = [random.normal(size=[d.constant for d in r.shape]).astype(r.dtype.numpy) for r in program.inputs]
    values, bounds = interpret_with_bounds(program, inputs, {})
    executable = compile_program(program, {})
    verify_function(executable.lowered.function, executable.lowered.memory)
    outs, peak, stray = executable.run_poisoned([surrounded(a) for a in inputs])
    assert (peak, stray) == (executable.lowered.memory.peak, 0)
    for out, value, bound in zip(outs, values, bounds, strict=True):
        assert (np.abs(out - value) <= 2 * bound).all()


@pytest.mark.parametrize("seed", range(1000, 1020))
def test_random_contractions_of_open_sizes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One C for all sizes, at sizes below and above those of tiles and of blocks."""
    monkeypatch.setattr(packed, "PACKED", 1)
    random = np.random.default_rng(seed)
    program = contraction(random, 0.6)
    general = compile_general(program)
    verify_function(general.lowered.function, general.lowered.memory)
    for most in (1, 9, 40):
        dims = {d: int(random.integers(1, most + 1)) for d in program.sizes}
        while prod(dims.values()) > 100_000:  # terms, but for extents that are given
            largest = max(dims, key=lambda d: dims[d])
            dims[largest] = dims[largest] * 2 // 3
        shapes = [[evaluate(n, dims) for n in r.shape] for r in program.inputs]
        inputs = [random.normal(size=s).astype(r.dtype.numpy) for s, r in zip(shapes, program.inputs, strict=True)]
        values, bounds = interpret_with_bounds(program, inputs, dims)
        executable = general.at(dims)
        outs, peak, stray = executable.run_poisoned([surrounded(a) for a in inputs])
        assert peak <= executable.arena_bytes
        assert not stray
        for out, value, bound in zip(outs, values, bounds, strict=True):
            assert (np.abs(out - value) <= 2 * bound).all(), dims
