"""Plans of products: of each program, for several machines, a digest of all plans with their cycles, and the best one.

They are in `plans.txt`: a change of an estimate shows there, also one that changes no kernel. After a change that is
meant: `pytest tests/golden/test_plans.py --update-golden`. To read all plans, print them before and after:

    python -m tests.golden.test_plans product
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pullback.ir.dims import determined_dims
from pullback.ir.expr import Ref
from pullback.ir.index import Index
from pullback.ir.parser import parse_program
from pullback.ir.program import Build
from pullback.ir.traverse import specialize
from pullback.loops.analysis.joined import elements
from pullback.loops.plain.builder import flat_position
from pullback.loops.product.blocking import PackedPlan, Storing, _storing, _TiledWay, tiles_of
from pullback.loops.product.contraction import contractions
from pullback.loops.program.values import Buffer
from pullback.machine import AVX2, AVX512, SSE2, Machine
from tests.golden.test_loops import CASES

FILE = Path(__file__).parent / "plans.txt"
SMALL = replace(AVX2, name="small", caches=(4096, 16384, 65536), page=512)
MACHINES = (AVX512, SMALL, SSE2)
TEXTS = {name: CASES[name].text for name in (
    "product", "transposed", "batch", "convolution", "by_weights", "packed channels_last", "packed scaled",
    "packed transposed_output", "packed gather", "lone_column")}  # fmt: skip
DIMS: dict[str, dict[str, int]] = {
    "packed channels_last": {"B": 16, "C": 24, "H": 20, "O": 40, "P": 3, "I": 18},
    "lone_column": {"M": 300, "N": 97, "K": 400},
    "packed scaled": {"M": 200, "N": 130, "K": 640}, "packed gather": {"M": 200, "N": 130, "K": 640, "L": 300},
    "packed transposed_output": {"M": 700, "N": 33, "K": 512},
}  # fmt: skip


def statements(name: str) -> Iterator[Build]:
    """The statements of a case: for its dims, and for all sizes."""
    program = parse_program(TEXTS[name])
    dims = {**CASES[name].dims, **DIMS.get(name, {})}
    for given in ({d: n for d, n in dims.items() if d in determined_dims(program)}, {}):
        yield from (s for s in specialize(program, given).body.statements if isinstance(s, Build))


def plans(s: Build, machine: Machine) -> Iterator[tuple[float, str, PackedPlan | None]]:
    """All plans with their cycles: every contraction, tile and way to read A, its sums held by the output or aside."""
    buffers: dict[Ref, Buffer] = {}

    def address(ref: Ref, indices: tuple[Index, ...]) -> tuple[Buffer, Index]:
        made = buffers.setdefault(ref, Buffer(ref.name, ref.dtype, ref.shape, "input", elements(ref.shape)))
        return made, sum((i * elements(ref.shape[k + 1 :]) for k, i in enumerate(indices)), start=0 * indices[0])

    position = flat_position(s.vars)
    for c in contractions(s, address):
        storings: list[Storing] = list(dict.fromkeys((_storing(c, position), "aside")))
        for storing in storings:
            for in_place in (False, True) if c.a.plain is not None else (False,):
                way = _TiledWay(s, c, machine, position, storing, in_place)
                for t in tiles_of(c, machine):
                    plan = way.plan(t)
                    assert plan is None or plan.cycles >= way.least(t) * (1 - 1e-12)
                    cycles = float("inf") if plan is None else plan.cycles
                    how = f"{storing}, A {'in place' if in_place else 'packed'}"
                    yield cycles, f"{c.rows} x {c.columns} {how}, {t.rows} x {t.vectors} x {t.lanes}", plan


def listed(name: str) -> list[str]:
    """A line for each statement and machine: how many plans, their digest, and the best one."""
    out = []
    for s in statements(name):
        for machine in MACHINES:
            found = list(plans(s, machine))
            digest = hashlib.sha256("\n".join(map(line, found)).encode()).hexdigest()[:12]
            cycles, way, plan = min(found, key=lambda f: f[0])
            assert plan is not None
            out.append(f"{machine.name} {len(found)} {digest} {way}: {cycles:.6g} {plan.schedule}")
    return out


def line(found: tuple[float, str, PackedPlan | None]) -> str:
    """All that a plan says."""
    cycles, way, plan = found
    if plan is None:
        return f"{way}: none"
    return f"{way}: {cycles:.6g} {plan.schedule} {plan.rows} {plan.columns} {plan.depth} {plan.a_first} {plan.lone}"


@pytest.mark.parametrize("name", TEXTS)
def test_plans(name: str, request: pytest.FixtureRequest) -> None:
    found = listed(name)
    kept: dict[str, list[str]] = {}
    for row in FILE.read_text().splitlines() if FILE.exists() else ():
        case, text = row.split(" | ", 1)
        kept.setdefault(case, []).append(text)
    if request.config.getoption("--update-golden"):
        kept[name] = found
        FILE.write_text("".join(f"{n} | {row}\n" for n in TEXTS for row in kept.get(n, [])))
    assert kept.get(name) == found, f"plans have changed: `python -m tests.golden.test_plans '{name}'` before and after"


if __name__ == "__main__":
    for wanted in sys.argv[1:] or TEXTS:
        for statement in statements(wanted):
            for m in MACHINES:
                print(f"/* {wanted}, {m.name} */")
                print("\n".join(map(line, plans(statement, m))))
