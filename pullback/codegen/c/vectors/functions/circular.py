"""Vector forms of sin and cos.

x = k pi / 2 + r, |r| <= pi / 4. pi / 2 is taken in parts with so few bits that their products with k are exact (Cody
and Waite 1980); the rounding error of the subtractions is a second number, low. Then

    sin r = r + (r^3 p(r^2) + low (1 - r^2 / 2))      cos r = 1 - (r^2 / 2 - (r^4 q(r^2) - r low))

The parity of k chooses one of them, its next bit the sign; p and q are minimax for the relative error (f32 4e-9, 1e-10;
f64 4e-18, 6e-20). sin and cos of the same x share everything but the choice. Error: 0.8 units of the last place. Lanes
with |x| above 12 867 (f32) or 823 549 (f64), infinite or NaN go through libm one by one: it reduces any number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pullback.codegen.c.vectors.functions.vector import Pair, VectorFunction, polynomial

_NUMBERS: Final[Mapping[str, Pair]] = {
    "limit": ("12867.0f", "823549.0"),
    "two_by_pi": ("0.636619772f", "0.6366197723675814"),
    "first": ("x - n * 1.5703125f - n * 0x1.fb4p-12f", "x - n * 0x1.921fb544p+0"),
    "second": ("0x1.444p-24f", "0x1.0b4611a6p-34"),
    "third": ("0x1.68cp-39f", "0x1.3198a2ep-69"),
    "fourth": ("0x1.1a6264p-54f", "0x1.b839a252049c1p-104"),
    "sine": polynomial((
        "-0.000195180954f, 0.00833218824f, -0.166666552f",
        "1.589543329444852e-10, -2.5050734389358925e-08, 2.7557313538514797e-06, -0.00019841269829358528, "
        "0.00833333333332184, -0.1666666666666663",
    ), "z"),
    "cosine": polynomial((
        "2.44323273e-05f, -0.00138873095f, 0.0416666456f",
        "-1.135868345084194e-11, 2.087570427266807e-09, -2.755731421008269e-07, 2.4801587288983692e-05, "
        "-0.0013888888888873325, 0.041666666666666595",
    ), "z"),
}


def _circular(name: str, quarter: str, rest: str = "") -> VectorFunction:
    return VectorFunction(f"""\
static inline $V pb_{name}_$S($V x)
{{
    $V t = x * $two_by_pi + $magic, n = t - $magic;
    $V a = $first, w = n * $second, b = a - w, v = n * $third, c = b - v;
    $V low = ((a - b) - w) + ((b - c) - v) - n * $fourth;
    $V r = c + low, z = r * r, z2 = z * z, h = 0.5${{f}} * z, whole = 1.0${{f}} - h;
    low += c - r;
    $V sine = r + (r * z * ($sine) + (low - low * h));
    $V cosine = whole + ((1.0${{f}} - whole) - h + (z2 * ($cosine) - r * low));
    $I quarter = {quarter}, odd = (quarter << $shift) >> $shift;
    $I out = (odd & ($I)cosine) | (~odd & ($I)sine);
    $V result = ($V)(out ^ ((quarter << ($shift - 1)) & $sign));
{rest}    $I far = ~(($V)(($I)x & ~$sign) <= $limit);
    if (pb_any_$S(far)) {{
        for (int k = 0; k < $lanes; k++) if (far[k]) result[k] = {name}${{f}}(x[k]);
    }}
    return result;
}}
""", needs=("any",), constants=_NUMBERS)


CIRCULAR: Final[Mapping[str, VectorFunction]] = {
    # the remainder of -0 is +0
    "sin": _circular("sin", "($I)t", "    result = pb_choose_$S(x == 0.0${f}, x, result);\n"),
    "cos": _circular("cos", "($I)t + 1"),
}
