"""A program in units is the same program; a kernel stays with the only one that uses it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from pullback.codegen.c import units
from pullback.codegen.c.units import HIDDEN, split
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.machine import AVX512
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import lower_program, print_lowered
from pullback.runtime.executor import compile_program

KERNELS = {
    "kernel_00000000000a": "static void kernel_00000000000a(float *restrict x) {\n    x[0] = pb_one();\n}\n",
    "kernel_00000000000b": "static void kernel_00000000000b(float *x) {\n    kernel_00000000000a(x);\n}\n",
    "kernel_000000000001": "static int kernel_000000000001(float *x) {\n    return x[0] > 0;\n}\n",
}
REST = "int f(float *x) {\n    kernel_00000000000b(x);\n    return kernel_000000000001(x);\n}\n"


def test_a_small_file_is_one_unit() -> None:
    (unit,) = split(KERNELS, REST, lambda text: "/* preamble */\n")
    assert unit.startswith("/* preamble */")
    assert all(text in unit for text in (*KERNELS.values(), REST))


def test_units_have_what_they_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "LEAST", 0)
    monkeypatch.setattr(units, "UNIT", 50)
    first, *others = split(KERNELS, REST, lambda text: "/* one */\n" if "pb_one" in text else "")
    a, b, one = KERNELS
    assert first == f"\n{HIDDEN}void {b}(float *x);\n{HIDDEN}int {one}(float *x);\n\n{REST}"
    together = f"/* one */\n\n{KERNELS[a]}\n{KERNELS[b].replace('static ', HIDDEN)}"
    assert sorted(others) == sorted([together, f"\n{KERNELS[one].replace('static ', HIDDEN)}"])


def test_inline_kernels_stand_where_they_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "LEAST", 0)
    monkeypatch.setattr(units, "UNIT", 50)
    a, b, one = KERNELS
    inline = {n: t if n == b else t.replace("static ", "static inline ") for n, t in KERNELS.items()}
    first, together = split(inline, REST + a, lambda text: "")
    assert first == f"\n{HIDDEN}void {b}(float *x);\n\n{inline[a]}\n{inline[one]}\n{REST}{a}"
    assert together == f"\n{inline[a]}\n{KERNELS[b].replace('static ', HIDDEN)}"  # with what it calls


def test_what_several_kernels_use_joins_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "LEAST", 0)
    monkeypatch.setattr(units, "UNIT", 50)
    a, _, one = KERNELS
    shared = {**KERNELS, one: KERNELS[one].replace("return", f"{a}(x);\n    return")}
    _, *others = split(shared, REST, lambda text: "")
    declared = f"\n{HIDDEN}void {a}(float *restrict x);\n\n"
    shown = {n: t.replace("static ", HIDDEN) for n, t in shared.items()}
    both = "".join(sorted(others))
    assert all(t in both for t in (shown[a], declared))
    assert both.count(shown[a]) == 1


def test_the_caller_of_a_kernel_compiled_apart_knows_nothing_of_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "LEAST", 0)
    apart = {n: t.replace("static void", "static PB_APART void") for n, t in KERNELS.items()}
    first, *others = split(apart, REST, lambda text: "")
    assert "PB_APART" not in first
    assert any(f"{HIDDEN}PB_APART void" in t for t in others)


LAYERS = """layers(x: f32[40, 70], u: f32[70, 64], v: f32[64, 64], w: f32[64, 30]) {
  a = build n < 40, k < 64 { tanh(sum m < 70 { x[n, m] * u[m, k] }) }
  b = build n < 40, k < 64 { exp(sum m < 64 { a[n, m] * v[m, k] } * 0.01) }
  c = build n < 40, k < 30 { sum m < 64 { b[n, m] * w[m, k] } }
  s = build n < 40 { max k < 30 { c[n, k] } }
  return c, s }"""


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_units_compute_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(units, "LEAST", 0)
    monkeypatch.setattr(units, "UNIT", 500)
    program = parse_program(LAYERS)
    random = np.random.default_rng(0)
    arrays = [0.1 * random.standard_normal(s).astype(np.float32) for s in ((40, 70), (70, 64), (64, 64), (64, 30))]
    executable = compile_program(program, {})
    assert len(executable.record.units) > 2
    assert all(re.search(r"^__attribute__", u, re.MULTILINE) for u in executable.record.units)
    for got, wanted in zip(executable.run(arrays), interpret(program, arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


ROTATED = """rotated(x: f32[4], u: f32[200, 300], v: f32[300, 90]) {
  a = build n < 200, k < 90 { sum m < 300 { u[n, m] * v[m, k] } }
  y = fold t < TRIPS (q = x) {
    z = build n < 4 { q[n] * 0.5 + 1.0 }
    yield z }
  return a, y }"""


@pytest.mark.parametrize(("trips", "straight"), [(10, True), (100_000, False)])
def test_what_calls_kernels_is_not_optimized_where_it_computes_little(
    monkeypatch: pytest.MonkeyPatch, trips: int, straight: bool
) -> None:
    monkeypatch.setattr(units, "LEAST", 0)
    program = parse_program(ROTATED.replace("TRIPS", str(trips)))
    source = print_lowered(lower_program(program, {}, False, AVX512, threaded=True), names="content")
    assert len(source.units) > 1
    assert source.straight == straight
