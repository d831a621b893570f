"""E152: the programs, and the complete messages."""

from __future__ import annotations

from collections.abc import Callable


def test_no_type(message: Callable[[str], str]) -> None:
    assert (
        message("""
pb.external("void f(const double *x, double *y) { *y = *x; }", "f(x: double) -> f64")
""")
        == """\
TraceError [E152] external: the type is none: expected a dtype, found 'double'
  --> user.py:1:1
   | pb.external("void f(const double *x, double *y) { *y = *x; }", "f(x: double) -> f64")
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | f(x:  ‸ double) -> f64
  try: `type="f(x: f64[N], k: f64) -> f64[N]"`      See `pullback explain-error E152`
"""
    )


def test_a_dim_of_no_argument(message: Callable[[str], str]) -> None:
    assert (
        message("""
pb.external("void f(const double *x, double *y, int64_t n) { *y = *x; }", "f(x: f64[N]) -> f64[M]")
""")
        == """\
TraceError [E152] external: the type is none: no index or dim is called M
  --> user.py:1:1
   | pb.external("void f(const double *x, double *y, int64_t n) { *y = *x; }", "f(x: f64[N]) -> f64[M]")
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | f(x: f64[N]) -> f64[ ‸ M]
  try: `type="f(x: f64[N], k: f64) -> f64[N]"`      See `pullback explain-error E152`
"""
    )


def test_no_text(message: Callable[[str], str]) -> None:
    assert (
        message("""
pb.external(b"void f(const double *x, double *y) { *y = *x; }", "f(x: f64) -> f64")
""")
        == """\
TraceError [E152] external: `c_source` is no text
  --> user.py:1:1
   | pb.external(b"void f(const double *x, double *y) { *y = *x; }", "f(x: f64) -> f64")
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `type="f(x: f64[N], k: f64) -> f64[N]"`      See `pullback explain-error E152`
"""
    )
