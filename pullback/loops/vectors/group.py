"""Groups: neighboring statements over one index space become one loop nest.

Before    e = build n < N { exp(x[n]) }
          s = build { sum n < N { e[n] } }
After     for n in vectors of 4: t = exp(x[n ..]); e[n ..] = t; sum += t
          s[0] = the lanes of sum added

Values that only the group reads are not stored. Axes of at most SMALL elements that are not axes of the space are
unrolled: an array of three coordinates becomes three scalars, and conditions on such an axis are decided. Expressions
are hash-consed, so shared parts are computed once; values that do not depend on the innermost loop leave it.

A member is a map (its variables are the space), or a reduction of a map over some of the space. A sum over an inner
part of the space has accumulators in registers; a sum over an outer part alone is added up in its output.

Members read arrays of the group only at their own point of the space. A statement that reads elsewhere, or that has no
vector form, ends the group. Contractions are left to `tile`, which tiles them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.expr import ReduceOp
from pullback.ir.index import Index, Var, as_index, prove_nonnegative
from pullback.ir.traverse import Substitution, rewrite, walk
from pullback.ir.types import DType
from pullback.loops.analysis.joined import POINTS, SMALL
from pullback.loops.program.cover import typical
from pullback.loops.vectors.lanes import has_vector_form
from pullback.records import dataclass, field, replace

TERMS = 4  # most terms of a small sum that is unrolled: longer ones are contractions
COPIES = 48  # most elements of a member at one point of the space
SUMS = 4  # most elements of a member that is reduced
NODES = 1500  # most nodes of all expressions of a group


@dataclass(frozen=True, eq=False)
class Item:
    """One element of a member at a point of the space.

    Attributes:
        out, indices: the element; reduced variables of the space do not occur.
        value: the value of a map, or the term of a reduction.
        op, over: for a reduction its operator and its variables.
        total, whole: for a reduction a name of its result, and the value that contains the name.
    """

    out: ir.Ref
    indices: tuple[Index, ...]
    value: ir.Scalar
    op: ReduceOp = "sum"
    over: frozenset[Var] = frozenset()
    total: ir.Scalar | None = None
    whole: ir.Scalar | None = None


@dataclass
class Group:
    """Statements to be one loop nest over `space`, outermost variable first.

    Attributes:
        items: the elements that the members compute at a point, in order.
        local: for each array made by a map its elements at a point, by their indices.
        definitions: elements that their readers refer to by name, with their values; so shared values stay shared.
        reads: elements of other arrays that differ from point to point.
    """

    space: tuple[Var, ...]
    dtype: DType
    members: list[ir.Build] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    local: dict[ir.Ref, dict[tuple[Index, ...], ir.Scalar]] = field(default_factory=dict)
    definitions: dict[ir.Ref, ir.Scalar] = field(default_factory=dict)
    reads: set[ir.Scalar] = field(default_factory=set)
    nodes: set[ir.Scalar] = field(default_factory=set)


def find_group(statements: Sequence[ir.Statement]) -> Group | None:
    """The longest group of the first statements; None if the first one alone is as good.

    All axes become axes of the space if the group is then as long; neighboring elements then stay neighbors.
    """
    if len(statements) == 0 or not isinstance(statements[0], ir.Build):
        return None
    best: Group | None = None
    for longest in (0, SMALL):
        alone = len(statements) > 1 and not _may_follow(statements[0], statements[1], longest)
        group = None if alone else _grow(statements, longest)
        if group is not None and (best is None or len(group.members) > len(best.members)):
            best = group
        if not any(map(_has_short_axes, statements[: 2 if group is None else len(group.members) + 1])):
            break  # the same again
    return best


def groups_of_all(statements: Sequence[ir.Statement]) -> Iterator[Group]:
    """The groups of all the statements; the one with all axes in its space is first."""
    for longest in (0, SMALL):
        group = _grow(statements, longest)
        if group is not None and len(group.members) == len(statements):
            yield group


def _has_short_axes(s: ir.Statement) -> bool:
    """Whether a variable is long enough to be an axis of the space, or short enough not to be."""
    if not isinstance(s, ir.Build):
        return False
    bound = (v for e in s.values for n in walk(e) if isinstance(n, ir.Reduce) for v in n.vars)
    return any(_large(v, 0) and not _large(v, SMALL) for v in (*s.vars, *bound))


def _grow(statements: Sequence[ir.Statement], small: int) -> Group | None:
    group: Group | None = None
    for s in statements:
        if not isinstance(s, ir.Build):
            break
        if group is None:
            shape = _shape(s, small)
            if shape is None or prod(typical(v) for v in shape.large) < POINTS:
                return None
            group = Group(shape.large, s.outs[0].dtype)
        if not _join(group, s, small):
            break
    return group if group is not None and group.members else None


@dataclass(frozen=True)
class _Shape:
    """A statement's variables: large ones (of the build, then its reduction), and small ones."""

    large: tuple[Var, ...]
    unrolled: tuple[Var, ...]
    reduce: ir.Reduce | None


