"""Files that are written at once: readers see the old one or the new one, and a failure leaves the old one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["check_place", "put_file", "remove_unfinished"]


def put_file(path: Path, content: bytes, mode: int = 0o666, sync: bool = False) -> None:
    """Write a file; a link stays, and what it points at is written.

    Args:
        path: the file.
        content: what it is to hold.
        mode: the permissions of a new file, less what the user's mask takes; one that is there keeps its own.
        sync: whether it is on the disk when this ends.
    Raises:
        OSError: it cannot be written.
    """
    target = _target(path)
    if path.exists() and not path.is_file():  # a device or a pipe, which is no file to be replaced
        path.write_bytes(content)
        return
    temporary = target.with_name(f".{os.urandom(8).hex()}.new")  # short, however long the file's name is
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        if target.exists():
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def check_place(path: Path) -> None:
    """Find out before long work, not after it, whether a file can be written.

    Raises:
        OSError: it cannot.
    """
    target = _target(path)
    if path.is_dir():
        raise IsADirectoryError("it is a folder")
    if path.exists() and not path.is_file():
        return
    temporary = target.with_name(f".{os.urandom(8).hex()}.new")
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    os.unlink(temporary)


def _target(path: Path) -> Path:
    """The file itself, where a link points at it. OSError where its name is too long, or links lead in a circle."""
    try:
        path.stat()
    except FileNotFoundError:
        pass
    return Path(os.path.realpath(path))


def remove_unfinished(folder: Path) -> None:
    """Remove what `put_file` left in a folder when its process was killed."""
    for path in folder.glob(".*.new"):
        path.unlink(missing_ok=True)
