"""E138: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_argument(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def double(x: Float64[Array, "N"]):
    return 2 * x

double("hello")
""")
        == """\
TraceError [E138] x: a str was given where an array is needed
  --> user.py:5:1
   | double("hello")
   | ^^^^^^^^^^^^^^^
  try: pass a NumPy array, or an object with DLPack or the buffer protocol      See `pullback explain-error E138`
"""
    )


def test_masked_elements(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def double(x: Float64[Array, "N"]):
    return 2 * x

double(np.ma.masked_array(np.arange(3.0), [0, 1, 0]))
""")
        == """\
TraceError [E138] x: a masked array was given, and its mask would be lost
  --> user.py:5:1
   | double(np.ma.masked_array(np.arange(3.0), [0, 1, 0]))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `.filled(value)`, or the mask as an array of bools for `pb.where`      See `pullback explain-error E138`
"""
    )


def test_failed_conversion(message: Callable[[str], str]) -> None:
    assert (
        message("""
class Tensor:
    def __array__(self, *_):
        raise RuntimeError("it is on another device")

pb.function(lambda x: 2 * x)(Tensor())
""")
        == """\
TraceError [E138] x: a Tensor was given where an array is needed, and its conversion failed: it is on another device
  --> user.py:5:1
   | pb.function(lambda x: 2 * x)(Tensor())
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: pass a NumPy array, or an object with DLPack or the buffer protocol      See `pullback explain-error E138`
"""
    )
