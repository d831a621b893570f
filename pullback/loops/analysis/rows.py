"""Loops over rows of arrays that they read and write, proven for all sizes.

    for n < N: for k < K: x[K n + k] = f(x[K n + k])        no iteration touches an element of another's row

An address is p q + c v + base + place, where v is the loop's variable, c the length of a row in terms of dims, and
p = c times the size of v, a plane of all rows, if there are several. Rows lie apart if each access begins at a place
>= 0 and ends before c times the loop's step, and the last row in its plane. Bounds of inner loops and tests around an
access are what is known of its place.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from pullback.ir.index import (
    Atom,
    Cond,
    Index,
    Term,
    Var,
    as_index,
    cond,
    divide_exactly,
    modulo,
    prove_nonnegative,
    some_terms,
)
from pullback.ir.traverse import Substitution
from pullback.loops.analysis.footprint import Places
from pullback.loops.program.nodes import Access, Call, For, If, LetIndex, Loop, Parallel, Stmt, accesses
from pullback.loops.program.values import Bound, Buffer, Extreme, Holds

Known = tuple[Cond, ...]
Row = tuple[Index, Index]  # base and length


def rows_apart(loop: For, buffers: Iterable[Buffer], places: Places) -> frozenset[Buffer]:
    """The buffers among these in which each iteration has rows of its own."""
    found = _Rows(loop, buffers, places)
    found.body(loop.body, (), {})
    return frozenset(found.apart)


class _Rows:
    """The accesses of a loop to some buffers; `apart` keeps those whose rows are still apart."""

    def __init__(self, loop: For, buffers: Iterable[Buffer], places: Places) -> None:
        self.loop, self.places = loop, places
        self.apart = set(buffers)
        self.rows: dict[Buffer, Row] = {}
        self.bound: set[Atom] = set()  # the index variables of the body
        known = tuple(_trips(loop, Substitution()))
        self.whole = prove_nonnegative(loop.var.extent - as_index(loop.var) - loop.step, known)

    def body(self, body: Sequence[Stmt], known: Known, values: Mapping[Var, Index]) -> None:
        """Take the accesses of statements, given conditions and values of index variables."""
        m = Substitution(variables=dict(values))
        for s in body:
            for a in accesses(s):
                self._access(a, known, m)
            match s:
                case For():
                    self.bound.add(s.var)
                    self.body(s.body, (*known, *_trips(s, m)), m.variables)
                case Loop():
                    self.body(s.body, known, m.variables)
                case If():
                    tests = [m.condition(c) for c in s.test.conds] if isinstance(s.test, Holds) else []
                    self.body(s.then, (*known, *_conditions(tests)), m.variables)
                    self.body(s.otherwise, known, m.variables)
                case LetIndex(value=Index() as value, var=Var() as v):
                    m = Substitution(variables={**m.variables, v: m.index(value)})
                case LetIndex():
                    self.bound.add(s.var)
                    if isinstance(s.value, Extreme):
                        known = (*known, *_limits(as_index(s.var), s.value, s.value.op == "min", m))
                case Call() | Parallel():
                    calls = [s] if isinstance(s, Call) else [t.call for t in s.tasks]
                    self.apart -= {self._home(a.buffer) for c in calls for a in c.arguments}
                case _:
                    pass

    def _home(self, b: Buffer) -> Buffer:
        return self.places[b].buffer if b in self.places else b

    def _access(self, a: Access, known: Known, m: Substitution) -> None:
        home = self._home(a.buffer)
        if home in self.apart and not self._inside(home, a, known, m):
            self.apart.discard(home)

    def _inside(self, home: Buffer, a: Access, known: Known, m: Substitution) -> bool:
        """Whether an access stays in the row of its iteration."""
        v, i = self.loop.var, m.index(a.offset)
        if a.buffer in self.places:
            i += self.places[a.buffer].offset
        length = i.coefficient(v)
        if length is None or length.constant == 0:
            return False
        rest = i - length * as_index(v)
        if self.whole and (plane := length * v.extent).symbols:
            rest = some_terms(tuple([t for t in rest.terms if divide_exactly(some_terms((t,)), plane) is None]))
        base, place = _split(rest, self.bound)
        if self.rows.setdefault(home, (base, length)) != (base, length):
            return False
        last = place + (a.more if isinstance(a.more, int) else m.index(a.more))
        end = length * self.loop.step
        return prove_nonnegative(place, known) and prove_nonnegative(end - 1 - last, known)


def _split(i: Index, bound: Container[Atom]) -> tuple[Index, Index]:
    """The terms of an index in outer variables alone, and the others: with inner variables, or of dims."""
    outer: list[Term] = []
    for term in i.terms:
        atoms = [a for m in term[0] for a in as_index(m).every_atom]
        if any(isinstance(a, Var) for a in atoms) and not any(a in bound for a in atoms):
            outer.append(term)
    return some_terms(tuple(outer)), some_terms(tuple([t for t in i.terms if t not in outer]))


def _conditions(tests: Iterable[Cond | bool]) -> Iterator[Cond]:
    return (c for c in tests if isinstance(c, Cond))


def _trips(s: For, m: Substitution) -> Iterator[Cond]:
    """Conditions on a loop's variable inside the loop."""
    v = as_index(s.var)
    yield from _limits(v, s.lower, False, m)
    last = 1
    if isinstance(s.lower, Index) and isinstance(s.upper, Index):
        whole = modulo(m.index(s.upper - s.lower), as_index(s.step))
        last = s.step if whole.constant == 0 else 1
    yield from _limits(v + (last - 1), s.upper, True, m, 1)


def _limits(i: Index, b: Bound, above: bool, m: Substitution, less: int = 0) -> Iterator[Cond]:
    """Conditions that an index is at most a bound minus `less`, or at least the bound."""
    args = b.args if isinstance(b, Extreme) else (b,)
    if isinstance(b, Extreme) and (b.op == "min") != above:
        return
    for a in args:
        if isinstance(a, Index):
            limit = m.index(a)
            yield from _conditions([cond(">=", limit - less - i if above else i - limit)])
