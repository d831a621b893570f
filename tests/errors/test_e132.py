# ruff: noqa: E501
"""E132: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_outside(message: Callable[[str], str]) -> None:
    assert (
        message("""
pb.exp(np.zeros(3))
""")
        == """\
TraceError [E132] pb.exp is part of the language, and no function is being traced
  --> user.py:1:1
   | pb.exp(np.zeros(3))
   | ^^^^^^^^^^^^^^^^^^^
  try: put it inside a function marked `@pb.function`; `pb.function(pb.exp)(...)` computes it at once      See `pullback explain-error E132`
"""
    )
