"""Random programs through the whole compiler, under sanitizers, against the interpreter.

python -m tests.support.fuzz --programs 2000 --seed 0
python -m tests.support.fuzz --derivatives --programs 2000 --seed 0 --routes interpreter

With `--derivatives`, programs are source text of the public language, and what they and their derivatives give is
held to the oracle (`differential`). Without, they are programs of the core. Each is compiled in one way drawn from
its seed: memory mode, number of threads (with all loops shared out that can be, however small), vector width, C for
its dims or for all. A batch of programs becomes one executable under the address and undefined-behavior sanitizers.
Every array is memory of its own of just its size, and the arena is filled with a pattern. Results are compared with
`interpret_with_bounds`: integers and bools are equal, floating-point numbers within twice the bound that rounding
allows.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from pullback.codegen.target import Source
from pullback.ir.dims import evaluate
from pullback.loops.memory.plan import plan
from pullback.loops.memory.verify import verify_function
from pullback.loops.threads import parallel
from pullback.runtime.compile import find_compiler
from pullback.runtime.emit import lower_program, print_lowered, with_mode
from pullback.runtime.record import ROOT
from pullback.single_flight import deep_recursion
from tests.support.bounds import interpret_with_bounds
from tests.support.differential import ROUTES, Route, Tally, differential
from tests.support.programs import Case, random_program
from tests.support.ways import Way

__all__ = ["Failure", "Way", "fuzz", "main"]

NDArray = np.ndarray[Any, Any]
FLAGS: Final = ("-std=gnu99", "-O1", "-g0", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-pthread", "-w",
                "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-sanitize=float-divide-by-zero")
POISON: Final = 0xA5


@dataclass(frozen=True)
class Failure:
    """A program that went wrong: its seed, how it was compiled, and what happened."""

    seed: int
    way: Way
    what: str

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.way}: {self.what}"


@dataclass(frozen=True)
class _Member:
    """One program of a batch."""

    seed: int
    way: Way
    case: Case
    source: Source


def fuzz(seeds: Sequence[int], note: Callable[[str], None] = lambda text: None, batch: int = 25) -> list[Failure]:
    """Compile and run the programs of these seeds.

    Args:
        seeds: what each program and its way are drawn from.
        note: called with a line about progress after every batch.
        batch: programs in one executable.
    Returns:
        The failures, none where all is well.
    Raises:
        CompilerError: [E410] there is no C compiler.
    """
    failures: list[Failure] = []
    for first in range(0, len(seeds), batch):
        failures += _batch(seeds[first : first + batch])
        note(f"{min(first + batch, len(seeds))} of {len(seeds)} programs, {len(failures)} failures")
    return failures


def _batch(seeds: Sequence[int]) -> list[Failure]:
    members: list[_Member] = []
    failures: list[Failure] = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        case, way = random_program(rng), Way.drawn(rng)
        try:
            members.append(_Member(seed, way, case, _source(seed, case, way)))
        except Exception as error:  # whatever it is, it is a finding
            failures.append(Failure(seed, way, f"{type(error).__name__}: {error}"))
    with tempfile.TemporaryDirectory(prefix="pullback-fuzz-") as folder:
        return failures + _run(members, Path(folder))


def _source(seed: int, case: Case, way: Way) -> Source:
    """The C of a program, verified."""
    program = with_mode(replace(case.program, name=f"p{seed}"), way.mode)
    made = lower_program(program, {} if way.all_sizes else case.dims, False, way.machine)
    if way.threads > 1 and not way.all_sizes:
        with deep_recursion():
            function = parallel.parallelize(made.function)
            made = replace(made, function=function, memory=plan(function))
    verify_function(made.function, made.memory)
    return print_lowered(made, comments=False)


def _run(members: Sequence[_Member], folder: Path) -> list[Failure]:
    """Compile the batch, run every member, compare."""
    if not members:
        return []
    files = []
    for m in members:
        files.append(folder / f"{m.source.name}.c")
        files[-1].write_text(m.source.text, encoding="utf-8")
    files += [folder / "main.c", Path(ROOT, "runtime", "c", "pool.c")]
    files[-2].write_text(_main(members), encoding="utf-8")
    command = [*find_compiler().command, *FLAGS, *map(str, files), "-o", str(folder / "fuzz"), "-lm"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        return [Failure(members[0].seed, members[0].way, f"the batch does not compile: {made.stderr[:2000]}")]
    return [f for k, m in enumerate(members) if (f := _compared(m, k, folder)) is not None]


def _compared(m: _Member, number: int, folder: Path) -> Failure | None:
    with (folder / "in").open("wb") as f:
        for a in m.case.inputs:
            f.write(np.ascontiguousarray(a).tobytes())
    done = subprocess.run([str(folder / "fuzz"), str(number), str(folder / "in"), str(folder / "out")],
                          capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        return Failure(m.seed, m.way, f"status {done.returncode}: {done.stderr[:2000]}")
    data = (folder / "out").read_bytes()
    values, bounds = interpret_with_bounds(m.case.program, m.case.inputs, m.case.sizes)
    for ref, value, bound in zip(m.case.program.outputs, values, bounds, strict=True):
        size = value.size * ref.dtype.numpy.itemsize
        got = np.frombuffer(data[:size], ref.dtype.numpy).reshape(value.shape)
        data = data[size:]
        if ref.dtype.is_floating:
            known = np.isfinite(bound)
            wrong = not (np.abs(got - value)[known] <= 2 * bound[known]).all()
        else:
            wrong = not np.array_equal(got, value)
        if wrong:
            return Failure(m.seed, m.way, f"{ref.name} is {got.tolist()} and should be {np.asarray(value).tolist()}")
    return None


MAIN: Final = """\
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void *pb_pool_of(int64_t workers);

