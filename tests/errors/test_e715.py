# ruff: noqa: E501
"""E715: the programs, and the complete messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest

KEEP = "operations on the array itself, or `lazy.lift(f)` of a traced function"
LEAVING = [
    ("float(x)", "f64", KEEP),
    ("math.sin(x)", "f64", "`lazy.sin`"),
    ("math.lgamma(x)", "f64", "`lazy.special.lgamma`"),
    ("np.float64(x)", "f64", "`x.astype(lazy.float64)`"),
    ("(x * x).item()", "f64", KEEP),
    ("np.percentile(x, 50)", "f64", "`dir(lazy)` lists what there is"),
]


@pytest.mark.parametrize(("text", "type", "remedy"), LEAVING, ids=[t for t, *_ in LEAVING])
def test_a_number_that_a_gradient_depends_on(message: Callable[[str], str], text: str, type: str, remedy: str) -> None:
    assert (
        message(f"""
import math
from pullback import lazy

def f(x):
    return x * {text}

lazy.grad(f)(1.0)
""")
        == f"""\
DerivativeError [E715] {text}: the gradient would take the value of {type} for a constant
  --> user.py:5:16
   |     return x * {text}
   |                {"^" * len(text)}
  try: {remedy}; `lazy.stop_gradient(x)` gives a constant that may leave      See `pullback explain-error E715`
"""
    )


def test_a_backward_pass_inside_a_gradient(message: Callable[[str], str]) -> None:
    assert (
        message("""
from pullback import lazy
w = lazy.Weight(np.array(2.0))

def f(x):
    lazy.backward(w * x)
    return x * w.grad

lazy.grad(f)(1.0)
""")
        == """\
DerivativeError [E715] lazy.backward(w * x): the gradient would take the value of f64 for a constant
  --> user.py:5:5
   |     lazy.backward(w * x)
   |     ^^^^^^^^^^^^^^^^^^^^
  try: operations on the array itself, or `lazy.lift(f)` of a traced function; `lazy.stop_gradient(x)` gives a constant that may leave      See `pullback explain-error E715`
"""
    )
