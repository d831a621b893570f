"""E122: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_argument(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def double(x: Float32[Array, "N"]):
    return 2 * x

double(np.zeros(3))
""")
        == """\
DTypeError [E122] x has dtype float64, its annotation says float32
  --> user.py:5:1
   | double(np.zeros(3))
   | ^^^^^^^^^^^^^^^^^^^
  try: `x.astype(np.float32)` converts it      See `pullback explain-error E122`
"""
    )


def test_float_throughout(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def total(x: Float[Array, "N"], y: Float[Array, "N"]):
    return x + y

total(np.zeros(3), np.zeros(3, np.float32))
""")
        == """\
DTypeError [E122] y is f32 and x is f64: `Float` is one type in a call
  --> user.py:5:1
   | total(np.zeros(3), np.zeros(3, np.float32))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `y.astype(np.float64)` converts it      See `pullback explain-error E122`
"""
    )


def test_inside(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def double(x: Float32[Array, "N"]):
    return 2 * x

@pb.function
def use(x: Float64[Array, "N"]):
    return double(x)
""")
        == """\
DTypeError [E122] x has dtype float64, its annotation says float32
  --> user.py:7:12
   |     return double(x)
   |            ^^^^^^^^^
  try: `x.astype(pb.float32)` converts it      See `pullback explain-error E122`
"""
    )


def test_objects_that_numpy_does_not_take(message: Callable[[str], str]) -> None:
    """PyTorch's bfloat16 raises this error."""
    assert (
        message("""
from pullback import lazy

class Tensor:
    def __array__(self, dtype=None, copy=None):
        raise TypeError("Got unsupported ScalarType BFloat16")

lazy.asarray(Tensor())
""")
        == """\
DTypeError [E122] asarray: Tensor does not become an array of NumPy: Got unsupported ScalarType BFloat16
  --> user.py:7:1
   | lazy.asarray(Tensor())
   | ^^^^^^^^^^^^^^^^^^^^^^
  try: convert it to an element type of NumPy before      See `pullback explain-error E122`
"""
    )
