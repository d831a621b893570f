"""Vector forms of log, log2, log10 and log1p.

All take x = 2^k m, sqrt(1/2) <= m < sqrt(2), f = m - 1 and s = f / (2 + f): log m = 2 atanh(s) = f - s (f - R), with R
= s^2 p(s^2) the rest of the series, p minimax (f32 8e-10, f64 2e-18 of the whole). Written as h = f^2 / 2, log m = f -
(h - s (h + R)), the largest term is exact (fdlibm). Lanes that are not positive and normal are rare; one test skips
their code. log(0) = -inf, log(x < 0) = NaN.

log           k log 2 + log m, log 2 as two numbers. Error: 0.8 units of the last place.
log2, log10   log m as a number of half the mantissa and the rest, each times 1 / log b as two numbers. Error: 0.8.
log1p         with u = 1 + x and its rounding error c: log u + c / u. Error: 0.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pullback.codegen.c.vectors.functions.vector import Pair, VectorFunction, polynomial

_NUMBERS: Final[Mapping[str, Pair]] = {
    "series": polynomial((
        "0.298709303f, 0.399775803f, 0.666667759f",
        "0.14795863743355986, 0.1531406414344322, 0.1818356355888562, 0.22222198593679104, 0.28571428742112803, "
        "0.39999999999416413, 0.6666666666666734",
    ), "z"),
    "lift": ("33554432.0f", "18014398509481984.0"),  # 2^25, 2^54
    "lift_bits": ("25", "54"),
    "root_bits": ("0x3f3504f3", "0x3fe6a09e667f3bcdLL"),  # the bits of sqrt(1/2)
    "mantissa_mask": ("0x007fffff", "0x000fffffffffffffLL"),
}
_BEGIN: Final = """\
    $I special = (($I)x < $tiny_bits) | (($I)x >= $infinity_bits), lifted = {0};
    $V y = x;
    if (pb_any_$S(special)) { /* subnormal numbers become normal */
        lifted = x < $tiny;
        y = pb_choose_$S(lifted, x * $lift, x);
    }
    $I bits = ($I)y - $root_bits, exponent = (bits >> $mantissa) - (lifted & $lift_bits);
    $V f = ($V)((bits & $mantissa_mask) + $root_bits) - 1.0${f};
"""
_SERIES: Final = """\
    $V k = __builtin_convertvector(exponent, $V);
    $V s = f / (2.0${f} + f), z = s * s, z2 = z * z;
    $V rest = z * ($series), h = 0.5${f} * f * f;
"""
_END: Final = """\
    if (pb_any_$S(special)) {
        out = pb_choose_$S(x == $infinity, x, out);
        out = pb_choose_$S(x == ZERO, ($V){0} - $infinity, out);
        out = pb_choose_$S((x < ZERO) | (x != x), ($V){0} + NOT_A_NUMBER, out);
    }
    return out;
"""


def _end(zero: str) -> str:
    return _END.replace("ZERO", zero).replace("NOT_A_NUMBER", "($infinity - $infinity)")


def _based(name: str, numbers: Mapping[str, Pair]) -> VectorFunction:
    """A logarithm to base b: log m as high + low, both multiplied by 1 / log b."""
    return VectorFunction(f"""\
static inline $V pb_{name}_$S($V x)
{{
{_BEGIN}{_SERIES}    $V high = ($V)(($I)(f - h) & $upper), low = (f - high) - h + s * (h + rest);
    $V a = k * $two_high, b = high * $inverse_high, sum = a + b;
    $V out = sum + ((a - sum) + b + (k * $two_low + (low + high) * $inverse_low + low * $inverse_high));
{_end("0.0${f}")}}}
""", needs=("any",), constants={**_NUMBERS, **numbers})


LOGARITHMS: Final[Mapping[str, VectorFunction]] = {
    "log": VectorFunction(f"""\
static inline $V pb_log_$S($V x)
{{
{_BEGIN}{_SERIES}    $V out = k * $ln2_high + (f - (h - (s * (h + rest) + k * $ln2_low)));
{_end("0.0${f}")}}}
""", needs=("any",), constants=_NUMBERS),
    # 1 / log b and log_b 2: the first parts have so few bits that products with half a mantissa or k are exact
    "log2": _based("log2", {
        "two_high": ("1.0f", "1.0"), "two_low": ("0.0f", "0.0"),
        "inverse_high": ("1.4423828f", "1.4426950216293335"),
        "inverse_low": ("0.0003122284f", "1.9259629911266175e-08"),
    }),
    "log10": _based("log10", {
        "two_high": ("0.3010254f", "0.30102999566383914"), "two_low": ("4.605039e-06f", "1.42050232272661e-13"),
        "inverse_high": ("0.43408203f", "0.4342944622039795"),
        "inverse_low": ("0.00021245066f", "1.9699272335463627e-08"),
    }),
    "log1p": VectorFunction(f"""\
static inline $V pb_log1p_$S($V x)
{{
    $V u = 1.0${{f}} + x, back = u - 1.0${{f}}, c = (1.0${{f}} - (u - back)) + (x - back);
    $I special = (x <= -1.0${{f}}) | (($I)x >= $infinity_bits) | (x != x);
    $I bits = ($I)u - $root_bits, exponent = bits >> $mantissa;
    $V f = ($V)((bits & $mantissa_mask) + $root_bits) - 1.0${{f}};
{_SERIES}    $V out = k * $ln2_high + (f - (h - (s * (h + rest) + (k * $ln2_low + c / u))));
    out = ($V)(($I)out | (($I)x & $sign));
{_end("-1.0${f}")}}}
""", needs=("any",), constants=_NUMBERS),
}
