"""E705: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_await_without_a_loop(message: Callable[[str], str]) -> None:
    assert (
        message("""
from pullback import lazy
async def main():
    return await lazy.ones((2,))

main().send(None)
""")
        == """\
TraceError [E705] await of a lazy array, and neither asyncio nor `lazy.run` is running
  --> user.py:3:12
   |     return await lazy.ones((2,))
   |            ^^^^^^^^^^^^^^^^^^^^^
  try: `lazy.run(main())`, or `float(x)` and `x.numpy()`, which need no loop      See `pullback explain-error E705`
"""
    )
