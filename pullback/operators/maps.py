"""Matrix maps: left and right multiplication, Kronecker, Hadamard and inner products, diagonals.

    operator              acts as            adjoint                  dense form, on X with r rows and c columns
    LeftMultiply(A)       X -> A X           LeftMultiply(Aᵀ)         I_c ⊗ A
    RightMultiply(B)      X -> X B           RightMultiply(Bᵀ)        Bᵀ ⊗ I_r
    Kronecker(A, B)       X -> B X Aᵀ        Kronecker(Aᵀ, Bᵀ)        A ⊗ B
    Hadamard(B)           X -> B * X         Hadamard(B)              diag(vec B)
    Diagonal(d)           X -> diag(d) X     Diagonal(d)              I_c ⊗ diag(d)
    InnerProduct(G)       X -> tr(Gᵀ X)      Multiples(G)             vec(G)ᵀ
    Multiples(G)          s -> s G           InnerProduct(G)          vec(G)

For complex entries, ᵀ is the conjugate transpose, and the adjoints of Hadamard and Diagonal take the conjugate array.
Table 2 of Edelman, Akyürek, Wang, Backpropagation through Back Substitution with a Backslash (2023).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import eq
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pullback.errors import DerivativeError, ShapeError
from pullback.operators.arrays import as_array, conjugate, is_array, is_concrete, is_real, rank
from pullback.operators.hooks import adjoint, inverse, no_inverse, singular
from pullback.operators.operator import Done, Operator


class _ByArray(Operator):
    """An operator given by one array, with a name to print."""

    def __init__(self, array: ArrayLike, name: str | None = None) -> None:
        self.array = as_array(array)
        self.name = name if name is not None else "×".join(map(str, self.array.shape)) or "1"

    def _check(self, x: Any, fits: Callable[[tuple[int, ...], tuple[int, ...]], bool]) -> None:
        """Raise if the shapes of x and of the operator's array do not fit; traced arrays check themselves."""
        if is_concrete(x) and is_concrete(self.array) and not fits(np.shape(x), self.array.shape):
            raise ShapeError(
                "E210",
                f"{self} does not act on an array of shape {np.shape(x)}",
                facts=(f"its own array has shape {self.array.shape}",),
                remedy="check the order of the composition; `.T` acts in the other direction",
            )


class _ByMatrix(_ByArray):
    def __init__(self, matrix: ArrayLike, name: str | None = None) -> None:
        super().__init__(matrix, name)
        _check_matrix(type(self).__name__, self.array)


class LeftMultiply(_ByMatrix):
    """Left multiplication X -> A X, for a matrix or a vector X.

    >>> left = LeftMultiply([[1.0, 2.0]], "A")
    >>> left, left.T, left([[3.0], [4.0]]).tolist()
    (L[A], L[Aᵀ], [[11.0]])
    """

    def _apply(self, x: Any, done: Done) -> Any:
        self._check(x, lambda of_x, own: of_x[:1] == own[1:])
        return self.array @ x

    @property
    def T(self) -> LeftMultiply:
        """Left multiplication by the adjoint matrix."""
        return LeftMultiply(adjoint(self.array), _transposed(self.name))

    def inverse(self) -> LeftMultiply:
        """Left multiplication by the inverse matrix."""
        return LeftMultiply(_inverse(self), f"{self.name}⁻¹")

    def __str__(self) -> str:
        return f"L[{self.name}]"


class RightMultiply(_ByMatrix):
    """Right multiplication X -> X B.

    >>> RightMultiply([[2.0], [1.0]], "B")([[3.0, 4.0]]).tolist()
    [[10.0]]
    """

    def _apply(self, x: Any, done: Done) -> Any:
        self._check(x, lambda of_x, own: of_x[-1:] == own[:1])
        return x @ self.array

    @property
    def T(self) -> RightMultiply:
        """Right multiplication by the adjoint matrix."""
        return RightMultiply(adjoint(self.array), _transposed(self.name))

    def inverse(self) -> RightMultiply:
        """Right multiplication by the inverse matrix."""
        return RightMultiply(_inverse(self), f"{self.name}⁻¹")

    def __str__(self) -> str:
        return f"R[{self.name}]"


class Kronecker(Operator):
    """The operator X -> B X Aᵀ of the Kronecker product A ⊗ B.

    >>> product = Kronecker(np.diag([1.0, 2.0]), [[3.0]], names=("A", "B"))
    >>> product, product.domain, product.to_dense().tolist()
    ((A ⊗ B), (1, 2), [[3.0, 0.0], [0.0, 6.0]])
    """

    def __init__(self, a: ArrayLike, b: ArrayLike, names: tuple[str | None, str | None] = (None, None)) -> None:
        self.left = LeftMultiply(b, names[1])
        self.right = LeftMultiply(a, names[0])

    def _apply(self, x: Any, done: Done) -> Any:
        self.left._check(x, lambda of_x, _: of_x == self.domain)
        return self.left.array @ x @ self.right.array.T

    @property
    def T(self) -> Kronecker:
        """The Kronecker product of the adjoints."""
        return _kronecker(self.right.T, self.left.T)

    @property
    def domain(self) -> tuple[int, ...]:
        """Columns of B by columns of A."""
        return (self.left.array.shape[1], self.right.array.shape[1])

    def inverse(self) -> Kronecker:
        """The Kronecker product of the inverses."""
        return _kronecker(self.right.inverse(), self.left.inverse())

    def __str__(self) -> str:
        return f"({self.right.name} ⊗ {self.left.name})"


