"""C expressions for values and indices of the loop IR, with minimal parentheses."""

from __future__ import annotations

import re
from typing import Final, assert_never

from pullback.codegen.c.literals import (
    AND,
    ATOM,
    BITS,
    EQUALITY,
    OPERATOR,
    OR,
    POSTFIX,
    PRODUCT,
    RELATION,
    SHIFT,
    SUM,
    TERNARY,
    UNARY,
    Text,
    literal,
)
from pullback.codegen.c.names import Names
from pullback.codegen.c.types import c_type
from pullback.codegen.c.words import PlainWords
from pullback.ir.index import Atom, Cond, Data, DimSymbol, Floor, Index, Mod, Var, as_index, polynomial
from pullback.ir.primitive import PRIMITIVES
from pullback.ir.types import DType
from pullback.loops.program.values import (
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
    Literal,
    Load,
    Read,
    Shuffle,
    Steps,
    Temp,
    Type,
    Unary,
    Value,
    loaded_name,
)

LONG: Final = 64  # operations nested in first operands; longer chains are not printed by recursion
_INFIX: Final = re.compile(r"\{0\} ([-+*/%<>=!&|^]{1,2}) \{1\}")
_CALL: Final = re.compile(r"\w+\((\{\d\}(, \{\d\})*)\)")

Address = tuple[Buffer, Index]
"""A place in a buffer whose index has no constant term."""


