"""The law of packed products: random contractions in C agree with the interpreter, whatever the blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pullback.ir import expr, types
from pullback.ir.expr import Ref, Scalar
from pullback.ir.index import Index, Var, as_index, cond
from pullback.ir.program import Block, Build, Program
from pullback.loops.memory.verify import verify_function
from pullback.loops.product import blocking
from pullback.runtime.compile import compiler_command
from pullback.runtime.executor import compile_program
from pullback.testing.bounds import interpret_with_bounds
from tests.packing import pack_all

pytestmark = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
SEEDS = range(40)


def least(i: Index) -> int:
    """The least value of an affine index."""
    return i.offset + sum(min(0, c * ((m[0].extent.constant or 1) - 1)) for m, c in i.terms if m)


def greatest(i: Index) -> int:
    """The greatest value of an affine index."""
    return i.offset + sum(max(0, c * ((m[0].extent.constant or 1) - 1)) for m, c in i.terms if m)


def operand(name: str, variables: list[Var], dtype: Any, random: np.random.Generator) -> tuple[Ref, Scalar]:
    """An array read at the variables: one to an axis or two, in any order, with strides, reversed, padded."""
    rest = [variables[k] for k in random.permutation(len(variables))]
    axes: list[Index] = []
    while rest:
        i = as_index(rest.pop()) * int(random.choice([1, 1, 1, 2, -1]))
        if rest and random.random() < 0.3:
            i = i + as_index(rest.pop()) * int(random.choice([1, 2]))
        axes.append(i - least(i))
    conds = []
    shape = []
    for k, i in enumerate(axes):
        if random.random() < 0.15:  # a border of zeros
            axes[k] = i - 1
            shape.append(max(1, greatest(i) - 1))
            conds += [cond(">=", axes[k]), cond(">=", shape[-1] - 1 - axes[k])]
        else:
            shape.append(greatest(i) + 1)
    ref = Ref(name, dtype, [as_index(n) for n in shape])
    return ref, expr.bracket(conds, expr.get(ref, *axes))


def contraction(random: np.random.Generator) -> Program:
    """A sum of products with a rest around it."""
    dtype = types.f32 if random.random() < 0.7 else types.f64

    def some(name: str, low: int, high: int, most: int) -> list[Var]:
        return [Var(f"{name}{k}", int(random.integers(low, high))) for k in range(int(random.integers(1, most + 1)))]

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
    return Program("contraction", (a, b, c), Block((Build((y,), tuple(outs), (value,)),), (y,)), ("y",))


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
