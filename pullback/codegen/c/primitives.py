"""Primitives in C other than libm's namesakes: an expression or a body by kind of operand.

In an expression {0}, {1}, .. are operands, each used once; in a body they are a and b. `{f}` is libm's suffix for f32,
`{t}` the operands' type, `{c}` its name in C, and `{u}` the unsigned C type of its width. The printer puts operands in
parentheses unless they are atoms, and also the whole expression if it is an operand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pullback.codegen.c.libm import FUNCTIONS, MATH_NAMES
from pullback.codegen.c.types import c_type
from pullback.codegen.target import Definitions
from pullback.ir.primitive import Primitive
from pullback.ir.types import DType
from pullback.records import dataclass


@dataclass(frozen=True)
class Body:
    """The body of the C function pb_<primitive>_<type> with parameters a and b."""

    text: str


def _infix(**operators: str) -> dict[str, Mapping[str, str | Body]]:
    return {name: {"*": f"{{0}} {operator} {{1}}"} for name, operator in operators.items()}


ROWS: Final[dict[str, Mapping[str, str | Body]]] = {
    "stop_gradient": {"*": "{0}"},
    **_infix(divide="/", equal="==", not_equal="!=", less="<", less_equal="<=", greater=">", greater_equal=">="),
    **_infix(logical_and="&&", logical_or="||", logical_xor="!=", bitwise_and="&", bitwise_or="|", bitwise_xor="^"),
    "logical_not": {"*": "!{0}"},
    "bitwise_invert": {"bool": "!{0}", "*": "({c})~{0}"},
    "round": {"*": "rint{f}({0})"},
    "logistic": {"*": "1.0{f} / (1.0{f} + exp{f}(-{0}))"},
    "floor_divide": {
        "floating": Body("""\
    const {c} q = floor{f}(a / b), less = q - 1, rest = fma{f}(-q, b, a);
    return (b > 0 ? rest < 0 : rest > 0) && less + 1 == q ? less : q; /* where the quotient was rounded to q */
"""),
        "signed": Body("""\
    if (b == 0) return 0;
    if (b == -1) return ({c})(({u})0 - ({u})a); /* wraps */
    return ({c})(a / b - ((a % b != 0) && ((a < 0) != (b < 0))));
"""),
        "unsigned": Body("""\
    return b == 0 ? 0 : ({c})(a / b);
"""),
    },
    "remainder": {
        "floating": Body("""\
    {c} r = fmod{f}(a, b);
    if (r == 0) return copysign{f}(r, b);
    return (r < 0) != (b < 0) ? r + b : r;
"""),
        "signed": Body("""\
    if (b == 0 || b == -1) return 0;
    {c} r = ({c})(a % b);
    return ({c})(r != 0 && (r < 0) != (b < 0) ? r + b : r);
"""),
        "unsigned": Body("""\
    return b == 0 ? 0 : ({c})(a % b);
"""),
    },
    "power": {
        # gcc uses the vector square root for 0.5, which differs at -infinity and -0
        "floating": Body("""\
    if (b == ({c})0.5) return a == -INFINITY ? -a : sqrt{f}(a + 0);
    return pow{f}(a, b);
"""),
        "signed": Body("""\
    uint64_t r = 1, x = (uint64_t)a;
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    for (; b > 0; b = ({c})(b >> 1), x *= x) if (b & 1) r *= x;
    return ({c})r;
"""),
        "unsigned": Body("""\
    uint64_t r = 1, x = a;
    for (; b > 0; b = ({c})(b >> 1), x *= x) if (b & 1) r *= x;
    return ({c})r;
"""),
    },
    "abs": {
        "floating": "fabs{f}({0})",
        "signed": Body("""\
    return a < 0 ? ({c})(({u})0 - ({u})a) : a;
"""),
        "unsigned": "{0}",
    },
    "sign": {
        "floating": Body("""\
    return a != a ? a : ({c})((a > 0) - (a < 0));
"""),
        "signed": Body("""\
    return ({c})((a > 0) - (a < 0));
"""),
        "unsigned": Body("""\
    return a > 0;
"""),
    },
    # `b != b` vanishes if b is constant; one machine instruction remains
    "maximum": {
        "floating": Body("""\
    return a < b || b != b ? b : a;
"""),
        "*": Body("""\
    return a < b ? b : a;
"""),
    },
    "minimum": {
        "floating": Body("""\
    return b < a || b != b ? b : a;
"""),
        "*": Body("""\
    return b < a ? b : a;
"""),
    },
    # a shift by the width or more, or by a negative count, shifts out all bits
    "bitwise_left_shift": {
        "*": Body("""\
    return (uint64_t)b < 8 * sizeof(a) ? ({c})(({u})a << b) : 0;
"""),
    },
    "bitwise_right_shift": {
        "signed": Body("""\
    if ((uint64_t)b >= 8 * sizeof(a)) return a < 0 ? -1 : 0;
    return a < 0 ? ({c})~(~a >> b) : ({c})(a >> b);
"""),
        "unsigned": Body("""\
    return (uint64_t)b < 8 * sizeof(a) ? ({c})(a >> b) : 0;
"""),
    },
}


def primitive(row: Primitive, dtype: DType) -> tuple[str, Definitions]:
    """The expression for operands of a type, and the function that it calls where libm has none."""
    operands = ", ".join(f"{{{k}}}" for k in range(row.arity))
    by_kind = ROWS.get(row.name) or {"*": _of_libm(row.name, operands)}
    found = by_kind.get(dtype.kind) or by_kind["*"]
    if isinstance(found, str):
        return _filled(found, dtype), ()
    name = f"pb_{row.name}_{dtype.name}"
    parameters = ", ".join(f"{c_type(dtype)} {letter}" for letter in "ab"[: row.arity])
    head = f"static inline {c_type(dtype)} {name}({parameters})"
    return f"{name}({operands})", ((name, f"{head} {{\n{_filled(found.text, dtype)}}}\n"),)


def _of_libm(name: str, operands: str) -> str:
    assert name in MATH_NAMES, f"the primitive {name} has no row here, and libm no such function"
    return f"{name}{'{f}' * (name in FUNCTIONS)}({operands})"


def _filled(template: str, dtype: DType) -> str:
    unsigned = f"uint{dtype.bits}_t" if dtype.is_integer else c_type(dtype)
    for mark, text in (("{f}", "f" if dtype.name == "f32" else ""), ("{t}", dtype.name), ("{c}", c_type(dtype)),
                       ("{u}", unsigned)):
        template = template.replace(mark, text)
    return template
