"""Records of compiled programs, which save the next process lowering and printing.

The cache key of a record is a digest of the program's text, its dims, the vector size and a fingerprint of this
package. A record holds the C text and the data that a call needs.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pullback.ir import nodes as ir
from pullback.ir.identity import digest, identity
from pullback.machine import native
from pullback.records import dataclass
from pullback.runtime.buffer import extents
from pullback.runtime.cache import Found, find, keep
from pullback.runtime.compile import Compiler, Text, Units
from pullback.runtime.load import Entry, Library, loaded
from pullback.state import cached

if TYPE_CHECKING:
    from pullback.codegen.target import Source
    from pullback.loops.program.nodes import Function
    from pullback.loops.program.values import Buffer

ROOT = str(Path(__file__).resolve().parents[1])
REFUSED_SECONDS = 86_400.0  # how long a compiler's failure is remembered
BRIEF = 100_000  # most operations and words of four bytes of a brief call: some 20 microseconds


@dataclass(frozen=True)
class Parameter:
    """An array that a compiled function takes; with open sizes its shape is unknown."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @staticmethod
    def of(b: Buffer) -> Parameter:
        """The parameter for a buffer."""
        known = all(d.constant is not None for d in b.shape)
        return Parameter(b.name, b.dtype.name, extents(b) if known else ())


@dataclass(frozen=True)
class Record:
    """A compiled function without its loops.

    Attributes:
        units: its C, in separately compiled files.   straight: whether the first only calls the others.
        name: its C name.
        arena_bytes: the size of its arena.   worker_bytes: additional bytes for each further worker.
        swap_bytes: the bytes of the arena, before those of the worker, that may lie in a file.
        sites: the number of its range checks.
        in_place: output and input positions that may be one array.
        flags: compiler flags after the usual ones.
        brief: whether a call takes a few microseconds at most.
        dims: the dims that are arguments; another function then gives the bytes of the arena.
        threaded: whether it takes a pool of threads.
    """

    units: tuple[str, ...]
    name: str
    arena_bytes: int
    sites: int
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    in_place: tuple[tuple[int, int], ...]
    flags: tuple[str, ...] = ()
    brief: bool = False
    dims: tuple[str, ...] = ()
    worker_bytes: int = 0
    threaded: bool = False
    straight: bool = False
    swap_bytes: int = 0

    @staticmethod
    def of(function: Function, source: Source, flags: tuple[str, ...] = ()) -> Record:
        """The record of a printed function."""
        return Record(source.units or (source.text,), source.name, source.arena_bytes, len(source.sites),
                      tuple(Parameter.of(b) for b in function.inputs),
                      tuple(Parameter.of(b) for b in function.outputs), function.in_place, flags, _is_brief(function),
                      source.dims, source.worker_bytes, source.threaded, source.straight, source.swap_bytes)

    @staticmethod
    def read(data: dict[str, Any]) -> Record:
        """Rebuild a record from its `asdict` form in JSON."""
        inputs, outputs = ([Parameter(p["name"], p["dtype"], tuple(p["shape"])) for p in data[side]]
                           for side in ("inputs", "outputs"))
        pairs = tuple((int(o), int(i)) for o, i in data["in_place"])
        return Record(tuple(data["units"]), data["name"], data["arena_bytes"], data["sites"], tuple(inputs),
                      tuple(outputs), pairs, tuple(data["flags"]), data["brief"], tuple(data["dims"]),
                      data["worker_bytes"], data["threaded"], data["straight"], data["swap_bytes"])

    @property
    def text(self) -> Text:
        """The text to compile."""
        first, *others = self.units
        return Units(first, tuple(others), self.straight) if others else first

    def load(self) -> Library:
        """The compiled library, from this process or from the cache."""
        return loaded(self.text, self.flags)

    def entry(self, library: Library) -> Entry:
        """The compiled function."""
        return library.entry(self.name, self.arity)

    def entry_of_arena(self, library: Library) -> Entry:
        """The compiled function that gives the bytes of the arena for some dims."""
        entry = library.entry(f"{self.name}_arena_bytes", len(self.dims))
        entry.argtypes = [ctypes.c_int64] * len(self.dims)  # type: ignore[attr-defined]
        entry.restype = ctypes.c_size_t  # type: ignore[attr-defined]
        return entry

    @property
    def arity(self) -> int:
        """The number of C arguments."""
        return len(self.inputs) + len(self.outputs) + len(self.dims) + 1 + bool(self.sites) + self.threaded


def _is_brief(function: Function) -> bool:
    """Whether a call is short: few operations, few bytes, and no loop with a data-dependent end."""
    from pullback.loops.program.nodes import Break, Parallel, walk

    if any(isinstance(s, Break | Parallel) for s in walk(function.body)):
        return False
    operations = function.operations.constant
    if operations is None or function.dims:
        return False
    return operations + sum(b.bytes for b in (*function.inputs, *function.outputs)) / 4 <= BRIEF


def record_key(program: ir.Known, dims: Mapping[str, int]) -> str:
    """Return the key of a program's record."""
    return digest(identity(program), json.dumps(sorted(dims.items())), f"{native()}", fingerprint())


class CacheEntry:
    """The cache entry of a program for some dims, to look up or to store.

    Attributes:
        key: the cache key, the only digest of the program that a compilation computes.
    """

    def __init__(self, program: ir.Known, dims: Mapping[str, int]) -> None:
        self.key = record_key(program, dims)

    @cached_property
    def record(self) -> Record | None:
        """The record, looked up once; None if there is none."""
        return self._found(find("programs", self.key))

    def keep(self, record: Record) -> None:
        """Store the record in the cache."""
        self._keep("programs", self.key, record)

    def plain(self, compiler: Compiler) -> Record | None:
        """The record of the plain C, if this compiler recently failed on the usual C."""
        return self._found(find("refused", self._refused_key(compiler), REFUSED_SECONDS))

    def keep_plain(self, compiler: Compiler, record: Record) -> None:
        """Store the record of the plain C, because the compiler failed on the usual C."""
        self._keep("refused", self._refused_key(compiler), record)

    def _refused_key(self, compiler: Compiler) -> str:
        return digest(self.key, str(compiler))

    @staticmethod
    def _found(found: Found | None) -> Record | None:
        return None if found is None else Record.read(json.loads(found.content))

    @staticmethod
    def _keep(kind: str, key: str, record: Record) -> None:
        keep(kind, key, json.dumps(asdict(record)).encode(), ".json")


def was_derived(identity: str) -> bool:
    """Whether this version of the package has already derived the function with this identity."""
    return find("derived", digest(identity, fingerprint())) is not None


def note_derived(identity: str) -> None:
    """Record that the function with this identity has been derived."""
    keep("derived", digest(identity, fingerprint()), b"")


@cached(1)
def fingerprint() -> str:
    """A digest of this package: size and modification time of each file that affects generated C."""
    stats = ((path, os.stat(path)) for path in sources())
    return digest(*sorted(f"{path[len(ROOT) :]} {s.st_size} {s.st_mtime_ns}" for path, s in stats))


def sources() -> Iterator[str]:
    """The source files that determine generated C, nested folders included."""
    for folder in ("ir", "operators", "rewrite", "ad", "passes", "loops", "codegen", "runtime", "tracing",
                   "arrays", "calls", "derivatives"):
        for where, _, names in os.walk(os.path.join(ROOT, folder)):
            yield from (os.path.join(where, name) for name in names if name.endswith(".py"))
