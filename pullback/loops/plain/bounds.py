"""Loops whose bounds carry conditions.

    sum k < K { [n + k >= 2] ... }  -->  for (k = max(0, 2 - n); k < K; ++k)

A condition c*v + r >= 0 on a loop variable v bounds it: v >= ceil(-r / c) for c > 0, v < floor(r / -c) + 1 for c < 0;
an equation does both. A condition without a constant factor of v stays a test inside the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index, floor_divide, prove_nonnegative
from pullback.loops.program import nodes
from pullback.loops.program.nodes import For, If, Stmt
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Bound, Holds, largest, smallest


class IndexLowering(Protocol):
    """The interface of the lowering inside loops."""

    def index(self, i: Index, scope: Scope) -> Index:
        """An index in terms of a scope, with its data loaded."""

    def conditions(self, conds: Iterable[Cond], scope: Scope) -> tuple[Cond, ...]:
        """Conditions in terms of a scope, with their data loaded."""


def by_level(variables: Sequence[Var], conds: Iterable[Cond]) -> list[list[Cond]]:
    """The conditions without the variables, then those of each by the innermost they involve."""
    position = {v: k for k, v in enumerate(variables)}
    levels: list[list[Cond]] = [[] for _ in range(len(variables) + 1)]
    for c in conds:
        levels[max((position[v] for v in c.free if v in position), default=-1) + 1].append(c)
    return levels


class LoopNest:
    """Loops over variables, with conditions as bounds; `close` writes them into the enclosing scope.

    A condition belongs to the innermost of the variables that occur in it. `levels[k]` is the body of the loop
    over `vars[k]`; `bounds[k]` are its bounds.
    """

    def __init__(self, lowering: IndexLowering, scope: Scope, variables: Sequence[Var], conds: Sequence[Cond],
                 kind: nodes.Kind = "serial") -> None:
        self.outer = scope
        self.lowering = lowering
        self.kind = kind
        self.frames: list[tuple[Scope, Callable[[Scope], Stmt]]] = []  # parent, and the wrapper of a finished body
        first, *levels = by_level(variables, conds)
        self.scope = scope
        self._guard(first)
        for v, own in zip(variables, levels, strict=True):
            self._loop(v, own)

    @property
    def innermost(self) -> Scope:
        """The scope of the innermost body."""
        return self.scope

    def _guard(self, conds: Sequence[Cond]) -> None:
        if not conds:
            return
        lowered = self.lowering.conditions(conds, self.scope)
        inner = self.scope.guard(conds)
        self.frames.append((inner, lambda body, test=lowered: If(Holds(test), tuple(body.statements))))  # type: ignore[misc]
        self.scope = inner

    def _loop(self, v: Var, conds: Sequence[Cond]) -> None:
        lower, upper, rest = narrowed(self.lowering, self.scope, v, conds)
        certain = len(rest) == len(conds) and (v.extent.constant or 0) >= 1
        taken = [c for c in conds if c not in rest]
        inner = self.scope.inside(v, certain, taken)

        def wrap(body: Scope) -> Stmt:
            return For(v, lower, upper, tuple(body.statements), kind=self.kind)

        self.frames.append((inner, wrap))
        self.scope = inner
        self._guard(rest)

    def close(self) -> None:
        """Write the loops."""
        for body, wrap in reversed(self.frames):
            assert body.parent is not None
            body.parent.statements.append(wrap(body))


def narrowed(lowering: IndexLowering, scope: Scope, v: Var,
             conds: Sequence[Cond]) -> tuple[Bound, Bound, list[Cond]]:
    """The bounds of the loop over v within 0 .. extent, and the remaining conditions."""
    lowers: list[Index] = [ZERO_INDEX]
    uppers: list[Index] = [lowering.index(v.extent, scope)]
    rest: list[Cond] = []
    for c in conds:
        factor = c.index.coefficient(v)
        n = None if factor is None else factor.constant
        if not n or c.op == "!=":
            rest.append(c)
            continue
        remainder = lowering.index(c.index - n * as_index(v), scope)
        for sign, r in ((n, remainder), (-n, -remainder)) if c.op == "==" else ((n, remainder),):
            if sign > 0:
                lowers.append(floor_divide(-r + (sign - 1), as_index(sign)))
            else:
                uppers.append(floor_divide(r, as_index(-sign)) + 1)
    known = scope.known
    keep_low = [b for k, b in enumerate(lowers) if not _dominated(b, lowers[:k], lowers[k + 1:], known, -1)]
    keep_high = [b for k, b in enumerate(uppers) if not _dominated(b, uppers[:k], uppers[k + 1:], known, 1)]
    return largest(*keep_low), smallest(*keep_high), rest


def _dominated(b: Index, before: Sequence[Index], after: Sequence[Index], known: tuple[Cond, ...], sign: int) -> bool:
    """Whether another bound is at least as strict; of equal ones the first stays."""
    for other in after:
        if other is not b and prove_nonnegative((b - other) * sign, known):
            return True
    for other in before:
        if other is b or (prove_nonnegative((b - other) * sign, known)
                          and not prove_nonnegative((other - b) * sign, known)):
            return True
    return False
