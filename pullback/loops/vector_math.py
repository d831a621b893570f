"""Vector forms of the transcendental functions, as C text for any element type and number of lanes.

exp     x = n log 2 + r, |r| <= log(2) / 2; e^r = 1 + r + r^2 q(r), scaled by 2^n in two steps so that subnormal
        results and overflow to infinity come out right. q: a minimax fit of degree 4 (f32, 3e-9 relative), the
        Taylor polynomial of degree 11 (f64, 4e-18). n and its halves are integers in the low bits of a sum with 1.5 *
        2^(mantissa bits), so that powers of two are made by shifts to the left alone.
expm1   the same parts put together as 2^n (e^r - 1) + (2^n - 1); only for the range tanh needs.
tanh    with m = expm1(2 |x|): m / (m + 2), and the sign of x.
logistic  e / (1 + e) below zero and 1 / (1 + e) above, e = exp(-|x|).
        Of both the quotient a / d of sums is corrected by what their rounding left over (Dekker 1971): with q = a / d,
        q + (a - q d + a_low - q d_low) / d.
log     x = 2^k m, sqrt(1/2) <= m < sqrt(2), f = m - 1, s = f / (2 + f): k log 2 + 2 atanh(s), by the series of atanh
        (f64, to s^23; f32, to s^9); subnormals are scaled first. log(0) = -inf, log(x < 0) = NaN.

NaN passes through each. The names are pb_<function>_<element>x<lanes>; with one lane the libm function is used.
"""

from __future__ import annotations

from typing import Final

from pullback.ir.types import DType

VECTOR_FUNCTIONS: Final = ("exp", "tanh", "logistic", "log")

# name -> f32, f64
_PARTS: Final[dict[str, tuple[str, str]]] = {
    "int": ("i32", "i64"),
    "suffix": ("f", ""),
    "magic": ("12582912.0f", "6755399441055744.0"),  # 1.5 * 2^(mantissa bits): adding it rounds to an integer
    "log2e": ("1.44269504f", "1.4426950408889634"),
    "ln2_high": ("0.693359375f", "0.693147180369123816490"),
    "ln2_low": ("-2.12194440e-4f", "1.90821492927058770002e-10"),
    "largest": ("89.0f", "710.0"),
    "smallest": ("-104.0f", "-746.0"),
    "bias": ("127", "1023"),
    "mantissa": ("23", "52"),
    "tanh_limit": ("9.1f", "19.1"),
    "exp_q": (
        "0.0013814611f, 0.008368710035f, 0.0416683874f, 0.1666652069f, 0.49999993450f",
        ", ".join(
            f"1.0 / {k}"
            for k in (
                "6227020800.0",
                "479001600.0",
                "39916800.0",
                "3628800.0",
                "362880.0",
                "40320.0",
                "5040.0",
                "720.0",
                "120.0",
                "24.0",
                "6.0",
                "2.0",
            )
        ),
    ),
    "log_series": (
        ", ".join(f"1.0f / {k}.0f" for k in (9, 7, 5, 3)),
        ", ".join(f"1.0 / {k}.0" for k in (23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3)),
    ),
    "tiny": ("1.17549435e-38f", "2.2250738585072014e-308"),
    "lift": ("33554432.0f", "18014398509481984.0"),  # 2^25, 2^54
    "lift_bits": ("25", "54"),
    "sqrt_half_bits": ("0x3f3504f3", "0x3fe6a09e667f3bcdLL"),
    "mantissa_mask": ("0x007fffff", "0x000fffffffffffffLL"),
}

_EXP_PARTS: Final = """\
    {V} t = x * {log2e} + {magic};
    {V} n = t - {magic};
    {V} r = x - n * {ln2_high} - n * {ln2_low};
    {V} r2 = r * r, q = {exp_poly};
    {V} z = r + r2 * q;                                          /* e^r - 1 */
"""
_TWO_POWERS: Final = """\
    {V} t1 = n * 0.5{suffix} + {magic};
    {V} t2 = n - (t1 - {magic}) + {magic};
    {V} s1 = ({V})((({I})t1 << {mantissa}) + {one_bits}), s2 = ({V})((({I})t2 << {mantissa}) + {one_bits});
"""

