"""Scatters on devices: three ways to collect terms, two of them in the order of a plain loop."""

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
from pullback.grid import scatters
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.loops.program.nodes import kernels_of
from pullback.runtime.device.export import lowered_for
from pullback.runtime.emit import emit_c
from tests.support.devices.plain import reading
from tests.support.devices.threads import built, ran

FORMS = {
    "vector": "f(x: f64[N], at: i64[N]) { y: f64[9] = scatter n < N { [check(at[n], 9)] += x[n] } return y }",
    "rows": """f(x: f32[N, 5], at: i64[N]) {
      y: f32[9, 5] = scatter n < N, m < 5 { [data(at[n], 9), m] += x[n, m] * 2.0 } return y }""",
    "own row": """f(x: f64[N, 6], at: i64[N]) {
      y: f64[9, N] = scatter n < N, m < 6 { [data(at[n], 9), n] += x[n, m] } return y }""",
    "place of both": """f(x: f64[N, 3], at: i64[N]) {
      y: f64[4, 30] = scatter n < N, m < 3 { [m, data(at[n], 9) + 7 * m] += x[n, m] } return y }""",
    "row of places": """f(x: f64[7, N], at: i64[N]) {
      y: f64[7, 9] = scatter j < 7, n < N { [j, (data(at[n], 9) + j) % 9] += x[j, n] } return y }""",
    "guards": """f(x: f64[N], at: i64[N]) {
      y: f64[5] = scatter n < N { [data(at[n])] += [4 >= data(at[n]), data(at[n]) >= 0, n >= 1] x[n] } return y }""",
    "integers": """f(x: i32[N], at: i64[N]) {
      y: i32[9] = scatter n < N { [data(at[n], 9)] += x[n] } return y }""",
    "diagonal": """f(x: f64[6, N], at: i64[N]) {
      y: f64[9, 6, 6] = scatter m < 6, n < N { [data(at[n], 9), m, m] += x[m, n] } return y }""",
    "beside others": """f(x: f64[N, 3], at: i64[N]) {
      y: f64[9, 5] = scatter n < N, m < 3 { [data(at[n], 9), m] += x[n, m] } return y }""",
    "guards of rows": """f(x: f64[N, 6], at: i64[N]) {
      y: f64[6] = scatter n < N, m < 6 { [m] += [data(at[n]) >= m] x[n, m] } return y }""",
    "checked terms": """f(x: f64[N, 9], at: i64[N]) {
      y: f64[9] = scatter n < N { [data(at[n], 9)] += x[n, check(at[n], 9)] } return y }""",
    "halves": "f(x: f64[N], at: i64[N]) { y: f64[N] = scatter n < N { [n // 2] += x[n] } return y }",
}  # fmt: skip
WAYS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "look": lambda patch: (patch.setattr(scatters, "plans", lambda *_: []),
                           patch.setattr(scatters, "sort_cycles", lambda *_: 1e30))[0],
    "sort": lambda patch: patch.setattr(scatters, "sort_cycles", lambda *_: -1e30),
    "tree": lambda patch: patch.setattr(scatters, "sort_cycles", lambda *_: 1e30),
}  # fmt: skip
WORDS: dict[str, Callable[[str], bool]] = {
    "look": lambda text: "part 1 of 2" in text and "tree" not in text, "sort": lambda text: "merge" in text,
    "tree": lambda text: "tree" in text}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", FORMS)
def test_ways(form: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All ways give the loop's values, bit for bit except for trees, and equal bits in both orders."""
    WAYS[way](monkeypatch)
    made = parse_program(FORMS[form])
    for size in (1, 33, 2500):
        lowered = lowered_for(made, {"N": size})
        given, rng = lowered.function.given[0], np.random.default_rng(size)
        x = (9 * rng.normal(size=[i.constant or 0 for i in given.shape])).astype(given.dtype.numpy)
        inputs = [x, np.minimum(rng.geometric(0.3, size) - 1, 8)]
        one, two = (run(reading(lowered, backward), lowered.function, inputs)[0][0] for backward in (False, True))
        wanted = run(emit_c(made, {"N": size}, target=PLAIN_C), lowered.function, inputs)[0][0]
        [chosen] = [k.choice for k in kernels_of(lowered.function.body)]
        assert one.tobytes() == two.tobytes() and chosen is not None
        if "tree" in str(chosen):
            np.testing.assert_allclose(one, wanted, rtol=1e-4 if x.dtype == np.float32 else 1e-11, atol=1e-11)
        else:
            assert one.tobytes() == wanted.tobytes()
        assert size < 2500 or form in ("own row", "halves", "checked terms") or WORDS[way](str(chosen))


AGAIN = """f(x: f64[N], at: i64[N]) {
  z = build k < 9 { f64(0.0) }
  s = fold t < 2 (a = z) {
    y: f64[9] = scatter n < N { [data(at[n])] += [4 * t + 4 >= data(at[n]), data(at[n]) >= 5 * t] x[n] }
    b = build k < 9 { a[k] + y[k] }
    yield b }
  return s }"""


@pytest.mark.parametrize("way", WAYS)
def test_terms_without_a_place_have_no_earlier_key(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of a loop writes all keys."""
    WAYS[way](monkeypatch)
    made = parse_program(AGAIN)
    lowered = lowered_for(made, {"N": 300})
    inputs = [np.random.default_rng(3).normal(size=300), np.arange(300) % 9]
    found = run(reading(lowered), lowered.function, inputs)[0][0]
    np.testing.assert_allclose(found, interpret(made, inputs)[0], rtol=1e-12)


def test_an_index_out_of_range() -> None:
    """A scatter with an index out of range reports its check."""
    lowered = lowered_for(parse_program(FORMS["vector"]), {"N": 300})
    at = np.zeros(300, np.int64)
    at[77] = 9
    assert run(reading(lowered), lowered.function, [np.ones(300), at])[1] == 1


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++") or not shutil.which("gcc"), reason="no gcc and g++")
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_sorted_on_threads(sanitizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    WAYS["sort"](monkeypatch)
    lowered = lowered_for(parse_program(FORMS["rows"]), {"N": 70})
    rng = np.random.default_rng(1)
    inputs = [rng.normal(size=(70, 5)).astype(np.float32), rng.integers(0, 9, 70)]
    built(device_program(lowered.function, lowered.memory, CUDA, H100), lowered.function, tmp_path, sanitizer)
    found = ran(lowered.function, inputs, tmp_path)
    assert (found.status, found.reports) == (0, "")
    np.testing.assert_allclose(found.results[0], interpret(parse_program(FORMS["rows"]), inputs)[0], rtol=1e-4)
