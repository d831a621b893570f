"""E530 and E531: functions for other libraries, and the complete messages."""

from __future__ import annotations

from collections.abc import Callable

from pullback.interop.flat import elsewhere


def test_a_tensor_of_another_device() -> None:
    assert (
        str(elsewhere("a tensor", "cuda:0", "`x.cpu()`"))
        == """\
TraceError [E530] a tensor is on the device cuda:0; functions run on the processor
  try: `x.cpu()`      See `pullback explain-error E530`"""
    )


def test_a_pointer_of_open_sizes(message: Callable[[str], str]) -> None:
    assert (
        message("""
from pullback.interop import pointer
@pb.function
def total(x: Float64[Array, "N"]):
    return pb.sum(x)
pointer(total)
""")
        == """\
TraceError [E531] total: a pointer is for fixed sizes
  --> user.py:5:1
   | pointer(total)
   | ^^^^^^^^^^^^^^
   | (x: f64[N]) -> f64
  try: a number for each dim      See `pullback explain-error E531`
"""
    )
