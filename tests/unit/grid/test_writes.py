"""Loops on devices that only set elements: the last write counts, in every order of threads."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.devices import run
from pullback.codegen.device.dialect import CUDA
from pullback.codegen.device.program import device_program
from pullback.codegen.targets import PLAIN_C
from pullback.device import H100
from pullback.grid import writes
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.loops.program.nodes import kernels_of
from pullback.runtime.device.export import lowered_for
from pullback.runtime.emit import emit_c
from tests.support.devices.plain import reading
from tests.support.devices.threads import built, ran

CHANGED = "[n == check(at[j], 9)] {0} + [n != check(at[j], 9)] s[n{1}]"


def fold(values: str, inputs: str, result: str = "f64[9]", variables: str = "n < 9") -> str:
    """A program that sets elements of x in a loop."""
    return (f"f(x: {result}, at: i64[N], {inputs}) {{ y = fold j < N (s = x) {{ z = build {variables} {{ {values} }} "
            "yield z } return y }")  # fmt: skip


FORMS = {
    "vector": fold(CHANGED.format("v[j]", ""), "v: f64[N]"),
    "constant": fold(CHANGED.format("2.0", ""), "v: f64[N]"),
    "rows": fold(CHANGED.format("v[j, m]", ", m"), "v: f32[N, 5]", "f32[9, 5]", "n < 9, m < 5"),
    "part of a row": fold("[n == check(at[j], 9), m >= 1, 3 >= m] true ? v[j] * v[m] : s[n, m]", "v: f64[N]",
                          "f64[9, 5]", "n < 9, m < 5").replace("v[m]", "v[0]"),
    "two places": fold("[n == check(at[j], 9), m == check(by[j], 4)] true ? v[j] : s[n, m]", "by: i64[N], v: f64[N]",
                       "f64[9, 4]", "n < 9, m < 4"),
    "beyond the end": fold("[n == data(at[j]) + 5] v[j] + [n != data(at[j]) + 5] s[n]", "v: f64[N]"),
    "from the end": fold("[8 - n == check(at[j], 9)] v[j] + [8 - n != check(at[j], 9)] s[n]", "v: f64[N]"),
    "places outside": fold("[n == data(at[j]), m == 2 * data(by[j]) - 1] true ? v[j] : s[n, m]",
                           "by: i64[N], v: f64[N]", "f64[9, 4]", "n < 9, m < 4"),
    "integers": fold(CHANGED.format("v[j]", ""), "v: i64[N]", "i64[9]"),
    "value of the place": fold(CHANGED.format("v[j] * w[n]", ""), "v: f64[N], w: f64[9]"),
}  # fmt: skip
WAYS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "look": lambda patch: patch.setattr(writes, "sort_cycles", lambda *_: 1e30),
    "sort": lambda patch: patch.setattr(writes, "sort_cycles", lambda *_: -1e30)}  # fmt: skip


def inputs_for(form: str, size: int) -> list[np.ndarray]:
    """Arguments; several steps write to the same elements."""
    rng, out = np.random.default_rng(size), []
    for r in parse_program(FORMS[form]).inputs:
        shape = [i.constant or size for i in r.shape]
        if r.name in ("at", "by"):
            out.append(np.minimum(rng.geometric(0.4, shape) - 1, 3 + 5 * (r.name == "at")))
        else:
            out.append((9 * rng.normal(size=shape)).astype(r.storage.numpy))
    return out


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", FORMS)
def test_ways(form: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All ways give the loop's values bit for bit, in both orders of threads."""
    WAYS[way](monkeypatch)
    made = parse_program(FORMS[form])
    for size in (33, 2500):
        lowered, inputs = lowered_for(made, {"N": size}), inputs_for(form, size)
        assert writes.writes_of(made.body.statements[0]) is None  # its sizes are open
        one, two = (run(reading(lowered, backward), lowered.function, inputs)[0][0] for backward in (False, True))
        wanted = run(emit_c(made, {"N": size}, target=PLAIN_C), lowered.function, inputs)[0][0]
        assert one.tobytes() == two.tobytes() == wanted.tobytes()
        if size == 33:
            np.testing.assert_array_equal(one, interpret(made, inputs)[0])
        [chosen] = [k.choice for k in kernels_of(lowered.function.body)]
        assert chosen is not None and (size < 2500 or (chosen.name == "write" and ("merge" in str(chosen)) == (
            way == "sort")))


