"""E704: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_a_result_other_than_promised(message: Callable[[str], str]) -> None:
    assert (
        message("""
from pullback import lazy
class Half(lazy.Foreign):
    def result(self, x):
        return x.shape, x.dtype

    def forward(self, x):
        return x[:1], None

float(lazy.sum(Half()(np.ones(4))))
""")
        == """\
PullbackError [E704] Half: forward gave float64[1], and its result was said to be f64[4]
  --> user.py:9:16
   | float(lazy.sum(Half()(np.ones(4))))
   |                ^^^^^^^^^^^^^^^^^^
  try: `result` and `forward` must agree      See `pullback explain-error E704`
"""
    )
