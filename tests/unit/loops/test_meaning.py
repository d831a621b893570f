"""Loops that are packed, swept or shared out compute what was written: proven over a field, for small sizes.

Blocks, vectors and caches are so small that these sizes cross the edges of all of them, and whatever can be is shared
out; chunks run from the last to the first, each with working memory of its own that begins as garbage.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

import pytest

from pullback.ir.dims import determined_dims
from pullback.ir.parser import parse_program
from pullback.loops.product import blocking
from pullback.loops.threads import splitting
from pullback.machine import GENERIC
from pullback.runtime.emit import lower_program
from tests.golden.test_loops import CASES
from tests.packing import pack_all
from tests.support.equivalence import FOUND, check_loops

TINY = replace(GENERIC, vector_bytes=16, portable=False, meeting=1, chunk=1, waking=1, page=64,
               caches=(256, 1024, 4096))  # fmt: skip
BLOCKS = {"one": blocking.Blocks(4, 256, 512, 128, 512), "other": blocking.Blocks(7, 200, 300, 4096, 900)}
SIZES = {
    "small": {"M": 7, "N": 9, "K": 6, "B": 2, "C": 3, "H": 6, "W": 5, "O": 4, "P": 3, "Q": 2, "I": 4, "J": 4, "G": 2,
              "L": 5, "T": 2},
    "large": {"M": 18, "N": 13, "K": 11, "B": 3, "C": 5, "H": 8, "W": 7, "O": 9, "P": 2, "Q": 3, "I": 7, "J": 5, "G": 3,
              "L": 40, "T": 3},
}  # fmt: skip
NAMES = [n for n in CASES if not n.endswith(" open")]
OPEN = ["packed gather", "packed triangle", "packed scaled", "evaluated"]
OPEN += [n for n in NAMES if n.endswith("_open") or (n.startswith("threads") and "convolution" not in n)]
SLOW = {"threads weights of a convolution", "threads convolution", "threads channels", "convolution_back",
        "packed channels_last", "packed kronecker", "layers_open", "update_open"}  # fmt: skip
EVERY = [(n, sizes) for n in NAMES for sizes in SIZES] + [(n, "any") for n in NAMES if not n.startswith("sorted")]
USUAL = [(n, "small") for n in NAMES if not n.startswith("threads ") or n not in SLOW]
USUAL += [(n, "any") for n in OPEN if n not in SLOW]
LARGE = ("packed", "product", "lone", "update", "batch")
USUAL += [(n, "large") for n in NAMES if n not in SLOW and n.startswith(LARGE)]


def compare(name: str, dims: Mapping[str, int]) -> None:
    """Compare the loops of a case with its statements."""
    FOUND.clear()
    program = parse_program(CASES[name].text)
    given = {d: n for d, n in dims.items() if d in determined_dims(program)}
    function = lower_program(program, given, False, TINY, threaded=True).function
    check_loops(program, given, function)
    assert FOUND[-1].outcome != "out of reach" or (name in SLOW and FOUND[-1].reason.startswith("too "))


@pytest.mark.parametrize(("name", "sizes"), EVERY if os.environ.get("PULLBACK_NIGHTLY") else USUAL)
def test_loops_compute_what_was_written(name: str, sizes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "CHEAP", 0)
    pack_all(monkeypatch, BLOCKS["other" if sizes == "large" else "one"])
    compare(name, SIZES.get(sizes, {}))
