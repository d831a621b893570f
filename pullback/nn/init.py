"""Initializers, such as `kaiming_normal()`: functions of a generator, a shape and a dtype.

    scheme(random, shape, dtype) -> array

Weights have shape (out, in, *kernel_size). The fan-in is the number of inputs of an output, in · kernel size. The
fan-out is the number of outputs that an input reaches, out · kernel size. `fans=(i, o)` overrides both. Numbers are
drawn in f64 and rounded, so all element types get the same numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pullback.errors import ShapeError
from pullback.nn.settings import Settings, check_number, refused
from pullback.source import user_position
from pullback.tracing.public import public_module as _public_module

__all__ = [
    "Scheme",
    "constant",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]

Values = NDArray[Any]
Shape = tuple[int, ...]


@dataclass(frozen=True, repr=False, eq=False)
class Scheme(Settings):
    """The base class of initializers. Your own one defines a method `draw(random, shape)`.

    >>> from pullback import nn
    >>> scheme = nn.init.xavier_uniform(gain=2.0)
    >>> scheme
    xavier_uniform(gain=2.0)
    >>> scheme(np.random.default_rng(0), (4, 3), np.float32).shape
    (4, 3)
    """

    def __call__(self, random: np.random.Generator, shape: Shape, dtype: DTypeLike = np.float32) -> Values:
        """An array of this shape and element type."""
        return np.asarray(self.draw(random, tuple(shape)), dtype=dtype)

    def draw(self, random: np.random.Generator, shape: Shape) -> Values:
        """The values in f64."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False, eq=False)
class constant(Scheme):
    """Initialize all elements to one value.

    >>> from pullback import nn
    >>> nn.init.constant(0.5)(np.random.default_rng(0), (2,)).tolist()
    [0.5, 0.5]
    """

    value: float

    def __post_init__(self) -> None:
        check_number(self, "value", self.value, -math.inf)

    def draw(self, random: np.random.Generator, shape: Shape) -> Values:
        """Return the constant without drawing."""
        return np.full(shape, float(self.value))


@dataclass(frozen=True, repr=False, eq=False)
class zeros(Scheme):
    """Initialize all elements to 0."""

    def draw(self, random: np.random.Generator, shape: Shape) -> Values:
        """Return zeros without drawing."""
        return np.zeros(shape)


@dataclass(frozen=True, repr=False, eq=False)
class ones(Scheme):
    """Initialize all elements to 1."""

    def draw(self, random: np.random.Generator, shape: Shape) -> Values:
        """Return ones without drawing."""
        return np.ones(shape)


