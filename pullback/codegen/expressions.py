"""Values and indices of the loop IR as C expressions, with no more parentheses than a careful author writes."""

from __future__ import annotations

import math
import re
from typing import Final, assert_never

import numpy as np

from pullback.codegen.helpers import Helpers, limit
from pullback.codegen.names import Names
from pullback.ir.halves import to_half
from pullback.ir.index import Atom, Cond, Data, DimSymbol, Floor, Index, Mod, Var, polynomial
from pullback.ir.primitive import PRIMITIVES
from pullback.ir.types import DType, dtype_named
from pullback.loops.program import nodes
from pullback.loops.program.nodes import (
    Across,
    Apply,
    Binary,
    Bound,
    Broadcast,
    Buffer,
    Choice,
    Convert,
    Gather,
    Holds,
    IndexValue,
    Invoke,
    Literal,
    Load,
    Read,
    Shuffle,
    Steps,
    Type,
    Unary,
    Value,
)

# precedence of C operators, higher binds tighter
LONG = 64  # operations of which each is the first operand of the next; more are not printed by recursion
ATOM, POSTFIX, UNARY, PRODUCT, SUM, SHIFT, RELATION, EQUALITY, BITS, AND, OR, TERNARY = range(16, 4, -1)
_OPERATOR: Final = {"*": PRODUCT, "/": PRODUCT, "%": PRODUCT, "+": SUM, "-": SUM, ">>": SHIFT, "<": RELATION,
                    ">": RELATION, "<=": RELATION, ">=": RELATION, "==": EQUALITY, "!=": EQUALITY, "&": BITS,
                    "|": BITS, "^": BITS, "&&": AND, "||": OR}
_INFIX: Final = re.compile(r"\{0\} ([-+*/%<>=!&|^]{1,2}) \{1\}")
_CALL: Final = re.compile(r"\w+\((\{\d\}(, \{\d\})*)\)")
Text = tuple[str, int]  # an expression and its precedence


def literal(value: bool | int | float, dtype: DType) -> Text:
    """A number, exactly."""
    if dtype.is_bool:
        return ("true" if value else "false"), ATOM
    if dtype.is_floating:
        return _float(float(value), dtype)
    if dtype.is_half:
        return f"0x{int(to_half(np.float32(value), dtype)):04x}", ATOM
    n = int(value)
    if dtype.kind == "unsigned":
        return (f"UINT64_C({n})" if dtype.bits == 64 else f"{n}u" if dtype.bits == 32 else str(n)), ATOM
    if n == dtype.minimum and dtype.bits >= 32:
        return limit(dtype, "MIN"), ATOM
    text = f"INT64_C({n})" if abs(n) > 0x7FFFFFFF else str(n)
    return text, ATOM if n >= 0 else UNARY


def _float(value: float, dtype: DType) -> Text:
    if math.isnan(value) or math.isinf(value):
        text = "NAN" if math.isnan(value) else "INFINITY"
        cast = "" if dtype.name == "f32" else "(double)"
        return f"{'-' if value < 0 else ''}{cast}{text}", UNARY
    text = str(np.float32(value)) if dtype.name == "f32" else repr(value)
    if "e" not in text and "." not in text:
        text += ".0"
    return text + ("f" if dtype.name == "f32" else ""), UNARY if text.startswith("-") else ATOM


