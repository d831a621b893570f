"""E702: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_a_second_backward_pass(message: Callable[[str], str]) -> None:
    assert (
        message("""
from pullback import lazy
w = lazy.Weight(np.ones(2))
loss = lazy.sum(w * w)
lazy.backward(loss)
lazy.backward(loss)
""")
        == """\
DerivativeError [E702] the backward pass comes to a part of the network that has been run backward and released
  --> user.py:5:1
   | lazy.backward(loss)
   | ^^^^^^^^^^^^^^^^^^^
  try: `retain=True` in the first backward pass keeps it for another      See `pullback explain-error E702`
"""
    )
