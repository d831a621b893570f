"""Conditions on indices."""

from __future__ import annotations

from math import gcd
from typing import Final, Literal

from pullback.ir.index.polynomial import Index, Key, Var, as_index, polynomial
from pullback.ir.index.proofs import interval, prove_nonnegative
from pullback.ir.intern import Interned, intern

CondOp = Literal[">=", "==", "!="]
_NEGATED: Final[dict[str, CondOp]] = {"==": "!=", "!=": "=="}


class Cond(Interned):
    """`index op 0`, normalised by the greatest common divisor of its coefficients."""

    __slots__ = ("free", "index", "key", "op")
    _fields = ("op", "index")
    op: CondOp
    index: Index
    key: Key
    free: frozenset[Var]

    def _prepare(self) -> None:
        self.key = (self.op, self.index.key)
        self.free = self.index.free

    def negate(self) -> Cond | bool:
        """The condition that holds exactly where this one fails."""
        if self.op == ">=":
            return cond(">=", -self.index - 1)
        return cond(_NEGATED[self.op], self.index)

    def __repr__(self) -> str:
        left = polynomial({m: c for m, c in self.index.terms if c > 0})
        right = polynomial({m: -c for m, c in self.index.terms if c < 0})
        return f"{left} {self.op} {right}"


def cond(op: CondOp, index: Index | int) -> Cond | bool:
    """The condition `index op 0`: a Cond, or a bool where ranges alone decide it."""
    index = as_index(index)
    divisor = 0
    for m, c in index.terms:
        divisor = gcd(divisor, c) if m else divisor
    offset = index.offset
    if divisor > 1:
        if offset % divisor and op != ">=":
            return op == "!="
        index = intern(Index, tuple((m, c // divisor) for m, c in index.terms if m)) + offset // divisor
    value = index.constant
    if value is not None:
        return {">=": value >= 0, "==": value == 0, "!=": value != 0}[op]
    ends = interval(index)
    if ends is not None:
        if ends[0] >= (0 if op == ">=" else 1):
            return op != "=="
        if ends[1] < 0:
            return op == "!="
    elif prove_nonnegative(index if op == ">=" else index - 1):
        return op != "=="
    elif prove_nonnegative(-index - 1):
        return op == "!="
    if op != ">=" and index.terms[-1][1] < 0:
        index = -index
    return intern(Cond, op, index)
