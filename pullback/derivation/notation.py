r"""Formulas in mathematical notation: the user's index names, sums, deltas, brackets; text or LaTeX.

    text     z_x[n, m] = ∑(k < K) z_y[n, k] · w[m, k]             δ(n, n′)      [0 ≤ r - h < U]
    LaTeX    z_{x}[n, m] = \sum_{k<K} z_{y}[n, k]\, w[m, k]       \delta_{n\,n'}

The text form of `ir.printer` is complete, and the parser reads it back. This form is for human readers.
Both styles share one traversal: it determines the pieces of a formula, and a style formats each piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never, cast

from pullback.derivation.style import (
    ATOM,
    CHOICE,
    COMPARE,
    POWER,
    PRIME,
    PRODUCT,
    REDUCTION,
    SUM,
    TEXT,
    UNARY,
    Latex,
    Style,
)
from pullback.ir import nodes as ir
from pullback.ir.expr import const, mul, read_by
from pullback.ir.index import Atom, Cond, Data, DimSymbol, Floor, Index, Mod, Var, as_index, polynomial
from pullback.ir.traverse import children, walk

SHARED = 12  # repeated parts of a large formula with at least this many nodes get a name
LARGE = 150
COMPARISONS = {
    "less": "<",
    "less_equal": "≤",
    "greater": ">",
    "greater_equal": "≥",
    "equal": "=",
    "not_equal": "≠",
    "logical_and": "∧",
    "logical_or": "∨",
}
LATEX_SIGNS = {"≤": r"\le", "≥": r"\ge", "≠": r"\ne", "∧": r"\wedge", "∨": r"\vee"}


class Notation:
    """A writer of formulas; its array names stay the same for a whole derivation."""

    def __init__(self, style: Style = TEXT) -> None:
        self.style = style
        self.refs: dict[ir.Ref, str] = {}
        self._taken: set[str] = set()
        self.vars: dict[Var, str] = {}
        self._lets: dict[ir.Scalar, str] = {}

    # Names --------------------------------------------------------------------------------------------------

    def ref(self, r: ir.Ref) -> str:
        """The name of an array, with a number if the name is taken."""
        found = self.refs.get(r)
        if found is None:
            name, n = r.name, 1
            while name in self._taken:
                n += 1
                name = f"{r.name}{n}"
            self._taken.add(name)
            found = self.refs[r] = self.style.name(name)
        return found

    def call(self, r: ir.Ref, name: str) -> None:
        """Name an array in this style, such as a cotangent."""
        self.refs[r] = name

    def bind(self, variables: Iterable[Var]) -> None:
        """Bring index variables into scope; a variable whose name is in use gets primes."""
        used = set(self.vars.values())
        for v in variables:
            if v in self.vars:
                continue
            name = v.name
            while self.style.name(name) in used:
                name += PRIME
            self.vars[v] = self.style.name(name)
            used.add(self.vars[v])

    def scope(self, variables: Iterable[Var] = ()) -> None:
        """Forget all index variables, then bring these into scope."""
        self.vars.clear()
        self.bind(variables)

    # Indices ------------------------------------------------------------------------------------------------

    def index(self, i: Index, level: int = SUM) -> str:
        """Write an index or dim."""
        if not i.terms:
            return "0"
        terms = sorted(i.terms, key=lambda t: (not t[0], t[1] < 0, sorted(map(self._order, t[0]))))
        text = ""
        for m, c in terms:
            factors = [self._atom(a) for a in sorted(m, key=self._order)]
            if abs(c) != 1 or not m:
                factors.insert(0, str(abs(c)))
            sign = (" - " if c < 0 else " + ") if text else ("-" if c < 0 else "")
            text += sign + self.style.times.strip(" ").join(factors)
        loose = len(terms) > 1 or text.startswith("-") or (level > PRODUCT and i.single is None and i.constant is None)
        return f"({text})" if level > SUM and loose else text

    def _order(self, a: Atom) -> tuple[bool, int, str]:
        """The sort key of factors: dims first, then index variables in the order of their binding."""
        places = {v: k for k, v in enumerate(self.vars)}
        return not isinstance(a, DimSymbol), places.get(a, -1) if isinstance(a, Var) else 0, self._atom(a)

    def _atom(self, a: Atom) -> str:
        match a:
            case DimSymbol():
                return self.style.dim(a.name)
            case Var():
                return self.vars.get(a) or self.style.name(a.name)
            case Floor():
                return self.style.floor(self.index(a.numerator, PRODUCT), self.index(a.denominator, UNARY))
            case Mod():
                mod = r" \bmod " if isinstance(self.style, Latex) else " mod "
                return f"({self.index(a.numerator, PRODUCT)}{mod}{self.index(a.denominator, UNARY)})"
            case Data():
                return self.scalar(read_by(a), ATOM)
            case _:
                assert_never(a)

    def _sides(self, c: Cond) -> tuple[str, str]:
        """The two sides of a condition: its positive and its negative terms."""
        first, second = (polynomial({m: sign * k for m, k in c.index.terms if sign * k > 0}) for sign in (1, -1))
        sides = [(s.constant is not None, self.index(s)) for s in (first, second)]
        if c.op != ">=":
            sides.sort()
        return sides[0][1], sides[1][1]

    def conditions(self, conds: Iterable[Cond]) -> list[str]:
        """Write conditions on indices; `0 ≤ e` and `e < n` become one."""
        out = []
        bounds: dict[Index, Index] = {}  # E -> D for conditions E + D >= 0, where D is constant
        for c in conds:
            if c.op == ">=":
                varying = polynomial({m: k for m, k in c.index.terms if any(not isinstance(a, DimSymbol) for a in m)})
                bounds[varying] = c.index - varying
            else:
                out.append(f" {self._sign(self.style.comparisons[c.op])} ".join(self._sides(c)))
        while bounds:
            e, low = bounds.popitem()
            high = bounds.pop(-e, None)
            if high is None:
                out.append(self._one_sided(e, low))
                continue
            if high is as_index(0) or low.constant is None:
                e, low, high = -e, high, low
            out.append(f"{self.index(-low)} {self._sign('≤')} {self.index(e)} < {self.index(high + 1)}")
        return sorted(out)

    def _one_sided(self, e: Index, low: Index) -> str:
        if all(k < 0 for _, k in e.terms):
            return f"{self.index(-e)} < {self.index(low + 1)}"
        positive = polynomial({m: k for m, k in e.terms if k > 0})
        return f"{self.index(positive)} {self._sign('≥')} {self.index(positive - e - low)}"

    def _sign(self, sign: str) -> str:
        return LATEX_SIGNS.get(sign, sign) if isinstance(self.style, Latex) else sign

    def binder(self, variables: Sequence[Var]) -> str:
        """Write `n < N, k < K`, and bring the variables into scope."""
        extents = [self.index(v.extent) for v in variables]
        self.bind(variables)
        less = "<" if isinstance(self.style, Latex) else " < "
        return ", ".join(f"{self.vars[v]}{less}{e}" for v, e in zip(variables, extents, strict=True))

    # Scalars ------------------------------------------------------------------------------------------------

    def scalar(self, e: ir.Scalar, level: int = CHOICE) -> str:
        """Write a formula, in parentheses if its operator has a lower precedence than `level`."""
        if e in self._lets:
            return self._lets[e]
        text, own = self._text(cast(ir.Node, e))
        return text if own >= level else self.style.parentheses(text)

    def _text(self, e: ir.Node) -> tuple[str, int]:
        style = self.style
        match e:
            case ir.Const():
                text = style.number(e.value)
                return text, UNARY if text.startswith("-") else ATOM
            case ir.Zero():
                return "0", ATOM
            case ir.FromIndex():
                text = self.index(e.index)
                return text, ATOM if e.index.single is not None else SUM
            case ir.Get():
                return style.element(self.ref(e.ref), ", ".join(self.index(i) for i in e.indices)), ATOM
            case ir.Apply():
                return self._apply(e)
            case ir.Cast():
                return style.function(str(e.dtype), self.scalar(e.arg)), ATOM
            case ir.Add():
                return self._add(e), SUM
            case ir.Mul():
                return self._mul(e)
            case ir.Bracket():
                return self._bracket(e)
            case ir.Select():
                if isinstance(e.otherwise, ir.Zero):
                    return self._guarded([style.iverson(self.scalar(e.test))], e.then)
                return style.choice(*(self.scalar(x, COMPARE) for x in (e.test, e.then, e.otherwise))), CHOICE
            case ir.Reduce():
                outside = dict(self.vars)
                text = style.reduction(e.op, self.binder(e.vars), self.scalar(e.arg, REDUCTION))
                self.vars = outside
                return text, REDUCTION
            case _:
                assert_never(e)

    def _apply(self, e: ir.Apply) -> tuple[str, int]:
        name = e.primitive.name
        if name == "divide":
            levels = (CHOICE, CHOICE) if isinstance(self.style, Latex) else (PRODUCT, UNARY)
            return self.style.quotient(*(self.scalar(a, level) for a, level in zip(e.args, levels, strict=True)))
        if name == "power":
            exponent = e.args[1]
            plain = isinstance(exponent, ir.Const) and not self.style.number(exponent.value).startswith("-")
            return self.style.power(self.scalar(e.args[0], ATOM), self.scalar(exponent), plain), POWER
        if name in COMPARISONS:
            a, b = (self.scalar(x, SUM) for x in e.args)
            return f"{a} {self._sign(COMPARISONS[name])} {b}", COMPARE
        return self.style.function(name, ", ".join(self.scalar(a) for a in e.args)), ATOM

    def _add(self, e: ir.Add) -> str:
        text = ""
        for a in e.args:
            minus, positive = without_sign(a)
            sign = (" - " if minus else " + ") if text else ("-" if minus else "")
            text += sign + self.scalar(positive, REDUCTION)
        return text

    def _mul(self, e: ir.Mul) -> tuple[str, int]:
        minus, positive = without_sign(e)
        if minus:
            return "-" + self.scalar(positive, PRODUCT), PRODUCT
        levels = [PRODUCT, *[UNARY] * (len(e.args) - 2), UNARY]
        texts = [self.scalar(a, level) for a, level in zip(e.args, levels, strict=True)]
        if isinstance(e.args[-1], ir.Reduce):
            texts[-1] = self.scalar(e.args[-1])
        return self.style.times.join(texts), PRODUCT

    def _guarded(self, guards: list[str], e: ir.Scalar) -> tuple[str, int]:
        if not (isinstance(e, ir.Const) and e.value == 1):
            text = self.scalar(e, REDUCTION)
            guards.append(self.style.parentheses(text) if text.startswith("-") else text)
        return self.style.times.join(guards), PRODUCT if len(guards) > 1 else ATOM

    def _bracket(self, e: ir.Bracket) -> tuple[str, int]:
        """Write deltas, one bracket with the other conditions, and the guarded value."""
        conds = list(e.conds)
        arg = e.arg
        while isinstance(arg, ir.Bracket):
            conds += arg.conds
            arg = arg.arg
        deltas = sorted(self.style.delta(*self._sides(c)) for c in conds if c.op == "==")
        rest = self.conditions(c for c in conds if c.op != "==")
        return self._guarded([*deltas, *([self.style.iverson(", ".join(rest))] if rest else [])], arg)

    # Statements ---------------------------------------------------------------------------------------------

    def definition(self, r: ir.Ref, variables: Sequence[Var], value: ir.Scalar) -> str:
        """Write `name[indices] = value`, naming repeated parts of large values."""
        left = self.style.element(self.ref(r), ", ".join(self.vars[v] for v in variables))
        return f"{left} = {self.value(value)}"

    def value(self, value: ir.Scalar) -> str:
        """Write a value, naming repeated parts of large ones."""
        named = _shared(value)
        lines = []
        for k, e in enumerate(named):
            text = self.scalar(e)
            self._lets[e] = self.style.name(f"t{k + 1}")
            lines.append(f"{self._lets[e]} = {text}")
        text = self.scalar(value)
        self._lets.clear()
        where = r" \quad\text{where } " if isinstance(self.style, Latex) else "   where "
        return text + (where + ", ".join(lines) if lines else "")

    def statement(self, s: ir.Statement) -> list[str]:
        """Write the lines of a statement."""
        match s:
            case ir.Build():
                self.scope(s.vars)
                return [self.definition(r, s.vars, value) for r, value in zip(s.outs, s.values, strict=True)]
            case ir.Scatter():
                self.scope()
                binder = self.binder(s.vars)
                left = self.style.element(self.ref(s.out), ", ".join(self.index(i) for i in s.indices))
                each = r"\text{for } " if isinstance(self.style, Latex) else "for "
                plus = r"\mathrel{+}=" if isinstance(self.style, Latex) else "+="
                return [f"{each}{binder}: {left} {plus} {self.scalar(s.value)}"]
            case ir.Sort():
                self.scope()
                binder = self.binder(s.vars)
                words = self.style.words({"values": "in order: ", "positions": "positions in order of "}[s.what])
                return [f"{self.ref(s.out)} = {words}{self.scalar(s.value)}, {binder}"]
            case ir.Fold():
                return self._fold(s)
            case ir.External():
                given = ", ".join(map(self.ref, s.operands))
                return [f"{', '.join(map(self.ref, s.outs))} = {self.style.words(s.foreign.name)}({given})"]
            case _:
                words = self.style.words(type(s).__name__.lower() + " …")
                return [f"{', '.join(map(self.ref, s.outs))} = {words}"]

    def _fold(self, s: ir.Fold) -> list[str]:
        """Write the states that a fold carries, then its body."""
        self.scope()
        outs = ", ".join(map(self.ref, s.outs))
        states = [f"{self.ref(r)} = {self.ref(i)}" for r, i in zip(s.states, s.inits, strict=True)]
        head = f"{outs} = {self.style.words('fold over ')}{', '.join([self.binder((s.var,)), *states])}"
        inside = self.style.words("each step: ")
        lines = [inside + line for t in s.body.statements for line in self.statement(t)]
        return [head, *lines, inside + self.style.words("gives ") + ", ".join(map(self.ref, s.body.results))]


def without_sign(e: ir.Scalar) -> tuple[bool, ir.Scalar]:
    """Whether a term has a negative coefficient, and the term without its sign."""
    number, rest = (e.args[0], e.args[1:]) if isinstance(e, ir.Mul) else (e, ())
    if not isinstance(number, ir.Const) or number.dtype.is_bool or not number.value < 0:
        return False, e
    positive = const(-number.value, e.dtype)
    return True, (mul(positive, *rest) if rest else positive)


def _shared(value: ir.Scalar) -> list[ir.Scalar]:
    """The repeated parts of a large value, operands first."""
    uses: dict[ir.Scalar, int] = {}
    size: dict[ir.Scalar, int] = {}
    inner: set[Var] = set()
    order = list(walk(value))
    for e in order:
        size[e] = 1 + sum(size[p] for p in children(e))
        inner |= set(e.vars) if isinstance(e, ir.Reduce) else set()
        for p in children(e):
            uses[p] = uses.get(p, 0) + 1
    if size[value] < LARGE:
        return []
    return [e for e in order if uses.get(e, 0) > 1 and size[e] >= SHARED and e.free.isdisjoint(inner)]
