"""f16 and bf16: numbers of 16 bits as they lie in memory, to and from f32.

f16 is the binary16 of IEEE 754: 5 bits of exponent, 10 of mantissa. bf16 is the upper half of an f32. Every number of
either is an f32. The other way a number is rounded to the nearest, ties to the even one; beyond the largest it becomes
infinite. Either way NaN keeps its sign and the upper bits of its mantissa, of which the first is set: it is quiet. f64
is rounded once, by way of an f32 that is odd where it is not exact (Boldo and Melquiond 2008, Emulation of FMA and
correctly rounded sums: proved algorithms using rounding to odd).

NumPy's meaning is here, on bits, and C's, which is the same bit by bit.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pullback.ir.types import DType

NDArray = np.ndarray[Any, Any]


def from_half(bits: Any, dtype: DType) -> NDArray:
    """The numbers, as f32, that arrays of bits hold."""
    h: NDArray = np.asarray(bits).astype(np.uint32)
    if dtype.name == "bf16":
        wide: NDArray = h << np.uint32(16)
        nan = (h & 0x7FFF) > 0x7F80
    else:
        sign, rest = (h & 0x8000) << np.uint32(16), h & 0x7FFF
        small = rest.astype(np.float32) * np.float32(2.0**-24)  # with the least exponent the mantissa is the number
        normal = (rest << np.uint32(13)) + np.uint32(112 << 23)
        special = np.uint32(0x7F800000) | (rest << np.uint32(13))
        magnitude = np.where(rest < 0x400, small.view(np.uint32), np.where(rest < 0x7C00, normal, special))
        wide, nan = sign | magnitude, rest > 0x7C00
    return np.asarray(np.where(nan, wide | np.uint32(0x00400000), wide), np.uint32).view(np.float32)


def to_half(x: Any, dtype: DType) -> NDArray:
    """The bits of the nearest numbers to those of an f32 or f64."""
    with np.errstate(all="ignore"):
        return _to_half(np.asarray(x), dtype)


def elements_of(array: NDArray, dtype: DType) -> NDArray:
    """What is read from an array of this type: of one of 16 bits f32."""
    return from_half(array.view(np.uint16), dtype) if dtype.is_half else array


def _to_half(x: NDArray, dtype: DType) -> NDArray:
    bits = (_odd(x) if x.dtype == np.float64 else x.astype(np.float32)).view(np.uint32)
    sign, rest = (bits >> np.uint32(16)) & np.uint32(0x8000), bits & np.uint32(0x7FFFFFFF)
    if dtype.name == "bf16":
        near = (rest + np.uint32(0x7FFF) + ((rest >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        nan = (rest >> np.uint32(16)) | np.uint32(0x40)
    else:
        even = (rest >> np.uint32(13)) & np.uint32(1)
        normal = (rest - np.uint32(112 << 23) + np.uint32(0xFFF) + even) >> np.uint32(13)
        tiny = np.where(rest < 0x38800000, rest, np.uint32(0)).view(np.float32)
        small = (tiny + np.float32(0.5)).view(np.uint32) - np.uint32(0x3F000000)  # a sum rounds to multiples of 2^-24
        near = np.where(rest < 0x38800000, small, np.where(rest < 0x47800000, normal, np.uint32(0x7C00)))
        nan = np.uint32(0x7E00) | ((rest >> np.uint32(13)) & np.uint32(0x3FF))
    return np.asarray(sign | np.where(rest > 0x7F800000, nan, near), np.uint32).astype(np.uint16)


def _odd(x: NDArray) -> NDArray:
    """An f64 as the f32 that it is, or else as that one of its two neighbours whose last bit is set."""
    near = np.asarray(x.astype(np.float32))
    bits = near.view(np.uint32)
    step = np.where(np.abs(near.astype(np.float64)) < np.abs(x), np.uint32(1), np.uint32(0xFFFFFFFF))
    inexact = (near != x) & ((bits & 1) == 0) & (x == x)
    return np.asarray(np.where(inexact, bits + step, bits), np.uint32).view(np.float32)


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
static inline float pb_odd(double x) { /* x, or that one of its neighbours whose last bit is set */
    float near = (float)x;
    uint32_t bits;
    memcpy(&bits, &near, 4);
    if (x == x && (double)near != x && !(bits & 1)) bits += fabs((double)near) < fabs(x) ? 1u : UINT32_MAX;
    memcpy(&near, &bits, 4);
    return near;
}
"""


