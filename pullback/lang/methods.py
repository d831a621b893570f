"""What operators and methods of arrays do. The functions make arrays, so that the class cannot import them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pullback.lang import reduction
from pullback.lang.array import Array, Operations
from pullback.lang.elementwise import convert, elementwise
from pullback.lang.linalg import matmul
from pullback.lang.making import shape_value
from pullback.lang.manipulation import matrix_transpose, permute_dims, reshape, transpose
from pullback.lang.subscript import at, rows, subscript
from pullback.lang.writing import changed

_REDUCTIONS: Final[Mapping[str, Callable[..., Array]]] = {
    name: getattr(reduction, name) for name in ("sum", "prod", "mean", "max", "min", "any", "all", "argmax", "argmin")
}


def _reduced(name: str, x: Array, **how: Any) -> Array:
    return _REDUCTIONS[name](x, **how)


OPERATIONS: Final = Operations(
    elementwise=elementwise,
    reduced=_reduced,
    convert=convert,
    matmul=matmul,
    transpose=transpose,
    matrix_transpose=matrix_transpose,
    permute_dims=permute_dims,
    reshape=reshape,
    subscript=subscript,
    at=at,
    rows=rows,
    changed=changed,
    extent=shape_value,
)
