"""Scalar conversion of f16 and bf16 to and from f32 and f64, with the rounding of `ir.halves`."""

from __future__ import annotations

from typing import Final

from pullback.codegen.target import Definitions
from pullback.ir.types import DType

_FROM: Final = {
    "f16": """\
static inline float pb_f32_of_f16(uint16_t h) {
    const uint32_t rest = h & 0x7fff, normal = (rest << 13) + (112u << 23), special = 0x7f800000 | rest << 13;
    const float small = (float)rest * 0x1p-24f; /* with the least exponent the mantissa is the number */
    uint32_t bits;
    float x;
    memcpy(&bits, &small, 4);
    bits = rest < 0x400 ? bits : rest < 0x7c00 ? normal : special;
    bits |= (uint32_t)(h & 0x8000) << 16 | (rest > 0x7c00 ? 0x00400000 : 0);
    memcpy(&x, &bits, 4);
    return x;
}
""",
    "bf16": """\
static inline float pb_f32_of_bf16(uint16_t h) {
    const uint32_t bits = (uint32_t)h << 16 | ((h & 0x7fff) > 0x7f80 ? 0x00400000 : 0);
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
""",
}
_TO: Final = {
    "f16": """\
static inline uint16_t pb_f16_of_f32(float x) {
    uint32_t bits, small;
    memcpy(&bits, &x, 4);
    const uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x47800000) return (uint16_t)(sign | 0x7c00);
    if (rest >= 0x38800000) return (uint16_t)(sign | (rest - (112u << 23) + 0xfff + (rest >> 13 & 1)) >> 13);
    x = fabsf(x) + 0.5f; /* a sum rounds to multiples of 2^-24 */
    memcpy(&small, &x, 4);
    return (uint16_t)(sign | (small - 0x3f000000));
}
""",
    "bf16": """\
static inline uint16_t pb_bf16_of_f32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    const uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return (uint16_t)(sign | rest >> 16 | 0x40);
    return (uint16_t)(sign | (rest + 0x7fff + (rest >> 16 & 1)) >> 16);
}
""",
}
_ODD: Final = """\
static inline float pb_odd(double x) { /* x, or that one of its neighbors whose last bit is set */
    float near = (float)x;
    uint32_t bits;
    memcpy(&bits, &near, 4);
    if (x == x && (double)near != x && !(bits & 1)) bits += fabs((double)near) < fabs(x) ? 1u : UINT32_MAX;
    memcpy(&near, &bits, 4);
    return near;
}
"""


def conversion(source: DType, target: DType) -> tuple[str, Definitions]:
    """The C function for a conversion, and the definitions that it needs."""
    name = f"pb_{target.name}_of_{source.name}"
    if source.is_half:
        return name, ((name, _FROM[source.name]),)
    single = f"pb_{target.name}_of_f32"
    definitions = ((single, _TO[target.name]),)
    if source.name == "f32":
        return name, definitions
    wide = f"static inline uint16_t {name}(double x) {{\n    return {single}(pb_odd(x));\n}}\n"
    return name, (*definitions, ("pb_odd", _ODD), (name, wide))
