"""`python -m tests.support.targets`: the table of compilers, targets and programs."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pullback.errors import PullbackError, UsageError
from pullback.files import put_file
from tests.support.targets.programs import PROGRAMS, Programs
from tests.support.targets.table import Cell, build, markdown, projects
from tests.support.targets.toolchains import Toolchain, selected


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the table; 1 where a cell failed, 2 where what is asked for is not there."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.targets", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="rows with one of these in their names")
    parser.add_argument("--programs", nargs="+", default=[], metavar="NAME", help="columns")
    parser.add_argument("--list", action="store_true", help="say which compilers are here, and build nothing")
    parser.add_argument("--out", metavar="FILE", help="write the table there")
    options = parser.parse_args(arguments)
    try:
        toolchains, programs = selected(options.only), _programs(options.programs)
    except PullbackError as error:
        print(error, file=sys.stderr)
        return 2
    absent = {t: f"there is no {t.missing}" for t in toolchains if t.missing}
    absent |= {t: why for t in toolchains if t not in absent and (why := t.sound())}
    if options.list:
        print("\n".join(f"{t.name:48} {absent.get(t, 'here')}" for t in toolchains))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        rows = _rows([t for t in toolchains if t not in absent], programs, Path(folder))
    text = markdown(rows, absent)
    print(text)
    if options.out:
        put_file(Path(options.out), text.encode())
    return int(any(cell.fault for cells in rows.values() for cell in cells.values()))


def _programs(names: Sequence[str]) -> Programs:
    for name in names:
        if name not in PROGRAMS:
            raise UsageError(
                "E610",
                f"--programs: there is no program {name!r}",
                facts=[", ".join(PROGRAMS)],
                remedy="--programs lenet",
            )
    return {name: PROGRAMS[name] for name in names or PROGRAMS}


def _rows(toolchains: Sequence[Toolchain], programs: Programs, folder: Path) -> dict[Toolchain, dict[str, Cell]]:
    """All cells, one row after another; each is told as it comes."""
    made = projects(programs, folder)
    rows: dict[Toolchain, dict[str, Cell]] = {}
    for toolchain in toolchains:
        rows[toolchain] = {}
        for name, project in made.items():
            cell = rows[toolchain][name] = build(toolchain, project, folder)
            print(f"{toolchain.name}: {name}: {cell.text}", file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
