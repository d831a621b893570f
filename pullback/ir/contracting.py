"""The interpreter for speed: sums of products are matrix products.

The reference (`grid.py`) multiplies the factors of a sum over all of its variables before it adds. Here they stay
apart: each is an array over its own variables, most often a view, and `np.matmul` adds the products. A convolution is
then one matrix product over overlapping windows.

Where factors read `w[o, i % 48]` and `x[n, i // 48]`, no view exists over the whole axis i. It is cut into blocks of
48, or into one set of places for each remainder, whichever are fewer, and all indices are affine in each of them.

Sums are added in another order than in the reference, and so have other rounding errors. Under conditions that only
one factor knows, another factor may be infinite where the sum has no term; then the reference computes the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Final, cast

import numpy as np

from pullback.ir import nodes as ir
from pullback.ir.grid import LIMIT, Grid, Guards, NDArray, Value, blocks
from pullback.ir.index import Cond, DimSymbol, Floor, Index, Mod, Var
from pullback.ir.program import scalars_of
from pullback.ir.traverse import indices_of, walk

RESULTS: Final = LIMIT << 5  # elements of a block of a statement with a sum: operands are gathered once for each block
FACTOR: Final = 1 << 23  # elements of a factor that are gathered at once
PIECES: Final = 16  # the most parts of an axis
SMALL: Final = 256  # terms of each of many products, below which NumPy's multiplication and addition are faster
MANY: Final = 64

Run = tuple[int, int, int]  # a start, a number of places, and the step between them


class ContractingGrid(Grid):
    """A grid whose sums of products are matrix products."""

    def blocks(self) -> Iterator[tuple[slice, ...]]:
        """Move the statement's variables over the grid, block by block; yields the slices of each block."""
        variables = self.statement.vars
        self._steps: dict[Var, int] = {}
        sums = [e for s in scalars_of(self.statement) for e in walk(s) if isinstance(e, ir.Reduce) and _factors(e)[1]]
        if not sums or not isinstance(self.statement, ir.Build):
            yield from super().blocks()
            return
        self._bind(variables, 1)
        for runs in product(*self._runs(sums, variables, self.lengths)):
            for block in blocks([count for _, count, _ in runs], RESULTS):
                self._frames[1].clear()
                places = [(start + first * step, count, step)
                          for (start, _, step), (first, count) in zip(runs, block, strict=True)]  # fmt: skip
                self._move(variables, places)
                yield tuple(slice(start, start + (count - 1) * step + 1, step) for start, count, step in places)

    def _move(self, variables: Sequence[Var], places: Sequence[Run]) -> None:
        for v, (start, count, step) in zip(variables, places, strict=True):
            self._range[v] = start, count
            self._steps[v] = step

    def _runs(self, sums: Sequence[ir.Scalar], variables: Sequence[Var], lengths: Sequence[int]) -> list[list[Run]]:
        """For each variable, parts of its axis in which quotients and remainders by one number are affine."""
        found: dict[Var, int] = {}
        nodes = dict.fromkeys(n for s in sums for n in walk(s))
        for atom in (a for n in nodes for i in indices_of(n) for m, _ in i.terms for a in m):
            if isinstance(atom, Floor | Mod) and atom.denominator.constant is not None:
                form = super()._affine(atom.numerator)
                for v in form[1] if form is not None else ():
                    found[v] = max(found.get(v, 0), atom.denominator.constant)
        return [_cut(n, found.get(v, 0)) for v, n in zip(variables, lengths, strict=True)]

    def _var(self, v: Var) -> int | NDArray:
        step = self._steps.get(v, 1)
        if step == 1 or v in self._at or v in self.machine.loops:
            return super()._var(v)
        start, length = self._range[v]
        return self._along(v, np.arange(start, start + length * step, step, dtype=np.int64))

    def index(self, i: Index, guards: Guards) -> Value:
        """An index over the grid, of length 1 along variables that do not change it."""
        if i.constant is not None:
            return super().index(i, guards)
        frame = self._frame(i.free)
        value = frame.get(i)
        if value is None:
            form = self._places(i)
            if form is None:
                return super().index(i, guards)
            value = form[0]
            for v, c in form[1].items():
                value = value + c * self._along(v, np.arange(self._range[v][1], dtype=np.int64))
            frame[i] = value
        return cast(Value, value)

    def _places(self, i: Index) -> tuple[int, dict[Var, int]] | None:
        """An index as its value at the block's first place, and its change from place to place."""
        offset, changes = 0, dict[Var, int]()
        for monomial, coefficient in i.terms:
            factor: tuple[int, dict[Var, int]] = coefficient, {}
            for atom in monomial:
                own = self._atom_places(atom)
                if own is None or (own[1] and factor[1]):
                    return None
                factor = factor[0] * own[0], {v: own[0] * c for v, c in factor[1].items()} | {
                    v: factor[0] * c for v, c in own[1].items()}  # fmt: skip
            offset += factor[0]
            for v, c in factor[1].items():
                changes[v] = changes.get(v, 0) + c
        return offset, {v: c for v, c in changes.items() if c}

    def _atom_places(self, atom: object) -> tuple[int, dict[Var, int]] | None:
        if isinstance(atom, DimSymbol):
            return self.machine.dims[atom.name], {}
        if isinstance(atom, Var):
            if atom in self.machine.loops:
                return self.machine.loops[atom], {}
            if atom in self._at or atom not in self._range:
                return None
            return self._range[atom][0], {atom: self._steps.get(atom, 1)}
        if not isinstance(atom, Floor | Mod) or not atom.denominator.constant:
            return None
        d, inner = atom.denominator.constant, self._places(atom.numerator)
        if inner is None:
            return None
        offset, changes = inner
        if all(c % d == 0 for c in changes.values()):
            whole = offset // d, {v: c // d for v, c in changes.items()}
        else:
            ends = [c * (self._range[v][1] - 1) for v, c in changes.items()]
            low, high = offset + sum(min(0, e) for e in ends), offset + sum(max(0, e) for e in ends)
            if low // d != high // d:
                return None
            whole = low // d, {}
        if isinstance(atom, Floor):
            return whole
        return offset - d * whole[0], {v: c - d * whole[1].get(v, 0) for v, c in changes.items()}

    # Sums ---------------------------------------------------------------------------------------------------

    def _reduce(self, e: ir.Reduce, guards: Guards) -> NDArray:
        conds, factors = _factors(e)
        lengths = [self.machine.extent(v.extent, f"index {v.name} of {self.what}") for v in e.vars]
        if factors and not self.machine.in_order and 0 not in lengths:
            base, level = self._next_axis, len(self._frames)
            self._frames.append({})
            self._bind(e.vars, level)
            found = self._contracted(e, conds, factors, lengths, guards)
            self._frames.pop()
            self._next_axis = base
            for v in e.vars:
                del self._range[v], self._axis[v], self._level[v], self._steps[v]
            if found is not None and (not conds or np.isfinite(found).all()):
                return found
        return super()._reduce(e, guards)

    def _is_product(self, groups: Sequence[frozenset[Var]], summed: Sequence[Var]) -> bool:
        """Whether matrix products are faster than multiplying factors with these variables."""
        kept = _joined(groups)
        if len(kept) != 2:
            return False
        left, right = kept
        apart = self._count(left ^ right)
        terms = apart * self._count(v for v in summed if v in left and v in right)
        return apart > 1 and (terms >= SMALL or self._count(v for v in left & right if v not in summed) <= MANY)

    def _count(self, variables: Iterable[Var]) -> int:
        return prod(self._range[v][1] for v in variables)

    def _varied(self, indices: Iterable[Index]) -> frozenset[Var]:
        """The variables along which one of these indices may change within a block."""
        found: set[Var] = set()
        for i in indices:
            form = self._places(i)
            found |= i.free if form is None else form[1].keys()
        return frozenset(v for v in found if self._range.get(v, (0, 1))[1] > 1)

    def _contracted(
        self, e: ir.Reduce, conds: Sequence[Cond], factors: Sequence[ir.Scalar], lengths: Sequence[int], guards: Guards
    ) -> NDArray | None:
        """The sum, block by block of its variables; None if matrix products do not pay."""
        base, level = self._axis[e.vars[0]], self._level[e.vars[0]]
        self._move(e.vars, [(0, n, 1) for n in lengths])
        groups = [self._varied([i for n in walk(f) for i in indices_of(n)]) for f in factors]
        places = [next((k for k, g in enumerate(groups) if self._varied([c.index]) <= g), -1) for c in conds]
        if -1 in places or not self._is_product(groups, e.vars):
            return None
        outside = max(self._count(g.difference(e.vars)) for g in groups)
        inner = guards + tuple((c, True) for c in conds)
        out: NDArray | None = None
        for runs in product(*self._runs(factors, e.vars, lengths)):
            for block in blocks([count for _, count, _ in runs], max(1, FACTOR // outside)):
                self._frames[level].clear()
                self._move(e.vars, [(start + first * step, count, step)
                                    for (start, _, step), (first, count) in zip(runs, block, strict=True)])  # fmt: skip
                values = [self.scalar(f, inner) for f in factors]
                for c, k in zip(conds, places, strict=True):
                    values[k] = np.where(self.condition(c, guards), values[k], np.zeros((), values[k].dtype))
                part = contracted(values, range(base, base + len(e.vars)), [count for _, count in block])
                out = part if out is None else out + part
        return out


def _factors(e: ir.Reduce) -> tuple[tuple[Cond, ...], tuple[ir.Scalar, ...]]:
    """The conditions around the terms of a sum of floating-point products, and the factors; else nothing."""
    conds: tuple[Cond, ...] = ()
    term = e.arg
    while isinstance(term, ir.Bracket):
        conds, term = conds + tuple(term.conds), term.arg
    if e.op != "sum" or not isinstance(term, ir.Mul) or e.dtype.is_half or e.dtype.numpy.kind != "f":
        return (), ()
    return conds, tuple(term.args)


def _cut(length: int, d: int) -> list[Run]:
    """An axis in blocks of d, or by remainders modulo d, or whole if both are many."""
    if 1 < d < length and -(-length // d) <= min(d, PIECES):
        return [(start, min(d, length - start), 1) for start in range(0, length, d)]
    if 1 < d < length and d <= PIECES:
        return [(r, len(range(r, length, d)), d) for r in range(d)]
    return [(0, length, 1)]


def _joined(groups: Sequence[frozenset[Var]]) -> list[frozenset[Var]]:
    """Sets of variables, without those within another one."""
    kept: list[frozenset[Var]] = []
    for g in sorted(groups, key=len, reverse=True):
        if not any(g <= k for k in kept):
            kept.append(g)
    return kept


def contracted(values: Sequence[NDArray], axes: Sequence[int], lengths: Sequence[int]) -> NDArray:
    """The sum over some axes of the product of arrays that broadcast; the axes stay, with length 1.

    Args:
        values: arrays with the same number of axes, or without any. Those that are not within another one's axes are
            multiplied in the end, so there should be two of them.
        axes: the axes to sum over.
        lengths: their lengths, also where no array has them.
    """
    kept: list[NDArray] = []
    for a in sorted(values, key=lambda a: a.size, reverse=True):
        within = next((k for k, b in enumerate(kept) if a.ndim == 0 or _is_within(a, b)), None)
        if within is None:
            kept.append(a)
        else:
            kept[within] = kept[within] * a
    *rest, a, b = kept if len(kept) > 1 else [*kept, np.ones((1,) * kept[0].ndim, kept[0].dtype)]
    for other in rest:
        a = a * other
    times = prod(n for k, n in zip(axes, lengths, strict=True) if n > 1 and a.shape[k] == b.shape[k] == 1)
    a, b = _summed_alone(a, b, axes), _summed_alone(b, a, axes)
    every = range(a.ndim)
    both = [k for k in every if k not in axes and a.shape[k] > 1 and b.shape[k] > 1]
    summed = [k for k in axes if a.shape[k] > 1 and b.shape[k] > 1]
    rows = [k for k in every if a.shape[k] > 1 and b.shape[k] == 1]
    columns = [k for k in every if b.shape[k] > 1 and a.shape[k] == 1]
    single = [k for k in every if k not in (*both, *summed, *rows, *columns)]

    def size(x: NDArray, which: Sequence[int]) -> int:
        return prod(x.shape[k] for k in which)

    left = a.transpose([*single, *columns, *both, *rows, *summed]).reshape(size(a, both), size(a, rows), -1)
    right = b.transpose([*single, *rows, *both, *summed, *columns]).reshape(size(b, both), -1, size(b, columns))
    order = [*both, *rows, *columns, *summed, *single]
    shape = [a.shape[k] for k in (*both, *rows)] + [b.shape[k] for k in columns] + [1] * (len(summed) + len(single))
    out = np.matmul(left, right).reshape(shape).transpose(np.argsort(order))
    return np.asarray(out if times == 1 else out * out.dtype.type(times))


def _is_within(a: NDArray, b: NDArray) -> bool:
    return all(m == 1 or n > 1 for m, n in zip(a.shape, b.shape, strict=True))


def _summed_alone(a: NDArray, b: NDArray, axes: Sequence[int]) -> NDArray:
    """The array summed over the axes that the other one does not have."""
    alone = tuple(k for k in axes if a.shape[k] > 1 and b.shape[k] == 1)
    return a.sum(axis=alone, keepdims=True) if alone else a
