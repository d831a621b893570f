"""E701: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_what_is_no_array(message: Callable[[str], str]) -> None:
    assert (
        message("""
from pullback import lazy
lazy.add(lazy.ones((2,)), {1, 2})
""")
        == """\
TraceError [E701] set is no argument of an operation on lazy arrays
  --> user.py:2:1
   | lazy.add(lazy.ones((2,)), {1, 2})
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `lazy.asarray` makes an array, `lazy.lift` an operation      See `pullback explain-error E701`
"""
    )
