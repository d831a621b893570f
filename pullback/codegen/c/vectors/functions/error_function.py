"""The vector form of the error function.

|x| < 0.9375: x + x p(x^2). Above: 1 - e^-q(|x| - c), where q is a fit to -log(1 - erf), weighted by how much its error
changes erf. The center c is near the lower end, where erf is most sensitive. From 3.93 (f32) and 5.9 (f64) on it is 1.
p, q: minimax (f32 2^-30, 2^-31; f64 2^-56, 2^-60). Error: 1.15 units of the last place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pullback.codegen.c.vectors.functions.vector import VectorFunction, polynomial

ERROR_FUNCTION: Final[Mapping[str, VectorFunction]] = {
    "erf": VectorFunction("""\
static $V pb_erf_$S($V x)
{
    $V size = ($V)(($I)x & ~$sign), z = x * x, z2 = z * z;
    $V near = size + size * ($near);
    $V t = pb_least_$S(($V){0} + $limit, size) - $middle, t2 = t * t;
    $V low, far = 1.0${f} - pb_decay_$S(-($far), &low);
    $V out = pb_choose_$S(size < 0.9375${f}, near, far);
    return ($V)(($I)out | (($I)x & $sign));
}
""", needs=("least", "decay"), constants={
        "near": polynomial((
            "8.00027992e-05f, -0.000805038435f, 0.00519243814f, -0.026855737f, 0.112836257f, -0.376126289f, "
            "0.128379166f",
            "4.6396577992745013e-10, -3.2937274583362075e-09, 1.9693375616562787e-08, -1.7025678118816293e-07, "
            "1.651850428684723e-06, -1.4928831752649775e-05, 0.00012055452741821386, -0.000854832999317356, "
            "0.005223977672176431, -0.026866170649477075, 0.11283791670976046, -0.3761263890318415, 0.1283791670955126",
        ), "z"),
        "far": polynomial((
            "1.84709588e-05f, -0.000262027606f, 0.00182136893f, -0.0090294024f, 0.0375431553f, 0.855610311f, "
            "2.81815147f, 2.1373601f",
            "1.4963255123470868e-13, -4.870554313811062e-12, 7.337571964585032e-11, -6.80210220832986e-10, "
            "4.333111177220272e-09, -1.9837120453560513e-08, 6.417974355459706e-08, -1.1995173695310708e-07, "
            "-1.1165677947944187e-07, 2.026866359768484e-06, -9.582780871660597e-06, 2.7143664539802263e-05, "
            "-2.6271187271808703e-05, -0.00023732454529726857, 0.0019779030044947943, -0.010033825434125485, "
            "0.0415610980466264, 0.8431072563584814, 2.6389675142347913, 1.8496055099332482",
        ), "t"),
        "limit": ("3.93f", "5.9"),
        "middle": ("1.10546875f", "1.0"),
    }),
}
