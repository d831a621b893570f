"""`pullback cache`: list, check and clear compiled programs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from pullback.cli.options import add_json
from pullback.cli.output import print_json, table
from pullback.runtime.cache import KINDS, age, cache_folder, files, is_sound, remove_abandoned
from pullback.runtime.record import REFUSED_SECONDS

__all__ = ["register", "run"]


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "cache",
        help="list, check or clear the compilation cache",
        description="List the entries of the compilation cache, check that they are undamaged, or remove them.",
        examples=("pullback cache", "pullback cache clear --kind libraries"),
    )
    command.add_argument("action", nargs="?", default="list", choices=("list", "check", "clear"), metavar="ACTION",
                         help="list (the default), check or clear")  # fmt: skip
    command.add_argument("--kind", action="append", choices=KINDS, metavar="KIND",
                         help=f"only entries of this kind: {', '.join(KINDS)}; repeat for others")  # fmt: skip
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """List, check or clear the entries."""
    found = {kind: files(kind) for kind in options.kind or KINDS}
    damaged: list[Path] = []
    print(f"the cache folder {cache_folder()}")
    if options.action == "list":
        made = _listed(found)
    elif options.action == "check":
        damaged = [p for paths in found.values() for p in paths if not is_sound(p)]
        made = {"entries": _count(found), "damaged": [str(p) for p in damaged]}
        print(f"{made['entries']} entries, {len(damaged)} not as they were written:" if damaged else
              f"{made['entries']} entries, all as they were written")  # fmt: skip
        for path in damaged:
            print(path)
    else:
        made = {"removed": _count(found), "bytes": sum(map(_bytes, found.values()))}
        for path in (p for paths in found.values() for p in paths):
            path.unlink(missing_ok=True)
        made["abandoned"] = remove_abandoned()
        print(f"entries removed: {made['removed']}, {made['bytes']:,} bytes")
    if options.json:
        print_json({"folder": str(cache_folder()), **made})
    return 1 if damaged else 0


def _listed(found: dict[str, list[Path]]) -> dict[str, Any]:
    rows = [(kind, f"{len(paths)}", f"{_bytes(paths):,}") for kind, paths in found.items()]
    print(table([("kind", "entries", "bytes"), *rows], right=[False, True, True]))
    refused = [{"program": json.loads(p.read_bytes())["name"], "hours": left}
               for p in found.get("refused", ()) if (left := (REFUSED_SECONDS - age(p)) / 3600) > 0 and is_sound(p)]
    for r in refused:
        print(f"refused by the compiler: {r['program']}, which is plain C for {r['hours']:.1f} hours more")
    return {"kinds": {kind: {"entries": len(paths), "bytes": _bytes(paths)} for kind, paths in found.items()},
            "refused": refused}  # fmt: skip


def _count(found: dict[str, list[Path]]) -> int:
    return sum(map(len, found.values()))


def _bytes(paths: list[Path]) -> int:
    return sum(p.stat().st_size for p in paths if p.exists())