class Expressions:
    """Prints values. `places` gives the C name of a buffer and what to add to its offsets."""

    def __init__(self, names: Names, helpers: Helpers) -> None:
        self.names = names
        self.helpers = helpers
        self.places: dict[Buffer, tuple[Buffer, Index]] = {}
        self._inner: dict[int, tuple[Value, Text]] = {}  # operands whose text is there before it is asked for

    # Indices ----------------------------------------------------------------------------------------------------

    def index(self, i: Index, at_least: int = 0) -> str:
        """An index as an int64_t expression; terms with the same factor stand together: (i + k) * 28 + j."""
        return _wrap(self._index(i), at_least)

    def _index(self, i: Index) -> Text:
        if not i.terms:
            return "0", ATOM
        groups: dict[int, list[str]] = {}
        for monomial, coefficient in sorted(i.terms, key=_strides_first):
            if not monomial:
                continue
            atoms = sorted(monomial, key=lambda a: isinstance(a, DimSymbol))  # n * M, as rows times their length
            factors = [_wrap(self._atom(a), PRODUCT if k == 0 else UNARY) for k, a in enumerate(atoms)]
            groups.setdefault(coefficient, []).append(" * ".join(factors))
        # a term -c m joins the group of c where there is one
        for c in [c for c in groups if c < 0 and -c in groups and -c != 1]:
            groups[-c] += [f"-{t}" for t in groups.pop(c)]
        terms: list[tuple[int, str]] = []
        for c in sorted(groups, key=lambda c: (-abs(c), c < 0)):
            parts = groups[c]
            if abs(c) == 1:
                terms += [(1 if c > 0 else -1, p) for p in parts]
                continue
            inside = parts[0] + "".join(f" - {p[1:]}" if p[0] == "-" else f" + {p}" for p in parts[1:])
            if len(parts) > 1:
                inside = f"({inside})"
            terms.append((1 if c > 0 else -1, f"{inside} * {positive(abs(c))}"))
        if i.offset:
            terms.append((1 if i.offset > 0 else -1, positive(abs(i.offset))))
        if terms[0][0] < 0:
            terms.sort(key=lambda t: t[0] < 0)  # a positive term first where there is one
        sign, text = terms[0]
        if len(terms) == 1 and sign > 0:
            return text, (PRODUCT if " " in text and not text.startswith("pb_") else ATOM)
        text = f"-{text}" if sign < 0 else text
        for sign, term in terms[1:]:
            text += f" {'-' if sign < 0 else '+'} {term}"
        return text, SUM if len(terms) > 1 else UNARY

    def _atom(self, a: Atom) -> Text:
        match a:
            case Var():
                return self.names(a, a.name), ATOM
            case DimSymbol():
                return self.names(a, a.name), ATOM
            case Floor() | Mod():
                which = "floor" if isinstance(a, Floor) else "mod"
                n, d = a.numerator, a.denominator
                if _plainly_nonnegative(n):
                    op = "/" if which == "floor" else "%"
                    return f"{self.index(n, PRODUCT)} {op} {self.index(d, UNARY)}", PRODUCT
                return f"{self.helpers.index_division(which)}({self.index(n)}, {self.index(d)})", POSTFIX
            case Data():
                return self.names(a, nodes.loaded_name(a)), ATOM
            case _:
                assert_never(a)

    def bound(self, b: Bound) -> str:
        """A loop bound."""
        if isinstance(b, Index):
            return self.index(b)
        name = self.helpers.index_extreme(b.op)
        text = self.bound(b.args[-1])
        for a in reversed(b.args[:-1]):
            text = f"{name}({self.bound(a)}, {text})"
        return text

    def condition(self, c: Cond) -> str:
        """An index condition as a comparison."""
        left = polynomial({m: k for m, k in c.index.terms if k > 0})
        right = polynomial({m: -k for m, k in c.index.terms if k < 0})
        return f"{self.index(left, SUM)} {c.op} {self.index(right, SUM)}"

    def place(self, buffer: Buffer, offset: Index) -> tuple[str, Index]:
        """The C name of a buffer and the offset to use there."""
        home, base = self.places.get(buffer, (buffer, None))
        return self.names(home, home.name), offset if base is None else base + offset

    def pointer(self, buffer: Buffer, offset: Index) -> str:
        """The address of an element."""
        name, where = self.place(buffer, offset)
        return name if where.constant == 0 else f"{name} + {self.index(where, SUM)}"

    # Values -----------------------------------------------------------------------------------------------------

    def value(self, v: Value, at_least: int = 0) -> str:
        """A value as a C expression, in parentheses where it binds less tightly than `at_least`."""
        return _wrap(self._value(v), at_least)

    def _value(self, v: Value) -> Text:
        """The same as it is. Of a chain of operations, as sums of many terms are, the innermost comes first."""
        known = self._inner.pop(id(v), None)
        if known is not None:
            return known[1]
        chain = [v]
        while isinstance(last := chain[-1], Binary):
            chain.append(last.a)
        for inner in reversed(chain[1:]) if len(chain) > LONG else ():
            self._inner[id(inner)] = inner, self._text(inner)
        return self._text(v)

    def _text(self, v: Value) -> Text:
        match v:
            case Literal():
                number = literal(v.value, v.type.dtype)
                return self._splat(number[0], v.type) if v.type.lanes > 1 else number
            case Load():
                return self._load(v)
            case Steps():
                numbers = ", ".join(literal(k * v.step, v.type.dtype)[0] for k in range(v.type.lanes))
                return f"({self.helpers.type(v.type)}){{{numbers}}}", POSTFIX
            case Gather():
                parts = [self.value(Load(v.buffer, o, Type(v.type.dtype))) for o in v.offsets]
                return f"({self.helpers.type(v.type)}){{{', '.join(parts)}}}", POSTFIX
            case Read():
                return self.names(v.temp, v.temp.name), ATOM
            case IndexValue():
                if v.type.dtype.name == "i64":
                    return self._index(v.index)
                return f"({v.type.dtype.c}){self.index(v.index, UNARY)}", UNARY
            case Holds():
                texts = [self.condition(c) for c in v.conds]
                return " && ".join(texts), RELATION if len(texts) == 1 else AND
            case Broadcast():
                return self._splat(self.value(v.value), v.type)
            case Binary():
                return self._binary(v)
            case Unary():
                return self._unary(v)
            case Apply():
                return self._apply(v)
            case Invoke():
                if v.type.lanes > 1:
                    self.helpers.choose(v.type)  # brings the vector type, its mask and the choice by mask
                for function, definition in v.source:
                    self.helpers.own(function, definition, v.type.lanes > 1)
                return f"{v.function}({', '.join(self.value(a) for a in v.args)})", POSTFIX
            case Choice():
                if v.type.lanes > 1:
                    name = self.helpers.choose(v.type)
                    return f"{name}({self.value(v.test)}, {self.value(v.a)}, {self.value(v.b)})", POSTFIX
                return f"{self.value(v.test, OR)} ? {self.value(v.a, OR)} : {self.value(v.b, TERNARY)}", TERNARY
            case Convert():
                return self._convert(v)
            case Across():
                t = v.value.type
                if v.op in ("max", "min"):
                    combine = self._primitive_template("maximum" if v.op == "max" else "minimum", t.dtype)
                else:
                    combine = "{0} " + v.op + " {1}"
                return f"{self.helpers.across(v.op, t, combine)}({self.value(v.value)})", POSTFIX
            case Shuffle():
                places = ", ".join(map(str, v.places))
                return f"{self.helpers.shuffle(v.type)}({self.value(v.a)}, {self.value(v.b)}, {places})", POSTFIX
            case _:
                assert_never(v)

    def _splat(self, text: str, t: Type) -> Text:
        if text in ("0", "0.0", "0.0f"):
            return f"({self.helpers.type(t)}){{0}}", POSTFIX
        return f"{self.helpers.splat(t)}({text})", POSTFIX

    def _load(self, v: Load) -> Text:
        if v.buffer.dtype.is_half and not v.type.dtype.is_half:
            return self._convert(Convert(Load(v.buffer, v.offset, Type(v.buffer.dtype, v.type.lanes)), v.type))
        if v.type.lanes == 1:
            name, where = self.place(v.buffer, v.offset)
            return f"{name}[{self.index(where)}]", POSTFIX
        if v.mask is not None:
            first = self.pointer(v.buffer, v.offset)
            if v.buffer.dtype is not v.type.dtype:
                first = f"(const {v.type.dtype.c} *)({first})"
            return f"{self.helpers.load(v.type)}({self.value(v.mask)}, {first})", POSTFIX
        return f"*(const {self.helpers.type(v.type)}u *)({self.pointer(v.buffer, v.offset)})", UNARY

    def _binary(self, v: Binary) -> Text:
        dtype, lanes = v.type.dtype, v.type.lanes
        if v.op in ("max", "min"):
            if lanes > 1:
                return f"{self.helpers.extreme(v.op, v.type)}({self.value(v.a)}, {self.value(v.b)})", POSTFIX
            if dtype.is_bool:
                return self._infix("||" if v.op == "max" else "&&", v.a, v.b)
            template = self._primitive_template("maximum" if v.op == "max" else "minimum", dtype)
            return template.format(self.value(v.a), self.value(v.b)), POSTFIX
        if lanes == 1 and dtype.is_integer and v.op in ("+", "-", "*"):
            return self._wrapping(v.op, v.a, v.b, dtype)
        if lanes > 1 and v.op in ("+", "-", "*") and dtype.kind == "signed" and not _is_index(v):
            return self._wrapping_vector(v)
        a, b = v.a, v.b
        if lanes > 1:  # a scalar operand of a vector operation needs no splat
            if isinstance(b, Broadcast):
                b = b.value
            elif isinstance(a, Broadcast):
                a = a.value
        return self._infix(v.op, a, b)

    def _infix(self, op: str, a: Value, b: Value) -> Text:
        own = _OPERATOR[op]
        left = own if own in (PRODUCT, SUM, AND, OR) else own + 1
        if own == OR:
            left = RELATION if isinstance(a, Binary) and a.op != "||" else OR
        right = own + 1 if own != OR else RELATION
        if own == BITS:  # compilers warn of comparisons and sums there
            left, right = (BITS if isinstance(a, Binary) and a.op == op else UNARY), UNARY
        return f"{self.value(a, left)} {op} {self.value(b, right)}", own

    def _wrapping(self, op: str, a: Value, b: Value, dtype: DType) -> Text:
        """Integer arithmetic modulo 2**bits, in unsigned arithmetic where C's would overflow."""
        if dtype.kind == "unsigned" and dtype.bits >= 32:
            return self._infix(op, a, b)
        if dtype.bits >= 32:
            u = f"uint{dtype.bits}_t"
            return f"({dtype.c})(({u}){self.value(a, UNARY)} {op} ({u}){self.value(b, UNARY)})", UNARY
        own = _OPERATOR[op]
        first = "(uint32_t)" if dtype.name == "u16" and op == "*" else ""
        return f"({dtype.c})({first}{self.value(a, own + 1)} {op} {self.value(b, own + 1)})", UNARY

    def _wrapping_vector(self, v: Binary) -> Text:
        """The same for vectors: conversions between signed and unsigned lanes cost nothing."""
        u = self.helpers.type(Type(dtype_named(f"u{v.type.dtype.bits}"), v.type.lanes))
        a, b = (f"({u}){self.value(x, UNARY)}" for x in (v.a, v.b))
        return f"({self.helpers.type(v.type)})({a} {v.op} {b})", UNARY

    def _unary(self, v: Unary) -> Text:
        dtype = v.type.dtype
        if v.op == "-" and dtype.is_integer and v.type.lanes == 1:
            u = f"uint{dtype.bits}_t"
            return f"({dtype.c})(0u - ({u}){self.value(v.a, UNARY)})", UNARY
        return f"{v.op}{self.value(v.a, POSTFIX)}", UNARY

    def _primitive_template(self, name: str, dtype: DType) -> str:
        row = PRIMITIVES[name]
        self._row_helper(row, dtype)
        return row.c_template(dtype)

    def _row_helper(self, row: nodes.Primitive, dtype: DType) -> None:
        source = row.c_helper(dtype)
        if source is not None:
            self.helpers.own(f"pb_{row.name}_{dtype.name}", source)

    def _apply(self, v: Apply) -> Text:
        operand = v.args[0].type.dtype
        self._row_helper(v.primitive, operand)
        template = v.primitive.c_template(operand)
        infix = _INFIX.fullmatch(template)
        if infix and infix[1] in _OPERATOR:
            text, own = self._infix(infix[1], v.args[0], v.args[1])
            if v.type.lanes == 1 and v.type.dtype.bits in (8, 16):
                return f"({v.type.dtype.c})({text})", UNARY
            return text, own
        if _CALL.fullmatch(template):
            return template.format(*(self.value(a) for a in v.args)), POSTFIX
        return template.format(*(self.value(a, POSTFIX) for a in v.args)), TERNARY - 1

    def _convert(self, v: Convert) -> Text:
        source, target = v.value.type.dtype, v.type.dtype
        if source.is_half or target.is_half:
            return f"{self.helpers.half(v.value.type, v.type)}({self.value(v.value)})", POSTFIX
        if v.type.lanes > 1:
            return f"__builtin_convertvector({self.value(v.value)}, {self.helpers.type(v.type)})", POSTFIX
        if target.is_bool:
            return f"{self.value(v.value, RELATION)} != 0", EQUALITY
        if source.is_floating and target.is_integer:
            return f"{self.helpers.saturate(target)}({self.value(v.value)})", POSTFIX
        return f"({target.c}){self.value(v.value, UNARY)}", UNARY


def _strides_first(term: tuple[tuple[Atom, ...], int]) -> tuple[int, int]:
    """Terms with more dims first, of these multiples of a variable; terms without dims in the order they have."""
    dims = sum(isinstance(a, DimSymbol) for a in term[0])
    return -dims, -len(term[0]) if dims else 0


def _is_index(v: Value) -> bool:
    """Whether a vector is made of indices alone, which do not overflow."""
    match v:
        case Steps() | IndexValue() | Literal():
            return True
        case Broadcast():
            return _is_index(v.value)
        case Binary():
            return _is_index(v.a) and _is_index(v.b)
        case _:
            return False


def positive(n: int) -> str:
    """A positive number of index type."""
    return str(n) if n <= 0x7FFFFFFF else f"INT64_C({n})"


def _wrap(text: Text, at_least: int) -> str:
    return f"({text[0]})" if text[1] < at_least else text[0]


def _plainly_nonnegative(i: Index) -> bool:
    """Whether no term can be negative, so that C's division rounds as floor does."""
    return all(c > 0 and all(_is_natural(a) for a in m) for m, c in i.terms)


def _is_natural(a: Atom) -> bool:
    return isinstance(a, Var | DimSymbol | Mod) or (isinstance(a, Data) and a.extent is not None)
