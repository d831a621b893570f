"""The convolution family: forward and both adjoints, in C and interpreted, for every stride, padding and dilation.

Each case is one convolution with its vector-Jacobian product; the cases of one kernel size are compiled as one
program. The interpreter is compared with sums written out, C with the interpreter, and the adjoints with central
differences along a random direction, which are exact for a bilinear function up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest

from pullback.ad.reverse import vjp
from pullback.ir import types
from pullback.ir.expr import Ref, bracket, get, reduce
from pullback.ir.index import DimSymbol, Index, Var, as_index, cond, symbol
from pullback.ir.interpret import interpret
from pullback.ir.program import Block, Build, Program, Scatter, Statement, walk_statements
from pullback.ir.traverse import instantiate
from pullback.passes.pipeline import optimize
from pullback.runtime.executor import compile_program

STRIDES, PADDINGS, DILATIONS, KERNELS = (1, 2, 3), (0, 1, 2), (1, 2), (1, 2, 3, 4, 5)
RNG = np.random.default_rng(42)


@dataclass(frozen=True)
class Case:
    """A convolution: each field has one number per axis."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    kernel: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def out(self) -> tuple[int, ...]:
        axes = zip(self.size, self.padding, self.dilation, self.kernel, self.stride, strict=True)
        return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in axes)


def convolution(case: Case) -> Program:
    """y[i] = sum over k of w[k] * x[i * stride + k * dilation - padding], zero outside, with symbolic sizes."""
    rank = len(case.size)
    sizes, kernel = [symbol(f"N{a}") for a in range(rank)], [symbol(f"K{a}") for a in range(rank)]
    x, w = Ref("x", types.f64, sizes), Ref("w", types.f64, kernel)
    out: list[Index] = []
    for n, p, d, k, s in zip(sizes, case.padding, case.dilation, kernel, case.stride, strict=True):
        out.append((n + 2 * p - (k - 1) * d - 1) // s + 1)
    i = [Var(f"i{a}", extent) for a, extent in enumerate(out)]
    k = [Var(f"k{a}", extent) for a, extent in enumerate(kernel)]
    axes = zip(i, k, case.stride, case.dilation, case.padding, strict=True)
    at = [as_index(a) * s + as_index(b) * d - p for a, b, s, d, p in axes]
    inside = [c for e, n in zip(at, sizes, strict=True) for c in (cond(">=", e), cond(">=", n - 1 - e))]
    value = reduce("sum", k, bracket(inside, get(x, *at)) * get(w, *k))
    y = Ref("y", types.f64, out)
    return Program("convolution", (x, w), Block((Build((y,), tuple(i), (value,)),), (y,)), ("y",))


def together(cases: list[Case]) -> Program:
    """One program with the convolution and its adjoints for each case, all sizes known."""
    inputs: list[Ref] = []
    statements: list[Statement] = []
    outputs: list[Ref] = []
    for n, case in enumerate(cases):
        derived = vjp(convolution(case), [0, 1])
        own = [Ref(f"{r.name}{n}", r.dtype, s) for r, s in zip(derived.inputs, shapes(case), strict=True)]
        dims = {
            DimSymbol(f"{letter}{a}"): as_index(size)
            for letter, row in (("N", case.size), ("K", case.kernel))
            for a, size in enumerate(row)
        }
        block = instantiate(derived, dict(zip(derived.inputs, own, strict=True)), dims)
        inputs += own
        statements += block.statements
        outputs += block.results
    return Program(
        "family", tuple(inputs), Block(tuple(statements), tuple(outputs)), tuple(f"o{k}" for k in range(len(outputs)))
    )


def shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    return case.size, case.kernel, case.out


def written_out(case: Case, x: Any, w: Any) -> Any:
    """The sum, element by element of the window, over a padded copy."""
    wide = np.pad(x, [(p, p + 8) for p in case.padding])
    y = np.zeros(case.out)
    for k in np.ndindex(*case.kernel):
        axes = zip(k, case.dilation, case.stride, case.out, strict=True)
        y += w[k] * wide[tuple(slice(a * d, a * d + s * n, s) for a, d, s, n in axes)]
    return y


def check(cases: list[Case]) -> None:
    program = together(cases)
    optimized = optimize(program, {})
    assert not any(isinstance(s, Scatter) for s in walk_statements(optimized.body))
    inputs = [RNG.standard_normal(s) for case in cases for s in shapes(case)]
    expected = interpret(program, inputs)
    found = compile_program(program, {}).run(inputs)
    for n, case in enumerate(cases):
        x, w, g = inputs[3 * n : 3 * n + 3]
        y, x_bar, w_bar = expected[3 * n : 3 * n + 3]
        np.testing.assert_allclose(y, written_out(case, x, w), rtol=1e-12, atol=1e-12, err_msg=str(case))
        for a, b in zip(found[3 * n : 3 * n + 3], (y, x_bar, w_bar), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12, err_msg=str(case))
        v, u = RNG.standard_normal(x.shape), RNG.standard_normal(w.shape)
        along_x = (g * (written_out(case, x + v, w) - written_out(case, x - v, w))).sum() / 2
        along_w = (g * (written_out(case, x, w + u) - written_out(case, x, w - u))).sum() / 2
        np.testing.assert_allclose([(x_bar * v).sum(), (w_bar * u).sum()], [along_x, along_w], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_dimension(kernel: int) -> None:
    """All 90 combinations, 18 for each kernel size."""
    check([Case((s,), (p,), (d,), (kernel,), (13,)) for s, p, d in product(STRIDES, PADDINGS, DILATIONS)])


@pytest.mark.parametrize("kernel", KERNELS)
def test_two_dimensions_with_equal_axes(kernel: int) -> None:
    """All 90 combinations, the same on both axes."""
    check(
        [Case((s, s), (p, p), (d, d), (kernel, kernel), (11, 12)) for s, p, d in product(STRIDES, PADDINGS, DILATIONS)]
    )


@pytest.mark.parametrize("part", range(10))
def test_two_dimensions_mixed(part: int) -> None:
    """200 cases drawn with a seed, 20 for each part, the axes independent of each other."""
    rng = np.random.default_rng(part)

    def draw(choices: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(int(c) for c in rng.choice(choices, 2))

    check([Case(draw(STRIDES), draw(PADDINGS), draw(DILATIONS), draw(KERNELS), (10, 13)) for _ in range(20)])