class Expressions:
    """The printer of values. `places` gives the C name of a buffer and its offset."""

    def __init__(self, names: Names, words: PlainWords) -> None:
        self.names = names
        self.words = words
        self.places: dict[Buffer, tuple[Buffer, Index]] = {}
        self.addresses: dict[Address, str] = {}  # pointers by what they point to
        self._inner: dict[int, tuple[Value, Text]] = {}  # operands whose text is made in advance

    # Indices ----------------------------------------------------------------------------------------------------

    def index(self, i: Index, at_least: int = 0) -> str:
        """Print an index as an int64_t expression; terms with the same factor are grouped: (i + k) * 28 + j."""
        return wrapped(self._index(i), at_least)

    def _index(self, i: Index) -> Text:
        if not i.terms:
            return "0", ATOM
        groups: dict[int, list[str]] = {}
        for monomial, coefficient in sorted(i.terms, key=_strides_first):
            if not monomial:
                continue
            atoms = sorted(monomial, key=lambda a: isinstance(a, DimSymbol))  # n * M, as rows times their length
            factors = [wrapped(self._atom(a), PRODUCT if k == 0 else UNARY) for k, a in enumerate(atoms)]
            groups.setdefault(coefficient, []).append(" * ".join(factors))
        # a term -c m joins the group of c if there is one
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
            terms.sort(key=lambda t: t[0] < 0)  # a positive term first if there is one
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
                return f"{self.words.index_division(which)}({self.index(n)}, {self.index(d)})", POSTFIX
            case Data():
                return self.names(a, loaded_name(a)), ATOM
            case _:
                assert_never(a)

    def bound(self, b: Bound) -> str:
        """Print a loop bound."""
        if isinstance(b, Index):
            return self.index(b)
        name = self.words.index_extreme(b.op)
        text = self.bound(b.args[-1])
        for a in reversed(b.args[:-1]):
            text = f"{name}({self.bound(a)}, {text})"
        return text

    def condition(self, c: Cond) -> str:
        """Print an index condition as a comparison."""
        left = polynomial({m: k for m, k in c.index.terms if k > 0})
        right = polynomial({m: -k for m, k in c.index.terms if k < 0})
        return f"{self.index(left, SUM)} {c.op} {self.index(right, SUM)}"

    def place(self, buffer: Buffer, offset: Index) -> tuple[str, Index]:
        """The C name of a buffer and the offset to use there."""
        home, base = self.places.get(buffer, (buffer, None))
        where = offset if base is None else base + offset
        pointer = self.addresses.get((home, where - where.offset)) if self.addresses else None
        return (self.names(home, home.name), where) if pointer is None else (pointer, as_index(where.offset))

    def pointer(self, buffer: Buffer, offset: Index) -> str:
        """The address of an element."""
        name, where = self.place(buffer, offset)
        return name if where.constant == 0 else f"{name} + {self.index(where, SUM)}"

    def temp(self, t: Temp) -> str:
        """The name of a temporary."""
        return self.names(t, t.name)

    # Values -----------------------------------------------------------------------------------------------------

    def value(self, v: Value, at_least: int = 0) -> str:
        """Print a value as a C expression, in parentheses if its precedence is below `at_least`."""
        return wrapped(self._value(v), at_least)

    def _value(self, v: Value) -> Text:
        """Print a value without parentheses. Chains of operations are printed from the innermost on."""
        known = self._inner.pop(id(v), None)
        if known is not None:
            return known[1]
        chain = [v]
        while isinstance(last := chain[-1], Binary):
            chain.append(last.a)
        for inner in reversed(chain[1:]) if len(chain) > LONG else ():
            self._inner[id(inner)] = inner, self.text(inner)
        return self.text(v)

    def text(self, v: Value) -> Text:
        """Print an expression."""
        match v:
            case Literal():
                return literal(v.value, v.type.dtype)
            case Load():
                return self._load(v)
            case Read():
                return self.temp(v.temp), ATOM
            case IndexValue():
                if v.type.dtype.name == "i64":
                    return self._index(v.index)
                return f"({c_type(v.type.dtype)}){self.index(v.index, UNARY)}", UNARY
            case Holds():
                texts = [self.condition(c) for c in v.conds]
                return " && ".join(texts), RELATION if len(texts) == 1 else AND
            case Binary():
                return self._binary(v)
            case Unary():
                return self._unary(v)
            case Apply():
                return self._apply(v)
            case Choice():
                return f"{self.value(v.test, OR)} ? {self.value(v.a, OR)} : {self.value(v.b, TERNARY)}", TERNARY
            case Convert():
                return self._convert(v)
            case Gather() | Steps() | Broadcast() | Across() | Shuffle():
                raise AssertionError(f"{type(v).__name__}: plain C has no vectors")
            case _:
                assert_never(v)

    def _load(self, v: Load) -> Text:
        if v.buffer.dtype.is_half and not v.type.dtype.is_half:
            return self._convert(Convert(Load(v.buffer, v.offset, Type(v.buffer.dtype, v.type.lanes)), v.type))
        name, where = self.place(v.buffer, v.offset)
        return f"{name}[{self.index(where)}]", POSTFIX

    def _binary(self, v: Binary) -> Text:
        dtype = v.type.dtype
        if v.op in ("max", "min"):
            if dtype.is_bool:
                return self.infix("||" if v.op == "max" else "&&", v.a, v.b)
            return self.extreme(v.op, v.type).format(self.value(v.a), self.value(v.b)), POSTFIX
        if dtype.is_integer and v.op in ("+", "-", "*"):
            return self._wrapping(v.op, v.a, v.b, dtype)
        return self.infix(v.op, v.a, v.b)

    def infix(self, op: str, a: Value, b: Value) -> Text:
        """Print an operator between its operands."""
        own = OPERATOR[op]
        left = own if own in (PRODUCT, SUM, AND, OR) else own + 1
        right = own + 1 if own != OR else RELATION
        # compilers warn about && within ||, compared comparisons, and comparisons or sums within bit operations
        first = self._value(a)
        if own == OR and (first[1] == AND or (isinstance(a, Binary) and a.op != "||")):
            left = RELATION
        if own == EQUALITY:
            left = right = SHIFT
        if own == BITS:
            left, right = (BITS if isinstance(a, Binary) and a.op == op else UNARY), UNARY
        return f"{wrapped(first, left)} {op} {self.value(b, right)}", own

    def _wrapping(self, op: str, a: Value, b: Value, dtype: DType) -> Text:
        """Print integer arithmetic modulo 2**bits, as unsigned arithmetic if C's would overflow."""
        if dtype.kind == "unsigned" and dtype.bits >= 32:
            return self.infix(op, a, b)
        if dtype.bits >= 32:
            u = f"uint{dtype.bits}_t"
            return f"({c_type(dtype)})(({u}){self.value(a, UNARY)} {op} ({u}){self.value(b, UNARY)})", UNARY
        own = OPERATOR[op]
        first = "(uint32_t)" if dtype.name == "u16" and op == "*" else ""
        return f"({c_type(dtype)})({first}{self.value(a, own + 1)} {op} {self.value(b, own + 1)})", UNARY

    def _unary(self, v: Unary) -> Text:
        dtype = v.type.dtype
        if v.op == "-" and dtype.is_integer:
            u = f"uint{dtype.bits}_t"
            return f"({c_type(dtype)})(0u - ({u}){self.value(v.a, UNARY)})", UNARY
        return f"{v.op}{self.value(v.a, POSTFIX)}", UNARY

    def extreme(self, op: str, t: Type) -> str:
        """The larger or smaller of two numbers."""
        return self.words.primitive(PRIMITIVES["maximum" if op == "max" else "minimum"], t)

    def _apply(self, v: Apply) -> Text:
        template = self.words.primitive(v.primitive, v.args[0].type)
        infix = _INFIX.fullmatch(template)
        if infix and infix[1] in OPERATOR:
            text, own = self.infix(infix[1], v.args[0], v.args[1])
            if v.type.dtype.bits in (8, 16):
                return f"({c_type(v.type.dtype)})({text})", UNARY
            return text, own
        if _CALL.fullmatch(template):
            return template.format(*(self.value(a) for a in v.args)), POSTFIX
        return template.format(*(self.value(a, POSTFIX) for a in v.args)), TERNARY - 1

    def _convert(self, v: Convert) -> Text:
        template = self.words.conversion(v.value.type, v.type)
        if _CALL.fullmatch(template):
            return template.format(self.value(v.value)), POSTFIX
        if v.type.dtype.is_bool:
            return template.format(self.value(v.value, RELATION)), EQUALITY
        return template.format(self.value(v.value, UNARY)), UNARY


def _strides_first(term: tuple[tuple[Atom, ...], int]) -> tuple[int, int]:
    """A sort key for a variable's multiples: terms with more dims first, terms without dims in order."""
    dims = sum(isinstance(a, DimSymbol) for a in term[0])
    return -dims, -len(term[0]) if dims else 0


def positive(n: int) -> str:
    """A positive number of index type."""
    return str(n) if n <= 0x7FFFFFFF else f"INT64_C({n})"


def wrapped(text: Text, at_least: int) -> str:
    """Put an expression in parentheses if its precedence is below `at_least`."""
    return f"({text[0]})" if text[1] < at_least else text[0]


def _plainly_nonnegative(i: Index) -> bool:
    """Whether no term can be negative; C's division then equals floor division."""
    return all(c > 0 and all(_is_natural(a) for a in m) for m, c in i.terms)


def _is_natural(a: Atom) -> bool:
    return isinstance(a, Var | DimSymbol | Mod) or (isinstance(a, Data) and a.extent is not None)
