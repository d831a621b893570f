"""A nest: values at the points of a space, over flat addresses, to be loops of vectors.

Builds and groups of statements (`vectors.group`) become nests. Each output is stored at its points, or summed over some
of the axes. Axes that every address sees as one are merged: a step of the outer is a full run of the inner. `plans`
chooses how a build is tiled; a group has its vector variable from here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from itertools import chain
from math import prod
from typing import Final

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.expr import ReduceOp
from pullback.ir.index import ZERO_INDEX, Floor, Index, Mod, Var, as_index
from pullback.ir.traverse import Substitution, children, indices_of, rewrite, walk
from pullback.ir.types import DType
from pullback.loops.analysis.zeros import Zeros, ends
from pullback.loops.plain.builder import Address
from pullback.loops.program.cover import typical
from pullback.loops.program.values import Buffer
from pullback.loops.vectors.axes import Flat, Merge, mergeable
from pullback.loops.vectors.group import Group
from pullback.loops.vectors.lanes import has_vector_form
from pullback.records import dataclass, field, replace

REDUCTIONS: Final = ("sum", "max", "min")


@dataclass(frozen=True, eq=False)
class Out:
    """An output's element at a point of the space, or a term that is added to it.

    Attributes:
        buffer, offset: its location.
        value: the stored value, or the term of the sum.
        over, op: the variables and the operator of the reduction.
        total, whole: a name for the reduction's result, and the value that contains it.
    """

    buffer: Buffer
    offset: Index
    value: ir.Scalar
    over: frozenset[Var] = frozenset()
    op: ReduceOp = "sum"
    total: ir.Scalar | None = None
    whole: ir.Scalar | None = None

    def map(self, f: Callable[[ir.Scalar], ir.Scalar]) -> Out:
        """Another value at the same place."""
        return replace(self, value=f(self.value))

    def merged(self, merge: Merge) -> Out:
        """The output with one axis in place of two."""
        m = merge.substitution
        whole = None if self.whole is None else m.scalar(self.whole)
        value, over = _merged(self.value, merge), frozenset(merge.variables(self.over))
        return replace(self, offset=m.index(self.offset), value=value, over=over, whole=whole)


@dataclass(frozen=True, eq=False)
class Nest:
    """Values at the points of a space.

    Attributes:
        dtype: the type of all stored values.
        variables: the axes, outermost first.
        outs: the values stored or added up at a point.
        buffers: the arrays that are read, under the names of their flat forms.
        definitions: values that are used more than once, by their names.
        along: the variable along the lanes, once chosen.
        ends: pairs of an axis and a sum's variable; the sum's terms are zero where the variable is larger.
    """

    dtype: DType
    variables: tuple[Var, ...]
    outs: tuple[Out, ...]
    buffers: Mapping[ir.Ref, Buffer]
    definitions: Mapping[ir.Ref, ir.Scalar] = field(default_factory=dict)
    along: Var | None = None
    ends: tuple[tuple[Var, Var], ...] = ()

    @staticmethod
    def of(s: ir.Build, address: Address, zeros: Mapping[ir.Ref, Zeros] | None = None) -> Nest | None:
        """The nest of a build with merged axes; None if it has no vector form."""
        if not all(is_plain(v, s.vars) for v in s.vars):
            return None
        flat = Flat(address)
        single = {v: ZERO_INDEX for v in s.vars if v.extent.constant == 1}
        m = Substitution(variables=single, get=flat.element)
        values = [m.scalar(v) for v in s.values]
        indices = tuple(single.get(v, as_index(v)) for v in s.vars)
        dtypes = {o.dtype for o in s.outs}
        if len(dtypes) != 1 or (not (dtype := dtypes.pop()).is_floating and not dtype.is_integer):
            return None
        outs = tuple(Out(*address(o, indices), v) for o, v in zip(s.outs, values, strict=True))
        sums = [n for v in s.values for n in walk(v) if isinstance(n, ir.Reduce)] if zeros else []
        pairs = dict.fromkeys(pair for r in sums for pair in ends(r, zeros or {}) if pair[0] in s.vars)
        nest = Nest(dtype, tuple(v for v in s.vars if v not in single), outs, flat.buffers, ends=tuple(pairs))
        return nest.merged() if _possible(nest) else None

    @staticmethod
    def of_group(group: Group, address: Address, stored: frozenset[ir.Ref]) -> Nest | None:
        """The nest of a group with merged axes; None if its outputs cannot be written while it runs."""
        flat = Flat(address)
        shared = _shared(group, stored)
        definitions: dict[ir.Ref, ir.Scalar] = {}

        def known(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
            if ref in totals:
                return expr.get(ref, *indices)
            if ref not in group.definitions:
                return flat.element(ref, indices)
            value = m.scalar(group.definitions[ref])
            if ref not in shared:
                return value
            definitions[ref] = value
            return expr.get(ref, *indices)

        totals = {i.total.ref for i in group.items if isinstance(i.total, ir.Get)}
        m = Substitution(get=known)
        outs = []
        for i in group.items:
            if i.out in stored:
                whole = None if i.whole is None else m.scalar(i.whole)
                outs.append(Out(*address(i.out, i.indices), m.scalar(i.value), i.over, i.op, i.total, whole))
        nest = Nest(group.dtype, group.space, tuple(outs), flat.buffers, definitions).merged()
        nest = replace(nest, along=nest._most_steps())
        return nest if nest._on_the_way() else None

    @cached_property
    def values(self) -> list[ir.Scalar]:
        """All values computed at a point."""
        return [*(o.value for o in self.outs), *self.definitions.values()]

    def map(self, f: Callable[[ir.Scalar], ir.Scalar]) -> Nest:
        """The nest with other values at a point."""
        outs = tuple(o.map(f) for o in self.outs)
        return replace(self, outs=outs, definitions={r: f(v) for r, v in self.definitions.items()})

    @cached_property
    def reductions(self) -> tuple[ir.Reduce, ...]:
        """The reductions within values, each once."""
        return tuple(dict.fromkeys(n for v in self.values for n in walk(v) if isinstance(n, ir.Reduce)))

    @cached_property
    def gets(self) -> list[ir.Get]:
        """The elements that are loaded, each once."""
        wholes = [o.whole for o in self.outs if o.whole is not None]
        found = dict.fromkeys(n for v in (*self.values, *wholes) for n in walk(v) if isinstance(n, ir.Get))
        return [g for g in found if g.ref in self.buffers]

    def gets_indices(self) -> list[Index]:
        """The flat addresses that are read."""
        return [g.indices[0] for g in self.gets]

    def addresses(self) -> list[Index]:
        """The flat addresses that are written and read."""
        return [*(o.offset for o in self.outs), *self.gets_indices()]

    # Axes -----------------------------------------------------------------------------------------------------------

    def merged(self) -> Nest:
        """The nest after merging each pair of axes that every address sees as one."""
        fixed = self.inside(ir.Bracket, ir.FromIndex) | self._divided() | set(chain(*self.ends))
        merge = mergeable(self._alike(), self.addresses(), fixed)
        if merge is None:
            return self
        outs = tuple(o.merged(merge) for o in self.outs)
        definitions = {r: _merged(v, merge) for r, v in self.definitions.items()}
        return replace(self, variables=merge.variables(self.variables), outs=outs, definitions=definitions).merged()

    def _alike(self) -> list[Sequence[Var]]:
        """Groups of variables: by the outputs that they are summed in, then each reduction's."""
        out: dict[tuple[bool, ...], list[Var]] = {}
        for v in self.variables:
            out.setdefault(tuple(v in o.over for o in self.outs), []).append(v)
        return [*out.values(), *(r.vars for r in self.reductions)]

    def inside(self, *kinds: type[ir.Scalar]) -> set[Var]:
        """Variables in the indices of some kinds of expressions."""
        found = (n for v in self.values for n in walk(v) if isinstance(n, kinds))
        return {v for n in found for i in indices_of(n) for v in i.free}

    def _divided(self) -> set[Var]:
        """Variables under div and mod."""
        atoms = (a for i in self.addresses() for a in i.atoms if isinstance(a, Floor | Mod))
        return {v for a in atoms for v in a.free}

    @property
    def elements(self) -> int:
        """Number of elements of an output."""
        return prod(typical(v) for v in self.variables)

    @property
    def trips(self) -> int:
        """Terms of the longest reduction."""
        return max((prod(typical(v) for v in r.vars) for r in self.reductions), default=1)

    # Of a group -----------------------------------------------------------------------------------------------------

    def _most_steps(self) -> Var:
        """The variable for the lanes: the one with unit stride in most addresses."""

        def score(v: Var) -> tuple[int, int]:
            steps = [stride(i, v) for i in self.addresses() if v in i.free]
            return sum(1 if s == 1 else -1 for s in steps), self.variables.index(v)

        return max(self.variables, key=score)

    @property
    def axis(self) -> Var:
        """The variable along the lanes."""
        assert self.along is not None
        return self.along

    @cached_property
    def order(self) -> tuple[Var, ...]:
        """The variables as loops: that along the lanes is the innermost."""
        return (*(v for v in self.variables if v is not self.along), self.axis)

    def _on_the_way(self) -> bool:
        """Whether each output can be written as soon as it is known, without changing reads."""
        written: dict[Buffer, list[Out]] = {}
        for o in self.outs:
            written.setdefault(o.buffer, []).append(o)
        for g in self.gets:
            mine = written.get(self.buffers[g.ref])
            if mine and (any(self.gathered(o) for o in mine) or all(o.offset is not g.indices[0] for o in mine)):
                return False
        for o in self.outs:
            if o.offset.coefficient(self.axis) is None or (not o.over and stride(o.offset, self.axis) is None):
                return False
            if self.gathered(o) and (o.op != "sum" or o.whole is not o.total or self.axis in o.over):
                return False
            if self.gathered(o) and stride(o.offset, self.axis) != 1:
                return False  # vectors are added to it as they are
        return all(i.coefficient(v) is not None for i in self.addresses() for v in i.free)

    def first(self, o: Out) -> int:
        """The number of loops around the sum of a reduction."""
        return min(self.order.index(v) for v in o.over)

    def gathered(self, o: Out) -> bool:
        """Whether a reduction accumulates in its output: an output loop is inside a term loop."""
        return bool(o.over) and any(v not in o.over for v in self.order[self.first(o) :])


