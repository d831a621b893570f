"""The text form of programs, scalars and indices; `parser` reads it back.

    dense(x: f32[N, M], w: f32[K, M], b: f32[K]) {
      s = build n < N, k < K { sum m < M { x[n, m] * w[k, m] } }
      y = build n < N, k < K { tanh(s[n, k] + b[k]) }
      return y }

    [i >= 1, K == 3] x[i - 1]          bracket            c ? a : b           select
    f64(x[i])                          cast               as_f32(i + 1)       an index as a number
    x[check(j[i], N)]                  data-dependent index, checked; data(j[i], N) holds by construction
    let t = exp(x[i]); t / (1.0 + t)   a scalar used more than once
    {}                                 structural zero
    a: f32[N] = scatter i < M { [data(j[i], N)] += x[i] }
    h, ys = fold t < T (s = h0) { r = build { s + x[t] } yield r, r }
    s = while (a = a0) at most 10 { c = build { a < 9 } yield c } do { b = build { a * 2 } yield b }
    y = if c { yield a } else { yield b }
    y: f64[N] = external spring(x; N) from "void spring(…) { … }"
    y = call (x = a) { t = build { x * x } yield t } forward (v, x_dot) { … yield d } backward (v, y_bar) { … yield g }

The names are the user's, made unique by a suffix. Nothing here depends on hashes or on the age of nodes. Terms and
conditions are ordered by scope and text, so parsing and printing again gives the same text.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, assert_never, cast

import numpy as np

from pullback.ir import nodes as ir
from pullback.ir.expr import POSITIONS, const, mul, read_by
from pullback.ir.index import Atom, Cond, Data, DimSymbol, Floor, Index, Mod, Monomial, Var, polynomial
from pullback.ir.names import Names
from pullback.ir.traverse import children, indices_of

# Precedences, low to high, of operands.
TERNARY, OR, AND, COMPARE, BIT_OR, BIT_XOR, BIT_AND, SHIFT, SUM, GUARD, PRODUCT, UNARY, POWER, PRIMARY = range(14)
INFIX: Final = {
    "||": OR, "&&": AND, "==": COMPARE, "!=": COMPARE, "<": COMPARE, "<=": COMPARE, ">": COMPARE, ">=": COMPARE,
    "|": BIT_OR, "^": BIT_XOR, "&": BIT_AND, "<<": SHIFT, ">>": SHIFT, "/": PRODUCT, "//": PRODUCT, "%": PRODUCT,
    "**": POWER,
}

CLAIMS: Final[dict[bool | str, str]] = {False: "data", True: "check", "ends": "ends"}  # keyword by the kind of bound
SORTS: Final = {"values": "sort", "positions": "order"}  # the keyword by the result of a sort
_SHARED: Final = 8  # a scalar of at least this many nodes that is used twice gets a name
_WIDTH: Final = 90
_NUMBERS: Final = (ir.Const, ir.Zero)
_TALL: Final = 24  # the nesting depth beyond which a part gets a name, too


class _Printer:
    """Names in scope, and the text of everything under them."""

    def __init__(self, names: Names, brief: bool = False) -> None:
        self.names = names
        self.brief = brief  # without foreign C text
        self.refs: dict[ir.Ref, str] = {}
        self.vars: dict[Var, str] = {}
        self.order: dict[Var, int] = {}
        self.lets: dict[ir.Scalar, str] = {}
        self.atoms: dict[Atom, str] = {}  # texts of compound atoms with the names now in scope

    # Indices ------------------------------------------------------------------------------------------------

    def index(self, i: Index) -> str:
        """The text of an index or dim."""
        if i.constant is not None:
            return str(i.constant)
        single = i.single
        if single is not None:
            return self._factor(single, False)
        parts = sorted(((self._monomial_key(m), c < 0, m, c) for m, c in i.terms), key=lambda p: (p[0], p[1]))
        if parts[0][1]:  # a positive term first, where there is one
            parts.sort(key=lambda p: (not p[2], p[1], p[0]))
        text = ""
        for _, below, m, c in parts:
            factors = [self._factor(a, len(m) > 1 or abs(c) != 1) for a in sorted(m, key=self._atom_key)]
            if abs(c) != 1 or not m:
                factors.insert(0, str(abs(c)))
            sign = (" - " if below else " + ") if text else ("-" if below else "")
            text += sign + " * ".join(factors)
        return text

    def _atom_key(self, a: Atom) -> tuple[int, int, str]:
        match a:
            case Var():
                return (0, self.order.get(a, -1), self.var(a))
            case Floor() | Mod():
                return (1, 0, self._factor(a, False))
            case Data():
                return (2, 0, self._factor(a, False))
            case DimSymbol():
                return (3, 0, a.name)
            case _:
                assert_never(a)

    def _monomial_key(self, m: Monomial) -> tuple[bool, list[tuple[int, int, str]]]:
        return (not m, sorted(self._atom_key(a) for a in m))

    def _factor(self, a: Atom, nested: bool) -> str:
        match a:
            case DimSymbol():
                return a.name
            case Var():
                return self.var(a)
            case Floor() | Mod() | Data():
                text = self.atoms.get(a)
                if text is None:
                    text = self.atoms[a] = self._compound(a)
                return f"({text})" if nested and not isinstance(a, Data) else text
            case _:
                assert_never(a)

    def _compound(self, a: Floor | Mod | Data) -> str:
        if isinstance(a, Data):
            extent = "" if a.extent is None else f", {self.index(a.extent)}"
            return f"{CLAIMS[a.checked]}({self.scalar(read_by(a))}{extent})"
        return f"{self._operand(a.numerator)} {'//' if isinstance(a, Floor) else '%'} {self._operand(a.denominator)}"

    def _operand(self, i: Index) -> str:
        text = self.index(i)
        if i.constant is not None:
            return text if i.constant >= 0 else f"({text})"
        return text if isinstance(i.single, DimSymbol | Var | Data) else f"({text})"

    def var(self, v: Var) -> str:
        """The name of a variable; outside its scope (in debugging) the one it was made with."""
        return self.vars.get(v, v.name)

    def ref(self, r: ir.Ref) -> str:
        """The name of an array."""
        return self.refs.get(r, r.name)

    def condition(self, c: Cond) -> str:
        """A condition with positive terms on the left; for == and != sides are in textual order."""

        def first(side: Index) -> tuple[bool, list[tuple[bool, list[tuple[int, int, str]]]]]:
            return side.constant is not None, sorted(self._monomial_key(m) for m, _ in side.terms)

        sides = [polynomial({m: sign * k for m, k in c.index.terms if sign * k > 0}) for sign in (1, -1)]
        if c.op != ">=":
            sides.sort(key=first)
        return f"{self.index(sides[0])} {c.op} {self.index(sides[1])}"

    def binder(self, variables: Sequence[Var]) -> str:
        """`n < N, k < K`, bringing the variables into scope."""
        extents = [self.index(v.extent) for v in variables]
        self.atoms.clear()
        for v in variables:
            self.vars[v] = self.names.fresh(v.name)
            self.order[v] = len(self.order)
        return ", ".join(f"{self.vars[v]} < {e}" for v, e in zip(variables, extents, strict=True))

    def leave(self, variables: Sequence[Var]) -> None:
        """End the scope of these variables."""
        self.atoms.clear()
        for v in variables:
            name = self.vars.pop(v, None)  # a program that binds a variable twice is printed too, in errors
            if name is not None:
                self.names.release((name,))
                del self.order[v]

    # Scalars ------------------------------------------------------------------------------------------------

    def name_shared(self, values: Sequence[ir.Scalar]) -> tuple[list[str], list[ir.Scalar]]:
        """Name the shared parts in a scope; return the defining lines and the named nodes."""
        lines, named = [], self._shared(values)
        for e in named:
            text = self._node(e, TERNARY, False)
            self.lets[e] = self.names.fresh("t")
            self.atoms.clear()
            lines.append(f"let {self.lets[e]} = {text}")
        return lines, named

    def forget(self, named: Sequence[ir.Scalar]) -> None:
        """End the scope of these names."""
        self.atoms.clear()
        self.names.release([self.lets.pop(e) for e in named])

    def body(self, values: Sequence[ir.Scalar], typed: bool = False) -> list[str]:
        """The text between the braces of a binder: names for shared parts, then the values."""
        lines, named = self.name_shared(values)
        lines.extend(self.scalar(v, TERNARY, typed) for v in values)
        self.forget(named)
        return lines

    def _shared(self, values: Sequence[ir.Scalar]) -> list[ir.Scalar]:
        """The nodes to be named in this scope, operands first.

        These are nodes used more than once, or roots of tall trees, that depend on no variable bound further inside.
        Nodes that depend on no variable of this scope were named outside.
        """
        uses: dict[ir.Scalar, int] = dict.fromkeys(values, 1) if len(values) == 1 else Counter(values)
        inner: set[Var] = set()
        order = self._visible(values)
        for e, parts in order.items():
            if isinstance(e, ir.Reduce):
                inner.update(e.vars)
            for p in parts:
                uses[p] = uses.get(p, 0) + 1
        if len(order) < _TALL and not any(n > 1 and not isinstance(e, _NUMBERS) for e, n in uses.items()):
            return []
        roots = frozenset(values)
        size: dict[ir.Scalar, int] = {}
        height: dict[ir.Scalar, int] = {}
        out = []
        for e, parts in order.items():
            size[e] = 1 + sum(size.get(p, 1) for p in parts) + sum(len(i.terms) for i in indices_of(e))
            height[e] = 1 + max((height.get(p, 1) for p in parts), default=0)
            if isinstance(e, _NUMBERS) or not e.free.isdisjoint(inner) or (e in roots and uses[e] == 1):
                continue
            if (uses[e] > 1 and size[e] >= _SHARED) or height[e] >= _TALL:
                size[e], height[e] = 1, 1
                out.append(e)
        return out

    def _visible(self, values: Sequence[ir.Scalar]) -> dict[ir.Scalar, tuple[ir.Scalar, ...]]:
        """The nodes under `values` that have no name yet, operands first, with their operands."""
        order: dict[ir.Scalar, tuple[ir.Scalar, ...]] = {}
        seen: set[ir.Scalar] = set(self.lets)
        stack: list[tuple[ir.Scalar, tuple[ir.Scalar, ...] | None]] = [(v, None) for v in reversed(values)]
        while stack:
            e, parts = stack.pop()
            if parts is not None:
                order[e] = parts
            elif e not in seen:
                seen.add(e)
                parts = _parts(e)
                stack.append((e, parts))
                stack.extend([(p, None) for p in reversed(parts)])
        return order

    def scalar(self, e: ir.Scalar, level: int = TERNARY, typed: bool = False) -> str:
        """The text of a scalar at a place of this precedence; `typed` if its dtype is known there."""
        name = self.lets.get(e)
        return name if name is not None else self._node(e, level, typed)

    def _node(self, e: ir.Scalar, level: int, typed: bool) -> str:
        text, own = self._text(cast(ir.Node, e), typed)
        return text if own >= level else f"({text})"

    def _text(self, e: ir.Node, typed: bool) -> tuple[str, int]:
        match e:
            case ir.Const():
                return _number(e, typed)
            case ir.Zero():
                return ("{}" if typed else f"{e.dtype}({{}})"), PRIMARY
            case ir.FromIndex():
                return f"as_{e.dtype}({self.index(e.index)})", PRIMARY
            case ir.Get():
                indices = ", ".join(self.index(i) for i in e.indices)
                return self.ref(e.ref) + (f"[{indices}]" if indices else ""), PRIMARY
            case ir.Apply():
                return self._apply(e, typed)
            case ir.Cast():
                return f"{e.dtype}({self.scalar(e.arg)})", PRIMARY
            case ir.Add():
                return self._add(e, typed), SUM
            case ir.Mul():
                return self._mul(e, typed)
            case ir.Bracket():
                conds = ", ".join(sorted(self.condition(c) for c in e.conds))
                return f"[{conds}] {self.scalar(e.arg, GUARD, typed)}", GUARD
            case ir.Select():
                test = self.scalar(e.test, OR, True)
                then, otherwise = self._same_dtype((e.then, e.otherwise), (TERNARY, TERNARY), typed)
                return f"{test} ? {then} : {otherwise}", TERNARY
            case ir.Reduce():
                return self._reduce(e, typed), PRIMARY
            case _:
                assert_never(e)

    def _same_dtype(self, args: Sequence[ir.Scalar], levels: Sequence[int], typed: bool) -> list[str]:
        """Operands of one dtype; one of them states it unless the context does."""
        first = next((k for k, a in enumerate(args) if not isinstance(a, _NUMBERS)), None)
        if not typed and first is None:
            return [self.scalar(a, level, k > 0) for k, (a, level) in enumerate(zip(args, levels, strict=True))]
        pairs = zip(args, levels, strict=True)
        return [self.scalar(a, level, typed or k != first) for k, (a, level) in enumerate(pairs)]

    def _apply(self, e: ir.Apply, typed: bool) -> tuple[str, int]:
        row = e.primitive
        typed = (typed and row.result == "same") or row.kinds == ("bool",)
        if row.infix is None:
            return f"{row.name}({', '.join(self._same_dtype(e.args, [TERNARY] * len(e.args), typed))})", PRIMARY
        own = INFIX[row.infix]
        levels = {COMPARE: (own + 1, own + 1), POWER: (PRIMARY, UNARY)}.get(own, (own, own + 1))
        left, right = self._same_dtype(e.args, levels, typed)
        return f"{left} {row.infix} {right}", own

    def _add(self, e: ir.Add, typed: bool) -> str:
        minus = [k > 0 and a not in self.lets and _is_negative(a) for k, a in enumerate(e.args)]
        args = [_negated(a) if m else a for a, m in zip(e.args, minus, strict=True)]
        texts = self._same_dtype(args, [GUARD] * len(args), typed)
        return texts[0] + "".join((" - " if m else " + ") + t for t, m in zip(texts[1:], minus[1:], strict=True))

    def _mul(self, e: ir.Mul, typed: bool) -> tuple[str, int]:
        first = e.args[0]
        minus = isinstance(first, ir.Const) and e.dtype.kind != "unsigned" and first.value == -1
        args = e.args[1:] if minus else e.args
        levels = [UNARY if minus else PRODUCT] + [UNARY] * (len(args) - 1)
        text = " * ".join(self._same_dtype(args, levels, typed))
        return ("-" if minus else "") + text, UNARY if minus and len(args) == 1 else PRODUCT

    def _reduce(self, e: ir.Reduce, typed: bool) -> str:
        binder = self.binder(e.vars)
        body = self.body((e.arg,), typed and e.op not in POSITIONS)
        self.leave(e.vars)
        return f"{e.op}{' ' if binder else ''}{binder} {{ {'; '.join(body)} }}"

    # Statements ---------------------------------------------------------------------------------------------

    def define(self, r: ir.Ref) -> str:
        """Name an array where it is defined, with its bounds."""
        self.refs[r] = self.names.fresh(r.name)
        return self.refs[r] + (f" as {r.storage}" if r.storage is not r.dtype else "") + self.bounds(r)

    def bounds(self, r: ir.Ref) -> str:
        """` in [low, high)` where the range of the values is known."""
        return f" in [{self.index(r.bounds[0])}, {self.index(r.bounds[1])})" if r.bounds else ""

    def type(self, r: ir.Ref) -> str:
        """`f32[N, M]`; `f32` for rank 0."""
        return str(r.dtype) + (f"[{', '.join(self.index(d) for d in r.shape)}]" if r.shape else "")

    def block(self, b: ir.Block, indent: str, word: str = "yield") -> list[str]:
        """The lines of a block; the last gives its results."""
        lines = []
        for s in b.statements:
            lines.extend(self.statement(s, indent))
        return [*lines, f"{indent}{word} {', '.join(self.ref(r) for r in b.results)}".rstrip()]

    def statement(self, s: ir.Statement, indent: str) -> list[str]:
        """The lines of a statement."""
        match s:
            case ir.Build():
                binder = self.binder(s.vars)
                body = self.body(s.values)
                self.leave(s.vars)
                head = f"{', '.join(self.define(r) for r in s.outs)} = build {binder}".rstrip()
                return [f"{indent}{head} {{{_joined(body, len(s.values), indent)} }}"]
            case ir.Scatter():
                binder = self.binder(s.vars)
                inside = [read_by(a) for i in s.indices for a in i.data]
                body, named = self.name_shared((*inside, s.value))
                body.append(f"[{', '.join(self.index(i) for i in s.indices)}] += {self.scalar(s.value, TERNARY, True)}")
                self.forget(named)
                self.leave(s.vars)
                head = f"{self.define(s.out)}: {self.type(s.out)} = scatter {binder}".rstrip()
                return [f"{indent}{head} {{{_joined(body, 1, indent)} }}"]
            case ir.Sort():
                binder = self.binder(s.vars)
                body = self.body((s.value,))
                self.leave(s.vars)
                head = f"{self.define(s.out)} = {SORTS[s.what]} {binder}"
                return [f"{indent}{head} {{{_joined(body, 1, indent)} }}"]
            case ir.External():
                sizes = ", ".join(map(self.index, s.sizes))
                arguments = ", ".join(map(self.ref, s.operands)) + (f"; {sizes}" if sizes else "")
                typed = ", ".join(f"{self.define(r)}: {self.type(r)}" for r in s.outs)
                text = "" if self.brief else f" from {json.dumps(s.foreign.source)}"
                return [f"{indent}{typed} = external {s.foreign.name}({arguments}){text}"]
            case ir.Fold():
                inits = [self.ref(r) for r in s.inits]
                states = ", ".join(f"{self.define(r)} = {i}" for r, i in zip(s.states, inits, strict=False))
                binder = self.binder((s.var,))
                head, lines = f"fold {binder} ({states}) {{", self.block(s.body, indent + "  ")
                self.leave((s.var,))
            case ir.While():
                inits = [self.ref(r) for r in s.inits]
                states = ", ".join(f"{self.define(r)} = {i}" for r, i in zip(s.states, inits, strict=False))
                trips = "" if s.max_trips is None else f" at most {self.index(s.max_trips)}"
                head = f"while ({states}){trips} {{"
                lines = self.block(s.test, indent + "  ")
                lines[-1] += " } do {"
                lines += self.block(s.body, indent + "  ")
            case ir.Choose():
                head, lines = f"if {self.ref(s.test)} {{", self.block(s.then, indent + "  ")
                lines[-1] += " } else {"
                lines += self.block(s.otherwise, indent + "  ")
            case ir.Call():
                given = [self.ref(r) for r in s.operands]
                params = ", ".join(f"{self.define(p)} = {r}" for p, r in zip(s.params, given, strict=False))
                head, lines = f"call {s.name + ' ' * bool(s.name)}({params}) {{", self.block(s.body, indent + "  ")
                for word, rule in (("forward", s.forward), ("backward", s.backward)):
                    if rule is not None:
                        lines[-1] += f" }} {word} ({', '.join(self.define(p) for p in rule.params)}) {{"
                        lines += self.block(rule.block, indent + "  ")
            case _:
                assert_never(s)
        outs = ", ".join(self.define(r) for r in s.outs)
        lines[-1] += " }"
        return [f"{indent}{outs} = {head}", *lines]


def _parts(e: ir.Scalar) -> tuple[ir.Scalar, ...]:
    """The operands of a node, including those of data-dependent indices."""
    parts = children(e)
    for i in indices_of(e):
        if i.data:
            parts = (*parts, *[read_by(a) for a in i.data])
    return parts


def _joined(lines: list[str], values: int, indent: str) -> str:
    """Join the parts of a body on one line, or on a line each if there are names or the line is long."""
    if len(lines) == values and (values == 1 or sum(map(len, lines)) < _WIDTH):
        return " " + "; ".join(lines)
    return f"\n{indent}    " + f";\n{indent}    ".join(lines)


def _number(e: ir.Const, typed: bool) -> tuple[str, int]:
    """A number, with its dtype unless the context gives it."""
    if isinstance(e.value, bool):
        return ("true" if e.value else "false"), PRIMARY
    if e.dtype.name == "f32":
        text = str(np.float32(e.value))
    else:
        text = repr(e.value)
    if text == "nan" and math.copysign(1, e.value) < 0:
        text = "-nan"
    if typed:
        return text, UNARY if text.startswith("-") else PRIMARY
    return f"{e.dtype}({text})", PRIMARY


def _is_negative(e: ir.Scalar) -> bool:
    """Whether a term is printed as a difference: it has a negative number in front."""
    number = e.args[0] if isinstance(e, ir.Mul) else e
    if (
        not isinstance(number, ir.Const)
        or number.dtype.kind not in ("signed", "floating")
        or number.value != number.value
    ):
        return False
    return math.copysign(1, number.value) < 0


def _negated(e: ir.Scalar) -> ir.Scalar:
    """The term whose negative `e` is."""
    if isinstance(e, ir.Const):
        return const(-e.value, e.dtype)
    assert isinstance(e, ir.Mul) and isinstance(e.args[0], ir.Const)
    number, *rest = e.args
    assert isinstance(number, ir.Const)
    return mul(*rest) if number.value == -1 else mul(const(-number.value, e.dtype), *rest)


# Whole programs ---------------------------------------------------------------------------------------------------


def _prepared(p: ir.Program, canonical: bool) -> _Printer:
    """A printer for a program, with the names of its dims reserved."""
    dims = dict.fromkeys(p.sizes)
    for index in (*(d for r in p.inputs for d in (*r.shape, *(r.bounds or ()))), *(c.index for c in p.requires)):
        dims.update((s.name, None) for s in index.symbols)
    return _Printer(Names(dims, canonical))


def _header(printer: _Printer, p: ir.Program) -> tuple[str, str]:
    """The parameters, and ` where …`."""
    parts = [f"{printer.define(r)}: {printer.type(r)}" for r in p.inputs]
    parts += [f"{name}: size" for name in p.sizes]
    conds = ", ".join(sorted(printer.condition(c) for c in p.requires))
    return f"({', '.join(parts)})", f" where {conds}" if conds else ""


def print_program(p: ir.Program, *, canonical: bool = False) -> str:
    """The text of a program, which `parse_program` reads back.

    Args:
        p: the program.
        canonical: with names that depend on structure alone: equal texts mean equal programs up to names.
    """
    printer = _prepared(p, canonical)
    parameters, where = _header(printer, p)
    lines = printer.block(p.body, "  ", "return")
    if p.output_names and not canonical:
        names = [printer.ref(r) for r in p.outputs]
        outs = [n if n == o else f"{_word(o)} = {n}" for n, o in zip(names, p.output_names, strict=True)]
        lines[-1] = f"  return {', '.join(outs)}".rstrip()
    name = "program" if canonical else ".".join(map(_word, p.name.split(".")))
    return "\n".join([f"{name}{parameters}{where} {{", *lines]) + " }\n"


def _word(text: str) -> str:
    """A valid name of the text form that resembles `text`."""
    word = re.sub(r"\W", "_", text, flags=re.ASCII) or "_"
    return "_" + word if word[0].isdigit() else word


def print_type(p: ir.Program) -> str:
    """`(x: f32[N, M], w: f32[K, M]) -> f32[N, K] where N >= K`."""
    printer = _prepared(p, False)
    parameters, where = _header(printer, p)
    outs = [printer.type(r) for r in p.outputs]
    return f"{parameters} -> {outs[0] if len(outs) == 1 else '(' + ', '.join(outs) + ')'}{where}"


def print_statement(s: ir.Statement) -> str:
    """The text of a single statement, for people, with the original names of its arrays."""
    return "\n".join(_Printer(Names(), brief=True).statement(s, ""))


class Texts(_Printer):
    """The text of every statement of a program, in the names that `print_program` gives.

    Attributes:
        statements: the text of each statement, nested ones included.
    """

    def __init__(self, p: ir.Program) -> None:
        super().__init__(_prepared(p, False).names)
        self.statements: dict[ir.Statement, str] = {}
        self._counters: dict[Var, str] = {}
        _header(self, p)
        self.block(p.body, "")

    def binder(self, variables: Sequence[Var]) -> str:
        """Bring variables into scope, and keep their names."""
        text = super().binder(variables)
        self._counters.update((v, self.vars[v]) for v in variables)
        return text

    def counter(self, v: Var) -> str:
        """The name of a loop's counter, also outside the loop."""
        return self._counters[v]

    def statement(self, s: ir.Statement, indent: str) -> list[str]:
        """Return the lines of a statement, and keep them."""
        lines = super().statement(s, indent)
        self.statements[s] = "\n".join(line.removeprefix(indent) for line in lines)
        return lines


def print_scalar(e: ir.Scalar) -> str:
    """The text of a single scalar, with the original names of its arrays and variables."""
    return "; ".join(_Printer(Names()).body((e,)))


def structurally_equal(p: ir.Program, q: ir.Program) -> bool:
    """Whether two programs are equal up to the names of arrays, index variables and outputs."""
    return p is q or print_program(p, canonical=True) == print_program(q, canonical=True)


ir.Scalar.text = print_scalar
