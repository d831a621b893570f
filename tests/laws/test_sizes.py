"""The law of C for all sizes: one text gives at any size what the interpreter gives, and what C for that size gives."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback.errors import IndexRangeError
from pullback.ir.dims import evaluate, has_empty_extent, holds, needed_conditions
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.ir.traverse import specialize
from pullback.ir.types import f32
from pullback.loops.memory.verify import verify_function
from pullback.runtime.compile import compiler_command
from pullback.runtime.executor import compile_general, compile_program
from pullback.runtime.export import export
from tests.examples.test_examples import FUNCTIONS
from tests.programs.test_programs import FILES
from tests.strict import STRICT
from tests.support.bounds import interpret_with_bounds
from tests.support.programs import random_program
from tests.unit.runtime.programs import CASES

pytestmark = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")

PROGRAMS = {name: text for name, (text, _) in CASES.items()} | {
    f.stem: text for f in FILES if "# parse error" not in (text := f.read_text()) and "# verify error" not in text
}
SIZES = (1, 2, 7, 8, 9, 15, 16, 17)
SANITISED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def some_dims(program: Program, rng: np.random.Generator, count: int) -> list[dict[str, int]]:
    """Dims that the program takes: small ones, primes, powers of two and their neighbors."""
    needs = needed_conditions(program)
    names = sorted({s.name for c in needs for s in c.index.symbols})
    tried = [dict(zip(names, rng.choice(SIZES, len(names)).tolist(), strict=True)) for _ in range(40 * count)]
    fitting = [d for d in tried if all(holds(c, d) for c in needs)]
    return fitting[:count] if names else []


def some_inputs(program: Program, dims: Mapping[str, int], rng: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    out = []
    for r in program.inputs:
        shape = tuple(evaluate(d, dims) for d in r.shape)
        low, high = (evaluate(b, dims) for b in r.bounds) if r.bounds else (0, 2 if r.dtype.is_bool else 4)
        a = rng.standard_normal(shape) if r.dtype.is_floating else rng.integers(low, high, shape)
        out.append(np.asarray(a).astype(r.dtype.numpy))
    return out


def close(got: Any, wanted: Any, program: Program) -> None:
    tolerance = 2e-4 if any(r.dtype is f32 for r in program.inputs) else 1e-10
    for g, w in zip(got, wanted, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        if w.dtype.kind == "f":
            scale = max(1.0, float(np.abs(w[np.isfinite(w)]).max(initial=0.0)))
            np.testing.assert_allclose(g, w, rtol=0, atol=tolerance * scale)
        else:
            np.testing.assert_array_equal(g, w)


WITHOUT_DIMS = {"at_most", "collatz", "newton", "numbers", "results_over_what_is_read"}


@pytest.mark.parametrize("name", sorted(WITHOUT_DIMS))
def test_programs_without_dims(name: str) -> None:
    assert needed_conditions(parse_program(PROGRAMS[name])) == ()


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in WITHOUT_DIMS])
def test_one_text_serves_all_sizes(name: str) -> None:
    rng = np.random.default_rng(3)
    program = parse_program(PROGRAMS[name])
    sizes = some_dims(program, rng, 5)
    assert sizes
    general = compile_general(program)
    verify_function(general.lowered.function, general.lowered.memory)
    for dims in sizes:
        inputs = some_inputs(program, dims, rng)
        given = {n: dims[n] for n in program.sizes}
        executable = general.at(dims)
        try:
            wanted = interpret(program, inputs, given)
        except IndexRangeError as error:
            if not general.record.sites:
                continue  # text that is not verified may need more of its dims than it says
            with pytest.raises(IndexRangeError) as caught:
                executable.run(inputs)
            assert caught.value.code == error.code
            continue
        got, peak, stray = executable.run_poisoned(inputs)
        assert (peak <= executable.arena_bytes, stray) == (True, 0)
        close(got, wanted, program)
        if dims is sizes[-1]:
            close(compile_program(program, dims).run(inputs), got, program)


@pytest.mark.parametrize("name", [n for n, (_, dims) in FUNCTIONS.items() if dims and "batches" not in n])
def test_examples(name: str) -> None:
    rng = np.random.default_rng(7)
    function, dims = FUNCTIONS[name]
    program = function.program()
    general = compile_general(program)
    verify_function(general.lowered.function, general.lowered.memory)
    for here in (dims, *some_dims(program, rng, 1)):
        inputs = some_inputs(program, here, rng)
        executable = general.at(here)
        got, peak, stray = executable.run_poisoned(inputs)
        assert (peak <= executable.arena_bytes, stray) == (True, 0)
        close(got, interpret(program, inputs, {n: here[n] for n in program.sizes}), program)


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_random_programs(seed: int) -> None:
    case = random_program(np.random.default_rng(seed))
    assert case.dims and not has_empty_extent(case.program, case.dims)
    values, bounds = interpret_with_bounds(case.program, case.inputs, case.sizes)
    outs = compile_general(case.program).at(case.dims).run(list(case.inputs))
    for ref, out, wanted, bound in zip(case.program.outputs, outs, values, bounds, strict=True):
        if ref.dtype.is_floating:
            known = np.isfinite(bound)
            assert (np.abs(out - wanted)[known] <= 2 * bound[known]).all(), (ref.name, out, wanted, bound)
        else:
            np.testing.assert_array_equal(out, wanted, err_msg=ref.name)


def test_some_dims_given_and_others_not() -> None:
    rng = np.random.default_rng(5)
    program = parse_program(CASES["dense"][0])
    general = compile_general(program, {"M": 7})
    assert general.record.dims == ("N", "K")
    for n, k in ((1, 1), (5, 3), (33, 16)):
        dims = {"N": n, "M": 7, "K": k}
        inputs = some_inputs(program, dims, rng)
        close(general.at(dims).run(inputs), interpret(program, inputs), program)


@pytest.mark.parametrize("name", ["dense", "padded", "descent", "same_init", "gathered", "slices"])
def test_exported_strict_and_sanitised(name: str, tmp_path: Path) -> None:
    program = parse_program(CASES[name][0])
    export(program, {}, tmp_path)
    sources = [str(p) for p in sorted(tmp_path.glob("*.c"))]
    for flags in (SANITISED, ("-DPB_NO_VECTORS",)):
        subprocess.run(["cc", *STRICT, *flags, *sources, "-o", str(tmp_path / "example"), "-lm"], check=True)
        result = subprocess.run([tmp_path / "example"], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "0 numbers differ" in result.stdout


def test_given_dims_leave_a_program_without_them() -> None:
    program = parse_program(CASES["dense"][0])
    assert needed_conditions(specialize(program, {"N": 2, "M": 3, "K": 4})) == ()
