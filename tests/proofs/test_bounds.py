"""The integer arithmetic of loops: bounds, steps and chunks meet each element that they are for, and no other.

Loops are read as what they say: a variable is its lower bound plus a number of steps, below its upper bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import z3

from pullback.ir.index import Cond, Index, Var, as_index, symbol
from pullback.loops.analysis.intervals import interval
from pullback.loops.plain.bounds import narrowed
from pullback.loops.program.cover import cover, halves, overlap
from pullback.loops.program.nodes import Comment, For, If, LetIndex, Stmt
from pullback.loops.program.values import Bound, Holds
from pullback.loops.threads.chunks import open_cut
from tests.proofs.samples import TIMES, Sampler
from tests.proofs.smt import Domain, check

CUTS = [(3, 0, 1), (2, 0, 4)] if TIMES == 1 else list(product((1, 2, 5), (0, 1, 3, 5), (1, 4)))
NUMBER, OPEN = as_index(23), symbol("N")


@dataclass
class Path:
    """A way to a leaf: the steps of the loops around it, what holds there, and what is claimed of variables there."""

    leaf: str
    variable: Any  # of the innermost loop
    steps: tuple[Any, ...]
    holds: list[Any]
    claims: list[Any]


def paths(body: Sequence[Stmt], d: Domain, steps: tuple[Any, ...] = (), holds: tuple[Any, ...] = (),
          claims: tuple[Any, ...] = (), variable: Any = None) -> Iterator[Path]:
    """Every way to a comment."""
    for s in body:
        match s:
            case LetIndex(Var() as v, value):
                d.atoms[v] = bound(value, d)  # type: ignore[arg-type]
                claims = (*claims, d.atoms[v] < d.index(v.extent), d.atoms[v] >= 0)
            case For():
                k = z3.FreshInt("k")
                v = d.atoms[s.var] = bound(s.lower, d) + k * s.step
                inside = (*claims, v >= 0, v < d.index(s.var.extent))
                yield from paths(s.body, d, (*steps, k), (*holds, k >= 0, v < bound(s.upper, d)), inside, v)
            case If(Holds() as test, then, ()):
                yield from paths(then, d, steps, (*holds, *d.conditions(test.conds)), claims, variable)
            case Comment():
                yield Path(s.text, variable, steps, list(holds), list(claims))
            case _:
                raise AssertionError(s)


def bound(b: Bound | Any, d: Domain) -> Any:
    """A bound as a term."""
    if isinstance(b, Index):
        return d.index(b)
    out, *rest = (bound(a, d) for a in b.args)
    for x in rest:
        out = z3.If((x > out) if b.op == "max" else (x < out), x, out)
    return out


class Pieces:
    """Statements for so many elements from an index on, by the number of the comment."""

    def __init__(self) -> None:
        self.made: dict[str, tuple[Index, int]] = {}

    def __call__(self, start: Index, count: int) -> list[Stmt]:
        """The statements, one."""
        name = str(len(self.made))
        self.made[name] = start, count
        return [Comment(name)]


def _covers(d: Domain, extent: Index, body: list[Stmt], pieces: Pieces, once: bool) -> None:
    """Every element is in a piece, each piece in the range; and no element is in two, if it is to be met once."""
    x, n = z3.Int("x"), d.index(extent)
    spans, claims = [], []
    for p in paths(body, d):
        start, count = pieces.made[p.leaf]
        spans.append((p, d.index(start), count))
    reached = []
    for p, start, count in spans:
        claims.append(z3.Implies(z3.And(p.holds), z3.And(start >= 0, start + count <= n, *p.claims)))
        first = z3.substitute(start if once else p.variable, *((k, z3.IntVal(0)) for k in p.steps))
        meets = [(k, (x - first) / count) for k in p.steps]  # the step that would meet x
        reached.append(z3.substitute(z3.And(*p.holds, start <= x, x < start + count), *meets))
    check(d, z3.And(claims), (), "ranges", 3000)
    check(d, z3.Or(reached), (x >= 0, x < n), "all", 3000)
    if once:
        for p, start, count in spans:
            for q, other, more in spans:
                again = [(k, z3.FreshInt("k")) for k in q.steps]
                there = z3.substitute(z3.And(*q.holds, other <= x, x < other + more), *again)
                same = z3.And([k == e for k, e in again]) if p is q else z3.BoolVal(False)
                check(d, same, (*p.holds, start <= x, x < start + count, there), "once", 3000)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("extent", [NUMBER, OPEN], ids=str)
def test_steps_of_several_elements_cover_an_extent_once(extent: Index, counted: bool) -> None:
    for lanes in (4,) if TIMES == 1 else (2, 4, 8):
        pieces, d = Pieces(), Domain()
        _covers(d, extent, cover(Var("i", extent), halves(lanes), pieces, counted=counted), pieces, once=True)


@pytest.mark.parametrize("steps", [(8, 4), (4, 4), (8, 2)], ids=str)
@pytest.mark.parametrize("extent", [NUMBER, OPEN + 7], ids=str)
def test_overlapping_steps_cover_an_extent(extent: Index, steps: tuple[int, int]) -> None:
    pieces, d = Pieces(), Domain()
    _covers(d, extent, overlap(Var("i", extent), steps, pieces), pieces, once=False)


@pytest.mark.parametrize(("chunks", "nested", "step"), CUTS)
def test_chunks_share_the_steps_of_loops(chunks: int, nested: int, step: int) -> None:
    """Every step is in one chunk, that of its number, and the chunks have no other steps."""
    upper, d = symbol("N"), Domain()
    i, j = Var("i", upper), Var("j", max(nested, 1))
    leaf: tuple[Stmt, ...] = (Comment("leaf"),)
    inner = For(j, as_index(0), as_index(nested), leaf)
    nest = [For(i, as_index(0), upper, (inner,) if nested else leaf, step), *([inner] if nested else [])]
    cut = open_cut(nest, 8)
    d.atoms[cut.chunk.extent.single] = z3.IntVal(chunks)  # type: ignore[index]
    chunk = d.atoms[cut.chunk] = z3.Int("chunk")
    path, = paths(cut.body, d)
    n, row, column = max(nested, 1), d.atoms[i], d.atoms[j] if nested else z3.IntVal(0)
    number = row / step * n + column
    steps = (d.index(upper) + step - 1) / step * n
    size = (steps + chunks - 1) / chunks
    given = (chunk >= 0, chunk < chunks)
    there = z3.And(row >= 0, row < d.index(upper), row % step == 0, column >= 0, column < n, number / size == chunk)
    check(d, there, (*given, *path.holds), "no other", 3000)
    x, y = z3.Ints("x y")
    wanted = (x >= 0, x < d.index(upper), x % step == 0, y >= 0, y < n)
    where = z3.substitute(z3.And(path.holds), (chunk, (x / step * n + y) / size))
    at = z3.substitute(z3.And(row == x, column == y), (chunk, (x / step * n + y) / size))
    check(d, z3.Exists(list(path.steps), z3.And(at, where)), wanted, "every", 3000)


class _Plain:
    """A lowering that leaves indices as they are, in a scope in which nothing is known."""

    known = ()

    def index(self, i: Index, scope: object) -> Index:
        """The index."""
        return i


@pytest.mark.parametrize("numbers", [True, False], ids=["numbers", "dims"])
def test_bounds_of_a_loop_are_its_conditions(numbers: bool) -> None:
    for seed in range((20 if numbers else 3) * TIMES):
        s = Sampler(seed, numbers)
        drawn = [s.condition() for _ in range(s.random.randint(1, 3))]
        conds = [(made, meant) for made, meant in drawn if isinstance(made, Cond)]
        v = s.variables[0].made.single
        assert isinstance(v, Var)
        lower, upper, rest = narrowed(_Plain(), _Plain(), v, [c for c, _ in conds])  # type: ignore[arg-type]
        at, low, high = s.domain.atom(v), bound(lower, s.domain), bound(upper, s.domain)
        inside = z3.And(low <= at, at < high, *s.domain.conditions(rest))
        check(s.domain, inside == z3.And([meant for _, meant in conds]), what=(seed, conds, lower, upper))
        x = z3.Int("any")
        check(s.domain, z3.And(x >= 0, x < s.domain.index(v.extent)), (x >= low, x < high), (seed, lower, upper))


def test_intervals_hold_all_values() -> None:
    for seed in range(25 * TIMES):
        s = Sampler(seed, True)
        e = s.term() if seed % 2 else s.position()
        found = interval(e.made, {})
        if found is not None:
            check(s.domain, z3.And(e.meant >= found[0], e.meant <= found[1]), what=(seed, e.text, found))
