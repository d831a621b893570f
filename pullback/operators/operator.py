"""Linear operators: identity, zero, sums, multiples, compositions. The maps themselves are in `maps`.

An operator is applied with `op(x)` or `op @ x`, composed with `@`, added with `+`, scaled by numbers; `op.T` is its
adjoint: <y, op x> = <op.T y, x>. Numbers in sums stand for multiples of the identity. Expressions print in mathematical
notation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from numbers import Number
from typing import Any, TypeAlias

import numpy as np

from pullback.errors import DerivativeError
from pullback.operators.hooks import adjoint, no_inverse, singular

Done: TypeAlias = dict[tuple[int, int], tuple[Any, Any]]


class Operator(ABC):
    """A linear map. Subclasses define its action, adjoint, text form, and inverse if there is one."""

    __array_ufunc__ = None  # NumPy leaves `array @ op` and `array + op` to the operator

    @abstractmethod
    def _apply(self, x: Any, done: Done) -> Any:
        """The image of x. `done` caches shared parts in this application."""

    @property
    @abstractmethod
    def T(self) -> Operator:
        """The adjoint."""

    @abstractmethod
    def __str__(self) -> str: ...

    @property
    def domain(self) -> tuple[int, ...] | None:
        """The shape of the operand, if known; () for numbers."""
        return None

    def inverse(self) -> Operator:
        """The inverse.

        Raises:
            DerivativeError: [E212] none is known. [E213] the operator is singular.
        """
        raise no_inverse(self)

    def to_dense(self, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """The matrix that maps vec(x) to vec(op x); vec stacks columns.

        Args:
            shape: the shape of x, for operators that act on more than one.

        Raises:
            DerivativeError: [E215] the operator acts on several shapes, and none is given.
        """
        shape = self._shape_or_domain(shape)
        columns = []
        for unit in np.eye(prod(shape)):
            image = self(unit.reshape(shape, order="F") if shape else unit[0])
            columns.append(np.asarray(image).reshape(-1, order="F"))
        return np.stack(columns, axis=1)

    def _shape_or_domain(self, shape: tuple[int, ...] | None) -> tuple[int, ...]:
        shape = self.domain if shape is None else shape
        if shape is None:
            raise DerivativeError(
                "E215",
                f"the dense form of {self} depends on the shape of what it acts on",
                remedy="pass it, as in `op.to_dense((3, 2))`",
            )
        return shape

    def __call__(self, x: Any) -> Any:
        """The image of x. Linear maps preserve 0: the integer 0 and ZERO give ZERO for any shape."""
        if x is ZERO or (type(x) is int and x == 0):
            return ZERO
        return self._apply(x, {})

    def __matmul__(self, other: Any) -> Any:
        return compose(self, other) if isinstance(other, Operator) else self(other)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Number):
            other = scale(other, I)
        return add(self, other) if isinstance(other, Operator) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return add(scale(other, I), self) if isinstance(other, Number) else NotImplemented

    def __sub__(self, other: Any) -> Any:
        return self + -other if isinstance(other, Operator | Number) else NotImplemented  # type: ignore[operator]

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __neg__(self) -> Operator:
        return scale(-1, self)

    def __mul__(self, factor: Any) -> Any:
        return scale(factor, self) if isinstance(factor, Number) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Any:
        return scale(1 / divisor, self) if isinstance(divisor, Number) else NotImplemented  # type: ignore[operator]

    def __repr__(self) -> str:
        return str(self)


class Identity(Operator):
    """The identity of every size: `I @ x` is x."""

    def _apply(self, x: Any, done: Done) -> Any:
        return x

    @property
    def T(self) -> Operator:
        """The operator itself."""
        return self

    def inverse(self) -> Operator:
        """The operator itself."""
        return self

    def __str__(self) -> str:
        return "I"


class Zero(Operator):
    """The structural zero: the neutral element of `+` and absorbing under `@`, for elements of any kind.

    It is operator and vector at once: `ZERO @ x` is ZERO, and `ZERO + x` is x. As a number it is 0: `ZERO == 0`, and
    `float(ZERO)` is 0.0.
    """

    def _apply(self, x: Any, done: Done) -> Any:
        return self

    @property
    def T(self) -> Operator:
        """The operator itself."""
        return self

    def inverse(self) -> Operator:
        """Raise: zero has no inverse [E213]."""
        raise singular(self)

    def to_dense(self, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """The zero matrix of a map from a space into itself."""
        size = prod(self._shape_or_domain(shape))
        return np.zeros((size, size))

    def __add__(self, other: Any) -> Any:
        return other

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return -other

    def __rsub__(self, other: Any) -> Any:
        return other

    def __eq__(self, other: object) -> bool:
        return other is self or (isinstance(other, Number) and _is(other, 0))

    def __hash__(self) -> int:
        return hash(0)

    def __float__(self) -> float:
        return 0.0

    def __str__(self) -> str:
        return "0"


I: Identity = Identity()
ZERO: Zero = Zero()


class Scaled(Operator):
    """A number times an operator."""

    def __init__(self, factor: Any, operator: Operator) -> None:
        self.factor = factor
        self.operator = operator

    def _apply(self, x: Any, done: Done) -> Any:
        image = self.operator._apply(x, done)
        return -image if _is(self.factor, -1) else self.factor * image

    @property
    def T(self) -> Operator:
        """The conjugate factor times the adjoint."""
        return scale(adjoint(self.factor), self.operator.T)

    @property
    def domain(self) -> tuple[int, ...] | None:
        """The domain of the scaled operator."""
        return self.operator.domain

    def inverse(self) -> Operator:
        """The inverse of the operator, divided by the factor."""
        return scale(1 / self.factor, self.operator.inverse())

    def __str__(self) -> str:
        factor = "-" if _is(self.factor, -1) else f"{self.factor} "
        return factor + _enclosed(self.operator, Sum)


class Composition(Operator):
    """Operators applied one after the other, the last of `parts` first."""

    def __init__(self, parts: tuple[Operator, ...]) -> None:
        self.parts = parts

    def _apply(self, x: Any, done: Done) -> Any:
        key = (id(self), id(x))
        if key not in done:
            image = x
            for part in reversed(self.parts):
                image = part._apply(image, done)
            done[key] = (x, image)  # x is kept, so that its id stays its own
        return done[key][1]

    @property
    def T(self) -> Operator:
        """The adjoints in reverse order."""
        return compose(*(part.T for part in reversed(self.parts)))

    @property
    def domain(self) -> tuple[int, ...] | None:
        """The domain of the operator applied first."""
        return self.parts[-1].domain

    def inverse(self) -> Operator:
        """The inverses in reverse order."""
        return compose(*(part.inverse() for part in reversed(self.parts)))

    def __str__(self) -> str:
        return " ".join(_enclosed(part, Sum, Scaled) for part in self.parts)


class Sum(Operator):
    """A sum of operators."""

    def __init__(self, terms: tuple[Operator, ...]) -> None:
        self.terms = terms

    def _apply(self, x: Any, done: Done) -> Any:
        key = (id(self), id(x))
        if key not in done:
            first, *others = self.terms
            image = first._apply(x, done)
            for term in others:
                image = image + term._apply(x, done)
            done[key] = (x, image)
        return done[key][1]

    @property
    def T(self) -> Operator:
        """The sum of the adjoints."""
        return add(*(term.T for term in self.terms))

    @property
    def domain(self) -> tuple[int, ...] | None:
        """The domain of the first term with a known one."""
        return next((term.domain for term in self.terms if term.domain is not None), None)

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms)).replace("+ -", "- ")


def compose(*operators: Operator) -> Operator:
    """Compose operators, the last applied first. Identities vanish, zero absorbs, numbers go in front."""
    parts: list[Operator] = []
    factor: Any = 1
    for operator in operators:
        if isinstance(operator, Scaled):
            factor, operator = factor * operator.factor, operator.operator
        if operator is ZERO:
            return ZERO
        if isinstance(operator, Composition):
            parts += operator.parts
        elif operator is not I:
            parts.append(operator)
    if not parts:
        return scale(factor, I)
    return scale(factor, parts[0] if len(parts) == 1 else Composition(tuple(parts)))


def add(*operators: Operator) -> Operator:
    """The sum. Zeros vanish."""
    terms: list[Operator] = []
    for operator in operators:
        if isinstance(operator, Sum):
            terms += operator.terms
        elif operator is not ZERO:
            terms.append(operator)
    if not terms:
        return ZERO
    return terms[0] if len(terms) == 1 else Sum(tuple(terms))


def scale(factor: Any, operator: Operator) -> Operator:
    """`factor` times `operator`."""
    if isinstance(operator, Scaled):
        factor, operator = factor * operator.factor, operator.operator
    if operator is ZERO or _is(factor, 0):
        return ZERO
    return operator if _is(factor, 1) else Scaled(factor, operator)


def _is(factor: Any, value: int) -> bool:
    return bool(factor == value)


def _enclosed(operator: Operator, *kinds: type[Operator]) -> str:
    return f"({operator})" if isinstance(operator, kinds) else str(operator)
