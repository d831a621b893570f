"""The record of a processor: what it says by name and by width, and that estimates listen to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pullback.errors import UsageError
from pullback.ir.parser import parse_program
from pullback.loops.product.blocking import Blocks, RegisterTile, tiles
from pullback.machine import AVX2, AVX512, GENERIC, MACHINES, NEON, SCALAR, SSE2, Machine, native, of_width
from pullback.runtime.emit import emit_c
from pullback.runtime.record import record_key

PRODUCT = (
    "f(x: f32[64, 200], y: f32[200, 96]) { z = build m < 64, n < 96 { sum k < 200 { x[m, k] * y[k, n] } } return z }"
)


@pytest.mark.parametrize(("vector_bytes", "like"), [(0, SCALAR), (16, SSE2), (32, AVX2), (64, AVX512)])
def test_by_width(vector_bytes: int, like: Machine) -> None:
    assert of_width(vector_bytes, like.portable) == like


def test_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, machine in MACHINES.items():
        monkeypatch.setenv("PULLBACK_MACHINE", name)
        assert native() == machine
        assert native().cores >= 1
    monkeypatch.setenv("PULLBACK_MACHINE", "cray")
    with pytest.raises(UsageError, match="E601"):
        native()


def test_programs_are_kept_for_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    program = parse_program(PRODUCT)
    keys = set()
    for name in MACHINES:
        monkeypatch.setenv("PULLBACK_MACHINE", name)
        keys.add(record_key(program, {}))
    assert len(keys) == len(MACHINES)


def test_what_is_not_in_the_name_is_in_the_key() -> None:
    other = replace(AVX2, caches=(1 << 14, 1 << 18, 1 << 22))
    assert other != AVX2
    assert str(other) != str(AVX2)
    assert replace(AVX2, cores=64) == AVX2


def test_registers_limit_tiles() -> None:
    def most(machine: Machine) -> int:
        return max(t.rows * t.vectors for t in tiles(machine, 4, 1000))

    assert most(SSE2) <= 15 < most(NEON)
    assert RegisterTile(14, 2, 4) not in tiles(SSE2, 4, 1000)


def test_blocks_follow_the_caches() -> None:
    assert Blocks.of(GENERIC) == Blocks(512, 256 * 1024, 512 * 1024, 16 * 1024, 4 * 1024 * 1024)
    assert Blocks.of(NEON).inner == 2 * Blocks.of(GENERIC).inner


def test_neon_holds_more_sums_than_sse() -> None:
    """Vectors of 16 bytes both, but twice the registers."""
    program = parse_program(PRODUCT)
    texts = {m.name: emit_c(program, {}, machine=m).text for m in (SSE2, NEON)}
    assert "pb_f32x4" in texts["neon"]
    assert texts["neon"] != texts["sse2"]


def test_without_vectors() -> None:
    assert AVX512.plain.lanes(4) == 1
    assert AVX512.narrowed(32).operation(32) == 1.0
    assert AVX512.operation(64) > AVX512.operation(32)
    assert "pb_f32x" not in emit_c(parse_program(PRODUCT), {}, machine=AVX512.plain).text
