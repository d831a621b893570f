"""Files of named arrays in the safetensors format, with a digest of all other bytes.

    8 bytes    the length of the header, little-endian
    header     {"__metadata__": {words}, name: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
    data       the arrays, one after the other without gaps

The digest is the first metadata entry. It is at a fixed offset, so it is recognized even if its name is damaged. It is
computed with zeros in its place. BLAKE2b (RFC 7693) detects damage, and does not protect against forgery.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pullback.errors import DataError
from pullback.ir.halves import from_half
from pullback.ir.types import DType, bf16, bits_of, dtype_named, dtype_of

__all__ = ["DamagedError", "Words", "header", "pack", "unpack"]

Arrays = dict[str, NDArray[Any]]
Words = Mapping[str, str]

WORDS: Final = "__metadata__"
LENGTH: Final = 8  # bytes of the header's length
ABOUT: Final = "BLAKE2b of this file with zeros for these digits: "
WORD: Final = "pullback digest"
OPENING: Final = f'{{"{WORDS}":{{"{WORD}":"{ABOUT}'.encode()
DIGITS: Final = slice(LENGTH + len(OPENING), LENGTH + len(OPENING) + 32)
ALIKE: Final = 1 / 3  # the fraction of equal bytes in the opening; other files have a sixth
FIELDS: Final = {"dtype", "shape", "data_offsets"}
ELSEWHERE: Final = {"F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E5M2FNUZ", "F8_E4M3FNUZ", "F6_E2M3", "F6_E3M2", "F4", "C64"}


class DamagedError(ValueError):
    """Raised for bytes that are not a valid file, with the reason."""


# Writing --------------------------------------------------------------------------------------------------------


def header(arrays: Arrays, words: Words) -> bytes:
    """Return the length and the text of the header.

    Raises:
        DataError: [E533] the format does not support an array's name or element type.
    """
    table: dict[str, Any] = {WORDS: dict(words)}
    at = 0
    for name, a in arrays.items():
        _check_name(name)
        table[name] = {"dtype": _kind(name, a), "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data is aligned for memory mapping
    return len(text).to_bytes(LENGTH, "little") + text


def pack(arrays: Arrays, words: Words) -> bytes:
    """Pack arrays and metadata into the bytes of a file, with its digest.

    Raises:
        DataError: [E533] the format does not support an array's name or element type.
    """
    head = bytearray(header(arrays, {WORD: f"{ABOUT}{'0' * (DIGITS.stop - DIGITS.start)}", **words}))
    data = [_little(a) for a in arrays.values()]
    head[DIGITS] = _digits(head, *data)
    return b"".join([head, *data])


def _digits(*parts: Any) -> bytes:
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        state.update(part)
    return state.hexdigest().encode()


def _little(a: NDArray[Any]) -> memoryview:
    """The bytes of an array, in row-major order and little-endian."""
    bits = bits_of(a)
    flat = np.ascontiguousarray(bits, bits.dtype.newbyteorder("<")).reshape(-1)
    return flat.view(np.uint8).data


def _check_name(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        name = ascii(name)
    else:
        if name != WORDS:
            return
    raise DataError("E533", f"no array of a file may be called {name}", remedy="another name")


def _kind(name: str, a: NDArray[Any]) -> str:
    """The format's name for the element type of an array."""
    found = dtype_of(a.dtype.newbyteorder("="))
    if found is None:
        raise DataError(
            "E533",
            f"{name} : {a.dtype}{list(a.shape)} cannot be saved",
            facts=("a file holds bools, integers and floating-point numbers of 16, 32 and 64 bits",),
            remedy="`array.astype(np.float32)`",
        )
    return found.name.upper()


# Reading --------------------------------------------------------------------------------------------------------


def unpack(content: bytes) -> tuple[Arrays, dict[str, str], bool]:
    """Return the writable arrays of a file, its metadata, and whether a digest confirms both.

    Arrays of bfloat16, which NumPy lacks, are converted to float32.

    Raises:
        DamagedError: the bytes are not a valid file, or were changed after writing.
        DataError: [E533] an array has an unsupported element type.
    """
    own = content[LENGTH : DIGITS.start] == OPENING
    if own and _digits(content[: DIGITS.start], b"0" * 32, memoryview(content)[DIGITS.stop :]) != content[DIGITS]:
        raise DamagedError("its digest does not match: bytes were changed since it was written")
    table, data = _parsed(content)
    words = table.pop(WORDS, {})
    if not isinstance(words, dict) or not all(isinstance(w, str) for w in words.values()):
        raise DamagedError(f"{WORDS} is no mapping of words")
    moved = re.fullmatch(f"{ABOUT}[0-9a-f]{{32}}", words.get(WORD, ""))  # the digest was written by another program
    if not own and not moved and _resembles(content):
        raise DamagedError("its digest was changed since it was written")
    _check_places(table, len(data))
    return {name: _array(name, about, data) for name, about in table.items()}, words, own


