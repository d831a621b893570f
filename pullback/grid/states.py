"""Loops whose elements do not depend on each other, as device strategies analyze them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.expr import ReduceOp
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Index, Var, as_index
from pullback.ir.reduction import COMBINING, neutral
from pullback.ir.traverse import Substitution, rewrite, walk
from pullback.loops.program.nodes import Assign, Stmt
from pullback.loops.program.values import OPERATORS, Binary, Read, Temp, Type, Value, scalar


class ScanState(NamedTuple):
    """A state that each step combines with a value.

    Attributes:
        ref: the array in the loop.   out: the array of its last value.
        op: the operation.   scale: the factor of the state in a sum.   term: the value of a step, free of states.
    """

    ref: ir.Ref
    out: ir.Ref
    op: ReduceOp
    scale: float
    term: ir.Scalar

    @property
    def type(self) -> Type:
        """The type of an element."""
        return scalar(self.ref.dtype)

    @property
    def exact(self) -> bool:
        """Whether the order of combination does not change results."""
        return not self.ref.dtype.is_floating or self.op in ("max", "min")

    @property
    def begun(self) -> list[bool | int | float]:
        """The identity of the combination: a scale if the state has one, and a value."""
        return [1.0] * (self.scale != 1.0) + [neutral(self.op, self.ref.dtype)]

    def combined(self, first: Sequence[Temp], later: Sequence[Value]) -> list[Stmt]:
        """Combine terms, or a state, with later terms: x followed by (a, b) gives a x + b."""
        *scales, value = later
        old: Value = Read(first[-1])
        for a in scales:
            old = Binary("*", old, a, self.type)
        out: list[Stmt] = [Assign(first[-1], Binary(OPERATORS[self.op], old, value, self.type))]
        if len(first) > 1:
            out += [Assign(first[0], Binary("*", Read(first[0]), a, self.type)) for a in scales]
        return out


@dataclass(frozen=True)
class Scan:
    """A loop each of whose elements depends on its own states alone.

    Attributes:
        fold: the loop.   vars: the variables of an element.   here: its indices.
        values: the arrays that a step makes, in order, with the value of an element.
        states: its states if all are scans, else none.
    """

    fold: ir.Fold
    vars: tuple[Var, ...]
    here: tuple[Index, ...]
    values: tuple[tuple[ir.Ref, ir.Scalar], ...]
    states: tuple[ScanState, ...] = ()

    def get(self, ref: ir.Ref) -> ir.Scalar:
        """The element of an array of the loop."""
        return expr.get(ref, *self.here)


def scan_of(s: ir.Statement) -> Scan | None:
    """The elements of a loop; None if they depend on each other, or if a size is open."""
    if not isinstance(s, ir.Fold) or not s.states or not s.var.extent.constant:
        return None
    shape = s.states[0].shape
    values: dict[ir.Ref, ir.Scalar] = {}
    every = tuple(Var(f"n{k}" if k else "n", d) for k, d in enumerate(shape))
    here = tuple(ZERO_INDEX if v.extent is ONE_INDEX else as_index(v) for v in every)
    for b in s.body.statements:
        if not isinstance(b, ir.Build) or any(o.shape != shape for o in b.outs):
            return None
        m = Substitution(variables=dict(zip(b.vars, here, strict=True)))
        values |= zip(b.outs, map(m.scalar, b.values), strict=True)
    inside = {*s.states, *values}
    gets = {g for v in values.values() for g in walk(v) if isinstance(g, ir.Get) and g.ref in inside}
    separate = all(g.indices == here for g in gets) and inside.issuperset(s.body.results)
    if not separate or any(r.shape != shape for r in inside) or not all(d.constant for d in shape):
        return None
    found = Scan(s, tuple(v for v in every if v.extent is not ONE_INDEX), here, tuple(values.items()))
    whole: dict[ir.Scalar, ir.Scalar] = {}
    for ref, value in values.items():
        whole[found.get(ref)] = rewrite(value, whole.get)
    states = [_state(found, state, out, whole.get(found.get(new)))
              for state, out, new in zip(s.states, s.outs, s.body.results, strict=False)]  # fmt: skip
    known = tuple(x for x in states if x is not None)
    return replace(found, states=known) if len(known) == len(states) else found


def _state(scan: Scan, ref: ir.Ref, out: ir.Ref, new: ir.Scalar | None) -> ScanState | None:
    """The state with this value after a step; None if the step is not associative."""
    old, states = scan.get(ref), set(scan.fold.states)
    match new:
        case ir.Add():
            op, join = "sum", expr.add
        case ir.Mul():
            op, join = "prod", expr.mul
        case ir.Apply() if COMBINING.get(new.primitive.name) in OPERATORS:
            op, join = COMBINING[new.primitive.name], expr.add
        case _:
            return None
    olds = [x for x in new.args if not states.isdisjoint(x.refs)]
    rest = [x for x in new.args if x not in olds]
    if len(olds) != 1 or len(rest) != len(new.args) - 1:
        return None
    scale = 1.0 if olds[0] is old else _scale(olds[0], old) if op == "sum" else None
    return None if scale is None else ScanState(ref, out, op, scale, join(*rest))  # type: ignore[arg-type]


def _scale(e: ir.Scalar, old: ir.Scalar) -> float | None:
    """The number that multiplies the state; None for other factors, and for numbers whose powers overflow."""
    match e:
        case ir.Mul(args=(ir.Const(value=float(a)), x)) if x is old and abs(a) <= 1:
            return a
        case _:
            return None
