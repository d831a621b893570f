# ruff: noqa: E501
"""E225: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_jacobian(message: Callable[[str], str]) -> None:
    assert (
        message("""
pb.jacobian(lambda z: z * z)(np.array([1 + 2j]))
""")
        == """\
DerivativeError [E225] jacobian(lambda): derivatives of complex numbers by complex numbers have four parts
  --> user.py:1:1
   | pb.jacobian(lambda z: z * z)(np.array([1 + 2j]))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: make both real: `lambda x, y: pb.real(f(x + 1j * y))`, and the same with `pb.imag`      See `pullback explain-error E225`
"""
    )
