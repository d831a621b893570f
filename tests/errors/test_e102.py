"""E102: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_matmul(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def dense(x: Float32[Array, "batch features"], w: Float32[Array, "hidden classes"], b: Float32[Array, "classes"]):
    return (x @ w) + b
""")
        == """\
ShapeError [E102] matmul: the inner sizes differ: columns of x = features, rows of w = hidden
  --> user.py:3:13
   |     return (x @ w) + b
   |             ^^^^^
   | x : f32[batch, features]      w : f32[hidden, classes]
  try: transpose one side (`w.T`), or give equal dims one name in the annotations      See `pullback explain-error E102`
"""
    )
