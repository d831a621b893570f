"""The derivative of a statement: a linear map from changes of its operands to changes of its results.

    d outs = A d operands

    apply       the tangents of the outs from those of the operands           A x_dot
    transpose   the cotangents of the operands from those of the outs         A^T y_bar
    matrix      edges from the operands to the outs, for elimination          A

A mode is an order in which the maps of a program's statements are used. Forward mode applies them from the first
statement on, reverse mode transposes them from the last one back, mixed mode multiplies their matrices. There is one
map for each kind of statement (`ad.maps`); modes do not know the kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from pullback.ad.cotangents import Cotangents, Vjp
from pullback.ad.edges import Edges
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Var
from pullback.ir.program import statement_reads

S = TypeVar("S", bound=ir.Statement)


class Tangents(Protocol):
    """The tangents of a program's arrays in forward mode: `known` has those that are not zero."""

    known: dict[ir.Ref, ir.Ref]
    vjp: Vjp

    def of(self, r: ir.Ref, statements: list[ir.Statement]) -> ir.Ref:
        """The tangent of an array; zeros if it depends on no source."""

    def block(self, block: ir.Block, active: set[ir.Ref]) -> list[ir.Statement]:
        """The statements of a block, each followed by its tangent statements."""


class LinearMap(ABC, Generic[S]):
    """The derivative of one statement's results by the arrays of `active` that it reads."""

    def __init__(self, s: S, active: set[ir.Ref]) -> None:
        self.s = s
        self.active = active

    @abstractmethod
    def apply(self, tangents: Tangents) -> list[ir.Statement]:
        """The statement and its tangent statements; the new tangents become known."""

    @abstractmethod
    def transpose(self, cotangents: Cotangents) -> tuple[ir.Statement, ...]:
        """Add cotangents to the operands; return the statements that replace it in the primal program."""

    def matrix(self) -> Edges | None:
        """The edges from operands to results; None if only sweeps, or the steps of a loop, give them."""
        return None


def active_in(block: ir.Block, sources: set[ir.Ref]) -> set[ir.Ref]:
    """The floating arrays of a block that depend on a source; loops included, to a fixed point."""
    active = set(sources)
    for s in block.statements:
        if isinstance(s, ir.Fold | ir.While):
            inner = loop_active(s, active)
            active.update(
                o
                for k, o in enumerate(s.outs)
                if s.body.results[k] in inner or (k < len(s.states) and s.states[k] in inner)
            )
        elif any(r in active for r in statement_reads(s)):
            active.update(o for o in s.outs if o.dtype.is_floating)
    return active


def loop_active(s: ir.Fold | ir.While, outside: set[ir.Ref]) -> set[ir.Ref]:
    """The arrays active inside a loop's body, its states included."""
    states = {r for r, init in zip(s.states, s.inits, strict=True) if init in outside and r.dtype.is_floating}
    while True:
        inner = active_in(s.body, outside | states)
        more = {r for r, new in zip(s.states, s.body.results, strict=False) if new in inner and r.dtype.is_floating}
        if more <= states:
            return inner
        states |= more


def zeros(name: str, like: ir.Ref) -> ir.Build:
    """An array of zeros shaped like another."""
    variables = tuple(Var(f"i{k}", d) for k, d in enumerate(like.shape))
    return ir.Build((ir.Ref(name, like.dtype, like.shape),), variables, (expr.zero(like.dtype),))


def emit(statements: list[ir.Statement], s: ir.Build) -> ir.Ref:
    """Add a statement; return the array it defines."""
    statements.append(s)
    return s.outs[0]