def _shared(group: Group, stored: frozenset[ir.Ref]) -> set[ir.Ref]:
    """The definitions that are used more than once."""
    counts: dict[ir.Ref, int] = {}
    pending = [i.value for i in group.items if i.out in stored]
    for v in pending:  # grows: definitions are expanded at their first use
        uses = [v] if isinstance(v, ir.Get) else [c for n in walk(v) for c in children(n)]
        for c in uses:
            if isinstance(c, ir.Get) and c.ref in group.definitions:
                counts[c.ref] = counts.get(c.ref, 0) + 1
                if counts[c.ref] == 1:
                    pending.append(group.definitions[c.ref])
    return {r for r, n in counts.items() if n > 1}


def _merged(e: ir.Scalar, merge: Merge) -> ir.Scalar:
    """The expression with one axis replacing two, its own or a reduction's."""

    def reduction(r: ir.Reduce) -> ir.Scalar:
        if merge.inner not in r.vars:
            return r
        return expr.reduce(r.op, merge.variables(r.vars), merge.substitution.scalar(r.arg))

    return merge.substitution.scalar(map_reductions(e, reduction))


def map_reductions(e: ir.Scalar, rule: Callable[[ir.Reduce], ir.Scalar]) -> ir.Scalar:
    """Replace each reduction of `e`; reductions are not nested."""
    return rewrite(e, lambda n: rule(n) if isinstance(n, ir.Reduce) else None)


