"""Cases: a function, its documentation page, sample arguments, and the derivatives to compare."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import pullback as pb

NDArray = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sample:
    """One argument: its values for a size and a generator, and whether JAX defines the derivative by it."""

    values: Callable[[np.random.Generator, int], NDArray]
    differentiable: bool = True


def _shape(dims: str, n: int) -> tuple[int, ...]:
    return tuple(eval(dim, {"n": n}) for dim in dims.split())


def between(low: float, high: float, dims: str = "n") -> Sample:
    """Equally distributed in an interval; dims as in annotations, in terms of the size n."""
    return Sample(lambda rng, n: low + (high - low) * rng.random(_shape(dims, n)))


def fixed(low: float, high: float, dims: str = "n") -> Sample:
    """As `between`, and no derivative is asked for, since JAX defines none."""
    return Sample(between(low, high, dims).values, differentiable=False)


def whole(low: int, high: int, dims: str = "n") -> Sample:
    """Integers from low to high - 1."""
    return Sample(lambda rng, n: np.floor(low + (high - low) * rng.random(_shape(dims, n))).astype(np.int64), False)


def whole_floats(low: int, high: int, dims: str = "n") -> Sample:
    """As `whole`, as floating-point numbers."""
    return Sample(lambda rng, n: np.floor(low + (high - low) * rng.random(_shape(dims, n))), False)


def rising(low: float, high: float, dims: str = "n", differentiable: bool = True) -> Sample:
    """Increasing numbers, one in each of as many equal parts of the interval."""

    def values(rng: np.random.Generator, n: int) -> NDArray:
        (count,) = _shape(dims, n)
        return low + (high - low) * (np.arange(count) + 0.1 + 0.8 * rng.random(count)) / count

    return Sample(values, differentiable)


def well_conditioned(dims: str = "n n") -> Sample:
    """Matrices with a heavy diagonal."""

    def values(rng: np.random.Generator, n: int) -> NDArray:
        rows, columns = _shape(dims, n)
        return rng.random((rows, columns)) - 0.5 + 0.3 * rows * np.eye(rows, columns)

    return Sample(values)


def symmetric(dims: str = "n n") -> Sample:
    """Symmetric positive definite matrices."""

    def values(rng: np.random.Generator, n: int) -> NDArray:
        rows, _ = _shape(dims, n)
        a = rng.random((rows, rows)) - 0.5
        return a @ a.T / rows + np.eye(rows)

    return Sample(values)


@dataclass(frozen=True)
class Case:
    """A documented function, written in Pullback."""

    name: str
    page: str
    function: Callable[..., Any]
    samples: tuple[Sample, ...]
    sizes: tuple[int, ...]
    tolerance: float
    note: str
    lacking: bool

    def _generator(self, what: str, size: int) -> np.random.Generator:
        return np.random.default_rng(zlib.crc32(f"{self.name} {what} {size}".encode()))

    def arguments(self, size: int) -> tuple[NDArray, ...]:
        """The sample arguments."""
        rng = self._generator("arguments", size)
        return tuple(np.asarray(s.values(rng, size)) for s in self.samples)

    def tangents(self, size: int) -> tuple[NDArray | None, ...]:
        """The direction in which the arguments move; None where no derivative is asked for."""
        rng = self._generator("tangents", size)
        return tuple(
            np.asarray(rng.random(a.shape) - 0.3) if s.differentiable else None
            for s, a in zip(self.samples, self.arguments(size))
        )

    def cotangent(self, size: int, shape: tuple[int, ...]) -> NDArray:
        """The weights of the result's elements in the number whose gradient is taken."""
        return self._generator("cotangent", size).random(shape) + 0.5

    @cached_property
    def value(self) -> pb.Function:
        """The function."""
        return pb.function(self.function)

    @cached_property
    def reverse(self) -> pb.Function:
        """Value, and the gradient of the weighted sum of the result's elements."""

        def reverse(arguments: Any, weights: Any) -> Any:
            out, bars = pb.vjp(self.value)(*arguments, cotangent=weights)
            return out, self._differentiable(bars)

        return pb.function(reverse)

    @cached_property
    def forward(self) -> pb.Function:
        """The tangent of the result."""

        def forward(arguments: Any, tangents: Any) -> Any:
            return pb.jvp(self.value)(arguments, self._spread(tangents))[1]

        return pb.function(forward)

    @cached_property
    def second(self) -> pb.Function:
        """The tangent of the gradient."""

        def second(arguments: Any, tangents: Any, weights: Any) -> Any:
            def gradient(moving: Any) -> Any:
                whole = list(arguments)
                for place, value in zip(self._places, moving):
                    whole[place] = value
                return self._differentiable(pb.vjp(self.value)(*whole, cotangent=weights)[1])

            return pb.jvp(gradient)((tuple(arguments[place] for place in self._places),), (tuple(tangents),))[1]

        return pb.function(second)

    @property
    def _places(self) -> list[int]:
        return [place for place, sample in enumerate(self.samples) if sample.differentiable]

    def _differentiable(self, parts: Any) -> Any:
        parts = parts if isinstance(parts, tuple | list) else (parts,)
        return tuple(parts[place] for place in self._places)

    def _spread(self, tangents: Any) -> tuple[Any, ...]:
        found = iter(tangents)
        return tuple(next(found) if s.differentiable else None for s in self.samples)


CASES: dict[str, Case] = {}


def case(
    page: str,
    *samples: Sample,
    sizes: tuple[int, ...] = (5, 40),
    tolerance: float = 1e-10,
    note: str = "",
    lacking: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function under its own name.

    Args:
        page: The documentation page that defines it.
        samples: Its arguments.
        sizes: The sizes it is compared for: on both sides of 32, from where on loops run in vectors.
        tolerance: The relative error allowed, larger where a series is cut or the reference is an approximation.
        note: What a reader of the table should know.
        lacking: Whether Pullback has no such function, and it is a series, a recurrence or an integral here.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__.rstrip("_")
        assert name not in CASES, name
        CASES[name] = Case(name, page, function, samples, sizes, tolerance, note, lacking)
        return function

    return register
