"""A program in units is the same program; units are finished while it is lowered."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pullback.codegen.c import units
from pullback.codegen.c.units import HIDDEN, Units
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.machine import AVX512
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import lower_and_print, lower_program, print_lowered
from pullback.runtime.executor import compile_program

KERNELS = {
    "kernel_00000000000a": "static void kernel_00000000000a(float *restrict x) {\n    x[0] = pb_one();\n}\n",
    "kernel_00000000000b": "static void kernel_00000000000b(float *x) {\n    kernel_00000000000a(x);\n}\n",
    "kernel_000000000001": "static int kernel_000000000001(float *x) {\n    return x[0] > 0;\n}\n",
}
REST = "int f(float *x) {\n    kernel_00000000000b(x);\n    return kernel_000000000001(x);\n}\n"


def split(kernels: dict[str, str], rest: str, preamble: Callable[[str], str] = lambda text: "") -> tuple[str, ...]:
    file = Units(preamble)
    for name, text in kernels.items():
        file.add(name, text)
    return file.with_entry(rest)


def split_open(kernels: dict[str, str]) -> Units:
    """The kernels in a file that is not complete."""
    file = Units(lambda text: "")
    for name, text in kernels.items():
        file.add(name, text)
    return file


def lengths(monkeypatch: pytest.MonkeyPatch, least: int, most: int) -> None:
    """A file of any length is split, into units of these lengths."""
    monkeypatch.setattr(units, "SPLIT", 0)
    monkeypatch.setattr(units, "LEAST", least)
    monkeypatch.setattr(units, "MOST", most)


def test_a_small_file_is_one_unit() -> None:
    (unit,) = split(KERNELS, REST, lambda text: "/* preamble */\n")
    assert unit.startswith("/* preamble */")
    assert all(text in unit for text in (*KERNELS.values(), REST))


def test_units_have_what_they_call(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths(monkeypatch, 100, 100)
    first, *others = split(KERNELS, REST, lambda text: "/* one */\n" if "pb_one" in text else "")
    a, b, one = KERNELS
    assert first == f"\n{HIDDEN}void {b}(float *x);\n{HIDDEN}int {one}(float *x);\n\n{REST}"
    shown = {n: t.replace("static ", HIDDEN) for n, t in KERNELS.items()}
    assert others == [f"/* one */\n\n{shown[a]}\n{shown[b]}", f"\n{shown[one]}"]


def test_kernels_are_called_across_units(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths(monkeypatch, 1, 1)
    a, b, one = KERNELS
    shared = {**KERNELS, one: KERNELS[one].replace("return", f"{a}(x);\n    return")}
    _, *others = split(shared, REST)
    declared = f"{HIDDEN}void {a}(float *restrict x);\n"
    shown = {n: t.replace("static ", HIDDEN) for n, t in shared.items()}
    assert others == [f"\n{shown[a]}", f"\n{declared}\n{shown[b]}", f"\n{declared}\n{shown[one]}"]


def test_inline_kernels_stand_where_they_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths(monkeypatch, 1, 1)
    a, b, one = KERNELS
    inline = {n: t if n == b else t.replace("static ", "static inline ") for n, t in KERNELS.items()}
    first, together = split(inline, REST + a)
    assert first == f"\n{HIDDEN}void {b}(float *x);\n\n{inline[a]}\n{inline[one]}\n{REST}{a}"
    assert together == f"\n{inline[a]}\n{KERNELS[b].replace('static ', HIDDEN)}"  # with what it calls


def test_the_caller_of_a_kernel_compiled_apart_knows_nothing_of_that(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths(monkeypatch, 1, 1)
    apart = {n: t.replace("static void", "static PB_APART void") for n, t in KERNELS.items()}
    first, *others = split(apart, REST)
    assert "PB_APART" not in first
    assert any(f"{HIDDEN}PB_APART void" in t for t in others)


def many(count: int) -> dict[str, str]:
    """Kernels of 200 characters, named after digests of their texts."""
    bodies = [f"(float *x) {{\n    x[0] = {k}; /* {'.' * 110} */\n}}\n" for k in range(count)]
    names = [f"kernel_{hashlib.blake2b(t.encode(), digest_size=6).hexdigest()}" for t in bodies]
    return {n: f"static void {n}{t}" for n, t in zip(names, bodies, strict=True)}


def test_a_kernel_more_changes_one_unit_or_two(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths(monkeypatch, 1_500, 3_000)
    kernels = many(200)
    _, *before = split(kernels, "")
    assert len(before) > 10
    assert all(1_500 <= len(u) <= 4_000 for u in before[:-1])
    more = list(kernels.items())
    more.insert(50, next(iter(many(201).items() - kernels.items())))
    _, *after = split(dict(more), "")
    assert len(set(after) - set(before)) <= 2


def test_units_are_handed_on_when_the_file_is_certainly_split(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths(monkeypatch, 100, 100)
    monkeypatch.setattr(units, "SPLIT", 500)
    file, handed = Units(lambda text: ""), []
    for name, text in many(4).items():
        file.add(name, text)
        handed.append(len(file.finished))
    assert handed == [0, 0, 3, 4]
    assert tuple(file.finished) == file.with_entry("")[1:]


def test_the_last_unit_is_known_before_the_entry_function(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = many(4)
    whole = sum(map(len, kernels.values()))
    lengths(monkeypatch, whole, whole + 1)  # one unit, which does not end by itself
    file = split_open(kernels)
    rest = file.rest
    assert not file.finished and file.with_entry(REST)[1:] == (rest,)
    monkeypatch.setattr(units, "SPLIT", whole + 1)  # may yet be one unit with the entry function
    assert not split_open(kernels).rest


LAYERS = """layers(x: f32[40, 70], u: f32[70, 64], v: f32[64, 64], w: f32[64, 30]) {
  a = build n < 40, k < 64 { tanh(sum m < 70 { x[n, m] * u[m, k] }) }
  b = build n < 40, k < 64 { exp(sum m < 64 { a[n, m] * v[m, k] } * 0.01) }
  c = build n < 40, k < 30 { sum m < 64 { b[n, m] * w[m, k] } }
  s = build n < 40 { max k < 30 { c[n, k] } }
  return c, s }"""


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_units_compute_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    lengths(monkeypatch, 500, 500)
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
    lengths(monkeypatch, 500, 500)
    program = parse_program(ROTATED.replace("TRIPS", str(trips)))
    source = print_lowered(lower_program(program, {}, False, AVX512, threaded=True), names="content")
    assert len(source.units) > 1
    assert source.straight == straight


CHECKED = """checked(x: f32[300, 200], u: f32[200, 300], v: f32[300, 200], i: i64[300]) {
  a = build n < 300, k < 300 { sum m < 200 { x[n, m] * u[m, k] } }
  b = build n < 300, k < 300 { tanh(a[n, k] * 0.01) + a[n, k] }
  s = build n < 300 { x[n, 0] + 1.0 }
  c = build n < 300, k < 200 { b[check(i[n], 300), k] * s[n] }
  y = build n < 300, k < 200 { sum m < 300 { b[n, m] * v[m, k] } + c[n, k] }
  w = fold t < 3 (q = y) {
    r = build n < 300, k < 200 { exp(q[n, k] * 0.1) - q[n, 199 - k] }
    yield r }
  return y, w }"""


@pytest.mark.parametrize("text", [LAYERS, CHECKED, ROTATED.replace("TRIPS", "10")])
def test_units_finished_while_a_program_is_lowered_are_those_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    lengths(monkeypatch, 500, 500)
    program = parse_program(text)
    finished: list[str] = []
    lowered, source = lower_and_print(program, {}, AVX512, finished.append, lambda: None)
    assert finished
    assert finished == list(source.units[1 : len(finished) + 1])
    assert text is CHECKED or len(finished) == len(source.units) - 1  # checks wait for their numbers
    again = print_lowered(lower_program(program, {}, False, AVX512, threaded=True), names="content", comments=False)
    assert source.units == again.units
    named = print_lowered(lowered, comments=False)  # errors look up codes in it
    assert [s.statement for s in source.sites] == [s.statement for s in named.sites]
