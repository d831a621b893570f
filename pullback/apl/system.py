"""System names: ⎕A ⎕D ⎕TS ⎕WA ⎕UCS ⎕CSV, and files read-only by ⎕NTIE ⎕NSIZE ⎕NREAD ⎕NUNTIE."""

from __future__ import annotations

import datetime
import os
import string
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from pullback import reading
from pullback.apl import errors
from pullback.apl.errors import AplError
from pullback.apl.functions import Verb
from pullback.apl.table import Settings
from pullback.apl.values import (
    Value,
    from_python,
    is_characters,
    is_traced,
    settled,
    vector,
    whole,
    whole_list,
)
from pullback.state import IMPORTED, registered

OUTSIDE: Final = frozenset(("⎕TS", "⎕WA", "⎕CSV", "⎕NTIE", "⎕NSIZE", "⎕NREAD", "⎕NUNTIE", "⎕NNUMS"))
"""System names whose value may differ at each call."""
OPERATORS: Final[dict[str, Any]] = registered({}, "one for each operator", stays=IMPORTED)
"""Operators by name. The module `compiled` adds them."""


@dataclass
class Builtin(Verb):
    """A system function."""

    name: str = "⎕"
    define: Callable[..., Value] = lambda y, x: y

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return the result of the system function."""
        if any(v is not None and is_traced(v) for v in (x, y)):
            raise errors.domain(f"{self.name} in a compiled function")
        return self.define(settled(y), x)


def text_of(x: Value, what: str) -> str:
    """Characters as a Python string."""
    if not is_characters(x) and x.size:
        raise errors.domain(f"{what} takes characters")
    return characters_of(x)


def characters_of(x: Value) -> str:
    """Characters as a Python string. NumPy has NUL as an empty text."""
    return "".join(c or "\0" for c in x.reshape(-1).tolist()) if x.size else ""


def _ucs(y: Value, x: Value | None) -> Value:
    if is_characters(y):
        return np.array([*map(ord, characters_of(y))], np.int64).reshape(y.shape)
    try:
        return np.array([chr(n) for n in whole_list(y.reshape(-1), "⎕UCS")], dtype="<U1").reshape(y.shape)
    except (ValueError, OverflowError):
        raise errors.domain("⎕UCS takes numbers of characters") from None


def _csv(y: Value, x: Value | None) -> Value:
    path = Path(text_of(y, "⎕CSV"))
    try:
        lines = reading.content(path).decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise AplError("FILE ERROR", f"{path}: not UTF-8") from None
    try:
        return np.array([np.array(line.split(","), np.float64) for line in lines if line.strip()])
    except ValueError:
        raise errors.domain(f"{path} is no table of numbers: ⎕CSV reads numbers") from None


@dataclass(frozen=True)
class Variable:
    """A system variable: its field of the settings, the allowed numbers, and their description."""

    field: str
    allows: Callable[[float], bool]
    what: str

    def value(self, settings: Settings) -> Value:
        """Return the current number."""
        return np.array(getattr(settings, self.field))

    def changed(self, settings: Settings, value: Any) -> Settings:
        """Return the settings with a new number.

        Raises:
            AplError: [E804] the number is not allowed.
        """
        known = isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "biuf"
        if not known or not self.allows(number := value.item()):
            raise errors.domain(self.what)
        return replace(settings, **{self.field: type(getattr(settings, self.field))(number)})


VARIABLES: Final = {
    "⎕IO": Variable("io", lambda n: n in (0, 1), "⎕IO is 0 or 1"),
    "⎕CT": Variable("ct", lambda n: 0 <= n <= 2**-32, "⎕CT is a number from 0 to 2*¯32"),
    "⎕PP": Variable("pp", lambda n: n in range(1, 35), "⎕PP is a whole number from 1 to 34"),
    "⎕FR": Variable("fr", lambda n: n in (645, 325), "⎕FR is 645 or 325"),
    "⎕ML": Variable("ml", lambda n: n == 1, "⎕ML is 1: verbs have the meanings of that migration level only"),
}
DTYPES: Final = {83: "<i1", 163: "<i2", 323: "<i4", 645: "<f8", 11: "bits", 80: "U", 82: "U"}


def find(name: str, work: Any) -> Any:
    """Return the object of a system name in a workspace."""
    match name:
        case "⎕A":
            return np.array(list(string.ascii_uppercase))
        case "⎕D":
            return np.array(list(string.digits))
        case "⎕TS":
            now = datetime.datetime.now()
            return np.array([now.year, now.month, now.day, now.hour, now.minute, now.second, now.microsecond // 1000])
        case "⎕WA":
            return np.array(work.limits.left())
        case "⎕UCS":
            return Builtin(name, _ucs)
        case "⎕CSV":
            return Builtin(name, _csv)
        case "⎕ARGS":
            return vector([from_python(a) if len(a) != 1 else np.array([a]) for a in work.arguments])
        case "⎕NTIE":
            return Builtin(name, lambda y, x: _tie(work, y, x))
        case "⎕NSIZE":
            return Builtin(name, lambda y, x: np.array(len(_tied(work, y))))
        case "⎕NREAD":
            return Builtin(name, lambda y, x: _read(work, y))
        case "⎕NUNTIE":
            return Builtin(name, lambda y, x: _untie(work, y))
        case "⎕NNUMS":
            return np.array(sorted(work.files), np.int64)
        case _:
            return None


def _tie(work: Any, y: Value, x: Value | None) -> Value:
    if x is None:
        raise errors.syntax("⎕NTIE takes a path to its left and a number to its right")
    path = Path(text_of(settled(x), "⎕NTIE"))
    number = whole(y.reshape(-1)[:1], "⎕NTIE")
    if number == 0:
        number = min([0, *work.files]) - 1
    if number in work.files:
        raise AplError("FILE ERROR", f"the number {number} is tied already")
    work.files[number] = _bytes(path)
    return np.array(number)


def _bytes(path: Path) -> bytes | bytearray:
    """Read a file, which may be compressed or in the data set folder."""
    places = [path, Path(f"{path}.gz")]
    if folder := os.environ.get("PULLBACK_DATA"):
        places += [Path(folder) / p for p in places]
    found = next((p for p in places if p.is_file()), path)
    data = reading.content(found)
    return reading.inflated(data, found) if found.suffix == ".gz" else data


def _tied(work: Any, y: Value) -> bytes | bytearray:
    number = whole(y.reshape(-1)[:1], "a tie number")
    if number not in work.files:
        raise AplError("FILE ERROR", f"no file is tied to {number}")
    found: bytes | bytearray = work.files[number]
    return found


def _read(work: Any, y: Value) -> Value:
    numbers = whole_list(y, "⎕NREAD")
    if not 3 <= len(numbers) <= 4:
        raise errors.length("⎕NREAD takes a tie number, a type, a count and a first byte")
    data = _tied(work, np.array(numbers[0]))
    kind, count, start = DTYPES.get(numbers[1]), numbers[2], numbers[3] if len(numbers) == 4 else 0
    if kind is None:
        raise errors.domain(f"⎕NREAD knows the types {' '.join(map(str, DTYPES))}, not {numbers[1]}")
    size = 1 if kind in ("U", "bits") else np.dtype(kind).itemsize
    end = len(data) if count < 0 else start + count * size
    if start < 0 or start > len(data) or end > len(data):
        raise AplError("FILE ERROR", f"the file has {len(data)} bytes, and {end} were asked for")
    raw = np.frombuffer(data[start:end], np.uint8)
    if kind == "U":
        return np.array([chr(b) for b in raw.tolist()], dtype="<U1")
    if kind == "bits":
        return np.unpackbits(raw).astype(np.int64)
    found = np.frombuffer(data[start:end][: (end - start) // size * size], kind)
    return found.astype(np.float64 if kind == "<f8" else np.int64)


def _untie(work: Any, y: Value) -> Value:
    for number in whole_list(y.reshape(-1), "⎕NUNTIE"):
        if number not in work.files:
            raise AplError("FILE ERROR", f"no file is tied to {number}")
        del work.files[number]
    return y
