"""Random index expressions, each as the package makes it and as the solver reads what was written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import z3

from pullback.ir.index import Cond, CondOp, Index, Var, as_index, cond, symbol
from tests.proofs.smt import Domain, relation

TIMES: Final = 50 if os.environ.get("PULLBACK_NIGHTLY") else 1


@dataclass
class Term:
    """An expression: what the package made of it, and its meaning."""

    made: Index
    meant: Any
    text: str


class Sampler:
    """Expressions over three variables, whose extents are numbers, or dims and products of them."""

    def __init__(self, seed: int, numbers: bool) -> None:
        self.random = Random(seed)
        self.domain = Domain()
        self.numbers = numbers
        self.sizes = [Term(as_index(n), z3.IntVal(n), str(n)) for n in self.random.choices(range(1, 13), k=4)]
        if not numbers:
            names = [Term(symbol(n), self.domain.dim(n), n) for n in "NM"]
            self.sizes = [*names, self.times(*names), self.times(names[0], self.number(1, 4)), self.number(2, 5)]
        extents = [self.times(*self.random.sample(self.sizes, 2)) if self.random.random() < 0.3 and numbers else
                   self.random.choice(self.sizes) for _ in range(3)]
        self.variables = [self.variable(name, e) for name, e in zip("ijk", extents, strict=True)]

    def number(self, low: int, high: int) -> Term:
        """A number."""
        n = self.random.randint(low, high)
        return Term(as_index(n), z3.IntVal(n), str(n))

    def variable(self, name: str, extent: Term) -> Term:
        """A variable of an extent."""
        v = Var(name, extent.made)
        return Term(as_index(v), self.domain.atom(v), f"{name}<{extent.text}")

    def plus(self, a: Term, b: Term) -> Term:
        """The sum."""
        return Term(a.made + b.made, a.meant + b.meant, f"{a.text} + {b.text}")

    def times(self, a: Term, b: Term) -> Term:
        """The product."""
        return Term(a.made * b.made, a.meant * b.meant, f"({a.text}) * ({b.text})")

    def divided(self, a: Term, d: Term) -> Term:
        """The quotient."""
        return Term(a.made // d.made, self.domain.divided(a.meant, d.meant)[0], f"({a.text}) // ({d.text})")

    def remainder(self, a: Term, d: Term) -> Term:
        """The remainder."""
        return Term(a.made % d.made, self.domain.divided(a.meant, d.meant)[1], f"({a.text}) % ({d.text})")

    def size(self) -> Term:
        """A number of at least 1, or a dim."""
        a = self.random.choice(self.sizes)
        return self.times(a, self.number(1, 4)) if self.random.random() < 0.3 else a

    def term(self, depth: int = 3) -> Term:
        """An expression."""
        pick = self.random.random()
        if depth == 0 or pick < 0.15:
            return self.random.choice((*self.variables, self.number(-5, 5)))
        if pick < 0.5:
            return self.plus(self.term(depth - 1), self.term(depth - 1))
        if pick < 0.7:
            factor = self.size() if self.random.random() < 0.5 else self.number(-3, 6)
            return self.times(self.term(depth - 1), factor)
        if pick < 0.85:
            return self.divided(self.term(depth - 1), self.size())
        return self.remainder(self.term(depth - 1), self.size())

    def position(self) -> Term:
        """A place in row-major order, moved by a number: the kind of index that programs have."""
        out = self.number(-4, 4) if self.random.random() < 0.4 else self.number(0, 0)
        stride = self.number(1, 1)
        for v in self.random.sample(self.variables, self.random.randint(1, 3)):
            digit = v if self.random.random() < 0.6 else self.term(1)
            out = self.plus(out, self.times(digit, stride))
            stride = self.times(stride, self.size())
        return out

    def condition(self) -> tuple[Cond | bool, Any]:
        """A condition as the package makes it, and its meaning."""
        e = self.term(2)
        op: CondOp = self.random.choice((">=", ">=", "==", "!="))
        return cond(op, e.made), relation(op, e.meant)
