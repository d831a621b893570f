"""Plain C of every program of the corpus: what it is written with, two strict compilers, the interpreter's numbers.

    python -m tests.plain_corpus [--most OPERATIONS]

Programs of more operations than `--most` take too long in the interpreter: their numbers are compared with those of C
with vectors, which has been compared with it on sizes that it can do.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pullback.bench.corpus import corpus, difference
from pullback.bench.trials import Called, arguments
from pullback.cli.bench import example_modules
from pullback.codegen.targets import PLAIN_C, TARGETS
from pullback.ir.program import Program
from pullback.machine import GENERIC, SCALAR
from pullback.runtime.emit import lower_program, print_lowered
from pullback.runtime.export import export
from pullback.runtime.record import Record
from tests.unit.codegen.test_plain import COMPILERS, words_of_vectors


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


def large(program: Program, dims: Mapping[str, int], folder: Path) -> str:
    """What is wrong with a program that takes too long in the interpreter, beside C with vectors."""
    outputs = []
    for target in TARGETS:
        lowered = lower_program(program, dims, False, target.machine(GENERIC))
        source = print_lowered(lowered, comments=False, target=target)
        record = Record.of(lowered.function, source)
        called = Called(replace(record, units=(source.text,), straight=False), arguments(record))
        called.seconds()
        outputs.append(called.outputs)
    (folder / "program.c").write_text(source.text)
    if wrong := "".join(words_of_vectors(source.text)) or built(folder, ["program.c"], link=False):
        return wrong
    apart = difference(*outputs)
    return f"differs by {apart:.1e} from C with vectors" if apart > 1e-3 else ""


def run(program: Program, dims: Mapping[str, int], most: float) -> tuple[str, str]:
    """What the numbers were compared with, and what is wrong."""
    operations = lower_program(program, dims, False, SCALAR).function.operations
    beyond = (operations.constant or 0) > most
    with tempfile.TemporaryDirectory() as folder:
        wrong = (large if beyond else small)(program, dims, Path(folder))
    return "" if wrong else "C with vectors" if beyond else "the interpreter", wrong


def run_all(most: float) -> int:
    """All programs; how many are wrong."""
    counts: Counter[str] = Counter()
    for entry in corpus(example_modules(Path("examples"))):
        try:
            compared, wrong = run(*entry.make(), most)
        except Exception as error:  # said, and the next one is tried
            compared, wrong = "", f"{type(error).__name__}: {error}"[:300]
        counts[compared or "wrong"] += 1
        print(f"{entry.name}: {wrong or compared}", flush=True)
    print(", ".join(f"{n} programs {'with the numbers of ' * (what != 'wrong')}{what}" for what, n in counts.items()))
    return counts["wrong"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=float, default=2e6)
    raise SystemExit(run_all(parser.parse_args().most) > 0)
