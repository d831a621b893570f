"""E611: bindings for other languages, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_a_language_without_a_binding(message: Callable[[str], str]) -> None:
    assert (
        message("""
from pullback.interop.bindings import bind
@pb.function
def total(x: Float64[Array, "N"]):
    return pb.sum(x)
bind(total, "cobol", "out", N=3)
""")
        == """\
UsageError [E611] there is no binding for cobol
  try: cpp, rust, julia, python      See `pullback explain-error E611`
"""
    )
