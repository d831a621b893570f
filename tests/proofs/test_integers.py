"""Integer expressions and tests, as builders and the pass `algebra` leave them, against bit-vectors.

Products of unknowns are asked for in 8 bits, where the solver decides them; 64 bits have products with numbers alone.
The rules do not look at the width, but for where numbers wrap.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import z3

from pullback.ir import expr, types
from pullback.ir.expr import Add, Apply, Bracket, Cast, Const, Get, Mul, Ref, Scalar, Select, Zero
from pullback.ir.index import Var, as_index, cond
from pullback.ir.types import DType
from pullback.rewrite.algebra import simplify
from tests.proofs.samples import TIMES
from tests.proofs.smt import Domain, relation

COMPARED = {"less": "<", "less_equal": "<=", "equal": "=="}


class Sampler:
    """Expressions of one integer type over three unknowns, and conditions on a variable; each with its meaning."""

    def __init__(self, seed: int, dtype: DType) -> None:
        self.random = Random(seed)
        self.dtype = dtype
        self.domain = Domain()
        self.unknowns = [(expr.get(Ref(n, dtype, ())), z3.BitVec(n, dtype.bits)) for n in "xyz"]
        self.meanings = dict(self.unknowns)
        self.variable = Var("i", 9)

    def number(self) -> tuple[Scalar, Any]:
        """A number, near 0 or near the ends."""
        n = self.random.choice((0, 1, 2, 3, -1, self.dtype.minimum, self.dtype.maximum, self.random.randint(-200, 200)))
        return expr.const(n, self.dtype), z3.BitVecVal(n, self.dtype.bits)

    def term(self, depth: int) -> tuple[Scalar, Any]:
        """An expression."""
        pick = self.random.random()
        if depth == 0 or pick < 0.15:
            return self.random.choice((*self.unknowns, *self.unknowns, self.number()))
        a, b = self.term(depth - 1), self.term(depth - 1)
        if pick < 0.5:
            return expr.add(a[0], b[0]), a[1] + b[1]
        if pick < 0.75:
            b = b if self.dtype.bits == 8 else self.number()
            return expr.mul(a[0], b[0]), a[1] * b[1]
        if pick < 0.8:
            return expr.negative(a[0]), -a[1]
        if pick < 0.9:
            test, meant = self.test()
            return expr.select(test, a[0], b[0]), z3.If(meant, a[1], b[1])
        c = cond(self.random.choice((">=", "==", "!=")), as_index(self.variable) - self.random.randint(0, 9))
        return expr.bracket((c,), a[0]), z3.If(self.domain.condition(c), a[1], z3.BitVecVal(0, self.dtype.bits))

    def test(self) -> tuple[Scalar, Any]:
        """A bool, one of a few: what is known of a test counts where it stands again."""
        (a, x), (b, y) = self.random.sample(self.unknowns[:2], 2)
        match self.random.choice(("less", "equal", "less_equal")):
            case "less":
                return expr.apply("less", a, b), _less(x, y, self.dtype)
            case "equal":
                return expr.apply("equal", a, b), x == y
            case _:
                return expr.apply("logical_not", expr.apply("less", b, a)), z3.Not(_less(y, x, self.dtype))

    def read(self, e: Scalar) -> Any:
        """The meaning of an expression, by its nodes."""
        match e:
            case Const() if e.dtype.is_bool:
                return z3.BoolVal(bool(e.value))
            case Const():
                return z3.BitVecVal(int(e.value), e.dtype.bits)
            case Zero():
                return z3.BoolVal(False) if e.dtype.is_bool else z3.BitVecVal(0, e.dtype.bits)
            case Get():
                return self.meanings[e]
            case Add():
                return sum(map(self.read, e.args[1:]), self.read(e.args[0]))
            case Mul():
                out = self.read(e.args[0])
                for a in e.args[1:]:
                    out = out * self.read(a)
                return out
            case Select():
                return z3.If(self.read(e.test), self.read(e.then), self.read(e.otherwise))
            case Bracket():
                zero = self.read(expr.zero(e.dtype))
                holds = [relation(c.op, self.domain.index(c.index)) for c in e.conds]
                return z3.If(z3.And(holds), self.read(e.arg), zero)
            case Apply() if e.primitive.name == "less":
                return _less(self.read(e.args[0]), self.read(e.args[1]), e.args[0].dtype)
            case Apply() if e.primitive.name == "equal":
                return self.read(e.args[0]) == self.read(e.args[1])
            case Apply() if e.primitive.name == "logical_not":
                return z3.Not(self.read(e.args[0]))
            case Cast():
                return _converted(self.read(e.arg), e.arg.dtype, e.dtype)
        raise AssertionError(e)


def _less(x: Any, y: Any, dtype: DType) -> Any:
    return x < y if dtype.kind == "signed" else z3.ULT(x, y)


def _converted(x: Any, old: DType, new: DType) -> Any:
    if new.bits <= old.bits:
        return z3.Extract(new.bits - 1, 0, x)
    return z3.SignExt(new.bits - old.bits, x) if old.kind == "signed" else z3.ZeroExt(new.bits - old.bits, x)


def _check(s: Sampler, left: Any, right: Any, what: object) -> bool:
    solver = z3.Solver()
    solver.set("timeout", 300)
    solver.add(*s.domain.facts, left != right)
    answer = solver.check()
    assert answer != z3.sat, (what, solver.model())
    return bool(answer == z3.unsat)


@pytest.mark.parametrize("dtype", [types.u8, types.i8, types.i64, types.u64], ids=str)
def test_integer_expressions_are_what_was_written(dtype: DType) -> None:
    proven = 0
    count = (6 if dtype.bits == 8 else 12) * TIMES
    for seed in range(count):
        s = Sampler(seed, dtype)
        made, meant = s.term(3 if dtype.bits == 8 else 4)
        simplified = simplify(made)
        both = [_check(s, s.read(e), meant, (seed, e)) for e in (made, simplified)]
        proven += all(both)
    print(f"{dtype}: {proven} of {count} decided")
    assert proven >= 0.8 * count


def test_conversions_of_integers_are_what_was_written() -> None:
    """Casts of casts, which builders join, through every two widths."""
    every = [t for t in types.DTYPES if t.is_integer]
    for first in every:
        x, meant = expr.get(Ref("x", first, ())), z3.BitVec("x", first.bits)
        for second in every:
            for third in every:
                s = Sampler(0, first)
                s.meanings[x] = meant
                made = expr.cast(expr.cast(x, second), third)
                assert _check(s, s.read(made), _converted(_converted(meant, first, second), second, third), made)
