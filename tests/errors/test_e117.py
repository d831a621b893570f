"""E117: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_length_of_a_transform(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def spectrum(x: Float64[Array, "N"]):
    return pb.fft.rfft(x, n=2 * x.shape[0])

spectrum.c_source()
""")
        == """\
ShapeError [E117] rfft: the length N is open, and a transform is made for a number
  --> user.py:3:12
   |     return pb.fft.rfft(x, n=2 * x.shape[0])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N]
  try: a call says it; give dims, as in `f.export(directory, N=1024)`      See `pullback explain-error E117`
"""
    )
