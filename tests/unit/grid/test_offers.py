"""Every schedule that strategies offer to a tuner, in the plain readings.

An ordinary run takes a few schedules of each program, `--everything` all of them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.corpus import Entry, corpus
from benchmarks.devices import run
from pullback.device import H100
from pullback.errors import CompilerError
from pullback.ir.dims import determined_dims
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.loops.plain.builder import Work
from pullback.loops.plain.candidates import Candidate
from pullback.loops.program.nodes import Kernel, kernels_of
from pullback.runtime.device.export import loops_for
from pullback.runtime.device.schedules import schedule_text, statement_key
from pullback.runtime.device.tuner import Draw, Pick, difference
from pullback.runtime.device.tuner import program_of as alone_of
from pullback.runtime.emit import Lowered, lower_as_preferred
from tests.support.devices.plain import reading
from tests.unit.grid.test_products import FORMS, IMAGE

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")]

MOST = 200_000  # multiply-adds of a program that is read; the plain readings are slow
PROGRAMS = {
    "product": "f(x: f32[72, 100], y: f32[100, 136]) { z = build m < 72, n < 136 { "
               "tanh(sum k < 100 { x[m, k] * y[k, n] }) } return z }",
    "turned": "f(x: f32[100, 72], y: f32[136, 100]) { z = build m < 72, n < 136 { "
              "sum k < 100 { x[k, m] * y[n, k] } } return z }",
    "batch": "f(x: f64[3, 24, 40], y: f64[3, 40, 20]) { z = build b < 3, m < 24, n < 20 { "
             "sum k < 40 { x[b, m, k] * y[b, k, n] } } return z }",
    "bf16": "f(x: bf16[136, 200], y: bf16[200, 136]) { z = build m < 136, n < 136 { "
            "sum k < 200 { f32(x[m, k]) * f32(y[k, n]) } } return z }",
    "f16 turned": "f(x: f16[200, 136], y: f16[136, 200]) { z = build m < 136, n < 136 { "
                  "sum k < 200 { f32(x[k, m]) * f32(y[n, k]) } } return z }",
    "odd bf16": "f(x: bf16[33, 51], y: bf16[51, 19]) { z = build m < 33, n < 19 { "
                "sum k < 51 { f32(x[m, k]) * f32(y[k, n]) } } return z }",
    "rows": "f(x: f32[60, 1000]) { y = build n < 60 { max m < 1000 { x[n, m] } } return y }",
    "columns": "f(x: f32[3000, 40]) { y = build m < 40 { sum n < 3000 { x[n, m] } } return y }",
    "all": "f(x: f64[70000]) { y = build { sum n < 70000 { x[n] } } return y }",
    "transpose": "f(x: f32[70, 90]) { y = build m < 90, n < 70 { x[n, m] * 2.0 } return y }",
}  # fmt: skip
IMAGES = ("window", "weights")
QUICK = [e for e in corpus() if e.name.startswith(("apl", "random", "derivative", "kernel"))]


def share(items: list[Any]) -> list[Any]:
    """The items of this run: one of them in an ordinary run."""
    turn = os.environ.get("PULLBACK_TESTS_TURN")
    if not turn or not items:
        return items
    first = int(turn.split("/")[0]) * len(items) // 16
    return items[first : first + 1]


def works_of(lower: Callable[[Any], Lowered]) -> dict[str, tuple[Work, list[Candidate]]]:
    """The works of a program by key, with everything that is offered for them."""
    found: dict[str, tuple[Work, list[Candidate]]] = {}

    def seen(work: Work, every: Callable[[], list[Candidate]]) -> None:
        if (key := key_of(work)) is not None:
            found.setdefault(key, (work, every()))

    lower(seen)
    return found


def key_of(work: Work) -> str | None:
    return statement_key(work, "")


def check(program: Program, key: str, work: Work, c: Candidate) -> None:
    """The plain readings of a schedule give the interpreter's values, and equal bits in both orders of threads."""
    lowered = lower_as_preferred(program, H100, Pick(key, key_of, schedule_text(c.name, c.schedule, work)))
    made = [k.choice.name for k in kernels_of(lowered.function.body) if k.choice is not None]
    if c.name not in (*made, "apart"):
        return  # it declined
    for kind in ("whole", "near 1"):
        draw = Draw(program, kind)  # type: ignore[arg-type]
        one, two = (run(reading(lowered, backward), lowered.function, [a.copy() for a in draw.arrays])
                    for backward in (False, True))  # fmt: skip
        assert one[1] == two[1] and [a.tobytes() for a in one[0]] == [a.tobytes() for a in two[0]]
        if one[1]:
            return  # drawn indices are out of range
        wanted = interpret(program, draw.arrays)
        for a, b, o in zip(one[0], wanted, program.outputs, strict=True):
            assert difference(a, b, o, 4 * draw.bound + 1e-6) == "", (str(c.schedule), kind)


@pytest.mark.parametrize("name", [*PROGRAMS, *IMAGES])
def test_all_schedules_of_a_program(name: str) -> None:
    made, dims = parse_program(PROGRAMS.get(name) or FORMS[name]), IMAGE if name in IMAGES else {}
    names = determined_dims(made).keys()
    sizes = {d: n for d, n in dims.items() if d in names}
    works = works_of(lambda seen: loops_for(made, sizes, H100, seen))
    assert any(len(offered) > 1 for _, offered in works.values())
    for key, (work, offered) in works.items():
        texts = [schedule_text(c.name, c.schedule, work) for c in offered]
        assert len(set(texts)) == len(texts) or "scatter" in texts[0]
        for c in share(offered):
            check(alone_of(work, made.settings), key, work, c)


@pytest.mark.parametrize("entry", QUICK, ids=lambda e: e.name)
def test_all_schedules_of_the_corpus(entry: Entry) -> None:
    made, dims = entry.make()
    try:
        works = works_of(lambda seen: loops_for(made, dims, H100, seen))
    except CompilerError:  # devices do not support it
        return
    for key, (work, offered) in share([*works.items()]):
        cheap = [c for c in offered[1:] if c.cycles < MOST]
        for c in share(cheap):
            check(alone_of(work, made.settings), key, work, c)


def test_nothing_else_is_chosen_without_a_tuner() -> None:
    """Estimates do not see the schedules for tuners."""
    made = parse_program(PROGRAMS["bf16"])
    lone: list[Kernel] = kernels_of(loops_for(made, {}, H100).function.body)
    seen: list[Candidate] = []
    loops_for(made, {}, H100, lambda work, every: seen.extend(every()))
    names = {str(k.choice) for k in lone}
    assert names == {f"{c.name}: {c.schedule}" for c in seen if f"{c.name}: {c.schedule}" in names}
    assert len({str(c.schedule) for c in seen if c.name == "tensor"}) == 16
