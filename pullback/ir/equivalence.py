"""A registry for the comparison of programs; a layer above the compiler installs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pullback.errors import UsageError
from pullback.ir import nodes as ir
from pullback.records import dataclass
from pullback.state import registered


class Written(Protocol):
    """A program as written, to compare with the results of passes."""

    def compare(self, what: str, program: ir.Program) -> None:
        """Compare with the result of a pass.

        Raises:
            VerifyError: [E317] it computes something else.
        """


@dataclass(frozen=True)
class Equivalence:
    """The comparison of programs that PULLBACK_VERIFY=equivalence asks for.

    Attributes:
        written: the program with these dims, to compare others with.
        check_loops: raises a VerifyError [E317] where the loops of a program compute something else.
    """

    written: Callable[[ir.Program, Mapping[str, int]], Written]
    check_loops: Callable[[ir.Program, Mapping[str, int], Any], None]


_installed: list[Equivalence] = registered([], 1, stays="with the process")


def install(found: Equivalence) -> None:
    """Set the comparison of this process."""
    _installed[:] = [found]


def equivalence() -> Equivalence | None:
    """Return the comparison that is installed, where PULLBACK_VERIFY asks for it.

    Raises:
        UsageError: [E601] PULLBACK_VERIFY asks for a comparison, and none is installed.
    """
    if os.environ.get("PULLBACK_VERIFY") != "equivalence":
        return None
    if not _installed:
        raise UsageError("E601", "PULLBACK_VERIFY=equivalence: nothing that compares programs is imported",
                         facts=("the comparison is in a checkout of the repository, not in the installed package",),
                         remedy="`import tests.support.equivalence` first, with the checkout on the path")
    return _installed[0]
