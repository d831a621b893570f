"""Buffers that statements read before writing them, which loops carry between iterations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pullback.ir.index import Index, Var
from pullback.ir.traverse import Substitution
from pullback.loops.analysis.footprint import Places
from pullback.loops.program.nodes import Call, For, If, Kernel, LetIndex, Loop, Parallel, Stmt, accesses
from pullback.loops.program.values import Buffer, Holds, View
from pullback.state import weakly_cached


def first_reads(body: Iterable[Stmt], places: Places) -> frozenset[Buffer]:
    """The buffers whose first use may be a read; `+=` counts as a read.

    Loops are examined in their first trip, where index tests are decided. A sum that begins there is not a read.
    """
    return frozenset(_Uses(places, {}).of(body, set()))


class _Uses:
    def __init__(self, places: Places, known: Mapping[Var, Index]) -> None:
        self.places = places
        self.known = dict(known)

    def _home(self, b: Buffer) -> Buffer:
        return self.places[b].buffer if b in self.places else b

    def of(self, body: Iterable[Stmt], before: set[Buffer]) -> Iterator[Buffer]:
        """The buffers read before they are written; written ones are added to `before`."""
        for s in body:
            found = accesses(s)
            reads = (self._home(a.buffer) for a in found if a.adds or not a.write)
            yield from (b for b in reads if b not in before)
            before.update(self._home(a.buffer) for a in found if a.write)
            match s:
                case For():
                    if isinstance(s.lower, Index):
                        self.known[s.var] = self._index(s.lower)
                    yield from self.of(s.body, before)
                case Loop():
                    yield from self.of(s.body, before)
                case If():
                    yield from self._branches(s, before)
                case LetIndex(var=Var() as v, value=Index() as value):
                    self.known[v] = self._index(value)
                case Call():
                    yield from self._call(s, before)
                case Parallel():
                    for t in s.tasks:
                        yield from self._call(t.call, before)
                case _:
                    pass

    def _branches(self, s: If, before: set[Buffer]) -> Iterator[Buffer]:
        m = Substitution(variables=self.known)
        tests = [m.condition(c) for c in s.test.conds] if isinstance(s.test, Holds) else [None]
        if all(t is True for t in tests):
            yield from self.of(s.then, before)
        elif any(t is False for t in tests):
            yield from self.of(s.otherwise, before)
        else:
            then, otherwise = set(before), set(before)
            yield from self.of(s.then, then)
            yield from self.of(s.otherwise, otherwise)
            before |= then & otherwise

    def _call(self, s: Call, before: set[Buffer]) -> Iterator[Buffer]:
        k = s.kernel
        homes = [self._home(a.buffer) for a in s.arguments]
        values = tuple([self._index(i) for i in s.index_values])
        form = tuple([homes.index(h) for h in homes]), values
        found = _uses_of(k).get(form)
        if found is None:
            places = {p: View(k.params[n]) for p, n in zip(k.params, form[0], strict=True)}
            known = {v: i for v, i in zip(k.indices, values, strict=True) if isinstance(v, Var)}
            writes: set[Buffer] = set()
            reads = tuple(_Uses(places, known).of(k.body, writes))
            found = _uses_of(k)[form] = reads, writes
        home = dict(zip(k.params, homes, strict=True))
        yield from (b for b in (home.get(r, r) for r in found[0]) if b not in before)
        before.update(home.get(w, w) for w in found[1])
        if any(isinstance(x, For) and x.kind == "group" for x in k.body):  # threads may write in their last trip
            before.update(home[p] for p in k.fresh)

    def _index(self, i: Index) -> Index:
        return i if i.free.isdisjoint(self.known) else Substitution(variables=self.known).index(i)


_Form = tuple[tuple[int, ...], tuple[Index, ...]]  # which parameters are in one buffer, and the values of its indices


@weakly_cached
def _uses_of(_: Kernel) -> dict[_Form, tuple[tuple[Buffer, ...], set[Buffer]]]:
    """The buffers that a kernel reads before writing, and those it writes, by call form seen so far."""
    return {}
