"""How strong the tests are: small wrong changes of the compiler, and whether the quick suite notices each.

    python -m tests.mutation                                    300 mutants of the default files
    python -m tests.mutation --files pullback/ad/edges.py       all of one file
    python -m tests.mutation --count 50 --seed 7                some others
    python -m tests.mutation --suite tests/unit/loops --files 'pullback/loops/b*.py'

A mutant that no test notices is printed as a diff, and the exit status is 1, unless `explained.toml` says why it means
the same. The tests are those of the file `tests/quick`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.mutation.mutants import ROOT, Mutant, mutants_of, sample
from tests.mutation.plugin import Mutation, Outcome

DEFAULT = (
    "pullback/ir/primitives/*.py", "pullback/ad/*.py", "pullback/rewrite/*.py", "pullback/rewrite/rules/*.py",
    "pullback/passes/*.py", "pullback/verbs/*.py",
)
EXPLAINED = Path(__file__).parent / "explained.toml"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.partition("\n")[0])
    parser.add_argument("--files", nargs="+", default=DEFAULT, help="files to change, or patterns of them")
    parser.add_argument("--functions", nargs="+", help="only in functions with these qualified names")
    parser.add_argument("--count", type=int, help="how many; by default 300, or all of the files named")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--suite", nargs="+", default=["@tests/quick"], help="tests, as pytest takes them")
    parser.add_argument("--record", type=Path, help="where to keep which test runs which lines")
    parser.add_argument("--reuse", action="store_true", help="use that record though files have changed since")
    parser.add_argument("--patience", type=float, default=float("inf"), help="seconds of tests for each mutant at most")
    options = parser.parse_args(arguments)

    files = sorted({str(p.relative_to(ROOT)) for pattern in options.files for p in ROOT.glob(pattern)})
    mutants = [m for f in files for m in mutants_of(f) if not options.functions or m.function in options.functions]
    count = options.count or (300 if options.files is DEFAULT else len(mutants))
    chosen = sample(mutants, count, options.seed)
    explained = reasons()
    survivors: list[Outcome] = []
    start = time.monotonic()

    def report(o: Outcome) -> None:
        reason = explained.get(key(o.mutant))
        if o.killer is not None:
            verdict = f"killed by {o.killer}"
        elif reason is not None:
            verdict = f"explained: {reason}"
        else:
            verdict = f"SURVIVED {o.tests} tests {o.detail}".rstrip()
            survivors.append(o)
        print(f"{o.seconds:6.1f} s  {o.mutant}\n          {verdict}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("PULLBACK_CACHE_DIR", f"{folder}/cache")
        record = options.record or Path(folder) / "record"
        plugin = Mutation(chosen, record, options.reuse, options.jobs, options.patience, report)
        flags = ["-qq", "-s", "-p", "no:cacheprovider", "-p", "no:xdist"]
        os.chdir(ROOT)
        status = pytest.main([*flags, *options.suite], plugins=[plugin])
    killed = sum(o.killer is not None for o in plugin.outcomes)
    for o in survivors:
        print(f"\n{o.mutant}\n{o.mutant.diff()}")
    print(f"\n{len(mutants)} mutants, {len(plugin.outcomes)} tried with seed {options.seed}: {killed} killed, "
          f"{len(plugin.outcomes) - killed - len(survivors)} explained, {len(survivors)} survived; "
          f"{sum(o.seconds for o in plugin.outcomes):.0f} s of processor, {time.monotonic() - start:.0f} s")
    return 1 if survivors or status else 0


def key(m: Mutant) -> tuple[str, str, str, str]:
    """What names a mutant though lines are moved."""
    return m.file, m.function, " ".join(m.before.split()), m.after


def reasons() -> dict[tuple[str, str, str, str], str]:
    """Why a mutant that survives means the same."""
    rows = tomllib.loads(EXPLAINED.read_text(encoding="utf-8")).get("mutant", [])
    return {(r["file"], r["function"], r["before"], after): r["reason"] for r in rows for after in r["after"]}


if __name__ == "__main__":
    sys.exit(main())
