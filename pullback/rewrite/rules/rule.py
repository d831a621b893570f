"""A rule as a row: source, statement, condition, and place in the code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from pullback.records import dataclass

Source = Literal["002", "003", "Pullback"]


@dataclass(frozen=True)
class Rule:
    """A rule of a paper, or one of Pullback's own.

    Attributes:
        id: the name it is looked up by; unique.
        source: "002" for Zhao and Huang, DeepDSL; "003" for Shaikhha et al., dF~; "Pullback" for rules of neither.
        number: its number in the paper; empty for Pullback's own.
        name: its effect, in a few words.
        text: the rule as plain text, before = after.
        latex: the same in LaTeX, without dollar signs.
        where: the module that applies it, and its form there.
        fires: the names by which passes report that they applied it.
        condition: a necessary condition that the printed rule omits.
        exact: whether both sides are equal in floating point, NaN and infinities included.
        applied: whether a pass makes the step; if not, `where` says why.
    """

    id: str
    source: Source
    number: str
    name: str
    text: str
    latex: str
    where: str
    fires: tuple[str, ...] = ()
    condition: str = ""
    exact: bool = True
    applied: bool = True


class RuleTable:
    """Rules by id, in order, and by the names under which they fire."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rows: dict[str, Rule] = {}
        self._by_name: dict[str, list[Rule]] = {}
        for r in rules:
            if r.id in self._rows:
                raise ValueError(f"rule {r.id} is defined twice")
            self._rows[r.id] = r
            for name in r.fires:
                self._by_name.setdefault(name, []).append(r)

    def __getitem__(self, id_: str) -> Rule:
        return self._rows[id_]

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def of(self, name: str) -> tuple[Rule, ...]:
        """The rules behind a name reported by a pass; rules of its family, such as `derivative.`, come last."""
        found = self._by_name.get(name)
        if found is None:
            found = self._by_name.get(name.split(".")[0] + ".*", [])
        return tuple(found)
