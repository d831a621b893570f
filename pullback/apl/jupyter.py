"""The magic `%%apl` of notebooks: `%load_ext pullback.apl.jupyter`."""

from __future__ import annotations

from typing import Any

from pullback.apl.definitions import tokens
from pullback.apl.functions import Verb
from pullback.apl.hot import compile_by_itself
from pullback.apl.scopes import Operator
from pullback.apl.values import Value, is_characters, is_nested, rank_of
from pullback.apl.workspace import Workspace
from pullback.errors import PullbackError


def load_ipython_extension(shell: Any) -> None:
    """Register the magic, which shows a session's output.

    Variables of the notebook are available in the cell under their names: numbers, arrays, text, lists, and
    functions, which become verbs. Values that the cell assigns become variables of the notebook.
    """
    work = Workspace(boxed=True)
    compile_by_itself(work)
    given: dict[str, Any] = {}  # names that the notebook received from the session, or passed to it

    def apl(line: str, cell: str | None = None) -> None:
        text = line if cell is None else cell
        used: dict[str, None] = {}
        try:
            used = dict.fromkeys(t.text for t in tokens(text, "cell") if t.kind == "name")
            for name in used:
                if name in shell.user_ns and shell.user_ns[name] is not given.get(name, work):
                    work[name] = given[name] = shell.user_ns[name]
            work.within_limits(text, "cell")
        except PullbackError as error:
            print(error)
        for name in used:
            value = work.scope.names.get(name)
            if value is not None and not isinstance(value, Verb | Operator):
                shell.user_ns[name] = given[name] = as_python(value)

    shell.register_magic_function(apl, "line_cell", "apl")


def as_python(value: Value) -> Any:
    """Convert a value to Python: text, a number, or an array."""
    if is_characters(value) and rank_of(value) < 2:
        return "".join(value.reshape(-1).tolist())
    return value if is_nested(value) or rank_of(value) else value.item()


__all__ = ["as_python", "load_ipython_extension"]