class Hadamard(_ByArray):
    """Elementwise multiplication X -> B * X; B has any shape.

    >>> Hadamard([2.0, 4.0], "B").inverse()([1.0, 1.0]).tolist()
    [0.5, 0.25]
    """

    def _apply(self, x: Any, done: Done) -> Any:
        self._check(x, eq)
        return self.array * x

    @property
    def T(self) -> Hadamard:
        """The operator itself for a real B, else the operator of the conjugate."""
        return self if is_real(self.array) else Hadamard(conjugate(self.array), f"conj {self.name}")

    @property
    def domain(self) -> tuple[int, ...]:
        """The shape of B."""
        return tuple(self.array.shape)

    def inverse(self) -> Hadamard:
        """Division by B."""
        return Hadamard(_reciprocal(self), f"1/{self.name}")

    def __str__(self) -> str:
        return f"H[{self.name}]"


class Diagonal(_ByArray):
    """The operator X -> diag(d) X for a vector or matrix X with len(d) rows; the matrix is not formed."""

    def _apply(self, x: Any, done: Done) -> Any:
        self._check(x, lambda of_x, own: len(of_x) in (1, 2) and of_x[:1] == own)
        return self.array[(..., *[None] * (rank(x) - 1))] * x

    @property
    def T(self) -> Diagonal:
        """The operator itself for a real d, else the operator of the conjugate."""
        return self if is_real(self.array) else Diagonal(conjugate(self.array), f"conj {self.name}")

    def inverse(self) -> Diagonal:
        """Division of the rows by d."""
        return Diagonal(_reciprocal(self), f"1/{self.name}")

    def __str__(self) -> str:
        return f"diag({self.name})"


class InnerProduct(_ByArray):
    """The inner product X -> tr(Gᵀ X) = sum of G * X, written `Gᵀ·`: "G transpose dot".

    A composition with any operator is again an inner product (lemma 4.1 of the paper): Gᵀ· op = (opᵀ G)ᵀ·,
    the familiar transpose rule. Reading a chain from the left is therefore reverse mode.

    >>> product = InnerProduct([[1.0], [2.0]], "G")
    >>> product([[3.0], [4.0]]).item()
    11.0
    >>> product @ LeftMultiply([[0.0, 1.0], [1.0, 0.0]], "A")
    (L[Aᵀ] G)ᵀ·
    """

    def _apply(self, x: Any, done: Done) -> Any:
        self._check(x, eq)
        return (conjugate(self.array) * x).sum()

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, Operator):
            back = other.T
            image = back(self.array)
            if is_array(image):
                return InnerProduct(image, f"({back} {self.name})")
        return super().__matmul__(other)

    @property
    def T(self) -> Multiples:
        """The operator s -> s G."""
        return Multiples(self.array, self.name)

    @property
    def domain(self) -> tuple[int, ...]:
        """The shape of G."""
        return tuple(self.array.shape)

    def __str__(self) -> str:
        return f"{self.name}ᵀ·"


class Multiples(_ByArray):
    """The operator s -> s G for numbers s, adjoint to `InnerProduct(G)`."""

    def _apply(self, x: Any, done: Done) -> Any:
        self._check(x, lambda of_x, _: of_x == ())
        return x * self.array

    @property
    def T(self) -> InnerProduct:
        """The inner product with G."""
        return InnerProduct(self.array, self.name)

    @property
    def domain(self) -> tuple[int, ...]:
        """The shape of a number, ()."""
        return ()

    def __str__(self) -> str:
        return f"({self.name}ᵀ·)ᵀ"


def _check_matrix(kind: str, array: np.ndarray) -> None:
    if array.ndim != 2:
        raise ShapeError(
            "E210",
            f"{kind} takes a matrix, and was given an array of shape {array.shape}",
            remedy="reshape it to two axes; `Hadamard` and `InnerProduct` take arrays of any shape",
        )


def _kronecker(a: LeftMultiply, b: LeftMultiply) -> Kronecker:
    return Kronecker(a.array, b.array, (a.name, b.name))


def _inverse(operator: _ByMatrix) -> Any:
    """The inverse of an operator's matrix; errors name the operator."""
    try:
        return inverse(operator.array)
    except DerivativeError as error:
        raise (singular(operator) if error.code == "E213" else no_inverse(operator)) from None


def _reciprocal(operator: _ByArray) -> Any:
    if is_concrete(operator.array) and not np.all(operator.array != 0):
        raise singular(operator)
    return 1 / operator.array


def _transposed(name: str) -> str:
    return name[:-1] if name.endswith("ᵀ") else f"{name}ᵀ"
