"""System names: variables, values such as ⎕TS, functions such as ⎕UCS, and reading files (⎕NREAD)."""

from __future__ import annotations

import datetime
import os
import secrets
import string
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from pullback import reading
from pullback.apl import errors
from pullback.apl.display import lines
from pullback.apl.errors import AplError
from pullback.apl.functions import Verb
from pullback.apl.table import Settings
from pullback.apl.values import (
    Value,
    from_python,
    is_characters,
    is_nested,
    is_traced,
    settled,
    vector,
    whole,
    whole_list,
)
from pullback.apl.verbs import calculate
from pullback.state import IMPORTED, registered
from pullback.tracing.active import is_tracing

OUTSIDE: Final = frozenset(("⎕TS", "⎕AI", "⎕WA", "⎕CSV", "⎕NTIE", "⎕NSIZE", "⎕NREAD", "⎕NUNTIE", "⎕NNUMS"))
"""System names whose value may differ at each call."""
CONSTANT: Final = frozenset(("⎕A", "⎕D", "⎕UCS"))
"""System names that mean the same at each call."""
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


@dataclass(frozen=True)
class Seed(Variable):
    """⎕RL, the seed of `?`. The same seed gives the same numbers; they are not those of other APLs."""

    def changed(self, settings: Settings, value: Any) -> Settings:
        """Start the random numbers anew; ⍬ takes a seed from the system."""
        if is_tracing():
            raise errors.at_compilation("⎕RL")
        if isinstance(value, np.ndarray) and value.shape == (0,):
            seed = secrets.randbits(31)
        else:
            seed = super().changed(settings, value).rl
        calculate.RANDOM.bit_generator.state = np.random.default_rng(seed).bit_generator.state
        return replace(settings, rl=seed)


VARIABLES: Final[dict[str, Variable]] = {
    "⎕IO": Variable("io", lambda n: n in (0, 1), "⎕IO is 0 or 1"),
    "⎕CT": Variable("ct", lambda n: 0 <= n <= 2**-32, "⎕CT is a number from 0 to 2*¯32"),
    "⎕PP": Variable("pp", lambda n: n in range(1, 35), "⎕PP is a whole number from 1 to 34"),
    "⎕FR": Variable("fr", lambda n: n in (645, 325), "⎕FR is 645 or 325"),
    "⎕ML": Variable("ml", lambda n: n in range(4), "⎕ML is 0, 1, 2 or 3"),
    "⎕DIV": Variable("div", lambda n: n == 0, "⎕DIV is 0: division by zero is an error, and 0÷0 is 1"),
    "⎕RL": Seed("rl", lambda n: 0 <= n < 2**31 and n == int(n), "⎕RL is a whole number from 0 to 2147483647, or ⍬"),
}
DTYPES: Final = {83: "<i1", 163: "<i2", 323: "<i4", 645: "<f8", 11: "bits", 80: "U", 82: "U"}