static void *take(FILE *f, size_t size) {{
    void *p = malloc(size);
    if (size && fread(p, 1, size, f) != size) exit(90);
    return p;
}}

static void *space(size_t size) {{
    void *p = NULL;
    if (size && posix_memalign(&p, 64, size)) exit(91);
    if (size) memset(p, {poison}, size);
    return p;
}}
{functions}
int main(int count, char **words) {{
    static int (*const runs[])(FILE *, FILE *) = {{{names}}};
    FILE *in = fopen(words[2], "rb"), *out = fopen(words[3], "wb");
    if (count != 4 || !in || !out) return 92;
    const int code = runs[atoi(words[1])](in, out);
    fclose(in);
    fclose(out);
    return code;
}}
"""


def _main(members: Sequence[_Member]) -> str:
    """The program that runs one member: it reads the inputs, calls, and writes the outputs."""
    names = ", ".join(f"run_{m.source.name}" for m in members)
    return MAIN.format(poison=POISON, functions="".join(map(_runner, members)), names=names)


def _runner(m: _Member) -> str:
    s, program = m.source, m.case.program
    dims = [m.case.dims[name] for name in s.dims]
    sizes = [a.nbytes for a in m.case.inputs]
    results = [prod(evaluate(d, m.case.dims) for d in r.shape) * r.dtype.numpy.itemsize for r in program.outputs]
    arena = f"{s.arena_bytes} + {m.way.threads - 1} * {s.worker_bytes}"
    lines = [f"int {s.name}();"]
    if s.arena_declaration:
        arena = f"(size_t){s.name}_arena_bytes({', '.join(f'(int64_t){d}' for d in dims)})"
        lines.append(f"{s.arena_declaration.rstrip(';')};")
    arguments = [f"in{k}" for k in range(len(sizes))] + [f"out{k}" for k in range(len(results))]
    arguments += [f"(int64_t){d}" for d in dims] + ["arena"]
    arguments += ["fault"] * bool(s.sites) + [f"pb_pool_of({m.way.threads})"] * s.threaded
    lines += [f"static int run_{s.name}(FILE *in, FILE *out) {{", "    int64_t fault[2];", "    (void)fault;"]
    lines += [f"    void *in{k} = take(in, {n});" for k, n in enumerate(sizes)]
    lines += [f"    void *out{k} = space({n});" for k, n in enumerate(results)]
    lines += [f"    void *arena = space({arena});", f"    const int code = {s.name}({', '.join(arguments)});"]
    lines += [f"    fwrite(out{k}, 1, {n}, out);" for k, n in enumerate(results)]
    lines += [f"    free({name});" for name in ("arena", *arguments[: len(sizes) + len(results)])]
    return "\n".join(["", *lines, "    return code;", "}", ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: prints progress and failures; status 1 where there are any."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--programs", type=int, default=2000, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first; the next count up")
    parser.add_argument("--derivatives", action="store_true", help="programs of source text against the oracle")
    parser.add_argument("--routes", default="interpreter,c", help="how they are run; each has its own programs")
    parser.add_argument("--hours", type=float, default=float("inf"), help="begin nothing after so long")
    parser.add_argument("--longest", type=int, help="the most letters of a program of source text")
    parser.add_argument("--as-drawn", action="store_true", help="do not make programs with a fault small")
    options = parser.parse_args(arguments)
    seeds = range(options.seed, options.seed + options.programs)
    if not options.derivatives:
        failures = fuzz(seeds, _note)
        for f in failures:
            print(f)
        return 1 if failures else 0
    until = time.time() + 3600 * options.hours
    tally = Tally()
    for route in _routes(parser, options.routes):
        show = lambda fault: print(fault, flush=True)
        tally.add(differential(seeds, route, _note, show, shrink=not options.as_drawn, until=until,
                               longest=options.longest))
    return 1 if tally.faults else 0


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _routes(parser: argparse.ArgumentParser, text: str) -> list[Route]:
    """The routes of a list."""
    known = {str(r): r for r in ROUTES}
    if unknown := [r for r in text.split(",") if r not in known]:
        parser.error(f"--routes: {unknown[0]} is none of {', '.join(ROUTES)}")
    return [known[r] for r in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
