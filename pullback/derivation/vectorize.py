"""Statements as formulas over whole tensors: DeepDSL's vectorization, rules 26 to 38.

    z_x[n, m] = ∑(k < K) z_y[n, k] · w[m, k]      is read as      z_x = z_y ×_1 w             by 34, 37, 32

`t ×_n u` contracts the last n axes of both, `∑_n t` sums over the last n axes, `.*` is the pointwise product. These
formulas are only for reading. Loops are generated from the indexed form, so no library call has to match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pullback.derivation.notation import Notation, without_sign
from pullback.derivation.style import ATOM, POWER, PRODUCT, SUM, UNARY
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Cond, Var, as_index

Text = tuple[str, int]


def vectorized(
    s: ir.Build, notation: Notation, definitions: Mapping[ir.Ref, ir.Build]
) -> tuple[str, tuple[str, ...]] | None:
    """The value of a statement over whole tensors, and the rules used; None if no rule fits.

    `definitions` are statements whose values are substituted for their arrays.
    """
    notation.scope(s.vars)
    reading = _Reading(notation, definitions)
    text, _ = reading.tensor(s.vars, s.values[0])
    return (text, tuple(reading.rules)) if reading.rules else None


class _Reading:
    def __init__(self, notation: Notation, definitions: Mapping[ir.Ref, ir.Build]) -> None:
        self.notation = notation
        self.definitions = definitions
        self.style = notation.style
        self.rules: dict[str, None] = {}

    def _used(self, rule: str) -> None:
        self.rules["vectorize." + rule] = None

    def tensor(self, variables: Sequence[Var], e: ir.Scalar) -> Text:
        """The text of the tensor `variables ⇒ e`."""
        used = [v for v in variables if v in e.free]
        if isinstance(e, ir.Get) and list(e.indices) == [as_index(v) for v in variables]:
            return self._whole(e)
        if isinstance(e, ir.Get) and variables and _is_cast(variables, e):
            self._used("cast")
            shape = self.style.times.strip(" ").join(self.notation.index(v.extent, PRODUCT) for v in variables)
            return self.style.cast(shape, self._at(self._whole(e), UNARY)), UNARY
        if not used and variables:
            return self._arrow(variables, self.notation.scalar(e))
        if not variables and not isinstance(e, ir.Mul | ir.Reduce):
            return self.notation.scalar(e, UNARY), UNARY
        minus, positive = without_sign(e)
        if minus and isinstance(e, ir.Mul):
            return f"-{self._at(self.tensor(variables, positive), PRODUCT)}", PRODUCT
        match e:
            case ir.Mul():
                return self._product(variables, list(e.args))
            case ir.Add():
                return self._sum_of_terms(variables, e)
            case ir.Reduce(op="sum"):
                return self._sum(variables, used, e)
            case ir.Apply() if (found := self._function(variables, used, e)) is not None:
                return found
            case _:
                known = not isinstance(e, ir.Get) or (e.ref in self.definitions and len(used) == len(e.indices))
                if len(used) < len(variables) and known:
                    return self._unused(variables, used, e)
                return self._arrow(variables, self.notation.scalar(e))

    def _whole(self, e: ir.Get) -> Text:
        """Apply rule 32: write the tensor's name, or its definition."""
        if e.indices:
            self._used("identity")
        made = self.definitions.get(e.ref)
        if made is None:
            return self.notation.ref(e.ref), ATOM
        self.notation.bind(made.vars)
        return self.tensor(made.vars, made.values[0])

    def _at(self, text: Text, level: int) -> str:
        return text[0] if text[1] >= level else self.style.parentheses(text[0])

    def _arrow(self, variables: Sequence[Var], body: str) -> Text:
        names = ", ".join(self.notation.vars.get(v, v.name) for v in variables)
        return self.style.arrow(names, body), SUM

    def _unused(self, variables: Sequence[Var], used: Sequence[Var], e: ir.Scalar) -> Text:
        """Apply rule 38: write a tensor over the used indices, repeated along the others."""
        self._used("unused")
        inner = self._at(self.tensor(used, e), ATOM)
        names = ", ".join(self.notation.vars.get(v, v.name) for v in used)
        return self._arrow(variables, self.style.element(inner, names))

    def _product(self, variables: Sequence[Var], factors: list[ir.Scalar]) -> Text:
        """Return the text of a product: rule 29 for scalar factors, rule 30 for pointwise products."""
        scalars = [f for f in factors if f.free.isdisjoint(variables)]
        tensors = [f for f in factors if not f.free.isdisjoint(variables)]
        parts = [self._at(self.tensor(variables, f), UNARY) for f in tensors]
        if len(parts) > 1:
            self._used("pointwise")
        text = f" {self.style.pointwise} ".join(parts)
        if scalars:
            if tensors:
                self._used("scalar_factor")
            numbers = [self._at(self.tensor((), f), UNARY) for f in scalars]
            text = self.style.dot.join([*numbers, text] if tensors else numbers)
        return text, PRODUCT if len(parts) + len(scalars) > 1 else UNARY

    def _sum_of_terms(self, variables: Sequence[Var], e: ir.Add) -> Text:
        """Apply rule 31: write a sum of tensors."""
        if variables:
            self._used("add")
        text = ""
        for a in e.args:
            minus, positive = without_sign(a)
            sign = (" - " if minus else " + ") if text else ("-" if minus else "")
            text += sign + self._at(self.tensor(variables, positive), PRODUCT)
        return text, SUM

    def _function(self, variables: Sequence[Var], used: Sequence[Var], e: ir.Apply) -> Text | None:
        """Apply rules 26 to 28; write quotients as products with a power."""
        if len(used) < len(variables):
            return None
        name = e.primitive.name
        if name in ("exp", "log"):
            self._used(name)
            return self.style.function(name, self.tensor(variables, e.args[0])[0]), ATOM
        if name == "power" and isinstance(e.args[1], ir.Const):
            self._used("power")
            base = self._at(self.tensor(variables, e.args[0]), ATOM)
            return self.style.power(base, self.notation.scalar(e.args[1]), True), POWER
        if name == "divide":
            top, bottom = e.args
            inverse = self.style.power(self._at(self.tensor(variables, bottom), ATOM), "-1", False)
            self._used("power")
            if isinstance(top, ir.Const) and top.value == 1:
                return inverse, POWER
            self._used("pointwise")
            return f"{self._at(self.tensor(variables, top), PRODUCT)} {self.style.pointwise} {inverse}", PRODUCT
        return None

    # Sums ---------------------------------------------------------------------------------------------------

    def _sum(self, variables: Sequence[Var], used: Sequence[Var], e: ir.Reduce) -> Text:
        conds, body = _peeled(e.arg)
        factors = list(body.args) if isinstance(body, ir.Mul) else [body]
        outside = [f for f in factors if f.free.isdisjoint(e.vars)] if len(factors) > 1 else []
        if outside:  # rule 33
            self._used("sum_factor")
            inside = expr.mul(expr.const(1, e.dtype), *(f for f in factors if f not in outside))
            return self.tensor(variables, expr.mul(*outside, expr.reduce("sum", e.vars, expr.bracket(conds, inside))))
        found = self._contraction(variables, e.vars, factors, conds)
        if found is not None:
            return found
        if len(used) < len(variables):
            return self._unused(variables, used, e)
        self.notation.bind(e.vars)
        inner = self._at(self.tensor((*variables, *e.vars), e.arg), UNARY)
        self._used("partial_sum" if variables else "sum")
        return self.style.tensor_sum(str(len(e.vars)) if variables else "", inner), PRODUCT

    def _contraction(self, variables: Sequence[Var], summed: Sequence[Var], factors: list[ir.Scalar],
                     conds: tuple[Cond, ...]) -> Text | None:
        """Apply rules 34 and 37: split factors into two groups, which use disjoint result indices."""
        if len(factors) < 2:
            return None
        for k in range(len(variables), -1, -1):
            found = self._split((variables[:k], variables[k:]), summed, factors, conds)
            if found is not None:
                return found
        first = [v for v in variables if v in factors[0].free]
        order = (first, [v for v in variables if v not in first])
        found = self._split(order, summed, factors, conds)
        if found is None:
            return None
        names = ", ".join(self.notation.vars[v] for v in (*order[0], *order[1]))
        return self._arrow(variables, self.style.element(self._at(found, ATOM), names))

    def _split(self, axes: tuple[Sequence[Var], Sequence[Var]], summed: Sequence[Var], factors: list[ir.Scalar],
               conds: tuple[Cond, ...]) -> Text | None:
        """The contraction of factors with these result axes on each side; None if a factor uses both."""
        sides: tuple[list[ir.Scalar], list[ir.Scalar]] = ([], [])
        others = (set(axes[1]), set(axes[0]))  # what a side must not use
        for f in factors:
            side = next((j for j in (0, 1) if f.free.isdisjoint(others[j])), None)
            if side is None:
                return None
            sides[side].append(f)
        if not sides[1] and sides[0][-1].free.isdisjoint(others[1]):
            sides[1].append(sides[0].pop())
        where = next((j for j in (1, 0) if all(c.free.isdisjoint(others[j]) for c in conds)), None)
        if not all(sides) or where is None:
            return None
        return self._contracted(axes, summed, sides, conds, where)

    def _contracted(self, axes: tuple[Sequence[Var], Sequence[Var]], summed: Sequence[Var],
                    sides: tuple[list[ir.Scalar], list[ir.Scalar]], conds: tuple[Cond, ...], where: int) -> Text:
        self.notation.bind(summed)
        order = _order(sides, axes, summed)
        parts = []
        for j in (0, 1):
            value = expr.mul(*sides[j])
            if j == where and conds:
                value = expr.bracket(conds, value)
            parts.append(self._at(self.tensor((*axes[j], *order), value), UNARY))
        self._used("inner")
        if not axes[0] and not axes[1]:
            return f"{parts[0]}{self.style.dot}{parts[1]}", PRODUCT
        self._used("contraction")
        return f"{parts[0]} {self.style.contract(str(len(order)))} {parts[1]}", PRODUCT