_TEXT: Final[dict[str, str]] = {
    "exp": """\
static inline {V} pb_exp_{S}({V} x)
{{
    x = pb_least_{S}({V_one} * {largest}, x);
    x = pb_most_{S}({V_one} * {smallest}, x);
{exp_parts}{two_powers}    return (1.0{suffix} + z) * s1 * s2;
}}
""",
    "logistic": """\
static inline {V} pb_logistic_{S}({V} y)
{{
    {V} x = ({V})(({I})y | ({I})(-0.0{suffix} * {V_one}));         /* -|y|: its exponential never overflows */
    x = pb_most_{S}({V_one} * {smallest}, x);
{exp_parts}    {V} e = (1.0{suffix} + z) * ({V})((({I})t << {mantissa}) + {up_bits}) * {down};
    {V} d = 1.0{suffix} + e, d_low = e - (d - 1.0{suffix});
    {V} a = pb_choose_{S}(y < 0.0{suffix}, e, {V_one}), inverse = 1.0{suffix} / d, result = a * inverse;
    return result + (a - result * d - result * d_low) * inverse;
}}
""",
    "tanh": """\
static inline {V} pb_tanh_{S}({V} y)
{{
    {I} sign = ({I})y & ({I})(-0.0{suffix} * {V_one});
    {V} x = ({V})(({I})y ^ sign);
    x = 2.0{suffix} * pb_least_{S}({V_one} * {tanh_limit}, x);
{exp_parts}    {V} scale = ({V})((({I})t << {mantissa}) + {one_bits});
    {V} a = scale * z, b = scale - 1.0{suffix};
    {V} m = b + a, m_low = a - (m - b) + scale * (r2 * q - (z - r)); /* expm1(2 |y|) */
    {V} d = m + 2.0{suffix}, back = d - m, d_low = (m - (d - back)) + (2.0{suffix} - back) + m_low;
    {V} inverse = 1.0{suffix} / d, result = m * inverse;
    result += (m - result * d + (m_low - result * d_low)) * inverse;
    return ({V})(({I})result | sign);
}}
""",
    "log": """\
static inline {V} pb_log_{S}({V} x)
{{
    {I} small = x < {tiny};
    {V} y = pb_choose_{S}(small, x * {lift}, x);
    {I} bits = ({I})y - {sqrt_half_bits};
    {I} k = bits >> {mantissa};                                   /* arithmetic shift: floor */
    {V} f = ({V})((bits & {mantissa_mask}) + {sqrt_half_bits}) - 1.0{suffix};
    {V} e = __builtin_convertvector(k - (small & {lift_bits}), {V});
    {V} s = f / (2.0{suffix} + f);
    {V} z = s * s;
    {V} z2 = z * z, w = {log_poly};
    {V} h = 0.5{suffix} * f * f;
    {V} out = e * {ln2_high} + (f - (h - (s * (h + z * 2.0{suffix} * w) + e * {ln2_low})));
    {V} infinity = {V_one} * (1.0{suffix} / 0.0{suffix});
    out = pb_choose_{S}(x == infinity, infinity, out);
    out = pb_choose_{S}(x == 0.0{suffix}, -infinity, out);
    return pb_choose_{S}((x < 0.0{suffix}) | (x != x), infinity - infinity, out);
}}
""",
}



def _horner(coefficients: str, variable: str) -> str:
    """c0, c1, ..., cn (highest power first) as ((c0 x + c1) x + ...) + cn."""
    first, *rest = coefficients.split(", ")
    out = first
    for c in rest:
        out = f"({out}) * {variable} + {c}"
    return out


def _halves(coefficients: str, variable: str) -> str:
    """The polynomial as E(x2) + x O(x2), two chains half as long; the square of x is called x2."""
    all_ = coefficients.split(", ")
    odd, even = ", ".join(all_[-2::-2][::-1]), ", ".join(all_[-1::-2][::-1])
    return f"({_horner(odd, variable + '2')}) * {variable} + ({_horner(even, variable + '2')})"


def vector_function(name: str, dtype: DType, lanes: int) -> str:
    """The C definition of pb_<name>_<dtype>x<lanes>; the types and pb_choose of that width must be declared."""
    column = 0 if dtype.name == "f32" else 1
    parts = {k: v[column] for k, v in _PARTS.items()}
    s = f"{dtype.name}x{lanes}"
    parts |= {
        "S": s,
        "V": f"pb_{s}",
        "I": f"pb_{parts['int']}x{lanes}",
        "V_one": f"(pb_{s}){{{', '.join(['1'] * lanes)}}}",
        "exp_poly": _halves(parts["exp_q"], "r"),
        "up_bits": "0x5f800000" if column == 0 else "0x5ff0000000000000LL",  # 2^64, 2^512
        "down": "0x1p-64f" if column == 0 else "0x1p-512",
        "one_bits": "0x3f800000" if column == 0 else "0x3ff0000000000000LL",
        "log_poly": _halves(parts["log_series"], "z"),
    }
    parts["exp_parts"] = _EXP_PARTS.format(**parts)
    parts["two_powers"] = _TWO_POWERS.format(**parts)
    return _TEXT[name].format(**parts)


def vector_source(name: str, dtype: DType, lanes: int) -> tuple[tuple[str, str], ...]:
    """The definition of pb_<name>_<dtype>x<lanes> as (name, text).

    It uses the vector type, its mask type and pb_choose of the same width.
    """
    own = (f"pb_{name}_{dtype.name}x{lanes}", vector_function(name, dtype, lanes))
    return (*(_bound(word, dtype, lanes) for word in ("least", "most")), own) if name in BOUNDED else (own,)


BOUNDED: Final = ("exp", "tanh", "logistic")
_BUILTINS: Final = {
    ("f64", 4): ("__AVX__", "pd256"),
    ("f32", 8): ("__AVX__", "ps256"),
    ("f64", 2): ("__SSE2__", "pd"),
    ("f32", 4): ("__SSE2__", "ps"),
}


def _bound(word: str, dtype: DType, lanes: int) -> tuple[str, str]:
    """The smaller (least) or larger (most) of a bound and x, which is x where x is NaN: one instruction on x86."""
    s = f"{dtype.name}x{lanes}"
    general = f"    return pb_choose_{s}(bound {'<' if word == 'least' else '>'} x, bound, x);\n"
    found = _BUILTINS.get((dtype.name, lanes))
    if found:
        call = f"__builtin_ia32_{'min' if word == 'least' else 'max'}{found[1]}(bound, x)"
        general = f"#if defined({found[0]})\n    return {call};\n#else\n{general}#endif\n"
    return f"pb_{word}_{s}", f"static inline pb_{s} pb_{word}_{s}(pb_{s} bound, pb_{s} x)\n{{\n{general}}}\n"
