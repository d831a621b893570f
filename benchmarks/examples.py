"""The examples as modules, for suites that look at all of their functions."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Any

from pullback.cli.options import import_file

__all__ = ["example_files", "example_modules"]


def example_modules(directory: Path, without: Container[str] = ()) -> dict[str, Any]:
    """Import a directory's example modules by name, `name` or `folder.name`, except those in `without`."""
    return {name: import_file(path) for name, path in example_files(directory).items() if name not in without}


def example_files(directory: Path) -> dict[str, Path]:
    """The files of a directory of examples by the names of their modules.

    The training tasks are left out: they run when they are imported.
    """
    found = sorted(path for path in directory.rglob("*.py") if path.parent.name != "training")
    return {".".join(path.relative_to(directory).with_suffix("").parts): path for path in found}
