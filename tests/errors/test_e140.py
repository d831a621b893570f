"""E140: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_undetermined(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def double(x):
    return 2 * x

double.type
""")
        == """\
TraceError [E140] double: its annotations leave element types, ranks or static values open
  --> user.py:5:1
   | double.type
   | ^^^^^^^^^^^
  try: call double once, or use double.program(...) with arguments      See `pullback explain-error E140`
"""
    )
