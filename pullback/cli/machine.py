"""`pullback machine`: the assumed figures of a processor beside measured ones."""

from __future__ import annotations

import argparse
import inspect
import re
from dataclasses import asdict
from typing import Any

from pullback.cli.options import add_json
from pullback.cli.output import print_json, table
from pullback.machine import MACHINES, Machine, native, system_caches

__all__ = ["register", "run"]


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "machine",
        help="print the processor model that chooses kernels",
        description="Print the processor model by which kernels are chosen, by default that of this machine.",
        examples=("pullback machine", "pullback machine avx2", "pullback machine --measure"),
    )
    known = f"one of {', '.join(MACHINES)}"
    command.add_argument("name", nargs="?", choices=list(MACHINES), metavar="NAME", help=known)
    command.add_argument("--measure", action="store_true", help="also measure this machine; needs a C compiler")
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the record, with measured figures beside it."""
    machine = MACHINES[options.name] if options.name else native()
    meanings = dict(re.findall(r"^ +(\w+): (.*)$", inspect.getdoc(Machine) or "", re.MULTILINE))
    rows = [(name, _text(value), meanings[name]) for name, value in asdict(machine).items()]
    print(table(rows, right=[False, True, False]))
    found = system_caches()
    if found:
        print(f"\nThis system says that its caches have {_text(found)} bytes.")
    limits = _measured(machine) if options.measure else []
    if options.json:
        print_json({"machine": asdict(machine), "system_caches": found, "limits": limits})
    return 0


def _measured(machine: Machine) -> list[dict[str, Any]]:
    from pullback.runtime.limits import cycle, limits

    print(f"\nOne core, at {1e-9 / cycle():.2f} GHz by its additions of integers:\n")
    found = list(limits(machine))
    cells = [(x.name, x.unit, f"{x.assumed:.4g}", f"{x.measured:.3g}", f"{x.ratio:.2f}") for x in found]
    head = ("what", "unit", "estimates take", "measured", "ratio")
    print(table([head, *cells], right=[False, False, True, True, True]))
    return [x.row() for x in found]


def _text(value: Any) -> str:
    """A field's value as text: with thousands separators; several values with commas."""
    if isinstance(value, tuple | list):
        return ", ".join(map(_text, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}".replace(",", " ").removesuffix(".0")
    return str(value)