def find(name: str, work: Any, scope: Any) -> Any:
    """Return the object of a system name in a workspace, for use in a scope."""
    match name:
        case "⎕A":
            return np.array(list(string.ascii_uppercase))
        case "⎕D":
            return np.array(list(string.digits))
        case "⎕TS":
            now = datetime.datetime.now()
            return np.array([now.year, now.month, now.day, now.hour, now.minute, now.second, now.microsecond // 1000])
        case "⎕AI":
            return np.array([0, round(1000 * time.process_time()), round(1000 * (time.monotonic() - work.began)), 0])
        case "⎕WA":
            return np.array(work.limits.left())
        case "⎕DR":
            return Builtin(name, _representation)
        case "⎕FMT":
            return Builtin(name, lambda y, x: _formatted(y, x, scope.settings.pp))
        case "⎕NC":
            return Builtin(name, lambda y, x: _classes(scope, y, x))
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


# Representation -----------------------------------------------------------------------------------------------


def _code_of(y: Value) -> int:
    """Return the number of the narrowest type that holds an array."""
    if is_nested(y):
        return 326
    if y.dtype.kind == "U":
        return 80 if all(ord(c or "\0") < 256 for c in y.reshape(-1).tolist()) else 160
    if y.dtype.kind == "c":
        return 1289
    if y.dtype.kind == "f" and not (np.isfinite(y).all() and (y == np.floor(y)).all()):
        return 645
    low, high = (y.min(), y.max()) if y.size else (0, 0)
    ranges = {11: (0, 1), 83: (-(2**7), 2**7 - 1), 163: (-(2**15), 2**15 - 1), 323: (-(2**31), 2**31 - 1)}
    return next((code for code, (least, most) in ranges.items() if least <= low and high <= most), 645)


def _representation(y: Value, x: Value | None) -> Value:
    """⎕DR: the number of an array's type; with a type to the left, its bytes as elements of that type."""
    own = _code_of(y)
    if x is None:
        return np.array(own)
    wanted = whole(settled(x), "⎕DR")
    bytes_of, made_of = STORED.get(own), STORED.get(wanted)
    if bytes_of is None or made_of is None:
        raise errors.domain(f"⎕DR reads the bytes of arrays of the types {' '.join(map(str, STORED))}",
                            [f"left: {wanted}", f"right: {own}"])  # fmt: skip
    raw = _bytes_of(np.atleast_1d(y), bytes_of)
    count = raw.shape[-1]
    size = 1 if made_of in ("bits", "U") else np.dtype(made_of).itemsize
    if count % size:
        raise errors.length(f"⎕DR needs a multiple of {size} bytes along the last axis, not {count}")
    return _elements_of(raw, made_of)


STORED: Final = {11: "bits", 80: "U", 83: "<i1", 163: "<i2", 323: "<i4", 645: "<f8"}


def _bytes_of(y: Value, kind: str) -> np.ndarray[Any, Any]:
    """Return the bytes of an array along its last axis."""
    if kind == "bits":
        if y.shape[-1] % 8:
            raise errors.length("⎕DR needs a multiple of 8 bits along the last axis")
        return np.packbits(y.astype(np.uint8), axis=-1)
    if kind == "U":
        return np.array([ord(c or "\0") for c in y.reshape(-1).tolist()], np.uint8).reshape(y.shape)
    return np.ascontiguousarray(y.astype(kind)).view(np.uint8)


def _elements_of(raw: np.ndarray[Any, Any], kind: str) -> Value:
    """Return the elements that bytes along the last axis stand for."""
    if kind == "U":
        return np.array([chr(b) for b in raw.reshape(-1).tolist()], dtype="<U1").reshape(raw.shape)
    if kind == "bits":
        return np.unpackbits(raw, axis=-1).astype(np.int64)
    found = np.ascontiguousarray(raw).view(kind)
    return found.astype(np.float64 if kind == "<f8" else np.int64)


def _formatted(y: Value, x: Value | None, precision: int) -> Value:
    """⎕FMT: the matrix of characters that a session prints."""
    if x is not None:
        raise errors.domain("⎕FMT takes no format", remedy="⍕ with a width and a number of digits for each column")
    rows = lines(y, boxed=False, precision=precision)
    width = max(map(len, rows), default=0)
    return np.array([list(row.ljust(width)) for row in rows], dtype="<U1").reshape(len(rows), width)


def _classes(scope: Any, y: Value, x: Value | None) -> Value:
    """⎕NC: for each name 0 if it has no value, 2 for a value, 3 for a function, 4 for an operator."""
    if x is not None:
        raise errors.syntax("⎕NC takes one argument")
    if is_nested(y):
        return np.array([_classes(scope, e, None).item() for e in y.reshape(-1)], np.int64).reshape(y.shape)
    if y.ndim == 2:
        return np.array([scope.name_class(text_of(row, "⎕NC").strip()) for row in y], np.int64)
    return np.array(scope.name_class(text_of(y, "⎕NC").strip()))


# Files --------------------------------------------------------------------------------------------------------


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
    if kind not in ("U", "bits"):
        raw = raw[: len(raw) // size * size]
    return _elements_of(raw, kind)


def _untie(work: Any, y: Value) -> Value:
    for number in whole_list(y.reshape(-1), "⎕NUNTIE"):
        if number not in work.files:
            raise AplError("FILE ERROR", f"no file is tied to {number}")
        del work.files[number]
    return y
