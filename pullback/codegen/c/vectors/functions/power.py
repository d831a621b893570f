"""The vector form of x to the power y.

|x|^y = exp(y log |x|). An error of the logarithm is multiplied by y, so the logarithm is the unevaluated sum of two
numbers (Dekker 1971). As in `logarithms`, log m = 2 s + s^3 (2/3 + s^2 p(s^2)). Here s, s^3, the bracket and all sums
are such pairs. So are y log |x| and its remainder after multiples of log 2. The polynomial p is minimax, to 2^-36 (f32)
and 2^-76 (f64) of 2 s. The error is up to 0.95 units in the last place.

Lanes with zero, negative, subnormal, infinite or NaN operands are set afterwards as C's pow defines them; one test
skips this if there are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pullback.codegen.c.vectors.functions.exponentials import EXPONENTIALS
from pullback.codegen.c.vectors.functions.logarithms import LOGARITHMS
from pullback.codegen.c.vectors.functions.vector import VectorFunction, polynomial

POWER: Final[Mapping[str, VectorFunction]] = {
    "power": VectorFunction("""\
static $V pb_power_$S($V x, $V y)
{
    $V size = ($V)(($I)x & ~$sign), tall = ($V)(($I)y & ~$sign), base = size;
    $I special = (($I)x < $tiny_bits) | (($I)x >= $infinity_bits) | ~(tall < $infinity), lifted = {0};
    const int any = pb_any_$S(special);
    if (any) { /* subnormal numbers become normal */
        lifted = size < $tiny;
        base = pb_choose_$S(lifted, size * $lift, size);
    }
    $I bits = ($I)base - $root_bits, exponent = (bits >> $mantissa) - (lifted & $lift_bits);
    $V f = ($V)((bits & $mantissa_mask) + $root_bits) - 1.0${f}, k = __builtin_convertvector(exponent, $V);

    /* s = f / (2 + f) */
    $V d = 2.0${f} + f, d_low = f - (d - 2.0${f}), inverse = 1.0${f} / d;
    $V s = f * inverse, s_low = (pb_rest_$S(f, s, d) - s * d_low) * inverse;
    /* 2/3 + s^2 p(s^2), and s^3 */
    $V z = s * s, z2 = z * z, z_low = pb_low_$S(s, s, z) + 2.0${f} * s * s_low;
    $V tail = z * ($series), c = $third + tail, c_low = ($third - c) + tail + $third_low;
    $V cube = z * s, cube_low = pb_low_$S(z, s, cube) + z_low * s + z * s_low;
    $V u = cube * c, u_low = pb_low_$S(cube, c, u) + cube * c_low + cube_low * c;
    /* log |x| = k log 2 + 2 s + s^3 .. */
    $V two = 2.0${f} * s, m = two + u, m_low = (two - m) + u + (2.0${f} * s_low + u_low);
    $V kh = k * $ln2_high, sum = kh + m, rest = (kh - sum) + m + (m_low + k * $ln2_low);
    $V l = sum + rest, l_low = (sum - l) + rest;

    $V e = y * l, e_low = pb_low_$S(y, l, e) + y * l_low;
    $V w = pb_most_$S(($V){0} + $smallest, pb_least_$S(($V){0} + $largest, e));
    e_low = pb_choose_$S(w == e, e_low, ($V){0});
    $V t = w * $log2e + $magic, n = t - $magic;
    $V a = w - n * $ln2_high, b = n * $ln2_low, g = a - b, g_low = (a - g) - b + e_low;
    $V r = g + g_low, r_low = (g - r) + g_low, r2 = r * r;
    $V q = $q, v = r + (r2 * q + r_low);
    $V t1 = n * 0.5${f} + $magic, t2 = n - (t1 - $magic) + $magic;
    $V s1 = ($V)((($I)t1 << $mantissa) + $one_bits), s2 = ($V)((($I)t2 << $mantissa) + $one_bits);
    $V out = (s1 + s1 * v) * s2;
    if (!any) return out;

    $V infinity = ($V){0} + $infinity, one = ($V){0} + 1.0${f}, nan = infinity - infinity;
    $I edge = (size == 0.0${f}) | (size == infinity);
    out = pb_choose_$S(edge, ($V)(((size == 0.0${f}) ^ (y > 0.0${f})) & ($I)infinity), out);
    $V far = ($V)(((size > 1.0${f}) ^ (y < 0.0${f})) & ($I)infinity);
    out = pb_choose_$S(tall == infinity, pb_choose_$S(size == 1.0${f}, one, far), out);
    $V half = 0.5${f} * tall;
    $I whole = pb_floor_$S(tall) == tall, odd = whole & (pb_floor_$S(half) != half) & (tall < $even);
    out = ($V)(($I)out ^ (odd & ($I)x & $sign));
    out = pb_choose_$S((x < 0.0${f}) & (size < infinity) & ~whole, nan, out);
    out = pb_choose_$S((x != x) | (y != y), x + y, out);
    return pb_choose_$S((y == 0.0${f}) | (x == 1.0${f}), one, out);
}
""", needs=("any", "least", "most", "low", "rest", "floor"), constants={
        **LOGARITHMS["log"].constants, **EXPONENTIALS["exp"].constants,
        "series": polynomial((
            "0.234196335f, 0.285470903f, 0.400001526f",
            "0.12028896113110168, 0.10278974847523985, 0.11777266308945955, 0.13332959962033739, 0.1538462218446204, "
            "0.18181818106031117, 0.22222222222716465, 0.2857142857142689, 0.4",
        ), "z"),
        "third": ("0.6666667f", "0.6666666666666666"),  # 2/3 as two numbers
        "third_low": ("-1.98682149e-8f", "3.700743415417188e-17"),
        "even": ("16777216.0f", "9007199254740992.0"),  # from here on all numbers are even
    }),
}