OTHERS = {
    "a value of the state": CHANGED.format("v[j] * s[n]", ""),
    "a place of the state": "[n == data(v[j], 9)] 2 + [n != data(v[j], 9)] s[n]".replace("v[j]", "s[j % 9]"),
    "the part before": "[n >= check(at[j], 9)] v[j] + [n < check(at[j], 9)] s[n]",
    "a moving part": "[n == check(at[j], 9), 9 >= n + j] true ? v[j] : s[n]",
    "another element": "[n == check(at[j], 9)] v[j] + [n != check(at[j], 9)] s[8 - n]",
    "another test": "[n == check(at[j], 9)] v[j] + [n != check(at[0], 9)] s[n]",
    "data": "at[j] > 3 ? v[j] : s[n]",
    "two places of an axis": "[n == check(at[j], 9), n == check(at[19 - j], 9)] true ? v[j] : s[n]",
    "a part of the places": "[n == check(at[j], 9), 3 >= n] true ? v[j] : s[n]",
    "zeros beside the part": "[n == check(at[j], 9), m >= 1] v[j] + [n != check(at[j], 9)] s[n, m]",
}  # fmt: skip


@pytest.mark.parametrize("other", OTHERS)
def test_other_loops(other: str) -> None:
    """Steps that read the state, or do not select an element, are no writes."""
    kind = "i64" if other == "a place of the state" else "f64"
    shape, variables = ("[9, 5]", "n < 9, m < 5") if ", m" in OTHERS[other] else ("[9]", "n < 9")
    made = parse_program(fold(OTHERS[other], f"v: {kind}[N]", f"{kind}{shape}", variables).replace("N", "20"))
    assert writes.writes_of(made.body.statements[0]) is None


def test_positions_have_32_bits() -> None:
    """A loop with more elements, or more threads, than numbers of 32 bits is no write."""
    for steps, size, rest, is_write in ((20, 2**31 - 1, 1, True), (20, 2**31, 1, False), (20, 2**20, 2**11, False),
                                        (2**21 - 1, 9, 2**10, True), (2**21, 9, 2**10, False)):
        text = fold(CHANGED.format("v[j]", ", m"), "v: f64[N]", f"f64[{size}, {rest}]", f"n < {size}, m < {rest}")
        made = parse_program(text.replace("N", f"{steps}").replace(", 9)", f", {size})"))
        assert (writes.writes_of(made.body.statements[0]) is not None) == is_write


@pytest.mark.parametrize("way", WAYS)
def test_an_index_that_leaves_its_range(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WAYS[way](monkeypatch)
    lowered, inputs = lowered_for(parse_program(FORMS["rows"]), {"N": 2500}), inputs_for("rows", 2500)
    inputs[1][1200] = 9
    assert run(reading(lowered), lowered.function, inputs)[1] == 1


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++") or not shutil.which("gcc"), reason="no gcc and g++")
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_on_threads(sanitizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    WAYS["sort"](monkeypatch)
    lowered, inputs = lowered_for(parse_program(FORMS["rows"]), {"N": 70}), inputs_for("rows", 70)
    built(device_program(lowered.function, lowered.memory, CUDA, H100), lowered.function, tmp_path, sanitizer)
    found = ran(lowered.function, inputs, tmp_path)
    assert (found.status, found.reports) == (0, "")
    np.testing.assert_array_equal(found.results[0], interpret(parse_program(FORMS["rows"]), inputs)[0])
