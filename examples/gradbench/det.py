"""A determinant by expansion into minors (`det_by_minor` of cmpad).

    det A = Σ j: (−1)ʲ a₀ⱼ det(A without row 0 and column j)

Expanding row after row from the top, every minor keeps the last r rows and some set of r columns. There are 2ⁿ such
sets, so n 2ⁿ⁻¹ products are enough where expanding every minor anew takes n!.

python -m examples.gradbench.det
"""

from functools import cache
from itertools import combinations

import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array


def expand(row, columns, smaller, minors):
    """The minors one row larger: set k has columns[k, :], and minors[smaller[k, j]] lacks the j-th of them."""
    sets, r = columns.shape
    columns, smaller = pb.asarray(columns), pb.asarray(smaller)

    def term(k, j):
        return (1 - 2 * (j % 2)) * row[columns[k, j]] * minors[smaller[k, j]]

    return pb.build(sets, lambda k: pb.sum_over(r, lambda j: term(k, j)))


@cache
def determinant(n: int) -> pb.Function:
    """The function of an n × n matrix."""

    @pb.function
    def primal(a: Float64[Array, f"{n} {n}"]):
        minors, number = pb.ones(1), {(): 0}
        for r in range(1, n + 1):
            kept = list(combinations(range(n), r))
            smaller = [[number[s[:j] + s[j + 1 :]] for j in range(r)] for s in kept]
            minors = expand(a[n - r], np.array(kept), np.array(smaller), minors)
            number = {s: k for k, s in enumerate(kept)}
        return minors[0]

    return primal


def gradient(n: int) -> pb.Function:
    """The derivative by every element."""
    return pb.grad(determinant(n))


def main() -> None:
    a = np.random.default_rng(0).random((5, 5))
    print("determinant", determinant(5)(a))
    print("gradient", gradient(5)(a).round(3).tolist())


if __name__ == "__main__":
    main()
