"""Traps of debug builds: a call ends at a statement that makes a non-finite result from finite values.

    y = build n < N { log(x[n]) }
    -->  y(x);  if (finite[y] = all of y is finite, else finite[x]): leave with the place and the element of y

One bit for each array says whether all of its elements are finite. It is computed for inputs at the start of the call,
for results after their statement, and for loop states at the start of each trip. So NaN and infinity that are passed
in, or follow from others, do not trap. Statements that write a literal infinity or NaN do not trap either.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Index, Var, as_index
from pullback.ir.program import bound_refs, statement_reads, walk_statements
from pullback.ir.traverse import walk
from pullback.ir.types import bool_
from pullback.loops.analysis.joined import elements
from pullback.loops.program.nodes import Break, Call, Check, For, If, Kernel, Let, Site, Stmt, Store
from pullback.loops.program.values import Binary, Buffer, Literal, Load, Read, Temp, Value, View, scalar

BOOL = scalar(bool_)
NAN, INFINITE = 0, 1  # codes in place of an extent that a trap reports


class Traps:
    """The tests of one program with arrays in `views`."""

    def __init__(self, program: ir.Program, views: Mapping[ir.Ref, View]) -> None:
        self.views = views
        self.inputs = program.inputs
        self._places = {r: k for k, r in enumerate(_arrays(program.body, program.inputs))}
        count = as_index(max(len(self._places), 1))
        self.flags = Buffer("finite", bool_, (count,), "arena", count)

    def entry(self) -> list[Stmt]:
        """The statements that record whether the inputs are finite when the call begins."""
        return self.note(self.inputs)

    def note(self, arrays: Iterable[ir.Ref]) -> list[Stmt]:
        """The statements that record whether all elements of these arrays are finite."""
        return [self._call(r, None) for r in arrays if r in self._places]

    def after(self, s: ir.Statement) -> list[Stmt]:
        """The tests of a statement's results."""
        if isinstance(s, ir.Build | ir.Scatter) and not _writes_infinity(s):
            return [self._call(r, s) for r in s.outs if r in self._places]
        return self.note(s.outs)

    def _call(self, r: ir.Ref, s: ir.Statement | None) -> Call:
        """Test an array; with `s`, which computed it, trap if all arrays that `s` read are finite."""
        view = self.views[r]
        array = Buffer(r.name, r.dtype, r.shape, "parameter", elements(r.shape), False)
        flags = Buffer("finite", bool_, self.flags.shape, "parameter", self.flags.elements, True)
        i = Var("i", array.elements)
        value = Temp("value", scalar(r.dtype))
        own = as_index(self._places[r])
        found: list[Stmt] = [Store(flags, own, Literal(False, BOOL))]
        if s is not None:
            reads = [q for q in statement_reads(s) if q in self._places and q is not r]
            site = Site(r.name, None, r.name, s.positions[0] if s.positions else None, tuple(map(_extent, r.shape)))
            # no index reaches the lower bound, so both checks fail, each with its own code
            nan, infinite = (Check(as_index(i), as_index(k), site, array.elements) for k in (NAN, INFINITE))
            trap: tuple[Stmt, ...] = (If(_differs(Read(value), Read(value)), (nan,), (infinite,)),)
            for q in reads:
                trap = (If(Load(flags, as_index(self._places[q]), BOOL), trap),)
            found += trap
        odd = _differs(Binary("-", Read(value), Read(value), value.type), Literal(0.0, value.type))
        loop = For(i, ZERO_INDEX, array.elements, (
            Let(value, Load(array, as_index(i), value.type)),
            If(odd, (*found, Break())),
        ))  # fmt: skip
        body: tuple[Stmt, ...] = (Store(flags, own, Literal(True, BOOL)), loop)
        positions = s.positions if s is not None else ()
        kernel = Kernel(f"finite_{r.name}", (array, flags), (), body, (), positions=positions)
        return Call(kernel, (view, View(self.flags)))


def _arrays(block: ir.Block, inputs: Iterable[ir.Ref]) -> dict[ir.Ref, None]:
    """The floating-point arrays of a program."""
    out = dict.fromkeys(inputs)
    for s in walk_statements(block):
        out.update(dict.fromkeys((*bound_refs(s), *s.outs)))
    return {r: None for r in out if r.dtype.is_floating}


def _writes_infinity(s: ir.Build | ir.Scatter) -> bool:
    values = s.values if isinstance(s, ir.Build) else (s.value,)
    return any(isinstance(n, ir.Const) and not math.isfinite(n.value) for v in values for n in walk(v))


def _differs(a: Value, b: Value) -> Binary:
    return Binary("!=", a, b, BOOL)


def _extent(d: Index) -> int:
    n = d.constant
    assert n is not None, "debug builds have numbers for all dims"
    return n
