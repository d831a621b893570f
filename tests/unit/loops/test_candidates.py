"""Choosing among candidates: the cheapest is built, one that declines is passed over, and a choice says all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pullback.ir.parser import parse_program
from pullback.ir.program import Build, Program
from pullback.ir.traverse import specialize
from pullback.loops.plain.builder import KernelBuilder, Work
from pullback.loops.plain.candidates import Candidate, Chooser, Declined, Strategies
from pullback.loops.plain.lower import lower, plain_build
from pullback.loops.plain.storage import assign_storage
from pullback.loops.program.nodes import Call, Function, Kernel, kernels_of, walk
from pullback.loops.program.schedule import Block, Fuse, Pack, Schedule, Split, Tile, Vector, Wish
from pullback.loops.strategies.table import STRATEGIES, chooser
from pullback.machine import GENERIC, Machine

PRODUCT = "f(x: f64[N, K], y: f64[K, N]) { z = build i < N, j < N { sum k < K { x[i, k] * y[k, j] } } return z }"
PADDED = "f(x: f64[N]) { y = build i < N + 2 { [i >= 1, N >= i] x[i - 1] } return y }"
NAMES = ("packed", "tile", "stretches", "masked", "plain")


def program(text: str, **dims: int) -> Program:
    return specialize(parse_program(text), dims)


def work(p: Program) -> Work:
    return Work.of(p.body.statements[-1], assign_storage(p).views)


def chosen(f: Function) -> Kernel:
    return next(s.kernel for s in walk(f.body) if isinstance(s, Call))


def offering(*candidates: tuple[str, float, bool]) -> Chooser:
    """A chooser among plain loops by several names, of which some decline."""

    def strategy(work: Work, machine: Machine) -> Iterator[Candidate]:
        def build(able: bool) -> Callable[[KernelBuilder], Kernel]:
            def made(builder: KernelBuilder) -> Kernel:
                if not able:
                    raise Declined
                assert isinstance(work.statement, Build)
                return builder.kernel(plain_build(work.statement, builder))

            return made

        yield from (Candidate(name, cycles, build(able)) for name, cycles, able in candidates)

    return Chooser(GENERIC, Strategies((strategy,)))


def test_the_cheapest_that_does_not_decline_is_built() -> None:
    p = program(PADDED, N=6)
    made = chosen(lower(p, chooser=offering(("a", 3, True), ("b", 1, False), ("c", 2, True)))).choice
    assert made is not None
    assert (made.name, made.cycles, made.others) == ("c", 2, (("a", 3),))
    wish = Chooser(GENERIC, offering(("a", 3, True), ("c", 2, True)).strategies, wish=Wish("a"))
    assert chosen(lower(p, chooser=wish)).choice == made.__class__("a", 3, others=(("c", 2),))
    with pytest.raises(AssertionError, match="plain loops do whatever it is"):
        lower(p, chooser=offering(("a", 3, False)))


@pytest.mark.parametrize(
    ("text", "dims", "names"),
    [
        (PRODUCT, {"N": 96, "K": 80}, {"packed", "tile", "masked", "plain"}),
        (PADDED, {"N": 62}, {"stretches", "masked", "plain"}),
    ],
)
def test_planning_touches_no_builder(
    text: str, dims: dict[str, int], names: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = work(program(text, **dims))
    with monkeypatch.context() as m:
        m.setattr(KernelBuilder, "__init__", lambda *_: pytest.fail("a plan needs no builder"))
        candidates = chooser(GENERIC).candidates(found)
    assert {c.name for c in candidates} == names
    assert [c.cycles for c in candidates] == sorted(c.cycles for c in candidates)
    for c in candidates:
        assert c.build(KernelBuilder(found)).params


def test_stretches_take_choices_by_data() -> None:
    text = """f(x: f64[N], m: bool[N]) {
      y = build i < N { [N >= i + 2] (m[i + 1] ? x[i] * x[i + 1] : {}) } return y }"""
    made = chosen(lower(program(text, N=1000), chooser=chooser(GENERIC))).choice
    assert made is not None
    assert str(made).startswith("stretches: split i 0 999 | mask i | vector i")


def test_a_part_that_changes_in_place_is_a_candidate() -> None:
    text = """f(x: f64[N, M], g: f64[M]) {
      y = fold t < N (a = x) {
        b = build i < N, j < M { a[i, j] + [i == t] g[j] } yield b } return y }"""
    function = lower(program(text, N=40, M=50), chooser=chooser(GENERIC))
    (made,) = (k.choice for k in kernels_of(function.body) if k.choice is not None)
    assert made.name == "update"
    assert {name for name, _ in made.others} >= {"plain"}


def test_a_stretch_that_changes_in_place_costs_what_it_is_long() -> None:
    """Between two ends, and in an array that has an axis of size 1, which a read may name by 0."""
    text = """f(x: f64[1, N, M], g: f64[B, M]) {
      y = fold t < N / B (a = x) {
        b = build n < 1, i < N, j < M { a[0, i, j] + [i >= B * t, B * t + B - 1 >= i] g[i - B * t, j] }
        yield b } return y }"""
    function = lower(program(text.replace("N / B", "40").replace("B", "8"), N=320, M=50), chooser=chooser(GENERIC))
    (made,) = (k.choice for k in kernels_of(function.body) if k.choice is not None)
    assert made.name == "update"
    assert all(cycles > 20 * made.cycles for name, cycles in made.others if name == "plain")


def test_exact_work_has_exact_candidates_alone() -> None:
    p = program(PRODUCT, N=96, K=80)
    exact = Work.of(p.body.statements[0], assign_storage(p).views, exact=True)
    assert [c.name for c in Chooser(GENERIC, STRATEGIES).candidates(exact)] == ["plain"]


def test_schedules_print_in_one_line() -> None:
    steps = (
        Fuse(2),
        Split("i", ("0", "3")),
        Block("k", 256),
        Pack("B"),
        Tile((("n", 6), ("m", 2))),
        Vector("k", 16, 2, (8, 1)),
    )
    assert str(Schedule(steps)) == (
        "fuse 2 | split i 0 3 | block k 256 | pack B | tile n 6 m 2 | vector k 2×16 rest 8 1"
    )
    assert str(Schedule()) == "loops as written"
    made = chosen(lower(program(PRODUCT, N=150, K=80), chooser=chooser(GENERIC))).choice
    assert made is not None
    assert str(made).startswith("packed: pack ")
