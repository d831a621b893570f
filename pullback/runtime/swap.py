"""Working memory with a part in a file, for programs that swap (`loops.memory.swapping`).

The system writes these pages to the file when it needs memory, as only copies of whole arrays touch them. The file has
no name and is gone with the process. Its blocks are reserved before the first call: a full disk is an error then, and
not in the middle of a copy.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from typing import Final

from pullback.errors import UsageError
from pullback.records import dataclass
from pullback.source import user_position

FIXED: Final = 0x10  # MAP_FIXED of Linux, macOS and the BSDs


class FileArenas:
    """The working memory of one program, one for each call at a time.

    Args:
        folder: the folder of the file.
        start, count: the bytes that lie in the file.
    """

    def __init__(self, folder: str, start: int, count: int) -> None:
        self._folder = folder
        self._span = start, count
        self._idle: list[_Mapped] = []
        self._lent: dict[int, _Mapped] = {}

    def lend(self, count: int, /) -> tuple[int, int]:
        """Lend memory of at least `count` bytes; return its address and size."""
        try:
            found = self._idle.pop()
        except IndexError:
            found = _mapped(self._folder, count, *self._span)
        self._lent[found.address] = found
        return found.address, count

    def give_back(self, start: int, count: int, /) -> None:
        """Take memory back."""
        self._idle.append(self._lent.pop(start))


@dataclass(frozen=True, eq=False)
class _Mapped:
    memory: mmap.mmap
    address: int


def _mapped(folder: str, count: int, start: int, away: int) -> _Mapped:
    """New memory: the whole pages of the part that is away lie in a file.

    Raises:
        UsageError: [E607] there is no such file, or no room for it.
    """
    page = mmap.PAGESIZE
    first, last = -(-start // page) * page, (start + away) // page * page
    memory = mmap.mmap(-1, max(count, page))
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if last > first:
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                os.posix_fallocate(file.fileno(), 0, last - first)
                _over(address + first, last - first, file.fileno())
        except (OSError, AttributeError) as error:  # systems without `posix_fallocate` have no file of this kind
            what = f"swap: {last - first:,} bytes of {folder} are not to be had"
            remedy = "swap='FOLDER' on a disk with room, or a larger `memory_limit`"
            raise UsageError("E607", what, facts=(str(error),), position=user_position(), remedy=remedy) from error
    return _Mapped(memory, address)


def _over(address: int, count: int, file: int) -> None:
    """Map a file over pages of this process."""
    call = ctypes.CDLL(None, use_errno=True).mmap
    call.restype = ctypes.c_void_p
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    if call(address, count, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | FIXED, file, 0) != address:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
