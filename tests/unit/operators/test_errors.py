"""The complete messages of the errors of operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pullback.errors import PullbackError
from pullback.operators import LeftMultiply, RightMultiply, blocks, diagonal, newton, solve, strictly_lower

SINGULAR = LeftMultiply(np.zeros((2, 2)), "A")

MESSAGES: dict[str, tuple[Callable[[], object], str]] = {
    "E210 operator": (
        lambda: LeftMultiply(np.ones((2, 3)), "W")(np.ones((2, 5))),
        """\
ShapeError [E210] L[W] does not act on an array of shape (2, 5)
   | its own array has shape (2, 3)
  try: check the order of the composition; `.T` acts in the other direction      See `pullback explain-error E210`""",
    ),
    "E210 grid": (
        lambda: blocks([[1, 2], [3]]),
        """\
ShapeError [E210] the rows of a matrix differ in length
   | lengths [1, 2]
  try: write ZERO, None or 0 for an empty place      See `pullback explain-error E210`""",
    ),
    "E210 product": (
        lambda: blocks([[1, 2]]) @ [1, 2, 3],
        """\
ShapeError [E210] the shapes of a product of matrices do not fit
   | left is 1 by 2      right is 3 by 1
  See `pullback explain-error E210`""",
    ),
    "E212": (
        lambda: solve(diagonal([SINGULAR + RightMultiply(np.eye(2), "B")]), [np.ones((2, 2))]),
        """\
DerivativeError [E212] no inverse is known for L[A] + R[B]
   | it is a Sum
  try: give its type an `inverse()`, or put the identity on the diagonal      See `pullback explain-error E212`""",
    ),
    "E213": (
        lambda: solve(diagonal([SINGULAR]), [np.ones(2)]),
        """\
DerivativeError [E213] L[A] is singular: it has no inverse
  try: every element of the diagonal needs an inverse      See `pullback explain-error E213`""",
    ),
    "E213 empty": (
        lambda: solve(strictly_lower(2, {(0, 1): 2.0}), [1.0, 1.0]),
        """\
DerivativeError [E213] row 0 of the matrix has nothing on its diagonal: the matrix is singular
  try: `I - L`, with a strictly triangular L, has the identity there      See `pullback explain-error E213`""",
    ),
    "E214": (
        lambda: strictly_lower(3, {(2, 1): 1.0}),
        """\
DerivativeError [E214] the edge from node 2 to node 1 does not lead forward among 3 nodes
  try: number the nodes from 0, every one after those it depends on      See `pullback explain-error E214`""",
    ),
    "E215": (
        lambda: SINGULAR.to_dense(),
        """\
DerivativeError [E215] the dense form of L[A] depends on the shape of what it acts on
  try: pass it, as in `op.to_dense((3, 2))`      See `pullback explain-error E215`""",
    ),
    "E216": (
        lambda: newton(lambda x: x + 1.0, lambda x: -np.eye(1), np.zeros(1), max_steps=2),
        """\
DerivativeError [E216] Newton's method found no solution in 2 steps
   | the last step was 2
  try: start nearer to a solution, or check the Jacobian      See `pullback explain-error E216`""",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_message(name: str) -> None:
    program, message = MESSAGES[name]
    with pytest.raises(PullbackError) as caught:
        program()
    assert str(caught.value) == message
