# ruff: noqa: E501
"""What beginners get wrong about what only shows when a function runs: each mistake, and the complete message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

MISTAKES = [
    (
        "an index that leaves its array",
        '''
@pb.function
def f(x: Float64[Array, "N"], i: Int64[Array, "M"]):
    return pb.build(i.shape[0], lambda m: x[i[m]])
f(np.zeros(3), np.array([0, 3]))
''',
        '''\
IndexRangeError [E401] value: the index 3 on axis 0 of x is outside 0 … 2
  --> user.py:3:12
   |     return pb.build(i.shape[0], lambda m: x[i[m]])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: read with `.at(..., fill=...)` where an index may lie outside      See `pullback explain-error E401`
''',
    ),
    (
        "an index outside of what is declared",
        '''
@pb.function
def f(x: Float64[Array, "N"], i: Int64[Array, "M"]):
    i = pb.in_range(i, x.shape[0])
    return pb.build(i.shape[0], lambda m: x[i[m]])
f(np.zeros(3), np.array([0, 3]))
''',
        '''\
IndexRangeError [E402] i holds 3, which is outside its declared range
  --> user.py:5:1
   | f(np.zeros(3), np.array([0, 3]))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | its values must be below 3
  try: check it before the call      See `pullback explain-error E402`
''',
    ),
    (
        "a loop that does not end",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return pb.while_loop(lambda y: y > 1.0, lambda y: y, x, max_trips=5)
f(3.0)
''',
        '''\
UnfinishedError [E404] while_loop: the test still holds after max_trips steps
  --> user.py:3:12
   |     return pb.while_loop(lambda y: y > 1.0, lambda y: y, x, max_trips=5)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: a larger max_trips, or at_limit="report", which gives the state so far and says that it is      See `pullback explain-error E404`
''',
    ),
    (
        "the maximum of nothing",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.max(x)
f(np.zeros(0))
''',
        '''\
ShapeError [E105] max: max over no elements
  --> user.py:3:12
   |     return pb.max(x)
   |            ^^^^^^^^^
   | n < N = 0
  See `pullback explain-error E105`
''',
    ),
    (
        "an array too large",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    y = pb.build((x.shape[0], 1 << 50), lambda i, j: x[i] * j)
    return pb.sum(y, axis=0)
f(np.ones(8))
''',
        '''\
OutOfMemoryError [E405] f: there is no memory for what a call with these arguments makes: 9,007,199,254,740,992 bytes
  --> user.py:5:1
   | f(np.ones(8))
   | ^^^^^^^^^^^^^
   | the result out : f64[1125899906842624], 9,007,199,254,740,992 bytes
  try: smaller arguments; `f.memory(...)` lists what needs memory, `memory="least"` needs less      See `pullback explain-error E405`
''',
    ),
]


@pytest.mark.parametrize(("source", "expected"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistake(message: Callable[[str], str], source: str, expected: str) -> None:
    assert message(source) == expected