def c_of(source: DType, target: DType) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The C function that converts, and the definitions that it needs as (name, text)."""
    name = f"pb_{target.name}_of_{source.name}"
    if source.is_half:
        return name, ((name, _FROM[source.name]),)
    single = f"pb_{target.name}_of_f32"
    definitions = ((single, _TO[target.name]),)
    if source.name == "f32":
        return name, definitions
    wide = f"static inline uint16_t {name}(double x) {{\n    return {single}(pb_odd(x));\n}}\n"
    return name, (*definitions, ("pb_odd", _ODD), (name, wide))


# Bodies for vectors x, of `lanes`, and instructions by type, direction (from it) and lanes: a condition and a body.

VECTOR_FROM: Final = {
    "f16": """\
    const $u h = __builtin_convertvector(x, $u), rest = h & 0x7fff;
    const $u tiny = ($u)(rest < 0x400), special = ($u)(rest > 0x7bff), nan = ($u)(rest > 0x7c00);
    const $u small = ($u)(__builtin_convertvector(($i)rest, $wide) * 0x1p-24f);
    const $u large = (rest << 13) + (112u << 23) + (special & (112u << 23));
    return ($wide)((tiny & small) | (~tiny & large) | ((h & 0x8000) << 16) | (nan & 0x00400000));
""",
    "bf16": """\
    const $u h = __builtin_convertvector(x, $u), nan = ($u)((h & 0x7fff) > 0x7f80);
    return ($wide)((h << 16) | (nan & 0x00400000));
""",
}
VECTOR_TO: Final = {
    "f16": """\
    const $u bits = ($u)x, sign = (bits >> 16) & 0x8000, rest = bits & 0x7fffffff;
    const $u tiny = ($u)(rest < 0x38800000), huge = ($u)(rest > 0x477fffff), nan = ($u)(rest > 0x7f800000);
    const $u small = ($u)(($wide)(rest & tiny) + 0.5f) - 0x3f000000;
    const $u large = (rest - (112u << 23) + 0xfff + ((rest >> 13) & 1)) >> 13;
    const $u near = (tiny & small) | (~(tiny | huge) & large) | (huge & 0x7c00);
    return __builtin_convertvector(sign | near | (nan & (0x200 | ((rest >> 13) & 0x3ff))), $half);
""",
    "bf16": """\
    const $u bits = ($u)x, sign = (bits >> 16) & 0x8000, rest = bits & 0x7fffffff;
    const $u near = (rest + 0x7fff + ((rest >> 16) & 1)) >> 16, nan = ($u)(rest > 0x7f800000);
    return __builtin_convertvector(sign | (~nan & near) | (nan & ((rest >> 16) | 0x40)), $half);
""",
}
QUICK: Final = {
    ("f16", True, 16): (
        "defined(__AVX512F__) && !defined(__clang__)",
        "return __builtin_ia32_vcvtph2ps512_mask((short __attribute__((vector_size(32))))x, (pb_f32x16){0}, -1, 4);",
    ),
    ("f16", True, 8): (
        "defined(__F16C__)",
        "return __builtin_ia32_vcvtph2ps256((short __attribute__((vector_size(16))))x);",
    ),
    ("f16", False, 16): (
        "defined(__AVX512F__) && !defined(__clang__)",
        "return (pb_f16x16)__builtin_ia32_vcvtps2ph512_mask(x, 0, (short __attribute__((vector_size(32)))){0}, -1);",
    ),
    ("f16", False, 8): ("defined(__F16C__)", "return (pb_f16x8)__builtin_ia32_vcvtps2ph256(x, 0);"),
}
