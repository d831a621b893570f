"""`pullback bench`: measure against peers and hand-written C."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from pullback.cli.options import add_json, at_least
from pullback.cli.output import print_json, table

__all__ = ["register", "run"]


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "bench",
        help="measure against peers and hand-written C",
        description="Run the same work by Pullback, the peers that are installed and hand-written C, interleaved.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = command.add_argument
    add("suite", choices=("zhang",), help="what to measure")
    add("--cases", nargs="+", metavar="CASE", help="start, train-1000, recognise-10000 (default: all)")
    add("--dtypes", nargs="+", choices=("float32", "float64"), default=["float32", "float64"], help="element types")
    add("--systems", nargs="+", choices=("pullback", "jax", "torch", "c"), default=["c", "pullback", "jax", "torch"])
    add("--threads", type=at_least(1), default=1, metavar="N", help="processors for everyone")
    add("--rounds", type=at_least(1), default=7, metavar="N", help="repetitions of each")
    add("--slow-forms", action="store_true", help="also forms whose first call takes very long")
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure and print a table."""
    from pullback.bench import CASES, bench_zhang
    from pullback.errors import UsageError

    unknown = [case for case in options.cases or () if case not in CASES]
    if unknown:
        raise UsageError("E605", f"{unknown[0]}: no such case", facts=("cases: " + ", ".join(CASES),), remedy=CASES[1])
    rows = bench_zhang(
        cases=options.cases or CASES,
        dtypes=options.dtypes,
        systems=options.systems,
        threads=options.threads,
        rounds=options.rounds,
        slow_forms=options.slow_forms,
        note=lambda text: print(text, file=sys.stderr, flush=True),
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
    if options.json:
        print_json({"rows": rows})
    return 0 if rows else 1
