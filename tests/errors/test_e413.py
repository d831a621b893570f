"""E413: the programs, and the complete messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pullback.runtime.compile import find_compiler

gcc = pytest.mark.skipif("clang" in find_compiler().version, reason="the words are those of gcc")


@gcc
def test_what_does_not_compile(message: Callable[[str], str]) -> None:
    assert (
        message('''
source = """
#include <math.h>
void f(const double *x, double *y) {
    y[0] = exp(z[0]);
}
"""
pb.external(source, "f(x: f64) -> f64")
''')
        == """\
CompilerError [E413] f: its C does not compile: 'z' undeclared (first use in this function)
  --> user.py:4:16
   |     y[0] = exp(z[0]);
   |                ^
  try: C99 that compiles by itself, with its `#include`s      See `pullback explain-error E413`
"""
    )


def test_another_type(message: Callable[[str], str]) -> None:
    assert (
        message("""
pb.external("void f(const float *x, double *y) { *y = *x; }", "f(x: f64[N]) -> f64")
""")
        == """\
CompilerError [E413] f: its C is a function of another type
  --> user.py:1:1
   | pb.external("void f(const float *x, double *y) { *y = *x; }", "f(x: f64[N]) -> f64")
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | C: void f(const float *x, double *y) { *y = *x; }
  try: `void f(const double *x, double *result, int64_t N)`      See `pullback explain-error E413`
"""
    )


def test_another_name(message: Callable[[str], str]) -> None:
    assert (
        message("""
pb.external("void f(const double *x, double *y) { *y = *x; }", "g(x: f64) -> f64")
""")
        == """\
CompilerError [E413] external: the C defines no function g
  --> user.py:1:1
   | pb.external("void f(const double *x, double *y) { *y = *x; }", "g(x: f64) -> f64")
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | defined: f
  try: `type="f(x: f64[N], k: f64) -> f64[N]"`      See `pullback explain-error E413`
"""
    )


def test_two_of_one_name(message: Callable[[str], str]) -> None:
    assert (
        message("""
one = pb.external("void f(const double *x, double *y) { *y = *x; }", "f(x: f64) -> f64")
two = pb.external("void f(const double *x, double *y) { *y = 2 * *x; }", "f(x: f64) -> f64")

@pb.function
def both(x: Float64[Array, ""]):
    return one(x) + two(x)

both(1.0)
""")
        == """\
CompilerError [E413] both calls two functions in C named f, which is one too many for one file
  --> user.py:2:7
   | two = pb.external("void f(const double *x, double *y) { *y = 2 * *x; }", "f(x: f64) -> f64")
   |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: give them names of their own, or both the same `c_source`      See `pullback explain-error E413`
"""
    )
