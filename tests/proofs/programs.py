"""Small programs that make every strategy and nearly every pass do something, and machines for which they do."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final
from unittest.mock import patch

from benchmarks.corpus import corpus
from pullback.errors import PullbackError, VerifyError
from pullback.ir.dims import determined_dims
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.ir.settings import MemoryMode
from pullback.ir.traverse import specialize
from pullback.ir.verify import verify
from pullback.loops.plain.candidates import Chooser
from pullback.loops.product import blocking
from pullback.loops.program.nodes import Function
from pullback.loops.program.schedule import Wish
from pullback.loops.strategies.table import chooser
from pullback.machine import AVX2, Machine
from pullback.runtime.emit import lower_program, with_mode
from tests.support.equivalence import small_dims
from tests.unit.loops import test_recurrence, test_update

TINY: Final = replace(AVX2, vector_bytes=16, portable=True, caches=(256, 1024, 4096), page=64, meeting=1, chunk=1,
                      waking=1)
"""Vectors of four or two elements, caches of few, and threads for whatever work there is."""
WIDER: Final = replace(TINY, vector_bytes=32, fused=False, masked_loads=False)
MACHINES: Final[tuple[Machine, ...]] = (TINY, WIDER)

TESTS: Final = Path(__file__).resolve().parents[1]


def _named(text: str) -> Iterator[tuple[str, str]]:
    """The programs of a file, each behind a line with its name."""
    for part in text.split("\n# ")[1:]:
        name, program = part.split("\n", 1)
        yield name, program


TEXTS: Final = dict(_named((TESTS / "proofs" / "programs.pb").read_text(encoding="utf-8")))
RECURRENCES: Final = ("HORNER", "SUMS", "PAIR", "TURNED", "ROWS", "PLANE", "TRIPLES")
TEXTS.update({f"recurrence {name.lower()}": getattr(test_recurrence, name) for name in RECURRENCES})
TEXTS["update by a product"] = test_update.TEXT.replace("FACTOR", "-1.0 * rate *")
FOLDERS: Final = ("unit/passes", "unit/rewrite", "unit/loops", "rewrite", "golden")
MOST: Final = 40  # elements along an axis of a program of the corpus
WISHES: Final = ("", "tile", "packed", "sweep", "plain", "masked", "stretches", "interleaved", "recurrence", "group",
                 "position", "update", "apart")
DIMS: Final = {"N": 9, "M": 5, "K": 6, "T": 2}


def program(name: str) -> Program:
    """A program by its name."""
    return parse_program(TEXTS[name])


def harvested() -> Iterator[tuple[str, Program]]:
    """The programs that stand as text in the tests of passes, rewrites and loops: each fires what is tested there."""
    seen: set[str] = set()
    for file in sorted(f for folder in FOLDERS for f in (TESTS / folder).rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and "build" in text and text not in seen:
                seen.add(text)
                with suppress(PullbackError, ValueError, KeyError, AssertionError):
                    yield f"{file.stem} {len(seen)}", parse_program(text)


def programs(few: bool = False) -> Iterator[tuple[str, Program, Mapping[str, int]]]:
    """The programs above, then gradients and other programs of the corpus with small sizes, with their dims."""
    for name in TEXTS:
        made = program(name)
        dims = {d: DIMS[d] for d in determined_dims(made)}
        yield name, made, dims
        if dims:
            yield f"{name} for all sizes", made, {}
    for name, made in () if few else harvested():
        dims = small_dims(made, {})
        if _small(made, 100):
            for given, kind in ((dims, ""), ({}, " for all sizes")) if dims else ((dims, ""),):
                if _verifies(made, given):
                    yield name + kind, made, given
    for entry in () if few else corpus():
        if any(entry.name.startswith(kind) for kind in ("kernel", "network", "program")):
            continue
        made, _ = entry.make()
        dims = small_dims(made, {})
        if _small(made, MOST):
            yield entry.name, made, dims


def _verifies(p: Program, dims: Mapping[str, int]) -> bool:
    """Whether the program as it is written is one for these dims: some are written for dims that their test gives."""
    try:
        verify(specialize(p, dims))
    except VerifyError:
        return False
    return True


def _small(p: Program, most: int) -> bool:
    return all((d.constant or 1) <= most for r in p.inputs for d in r.shape)


def compiled(p: Program, dims: Mapping[str, int], machine: Machine = TINY, wish: str = "", mode: MemoryMode = "fastest"
             ) -> Function:
    """The loops of a program, compared on the way; `wish` is a candidate that is taken where it is one."""

    def choose(m: Machine) -> Chooser:
        return replace(chooser(m), wish=Wish(wish) if wish else None)

    with (patch.dict(os.environ, {"PULLBACK_VERIFY": "equivalence"}), patch.object(blocking, "LEAST_WORK", 1),
          patch("pullback.runtime.emit.chooser", choose)):
        return lower_program(with_mode(p, mode), dims, False, machine, threaded=True).function
