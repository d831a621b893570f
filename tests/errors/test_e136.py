"""E136: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable

import pytest


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


CALLS = {
    "np.mean(x, 0, np.float64)": (
        "numpy.mean is `pb.mean` here, which takes other arguments: got an unexpected keyword argument 'dtype'",
        "`pb.mean(x, axis=None, keepdims=False)`",
    ),
    "np.squeeze(x)": (
        "numpy.squeeze is `pb.squeeze` here, which takes other arguments: missing a required argument: 'axis'",
        "`pb.squeeze(x, axis)`",
    ),
    "np.trace(x, out=np.zeros(()))": (
        "numpy.trace would write a traced value into a NumPy array", "`y = y + x` inside the function, and return it",
    ),
    "np.add(x, x, out=np.zeros((2, 3)))": (
        "numpy.add would write a traced value into a NumPy array", "`y = y + x` inside the function, and return it",
    ),
    "np.fmod(x, 2.0)": (
        "numpy.fmod was given a traced array, whose values it needs",
        "`x - y * pb.trunc(x / y)`; `pb.remainder` has the sign of y",
    ),
    "np.rot90(x)": ("numpy.rot90 was given a traced array, whose values it needs", "`dir(pb)` lists what there is"),
    "np.add.accumulate(x)": (
        "numpy.add.accumulate was given a traced array, whose values it needs", "`dir(pb)` lists what there is",
    ),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_calls(call: str, message: Callable[[str], str]) -> None:
    what, remedy = CALLS[call]
    program = f"""
@pb.function
def f(x: Float64[Array, "N M"]):
    return {call}
"""
    assert message(program) == f"""\
TraceError [E136] {what}
  --> user.py:3:12
   |     return {call}
   |            {"^" * len(call)}
  try: {remedy}      See `pullback explain-error E136`
"""
