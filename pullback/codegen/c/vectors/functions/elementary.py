"""Vector forms of abs, sign, copysign, square root and roundings to integers: exact.

Without a rounding instruction, rounding adds and subtracts 2^mantissa, beyond which every number is an integer. floor
and ceil correct the nearest integer by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pullback.codegen.c.vectors.functions.vector import Pair, VectorFunction

_WHOLE: Final[Pair] = ("8388608.0f", "4503599627370496.0")  # 2^mantissa


def _rounding(name: str, correction: str) -> VectorFunction:
    return VectorFunction(f"""\
static inline $V pb_{name}_$S($V x)
{{
$quick    $V size = ($V)(($I)x & ~$sign), y = (size + $whole) - $whole;
    y = ($V)(($I)y | (($I)x & $sign));
{correction}    return pb_choose_$S(size < $whole, y, x);
$end}}
""", constants={"whole": _WHOLE})


def _by_one(test: str, sign: str) -> str:
    """Correct the nearest integer by one if it is on the wrong side of x; zeros keep the sign of x."""
    return f"    y = ($V)(($I)(y {sign} ($V)(({test}) & $one_bits)) | (($I)x & $sign));\n"


ELEMENTARY: Final[Mapping[str, VectorFunction]] = {
    "abs": VectorFunction("""\
static inline $V pb_abs_$S($V x)
{
    return ($V)(($I)x & ~$sign);
}
"""),
    "copysign": VectorFunction("""\
static inline $V pb_copysign_$S($V a, $V b)
{
    return ($V)((($I)a & ~$sign) | (($I)b & $sign));
}
"""),
    "sign": VectorFunction("""\
static inline $V pb_sign_$S($V x)
{
    $V y = ($V)((x > 0) & $one_bits) - ($V)((x < 0) & $one_bits);
    return pb_choose_$S(x == x, y, x);
}
"""),
    "sqrt": VectorFunction("""\
static inline $V pb_sqrt_$S($V x)
{
$quick    for (int k = 0; k < $lanes; k++) x[k] = sqrt${f}(x[k]);
    return x;
$end}
"""),
    "round": _rounding("round", ""),
    "floor": _rounding("floor", _by_one("y > x", "-")),
    "ceil": _rounding("ceil", _by_one("y < x", "+")),
    "trunc": _rounding("trunc", "    y = ($V)(($I)(y - ($V)((y > x) & (x > 0) & $one_bits) "
                       "+ ($V)((y < x) & (x < 0) & $one_bits)) | (($I)x & $sign));\n"),
    "floor_divide": VectorFunction("""\
static inline $V pb_floor_divide_$S($V a, $V b)
{
    $V q = pb_floor_$S(a / b), less = q - 1.0${f}, rest = pb_rest_$S(a, b, q);
    $I above = ((b > 0) & (rest < 0)) | ((b < 0) & (rest > 0)); /* the quotient was rounded to q */
    return pb_choose_$S(above & (less + 1.0${f} == q), less, q);
}
""", needs=("floor", "rest")),
}
