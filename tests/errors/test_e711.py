"""E711: what a process says that was started again, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_a_step_that_is_lost(message: Callable[[str], str]) -> None:
    assert (
        message("""
from pullback import nn
from pullback.lazy.remote import Expert
Expert("e3", nn.dense(2).on("N 3")).backward(7, np.ones((1, 2)))
""")
        == """\
LostError [E711] e3: its process was started again since the forward pass, and what it kept is lost
  try: run the step again; the weights are those of the last checkpoint      See `pullback explain-error E711`
"""
    )
