"""Plain C of every program of the corpus: what it is written with, two strict compilers, the interpreter's numbers.

    python -m tests.plain_corpus [PROGRAM ..]

Programs of more operations than MOST take too long in the interpreter: their numbers are compared with those of C with
vectors, which has been compared with it on sizes that it can do. Those of more than LONGEST are compiled and not run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.corpus import corpus, difference
from benchmarks.examples import example_modules
from pullback.codegen.targets import PLAIN_C, TARGETS
from pullback.ir.program import Program
from pullback.machine import GENERIC, SCALAR
from pullback.runtime.emit import lower_program, print_lowered
from pullback.runtime.export import export
from pullback.runtime.record import Record
from pullback.runtime.timing import Called, arguments
from tests.unit.codegen.test_plain import COMPILERS, words_of_vectors

MOST = 2e6  # operations for the interpreter
LONGEST = 3e8  # and for loops without vectors


def built(folder: Path, files: list[str], link: bool) -> str:
    """What strict compilers say of these files; nothing where all take them without a word."""
    for name, command in COMPILERS.items():
        out = ["-o", name, "-lm"] if link else ["-c"]
        words = [*command, *files, *out]
        made = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
        if made.returncode or made.stdout + made.stderr:
            return f"{name}: {made.stdout}{made.stderr}"[:300]
    return ""


def small(program: Program, dims: Mapping[str, int], folder: Path) -> str:
    """What is wrong with an export's own comparison with the interpreter, by each compiler."""
    files = [f for f in export(program, dims, folder, target=PLAIN_C)["files"] if f.endswith(".c")]
    (text,) = (Path(f).read_text() for f in files if not f.endswith("main.c"))
    if wrong := "".join(words_of_vectors(text)) or built(folder, files, link=True):
        return wrong
    for name in COMPILERS:
        ran = subprocess.run([folder / name], capture_output=True, text=True, check=False, timeout=300)
        if "0 numbers differ" not in ran.stdout:
            return f"{name}: {ran.stdout}{ran.stderr}"[:300]
    return ""


def large(program: Program, dims: Mapping[str, int], folder: Path, ran: bool) -> str:
    """What is wrong with a program that takes too long in the interpreter, beside C with vectors where it is run."""
    outputs = []
    for target in TARGETS:
        lowered = lower_program(program, dims, False, target.machine(GENERIC))
        source = print_lowered(lowered, names="canonical", comments=False, target=target)  # `step` is libc's, too
        record = Record.of(lowered.function, source)
        if ran:
            called = Called(replace(record, units=(source.text,), straight=False), arguments(record))
            called.seconds()
            outputs.append(called.outputs)
    (folder / "program.c").write_text(source.text)
    if wrong := "".join(words_of_vectors(source.text)) or built(folder, ["program.c"], link=False):
        return wrong
    apart = difference(*outputs) if ran else 0.0
    return f"differs by {apart:.1e} from C with vectors" if apart > 1e-3 else ""


def run(program: Program, dims: Mapping[str, int]) -> tuple[str, str]:
    """What the numbers were compared with, and what is wrong."""
    operations = lower_program(program, dims, False, SCALAR).function.operations.constant or 0
    with tempfile.TemporaryDirectory() as folder:
        if operations <= MOST:
            return "with the numbers of the interpreter", small(program, dims, Path(folder))
        ran = operations <= LONGEST
        found = "with the numbers of C with vectors" if ran else "compiled"
        return found, large(program, dims, Path(folder), ran)


def run_all(names: Sequence[str]) -> int:
    """These programs, or all; how many are wrong."""
    counts: Counter[str] = Counter()
    for entry in corpus(example_modules(Path("examples"))):
        if names and entry.name not in names:
            continue
        try:
            found, wrong = run(*entry.make())
        except Exception as error:  # said, and the next one is tried
            found, wrong = "", f"{type(error).__name__}: {error}"[:300]
        counts["wrong" if wrong else found] += 1
        print(f"{entry.name}: {wrong or found}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    return counts["wrong"]


if __name__ == "__main__":
    raise SystemExit(run_all(sys.argv[1:]) > 0)
