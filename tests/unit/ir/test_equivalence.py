"""The comparison of programs installs itself; where it is asked for and is not there, an error says how to get it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pullback.errors import UsageError
from pullback.ir import equivalence as place
from pullback.ir.equivalence import Equivalence, equivalence, install
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.passes.pipeline import optimize

UNUSED = "f(x: f64[N]) { y = build n < N { x[n] } z = build n < N { x[n] * x[n] } return y }"


class Recorded:
    """A comparison that remembers what it was given."""

    def __init__(self) -> None:
        self.passes: list[str] = []

    def written(self, program: Program, dims: Mapping[str, int]) -> Recorded:
        return self

    def compare(self, what: str, program: Program) -> None:
        self.passes.append(what)

    def check_loops(self, program: Program, dims: Mapping[str, int], function: Any) -> None:
        self.passes.append("loops")


@pytest.fixture(autouse=True)
def none_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "_installed", [])
    monkeypatch.setenv("PULLBACK_VERIFY", "equivalence")


def test_one_that_is_not_installed_says_what_to_import() -> None:
    with pytest.raises(UsageError) as caught:
        equivalence()
    assert str(caught.value) == (
        "UsageError [E601] PULLBACK_VERIFY=equivalence: nothing that compares programs is imported\n"
        "   | the comparison is in a checkout of the repository, not in the installed package\n"
        "  try: `import tests.support.equivalence` first, with the checkout on the path"
        "      See `pullback explain-error E601`"
    )


def test_one_that_is_installed_sees_every_pass_that_changes_something() -> None:
    seen = Recorded()
    install(Equivalence(seen.written, seen.check_loops))
    optimize(parse_program(UNUSED), {"N": 3})
    assert "dead" in seen.passes


def test_nothing_is_asked_for_without_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_VERIFY", "1")
    assert equivalence() is None
