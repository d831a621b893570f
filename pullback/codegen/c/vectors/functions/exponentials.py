"""Vector forms of exp, expm1, tanh and logistic.

exp     x = n log 2 + r, |r| <= log(2) / 2; e^r = 1 + z, z = r + r^2 q(r), scaled by 2^n in two steps so that subnormal
        results and overflow to infinity come out right. Minimax q for the relative error of e^r: f32 3e-9, f64 9e-20. n
        and its halves are integers in the low bits of a sum with 1.5 * 2^mantissa, so that powers of two are made by
        shifts to the left alone. Error: 1.0 units of the last place: half by the last rounding, half by r and z. Where
        a register holds a table of 2^(k/16) and one instruction scales (AVX-512, f32), |r| <= log(2) / 32 and q has two
        terms; the table's rounding errors are added to z. Error: 0.7.
decay   e^x for x <= 0 and its rounding error: one step of scaling, from 2^64 (2^512) times the result.
expm1   2^n (e^r - 1) + (2^n - 1) with r, z and the sum as two numbers each, at half size so that it overflows only
        where the result does. Error: 1.15.
tanh    with m = expm1(2 |x|): m / (m + 2), and the sign of x. Error: 1.1.
logistic  e / (1 + e) below zero and 1 / (1 + e) above, e = decay(-|x|) as two numbers. Error: 1.0.
        In both the quotient a / d of sums is corrected by their rounding errors (Dekker 1971): with q = a / d, q + (a -
        q d + a_low - q d_low) / d. So 1 / d need not be exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pullback.codegen.c.vectors.functions.vector import Pair, VectorFunction, polynomial

_Q: Final[Pair] = (
    "0.00138389028f, 0.00836919248f, 0.0416681021f, 0.166665167f, 0.49999994f",
    "2.0976981062261385e-09, 2.5113924489352478e-08, 2.75570695371632e-07, 2.7557228703982112e-06, "
    "2.4801587557816733e-05, 0.00019841269903350976, 0.0013888888888778353, 0.008333333333313897, "
    "0.041666666666666824, 0.16666666666666688, 0.5",
)
_NUMBERS: Final[Mapping[str, Pair]] = {
    "q": polynomial(_Q, "r"),
    "log2e": ("1.44269504f", "1.4426950408889634"),
    "largest": ("89.0f", "710.0"),
    "smallest": ("-104.0f", "-746.0"),
    "up_bits": ("0x5f800000", "0x5ff0000000000000LL"),  # 2^64, 2^512
    "down": ("0x1p-64f", "0x1p-512"),
    "tanh_limit": ("9.1f", "19.1"),
    "minus_one": ("-18.0f", "-38.0"),  # where expm1 is -1
    "half_bits": ("0x3f000000", "0x3fe0000000000000LL"),
}
_PARTS: Final = """\
    $V t = x * $log2e + $magic, n = t - $magic;
    $V r = x - n * $ln2_high - n * $ln2_low, r2 = r * r;
    $V q = $q;
    $V z = r + r2 * q; /* e^r - 1 */
"""
_TABLE: Final = """\
    const $V power = {
        1.0f, 1.0442737f, 1.0905077f, 1.1387886f, 1.1892071f, 1.2418578f, 1.2968396f, 1.3542556f,
        1.4142135f, 1.4768262f, 1.5422108f, 1.6104903f, 1.6817929f, 1.7562522f, 1.8340081f, 1.9152066f};
    const $V rounded = {
        0.0f, 4.629e-08f, -1.199e-08f, 4.73e-08f, 3.193e-08f, 3.621e-08f, -3.099e-08f, -7.475e-09f,
        1.711e-08f, -3.048e-08f, 5.233e-09f, 6.108e-09f, -1.472e-08f, -5.259e-09f, -6.128e-09f, 5.141e-09f};
    $V t = x * $log2e + 786432.0f, n = t - 786432.0f; /* sixteenths */
    $V r = x - n * $ln2_high - n * $ln2_low;
    $V p = __builtin_shuffle(power, ($I)t), z = r + __builtin_shuffle(rounded, ($I)t);
    z += r * r * (0.166199684f * r + 0.500008464f);
