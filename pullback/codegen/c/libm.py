"""Names of libm in C99, for reserved variables, for `#include <math.h>` and for imports."""

from __future__ import annotations

from typing import Final

__all__ = ["FUNCTIONS", "MATH_NAMES"]

_DOUBLE: Final = """
    exp expm1 exp2 log log1p log2 log10 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh sqrt pow fabs
    floor ceil rint round trunc fmod copysign nextafter hypot cbrt erf erfc tgamma lgamma fma fmin fmax ldexp frexp modf
    nan
"""
_CLASSES: Final = ("isnan", "isinf", "isfinite", "signbit")  # macros for all floating types
FUNCTIONS: Final = frozenset(f"{name}{f}" for name in _DOUBLE.split() for f in ("", "f"))  # of double and of float
MATH_NAMES: Final = FUNCTIONS.union(_CLASSES)
