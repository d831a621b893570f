"""A derivation as sections of formulas; each line lists the rules that made it.

    Statement y
      y[n, k] = ∑(m < M) x[n, m] · w[m, k]
      z_y[n, k] = …                                               002: z_j, 17
      ∂y[n, k]/∂x[n′, m′] = ∑(m < M) δ(m, m′) · δ(n, n′) · w[m, k]      002: 6, 7, 11, 13, 14, 15 | 003: D-Build, …
      (z_y · ∂y/∂x)[n′, m′] = ∑(n < N, k < K, m < M) δ(m, m′) · δ(n, n′) · z_y[n, k] · w[m, k]      002: 1, 16
        = ∑(k < K) z_y[n′, k] · w[m′, k]                               002: 22 | 003: (e) 4

Nothing is derived here. Every formula was recorded by a pass (`rewrite.steps`), in the order in which the passes ran.
Only the formulas of one statement are grouped under one heading.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pullback.derivation.notation import Notation
from pullback.derivation.style import Style
from pullback.derivation.vectorize import vectorized
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Var, as_index, cond
from pullback.rewrite.fired import Step
from pullback.rewrite.rules import cited
from pullback.rewrite.steps import (
    Accumulated,
    Given,
    Local,
    LocalDerivative,
    Looped,
    Rewritten,
    Scattered,
    Seeded,
    Separated,
    Solved,
    Tangent,
    Transposed,
)

TITLES = {
    "normalize": "Normal form of the derivative",
    "eliminate_common": "Equal statements are computed once",
    "eliminate_dead": "What no result needs is dropped",
    "inline_copies": "Constants and copies are read at their source",
    "eliminate_deltas": "Sums over deltas",
    "absorb_copied": "What is only copied is computed in the copy's place",
}
READABLE = 400  # the most characters of a formula over whole tensors that is shown
ALWAYS = {"eliminate_dead": ("dead",), "eliminate_common": ("cse",)}


@dataclass(frozen=True)
class Line:
    """A formula, and the rules that derive it from the line before.

    `relation` is "=" if the formula equals the line before, "↝" if it is one of the statements that replace that line.
    """

    formula: str
    rules: tuple[str, ...] = ()
    relation: Literal["", "=", "↝"] = ""

    @property
    def cited(self) -> str:
        """The rules as cited, by their numbers and names in the papers."""
        return cited(self.rules)


@dataclass
class Section:
    """A group of lines that belong to one statement or to one pass."""

    title: str
    lines: list[Line] = field(default_factory=list)


class Document:
    """The sections of a derivation in a style."""

    def __init__(self, program: ir.Program, steps: Sequence[Step], style: Style) -> None:
        self.style = style
        self.notation = Notation(style)
        self.sections: list[Section] = []
        self._statement: Section | None = None
        self._local: list[Line] = []
        self._outs: frozenset[ir.Ref] = frozenset()
        self._continues = False  # whether a solved sum starts from the last line
        for r in program.inputs:
            self.notation.ref(r)
        for s in steps:
            self._step(s)
        self._close()
        self._result(program)

    def _open(self, title: str) -> Section:
        self._close()
        self.sections.append(Section(title))
        return self.sections[-1]

    def _close(self) -> None:
        """Write the local derivatives that were held back for the cotangent of their statement."""
        if self._statement is not None:
            self._statement.lines += self._local
        self._statement, self._local, self._outs = None, [], frozenset()

    def _step(self, s: Step) -> None:
        continues, self._continues = self._continues, isinstance(s.formula, Transposed | Solved)
        match s.formula:
            case Given():
                self._given(s.formula)
            case Separated():
                self._separated(s.formula, s.rules)
            case Local():
                self._begin(s.formula, s.rules)
            case Accumulated():
                self._accumulated(s.formula, s.rules)
            case Transposed():
                self._transposed(s.formula, s.rules)
            case Solved() if continues:
                self._continue(self.notation.value(s.formula.value), s.rules)
            case Solved():  # a statement's normal form, which other steps show
                self._continues = False
            case Scattered():
                lines = self.notation.statement(s.formula.statement)
                self.sections[-1].lines += [Line(text, s.rules) for text in lines]
            case Looped():
                section = self._open(f"Loop {self._names(s.formula.statement)}, its body by the same rules")
                section.lines += [Line(text, s.rules) for text in self.notation.statement(s.formula.statement)[:1]]
            case Tangent():
                self._tangent(s.formula, s.rules)
            case Seeded():
                self._seeded(s.formula, s.rules)
            case Rewritten():
                self._rewritten(s.formula, s.rules)

    def _given(self, f: Given) -> None:
        name = self.style.name(f.array)
        self.notation.call(f.direction, self.style.tangent(name) if f.is_tangent else self.style.subscript("g", name))

    # Steps of normal form -----------------------------------------------------------------------------------

    def _separated(self, f: Separated, rules: tuple[str, ...]) -> None:
        section = self._open(f"Normal form of {self._names(f.statement)}")
        section.lines += [Line(text) for text in self.notation.statement(f.statement)]
        texts = [text for s in f.into for text in self.notation.statement(s)]
        section.lines += [Line(text, rules if text is texts[-1] else (), "↝") for text in texts]

    # Steps of one statement ---------------------------------------------------------------------------------

    def _begin(self, f: Local, rules: tuple[str, ...]) -> None:
        section = self._open(f"Statement {self._names(f.statement)}")
        section.lines += [Line(text) for text in self.notation.statement(f.statement)]
        local = [Line(self._local_derivative(f.statement, d), rules) for d in f.derivatives]
        self._statement, self._local, self._outs = section, local, frozenset(f.statement.outs)

    def _local_derivative(self, s: ir.Statement, d: LocalDerivative) -> str:
        """Write ∂y[..]/∂x[i′..] as a sum of deltas times a weight."""
        assert isinstance(s, ir.Build | ir.Scatter)
        summed: tuple[Var, ...] = ()
        for out, value in zip(s.outs, s.values if isinstance(s, ir.Build) else (s.value,), strict=True):
            if out is d.result and isinstance(s, ir.Build) and isinstance(value, ir.Reduce):
                summed = value.vars
        around = frozenset().union(d.weight.free, *(i.free for i in d.source)).difference(s.vars, summed)
        self.notation.scope((*sorted(around, key=lambda v: v.serial), *s.vars, *summed))
        axes = [Var(_name(d, k), e) for k, e in enumerate(d.operand.shape)]
        self.notation.bind(axes)
        target = [as_index(v) for v in s.vars] if isinstance(s, ir.Build) else list(s.indices)
        deltas = [cond("==", as_index(a) - i) for a, i in zip(axes, d.source, strict=True)]
        value = expr.reduce("sum", summed, expr.bracket(deltas, d.weight))
        left = self.style.derivative(
            self._element(d.result, [self.notation.index(i) for i in target]),
            self._element(d.operand, [self.notation.vars[v] for v in axes]),
        )
        return f"{left} = {self.notation.value(value)}"

    def _accumulated(self, f: Accumulated, rules: tuple[str, ...]) -> None:
        self.notation.call(f.cotangent, self.style.cotangent(self.notation.ref(f.array)))
        if f.array not in self._outs:
            self._open(f"Cotangent of {f.array.name}")
        self.notation.scope(f.variables)
        text = self.notation.definition(f.cotangent, f.variables, f.value)
        self.sections[-1].lines.append(Line(text, rules))

    def _transposed(self, f: Transposed, rules: tuple[str, ...]) -> None:
        if self._statement is not None:
            self._statement.lines += self._local
            self._local = []
        around = f.value.free.difference(f.summed, f.variables)
        self.notation.scope((*sorted(around, key=lambda v: v.serial), *f.summed, *f.variables))
        z, y, x = (self.style.cotangent(self.notation.ref(f.result)), *map(self.notation.ref, (f.result, f.operand)))
        product = self.style.parentheses(f"{z}{self.style.dot}{self.style.derivative(y, x)}")
        left = self._element_of(product, [self.notation.vars[v] for v in f.variables])
        self.sections[-1].lines.append(Line(f"{left} = {self.notation.value(f.value)}", rules))

    def _continue(self, formula: str, rules: tuple[str, ...]) -> None:
        """Add a line that equals the one before, unless both have the same text."""
        lines = self.sections[-1].lines
        if lines[-1].formula.split(" = ", 1)[-1] == formula:
            return
        lines.append(Line(formula, rules, "="))

    def _tangent(self, f: Tangent, rules: tuple[str, ...]) -> None:
        self.notation.call(f.tangent, self.style.tangent(self.notation.ref(f.array)))
        self._close()
        if not self.sections:
            self._open("Tangents")
        self.sections[-1].lines += [Line(text, rules) for text in self.notation.statement(f.statement)]

    # Steps of whole programs --------------------------------------------------------------------------------

    def _seeded(self, f: Seeded, rules: tuple[str, ...]) -> None:
        section = self._open("The cotangent of the result is 1" if f.seeds else "The given cotangents are put in")
        for r, value in f.seeds:
            section.lines.append(Line(f"{self.notation.ref(r)} = {self.notation.scalar(value)}"))
        for old, new in f.renamed.items():
            self.notation.call(new, self.notation.ref(old))
        self._changes(section, f.before.statements, f.after.statements, rules, f.renamed)
        if not section.lines:
            self.sections.pop()

    def _rewritten(self, f: Rewritten, rules: tuple[str, ...]) -> None:
        section = Section(TITLES.get(f.name, f.name))
        found = rules or ALWAYS.get(f.name, ())
        self._changes(section, f.before.body.statements, f.after.body.statements, found, {})
        if section.lines:
            self._close()
            self.sections.append(section)

    def _changes(
        self,
        section: Section,
        before: Iterable[ir.Statement],
        after: Iterable[ir.Statement],
        rules: tuple[str, ...],
        renamed: Mapping[ir.Ref, ir.Ref],
    ) -> None:
        """Write the statements that changed, and the names of removed ones."""
        old = {renamed.get(s.outs[0], s.outs[0]): s for s in before}
        kept = set()
        for s in after:
            was = old.get(s.outs[0])
            kept.add(s.outs[0])
            now = self.notation.statement(s)
            then = self.notation.statement(was) if was is not None else None
            if was is None and not renamed:
                section.lines += [Line(text, rules) for text in now]
            elif then is not None and then != now:
                section.lines += [Line(text) for text in then]
                equal = len(then) == len(now) == 1 and isinstance(s, ir.Build)
                section.lines += [Line(t.split(" = ", 1)[1] if equal else t, rules, "=" if equal else "↝") for t in now]
        gone = [self.notation.ref(r) for r in old if r not in kept]
        if gone:
            section.lines.append(Line(self.style.words("gone: ") + ", ".join(gone), rules))

    def _result(self, program: ir.Program) -> None:
        section = self._open("Result")
        made = {s.outs[0]: s for s in program.body.statements if isinstance(s, ir.Build) and len(s.outs) == 1}
        for s in program.body.statements:
            section.lines += [Line(text) for text in self.notation.statement(s)]
        last: Section | None = None
        for r in dict.fromkeys(program.outputs):
            if r in made:
                found = vectorized(made[r], self.notation, {q: s for q, s in made.items() if q is not r})
                if found is not None and len(found[0]) <= READABLE:
                    last = last or self._open("Over whole tensors")
                    last.lines.append(Line(f"{self.notation.ref(r)} = {found[0]}", found[1]))

    # Pieces -------------------------------------------------------------------------------------------------

    def _element(self, r: ir.Ref, indices: Sequence[str]) -> str:
        return self._element_of(self.notation.ref(r), indices)

    def _element_of(self, name: str, indices: Sequence[str]) -> str:
        return self.style.element(name, ", ".join(indices))

    def _names(self, s: ir.Statement) -> str:
        for r in s.outs:
            self.notation.ref(r)
        return ", ".join(r.name for r in s.outs)


def _name(d: LocalDerivative, axis: int) -> str:
    """A name for an operand's axis: the name of the variable that indexes it, else a letter."""
    atom = d.source[axis].single
    return atom.name if isinstance(atom, Var) else "ijklmnpqrstuvw"[axis]
