"""E136: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_numpy_function(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def total(x: Float64[Array, "N"]):
    return np.unpackbits(x)
""")
        == """\
TraceError [E136] numpy.unpackbits was given a traced array, whose values it needs
  --> user.py:3:12
   |     return np.unpackbits(x)
   |            ^^^^^^^^^^^^^^^^
  try: `dir(pb)` lists what there is      See `pullback explain-error E136`
"""
    )


def test_ufunc(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def total(x: Float64[Array, "N"]):
    return np.spacing(x)
""")
        == """\
TraceError [E136] numpy.spacing was given a traced array, whose values it needs
  --> user.py:3:12
   |     return np.spacing(x)
   |            ^^^^^^^^^^^^^
  try: `dir(pb)` lists what there is      See `pullback explain-error E136`
"""
    )
