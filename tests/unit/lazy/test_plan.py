"""Plans: what is collected, and where it is cut, on nodes of made-up operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pullback.ir.types import f64
from pullback.lazy import plan
from pullback.lazy.node import Array, leaf
from pullback.lazy.operation import Application, build
from pullback.lazy.plan import BLOCKING, HEAVY
from pullback.lazy.running import _waves
from pullback.lazy.types import array_type
from pullback.tracing.tree import LEAF, Structure

NUMBER = array_type(f64, ())
X = leaf(np.array(1.0))


class Python(Application):
    """An operation that runs Python."""

    foreign = True


def operation(work: float = 1.0, rank: int = 0, results: int = 1, kind: Any = Application) -> Any:
    several = Structure("tuple", None, tuple(range(results)), (LEAF,) * results)
    made = kind("made up", None, (), (NUMBER,) * results, LEAF if results == 1 else several, work)
    made.rank = rank
    return made


def node(*operands: Array, of: Any = None) -> Any:
    return build(of or operation(), operands)


def names(chunks: list[list[Array]], known: dict[str, Any]) -> list[str]:
    """Chunks as text, a letter for each node."""
    found = {x: n for n, x in known.items()}
    return ["".join(found.get(x, "?") for x in chunk) for chunk in chunks]


@pytest.fixture(autouse=True)
def nothing_has_come_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_SEEN", set())


def test_what_is_collected_is_in_the_order_of_building() -> None:
    a = node(X)
    b = node(a)
    c = node(a)
    other = node(a)
    d = node(c, b)
    done = node(d)
    done.value = np.array(3.0)
    e = node(done, d)
    known = {"a": a, "b": b, "c": c, "o": other, "d": d, "e": e}
    assert names([plan._collected([e])], known) == ["abcde"]
    assert names([plan._collected([b, e, b])], known) == ["abcde"]
    assert names([plan._collected([other])], known) == ["ao"]
    assert plan._collected([X, done]) == []
    assert plan.planned([X], 2) == []


def test_results_that_are_held_are_collected_together() -> None:
    first, second, third = node(X, of=operation(results=3))
    both = first.operands[0]
    known = {"1": first, "2": second, "3": third, "*": both}
    assert names([plan._collected([third])], known) == ["*123"]
    del second
    known.pop("2")
    assert names([plan._collected([first])], known) == ["*13"]


def test_little_work_is_one_chunk_and_much_is_cut_where_there_are_threads() -> None:
    half = operation(HEAVY)
    a, b = node(X, of=half), node(X, of=half)
    c = node(a, b, of=operation(0.0))
    known = {"a": a, "b": b, "c": c}
    assert names(plan.planned([c], 1), known) == ["abc"]
    assert names(plan.planned([c], 2), known) == ["a", "b", "c"]
    assert names(plan.planned([a], 2), known) == ["a"]
    little = operation(HEAVY * 0.99)
    a, b = node(X, of=little), node(X, of=little)
    c = node(a, b, of=operation(0.0))
    assert names(plan.planned([c], 2), {"a": a, "b": b, "c": c}) == ["abc"]


def test_levels_by_operations_in_python() -> None:
    """All that can run before the first ones is together; items stay with theirs."""
    slow = operation(BLOCKING, kind=Python)
    a = node(X)
    p = node(a, of=slow)
    q = node(X, of=slow)
    b = node(a)
    c = node(p, b)
    r = node(c, of=slow)
    one, two = node(q, of=operation(BLOCKING, results=2, kind=Python))
    d = node(r, two)
    known = {"a": a, "p": p, "q": q, "b": b, "c": c, "r": r, "*": one.operands[0], "1": one, "2": two, "d": d}
    levels = plan._levels(plan._collected([d, one]))
    assert names(levels, known) == ["ab", "p", "q", "c", "r", "*12", "d"]
    for threads in (1, 2):
        assert names(plan.planned([d, one], threads), known) == ["ab", "p", "q", "c", "r", "*12", "d"]
    assert _waves(levels) == [[0, 2], [1, 5], [3], [4], [6]]


def test_regions_are_heavy_and_have_one_way_out() -> None:
    light, heavy = operation(1.0), operation(HEAVY)

    def drawn(shared: bool) -> tuple[list[Array], dict[str, Any]]:
        a = node(X, of=heavy)
        b = node(a, of=light)
        c = node(a if shared else X, of=heavy)
        d = node(c, of=light)
        e = node(b, d, of=light)
        f = node(e, of=light)
        return [a, b, c, d, e, f], dict(zip("abcdef", (a, b, c, d, e, f), strict=True))

    nodes, known = drawn(shared=False)
    assert names(plan._regions(nodes), known) == ["ab", "cd", "ef"]
    nodes, known = drawn(shared=True)  # b is light without a, which both read
    assert names(plan._regions(nodes), known) == ["abcdef"]
    a, b = node(X, of=operation(2 * HEAVY)), node(X, of=operation(HEAVY - 1))
    c = node(a, b, of=light)
    assert names(plan._regions([a, b, c]), {"a": a, "b": b, "c": c}) == ["abc"]  # one of them is light
    wide = node(X, of=operation(3 * HEAVY, results=2))
    of_both = [wide[0].operands[0], *wide]
    a, b = node(wide[0], of=heavy), node(wide[1], of=heavy)
    c = node(a, b)
    assert len(plan._regions([*of_both, a, b, c])) == 1  # results of one operation stay together
    blocking = [node(X, of=operation(BLOCKING)), node(X, of=heavy), node(X, of=heavy)]
    assert len(plan._regions([*blocking, node(blocking[1], blocking[2])])) == 1


def test_a_node_that_two_regions_read_is_a_region_of_its_own() -> None:
    heavy = operation(HEAVY)
    shared = node(X, of=heavy)
    a, b = node(shared, of=heavy), node(shared, of=heavy)
    c = node(a, b)
    known = {"s": shared, "a": a, "b": b, "c": c}
    assert names(plan._regions([shared, a, b, c]), known) == ["s", "a", "b", "c"]


def chain(ranks: list[int], of: dict[int, Any]) -> list[Array]:
    """Nodes one above the other, of operations by their ranks."""
    nodes: list[Array] = []
    for rank in ranks:
        if rank not in of:
            of[rank] = operation(rank=rank)
        nodes.append(node(nodes[-1] if nodes else X, of=of[rank]))
    return nodes


def shape(chunks: list[list[Array]]) -> list[list[int]]:
    return [[x.application.rank for x in chunk] for chunk in chunks]


def test_units_end_after_an_operation_that_comes_about_once() -> None:
    ranks = [5, 9, 7, 7] * 6
    for _ in range(2):
        assert shape(plan._units(chain(ranks, {}))) == [[5], *[[9, 7, 7, 5]] * 5, [9, 7, 7]]
    assert len(plan._units(chain(list(range(30)), {}))) == 1  # nothing comes again
    assert len(plan._units(chain([1, 2] * 12, {}))) == 1  # each is half of all: no unit
    assert len(plan._units(chain([1, 2, 3] * 8, {}))) == 8 + 1  # a third at most
    rare = [1, *range(2, 2 + plan.UNIT - 1)]
    assert [len(u) for u in plan._units(chain(rare * 2, {}))] == [1, 20, 19]  # once in 20
    assert len(plan._units(chain([1, *range(2, 23)], {}))) == 1


def test_items_stay_with_their_operation() -> None:
    pair = operation(rank=1, results=2)
    nodes: list[Array] = []
    below = X
    for _ in range(8):
        one, two = node(below, of=pair)
        below = node(one, two, of=operation(rank=2))
        nodes += [one.operands[0], one, two, below]
    for unit in plan._units(nodes):
        assert unit[0].application.item < 0


def test_a_long_chunk_is_one_piece_when_it_comes_again() -> None:
    of: dict[int, Any] = {}
    ranks = [5, 9, 7, 7] * 8
    short = chain(ranks[: plan.SHORTEST], of)
    assert plan._parts(short) == [short]
    assert len(plan._parts(chain(ranks, of))) == 9
    again = chain(ranks, of)
    assert plan._parts(again) == [again]
    other = chain([*ranks[:-1], 9], of)
    assert len(plan._parts(other)) == 9
    slow = chain([1], {1: operation(BLOCKING, kind=Python)})
    assert plan._parts(slow) == [slow]


def test_what_has_come_before_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MOST_SEEN", 2)
    of: dict[int, Any] = {}
    for ranks in ([1, 2] * 13, [1, 3] * 13, [1, 2] * 13, [1, 4] * 13):
        plan._parts(chain(ranks, of))
    assert len(plan._SEEN) == 1


def test_loops_of_all_lengths_are_cut_alike() -> None:
    ranks = [5, 9, 7, 7]
    pieces = set()
    for rounds in (40, 55, 70, 99):
        nodes = chain(ranks * rounds, {})
        chunks = plan._cut(nodes)
        assert [x for chunk in chunks for x in chunk] == nodes
        assert max(map(len, chunks)) <= plan.LONGEST
        pieces |= {tuple(s) for s in shape(chunks)[:-1]}
        assert all(len(chunk) >= plan.ROUNDS for chunk in chunks[:-1])
    assert len(pieces) == 2  # the first, which begins with part of a round, and all others
    whole = chain(ranks * 32, {})
    assert plan._cut(whole) == [whole]
    assert len(plan._cut(chain([*ranks * 32, 5], {}))) > 1


def test_nodes_without_rounds_are_cut_by_the_operations_before() -> None:
    r = np.random.default_rng(0)
    ranks = [int(k) for k in r.integers(0, 2**32, 700)]
    of: dict[int, Any] = {}
    nodes = chain(ranks, of)
    chunks = plan._cut_anywhere(nodes)
    sizes = [len(c) for c in chunks]
    assert [x for chunk in chunks for x in chunk] == nodes
    assert max(sizes) <= plan.LONGEST and min(sizes[:-1]) >= plan.SHORTEST and len(sizes) > 8
    later = plan._cut_anywhere(chain(ranks[37:], of))
    assert shape(later)[-5:] == shape(chunks)[-5:]  # whatever comes before
    same = plan._cut_anywhere(chain([3] * 300, {}))  # no operation to cut at: as long as may be
    assert [len(c) for c in same] == [128, 128, 44]
    few = chain(ranks[:128], of)
    assert plan._cut_anywhere(few) == [few]


def test_waves_run_after_what_they_read() -> None:
    a, b = node(X), node(X)
    c = node(a)
    d = node(c, b)
    assert _waves([[a], [b], [c], [d]]) == [[0, 1], [2], [3]]
    assert _waves([[a, b], [c, d]]) == [[0], [1]]
    assert _waves([[a], [c], [b], [d]]) == [[0, 2], [1], [3]]