def _resembles(content: bytes) -> bool:
    """Whether a damaged file resembles one with a digest: most pieces of four bytes match."""
    found, pieces = content[: DIGITS.stop], [OPENING[k : k + 4] for k in range(len(OPENING) - 3)]
    return sum(piece in found for piece in pieces) > ALIKE * len(pieces)


def _parsed(content: bytes) -> tuple[dict[str, Any], memoryview]:
    """The header, and the bytes after it."""
    size = int.from_bytes(content[:LENGTH], "little")
    end = LENGTH + size
    if len(content) < LENGTH or end > len(content):
        raise DamagedError(f"a header of {size} bytes is promised")
    try:
        table = json.loads(content[LENGTH:end].decode(), object_pairs_hook=_distinct, parse_constant=_refuse)
    except RecursionError:
        raise DamagedError("its header is a nest") from None
    except ValueError as error:
        raise DamagedError(f"its header: {error}") from None
    if not isinstance(table, dict):
        raise DamagedError("its header is no mapping")
    return table, memoryview(content)[end:]


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DamagedError("a name stands in it twice")
    return found


def _refuse(word: str) -> None:
    raise DamagedError(f"{word} in it")


def _check_places(table: dict[str, Any], size: int) -> None:
    """Refuse arrays that overlap, leave gaps, or do not have the size of their range."""
    at = 0
    for name, about in sorted(table.items(), key=lambda item: _place(*item)):
        begin, end = _place(name, about)
        kind, shape = about["dtype"], about["shape"]
        if begin != at:
            raise DamagedError(f"{name} begins at byte {begin} of the data, what is before it ends at {at}")
        if kind not in ELSEWHERE and prod(shape) * _dtype(name, kind).size != end - begin:
            raise DamagedError(f"{name} : {kind}{shape} in {end - begin} bytes")
        at = end
    if at != size:
        raise DamagedError(f"{at} bytes of arrays are promised, and {size} are there")


def _place(name: str, about: Any) -> tuple[int, int]:
    """The offsets of an array's first byte and of the byte after its last."""
    if isinstance(about, dict) and about.keys() == FIELDS and isinstance(about["dtype"], str):
        shape, place = about["shape"], about["data_offsets"]
        numbers = isinstance(shape, list) and isinstance(place, list) and all(type(n) is int for n in shape + place)
        if numbers and len(place) == 2 and min([0, *shape]) == 0 <= place[0] <= place[1]:
            return place[0], place[1]
    raise DamagedError(f"{name}: no dtype, shape and data_offsets")


def _dtype(name: str, kind: str) -> DType:
    try:
        found = dtype_named(kind.lower())
    except KeyError:
        found = None
    if found is None or found.name.upper() != kind:
        raise DamagedError(f"{name}: no element type is called {kind}")
    return found


def _array(name: str, about: dict[str, Any], data: memoryview) -> NDArray[Any]:
    kind, (begin, end) = about["dtype"], about["data_offsets"]
    if kind in ELSEWHERE:
        raise DataError(
            "E533",
            f"{name} : {kind}{about['shape']} cannot be read",
            facts=("there are no such elements here",),
            remedy="convert it to float32 where it was written",
        )
    dtype = _dtype(name, kind)
    view = np.frombuffer(data[begin:end], dtype.numpy.newbyteorder("<"))
    if dtype.is_bool and view.view(np.uint8).max(initial=0) > 1:
        raise DamagedError(f"{name}: a bool that is neither 0 nor 1")
    try:
        shaped = (from_half(view, bf16) if dtype is bf16 else view).reshape(about["shape"])
        return np.array(shaped, dtype.computed.numpy if dtype is bf16 else dtype.numpy, order="C")
    except ValueError as error:
        raise DamagedError(f"{name} : {kind}{about['shape']}: {error}") from None
