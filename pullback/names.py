"""The public names of the package, read from its stub and imported on use.

`import pullback` costs nothing but this; a name brings the modules that it needs.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

from pullback.state import cached
from pullback.tracing.public import guarded_function

# Type checkers take `Size` for a literal, and `function` from a stub of overloads.
RENAMED = {"Size": "pullback.calls.annotations", "function": "pullback.calls.function"}


@cached(1)
def homes() -> dict[str, tuple[str, str]]:
    """The module and the inner name of each public name; a module has no inner name."""
    found: dict[str, tuple[str, str]] = {}
    for node in _stub().body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for a in node.names:
                name = a.asname or a.name
                if name in RENAMED:
                    found[name] = (RENAMED[name], name)
                elif node.module == "pullback":
                    found[name] = (f"pullback.{a.name}", "")
                else:
                    found[name] = (node.module, a.name)
    return found


@cached(1)
def public() -> tuple[str, ...]:
    """`__all__`."""
    listed = next(n.value for n in _stub().body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name))
    return tuple(ast.literal_eval(listed))


def found(name: str) -> Any:
    """The object of a public name.

    Raises:
        UnknownNameError: [E146] there is nothing of this name; it says what there is instead.
    """
    if name == "__all__":
        return list(public())
    module, inner = homes().get(name, ("", ""))
    if module:
        home = import_module(module)
        return guarded_function(getattr(home, inner), f"pb.{name}") if inner else home
    if name.startswith("_"):
        raise AttributeError(name)
    from pullback.tracing.elsewhere import unknown

    raise unknown(name, "pullback")


@cached(1)
def _stub() -> ast.Module:
    return ast.parse(Path(__file__).with_name("__init__.pyi").read_text(encoding="utf-8"))
