"""Pullback: a differentiable array language in Python, compiled to C you can ship.

Write the maths once in index notation or in the functions of the Python array API; shapes are checked when the
function is defined; derivatives are programs of the same language; all of it becomes readable C.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first asked for; `__init__.pyi` says which there are, and from where."""
    from pullback.names import found

    value = found(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from pullback.names import public

    return sorted({*globals(), *public()})
