"""Vector conversion of f16 and bf16 to and from f32, as `codegen/c/halves.py` does for single numbers."""

from __future__ import annotations

from typing import Final

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
