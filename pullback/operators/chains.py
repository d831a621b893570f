"""Products of many factors: all bracketings, their costs, and the cheapest.

By associativity all bracketings give the same result. A row, n matrices and a column have Catalan(n + 1) ways. In n + 1
of them every product is of a vector and a matrix: from the left (reverse mode), from the right (forward mode), and
the mixed modes between, which work from both ends (section 3.1.2 of Edelman, Akyürek, Wang 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from pullback.errors import ShapeError
from pullback.operators.elements import times
from pullback.records import dataclass
from pullback.state import temporary

Tree: TypeAlias = "int | tuple[Tree, Tree]"
Shapes: TypeAlias = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Bracketing:
    """One way to bracket a product.

    `tree` is a factor's position, or the pair that is multiplied. `cost` is its number of scalar multiplications.
    `products` lists the shapes (rows, inner, columns) of its products in the order in which they are done.
    """

    tree: Tree
    cost: int
    products: tuple[tuple[int, int, int], ...]

    def evaluate(self, factors: Sequence[Any]) -> Any:
        """The product of the factors, bracketed this way."""
        return _evaluate(self.tree, factors)

    @property
    def by_vectors(self) -> bool:
        """Whether every product has a row or a column for one side; otherwise matrices meet matrices."""
        return all(1 in (rows, columns) for rows, _, columns in self.products)

    def __str__(self) -> str:
        return _text(self.tree)


def bracketings(shapes: Shapes) -> list[Bracketing]:
    """All ways to bracket a product of factors with these shapes, the cheapest first.

    Args:
        shapes: rows and columns of each factor.

    Raises:
        ShapeError: [E210] neighbors do not fit, or there is no factor.

    >>> for way in bracketings([(1, 5), (5, 5), (5, 2)]):
    ...     print(way, way.cost)
    ((A B) C) 35
    (A (B C)) 60
    """
    extents = _extents(shapes)

    @temporary
    def ways(first: int, last: int) -> list[Bracketing]:
        if last - first == 1:
            return [Bracketing(first, 0, ())]
        return [
            _joined(left, right, (extents[first], extents[split], extents[last]))
            for split in range(first + 1, last)
            for left in ways(first, split)
            for right in ways(split, last)
        ]

    return sorted(ways(0, len(shapes)), key=lambda way: way.cost)


def cheapest_bracketing(shapes: Shapes) -> Bracketing:
    """The way with the fewest multiplications, without listing all: n³ steps for n factors.

    >>> str(cheapest_bracketing([(1, 9), (9, 9), (9, 9), (9, 1)]))
    '(A (B (C D)))'
    """
    extents = _extents(shapes)
    n = len(shapes)
    best = {(k, k + 1): (0, k) for k in range(n)}  # cost, split
    for length in range(2, n + 1):
        for first in range(n - length + 1):
            last = first + length
            best[first, last] = min(
                (
                    best[first, split][0] + best[split, last][0] + extents[first] * extents[split] * extents[last],
                    split,
                )
                for split in range(first + 1, last)
            )

    def build(first: int, last: int) -> Bracketing:
        if last - first == 1:
            return Bracketing(first, 0, ())
        split = best[first, last][1]
        return _joined(build(first, split), build(split, last), (extents[first], extents[split], extents[last]))

    return build(0, n)


def catalan(n: int) -> int:
    """The number of ways to bracket n + 1 factors.

    >>> [catalan(n) for n in range(6)]
    [1, 1, 2, 5, 14, 42]
    """
    value = 1
    for k in range(n):
        value = value * 2 * (2 * k + 1) // (k + 2)
    return value


def _extents(shapes: Shapes) -> list[int]:
    if not shapes:
        raise ShapeError("E210", "a product needs at least one factor")
    for k, (left, right) in enumerate(pairwise(shapes)):
        if left[1] != right[0]:
            raise ShapeError(
                "E210",
                f"factors {k} and {k + 1} of a product do not fit",
                facts=(f"{left[0]} by {left[1]}", f"{right[0]} by {right[1]}"),
            )
    return [shapes[0][0], *(columns for _, columns in shapes)]


def _joined(left: Bracketing, right: Bracketing, last: tuple[int, int, int]) -> Bracketing:
    rows, inner, columns = last
    cost = left.cost + right.cost + rows * inner * columns
    return Bracketing((left.tree, right.tree), cost, (*left.products, *right.products, last))


def _evaluate(tree: Tree, factors: Sequence[Any]) -> Any:
    if isinstance(tree, int):
        return factors[tree]
    left, right = tree
    return times(_evaluate(left, factors), _evaluate(right, factors))


def _text(tree: Tree) -> str:
    if isinstance(tree, int):
        return chr(ord("A") + tree) if tree < 26 else f"A{tree}"
    left, right = tree
    return f"({_text(left)} {_text(right)})"
