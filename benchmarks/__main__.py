"""The command line `python -m benchmarks`, also `pullback bench`: compare with peers and C."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from benchmarks.examples import example_modules
from benchmarks.suite import chosen, markdown
from pullback.cli.options import Parser, add_json, at_least
from pullback.cli.output import print_json, reported, table
from pullback.errors import UsageError

__all__ = ["main"]

SUITES = ("zhang", "derivatives", "kernels", "programs", "threads", "sizes", "counts", "arrays", "lazy", "networks",
          "dynamic", "first_calls", "device", "corpus")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print a table.

    Args:
        arguments: the command line without the program's name; by default that of this process.
    Returns:
        The exit status: 1 where nothing could be measured, or an operation count is above its bar.
    Raises:
        UsageError: [E601], [E605] what is asked for is not there.
    """
    options = _parser().parse_args(arguments)
    own = {"counts": _counts, "corpus": _corpus}
    rows = own.get(options.suite, _measured)(options)
    if options.json:
        print_json({"rows": rows})
    return 0 if rows or options.suite == "corpus" else 1


def _parser() -> Parser:
    command = Parser(
        prog="pullback bench",
        description="Measure Pullback, the installed peers and hand-written C at the same work, in turns.",
    )
    add = command.add_argument
    add("suite", choices=SUITES, help="the suite to run")
    add("--cases", nargs="+", metavar="CASE", help="run only these cases of the suite (default: all)")
    add("--sizes", nargs="+", type=at_least(1), metavar="N", help="derivatives: run only these sizes (default: all)")
    add("--dtypes", nargs="+", choices=("float32", "float64"), default=["float32", "float64"],
        help="zhang: run these element types")
    systems = ("pullback", "numpy", "numexpr", "jax", "torch", "cupy", "casadi", "pytensor",
               "tapenade", "c")
    add("--systems", nargs="+", choices=systems, help="measure only these systems (default: all that are installed)")
    add("--threads", nargs="+", type=at_least(1), default=[1], metavar="N",
        help="the number of threads of each system; dynamic: run once for each of several numbers")
    add("--rounds", type=at_least(1), default=7, metavar="N", help="repeat each measurement this often")
    add("--examples", type=Path, default=Path("examples"), metavar="DIR", help="counts, corpus: the folder of examples")
    add("--save", type=Path, metavar="DIR", help="corpus: write the C of all programs to this folder")
    add("--against", type=Path, metavar="DIR", help="corpus: list programs whose C differs from that in this folder")
    add("--time", action="store_true", help="corpus: time the old and the new C of these programs, in turns")
    add("--candidates", type=at_least(1), metavar="N", nargs="?", const=1,
        help="corpus: time all candidates of every Nth statement, and report how often the estimate chose the fastest")
    add("--schedules", type=at_least(1), metavar="N", nargs="?", const=1,
        help="corpus: do so for other tiles and vectors of the chosen candidate")
    add("--tune", action="store_true", help="device: time kernels as estimated, tuned, and with libraries")
    add("--slow-forms", action="store_true", help="zhang, programs: include forms whose first call takes minutes")
    add("--markdown", action="store_true", help="print a table in Markdown")
    add("--tapenade", type=Path, metavar="DIR",
        help="derivatives: a folder of C that Tapenade generated, such as a copy of ADBench or GradBench")
    add("--plot", type=Path, metavar="FILE", help="programs: write a plot as .png, .svg or .pdf (needs matplotlib)")
    add_json(command)
    return command


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _cases(options: argparse.Namespace, known: tuple[str, ...]) -> tuple[str, ...]:
    """The cases asked for, by their names or else by what these begin with.

    Raises:
        UsageError: [E605] one of them is not there.
    """
    found = chosen(options.cases or (), known)
    unknown = [case for case, names in found.items() if not names]
    if unknown:
        raise UsageError("E605", f"{unknown[0]}: no such case", facts=("cases: " + ", ".join(known),), remedy=known[1])
    return tuple(k for k in known if not found or any(k in names for names in found.values()))


def _threads(options: argparse.Namespace, suite: Any) -> Any:
    """The number of threads, or all of them for a suite that compares some.

    Raises:
        UsageError: [E601] several, and the suite measures one.
    """
    if getattr(suite, "COMPARES_THREADS", False):
        return options.threads
    if len(options.threads) > 1:
        raise UsageError("E601", f"bench {options.suite}: several numbers of threads", remedy="one, or `dynamic`")
    return options.threads[0]


def _measured(options: argparse.Namespace) -> Any:
    """Run a suite: a module with CASES, HEAD, `cells` and `bench_<suite>`, which takes some options."""
    suite = import_module(f"benchmarks.{options.suite}")
    measure = getattr(suite, f"bench_{options.suite}")
    asked = {
        **vars(options),
        "cases": _cases(options, tuple(getattr(c, "name", c) for c in suite.CASES)),
        "systems": options.systems or getattr(suite, "SYSTEMS", ()),
        "threads": _threads(options, suite),
        "note": _note,
    }
    rows = measure(**{name: asked[name] for name in signature(measure).parameters if name in asked})
    lines = suite.cells(rows)
    if options.markdown:
        print(markdown(suite.HEAD, lines))
    else:
        print(table([suite.HEAD, *lines], right=[k >= getattr(suite, "NAMES", 1) for k in range(len(suite.HEAD))]))
    if options.plot and rows and hasattr(suite, "plot"):
        suite.plot(rows, options.plot)
    return rows


def _counts(options: argparse.Namespace) -> Any:
    from benchmarks.counts import BAR, HEAD, WITHOUT, cases, cells

    found = list(cases(example_modules(options.examples, WITHOUT)))
    names = _cases(options, tuple(case.name for case in found))
    counts = [case.count() for case in found if case.name in names]
    print(table([HEAD, *cells(counts)], right=[False, True, True, True]))
    over = [c.name for c in counts if c.ratio > BAR]
    if over:
        _note(f"more than {BAR:g} times the function: {', '.join(over)}")
        return []
    return [{"case": c.name, "function": c.function, "with_gradient": c.both} for c in counts]


def _corpus(options: argparse.Namespace) -> Any:
    """The texts that differ from what was saved, or else all, each with its program, form and digest."""
    from benchmarks import corpus
    from benchmarks.trials import schedule_trial, trial

    found = list(corpus.corpus(example_modules(options.examples)))
    names = _cases(options, tuple(e.name for e in found))
    entries = [e for e in found if e.name in names]
    if options.candidates or options.schedules:
        of = trial if options.candidates else schedule_trial
        tried = list(corpus.trials(entries, _note, options.candidates or options.schedules, of))
        print("\n".join(corpus.judged(tried)))
        return [{"statement": t.name, "ratio": t.ratio, "chosen": str(t.tried[0].chosen),
                 "fastest": str(t.fastest.chosen)} for t in tried]
    if options.against is None:
        made = corpus.save(entries, options.save, _note) if options.save else corpus.made(entries, _note)
        print(f"{len(made)} texts of {len(entries)} programs")
        return [{"program": t.name, "form": t.form, "digest": t.digest} for t in made]
    pairs = corpus.differing(entries, options.against, _note)
    for before, now in pairs:
        print(f"{'differs' if before else 'is new'}: {now.name} ({now.form})")
    print(f"{len(pairs)} texts of {len(entries)} programs differ")
    if options.time:
        print("\n".join(corpus.figures(corpus.timings(pairs, _note))))
    return [{"program": t.name, "form": t.form, "digest": t.digest} for _, t in pairs]


if __name__ == "__main__":
    sys.exit(reported(main))
