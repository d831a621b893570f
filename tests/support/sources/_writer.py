"""The state of random program writers: dims, scope, and choices."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

NDArray = np.ndarray[Any, Any]

SMALL: Final = (1, 2, 2, 3, 3, 4, 5)
LARGE: Final = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 32, 33, 33, 40, 40)  # around lengths of vectors and strips
ANYWHERE: Final = ("sin", "cos", "tanh", "logistic", "atan", "erf", "asinh", "abs", "relu", "square", "negative")
# What a function needs to be in its domain and of moderate size; {} is any number.
TAMED: Final = {
    "exp": "0.5 * {}", "expm1": "pb.tanh({})", "sinh": "pb.tanh({})", "cosh": "pb.sin({})", "tan": "pb.tanh({})",
    "asin": "0.9 * pb.tanh({})", "acos": "0.9 * pb.sin({})", "atanh": "0.9 * pb.tanh({})",
    "acosh": "1.2 + pb.square({})", "log": "1.5 + pb.square({})", "log1p": "pb.square({})",
    "log2": "0.7 + pb.square({})", "log10": "1.5 + pb.square({})", "sqrt": "0.5 + pb.square({})",
    "reciprocal": "1.5 + pb.square({})", "floor": "{}", "ceil": "{}", "round": "{}", "trunc": "{}", "sign": "{}",
}  # fmt: skip
POSITIVE: Final = ("sqrt", "log", "log2", "log10", "reciprocal", "log1p")  # of numbers above 0 as they are
FOLDED: Final = ("sum", "sum", "sum", "prod", "max", "min")


@dataclass(frozen=True)
class Dim:
    """An extent: equal keys are equal for all sizes."""

    key: str
    size: int


@dataclass(frozen=True)
class Var:
    """An array in scope: what it is called and its extents."""

    text: str
    dims: tuple[Dim, ...]
    positive: bool = False


@dataclass(frozen=True)
class IndexVar:
    """An index variable, below `dim`."""

    text: str
    dim: Dim


@dataclass
class Sample:
    """A program with arguments, and expressions that ask for values and derivatives."""

    source: str
    arguments: dict[str, NDArray]
    queries: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = ["import numpy as np", "import pullback as pb"]
        types = [t for t in ("Float32", "Float64", "Int64") if t in self.source]
        lines += [f"from jaxtyping import {', '.join(types)}"] * bool(types)
        lines += ["", self.source.rstrip(), ""]
        used = {name: v for name, v in self.arguments.items() if re.search(rf"\b{name}\b", " ".join(self.queries))}
        lines += [f"{name} = np.array({value.tolist()!r}, np.{value.dtype})" for name, value in used.items()]
        return "\n".join([*lines, *(f"print({query})" for query in self.queries), ""])


class Writer(ABC):
    """Text over a scope that grows."""

    def __init__(self, rng: np.random.Generator, extents: Sequence[int]) -> None:
        self.rng = rng
        self.extents = extents
        self.scope: list[Var] = []
        self.indices: list[IndexVar] = []
        self.integers: list[tuple[Var, Dim]] = []
        self.helpers: list[str] = []
        self.loops = 0
        self.symbolic = self.chance(0.5)
        self.dtype = "float64" if self.chance(0.75) else "float32"
        self.arguments: dict[str, NDArray] = {}
        self.names: list[str] = []
        self.inputs: list[Var] = []
        self.dims: list[Dim] = []
        self.awkward = self.chance(0.25)
        self.brief = self.chance(0.75)  # most programs are small: so many more of them can be run

    # Choices ------------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def choose(self, *weighted: tuple[float, Any]) -> Any:
        total = sum(w for w, _ in weighted)
        at = self.rng.random() * total
        for w, item in weighted:
            at -= w
            if at < 0:
                return item
        return weighted[-1][1]

    # Inputs and extents -------------------------------------------------------------------------------------

    def input(self, name: str, dims: tuple[Dim, ...]) -> None:
        positive = self.chance(0.4)
        shape = tuple(d.size for d in dims)
        values = self.rng.uniform(0.2, 2.0, shape) if positive else self.rng.uniform(-2.0, 2.0, shape)
        values = np.round(values, 2)
        if self.awkward:
            special = [1.0, 0.5, 2.0] if positive else [0.0, 1.0, -1.0, 0.5, -0.0]
            if self.chance(0.15):
                small, big = (1e-30, 1e15) if self.dtype == "float32" else (1e-290, 1e100)
                special += [small, big]
            values = np.where(self.rng.random(shape) < 0.5, self.rng.choice(special, shape), values)
        self.arguments[name] = values.astype(self.dtype)
        self.names.append(name)
        self.inputs.append(Var(name, dims, positive))
        self.scope.append(self.inputs[-1])

    def integer_input(self) -> None:
        below, dim = self.dim(), self.dim()
        self.arguments["p"] = self.rng.integers(0, max(below.size, 1), dim.size)
        self.names.append("p")
        self.integers.append((Var("p", (dim,)), below))

    def dim(self) -> Dim:
        """A dim of the program, or a small number."""
        if self.chance(0.8):
            return self.pick(self.dims)  # type: ignore[no-any-return]
        size = int(self.rng.integers(1, 4))
        return Dim(str(size), size)

    def extent(self, d: Dim) -> str:
        """A dim as an expression."""
        if d.key.isdigit() and self.chance(0.7):
            return d.key
        found = [f"{v.text}.shape[{k}]" for v in self.scope for k, e in enumerate(v.dims) if e.key == d.key]
        return str(self.pick(found)) if found else d.key

    # What is written further down, where it needs what is written here.

    @abstractmethod
    def array(self, dims: tuple[Dim, ...], depth: int) -> str:
        """An array of these extents."""

    @abstractmethod
    def constant(self, dims: tuple[Dim, ...], depth: int = 0) -> str:
        """Zeros, ones, or a number everywhere."""

    @abstractmethod
    def scalar(self, depth: int) -> str:
        """A floating-point number over the index variables in scope."""


__all__ = ["ANYWHERE", "FOLDED", "LARGE", "POSITIVE", "SMALL", "TAMED", "Dim", "IndexVar", "Sample", "Var", "Writer"]