@dataclass(frozen=True, repr=False, eq=False)
class uniform(Scheme):
    """Draw from the uniform distribution between `low` and `high`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        check_number(self, "low", self.low, -math.inf)
        check_number(self, "high", self.high, self.low)

    def draw(self, random: np.random.Generator, shape: Shape) -> Values:
        """U(low, high)."""
        return random.uniform(self.low, self.high, shape)


@dataclass(frozen=True, repr=False, eq=False)
class normal(Scheme):
    """Draw from the normal distribution with a standard deviation and a mean."""

    std: float
    mean: float = 0.0

    def __post_init__(self) -> None:
        check_number(self, "std", self.std)
        check_number(self, "mean", self.mean, -math.inf)

    def draw(self, random: np.random.Generator, shape: Shape) -> Values:
        """N(mean, std²)."""
        return random.normal(self.mean, self.std, shape)


@dataclass(frozen=True, repr=False, eq=False)
class truncated_normal(Scheme):
    """Draw from the normal distribution, again if more than `bound` deviations from the mean.

    `std` is the deviation before truncation; with a bound of 2, the drawn numbers have 0.88 of it.
    """

    std: float
    mean: float = 0.0
    bound: float = 2.0

    def __post_init__(self) -> None:
        check_number(self, "std", self.std)
        check_number(self, "mean", self.mean, -math.inf)
        check_number(self, "bound", self.bound, 0.1)

    def draw(self, random: np.random.Generator, shape: Shape) -> Values:
        """N(mean, std²) within the bound."""
        out = random.standard_normal(shape)
        while (outside := np.abs(out) > self.bound).any():
            out = np.where(outside, random.standard_normal(shape), out)
        return self.mean + self.std * out


@dataclass(frozen=True, repr=False, eq=False)
class _Fans(Scheme):
    """The base of initializers with mean 0 and a variance computed from the fans."""

    is_uniform: ClassVar[bool]

    def variance(self, shape: Shape) -> float:
        """The variance."""
        raise NotImplementedError

    def draw(self, random: np.random.Generator, shape: Shape) -> Values:
        """U(-√(3 variance), √(3 variance)), or N(0, variance)."""
        if self.is_uniform:
            bound = math.sqrt(3 * self.variance(shape))
            return random.uniform(-bound, bound, shape)
        return random.normal(0.0, math.sqrt(self.variance(shape)), shape)


def _check_fans(where: object, fans: Any) -> None:
    if fans is None:
        return
    if not isinstance(fans, tuple) or len(fans) != 2:
        raise refused(where, "fans", fans, "a pair of numbers, fan in and fan out")
    for fan in fans:
        check_number(where, "fans", fan, above=True)


def fans_of(scheme: Scheme, shape: Shape) -> tuple[int, int]:
    """The fan-in and fan-out of weights of shape (out, in, *kernel_size).

    Raises:
        ShapeError: [E104] the shape has fewer than two axes.
    """
    if len(shape) < 2:
        raise ShapeError(
            "E104",
            f"{scheme!r}: an array of shape {list(shape)} has no fans",
            position=user_position(),
            remedy="weights of shape (out, in, *kernel_size), `fans=(i, o)`, or `zeros()` for a bias",
        )
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


@dataclass(frozen=True, repr=False, eq=False)
class _Xavier(_Fans):
    gain: float = 1.0
    fans: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check_number(self, "gain", self.gain)
        _check_fans(self, self.fans)

    def variance(self, shape: Shape) -> float:
        """gain² · 2 / (fan in + fan out)."""
        return self.gain**2 * 2 / sum(self.fans or fans_of(self, shape))


@dataclass(frozen=True, repr=False, eq=False)
class xavier_uniform(_Xavier):
    """U(-b, b) with b = gain √(6 / (fan in + fan out)) (Glorot and Bengio 2010, eq. 16).

    >>> from pullback import nn
    >>> w = nn.init.xavier_uniform()(np.random.default_rng(0), (100, 50))
    >>> bool(abs(w).max() <= 0.2)
    True
    """

    is_uniform = True


@dataclass(frozen=True, repr=False, eq=False)
class xavier_normal(_Xavier):
    """N(0, gain² · 2 / (fan in + fan out)) (Glorot and Bengio 2010)."""

    is_uniform = False


@dataclass(frozen=True, repr=False, eq=False)
class _OneFan(_Fans):
    mode: Literal["fan_in", "fan_out"] = "fan_in"
    fans: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("fan_in", "fan_out"):
            raise refused(self, "mode", self.mode, '"fan_in" or "fan_out"')
        _check_fans(self, self.fans)

    def one(self, shape: Shape) -> float:
        """The fan that `mode` selects."""
        return (self.fans or fans_of(self, shape))[self.mode == "fan_out"]

    def variance(self, shape: Shape) -> float:
        """1 / fan."""
        return 1 / self.one(shape)


@dataclass(frozen=True, repr=False, eq=False)
class lecun_uniform(_OneFan):
    """U(-b, b) with b = √(3 / fan) (LeCun and others 1998, section 4.6), which Caffe calls Xavier.

    With `mode="fan_out"` the fan-out is used instead of the fan-in.
    """

    is_uniform = True


@dataclass(frozen=True, repr=False, eq=False)
class lecun_normal(_OneFan):
    """N(0, 1 / fan) (LeCun and others 1998, section 4.6). `mode="fan_out"` uses the fan-out."""

    is_uniform = False


@dataclass(frozen=True, repr=False, eq=False)
class _Kaiming(_OneFan):
    a: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "a", self.a, -math.inf)

    def variance(self, shape: Shape) -> float:
        """2 / ((1 + a²) fan)."""
        return 2 / ((1 + self.a**2) * self.one(shape))


@dataclass(frozen=True, repr=False, eq=False)
class kaiming_uniform(_Kaiming):
    """U(-b, b) with b = √(6 / ((1 + a²) fan)), for (leaky) relu (He and others 2015, eq. 15).

    With `mode="fan_out"` the fan-out is used instead of the fan-in.
    """

    is_uniform = True


@dataclass(frozen=True, repr=False, eq=False)
class kaiming_normal(_Kaiming):
    """N(0, 2 / ((1 + a²) fan)), for relu or leaky relu of slope a (He and others 2015, eqs. 10 and 15).

    With `mode="fan_out"` the fan-out is used instead of the fan-in.

    >>> from pullback import nn
    >>> w = nn.init.kaiming_normal()(np.random.default_rng(0), (256, 50, 2, 2), np.float64)
    >>> w.std().round(2).item()
    0.1
    """

    is_uniform = False


@dataclass(frozen=True, repr=False, eq=False)
class orthogonal(Scheme):
    """Orthogonal rows, or columns if there are fewer, of length `gain` (Saxe and others 2014).

    A row holds all weights of one output. The distribution is uniform: R in the QR decomposition of a normal matrix
    has a positive diagonal (Mezzadri 2007).

    >>> from pullback import nn
    >>> w = nn.init.orthogonal()(np.random.default_rng(0), (2, 3), np.float64)
    >>> np.allclose(w @ w.T, np.eye(2))
    True
    """

    gain: float = 1.0

    def __post_init__(self) -> None:
        check_number(self, "gain", self.gain)

    def draw(self, random: np.random.Generator, shape: Shape) -> Values:
        """Draw an orthogonal matrix: Q of the QR decomposition of normal numbers."""
        fans_of(self, shape)
        rows, columns = shape[0], math.prod(shape[1:])
        a = random.standard_normal((max(rows, columns), min(rows, columns)))
        q, r = np.linalg.qr(a)
        q = q * np.where(np.diag(r) < 0, -1.0, 1.0)
        return self.gain * (q if rows >= columns else q.T).reshape(shape)

_public_module(__name__)
