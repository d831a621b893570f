"""The table of measured schedules: entries of the disk cache by statement and family of devices.

An entry is written when its statement is done. So a tuner that is interrupted leaves those that it has finished, and
processes need no lock. The cache tests what it reads, and an entry that was changed is measured anew. An entry only
names one of the schedules that strategies offer, so an entry that no longer fits changes nothing.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pullback.errors import CompilerError
from pullback.ir import nodes as ir
from pullback.ir.alone import scalars_of
from pullback.ir.alpha import alpha_key
from pullback.ir.identity import digest
from pullback.ir.index import Index, Var
from pullback.loops.plain.builder import Work
from pullback.loops.program.schedule import Chosen, Schedule
from pullback.runtime.cache import files, find, is_sound, keep
from pullback.runtime.record import fingerprint
from pullback.state import registered

KIND: Final = "tuned"
WORD: Final = re.compile(r"[^\s,:|×]+")
MOST_SAID: Final = 1024
_SAID: set[str] = registered(set(), MOST_SAID, stays="with the process: a warning is given once")


def say(what: str) -> None:
    """Warn, once for each text."""
    if what not in _SAID:
        if len(_SAID) >= MOST_SAID:
            _SAID.clear()
        _SAID.add(what)
        warnings.warn(f"{what} [E424]", RuntimeWarning, stacklevel=2)


class Table:
    """The measured schedules of a family of devices."""

    def __init__(self, family: str) -> None:
        self.family = family
        self._others: dict[str, set[str]] | None = None

    def find(self, statement: str, name: str) -> str | None:
        """The schedule of a statement; None if it was not measured.

        Args:
            statement: its key.   name: its name in messages.
        """
        found = find(KIND, self._key(statement))
        if found is not None:
            return str(json.loads(found.content)["schedule"])
        for path in self._damaged(statement):
            say(f"{name}: the measured schedule in {path} is damaged, and is measured anew")
            path.unlink(missing_ok=True)
        if others := self._of_others().get(statement):
            say(f"{name}: there is a measured schedule for {', '.join(sorted(others))}, which is not used for "
                f"{self.family}")
        return None

    def keep(self, statement: str, schedule: str) -> None:
        """Store the schedule of a statement."""
        row = {"family": self.family, "statement": statement, "schedule": schedule}
        keep(KIND, self._key(statement), json.dumps(row).encode(), ".json")

    def _key(self, statement: str) -> str:
        return digest(self.family, statement, fingerprint())

    def _damaged(self, statement: str) -> list[Path]:
        return [p for p in _entries() if p.name.startswith(f"{self._key(statement)}-") and not is_sound(p)]

    def _of_others(self) -> dict[str, set[str]]:
        """The other families for which a statement was measured."""
        if self._others is None:
            self._others = {}
            for path in _entries():
                if is_sound(path) and (row := json.loads(path.read_bytes()))["family"] != self.family:
                    self._others.setdefault(row["statement"], set()).add(row["family"])
        return self._others


def _entries() -> list[Path]:
    try:
        return files(KIND)
    except CompilerError:  # the cache is not used
        return []


# Keys -----------------------------------------------------------------------------------------------------------


def statement_key(work: Work, permitted: str) -> str | None:
    """The key of the statements of a kernel; None for a loop. Names of variables and arrays do not count.

    Args:
        permitted: the settings that permit further schedules.
    """
    statements = elementwise(work)
    if statements is None:
        return None
    key, refs = alpha_key(*statements)
    stored = [refs.index(o) for o in work.outs]
    return digest(_text(key), str(stored), str([r.storage.name for r in refs]), f"{work.exact} {permitted}")


def elementwise(work: Work) -> list[ir.Elementwise] | None:
    """The statements of a kernel; None if one of them is a loop."""
    found = [s for s in work.statements if isinstance(s, ir.Build | ir.Scatter | ir.Sort)]
    return found if len(found) == len(work.statements) else None


def _text(key: Any) -> str:
    """An alpha key as a text that is the same in all processes."""
    match key:
        case tuple():
            return f"({','.join(map(_text, key))})"
        case frozenset():
            return f"{{{','.join(sorted(map(_text, key)))}}}"
        case type():
            return key.__name__
        case ir.Const():
            return f"{key.dtype.name} {key.value!r}"
        case Var() | Index():
            return str(key)
        case _:
            return repr(key)


def schedule_text(name: str, schedule: Schedule, work: Work) -> str:
    """A candidate's name and schedule, with numbers for the names of variables and arrays."""
    known, numbers = set(_names(work)), dict[str, int]()

    def anonymous(m: re.Match[str]) -> str:
        return f"${numbers.setdefault(m[0], len(numbers))}" if m[0] in known else m[0]

    return f"{name}: {WORD.sub(anonymous, str(schedule))}"


def chosen_text(chosen: Chosen, work: Work) -> str:
    """The same for a kernel's choice."""
    return schedule_text(chosen.name, chosen.schedule, work)


def _names(work: Work) -> Iterator[str]:
    for s in elementwise(work) or ():
        yield from (v.name for v in s.vars)
        yield from (o.name for o in s.outs)
        for n in scalars_of(s):
            yield from (v.name for v in n.vars) if isinstance(n, ir.Reduce) else ()
            yield from (n.ref.name,) if isinstance(n, ir.Get) else ()
