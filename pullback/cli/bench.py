"""`pullback bench`: measure against peers and hand-written C."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from pullback.cli.options import add_json, at_least, import_file
from pullback.cli.output import print_json, table

__all__ = ["example_modules", "register", "run"]

SUITES = ("zhang", "derivatives", "kernels", "programs", "threads", "counts", "arrays")


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "bench",
        help="measure against peers and hand-written C",
        description="Run the same work by Pullback, the peers that are installed and hand-written C, interleaved.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = command.add_argument
    add("suite", choices=SUITES, help="what to measure")
    add("--cases", nargs="+", metavar="CASE", help="cases of the suite (default: all)")
    add("--sizes", nargs="+", type=at_least(1), metavar="N", help="derivatives: only these sizes (default: all)")
    add("--dtypes", nargs="+", choices=("float32", "float64"), default=["float32", "float64"], help="zhang: types")
    systems = ("pullback", "numpy", "jax", "torch", "casadi", "c")
    add("--systems", nargs="+", choices=systems, help="which (default: all)")
    add("--threads", type=at_least(1), default=1, metavar="N", help="processors for everyone")
    add("--rounds", type=at_least(1), default=7, metavar="N", help="repetitions of each")
    add("--examples", type=Path, default=Path("examples"), metavar="DIR", help="counts: where the examples are")
    add("--slow-forms", action="store_true", help="zhang, programs: also forms whose first call takes very long")
    add("--markdown", action="store_true", help="derivatives, kernels, programs, arrays: print in Markdown")
    add("--plot", type=Path, metavar="FILE", help="programs: also a plot, as .png, .svg or .pdf (needs matplotlib)")
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure and print a table."""
    suites = (_zhang, _derivatives, _kernels, _programs, _threads, _counts, _arrays)
    rows = dict(zip(SUITES, suites, strict=True))[options.suite](options)
    if options.json:
        print_json({"rows": rows})
    return 0 if rows else 1


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _cases(options: argparse.Namespace, known: tuple[str, ...]) -> tuple[str, ...]:
    """The cases asked for, by their names or else by what these begin with.

    Raises:
        UsageError: [E605] one of them is not there.
    """
    from pullback.errors import UsageError

    found = {case: [k for k in known if k == case] or [k for k in known if k.startswith(case)]
             for case in options.cases or ()}
    unknown = [case for case, names in found.items() if not names]
    if unknown:
        raise UsageError("E605", f"{unknown[0]}: no such case", facts=("cases: " + ", ".join(known),), remedy=known[1])
    return tuple(k for k in known if not found or any(k in names for names in found.values()))


def _threads(options: argparse.Namespace) -> Any:
    from pullback.bench.threads import CASES, HEAD, bench_threads, cells

    rows = bench_threads(
        cases=_cases(options, CASES), threads=max(2, options.threads), rounds=max(50, options.rounds), note=_note
    )
    print(table([HEAD, *cells(rows)], right=[False] + [True] * (len(HEAD) - 1)))
    return rows


def _zhang(options: argparse.Namespace) -> Any:
    from pullback.bench.zhang import CASES, SYSTEMS, bench_zhang

    rows = bench_zhang(
        cases=_cases(options, CASES),
        dtypes=options.dtypes,
        systems=options.systems or SYSTEMS,
        threads=options.threads,
        rounds=options.rounds,
        slow_forms=options.slow_forms,
        note=_note,
    )
    head = ("case", "dtype", "system", "form", "median ms", "min", "max", "first call")
    cells = [
        (
            *(row["case"], row["dtype"], row["system"], row["form"]),
            *(f"{1e3 * t:.2f}" for t in (row["median"], row["minimum"], row["maximum"], row["first_call"])),
        )
        for row in rows
    ]
    print(table([head, *cells], right=[False] * 4 + [True] * 4))
    return rows


def _derivatives(options: argparse.Namespace) -> Any:
    from pullback.bench.derivatives import CASES, HEAD, SYSTEMS, bench_derivatives, cells, markdown

    rows = bench_derivatives(
        cases=_cases(options, tuple(c.name for c in CASES)),
        sizes=options.sizes,
        systems=options.systems or SYSTEMS,
        threads=options.threads,
        rounds=options.rounds,
        note=_note,
    )
    right = [False] + [True] * (len(HEAD) - 1)
    print(markdown(rows) if options.markdown else table([HEAD, *cells(rows)], right=right))
    return rows


def _kernels(options: argparse.Namespace) -> Any:
    from pullback.bench.kernels import CASES, HEAD, SYSTEMS, bench_kernels, cells, markdown

    rows = bench_kernels(
        cases=_cases(options, tuple(c.name for c in CASES)),
        systems=options.systems or SYSTEMS,
        threads=options.threads,
        rounds=options.rounds,
        note=_note,
    )
    right = [False] + [True] * (len(HEAD) - 1)
    print(markdown(rows) if options.markdown else table([HEAD, *cells(rows)], right=right))
    return rows


def _arrays(options: argparse.Namespace) -> Any:
    from pullback.bench.arrays import CASES, HEAD, SYSTEMS, bench_arrays, cells, markdown

    rows = bench_arrays(
        cases=_cases(options, tuple(c.name for c in CASES)),
        systems=options.systems or SYSTEMS,
        threads=options.threads,
        rounds=options.rounds,
        note=_note,
    )
    right = [False] + [True] * (len(HEAD) - 1)
    print(markdown(rows) if options.markdown else table([HEAD, *cells(rows)], right=right))
    return rows


def _programs(options: argparse.Namespace) -> Any:
    from pullback.bench.programs import CASES, HEAD, SYSTEMS, bench_programs, cells, markdown, plot

    rows = bench_programs(
        cases=_cases(options, tuple(c.name for c in CASES)),
        systems=options.systems or SYSTEMS,
        threads=options.threads,
        rounds=options.rounds,
        slow_forms=options.slow_forms,
        note=_note,
    )
    right = [False] + [True] * (len(HEAD) - 1)
    print(markdown(rows) if options.markdown else table([HEAD, *cells(rows)], right=right))
    if options.plot and rows:
        plot(rows, options.plot)
    return rows


def _counts(options: argparse.Namespace) -> Any:
    from pullback.bench.counts import BAR, HEAD, cases, cells

    found = list(cases(example_modules(options.examples)))
    names = _cases(options, tuple(case.name for case in found))
    counts = [case.count() for case in found if case.name in names]
    print(table([HEAD, *cells(counts)], right=[False, True, True, True]))
    over = [c.name for c in counts if c.ratio > BAR]
    if over:
        _note(f"more than {BAR:g} times the function: {', '.join(over)}")
        return []
    return [{"case": c.name, "function": c.function, "with_gradient": c.both} for c in counts]


def example_modules(directory: Path) -> dict[str, Any]:
    """The modules of a directory of examples by name, `name` or `folder.name`."""
    found = sorted(directory.rglob("*.py"))
    return {".".join(path.relative_to(directory).with_suffix("").parts): import_file(path) for path in found}
