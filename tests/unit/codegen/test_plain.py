"""Plain C, the second target: no word of vectors, every strict compiler takes it, and the interpreter's numbers."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from benchmarks.corpus import random
from pullback.cli.main import main
from pullback.codegen.targets import PLAIN_C, TARGETS
from pullback.ir.parser import parse_program
from pullback.ir.primitive import PRIMITIVES
from pullback.ir.program import Program
from pullback.ir.types import DTYPES, HALVES, f32
from pullback.loops.program.values import Type, scalar
from pullback.machine import MACHINES
from pullback.runtime.emit import c_source
from pullback.runtime.export import export
from tests.support.targets.toolchains import WARNINGS
from tests.unit.codegen.programs import PROGRAMS
from tests.unit.runtime.programs import CASES

COMPILERS = {
    "gcc": ("gcc", "-O0", "-std=c99", "-pedantic", *WARNINGS),
    "tcc": ("tcc", "-std=c99", "-Wall", "-Werror"),
}
VECTORS = re.compile(r"__\w+|\bPB_\w+|#(?:if|pragma|define).*|\bpb_\w*x\d+\w*|\battribute\b|\basm\b|\bunion\b")


def words_of_vectors(text: str) -> list[str]:
    """What stands in a text that plain C has not."""
    return VECTORS.findall(re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))


Made = tuple[Program, Mapping[str, int]]


def parsed(text: str, dims: Mapping[str, int]) -> Made:
    """A program from its text."""
    return parse_program(text), dims


ALL: dict[str, Callable[[], Made]] = {
    **{name: partial(f.for_dims, dims) for name, (f, dims) in PROGRAMS.items()},
    **{f"case {name}": partial(parsed, *case) for name, case in CASES.items()},
    **{f"random {seed}": partial(random, seed) for seed in range(8)},
}


@pytest.mark.parametrize("name", ALL)
def test_every_compiler_has_the_numbers_of_the_interpreter(name: str, tmp_path: Path) -> None:
    files = export(*ALL[name](), tmp_path, target=PLAIN_C)["files"]
    sources = [f for f in files if f.endswith(".c")]
    (text,) = (Path(f).read_text() for f in sources if not f.endswith("main.c"))
    assert words_of_vectors(text) == []
    for compiler, words in COMPILERS.items():
        if shutil.which(compiler) is None:
            continue
        built = subprocess.run([*words, *sources, "-o", "example", "-lm"], capture_output=True, text=True,
                               check=False, cwd=tmp_path)  # fmt: skip
        assert (built.returncode, built.stdout + built.stderr) == (0, "")
        ran = subprocess.run([tmp_path / "example"], capture_output=True, text=True, check=False, timeout=60)
        assert "0 numbers differ" in ran.stdout, ran.stdout + ran.stderr


def test_it_is_the_c_one_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    function, dims = PROGRAMS["softmax"]
    plain, text = function.c_source(plain=True, **dims), function.c_source(**dims)
    assert len(plain) < len(text) / 2 and plain.count("for (") < text.count("for (")
    assert "pb_exp_f32x8" in text and "expf(" in plain
    file = tmp_path / "f.py"
    file.write_text("import pullback as pb\nfrom pullback import Array\nfrom jaxtyping import Float32\n\n"
                    '@pb.function\ndef twice(x: Float32[Array, "64"]):\n    return pb.exp(x) * 2\n')
    assert main(["explain", f"{file}:twice", "--plain"]) == 0
    shown = capsys.readouterr().out.partition("#include")[2]
    assert "expf(x[" in shown and words_of_vectors(shown) == []


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_targets_have_a_word_for_everything_of_one_lane(target) -> None:
    """Types, numbers, primitives and conversions, for every type of element."""
    words = target.words()
    for d in (*DTYPES, *HALVES):
        assert words.type(scalar(d)).isidentifier() and words.number(1, d)
    for row in PRIMITIVES:
        for d in DTYPES:
            if d.kind in row.kinds:
                assert "{0}" in words.primitive(row, scalar(d))
    for a in (*DTYPES, *HALVES):
        for b in (*DTYPES, *HALVES):
            if a is not b and not ((a.is_half or b.is_half) and not (a.is_floating or b.is_floating)):
                assert "{0}" in words.conversion(scalar(a), scalar(b))


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda m: m.name)
def test_plain_c_is_lowered_for_no_vectors(machine) -> None:
    assert PLAIN_C.machine(machine).vector_bytes == 0
    with pytest.raises(AssertionError, match="f32x8: plain C has no vectors"):
        PLAIN_C.words().type(Type(f32, 8))


def test_names_that_compare_programs() -> None:
    text, dims = next(iter(CASES.values()))
    assert c_source(parse_program(text), dims, "canonical", comments=False, plain=True).count("int program(") == 1
