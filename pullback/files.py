"""Atomic file writes: readers see the old or the new file, and a failure keeps the old one.

What is not complete yet has a name of its process, and a lock on POSIX systems; so has a folder in use. The system
gives a lock up when its process ends, however that ends.
"""

from __future__ import annotations

import os
import platform
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from pullback.state import registered

__all__ = ["BusyError", "FolderLock", "check_place", "name_problem", "put_file", "remove_unfinished"]

UNFINISHED: Final = re.compile(r"\.pullback-(\d+)-[0-9a-f]{16}\.new")
LOCK: Final = ".pullback.lock"
FAR: Final = 1 << 30  # Windows blocks reads of locked bytes: lock a byte behind the text
LONGEST: Final = 200  # bytes of a name; file systems have 255, and endings are added to names
_HELD: Final[set[int]] = registered(set(), "locks of folders held", stays="with the lock")


def put_file(path: Path, content: bytes, mode: int = 0o666, sync: bool = False) -> None:
    """Write a file atomically; a link stays, and its target is written.

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
    remove_unfinished(target.parent)
    temporary = _temporary(target)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), mode)
    try:
        with os.fdopen(handle, "wb") as file:
            if os.name == "posix":  # elsewhere an open file cannot be removed
                _lock(handle)
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            file.flush()
            if os.name == "posix":  # elsewhere a file that is open keeps its name
                os.replace(temporary, target)
        if os.name != "posix":
            os.replace(temporary, target)
        if sync:
            _sync_folder(target.parent)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _sync_folder(folder: Path) -> None:
    """Have the names of a folder on the disk, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
    temporary = _temporary(target)
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    os.unlink(temporary)


def _target(path: Path) -> Path:
    """The file itself, or a link's target. OSError for too long names and circular links."""
    try:
        path.stat()
    except FileNotFoundError:
        pass
    return Path(os.path.realpath(path))


def _temporary(target: Path) -> Path:
    """A short name beside a file that is unique to this process."""
    return target.with_name(f".pullback-{os.getpid()}-{os.urandom(8).hex()}.new")


def remove_unfinished(folder: Path) -> None:
    """Remove what killed processes left behind with `put_file`; files still being written stay."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if (found := UNFINISHED.fullmatch(name)) and not _is_running(int(found[1])):
                with suppress(OSError):
                    if os.name != "posix" or _is_left(folder / name):
                        os.unlink(folder / name)


def _is_running(process: int) -> bool:
    """Whether there is a process of this number here: it may not have locked its new file yet."""
    if os.name != "posix":  # an open file cannot be removed
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def _is_left(path: Path) -> bool:
    """Whether no process, on any machine, locks the file."""
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return _lock(handle) is True
    finally:
        os.close(handle)


def name_problem(name: str) -> str | None:
    """The reason why a file name is invalid on some system, or None."""
    if name in ("", ".", ".."):
        return "it is no name"
    if found := re.search(r'[/\\:*?"<>|\x00-\x1f]', name):
        return f"{found[0]!r} in it"
    if name.endswith((" ", ".")):
        return "it ends with a dot or a space"
    if len(os.fsencode(name)) > LONGEST:
        return f"it has more than {LONGEST} bytes"
    return None


# Locks ----------------------------------------------------------------------------------------------------------


class BusyError(Exception):
    """A folder is in use, with the words of the process that uses it."""


class FolderLock:
    """A folder that one run at a time may write to, from here until `release`.

    Attributes:
        works: whether the file system has locks.
    Raises:
        BusyError: another run has it. OSError: no file can be made in it.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
            found = _lock(handle)
            if found is False:
                words = os.read(handle, 1000).decode(errors="replace").strip()
                os.close(handle)
                raise BusyError(words or "another process")
            if _is_file(handle, path):
                break
            os.close(handle)  # the previous owner removed it meanwhile
        self.works = found is not None
        self.path, self._handle = path, handle
        _HELD.add(handle)
        with suppress(OSError):  # a full disk; the words are for people
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {platform.node() or 'this machine'}\n".encode())

    def release(self) -> None:
        """Let others use the folder."""
        if self._handle not in _HELD:
            return
        _HELD.discard(self._handle)
        if os.name == "posix":  # while it is locked, so that another process' file is not removed
            self._remove()
        os.close(self._handle)
        if os.name != "posix":
            self._remove()

    def _remove(self) -> None:
        with suppress(OSError):  # it stays without a lock, and the next run takes it
            self.path.unlink()


def _is_file(handle: int, path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _lock(handle: int) -> bool | None:
    """Lock an open file for this process, if no other has; None where the file system has no locks."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(handle, FAR, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except (ImportError, OSError):
        return None
    finally:
        os.lseek(handle, 0, os.SEEK_SET)
    return True


def _forget() -> None:
    """Close the locks in a new process, which would keep them when the one that has them is gone."""
    while _HELD:
        os.close(_HELD.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
