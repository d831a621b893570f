"""C for all sizes at the ends of its integers: it takes dims where no number that it computes of them wraps."""

from __future__ import annotations

import subprocess
from itertools import product
from math import prod
from pathlib import Path

import pytest

from pullback.codegen.targets import PLAIN_C, C
from pullback.ir.dims import determined_dims, evaluate, holds
from pullback.ir.index import Index
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.loops.program.nodes import For, kernels_of, walk
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import Lowered, emit_c, lower_program

OUTER = "build n < N, m < M { x[n] * y[m] }"
PROGRAMS = [parse_program(text) for text in (
    f"no_arena(x: f64[N], y: f64[M]) {{ z = {OUTER} return z }}",
    f"an_arena(x: f64[N], y: f64[M]) {{ z = {OUTER} s = sort n < N, m < M {{ z[n, m] }} "
    "r = build m < M { sum n < N { s[n, m] } } return r }",
    "of_bools(x: f64[N], y: f64[M]) { z = build n < N, m < M { x[n] < y[m] } return z }",
    "of_one(x: f64[N]) { y = build n < N { 2.0 * x[n] } return y }",
    "total(x: f64[N], y: f64[M]) { s = build { sum k < N * M { x[k // M] * y[k % M] } } return s }",
    "a_square(x: u8[N], y: u8[M]) where N * N >= M { z = build n < N { x[n] } return z }",
    "a_window(x: f64[N], w: f64[M]) where N >= 2 * M "
    "{ z = build n < N - 2 * M + 1 { sum m < M { x[n + 2 * m] * w[m] } } return z }",
    "of_three(x: f64[N, M], y: f64[K]) { z = build n < N, m < M, k < K { x[n, m] + y[k] } return z }",
)]
ENDS = (-(1 << 63), -(1 << 62), -1, 0, 1, 2, 3, 500, 3_037_000_499, 3_037_000_500, 1 << 32, (1 << 59) - 1,
        (1 << 60) + 1, (1 << 62) - 1, 1 << 62, (1 << 63) - 1)  # fmt: skip
LARGEST = (1 << 63) - 1
NO_SIZE = (1 << 64) - 1
TRAPS = ("-w", "-O0", "-fsanitize=signed-integer-overflow,float-cast-overflow", "-fsanitize-undefined-trap-on-error")
CLEAN = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror")


def ends_of_loops(lowered: Lowered) -> list[Index]:
    f = lowered.function
    loops = (s.upper for body in (f.body, *(k.body for k in kernels_of(f.body))) for s in walk(body)
             if isinstance(s, For))  # fmt: skip
    return [u for u in dict.fromkeys(loops) if isinstance(u, Index) and not u.free]


def numbers(program: Program, lowered: Lowered, loops: list[Index], dims: dict[str, int]) -> list[int]:
    """The bytes of the arrays and of the arena, the ends of loops and the sides of conditions, exactly."""
    f = lowered.function
    arrays = [r.dtype.size * prod(evaluate(d, dims) for d in r.shape) for r in (*program.inputs, *program.outputs)]
    sides = [c * prod(dims[str(a)] for a in m) for need in f.needs for m, c in need.index.terms]
    return [abs(n) for n in (*arrays, *sides, *(evaluate(u, dims) for u in loops), lowered.memory.bytes_at(dims))]


def c_integer(n: int) -> str:
    return f"INT64_C({n})" if n > -(1 << 63) else "INT64_MIN"


def run(folder: Path, plain: bool) -> tuple[list[tuple[int, dict[str, int]]], list[str]]:
    """Dims for each program, and beside them the lines that C prints: the bytes of the arena, the code of a call."""
    rows: list[tuple[int, dict[str, int]]] = []
    declared, calls = [], []
    for k, program in enumerate(PROGRAMS):
        source = emit_c(program, {}, target=PLAIN_C if plain else C)
        (folder / f"{k}.c").write_text(source.text, encoding="utf-8")
        assert set(source.dims) == set(determined_dims(program))
        parameters = ", ".join(["int64_t"] * len(source.dims))
        declared += [f"size_t {source.name}_arena_bytes({parameters});", f"int {source.name}();"]
        arrays = "0, " * (len(program.inputs) + len(program.outputs))
        for values in product(ENDS if len(source.dims) < 3 else ENDS[3::2], repeat=len(source.dims)):
            given = ", ".join(map(c_integer, values))
            rows.append((k, dict(zip(source.dims, values, strict=True))))
            calls.append(f"SHOW({source.name}_arena_bytes({given}), {source.name}({arrays}{given}, 0, 0))")
    text = ["#include <stdint.h>", "#include <stdio.h>", *declared, "static size_t b;",
            '#define SHOW(bytes, call) b = bytes; printf("%zu %d\\n", b, b == SIZE_MAX ? call : 0); fflush(stdout);',
            "int main(void) {", *calls, "return 0;", "}"]  # fmt: skip
    (folder / "main.c").write_text("\n".join(text), encoding="utf-8")
    cc = compiler_command() or ()
    sources = [str(folder / f"{k}.c") for k in range(len(PROGRAMS))]
    for path in sources if plain else ():
        subprocess.run([*cc, *CLEAN, "-c", path, "-o", str(folder / "x.o")], check=True)
    command = [*cc, *TRAPS, *sources, str(folder / "main.c"), "-o", str(folder / "main"), "-lm"]
    subprocess.run(command, check=True)
    ended = subprocess.run([str(folder / "main")], capture_output=True, text=True, check=False)
    lines = ended.stdout.splitlines()
    assert ended.returncode == 0, f"a number wraps: {PROGRAMS[rows[len(lines)][0]].name}, {rows[len(lines)][1]}"
    return rows, lines


@pytest.mark.slow
@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
@pytest.mark.parametrize("plain", [False, True], ids=["vectors", "plain"])
def test_at_the_ends_of_integers(tmp_path: Path, plain: bool) -> None:
    lowered = [lower_program(p, {}) for p in PROGRAMS]
    loops = [ends_of_loops(made) for made in lowered]
    counts = {"refused": 0, "too large": 0, "taken": 0}
    for (k, dims), line in zip(*run(tmp_path, plain), strict=True):
        found, code = map(int, line.split())
        about = f"{PROGRAMS[k].name}, {dims}: {line}"
        known = numbers(PROGRAMS[k], lowered[k], loops[k], dims)
        if not all(holds(c, dims) for c in lowered[k].function.needs):
            assert found == NO_SIZE, about
            assert code == -1 or (code == -2 and sum(known) > LARGEST // 4), about
            counts["refused"] += 1
        elif found == NO_SIZE:
            assert code == -2, about
            assert sum(known) > LARGEST // 4, about
            counts["too large"] += 1
        else:
            assert max(known) <= LARGEST, about
            assert found == lowered[k].memory.bytes_at(dims), about
            counts["taken"] += 1
    assert min(counts.values()) > 100, counts
