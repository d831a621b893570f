"""Small decisions of products: blocks, runs of memory, updates in place, and the sizes for which panels pay."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pullback.ir.index import DimSymbol, Index, Var, as_index
from pullback.ir.parser import parse_program
from pullback.ir.program import Build
from pullback.ir.traverse import specialize
from pullback.ir.types import f64
from pullback.loops.analysis.joined import elements
from pullback.loops.plain.builder import Work, flat_position
from pullback.loops.product import blocking
from pullback.loops.product.blocking import (
    FlatAxis,
    MemoryLoop,
    cut,
    form,
    in_place_runs,
    is_run,
    runs,
    tiles,
    whole_levels,
)
from pullback.loops.product.contraction import Operand
from pullback.loops.product.packed import _apart, _few, _holds_sums, _room, _update, _work, products
from pullback.loops.product.packing import Panels, blocks, over_panels, pieces
from pullback.loops.product.residues import Part
from pullback.loops.program.nodes import Comment, For, LetIndex, Stmt, walk
from pullback.loops.program.values import Buffer, View
from pullback.machine import AVX2, GENERIC, SCALAR, Machine

N = DimSymbol("N")


def variables(*extents: int | DimSymbol) -> tuple[Var, ...]:
    return tuple(Var("ijkl"[n], as_index(e)) for n, e in enumerate(extents))


# Axes and their blocks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("extents", "target", "multiple", "found"), [
    # the extents; elements at most, and what blocks should be a multiple of; outer, cut by so many, inner
    ((100,), 30, 1, (0, 0, 25, 1)), ((100,), 30, 8, (0, 0, 32, 1)), ((100,), 100, 8, (0, 0, 100, 1)),
    ((100,), 99, 8, (0, 0, 56, 1)), ((5,), 2, 8, (0, 0, 5, 1)), ((7,), 1, 1, (0, 0, 1, 1)),
    ((4, 8), 8, 1, (0, 0, 1, 8)), ((4, 8), 7, 1, (1, 1, 4, 1)), ((4, 8), 9, 1, (0, 0, 1, 8)),
    ((4, 8), 16, 1, (0, 0, 2, 8)), ((4, 8), 24, 4, (0, 0, 2, 8)), ((4, 8), 32, 4, (0, 0, 4, 8)),
    ((3, 4, 8), 9, 1, (1, 1, 1, 8)), ((3, 4, 8), 5, 1, (2, 2, 4, 1)), ((3, 4, 8), 5, 3, (2, 2, 6, 1)),
    ((3, 4, 8), 40, 1, (0, 0, 1, 32)),
    ((3, 1, 1), 1, 1, (0, 0, 1, 1)),
])  # fmt: skip
def test_axes_are_cut_into_equal_blocks(extents: tuple[int, ...], target: int, multiple: int, found: object) -> None:
    vs = variables(*extents)
    g = cut(vs, target, multiple)
    assert (len(g.outer), vs.index(g.cut), g.chunk, g.run) == found
    assert (g.variables, g.most, g.block) == (vs, 0, g.chunk * g.run)
    assert [(v, n.constant) for v, n in g.levels] == [(g.cut, g.chunk), *((v, v.extent.constant) for v in g.inner)]


def test_axes_of_open_sizes_are_cut_when_they_are_known() -> None:
    vs = variables(4, N, 8)
    g = cut(vs, 30, 8)
    assert (g.outer, g.cut, g.chunk, g.inner, g.most, g.block) == ((), vs[0], 1, vs[1:], 32, 32)
    assert g.levels == whole_levels(vs)


@pytest.mark.parametrize(("extents", "steps", "found"), [
    # trips, step in memory and step along the axis, outermost first
    ((3, 4), (4, 1), [(12, 1, 1)]), ((3, 4), (5, 1), [(3, 5, 4), (4, 1, 1)]), ((3, 4), (8, 2), [(12, 2, 1)]),
    ((3, 4), (1, 3), [(3, 1, 4), (4, 3, 1)]), ((2, 3, 4), (12, 4, 1), [(24, 1, 1)]),
    ((2, 3, 4), (20, 4, 1), [(2, 20, 12), (12, 1, 1)]), ((2, 3, 4), (15, 5, 1), [(6, 5, 4), (4, 1, 1)]),
    ((2, 1, 4), (4, 9, 1), [(8, 1, 1)]), ((1, 1), (3, 5), []), ((3, 1), (5, 7), [(3, 5, 1)]),
    ((3, 4), (0, 0), [(12, 0, 1)]),
])  # fmt: skip
def test_levels_that_memory_sees_as_one(extents: tuple[int, ...], steps: tuple[int, ...], found: list[object]) -> None:
    vs = variables(*extents)
    address = sum((as_index(v) * s for v, s in zip(vs, steps, strict=True)), start=as_index(7))
    made = runs(whole_levels(vs), address)
    assert [(r.trips.constant, r.step.constant, r.weight.constant) for r in made] == found
    assert [(r.length, r.distance) for r in made] == [(t, s) for t, s, _ in found]  # type: ignore[misc, attr-defined]


def loop(trips: int | DimSymbol, step: int) -> MemoryLoop:
    return MemoryLoop(as_index(trips), as_index(step), as_index(1))


@pytest.mark.parametrize(("across", "along", "found"), [
    ([loop(9, 1)], [loop(9, 1)], "rows"), ([loop(9, 1)], [], "rows"), ([], [loop(8, 1)], "turned"),
    ([loop(9, 2)], [loop(8, 1)], "turned"), ([loop(9, 2)], [loop(7, 1)], "lines"),
    ([loop(3, 2)], [loop(7, 1)], "elements"),
    ([loop(4, 2)], [loop(9, 2)], "lines"), ([loop(9, 9), loop(3, 1)], [loop(9, 5)], "elements"),
    ([loop(9, 9), loop(4, 1)], [loop(9, 5)], "lines"), ([loop(9, 9), loop(4, 1)], [loop(9, 5), loop(8, 1)], "turned"),
    ([], [loop(7, 1)], "elements"), ([], [], "elements"), ([loop(N, 2)], [loop(3, 3)], "lines"),
])  # fmt: skip
def test_how_elements_are_copied(across: list[MemoryLoop], along: list[MemoryLoop], found: str) -> None:
    assert form(across, along) == found


def test_steps_that_are_neighbors() -> None:
    assert is_run([]) and is_run([loop(9, 1)])
    assert not is_run([loop(9, 2)]) and not is_run([loop(3, 9), loop(9, 1)])


def test_rows_that_lie_at_one_distance() -> None:
    vs = variables(3, 4, 5)
    a = Buffer("a", f64, (), "parameter", as_index(100))
    rows, depth = FlatAxis((), vs[0], 3, (vs[1],)), FlatAxis((), vs[2], 5, ())
    i, j, k = map(as_index, vs)
    regular = in_place_runs(Operand(None, (a, i * 40 + j * 10 + k)), rows, depth)  # type: ignore[arg-type]
    assert regular is not None and regular[0] is not None
    assert (regular[0].distance, regular[0].length, regular[1][0].distance) == (10, 12, 1)
    assert in_place_runs(Operand(None, (a, i * 41 + j * 10 + k)), rows, depth) is None  # type: ignore[arg-type]
    assert in_place_runs(Operand(None, None), rows, depth) is None  # type: ignore[arg-type]
    alone = in_place_runs(Operand(None, (a, k)), FlatAxis((), vs[0], 1, ()), depth)  # type: ignore[arg-type]
    assert alone is not None and alone[0] is None


@pytest.mark.parametrize(("machine", "element"), [(AVX2, 4), (AVX2, 8), (GENERIC, 4)])
def test_tiles_leave_room_in_the_registers(machine: Machine, element: int) -> None:
    found = tiles(machine, element, 100)
    assert {t.rows * t.vectors + t.vectors + 1 <= machine.vector_registers for t in found} == {True}
    assert (4, 3, machine.lanes(element)) in {(t.rows, t.vectors, t.lanes) for t in found}
    assert min(t.rows * t.vectors for t in found) >= 8 and min(t.rows for t in found) >= 2
    assert {t.vectors for t in found} == {1, 2, 3, 4} and max(t.rows for t in found) == 14
    assert all(t.columns == t.vectors * t.lanes for t in found)


# Panels and blocks as loops ---------------------------------------------------------------------------------------


def taken(body: Sequence[Stmt]) -> list[str]:
    return [s.text if isinstance(s, Comment) else type(s).__name__ for s in walk(tuple(body))]


@pytest.mark.parametrize(("count", "found"), [
    (1, ["0+1"]), (7, ["0+4", "4+2", "6+1"]), (8, ["0+4", "4+4"]), (128, [f"{k}+4" for k in range(0, 128, 4)]),
    (129, ["For", "w+4", "128+1"]), (131, ["For", "w+4", "128+2", "130+1"]),
])  # fmt: skip
def test_pieces_are_vectors_then_narrower_ones(count: int, found: list[str]) -> None:
    assert taken(pieces(as_index(count), 4, lambda at, n: [Comment(f"{at}+{n}")])) == found


def test_pieces_of_an_open_count() -> None:
    assert taken(pieces(as_index(N), 4, lambda at, n: [Comment(f"{n}")])) == ["For", "4", "For", "1"]


@pytest.mark.parametrize(("count", "width", "lanes", "full", "last", "used"), [
    (10, 4, 1, 2, 2, 2), (10, 4, 4, 2, 4, 2), (8, 4, 4, 2, 0, 0), (3, 8, 2, 0, 4, 3), (9, 8, 4, 1, 4, 1),
    (9, 8, 1, 1, 1, 1),
])  # fmt: skip
def test_panels(count: int, width: int, lanes: int, full: int, last: int, used: int) -> None:
    p = Panels.of(count, width, lanes)
    assert (p.width, p.full.constant, p.last, p.used.constant, p.is_open) == (width, full, last, used, False)
    assert p.packed.constant == full * width + last
    made = over_panels(p, "panel", lambda first, w, u: [Comment(f"{first} {w} {u}")])
    inside = ["For", f"panel {width} {width}"] if full > 1 else [f"0 {width} {width}"] * full
    assert taken(made) == [*inside, *([f"{full * width} {last} {used}"] if last else [])]
    for s in made:
        if isinstance(s, For):
            assert (s.upper, s.step, s.independent) == (as_index(full * width), width, True)


def test_open_panels() -> None:
    """The last is as wide as the others, and is left out where none of it is in use."""
    p = Panels.of(as_index(N), 4, 2)
    assert (p.last, p.is_open) == (4, True)
    made = over_panels(p, "panel", lambda first, w, u: [Comment(f"{w} {u}")])
    assert taken(made) == ["For", "4 4", "LetIndex", "If", "4 used"]


BLOCKS = [(10, 10, ()), (10, 5, ()), (10, 4, ()), (7, 4, (3,)), (3, 4, ())]


@pytest.mark.parametrize(("extent", "chunk", "inner"), BLOCKS)
def test_blocks_of_an_axis(extent: int, chunk: int, inner: tuple[int, ...]) -> None:
    """Each element is in one block; blocks of the sum are no independent ones."""
    vs = variables(extent, *inner)
    g = FlatAxis((), vs[0], chunk, vs[1:])
    seen: list[tuple[Index, Index, Index]] = []
    made = blocks(g, lambda b: (seen.append((b.at[vs[0]], b.size, b.start)), [Comment("")])[1])
    loops = [s for s in made if isinstance(s, For)]
    covered = sorted((at.constant or 0) + k for at, size, _ in seen if at.constant is not None
                     for k in range((size.constant or 0) // g.run))  # fmt: skip
    if loops:
        (s,) = loops
        assert (s.step, s.independent) == (chunk, True) and isinstance(s.upper, Index)
        covered += range(s.upper.constant or 0)
    assert sorted(covered) == list(range(extent))
    assert all(start is at * g.run for at, _, start in seen)
    assert not any(s.independent for s in blocks(g, lambda b: [Comment("")], independent=False) if isinstance(s, For))


def test_open_blocks_are_counted_when_sizes_are_known() -> None:
    g = cut(variables(N, N), 64, 4)
    names = [s.var.name for s in walk(tuple(blocks(g, lambda b: [Comment("")]))) if isinstance(s, LetIndex)]
    assert names == ["room", "j_most", "i_most", "i_first", "j_first", "i_count", "j_count", "size"]
    names = [s.var.name for s in walk(tuple(blocks(g, lambda b: [Comment("")], False))) if isinstance(s, LetIndex)]
    assert names == ["j_most", "j_blocks", "j_even", "i_most", "i_blocks", "i_even", "i_first", "j_first", "i_count",
                     "j_count", "size"]  # fmt: skip


# Updates in place, and what sums read -----------------------------------------------------------------------------

HEAD = "f(w: f64[4, 6], x: f64[4, 5], y: f64[5, 6], z: f64[4, 4], rate: f64[], more: f64[], h: f32[4, 6]) {"
PRODUCT = "sum k < 5 { x[i, k] * y[k, j] }"


def worked(value: str, place: str = "w", out: str = "f64") -> tuple[Part, Work]:
    """A statement whose output lies where an input does."""
    program = parse_program(f"{HEAD} r = build i < 4, j < 6 {{ {value} }} return r }}")
    s = program.body.statements[0]
    assert isinstance(s, Build)
    homes = {r.name: Buffer(r.name, r.dtype, r.shape, "arena", elements(r.shape)) for r in program.inputs}
    homes.setdefault(place, Buffer(place, s.outs[0].dtype, (), "arena", as_index(24)))
    views = {r: View(homes[r.name]) for r in program.inputs} | {s.outs[0]: View(homes[place])}
    return Part(s, flat_position(s.vars)), Work.of(s, views)


@pytest.mark.parametrize(("value", "place", "found"), [
    (f"w[i, j] + {PRODUCT}", "w", (1.0, None)), (f"w[i, j] - 0.5 * {PRODUCT}", "w", (-0.5, None)),
    (f"{PRODUCT} + w[i, j]", "w", (1.0, None)),
    (f"w[i, j] - 0.5 * rate[] * {PRODUCT}", "w", (-0.5, "rate")), (f"w[i, j] + rate[] * {PRODUCT}", "w", (1.0, "rate")),
    (f"w[i, j] + rate[] * more[] * {PRODUCT}", "w", None), (f"w[i, j] + x[i, 0] * {PRODUCT}", "w", None),
    (f"w[i, j] + {PRODUCT}", "elsewhere", None), (f"2.0 * w[i, j] + {PRODUCT}", "w", None), (PRODUCT, "w", None),
    (f"w[i, 5 - j] + {PRODUCT}", "w", None), (f"w[i, j] + 1.0 + {PRODUCT}", "w", None),
    (f"w[i, j] + exp({PRODUCT})", "w", None), (f"w[i, j] * {PRODUCT}", "w", None), ("w[i, j] + x[i, 0]", "w", None),
    (f"w[i, j] + {PRODUCT} * {PRODUCT}", "w", None),
])  # fmt: skip
def test_updates(value: str, place: str, found: tuple[float, str | None] | None) -> None:
    """Of what the output holds, plus a multiple of the sum by a number, and by the one number of an array."""
    part, work = worked(value, place)
    made = _update(part, work)
    assert found == (made and (made.factor, made.scale and made.scale.name))
    other = Part(part.build, part.position + 1)
    assert _update(other, work) is None


@pytest.mark.parametrize(("value", "place", "holds"), [
    (PRODUCT, "elsewhere", True), (f"exp({PRODUCT})", "elsewhere", True), (f"w[i, j] + {PRODUCT}", "elsewhere", True),
    (f"w[i, j] + {PRODUCT}", "w", True), (f"2.0 * w[i, j] + {PRODUCT}", "w", False), (PRODUCT, "w", True),
    (f"f32({PRODUCT})", "elsewhere", False),
])  # fmt: skip
def test_outputs_that_hold_partial_sums(value: str, place: str, holds: bool) -> None:
    part, work = worked(value, place)
    (c, *_) = blocking.contractions(part.build, work.address)
    assert _holds_sums(part, c, work) is holds


@pytest.mark.parametrize(("value", "place", "reads"), [
    (PRODUCT, "elsewhere", ["x", "y"]), (f"w[i, j] + {PRODUCT}", "w", ["x", "y"]),
    (f"w[i, j] + {PRODUCT}", "elsewhere", ["x", "y"]),
    (PRODUCT, "x", []), (PRODUCT, "y", []), ("w[i, j]", "elsewhere", []),
])  # fmt: skip
def test_what_sums_read_apart_from_what_is_written(value: str, place: str, reads: list[str]) -> None:
    part, work = worked(value, place)
    assert sorted(r.name for r in _apart(part.build, work)) == reads
    assert bool(reads) or not list(products(work, AVX2))


KRONECKER = """f(x: f64[{m}, 5], z: f64[17, 5]) {{
  y = build m < 17 * {m} {{ sum k < 5 {{ x[m // 17, k] * z[m % 17, k] }} }} return y }}"""
STRIDED = """f(g: f64[4, 900], w: f64[4, 3, 50]) { y = build i < 1000, c < 50 { sum o < 4, t < 3 {
  [i >= t, (i - t) % 2 == 0] g[o, (i - t) // 2] * w[o, t, c] } } return y }"""


@pytest.mark.parametrize(("text", "schedules"), [
    (KRONECKER.format(m=300), ["part 1 of 1: pack B | pack A | tile m 6 | vector m 2×4"]),
    (KRONECKER.format(m=30), []),  # too little
    (STRIDED, ["part 1 of 2: pack B | pack A | tile i 6 | vector c 2×4 | part 2 of 2: tile i 6 | vector c 2×4 rest 2"]),
    ("f(x: f64[300, 5], z: f64[17, 5]) { y = build m < 300, n < 17 { sum k < 5 { x[m, k] * z[n, k] } } return y }",
     ["pack B | pack A | tile n 6 | vector m 2×4"]),
])  # fmt: skip
def test_parts_are_told_apart_in_schedules(text: str, schedules: list[str]) -> None:
    """A part for which panels do not pay is done beside the others, in tiles."""
    program = parse_program(text)
    s = program.body.statements[0]
    assert isinstance(s, Build)
    views = {r: View(Buffer(r.name, r.dtype, r.shape, "arena", elements(r.shape))) for r in (*program.inputs, *s.outs)}
    found = list(products(Work.of(s, views), AVX2))
    assert [str(c.schedule) for c in found] == schedules
    assert all(c.name == "packed" and c.cycles > 0 for c in found)


def test_terms_of_sums() -> None:
    assert _work(worked(PRODUCT)[0].build) == 4 * 6 * 5
    assert _work(worked(f"{PRODUCT} + sum k < 3, l < 2 {{ x[i, k] * y[l, j] }}")[0].build) == 24 * (5 + 6)
    assert _work(worked("w[i, j]")[0].build) == 0


# Open sizes -------------------------------------------------------------------------------------------------------

OPEN = """f(x: {t}[{x}], y: {t}[{y}]) {{ z = build m < M, n < N {{ sum k < K {{ x[{i}] * y[{j}] }} }} return z }}"""


@pytest.mark.parametrize(("x", "y", "room", "few"), [
    # both along the sum; y as rows; y along the sum alone; neither along it
    ("M, K", "K, N", ["M + -24", "N + -4", "K*N + -16384"], []),
    ("M, K", "N, K", ["N + -4", "K + -8", "M + -4"], [["K + -128", "-1*N + 7"], ["K + -128", "-1*M + 9"]]),
    ("K, M", "N, K", ["N + -4", "K + -8", "M + -4"], []),
])  # fmt: skip
def test_open_sizes_for_which_panels_pay(x: str, y: str, room: list[str], few: list[list[str]]) -> None:
    program = parse_program(OPEN.format(t="f32", x=x, y=y, i=x.lower(), j=y.lower()))
    s = specialize(program, {}).body.statements[0]
    assert isinstance(s, Build)
    views = {r: View(Buffer(r.name, r.dtype, r.shape, "arena", elements(r.shape))) for r in (*program.inputs, *s.outs)}
    work = Work.of(s, views)
    plan = next(p for c in blocking.contractions(s, work.address) if c.columns[0].name == "n"
                for p in blocking.packed_plans(s, c, flat_position(s.vars), AVX2, lambda c: True)
                if (p.tile.rows, p.tile.vectors) == (6, 2))  # fmt: skip
    assert sorted(polynomial(c.index) for c in _room(plan)) == sorted(room)
    assert [sorted(polynomial(c.index) for c in tests) for tests in _few(plan)] == [sorted(t) for t in few]


def polynomial(i: Index) -> str:
    terms = sorted(i.terms, key=lambda t: (not t[0], "*".join(sorted(map(str, t[0])))))
    names = [("*".join(sorted(map(str, m))), c) for m, c in terms]
    return " + ".join(n if c == 1 and n else f"{c}*{n}" if n else str(c) for n, c in names)


def test_a_machine_without_vectors_packs_nothing() -> None:
    part, work = worked(PRODUCT, "elsewhere")
    (c, *_) = blocking.contractions(part.build, work.address)
    assert not list(blocking.packed_plans(part.build, c, part.position, SCALAR, lambda c: True))
