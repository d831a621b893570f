"""Complex matrices as real ones of twice the size:  B + iC  as  [[B, -C], [C, B]].

Sums, products, inverses, powers and functions of such matrices are of the same form, so that what is defined for real
matrices is so for complex ones; singular values come twice. It takes up to twice the operations of complex arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from pullback.lang.array import Array
from pullback.lang.complex import ComplexArray, as_complex, is_complex
from pullback.lang.manipulation import concat
from pullback.linalg.stacks import matrices

F = TypeVar("F", bound=Callable[..., Any])


def embedding(what: str, x: Any, square: bool = True) -> Array:
    """The real matrices for complex ones."""
    z = as_complex(x)
    matrices(what, z.real, square=square)
    upper = concat([z.real, -z.imag], axis=-1)
    return concat([upper, concat([z.imag, z.real], axis=-1)], axis=-2)


def extracted(m: Array) -> ComplexArray:
    """The complex matrices that real ones of this form stand for."""
    rows, columns = m.shape[-2] // 2, m.shape[-1] // 2
    return ComplexArray(m[..., :rows, :columns], m[..., rows:, :columns])


def by_embedding(f: F) -> F:
    """A function from matrices to matrices, for complex ones too."""

    @wraps(f)
    def both(x: Any, *args: Any, **keywords: Any) -> Any:
        if not is_complex(x):
            return f(x, *args, **keywords)
        return extracted(f(embedding(f.__name__, x, square=f.__name__ != "pinv"), *args, **keywords))

    return both  # type: ignore[return-value]


def by_pairs(f: F) -> F:
    """Singular values or eigenvalues in order, of complex matrices too: each comes twice, one after the other."""

    @wraps(f)
    def both(x: Any) -> Any:
        return f(embedding(f.__name__, x, square=False))[..., ::2] if is_complex(x) else f(x)

    return both  # type: ignore[return-value]


def solved_by_embedding(f: F) -> F:
    """`solve`, for complex matrices or right-hand sides too."""

    @wraps(f)
    def both(x1: Any, x2: Any, /) -> Any:
        if is_complex(x1):
            b = as_complex(x2)
            axis = -1 if b.real.rank == 1 else -2
            x = f(embedding("solve", x1), concat([b.real, b.imag], axis=axis))
            n = x.shape[axis] // 2
            if axis == -1:
                return ComplexArray(x[:n], x[n:])
            return ComplexArray(x[..., :n, :], x[..., n:, :])
        if is_complex(x2):
            b = as_complex(x2)
            return ComplexArray(f(x1, b.real), f(x1, b.imag))
        return f(x1, x2)

    return both  # type: ignore[return-value]
