"""E706: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_lazy_run_inside_of_asyncio(message: Callable[[str], str]) -> None:
    assert (
        message("""
from pullback import lazy
import asyncio

async def value(x):
    return await x

async def main():
    return lazy.run(value(lazy.ones((2,))))

asyncio.run(main())
""")
        == """\
TraceError [E706] lazy.run, where asyncio is running
  --> user.py:8:12
   |     return lazy.run(value(lazy.ones((2,))))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `await` the coroutine      See `pullback explain-error E706`
"""
    )
