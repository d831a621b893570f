"""Bounded file reads: one limit per file and per array, checked before memory is allocated.

A reader takes three steps. `content` reads a file, `inflated` unpacks gzip data up to the size that its header
promises, and `check_size` compares a promised shape with the limit. Parsers of other packages run inside `parsing`.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from pullback.errors import DataError, PullbackError, UsageError

__all__ = ["check_bytes", "check_size", "content", "inflated", "is_gzip", "limit", "memory_of_machine", "parsing"]

VARIABLE: Final = "PULLBACK_READ_LIMIT"
MOST: Final = 1 << 33  # bytes, unless the variable says otherwise or the machine has less than twice as many
MOST_AXES: Final = 64  # of an array of NumPy
PIECE: Final = 1 << 20  # bytes that are read at once where the size is not known
GZIP_MAGIC: Final = b"\x1f\x8b"


def memory_of_machine() -> int | None:
    """The machine's memory in bytes, None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def limit() -> int:
    """The most bytes that a file, or an array in it, may take.

    Raises:
        UsageError: [E601] PULLBACK_READ_LIMIT is no number of bytes.
    """
    text = os.environ.get(VARIABLE)
    if text is None:
        return min(MOST, (memory_of_machine() or 2 * MOST) // 2)
    if not (text.isascii() and text.isdigit()):
        raise UsageError("E601", f"{VARIABLE}={text} is not a number of bytes", remedy="a whole number from 0")
    return int(text)


def content(path: str | os.PathLike[str]) -> bytes:
    """Read a whole file.

    Raises:
        DataError: [E501] it cannot be read, [E527] it is larger than the limit.
    """
    most = limit()
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            if stat.S_ISREG(found.st_mode):
                check_bytes(path, found.st_size, "the file has")
            return bytes(_taken(file, path, most))
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        if isinstance(error, PullbackError):
            raise
        what = f"{os.fspath(path)}: {getattr(error, 'strerror', None) or error}"
        raise DataError("E501", what, remedy="check the path and the file's permissions") from error


def is_gzip(data: bytes | bytearray) -> bool:
    """Whether data is compressed with gzip, by its first bytes."""
    return data.startswith(GZIP_MAGIC)


def inflated(data: bytes | bytearray, title: object, most: int | None = None) -> bytearray:
    """Unpack gzip data.

    Args:
        data: the compressed bytes.
        title: the name of the file, for errors.
        most: the size that a header promises; unpacking ends one byte after it. Without it the limit holds.
    Raises:
        DataError: [E503] the data is damaged, [E527] it unpacks to more than the limit.
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            return _taken(file, title, limit(), most)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            "E503",
            f"{title}: the gzip data is truncated or damaged",
            facts=(f"{len(data)} bytes compressed", str(error)),
            remedy="copy or download the file again",
        ) from error


def _taken(file: io.BufferedIOBase | gzip.GzipFile, title: object, most: int, wanted: int | None = None) -> bytearray:
    """Read up to one byte more than `wanted`, piece by piece: memory grows only with data that is there."""
    end = most + 1 if wanted is None else min(wanted, most) + 1
    taken = bytearray()
    try:
        while len(taken) < end and (piece := file.read(min(PIECE, end - len(taken)))):
            taken += piece
    except MemoryError:
        raise _too_large(title, "there is no memory for more than", len(taken), most) from None
    if len(taken) > most:
        raise _too_large(title, "it unpacks to more than", most, most)
    return taken


def check_bytes(title: object, size: int, what: str) -> None:
    """Compare a size with the limit.

    Args:
        title: the name of the file.
        size: bytes.
        what: the beginning of a sentence that the size ends, such as "the file has".
    Raises:
        DataError: [E527] the size is above the limit.
    """
    if size > (most := limit()):
        raise _too_large(title, what, size, most)


def check_size(title: object, shape: Sequence[int], itemsize: int) -> None:
    """Check the shape in a header against the limit; 0 counts as 1.

    Raises:
        DataError: [E527] the array has too many axes, or is above the limit.
    """
    if len(shape) > MOST_AXES:
        raise DataError("E527", f"{title}: {len(shape)} axes", facts=(f"arrays have at most {MOST_AXES} axes",),
                        remedy="check where the file comes from; its header is likely damaged")  # fmt: skip
    check_bytes(title, math.prod(max(1, n) for n in shape) * itemsize, f"an array of shape {tuple(shape)} has")


def _too_large(title: object, what: str, size: int, most: int) -> DataError:
    return DataError(
        "E527",
        f"{title}: {what} {size} bytes",
        facts=(f"limit: {most} bytes",),
        remedy=f"set {VARIABLE} to more bytes, if you trust the file",
    )


@contextmanager
def parsing(path: str | os.PathLike[str], what: str, remedy: str) -> Iterator[None]:
    """Name the file in every error that a parser of another package raises for it.

    Args:
        path: the file.
        what: the kind of file, such as "a NumPy file".
        remedy: for the error.
    Raises:
        DataError: [E503] the parser raised anything; [E527] it had no memory.
    """
    try:
        yield
    except PullbackError:
        raise
    except MemoryError as error:
        what = "there is no memory for what it unpacks to, with a limit of"
        raise _too_large(path, what, limit(), limit()) from error
    except Exception as error:
        facts = (str(error) or type(error).__name__,)
        raise DataError("E503", f"{path}: not {what}, or damaged", facts=facts, remedy=remedy) from error