def stride(i: Index, v: Var) -> int | None:
    """The constant step of an address in v; None where it has none."""
    c = i.coefficient(v)
    return None if c is None else c.constant


def is_plain(v: Var, mine: Collection[Var]) -> bool:
    """Whether the size of a variable is independent of the others."""
    return v.extent.constant is not None or (v.extent.free.isdisjoint(mine) and not v.extent.data)


def _possible(nest: Nest) -> bool:
    """Whether all values of a build have a vector form; conditions on a sum's argument are tests.

    Reductions are not nested, and have equally many terms at every point.
    """
    plain = all(is_plain(w, (*nest.variables, *r.vars)) for r in nest.reductions for w in r.vars)
    if not plain or any(r.op not in REDUCTIONS for r in nest.reductions):
        return False
    terms = [r.arg.arg if r.op == "sum" and isinstance(r.arg, ir.Bracket) else r.arg for r in nest.reductions]
    around = [map_reductions(v, lambda r: expr.const(1, r.dtype)) for v in nest.values]
    if any(isinstance(n, ir.Reduce) for e in terms for n in walk(e)):
        return False
    if any(isinstance(n, ir.Bracket) for e in (*terms, *around) for n in walk(e)):
        return False
    return all(has_vector_form(v, nest.dtype) for v in nest.values)
