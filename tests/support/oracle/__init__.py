"""The oracle: public names of `pullback` executed by plain Python on dual numbers.

    from tests.support import oracle as pb

    pb.grad(lambda x: pb.sum(pb.sin(x)))(np.array([0.0, 1.0]))

The same source text of a function runs once with `pullback` and once with this module under the name `pb`. Nothing is
traced, derived or compiled, and no code is shared with what does: arrays are Python lists of numbers, indices are
integers, a derivative is a number's dual part. Results are `Array`s: their elements, and in the arithmetics
"bounded" and "precise" how far a correct result that rounds may be from them.
"""

from __future__ import annotations

import math as _math
from collections.abc import Callable as _Callable
from typing import Any as _Any

from tests.support.oracle import arrays as _arrays
from tests.support.oracle import complex as _complex
from tests.support.oracle import derivatives as _derivatives
from tests.support.oracle import elementwise as _elementwise
from tests.support.oracle import fft, linalg, random, verbs
from tests.support.oracle import functions as _functions
from tests.support.oracle import notation as _notation
from tests.support.oracle import sorting as _sorting
from tests.support.oracle import writing as _writing  # noqa: F401  (it gives arrays methods)
from tests.support.oracle.arrays import Array, DType, OracleError
from tests.support.oracle.derivatives import Function
from tests.support.oracle.elementwise import astype
from tests.support.oracle.numbers import Undecided, arithmetic

e, pi, inf, nan, newaxis = _math.e, _math.pi, _math.inf, _math.nan, None


class Static:
    """An argument that is a Python value."""


class Size:
    """An argument that is an extent."""

    def __class_getitem__(cls, name: str) -> type:
        return cls


def _primitive(name: str) -> _Callable[..., Array]:
    def function(*values: _Any) -> Array:
        return _elementwise.elementwise(name, *values)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The primitive {name} of every element."
    return function


for _name in sorted(_elementwise.NAMES):
    globals()[_name] = _primitive(_name)
pow = globals()["power"]
for _module in (_functions, _sorting, _notation, _derivatives, _complex):
    for _name in _module.__all__:
        globals()[_name] = _complex.over(_name, getattr(_module, _name))
complex = _complex.complex_of
for _dtype in _arrays.DTYPES.values():
    globals()[_dtype.name] = _dtype

__all__ = ["Array", "DType", "Function", "OracleError", "Size", "Static", "Undecided", "arithmetic", "astype",
           "complex", "fft", "linalg", "random", "verbs"]  # fmt: skip
