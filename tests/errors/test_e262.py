"""E262: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_limit_without_dims(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function(memory_limit=1000)
def f(x: Float64[Array, "N"]):
    return pb.sum(x)

f.c_source()
""")
        == """\
CompilerError [E262] f has a memory limit, which takes a number for each dim
  --> user.py:5:1
   | f.c_source()
   | ^^^^^^^^^^^^
   | all that is known of them is N >= 1
  try: numbers for all dims      See `pullback explain-error E262`
"""
    )
