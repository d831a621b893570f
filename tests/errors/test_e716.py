"""E716: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_a_plugin_that_replaces_values(message: Callable[[str], str]) -> None:
    assert (
        message("""
from pullback import lazy
class Zeros(lazy.Plugin):
    def forward(self, operations, run):
        return [0.0 * x for x in run()]

with Zeros():
    float(lazy.sum(lazy.ones((3,))))
""")
        == """\
TraceError [E716] Zeros.forward does not return what `run()` gives
  --> user.py:7:5
   |     float(lazy.sum(lazy.ones((3,))))
   |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `found = run()` … `return found`      See `pullback explain-error E716`
"""
    )


def test_a_plugin_that_returns_no_gradients(message: Callable[[str], str]) -> None:
    assert (
        message("""
from pullback import lazy
class Printing(lazy.Plugin):
    def backward(self, gradients):
        print(len(gradients))

w = lazy.Weight(np.ones(3))
with Printing():
    lazy.backward(lazy.sum(w * w))
""")
        == """\
TraceError [E716] Printing.backward does not return a dict of gradients of the weights that it was given
  --> user.py:8:5
   |     lazy.backward(lazy.sum(w * w))
   |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `return {w: … for w, g in gradients.items()}`      See `pullback explain-error E716`
"""
    )
