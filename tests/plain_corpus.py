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
from pathlib import Path
from typing import Any

import numpy as np

from pullback.bench.corpus import corpus
from pullback.cli.bench import example_modules
from pullback.codegen.targets import PLAIN_C
from pullback.ir.program import Program
from pullback.machine import SCALAR
from pullback.runtime.emit import lower_program
from pullback.runtime.executor import compile_program
from pullback.runtime.export import export
from tests.unit.codegen.test_plain import COMPILERS, words_of_vectors


def by_vectors(program: Program, inputs: Any) -> Any:
    """The numbers of C with vectors; no distance is allowed beyond the general one."""
    outputs = [np.asarray(a) for a in compile_program(program, {}).run(list(inputs))]
    return outputs, [np.full(a.shape, np.inf) for a in outputs]


def run(program: Program, dims: Mapping[str, int], most: float) -> tuple[str, str]:
    """What the numbers were compared with, and what is wrong."""
    operations = lower_program(program, dims, False, SCALAR).function.operations
    large = (operations.constant or 0) > most
    with tempfile.TemporaryDirectory() as folder:
        made = export(program, dims, folder, reference=by_vectors if large else None, target=PLAIN_C)
        text = Path(next(f for f in made["files"] if f.endswith(".c") and not f.endswith("main.c"))).read_text()
        if found := words_of_vectors(text):
            return "", f"words of vectors: {found[:3]}"
        for name, command in COMPILERS.items():
            example = Path(folder, name)
            files = [f for f in made["files"] if f.endswith(".c")]
            words = [*command, *files, "-o", str(example), "-lm"]
            built = subprocess.run(words, capture_output=True, text=True, check=False)
            if built.returncode or built.stdout + built.stderr:
                return "", f"{name}: {built.stdout}{built.stderr}"[:300]
            if large and name == "tcc":
                continue  # which optimises nothing
            ran = subprocess.run([example], capture_output=True, text=True, check=False, timeout=300)
            if "0 numbers differ" not in ran.stdout:
                return "", f"{name}: {ran.stdout}{ran.stderr}"[:300]
    return "C with vectors" if large else "the interpreter", ""


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