"""
_SCALED: Final = "    return __builtin_ia32_scalefps512_mask(p + p * z, n, n, -1, 4);\n"
_SCALED_FIRST: Final = """\
    const $V s = __builtin_ia32_scalefps512_mask(p, n, n, -1, 4), e = s + s * z;
    *low = s - e + s * z;
    return e;
"""


def _exponential(head: str, clamp: str, general: str, scaled: str) -> VectorFunction:
    return VectorFunction(
        f"static inline $V {head}\n{{\n{clamp}$quick{_PARTS}{general}$end}}\n",
        needs=("least", "most"), constants=_NUMBERS, wide=_TABLE + scaled,
    )


EXPONENTIALS: Final[Mapping[str, VectorFunction]] = {
    "exp": _exponential("pb_exp_$S($V x)", """\
    x = pb_most_$S(($V){0} + $smallest, pb_least_$S(($V){0} + $largest, x));
""", """\
    $V t1 = n * 0.5${f} + $magic, t2 = n - (t1 - $magic) + $magic;
    $V s1 = ($V)((($I)t1 << $mantissa) + $one_bits), s2 = ($V)((($I)t2 << $mantissa) + $one_bits);
    return (s1 + s1 * z) * s2;
""", _SCALED),
    "decay": _exponential("pb_decay_$S($V x, $V *low)", """\
    x = pb_most_$S(($V){0} + $smallest, x);
""", """\
    $V s = ($V)((($I)t << $mantissa) + $up_bits);
    $V e = s + s * z;
    *low = (s - e + s * z) * $down;
    return e * $down;
""", _SCALED_FIRST),
    "expm1": VectorFunction("""\
static inline $V pb_expm1_$S($V y)
{
    $V x = pb_most_$S(($V){0} + $minus_one, pb_least_$S(($V){0} + $largest, y));
    $V t = x * $log2e + $magic, n = t - $magic;
    $V r1 = x - n * $ln2_high, r3 = n * $ln2_low, r = r1 - r3, r2 = r * r;
    $V q = $q;
    $V z = r + r2 * q, z_low = r - z + r2 * q + ((r1 - r) - r3);
    $V s = ($V)((($I)t << $mantissa) + $half_bits); /* 2^(n-1) */
    $V a = s * z, b = s - 0.5${f}, m = b + a;
    $V result = 2.0${f} * (m + (a - (m - b) + s * z_low));
    return ($V)(($I)result | (($I)y & $sign));
}
""", needs=("least", "most"), constants=_NUMBERS),
    "tanh": VectorFunction(f"""\
static inline $V pb_tanh_$S($V y)
{{
    $I sign = ($I)y & $sign;
    $V x = 2.0${{f}} * pb_least_$S(($V){{0}} + $tanh_limit, ($V)(($I)y ^ sign));
{_PARTS}    $V scale = ($V)((($I)t << $mantissa) + $one_bits);
    $V a = scale * z, b = scale - 1.0${{f}};
    $V m = b + a, m_low = a - (m - b) + scale * (r2 * q - (z - r)); /* expm1(2 |y|) */
    $V d = m + 2.0${{f}}, back = d - m, d_low = (m - (d - back)) + (2.0${{f}} - back) + m_low;
    $V inverse = pb_inverse_$S(d), result = m * inverse;
    result += (pb_rest_$S(m, d, result) + (m_low - result * d_low)) * inverse;
    return ($V)(($I)result | sign);
}}
""", needs=("least", "inverse", "rest"), constants=_NUMBERS),
    "logistic": VectorFunction("""\
static inline $V pb_logistic_$S($V x)
{
    $V low, e = pb_decay_$S(($V)(($I)x | $sign), &low); /* e^-|x| never overflows */
    $V d = 1.0${f} + e, d_low = e - (d - 1.0${f});
    $I below = ($I)x >> $shift;
    $V a = ($V)((below & ($I)e) | (~below & $one_bits)), a_low = ($V)(below & ($I)low);
    $V inverse = pb_inverse_$S(d), result = a * inverse;
    return result + (pb_rest_$S(a, d, result) + (a_low - result * d_low)) * inverse;
}
""", needs=("decay", "inverse", "rest"), constants=_NUMBERS),
}
