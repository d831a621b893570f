"""E114: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_requirement(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def valid(x: Float64[Array, "N"], w: Float64[Array, "K"]):
    N, K = x.shape[0], w.shape[0]
    return pb.build(N - K + 1, lambda i: pb.sum_over(K, lambda k: x[i + k] * w[k]))

valid(np.zeros(2), np.zeros(3))
""")
        == """\
ShapeError [E114] valid requires N >= K
  --> user.py:6:1
   | valid(np.zeros(2), np.zeros(3))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | K = 3      N = 2
  See `pullback explain-error E114`
"""
    )
