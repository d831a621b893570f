"""Shared parts of suites: the choice of cases, and table lines from times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.environment import limit_threads
from benchmarks.harness import Contender, Note, Row, measure

__all__ = ["Group", "Line", "chosen", "lines", "markdown", "measure_groups", "microseconds", "row_of_limit", "shown"]

Group = tuple[Sequence[Contender], Callable[[], Row] | None]  # who is measured together, and a limit to stand beside
LIMITS = ("peak", "roofline")  # what the processor could do at best


def chosen(asked: Sequence[str], known: Sequence[str]) -> dict[str, list[str]]:
    """For each case asked for those of that name, or else those whose names begin so."""
    return {name: [k for k in known if k == name] or [k for k in known if k.startswith(name)] for name in asked}


def measure_groups(
    groups: Iterable[Group], *, threads: int, rounds: int, budget: float, tolerance: float, note: Note
) -> list[Row]:
    """Measure the contenders of each group against one another, with `threads` processors for everyone."""
    limit_threads(threads)
    rows: list[Row] = []
    for contenders, limit in groups:
        rows += measure(contenders, rounds=rounds, budget=budget, tolerance=tolerance, note=note)
        if limit is not None:
            rows.append(limit())
    return rows


def row_of_limit(case: str, system: str, form: str, dtype: str, threads: int, seconds: float) -> Row:
    """A row of what cannot be faster."""
    return Row(case=case, system=system, form=form, dtype=dtype, threads=threads, median=seconds, minimum=seconds,
               maximum=seconds, first_call=seconds)


@dataclass(frozen=True)
class Line:
    """A table line: the minimal seconds of each system's fastest form; None if it has none."""

    case: str
    times: Mapping[str, float | None]

    def ratio(self, a: str | None, b: str) -> float | None:
        """Time of a by time of b."""
        x, y = self.times.get(a) if a is not None else None, self.times.get(b)
        return x / y if x is not None and y is not None else None

    @property
    def best_peer(self) -> str | None:
        """The fastest system that is neither hand-written nor ours."""
        peers = {s: t for s, t in self.times.items() if t is not None and s not in ("c", "pullback", *LIMITS)}
        return min(peers, key=lambda s: peers[s]) if peers else None


def lines(rows: Sequence[Row], systems: Sequence[str]) -> list[Line]:
    """The rows by case."""
    out: dict[str, dict[str, float | None]] = {}
    for row in rows:
        times = out.setdefault(row["case"], dict.fromkeys((*systems, *LIMITS)))
        before = times[row["system"]]
        times[row["system"]] = row["minimum"] if before is None else min(before, row["minimum"])
    return [Line(case, times) for case, times in out.items()]


def shown(value: float | None, form: str = ".2f", unit: str = "") -> str:
    """A number of a cell, or a dash."""
    return "–" if value is None else f"{value:{form}}{unit}"


def microseconds(seconds: float | None) -> str:
    """A time, with three digits where it is short."""
    return "–" if seconds is None else f"{1e6 * seconds:.3g}" if seconds < 1e-3 else f"{1e6 * seconds:.0f}"


def markdown(head: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """The table in Markdown."""
    rule = ("---", *["---:"] * (len(head) - 1))
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *cells))
