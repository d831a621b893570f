"""The Hessenberg form of matrices, by reflections from both sides."""

from __future__ import annotations

from typing import Any

from pullback.arrays.complex import conj
from pullback.arrays.creation import eye
from pullback.arrays.elementwise import where
from pullback.linalg.qr import product_of, products, reflection
from pullback.tracing.array import Array
from pullback.tracing.control import scan
from pullback.tracing.index import build, sum_over


def hessenberg(a: Array) -> tuple[Array, Array]:
    """Hessenberg form H = Qᴴ a Q, and Q (Golub and Van Loan, *Matrix computations*, 7.4).

    A reflection I - s vᴴ from the left and its adjoint from the right are an update of rank two, a - s p - w sᴴ with
    p = vᴴ a and w = a v - s vᴴ a v. Since s is a multiple of v, the last term is also (p s) v, which stays in range.
    """
    n = a.shape[0]

    def step(x: Array, j: Any) -> Any:
        v, s = reflection(build(n, lambda i: x[i, j]), j + 1)
        p = products(v, x, j + 1)
        along = sum_over(n, lambda k: p[k] * s[k])
        w = build(n, lambda i: sum_over(n, lambda k: where(k > j, x[i, k] * v[k], 0)) - along * v[i])

        def changed(i: Any, k: Any) -> Any:
            return x[i, k] - where(k >= j, s[i] * p[k] + w[i] * conj(s[k]), 0)

        return build((n, n), changed), (v, s)

    h, reflections = scan(n, a, step)
    return h, product_of(reflections, eye(n, dtype=a.dtype))
