"""Memory is told once: the table, the header of C, ARENA_BYTES and what a call takes agree to the byte."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32, Float64

import pullback as pb
from pullback import Array
from pullback.ir.settings import MODES
from pullback.runtime import emit
from pullback.runtime.executor import compile_program


@pb.function
def softmax(x: Float32[Array, "N K"]):
    return pb.softmax(x @ pb.matrix_transpose(x) * x[0, 0])


@pb.function
def middle(x: Float64[Array, "N M"]):
    return pb.median(x * 2.0, axis=0) + pb.cumulative_sum(pb.sum(x, axis=0))


@pb.function
def smooth(x: Float64[Array, "N"]):
    return pb.fold(5, x, lambda s, t: pb.roll(s, 1) * 0.5 + pb.sin(s))


CASES = [
    (softmax, {"N": 300, "K": 200}), (pb.grad(pb.function(lambda x: pb.sum(softmax(x) ** 2))), None),
    (middle, {"N": 1000, "M": 30}), (smooth, {"N": 4001}),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("mode", ["fastest", "less", "least"])
def test_exported_c_says_what_the_table_says(case: int, mode: str, tmp_path: Path) -> None:
    f, dims = CASES[case]
    if dims is None:
        f(np.ones((64, 50), np.float32))
        dims = {}
    asked = pb.function(memory=mode)(f.python) if mode != "fastest" else f  # type: ignore[call-overload]
    if mode != "fastest" and not dims:
        return
    table = asked.memory(None, "export", **dims)
    c = asked.c_source(**dims)
    counted = int(re.search(r"peak ([\d ]+) bytes", c)[1].replace(" ", ""))  # type: ignore[index]
    assert counted == table.arena_bytes
    if table.arena_bytes:
        entry = int(re.search(r"`arena` has ([\d ]+) bytes", c)[1].replace(" ", ""))  # type: ignore[index]
        assert entry == table.arena_bytes
    asked.export(tmp_path, **dims)
    header = next(tmp_path.glob("*.h")).read_text()
    assert int(re.search(r"_ARENA_BYTES (\d+)", header)[1]) == table.arena_bytes  # type: ignore[index]
    assert 0 <= table.arena_bytes - table.peak_bytes < 64
    if table.arena_bytes != table.peak_bytes:
        assert f"{table.peak_bytes:,} bytes in the arena of {table.arena_bytes:,}" in str(table)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_takes_what_the_table_says(threads: int) -> None:
    for f, dims in CASES:
        if dims is None:
            continue
        with pb.threads(threads):
            table = f.memory(**dims)
        executable = compile_program(f.for_dims(dims)[0], dims, threads)
        assert executable.arena_bytes == table.arena_bytes


def test_there_is_no_other_build() -> None:
    with pytest.raises(ValueError, match='memory of "call" or of "export"'):
        smooth.memory(None, "import", N=3)  # type: ignore[arg-type]


def test_each_mode_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that shows all peaks plans three forms; each mode has passes of its own."""
    program, dims = softmax.program(), {"N": 300, "K": 200}
    alone = {mode: emit.memory(program, dims, mode) for mode in MODES}
    made: Counter[str] = Counter()

    def counted(name: str, f: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            made[name] += 1
            return f(*given, **named)

        return call

    for name in ("optimize", "lower"):
        monkeypatch.setattr(emit, name, counted(name, getattr(emit, name)))
    table = emit.memory(program, dims, "fastest")
    assert {m: t.arena_bytes for m, t in table.modes.items()} == {m: t.arena_bytes for m, t in alone.items()}
    assert made == {"optimize": 3, "lower": 3}
