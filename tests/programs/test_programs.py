"""Run every `.pb` file beside this one: parse, verify, count nodes, print and parse again, run."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pullback.errors import IndexRangeError, ParseError, PullbackError, VerifyError
from pullback.ir.dims import solve_dims
from pullback.ir.expr import Reduce
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program, structurally_equal
from pullback.ir.program import Build, Program, walk_statements
from pullback.ir.traverse import walk
from pullback.ir.verify import verify
from pullback.runtime.compile import compiler_command
from pullback.runtime.executor import compile_program

FILES = sorted(Path(__file__).parent.glob("*.pb"))


def comments(text: str) -> list[str]:
    return [line[1:].strip() for line in text.splitlines() if line.startswith("#")]


def value(text: str):
    names = {"nan": float("nan"), "inf": float("inf"), "true": True, "false": False}
    return eval(text, {"__builtins__": {}}, names)  # our own test files


def cases(text: str) -> list[dict[str, str]]:
    out: list[dict[str, str]] = [{}]
    for line in comments(text):
        if line == "---":
            out.append({})
        elif match := re.fullmatch(r"(-> )?(\w+) = (.*)", line):
            out[-1][(match[1] or "") + match[2]] = match[3]
        elif match := re.fullmatch(r"-> error (E\d+)", line):
            out[-1]["error"] = match[1]
    return [c for c in out if c]


def counts(p: Program) -> Counter[str]:
    found: Counter[str] = Counter()
    for s in walk_statements(p.body):
        if isinstance(s, Build):
            found["builds"] += 1
            found["reductions"] += sum(isinstance(e, Reduce) for v in s.values for e in walk(v))
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_program(file):
    text = file.read_text()
    for line in comments(text):
        if match := re.fullmatch(r"parse error (E\d+) (\d+):(\d+)", line):
            with pytest.raises(ParseError) as caught:
                parse_program(text, str(file))
            place = caught.value.position
            assert (caught.value.code, place.line, place.column) == (match[1], int(match[2]), int(match[3]))
            return
        if match := re.fullmatch(r"verify error (E\d+)", line):
            with pytest.raises(VerifyError) as wrong:
                verify(parse_program(text))
            assert wrong.value.code == match[1]
            return
    program = parse_program(text, str(file))
    assert program.name == file.stem
    verify(program)
    printed = print_program(program)
    again = parse_program(printed)
    assert print_program(again) == printed and structurally_equal(program, again)
    for line in comments(text):
        if re.match(r"\w+: \d", line):
            expected = dict(re.findall(r"(\w+): (\d+)", line))
            assert {k: counts(program)[k] for k in expected} == {k: int(v) for k, v in expected.items()}
    found = cases(text)
    assert found
    for case in found:
        run(program, case)


def run(program: Program, case: dict[str, str]) -> None:
    inputs = [np.array(value(case[r.name]), r.dtype.numpy).reshape((0,) * r.rank if case[r.name] == "[]" else
              np.shape(value(case[r.name]))) for r in program.inputs]
    sizes = {name: value(case[name]) for name in program.sizes}
    if "error" in case:
        with pytest.raises(PullbackError) as caught:
            interpret(program, inputs, sizes)
        assert caught.value.code == case["error"]
        if case["error"] == "E401" and compiler_command() is not None:
            with pytest.raises(IndexRangeError):
                compile_program(program, solve_dims(program, [a.shape for a in inputs], sizes)).run(inputs)
        return
    compare(program, case, interpret(program, inputs, sizes))
    if compiler_command() is not None:
        dims = solve_dims(program, [a.shape for a in inputs], sizes)
        if all(dims.values()):
            compare(program, case, compile_program(program, dims).run(inputs))


def compare(program: Program, case: dict[str, str], outs) -> None:
    for name, out, ref in zip(program.output_names, outs, program.outputs, strict=True):
        expected = np.array(value(case[f"-> {name}"]), ref.dtype.numpy)
        assert out.dtype == ref.dtype.numpy
        if out.dtype.kind == "f":
            np.testing.assert_allclose(out, expected, rtol=1e-6 if out.itemsize == 4 else 1e-14, err_msg=name)
            np.testing.assert_array_equal(np.signbit(out), np.signbit(expected))
        else:
            np.testing.assert_array_equal(out, expected, err_msg=name)
