"""Launches that may follow a failed check, and the indices that are then undefined.

A thread leaves at a failed check, and later launches still run. Elements that they read may be missing or out of
range. So threads that would use elements as indices test for a failed check first.
"""

from __future__ import annotations

from pullback.ir.index import Data, Index, Var
from pullback.loops.program import nodes
from pullback.loops.program.nodes import Call, Check, For, If, LetIndex, Loop, Stmt
from pullback.loops.program.values import Extreme, bound_indices


def has_checks(s: Stmt) -> bool:
    """Whether there is a check in a statement."""
    return any(isinstance(x, Check) for x in nodes.walk((s,)))


def after_checks(body: tuple[Stmt, ...]) -> frozenset[For]:
    """The group loops that may run after a failed check of another launch."""
    order = _in_order(body)
    first = next((k for k, g in enumerate(order) if has_checks(g)), len(order))
    return frozenset(order[first + 1 :])


def _in_order(body: tuple[Stmt, ...]) -> list[For]:
    """The group loops in order, those inside a loop twice."""
    out: list[For] = []
    for s in body:
        if isinstance(s, Call):
            out += (g for g in s.kernel.body if isinstance(g, For))
        elif isinstance(s, For | Loop):
            out += 2 * _in_order(s.body)
        elif isinstance(s, If):
            out += _in_order((*s.then, *s.otherwise))
    return out


def variables_read(body: tuple[Stmt, ...]) -> frozenset[Var]:
    """The index variables of statements whose values depend on elements."""
    out: frozenset[Var] = frozenset()
    for s in nodes.walk(body):
        if isinstance(s, LetIndex | For) and isinstance(s.var, Var):
            values = (s.value,) if isinstance(s, LetIndex) else (s.lower, s.upper)
            if not all(isinstance(b, Index | Extreme) and not any(is_read(i, out) for i in bound_indices(b))
                       for b in values):  # fmt: skip
                out |= {s.var}
    return out


def is_read(i: Index, read: frozenset[Var]) -> bool:
    """Whether an index depends on elements, through the variables of `variables_read` or by itself."""
    return any(isinstance(a, Data) or a in read for a in i.every_atom)


def uses_elements(s: Stmt, read: frozenset[Var]) -> bool:
    """Whether an index in a statement depends on elements."""
    return any(is_read(i, read) for x in nodes.walk((s,)) for i in nodes.statement_indices(x))
