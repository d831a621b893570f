"""What is kept of a function's sizes is bounded: what was called longest ago goes, with its library and its memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.calls.recent import Recent
from pullback.errors import UsageError


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_KEPT_SIZES", "8")


def test_the_one_asked_for_longest_ago_goes_first() -> None:
    table: Recent[int, str] = Recent()
    for k in range(8):
        assert table.put(k, str(k)) == str(k)
    assert table.put(3, "other") == "3"
    assert [table.get(k) for k in (0, 2)] == ["0", "2"]
    table.put(8, "8")  # one too many: a quarter of eight goes
    assert [k for k, _ in table.items()] == [0, 2, 4, 5, 6, 7, 8]


def test_a_setting_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_KEPT_SIZES", "many")
    with pytest.raises(UsageError) as caught:
        pb.function(lambda x: x)
    assert str(caught.value) == (
        "UsageError [E601] PULLBACK_KEPT_SIZES=many is not a number of sizes\n"
        "  try: a whole number from 1      See `pullback explain-error E601`"
    )


def kept(f: Any) -> list[int]:
    return [len(table.items()) for table in (f._traces, f._table.kept)]


@pytest.mark.slow
def test_sizes_traces_and_shortcuts_are_bounded() -> None:
    @pb.function
    def annotated(x: Float64[Array, "N"]):
        return pb.sum(x * x)

    free = pb.function(lambda x: pb.sum(x * x))
    for f in (annotated, free):
        for n in (*range(1, 30), *range(1, 30)):
            assert f(np.ones(n)) == n
        assert max(kept(f)) <= 8


LIBRARIES = """
import gc, sys
import numpy as np
import pullback as pb

f = pb.function(lambda x: pb.sum(x * x), specialize="always")

def loaded():
    gc.collect()
    gc.collect()  # what the first found was still held by entries
    with open("/proc/self/maps") as maps:
        return len({line.split()[-1] for line in maps if sys.argv[1] in line})

pb.function(lambda x: x + 1.0)(np.ones(3))
shim = loaded()  # what calls libraries is one too; the function is gone
for n in range(1, 20):
    f(np.ones(n))
assert loaded() - shim <= 8
quick = f._entries[0]
del f
assert loaded() - shim == 1
assert quick(np.ones(19)) == 19
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="no list of what is loaded")
def test_libraries_go_with_their_sizes(tmp_path: Path) -> None:
    environment = {**os.environ, "PULLBACK_CACHE_DIR": str(tmp_path)}
    script = [sys.executable, "-c", LIBRARIES, str(tmp_path / "libraries")]  # of its own: nothing else is alive there
    subprocess.run(script, env=environment, check=True, timeout=300)