def _shape(s: ir.Build, small: int) -> _Shape | None:
    dtype = s.outs[0].dtype
    if not (dtype.is_floating or dtype.is_integer) or any(not v.extent.is_dim for v in s.vars):
        return None
    reductions = dict.fromkeys(n for v in s.values for n in walk(v) if isinstance(n, ir.Reduce))
    wide = [r for r in reductions if _is_wide(r, small)]
    if len(wide) > 1 or (wide and len(s.values) != 1):
        return None
    reduce = wide[0] if wide else None
    bound = reduce.vars if reduce else ()
    if any(not v.extent.is_dim for v in bound):
        return None
    if reduce is not None and (reduce.op not in ("sum", "max", "min") or not all(_large(v, small) for v in bound)):
        return None
    large = tuple(v for v in (*s.vars, *bound) if _large(v, small))
    unrolled = tuple(v for v in s.vars if not _large(v, small))
    copies = prod(v.extent.constant or 1 for v in unrolled)
    return None if copies > (SUMS if reduce else COPIES) else _Shape(large, unrolled, reduce)


def _large(v: Var, small: int) -> bool:
    return typical(v) > max(small, 1)


def _is_wide(r: ir.Reduce, small: int) -> bool:
    """Whether a reduction is over the space, or too long to be unrolled."""
    return any(_large(v, small) for v in r.vars) or prod(typical(v) for v in r.vars) > TERMS


def _join(group: Group, s: ir.Build, small: int) -> bool:
    """Add a statement to the group where it fits."""
    shape = _shape(s, small)
    if shape is None or any(o.dtype is not group.dtype for o in s.outs):
        return False
    onto = _mapping(group, s, shape)
    if onto is None:
        return False
    items = _items(group, s, shape, onto)
    if items is None:
        return False
    values = [i.value for i in items]
    reads = {n for v in values for n in walk(v) if isinstance(n, ir.Get) and n.ref not in group.definitions}
    linked = any(g.ref in group.local for v in s.values for g in walk(v) if isinstance(g, ir.Get))
    if group.members and not linked and not any(set(group.space) <= g.free for g in reads & group.reads):
        return False
    if any(isinstance(n, ir.Bracket) and any(c.op == "==" for c in n.conds) for v in values for n in walk(v)):
        return False  # it holds at few points, which `plain.updates` changes separately
    if not all(has_vector_form(v, group.dtype) for v in values) or not all(_epilogue(i, group) for i in items):
        return False
    nodes = group.nodes.union(*(walk(v) for v in values))
    if len(nodes) > NODES:
        return False
    group.nodes = nodes
    group.reads |= reads
    group.members.append(s)
    for i in items:
        known = group.local.setdefault(i.out, {})
        if i.whole is None:
            known[i.indices] = _name(i.value, i.out.name, group)
            i = replace(i, value=known[i.indices])
        group.items.append(i)
    return True


def _may_follow(first: ir.Build, s: ir.Statement, small: int) -> bool:
    """Whether a statement may join the first one; this is tested before elements are built."""
    if not isinstance(s, ir.Build) or any(o.dtype is not first.outs[0].dtype for o in s.outs):
        return False
    shape, own = _shape(first, small), _shape(s, small)
    if shape is None or own is None:
        return False
    at = {v: as_index(0) for v in shape.unrolled}
    onto = {v: as_index(w) for v, w in zip(shape.large, shape.large, strict=True)}
    element = tuple({**at, **onto}[v] for v in first.vars)
    local = {o: {} if shape.reduce else {element: expr.zero(o.dtype)} for o in first.outs}
    return _mapping(Group(shape.large, first.outs[0].dtype, local=local), s, own) is not None


