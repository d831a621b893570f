"""Pullback: a differentiable array language in Python, compiled to C you can ship.

Write the maths once in index notation or in the functions of the Python array API. Shapes are checked when the
function is defined. Derivatives are programs of the same language, and all of it becomes readable C.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.2.0.dev0"


def __getattr__(name: str) -> Any:
    """Import a public name on first use; `__init__.pyi` lists the names and their modules."""
    from pullback.names import found

    value = found(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from pullback.names import public

    return sorted({*globals(), *public()})


def _check_lock() -> None:
    """Warn where the interpreter runs without its lock, as few parts were tried there."""
    import sys

    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        import warnings

        warnings.warn("pullback is little tried without the interpreter lock, as this interpreter runs: where calls "
                      "from several threads give wrong results, start it with PYTHON_GIL=1 or -X gil=1, and report it",
                      RuntimeWarning, stacklevel=3)


_check_lock()
