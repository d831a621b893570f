"""A session of APL: names, settings and output."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pullback import reading
from pullback.apl import errors, system
from pullback.apl.definitions import tokens
from pullback.apl.display import display, show_when_called
from pullback.apl.errors import AplError, Spot
from pullback.apl.evaluate import evaluate
from pullback.apl.functions import PythonVerb, Shy, placed, plain
from pullback.apl.limits import Limits
from pullback.apl.parser import statements
from pullback.apl.procedures import outside_of_calls
from pullback.apl.scopes import Scope
from pullback.apl.table import Settings
from pullback.apl.values import Value, from_python
from pullback.apl.watch import refuse
from pullback.single_flight import deep_recursion
from pullback.tracing.active import is_tracing


class Workspace:
    """The names and values of a session or a script.

    Args:
        settings: the initial system variables.
        show: the function that prints ⎕← and unassigned values; by default it prints to standard output.
        arguments: the arguments of a script: ⎕ARGS.
        limits: the limits for `within_limits`.

    >>> from pullback import apl
    >>> work = apl.Workspace()
    >>> int(work.evaluate("a←3 ⋄ +/a×⍳4"))
    30
    """

    def __init__(
        self,
        settings: Settings | None = None,
        show: Callable[[Value], None] | None = None,
        arguments: Sequence[str] = (),
        boxed: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self.scope = Scope(settings=settings or Settings(), host=self, evaluator=evaluate)
        self.boxed = boxed
        self.limits = limits or Limits()
        self.arguments = tuple(arguments)
        self.files: dict[int, Any] = {}
        self.hot: Any = None  # what compiles dfns that take long, in a session
        self._show = show
        self.began = time.monotonic()

    def evaluate(self, text: str, file: str = "apl") -> Any:
        """Evaluate a text; return the value of its last statement, or None.

        Raises:
            AplError: any APL error, with the place in the text.
        """
        value, _ = self.run(text, file)
        return value

    def run(self, text: str, file: str = "apl", shows: bool = False) -> tuple[Any, bool]:
        """Run a text; return its last value, and whether it was assigned; `shows` prints other values."""
        value: Any = None
        quiet = True
        with deep_recursion(60_000), outside_of_calls():
            for statement in statements(tokens(text, file)):
                with placed(None):
                    if statement.guard is not None:
                        raise errors.syntax("a guard stands in a function", statement.spot)
                    unit = self.scope.parsed(statement)
                    made = self.scope.stated(unit.node)
                    value, quiet = plain(made), isinstance(made, Shy)
                    if shows and not quiet:
                        self.show(value)
        return value, quiet

    def within_limits(self, text: str, file: str = "apl") -> None:
        """Run a text as a session does: within the limits, with exceptions converted to APL errors."""
        with self.limits.guarded():
            self.run(text, file, shows=True)

    def show(self, value: Any) -> None:
        """Print a value; a function being compiled prints it when it is called."""
        if is_tracing():
            refuse("⎕←")
            show_when_called(value, self.boxed, self.scope.settings.pp)
        elif self._show is not None:
            self._show(value)
        else:
            sys.stdout.write(display(value, self.boxed, self.scope.settings.pp) + "\n")

    def system(self, name: str, scope: Scope) -> Any:
        """Return the object of a system name, or None."""
        if name not in system.CONSTANT and name not in system.OPERATORS:
            refuse(name)
        return system.OPERATORS.get(name) or system.find(name, self, scope)

    def __getitem__(self, name: str) -> Any:
        """Return the object of a name."""
        found = self.scope.names.get(name)
        if found is None:
            raise AplError("VALUE ERROR", f"{name} has no value")
        return found

    def __setitem__(self, name: str, value: Any) -> None:
        self.scope.names[name] = PythonVerb(value) if callable(value) else from_python(value)

    def update(self, values: Mapping[str, Any]) -> None:
        """Give several names values."""
        for name, value in values.items():
            self[name] = value


def read_text(path: Path) -> str:
    """Read a file of APL text.

    Raises:
        AplError: [E808] the file is missing, not UTF-8, or larger than the limit of readers.
    """
    with placed(None):
        content = reading.content(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        spot = Spot(str(path), line, column, column + 1, "")
        raise AplError("FILE ERROR", f"{path} is not UTF-8", position=spot, remedy="save it as UTF-8") from None
