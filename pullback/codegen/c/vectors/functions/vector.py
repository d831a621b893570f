"""Shared parts of vector functions: element types, constants, and instructions that C cannot express.

A function is C text for any element type and number of lanes, with $V for the vector type, $I for the integers of its
size, $S for its suffix, and ${f} for a constant's suffix. `choose` of the same width is already defined.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Template
from typing import Final

from pullback.codegen.c.types import c_type
from pullback.ir.types import DType
from pullback.records import dataclass, field

Pair = tuple[str, str]  # f32, f64

COMMON: Final[Mapping[str, Pair]] = {
    "f": ("f", ""),
    "mantissa": ("23", "52"),
    "shift": ("31", "63"),  # from the sign to the lowest bit
    "sign": ("INT32_MIN", "INT64_MIN"),
    "one_bits": ("0x3f800000", "0x3ff0000000000000LL"),
    "tiny_bits": ("0x00800000", "0x0010000000000000LL"),  # of the smallest normal number
    "infinity_bits": ("0x7f800000", "0x7ff0000000000000LL"),
    "upper": ("(int32_t)0xfffff000", "(int64_t)0xfffffffff8000000"),  # the upper half of a mantissa
    "tiny": ("1.17549435e-38f", "2.2250738585072014e-308"),
    "magic": ("12582912.0f", "6755399441055744.0"),  # 1.5 * 2^mantissa: a sum with it is rounded to an integer
    "ln2_high": ("0.693359375f", "0.693147180369123816490"),  # so few bits that multiples by exponents are exact
    "ln2_low": ("-2.12194440e-4f", "1.90821492927058770002e-10"),
    "infinity": ("INFINITY", "(double)INFINITY"),
}


@dataclass(frozen=True)
class VectorFunction:
    """A function as C text, with the other functions it calls and its own constants."""

    text: str
    needs: tuple[str, ...] = ()
    constants: Mapping[str, Pair] = field(default_factory=dict)
    wide: str = ""  # another body for f32 in 64 bytes with AVX-512

    def source(self, name: str, dtype: DType, lanes: int) -> str:
        """The definition for an element type and a number of lanes."""
        column = 0 if dtype.name == "f32" else 1
        suffix = f"{dtype.name}x{lanes}"
        words = {k: v[column] for k, v in (*COMMON.items(), *self.constants.items())}
        words |= {"S": suffix, "V": f"pb_{suffix}", "I": f"pb_i{dtype.bits}x{lanes}", "T": c_type(dtype),
                  "lanes": str(lanes)}
        text = self.text
        quick = self.instructions(name, dtype, lanes)
        cases = "".join(f"#{'elif' if k else 'if'} {test}\n{body}" for k, (test, body) in enumerate(quick))
        text = text.replace("$quick", f"{cases}#else\n" * bool(quick)).replace("$end", "#endif\n" * bool(quick))
        return Template(text).substitute(words)

    def instructions(self, name: str, dtype: DType, lanes: int) -> tuple[tuple[str, str], ...]:
        """The single-instruction forms: conditions on the compiler, tried in order, and bodies."""
        quick: list[Pair] = []
        if self.wide and (dtype.name, lanes) == ("f32", 16):
            quick.append((_AVX512, self.wide))
        elif (name, dtype.size * lanes) in INSTRUCTIONS:
            p, i, w = ("ps", "d", "int") if dtype.name == "f32" else ("pd", "q", "long long")
            letters = {"p": p, "i": i, "w": f"{w} __attribute__((vector_size(64)))"}
            test, body = INSTRUCTIONS[name, dtype.size * lanes]
            quick.append((test, f"    {body.format(**letters)}\n"))
        if name in ELEMENTWISE:
            test, body = ELEMENTWISE[name]
            quick.append((test, f"    {body}\n"))
        return tuple((if_known(*case), case[1]) for case in quick)


HAS: Final = """\
#ifdef __has_builtin
#define PB_HAS(builtin) __has_builtin(builtin)
#else
#define PB_HAS(builtin) 1 /* gcc before 10, which has them */
#endif
"""


def if_known(condition: str, body: str) -> str:
    """Extend a preprocessor condition to require all builtins of a body; clang versions vary."""
    names = dict.fromkeys(re.findall(r"\b__builtin_(?:ia32|elementwise)_\w+", body))
    return " && ".join([condition, *(f"PB_HAS({n})" for n in names)])


def polynomial(coefficients: Pair, variable: str) -> Pair:
    """Print a polynomial, highest power first, as E(x2) + x O(x2): two chains of half the length.

    The square of x is called x2.
    """
    one, two = (_halves(c.split(", "), variable) for c in coefficients)
    return one, two


def _halves(coefficients: list[str], x: str) -> str:
    odd, even = coefficients[-2::-2][::-1], coefficients[-1::-2][::-1]
    return f"({_horner(odd, x + '2')}) * {x} + ({_horner(even, x + '2')})" if odd else even[0]


def _horner(coefficients: list[str], x: str) -> str:
    first, *rest = coefficients
    for c in rest:
        first = f"({first}) * {x} + {c}" if " " in first else f"{first} * {x} + {c}"
    return first


_AVX512: Final = "defined(__AVX512F__) && !defined(__clang__)"

# Builtins of gcc, many of which clang also has below 64 bytes; x86 only.
INSTRUCTIONS: Final[Mapping[tuple[str, int], Pair]] = {
    ("least", 16): ("defined(__SSE2__)", "return __builtin_ia32_min{p}(bound, x);"),
    ("least", 32): ("defined(__AVX__)", "return __builtin_ia32_min{p}256(bound, x);"),
    ("least", 64): (_AVX512, "return __builtin_ia32_min{p}512_mask(bound, x, x, -1, 4);"),
    ("most", 16): ("defined(__SSE2__)", "return __builtin_ia32_max{p}(bound, x);"),
    ("most", 32): ("defined(__AVX__)", "return __builtin_ia32_max{p}256(bound, x);"),
    ("most", 64): (_AVX512, "return __builtin_ia32_max{p}512_mask(bound, x, x, -1, 4);"),
    ("any", 16): ("defined(__SSE2__)", "return __builtin_ia32_movmsk{p}(($V)mask) != 0;"),
    ("any", 32): ("defined(__AVX__)", "return __builtin_ia32_movmsk{p}256(($V)mask) != 0;"),
    ("any", 64): (_AVX512, "{w} m = ({w})mask;\n    return __builtin_ia32_ptestm{i}512(m, m, -1) != 0;"),
    ("low", 16): ("defined(__FMA__)", "return __builtin_ia32_vfmadd{p}(a, b, -p);"),
    ("low", 32): ("defined(__FMA__)", "return __builtin_ia32_vfmadd{p}256(a, b, -p);"),
    ("low", 64): (_AVX512, "return __builtin_ia32_vfmadd{p}512_mask(a, b, -p, -1, 4);"),
    ("rest", 16): ("defined(__FMA__)", "return __builtin_ia32_vfmadd{p}(-a, b, m);"),
    ("rest", 32): ("defined(__FMA__)", "return __builtin_ia32_vfmadd{p}256(-a, b, m);"),
    ("rest", 64): (_AVX512, "return __builtin_ia32_vfmadd{p}512_mask(-a, b, m, -1, 4);"),
    ("sqrt", 16): ("defined(__SSE2__)", "return __builtin_ia32_sqrt{p}(x);"),
    ("sqrt", 32): ("defined(__AVX__)", "return __builtin_ia32_sqrt{p}256(x);"),
    ("sqrt", 64): (_AVX512, "return __builtin_ia32_sqrt{p}512_mask(x, x, -1, 4);"),
    **{
        (name, size): (extension, call.replace("{how}", str(how)))
        for name, how in (("round", 8), ("floor", 9), ("ceil", 10), ("trunc", 11))
        for size, extension, call in (
            (16, "defined(__SSE4_1__)", "return __builtin_ia32_round{p}(x, {how});"),
            (32, "defined(__AVX__)", "return __builtin_ia32_round{p}256(x, {how});"),
            (64, _AVX512, "return __builtin_ia32_rndscale{p}_mask(x, {how}, x, -1, 4);"),
        )
    },
}

# Builtins of newer clang, for all lengths and processors.
_FUSED: Final = "defined(__clang__) && (defined(__FMA__) || defined(__ARM_FEATURE_FMA))"
_ROUNDS: Final = "defined(__clang__) && (defined(__SSE4_1__) || defined(__aarch64__))"
ELEMENTWISE: Final[Mapping[str, Pair]] = {
    "low": (_FUSED, "return __builtin_elementwise_fma(a, b, -p);"),
    "rest": (_FUSED, "return __builtin_elementwise_fma(-a, b, m);"),
    "sqrt": ("defined(__clang__)", "return __builtin_elementwise_sqrt(x);"),
    "round": (_ROUNDS, "return __builtin_elementwise_roundeven(x);"),
    "floor": (_ROUNDS, "return __builtin_elementwise_floor(x);"),
    "ceil": (_ROUNDS, "return __builtin_elementwise_ceil(x);"),
    "trunc": (_ROUNDS, "return __builtin_elementwise_trunc(x);"),
}

SMALL: Final[Mapping[str, VectorFunction]] = {
    # the smaller (larger) of a bound and x, which is x where x is NaN
    "least": VectorFunction("""\