def _order(
    sides: tuple[list[ir.Scalar], list[ir.Scalar]], axes: tuple[Sequence[Var], Sequence[Var]], summed: Sequence[Var]
) -> list[Var]:
    """Order the summed indices as the last axes of one side, so that its array needs no permutation."""
    for side, own in zip(sides, axes, strict=True):
        if len(side) == 1 and isinstance(side[0], ir.Get):
            atoms = [i.single for i in side[0].indices[len(own) :]]
            if set(atoms) == set(summed) and len(atoms) == len(summed):
                return [a for a in atoms if isinstance(a, Var)]
    return list(summed)


def _is_cast(variables: Sequence[Var], e: ir.Get) -> bool:
    """Whether an expression reads the array's elements in row-major order, and so reshapes it."""
    flat, size = as_index(0), as_index(1)
    for v in variables:
        flat, size = flat * v.extent + as_index(v), size * v.extent
    place, total = as_index(0), as_index(1)
    for i, d in zip(e.indices, e.ref.shape, strict=True):
        place, total = place * d + i, total * d
    return flat is place and size is total


def _peeled(e: ir.Scalar) -> tuple[tuple[Cond, ...], ir.Scalar]:
    """The conditions around a summand, and the guarded value."""
    conds: tuple[Cond, ...] = ()
    while isinstance(e, ir.Bracket):
        conds += e.conds
        e = e.arg
    return conds, e
