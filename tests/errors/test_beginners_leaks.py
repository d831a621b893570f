# ruff: noqa: E501
"""What beginners get wrong about traced values outside of the function that computed them: each mistake, and the complete message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

MISTAKES = [
    (
        "an index kept",
        '''
kept = []
@pb.function
def f(x: Float64[Array, "N"]):
    pb.sum_over(x.shape[0], lambda i: kept.append(i) or x[i])
    return x[kept[0]]
''',
        '''\
TraceError [E131] index i is used outside of the function it belongs to
  --> user.py:5:5
   |     return x[kept[0]]
   |     ^^^^^^^^^^^^^^^^^
  try: use an index only inside the function given to `build`, `sum_over` or `fold`      See `pullback explain-error E131`
''',
    ),
    (
        "an array of another function",
        '''
kept = []
@pb.function
def g(x: Float64[Array, "N"]):
    kept.append(x * 2)
    return x
@pb.function
def f(x: Float64[Array, "N"]):
    return x + kept[0]
''',
        '''\
TraceError [E130] multiply is used outside of the function that computed it
  --> user.py:8:12
   |     return x + kept[0]
   |            ^^^^^^^^^^^
  try: return it: `fold`, `scan`, `cond` and `while_loop` hand out what their functions return      See `pullback explain-error E130`
''',
    ),
    (
        "a value read after its function",
        '''
kept = []
@pb.function
def g(x: Float64[Array, "N"]):
    kept.append(x * 2)
    return x
kept[0] + 1
''',
        '''\
TraceError [E130] multiply is a traced value, and the function that it belongs to has ended
  --> user.py:6:1
   | kept[0] + 1
   | ^^^^^^^^^^^
  try: return it: the call of the function gives NumPy arrays      See `pullback explain-error E130`
''',
    ),
    (
        "a value printed as a number",
        '''
kept = []
@pb.function
def g(x: Float64[Array, ""]):
    kept.append(x)
    return x
float(kept[0])
''',
        '''\
TraceError [E130] x is a traced value, and the function that it belongs to has ended
  --> user.py:6:1
   | float(kept[0])
   | ^^^^^^^^^^^^^^
  try: return it: the call of the function gives NumPy arrays      See `pullback explain-error E130`
''',
    ),
    (
        "a value to NumPy after its function",
        '''
kept = []
@pb.function
def g(x: Float64[Array, "N"]):
    kept.append(x * 2)
    return x
np.asarray(kept[0])
''',
        '''\
TraceError [E130] multiply is a traced value, and the function that it belongs to has ended
  --> user.py:6:1
   | np.asarray(kept[0])
   | ^^^^^^^^^^^^^^^^^^^
  try: return it: the call of the function gives NumPy arrays      See `pullback explain-error E130`
''',
    ),
    (
        "a value given to a call",
        '''
kept = []
@pb.function
def g(x: Float64[Array, "N"]):
    kept.append(x * 2)
    return x
g(kept[0])
''',
        '''\
TraceError [E130] multiply is a traced value, and the function that it belongs to has ended
  --> user.py:6:1
   | g(kept[0])
   | ^^^^^^^^^^
  try: return it: the call of the function gives NumPy arrays      See `pullback explain-error E130`
''',
    ),
    (
        "an attribute of an object",
        '''
class Model:
    pass
model = Model()
@pb.function
def train(x: Float64[Array, "N"]):
    model.state = x * 2
    return x
@pb.function
def show(x: Float64[Array, "N"]):
    return model.state + x
''',
        '''\
TraceError [E130] multiply is used outside of the function that computed it
  --> user.py:10:12
   |     return model.state + x
   |            ^^^^^^^^^^^^^^^
  try: return it: `fold`, `scan`, `cond` and `while_loop` hand out what their functions return      See `pullback explain-error E130`
''',
    ),
    (
        "a state of a loop kept",
        '''
kept = []
@pb.function
def f(x: Float64[Array, "N"]):
    pb.fold(x.shape[0], 0.0, lambda total, i: kept.append(total) or total + x[i])
    return kept[0]
''',
        '''\
TraceError [E130] state is used outside of the function that computed it
  --> user.py:5:5
   |     return kept[0]
   |     ^^^^^^^^^^^^^^
  try: return it: `fold`, `scan`, `cond` and `while_loop` hand out what their functions return      See `pullback explain-error E130`
''',
    ),
    (
        "an index of one sum in another",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    kept = []
    pb.build(x.shape[0], lambda i: kept.append(i) or x[i])
    return pb.build(x.shape[0], lambda j: x[kept[0]])
''',
        '''\
TraceError [E131] index i is used outside of the function it belongs to
  --> user.py:5:12
   |     return pb.build(x.shape[0], lambda j: x[kept[0]])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: use an index only inside the function given to `build`, `sum_over` or `fold`      See `pullback explain-error E131`
''',
    ),
    (
        "a value of a branch kept",
        '''
kept = []
@pb.function
def f(x: Float64[Array, "N"]):
    pb.cond(x[0] > 0, lambda: kept.append(pb.exp(x)) or x, lambda: x)
    return kept[0]
''',
        '''\
TraceError [E130] exp is used outside of the function that computed it
  --> user.py:5:5
   |     return kept[0]
   |     ^^^^^^^^^^^^^^
  try: return it: `fold`, `scan`, `cond` and `while_loop` hand out what their functions return      See `pullback explain-error E130`
''',
    ),
]


@pytest.mark.parametrize(("source", "expected"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistake(message: Callable[[str], str], source: str, expected: str) -> None:
    assert message(source) == expected
