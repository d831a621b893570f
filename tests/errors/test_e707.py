"""E707: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_two_weights_of_one_name(message: Callable[[str], str]) -> None:
    assert (
        message("""
from pullback import lazy, nn
a, b = (lazy.Weight(np.ones(2), name="w") for _ in range(2))
lazy.Trainer([a, b], nn.sgd(0.1))
""")
        == """\
TraceError [E707] Trainer: two weights have one name
  --> user.py:3:1
   | lazy.Trainer([a, b], nn.sgd(0.1))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | w      w
  try: `lazy.Weight(x, name=...)`      See `pullback explain-error E707`
"""
    )
