"""E703: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_a_weight_that_changed(message: Callable[[str], str]) -> None:
    assert (
        message("""
from pullback import lazy
w = lazy.Weight(np.ones(2), name="stem")
loss = lazy.sum(w * w)
w.set_value(np.zeros(2))
lazy.backward(loss)
""")
        == """\
DerivativeError [E703] stem was changed between the forward and the backward pass
  --> user.py:5:1
   | lazy.backward(loss)
   | ^^^^^^^^^^^^^^^^^^^
  try: run the network again, or change weights after its backward pass      See `pullback explain-error E703`
"""
    )