def _name(value: ir.Scalar, name: str, group: Group) -> ir.Scalar:
    """The value of an element for its readers if it is trivial, else a named element."""
    match value:
        case ir.Const() | ir.Zero() | ir.Get():
            return value
        case ir.Mul() if len(value.args) == 2 and isinstance(value.args[0], ir.Const):
            return value
        case _:
            free = [v for v in group.space if v in value.free]  # variables of enclosing loops are fixed
            ref = ir.Ref(name, value.dtype, tuple(v.extent for v in free))
            group.definitions[ref] = value
            return expr.get(ref, *free)


def _mapping(group: Group, s: ir.Build, shape: _Shape) -> dict[Var, Var] | None:
    """The space variable for each large variable of the statement, by its reads or else by order."""
    onto: dict[Var, Var] = {}
    for value in s.values:
        for g in walk(value):
            if not isinstance(g, ir.Get) or g.ref not in group.local:
                continue
            if not group.local[g.ref]:
                return None  # a reduction of the group: available only after the loop
            here = next(iter(group.local[g.ref]))
            for mine, theirs in zip(g.indices, here, strict=True):
                v = theirs.single
                if not isinstance(v, Var):
                    continue
                w = mine.single
                if not isinstance(w, Var) or onto.setdefault(w, v) is not v:
                    return None
    rest = [v for v in group.space if v not in onto.values()]
    for w in shape.large:
        if w not in onto:
            if not rest:
                return None
            onto[w] = rest.pop(0)
    if set(onto) != set(shape.large) or len(set(onto.values())) != len(onto) or rest:
        return None
    return onto if all(w.extent is v.extent for w, v in onto.items()) else None


def _items(group: Group, s: ir.Build, shape: _Shape, onto: dict[Var, Var]) -> list[Item] | None:
    """The statement's elements at a point of the space."""
    out = []
    failed = False

    def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
        nonlocal failed
        known = group.local.get(ref)
        if known is None:
            failed |= not all(_inside(i, d) for i, d in zip(indices, ref.shape, strict=True))
            return expr.get(ref, *indices)
        found = known.get(indices)
        failed |= found is None
        return expr.zero(ref.dtype) if found is None else found

    space: dict[Var, Index] = {w: as_index(v) for w, v in onto.items()}
    for position in product(*(range(v.extent.constant or 1) for v in shape.unrolled)):
        at = {**space, **{v: as_index(k) for v, k in zip(shape.unrolled, position, strict=True)}}
        m = Substitution(variables=at, get=element)
        indices = tuple(at[v] for v in s.vars)
        for o, value in zip(s.outs, s.values, strict=True):
            if shape.reduce is None:
                out.append(Item(o, indices, m.scalar(_unrolled(value))))
                continue
            r = shape.reduce
            over = frozenset(onto[v] for v in r.vars)
            term = m.scalar(r.arg)
            total = expr.get(
                ir.Ref("total", r.dtype, (2,)), Var("end", 2)
            )  # its variable exists only after the loop
            by: dict[ir.Scalar, ir.Scalar] = {r: total}
            whole = Substitution(variables={v: at[v] for v in s.vars}).scalar(rewrite(value, by.get))
            out.append(Item(o, indices, term, r.op, over, total, whole))
    return None if failed else out


def _inside(i: Index, extent: Index) -> bool:
    return prove_nonnegative(i) and prove_nonnegative(extent - 1 - i)


def _unrolled(e: ir.Scalar) -> ir.Scalar:
    """The expression with each reduction written out, before the elements it reads are looked up."""
    return rewrite(e, lambda n: _written_out(n, n.arg) if isinstance(n, ir.Reduce) else None)


def _written_out(r: ir.Reduce, arg: ir.Scalar) -> ir.Scalar:
    if r.op not in ("sum", "max", "min"):
        return expr.reduce(r.op, r.vars, arg)
    terms = []
    for position in product(*(range(v.extent.constant or 1) for v in r.vars)):
        at = {v: as_index(k) for v, k in zip(r.vars, position, strict=True)}
        terms.append(Substitution(variables=at).scalar(arg))
    if r.op == "sum":
        return expr.add(*terms)
    out = terms[0]
    for t in terms[1:]:
        out = expr.apply("maximum" if r.op == "max" else "minimum", out, t)
    return out


def _epilogue(i: Item, group: Group) -> bool:
    """Whether a reduction's result undergoes scalar arithmetic that is available before the loop."""
    if i.whole is None:
        return True
    plain = all(
        isinstance(n, ir.Const | ir.Get | ir.Add | ir.Mul | ir.Apply) and n.dtype is i.out.dtype for n in walk(i.whole)
    )
    return plain and not any(isinstance(n, ir.Get) and n.ref in group.local for n in walk(i.whole))
