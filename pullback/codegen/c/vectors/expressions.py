"""Values of several lanes as C for compilers with vector extensions."""

from __future__ import annotations

from pullback.codegen.c.expressions import Expressions
from pullback.codegen.c.literals import POSTFIX, UNARY, Text, literal
from pullback.codegen.c.names import Names
from pullback.codegen.c.types import c_type
from pullback.codegen.c.vectors.words import VectorWords
from pullback.ir.types import dtype_named
from pullback.loops.program.values import (
    Across,
    Apply,
    Binary,
    Broadcast,
    Choice,
    Convert,
    Gather,
    IndexValue,
    Literal,
    Load,
    Shuffle,
    Steps,
    Type,
    Unary,
    Value,
)


class VectorExpressions(Expressions):
    """The printer of scalar values as in plain C, and of vectors."""

    def __init__(self, names: Names, words: VectorWords) -> None:
        super().__init__(names, words)
        self.words: VectorWords = words

    def text(self, v: Value) -> Text:
        """An expression."""
        match v:
            case Across():
                return f"{self._across(v)}({self.value(v.value)})", POSTFIX
            case _ if v.type.lanes == 1:
                return super().text(v)
            case Literal():
                return self._splat(literal(v.value, v.type.dtype)[0], v.type)
            case Broadcast():
                return self._splat(self.value(v.value), v.type)
            case Load():
                return self._vector(v)
            case Steps():
                numbers = ", ".join(literal(k * v.step, v.type.dtype)[0] for k in range(v.type.lanes))
                return f"({self.words.type(v.type)}){{{numbers}}}", POSTFIX
            case Gather():
                parts = [self.value(Load(v.buffer, o, Type(v.type.dtype))) for o in v.offsets]
                return f"({self.words.type(v.type)}){{{', '.join(parts)}}}", POSTFIX
            case Binary():
                return self._of_two(v)
            case Unary():
                return f"{v.op}{self.value(v.a, POSTFIX)}", UNARY
            case Apply():
                return self.words.primitive(v.primitive, v.type).format(*map(self.value, v.args)), POSTFIX
            case Convert():
                value = self.value(v.value)
                return self.words.conversion(v.value.type, v.type).format(value), POSTFIX
            case Choice():
                name = self.words.choose(v.type)
                return f"{name}({self.value(v.test)}, {self.value(v.a)}, {self.value(v.b)})", POSTFIX
            case Shuffle():
                places = ", ".join(map(str, v.places))
                return f"{self.words.shuffle(v.type)}({self.value(v.a)}, {self.value(v.b)}, {places})", POSTFIX
            case _:
                return super().text(v)

    def _splat(self, text: str, t: Type) -> Text:
        if text in ("0", "0.0", "0.0f"):
            return f"({self.words.type(t)}){{0}}", POSTFIX
        return f"{self.words.splat(t)}({text})", POSTFIX

    def _vector(self, v: Load) -> Text:
        """A vector load, masked if there is a mask."""
        if v.buffer.dtype.is_half and not v.type.dtype.is_half:
            return self.text(Convert(Load(v.buffer, v.offset, Type(v.buffer.dtype, v.type.lanes)), v.type))
        if v.mask is not None:
            first = self.pointer(v.buffer, v.offset)
            if v.buffer.dtype is not v.type.dtype:
                first = f"(const {c_type(v.type.dtype)} *)({first})"
            return f"{self.words.load(v.type)}({self.value(v.mask)}, {first})", POSTFIX
        return f"*(const {self.words.type(v.type)}u *)({self.pointer(v.buffer, v.offset)})", UNARY

    def _of_two(self, v: Binary) -> Text:
        if v.op in ("max", "min"):
            return f"{self.words.extreme(v.op, v.type)}({self.value(v.a)}, {self.value(v.b)})", POSTFIX
        if v.op in ("+", "-", "*") and v.type.dtype.kind == "signed" and not _is_index(v):
            return self._wrapping_lanes(v)
        a, b = v.a, v.b
        if isinstance(b, Broadcast):  # a scalar operand of a vector operation needs no splat
            b = b.value
        elif isinstance(a, Broadcast):
            a = a.value
        return self.infix(v.op, a, b)

    def _wrapping_lanes(self, v: Binary) -> Text:
        """Wrap integers by conversions between signed and unsigned lanes, which are free."""
        u = self.words.type(Type(dtype_named(f"u{v.type.dtype.bits}"), v.type.lanes))
        a, b = (f"({u}){self.value(x, UNARY)}" for x in (v.a, v.b))
        return f"({self.words.type(v.type)})({a} {v.op} {b})", UNARY

    def _across(self, v: Across) -> str:
        t = v.value.type
        combine = self.extreme(v.op, Type(t.dtype)) if v.op in ("max", "min") else "{0} " + v.op + " {1}"
        return self.words.across(v.op, t, combine)


def _is_index(v: Value) -> bool:
    """Whether a vector consists of indices, which do not overflow."""
    match v:
        case Steps() | IndexValue() | Literal():
            return True
        case Broadcast():
            return _is_index(v.value)
        case Binary():
            return _is_index(v.a) and _is_index(v.b)
        case _:
            return False