static inline $V pb_least_$S($V bound, $V x)
{
$quick    return pb_choose_$S(bound < x, bound, x);
$end}
"""),
    "most": VectorFunction("""\
static inline $V pb_most_$S($V bound, $V x)
{
$quick    return pb_choose_$S(bound > x, bound, x);
$end}
"""),
    # 1 / d, or an approximation accurate enough for the correction below
    "inverse": VectorFunction("""\
static inline $V pb_inverse_$S($V d)
{
$quick    return 1.0${f} / d;
$end}
""", wide="    return __builtin_ia32_rcp14ps512_mask(d, d, -1);\n"),
    "any": VectorFunction("""\
static inline int pb_any_$S($I mask) /* whether a lane is set */
{
$quick    int any = 0;
    for (int k = 0; k < $lanes; k++) any |= mask[k] != 0;
    return any;
$end}
"""),
    # the error a b - p of a rounded product p; without fused multiply-add by split mantissas (Dekker 1971)
    "low": VectorFunction("""\
static inline $V pb_low_$S($V a, $V b, $V p) /* a * b - p, exactly */
{
$quick#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__FP_FAST_FMA)
    for (int k = 0; k < $lanes; k++) p[k] = fma${f}(a[k], b[k], -p[k]);
    return p;
#endif
    $V a1 = ($V)(($I)a & $upper), b1 = ($V)(($I)b & $upper), a2 = a - a1, b2 = b - b1;
    return ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2;
$end}
"""),
    "rest": VectorFunction("""\
static inline $V pb_rest_$S($V m, $V a, $V b) /* m - a * b, exactly where b is m / a rounded */
{
$quick    $V p = a * b;
    return m - p - pb_low_$S(a, b, p);
$end}
""", needs=("low",)),
}
