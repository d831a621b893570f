"""Files for users: failures to write them are errors with a code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pullback.errors import UsageError
from pullback.files import put_file

__all__ = ["write_file", "writing"]


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file, whole or not at all.

    Raises:
        UsageError: [E607] it cannot be written.
    """
    with writing(path):
        put_file(Path(path), content)


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Run a block that writes a file or a folder.

    Raises:
        UsageError: [E607] it cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(
            "E607", f"{path}: cannot be written: {error.strerror or error}", remedy="a folder you may write to"
        ) from error
