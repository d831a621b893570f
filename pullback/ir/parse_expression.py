"""Read scalars, indices and conditions of the text form; `parser` adds statements and programs.

An expression is first a tree of `Term`s, each with its own dtype if it has one. It becomes a scalar when the dtype of
its context is known: bare numbers take the dtype of their neighbors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from pullback.errors import counted
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.expr import POSITIONS, REDUCE_OPS, ReduceOp
from pullback.ir.index import Cond, Data, Index, Var, as_index, cond, symbol
from pullback.ir.lexer import Source, Token
from pullback.ir.names import RESERVED
from pullback.ir.primitive import PRIMITIVES
from pullback.ir.printer import CLAIMS, INFIX, OR, SHIFT
from pullback.ir.types import DType, dtype_named
from pullback.records import dataclass

_CLAIMS: Final[dict[str, Any]] = {word: claim for claim, word in CLAIMS.items()}
_DTYPES: Final = frozenset(d.name for d in (*types.DTYPES, *types.HALVES))
_OPERATORS: Final = {row: {sign for sign, p in INFIX.items() if p == row} for row in range(OR, SHIFT + 1)}
_ROWS: Final = {"&&": "logical_and", "||": "logical_or", "==": "equal", "!=": "not_equal", "<": "less",
                "<=": "less_equal", ">": "greater", ">=": "greater_equal", "|": "bitwise_or", "^": "bitwise_xor",
                "&": "bitwise_and", "<<": "bitwise_left_shift", ">>": "bitwise_right_shift", "/": "divide",
                "//": "floor_divide", "%": "remainder", "**": "power"}


@dataclass(frozen=True, slots=True)
class Term:
    """A parsed expression: `build(dtype)` makes its scalar; `dtype` is None if no dtype is written."""

    token: Token
    dtype: DType | None
    build: Callable[[DType], ir.Scalar]
    number: int | float | None = None


class ExpressionParser:
    """A position in the tokens, and the names in scope."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.at = 0
        self.dims: dict[str, None] = {}
        self.scope: dict[str, ir.Ref | Var | ir.Scalar] = {}
        self.open_dims = False

    # Tokens -------------------------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        """The next token."""
        return self.source.tokens[self.at]

    def sees(self, *texts: str) -> bool:
        """Whether the next token is one of these."""
        return self.token.kind != "end" and self.token.text in texts

    def take(self, *texts: str) -> bool:
        """Step over the next token if it is one of these."""
        found = self.sees(*texts)
        self.at += found
        return found

    def follows(self, *texts: str, kind: str = "") -> bool:
        """Whether the token after the next is one of these or of this kind."""
        after = self.source.tokens[min(self.at + 1, len(self.source.tokens) - 1)]
        return after.kind == kind or (after.kind != "end" and after.text in texts)

    def expect(self, *texts: str) -> None:
        """Step over these tokens."""
        for text in texts:
            if not self.take(text):
                found = repr(self.token.text) if self.token.kind != "end" else "the end of the text"
                raise self.source.error(self.token, f"expected {text!r}, found {found}")

    def name(self, what: str) -> Token:
        """Step over a name that is not reserved."""
        token = self.token
        if token.kind != "name" or token.text in RESERVED:
            found = repr(token.text) if token.kind != "end" else "the end of the text"
            raise self.source.error(token, f"expected {what}, found {found}")
        self.at += 1
        return token

    def word(self, what: str) -> Token:
        """Step over any name, reserved or not."""
        token = self.token
        if token.kind != "name":
            raise self.source.error(token, f"expected {what}, found {token.text!r}")
        self.at += 1
        return token

    def separated(self, read: Callable[[], object], end: str) -> None:
        """Read comma-separated items up to `end`, and step over `end`."""
        if self.take(end):
            return
        read()
        while self.take(","):
            read()
        self.expect(end)

    def dtype(self) -> DType:
        """The name of a dtype."""
        token = self.token
        if token.text not in _DTYPES:
            raise self.source.error(token, f"expected a dtype, found {token.text!r}", remedy="one of " + ", ".join(
                d.name for d in types.DTYPES))
        self.at += 1
        return dtype_named(token.text)

    # Binders ------------------------------------------------------------------------------------------------

    def binder(self) -> tuple[Var, ...]:
        """Parse `n < N, k < K` and bring the variables into scope; empty if no name follows."""
        pairs: list[tuple[Token, Index]] = []
        while self.token.kind == "name":
            name = self.name("an index")
            self.expect("<")
            pairs.append((name, self.index()))
            if not self.take(","):
                break
        out = []
        for name, extent in pairs:
            if name.text in self.scope or name.text in self.dims:
                raise self.source.error(name, f"{name.text} is already defined", "E303")
            v = Var(name.text, extent)
            self.scope[name.text] = v
            out.append(v)
        return tuple(out)

    def lets(self) -> list[str]:
        """Parse any number of `let t = …;`; return the names."""
        names = []
        while self.take("let"):
            name = self.name("a name")
            self.expect("=")
            value = self.typed(self.expression())
            self.expect(";")
            if name.text in self.scope or name.text in self.dims:
                raise self.source.error(name, f"{name.text} is already defined", "E303")
            self.scope[name.text] = value
            names.append(name.text)
        return names

    def leave(self, variables: Sequence[Var], names: Sequence[str] = ()) -> None:
        """End the scope of a binder and its inner names."""
        for name in (*(v.name for v in variables), *names):
            self.scope.pop(name, None)

    # Indices and conditions ---------------------------------------------------------------------------------

    def index(self) -> Index:
        """A sum of products."""
        out = -self.index_product() if self.take("-") else self.index_product()
        while self.sees("+", "-"):
            minus = self.token.text == "-"
            self.at += 1
            term = self.index_product()
            out = out - term if minus else out + term
        return out

    def index_product(self) -> Index:
        """Factors, quotients and remainders, left to right."""
        out = self.index_atom()
        while self.sees("*", "//", "%"):
            sign = self.token.text
            self.at += 1
            other = self.index_atom()
            out = out * other if sign == "*" else out // other if sign == "//" else out % other
        return out

    def index_atom(self) -> Index:
        """A number, a variable, a dim, a data-dependent index, or an index in parentheses."""
        token = self.token
        if token.kind == "number" and token.text.isdigit():
            self.at += 1
            return as_index(int(token.text))
        if self.take("("):
            out = self.index()
            self.expect(")")
            return out
        if self.sees(*_CLAIMS) and self.follows("("):
            self.expect(token.text, "(")
            scalar = self.typed(self.expression())
            extent = self.index() if self.take(",") else None
            self.expect(")")
            if not scalar.dtype.is_integer:
                raise self.source.error(token, f"an index is an integer, this is {scalar.dtype}", "E304")
            return as_index(Data(scalar, extent, _CLAIMS[token.text]))
        name = self.name("an index")
        found = self.scope.get(name.text)
        if isinstance(found, Var):
            return as_index(found)
        if self.open_dims:
            self.dims[name.text] = None
        elif name.text not in self.dims:
            remedy = f"`data({name.text}[…])`" if isinstance(found, ir.Ref) else None
            raise self.source.error(name, f"no index or dim is called {name.text}", "E303", remedy)
        return symbol(name.text)

    def conditions(self) -> list[Cond]:
        """Parse one condition; the list is empty if ranges prove the condition."""
        token = self.token
        found = self.condition()
        if found is False:
            raise self.source.error(token, "this condition never holds")
        return [] if isinstance(found, bool) else [found]

    def condition(self) -> Cond | bool:
        """Parse a comparison of indices; the result is a bool if ranges decide it."""
        left, sign = self.index(), self.token
        if not self.take(">=", "==", "!=", "<=", "<", ">"):
            raise self.source.error(sign, f"expected a comparison of indices, found {sign.text!r}")
        right = self.index()
        match sign.text:
            case ">=":
                return cond(">=", left - right)
            case ">":
                return cond(">=", left - right - 1)
            case "<=":
                return cond(">=", right - left)
            case "<":
                return cond(">=", right - left - 1)
            case "==":
                return cond("==", left - right)
            case _:
                return cond("!=", left - right)

    # Scalars ------------------------------------------------------------------------------------------------

    def typed(self, term: Term) -> ir.Scalar:
        """The scalar of a term whose dtype is written or known from its parts."""
        if term.dtype is None:
            raise self.source.error(term.token, "the dtype of this is not known", "E304", f"`f64({term.token.text})`")
        return term.build(term.dtype)

    def built(self, term: Term, dtype: DType) -> ir.Scalar:
        """The scalar of a term in a context of this dtype."""
        if term.dtype is not None and term.dtype is not dtype:
            raise self.source.error(term.token, f"expected {dtype}, this is {term.dtype}", "E304")
        return term.build(dtype)

    def expression(self) -> Term:
        """A scalar, with `test ? then : otherwise` at the outermost level."""
        test = self.infix(OR)
        if not self.take("?"):
            return test
        then = self.expression()
        self.expect(":")
        otherwise = self.expression()
        condition = self.built(test, types.bool_)
        return Term(test.token, then.dtype or otherwise.dtype, lambda d: expr.select(
            condition, self.built(then, d), self.built(otherwise, d)))

    def infix(self, level: int) -> Term:
        """Operators from `||` to shifts, left to right."""
        if level > SHIFT:
            return self.sum()
        left = self.infix(level + 1)
        while self.sees(*_OPERATORS[level]):
            sign = self.token
            self.at += 1
            left = self.applied(sign, _ROWS[sign.text], [left, self.infix(level + 1)])
        return left

    def sum(self) -> Term:
        """Terms with + and - between them, built as one sum."""
        first = self.guarded()
        terms, minus = [first], [False]
        while self.sees("+", "-"):
            minus.append(self.token.text == "-")
            self.at += 1
            terms.append(self.guarded())
        if len(terms) == 1:
            return first

        def build(dtype: DType) -> ir.Scalar:
            parts = [self.built(t, dtype) for t in terms]
            return expr.add(*(expr.negative(p) if m else p for p, m in zip(parts, minus, strict=True)))

        return Term(first.token, self.common(terms), build)

    def common(self, terms: Sequence[Term]) -> DType | None:
        """The dtype of the first term that has one."""
        return next((t.dtype for t in terms if t.dtype is not None), None)

    def guarded(self) -> Term:
        """Parse `[conditions] product`."""
        token = self.token
        if not self.take("["):
            return self.product()
        conds: list[Cond | bool] = []
        self.separated(lambda: conds.append(self.condition()), "]")
        inner = self.guarded()
        return Term(token, inner.dtype, lambda d: expr.bracket(conds, self.built(inner, d)))

    def product(self) -> Term:
        """Factors, quotients and remainders, left to right."""
        out = self.unary()
        while self.sees("*", "/", "//", "%"):
            sign = self.token
            self.at += 1
            if sign.text != "*":
                out = self.applied(sign, _ROWS[sign.text], [out, self.unary()])
                continue
            factors = [out, self.unary()]
            while self.take("*"):
                factors.append(self.unary())
            out = self.product_of(factors)
        return out

    def product_of(self, factors: Sequence[Term]) -> Term:
        """One product of several factors."""
        return Term(factors[0].token, self.common(factors),
                    lambda d: expr.mul(*(self.built(f, d) for f in factors)))

    def unary(self) -> Term:
        """Parse an optional sign; before a number it becomes part of the number."""
        token = self.token
        if not self.take("-"):
            return self.power()
        inner = self.unary()
        if inner.number is not None and inner.dtype is None:
            value = -inner.number
            return self.literal(token, float("-0.0") if value == 0 else value)
        return Term(token, inner.dtype, lambda d: expr.negative(self.built(inner, d)))

    def power(self) -> Term:
        """Parse `base ** exponent`, which binds tighter than a sign before it."""
        base = self.primary()
        sign = self.token
        return self.applied(sign, "power", [base, self.unary()]) if self.take("**") else base

    def applied(self, token: Token, name: str, args: Sequence[Term]) -> Term:
        """Apply a primitive to terms; its operands have one dtype that the primitive accepts."""
        row = PRIMITIVES[name]
        if len(args) != row.arity:
            raise self.source.error(token, f"{name} takes {counted(row.arity, 'operand')}, not {len(args)}", "E304")
        inner = types.bool_ if row.kinds == ("bool",) else self.common(args)

        def build(dtype: DType) -> ir.Scalar:
            operand = inner if inner is not None else dtype
            if operand.kind not in row.kinds:
                raise self.source.error(token, f"{name} does not take {operand}", "E304")
            return expr.apply(row, *(self.built(a, operand) for a in args))

        if row.result == "bool" and inner is None:
            raise self.source.error(token, f"the dtype of the operands of {name} is not known", "E304", "`f64(1.0)`")
        return Term(token, types.bool_ if row.result == "bool" else inner, build)

    def primary(self) -> Term:
        """A number, an element, a call, a reduction, or an expression in parentheses."""
        token = self.token
        if token.kind == "number":
            self.at += 1
            value = int(token.text) if token.text.isdigit() else float(token.text)
            return self.literal(token, value)
        if self.take("("):
            inner = self.expression()
            self.expect(")")
            return Term(inner.token, inner.dtype, inner.build)
        if self.sees("{") and self.follows("}"):
            self.expect("{", "}")
            return Term(token, None, expr.zero)
        if token.kind != "name":
            found = repr(token.text) if token.kind != "end" else "the end of the text"
            raise self.source.error(token, f"expected an expression, found {found}")
        if self.take("true", "false"):
            return self.known(token, expr.const(token.text == "true", types.bool_))
        if self.take("inf", "nan"):
            return self.literal(token, float(token.text))
        if token.text in _DTYPES:
            return self.cast()
        if token.text in REDUCE_OPS and self.follows("{", kind="name"):
            return self.reduction()
        if token.text.startswith("as_") and token.text[3:] in _DTYPES:
            self.at += 1
            self.expect("(")
            index = self.index()
            self.expect(")")
            return self.known(token, expr.from_index(index, dtype_named(token.text[3:])))
        return self.named()

    def literal(self, token: Token, value: int | float) -> Term:
        """A bare number."""

        def build(dtype: DType) -> ir.Scalar:
            if dtype.is_bool or (dtype.is_integer and not float(value).is_integer()):
                raise self.source.error(token, f"{token.text} is not a number of dtype {dtype}", "E304")
            return expr.const(value, dtype)

        return Term(token, None, build, value)

    def known(self, token: Token, scalar: ir.Scalar) -> Term:
        """A term for a scalar that is already built."""
        return Term(token, scalar.dtype, lambda d: scalar)

    def cast(self) -> Term:
        """Parse `f32(…)`: a number or zero of the dtype, or a conversion."""
        token, dtype = self.token, self.dtype()
        self.expect("(")
        inner = self.expression()
        self.expect(")")
        if inner.dtype is None:
            return self.known(token, self.built(inner, dtype))
        return self.known(token, expr.cast(self.typed(inner), dtype))

    def reduction(self) -> Term:
        """Parse a reduction such as `sum m < M { … }`."""
        token = self.token
        self.at += 1
        variables = self.binder()
        self.expect("{")
        names = self.lets()
        inner = self.expression()
        self.expect("}")
        self.leave(variables, names)
        op = cast(ReduceOp, token.text)
        if op in POSITIONS:
            return self.known(token, expr.reduce(op, variables, self.typed(inner)))
        return Term(token, inner.dtype, lambda d: expr.reduce(op, variables, self.built(inner, d)))

    def named(self) -> Term:
        """Parse an array element, a name bound by `let`, or a primitive."""
        name = self.name("an expression")
        found = self.scope.get(name.text)
        if name.text in PRIMITIVES and self.take("("):
            args: list[Term] = []
            self.separated(lambda: args.append(self.expression()), ")")
            return self.applied(name, name.text, args)
        if isinstance(found, ir.Scalar):
            return self.known(name, found)
        if isinstance(found, ir.Ref):
            indices: list[Index] = []
            if self.take("["):
                self.separated(lambda: indices.append(self.index()), "]")
            if len(indices) != found.rank:
                raise self.source.error(name, f"{name.text} has rank {found.rank}, got {len(indices)} indices", "E304")
            return self.known(name, expr.get(found, *indices))
        if isinstance(found, Var) or name.text in self.dims:
            raise self.source.error(name, f"{name.text} is an index, not a number", "E304", f"`as_f64({name.text})`")
        raise self.source.error(name, f"nothing is called {name.text}", "E303")
