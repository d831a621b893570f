"""Traced functions for other libraries: flat lists of arrays in and out, also for the pullback."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from pullback.calls.compiled import Compiled
from pullback.errors import DataError, TraceError
from pullback.tracing import tree
from pullback.tracing.tree import Structure

__all__ = ["Flat", "Flats", "elsewhere", "library"]

Arrays = tuple[NDArray[Any], ...]
T = TypeVar("T")


def library(name: str, purpose: str, package: str = "") -> ModuleType:
    """Import an optional library.

    Raises:
        DataError: [E506] the library is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        package = package or name.partition(".")[0]
        raise DataError("E506", f"{purpose} needs {package}", remedy=f"pip install {package}") from None


def elsewhere(what: str, device: object, remedy: str) -> TraceError:
    """The error for an array that is not in this machine's main memory."""
    return TraceError("E530", f"{what} is on the device {device}; functions run on the processor", remedy=remedy)


class Flat:
    """A traced function for arguments of one structure.

    Attributes:
        f: the function.
        places: the positions of the leaves that are arrays; `leaves` has the values of the others.
    """

    def __init__(self, f: pb.Function, structure: Structure, leaves: Sequence[Any], places: Sequence[int]) -> None:
        self.f = f
        self.structure = structure
        self.leaves = list(leaves)
        self.places = tuple(places)
        self._pullbacks: dict[tuple[tuple[int, ...], ...], Flat] = {}
        self.results: Structure | None = None  # of the last call

    def arguments(self, arrays: Sequence[Any]) -> Any:
        """Rebuild the arguments from these arrays."""
        leaves = list(self.leaves)
        for place, array in zip(self.places, arrays, strict=True):
            leaves[place] = array
        return tree.unflatten(self.structure, leaves)

    def run(self, arrays: Sequence[Any]) -> Arrays:
        """Call the function; return the leaves of the result."""
        found, self.results = tree.flatten(self.f(*self.arguments(arrays)))
        return tuple(np.asarray(a) for a in found)

    def compiled(self, kinds: Sequence[tuple[tuple[int, ...], Any]]) -> Compiled:
        """Compile for arrays of these shapes and element types; also set the structure of the results."""
        from pullback.calls.signature import signature_of

        stand_ins = [np.zeros(shape, dtype) for shape, dtype in kinds]
        found, _ = self.f.compiled(*signature_of(self.f.parameters, self._values(stand_ins)))
        self.results = found.traced.structure
        return found

    def _values(self, arrays: Sequence[Any]) -> list[Any]:
        from pullback.calls.signature import bind

        return list(bind(self.f.name, self.f.parameters, self.arguments(arrays), {}))

    def pullback(self, wanted: tuple[int, ...], floating: tuple[int, ...]) -> Flat:
        """The pullback: it maps arrays and cotangents of floating results to cotangents of wanted arrays."""
        if (wanted, floating) not in self._pullbacks:
            self._pullbacks[wanted, floating] = self._pullback(wanted, floating)
        return self._pullbacks[wanted, floating]

    def _pullback(self, wanted: tuple[int, ...], floating: tuple[int, ...]) -> Flat:
        def back(arrays: Any, cotangents: Any) -> Any:
            def forward(active: Any) -> Any:
                own = list(arrays)
                for k, a in zip(wanted, active):
                    own[k] = a
                found, _ = tree.flatten(self.f(*self.arguments(own)))
                return tuple(found[k] for k in floating)

            active = tuple(arrays[k] for k in wanted)
            return pb.vjp(pb.function(forward), wrt=0)(active, cotangent=tuple(cotangents))[1]

        back.__name__ = f"{self.f.name}_pullback"
        leaves, structure = tree.flatten(((0.0,) * len(self.places), (0.0,) * len(floating)))
        return Flat(pb.function(back), structure, leaves, range(len(leaves)))


class Flats(Generic[T]):
    """A cache of objects made from a function, one for each argument structure."""

    def __init__(self, f: Any, is_array: Callable[[Any], bool], make: Callable[[Flat], T]) -> None:
        self.f = f if isinstance(f, pb.Function) else pb.function(f)
        self._is_array = is_array
        self._make = make
        self._made: dict[Any, T] = {}

    def of(self, args: tuple[Any, ...]) -> tuple[T, list[Any]]:
        """The object for these arguments, and the arrays among them."""
        leaves, structure = tree.flatten(args)
        places = tuple(k for k, x in enumerate(leaves) if self._is_array(x))
        arrays = [leaves[k] for k in places]
        others = [None if k in places else x for k, x in enumerate(leaves)]
        key = (structure, places, tuple(map(repr, others)))
        if key not in self._made:
            self._made[key] = self._make(Flat(self.f, structure, others, places))
        return self._made[key], arrays


def is_floating(array: Any) -> bool:
    """Whether an array has floating-point elements, and so may have a cotangent."""
    return np.dtype(array.dtype).kind == "f" or str(array.dtype) in ("bfloat16", "float16")
