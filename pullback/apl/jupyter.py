"""The magic `%%apl` of notebooks: `%load_ext pullback.apl.jupyter`."""

from __future__ import annotations

from typing import Any

from pullback.apl.display import display
from pullback.apl.functions import Verb
from pullback.apl.scopes import Operator
from pullback.apl.workspace import Workspace
from pullback.errors import PullbackError


def load_ipython_extension(shell: Any) -> None:
    """Enter the magic: values of the notebook are values in APL under the same names, and the other way round."""
    work = Workspace(boxed=True)

    def apl(line: str, cell: str | None = None) -> None:
        for name, value in list(shell.user_ns.items()):
            if (not name.startswith("_") and isinstance(value, int | float | str | list | tuple)) or hasattr(
                value, "dtype"
            ):
                work[name] = value
        try:
            value, quiet = work.run(line if cell is None else cell, "cell")
        except PullbackError as error:
            print(error)
            return
        names = work.scope.names.items()
        shell.user_ns.update({n: v for n, v in names if not isinstance(v, Verb | Operator)})
        if value is not None and not quiet:
            print(display(value, boxed=True))

    shell.register_magic_function(apl, "line_cell", "apl")
