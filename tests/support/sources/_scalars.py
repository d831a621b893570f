"""Numbers over index variables: positions that are in range, guarded or filled, elements, reductions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.support.sources._writer import ANYWHERE, FOLDED, POSITIVE, TAMED, Dim, IndexVar, Var, Writer


class Scalars(Writer):
    """Numbers over the index variables in scope."""

    # Index variables ----------------------------------------------------------------------------------------

    def under(self, dims: Sequence[Dim]) -> list[IndexVar]:
        """Index variables for these extents, from here on in scope."""
        made = [IndexVar("ijklmnopqrabcdegh"[len(self.indices) + k], d) for k, d in enumerate(dims)]
        self.indices += made
        return made

    def leave(self, made: Sequence[IndexVar]) -> None:
        del self.indices[len(self.indices) - len(made) :]

    def position(self, d: Dim) -> tuple[str, bool]:
        """An index for an axis, and whether it is known to be in range."""
        same = [v for v in self.indices if v.dim.key == d.key]
        choice = self.rng.random()
        if same and choice < 0.55:
            return self.pick(same).text, True
        if same and choice < 0.62:
            return f"{self.extent(d)} - 1 - {self.pick(same).text}", True
        if choice < 0.67 and self.indices:
            return f"pb.clip({self.affine()}, 0, {self.extent(d)} - 1)", True
        if choice < 0.72 and self.indices:
            return f"({self.affine()}) % {self.extent(d)}", True
        if same and choice < 0.75:
            return f"{self.pick(same).text} // 2", True
        if self.integers and choice < 0.85:
            v, below = self.pick(self.integers)
            text, safe = self.position(v.dims[0])
            if safe and "[" not in text.replace(".shape[", ""):
                if below.key == d.key:
                    return f"{v.text}[{text}]", True
                return f"(2 * {v.text}[{text}] + 1) % {self.extent(d)}", True
        if choice < 0.9 or not self.indices:
            return (f"{self.extent(d)} - 1", True) if self.chance(0.4) else ("0", True)
        if d.key.isdigit() and self.chance(0.7):
            for _ in range(4):
                text, low, high = self.ranged()
                if low >= 0 and high < d.size:
                    return text, True
        return self.affine(), False

    def ranged(self) -> tuple[str, int, int]:
        """An affine index of variables of known extents, with its bounds."""
        known = [v for v in self.indices if v.dim.key.isdigit()]
        if not known:
            return "0", 0, 0
        text, low, high = "", 0, 0
        for v in self.rng.permutation(len(known))[: 1 + self.chance(0.5)]:
            step = self.choose((4, 1), (2, 2), (1, 3), (1, -1))
            name, last = known[v].text, step * (known[v].dim.size - 1)
            text += f"{' + ' if step > 0 else ' - '}{name if abs(step) == 1 else f'{abs(step)} * {name}'}"
            low, high = low + min(0, last), high + max(0, last)
        offset = int(self.rng.integers(0, 3)) - low if self.chance(0.5) else -low
        text = text.removeprefix(" + ").replace(" - ", "-", 1) if text.startswith(" - ") else text.removeprefix(" + ")
        return f"{text} + {offset}" if offset else text, low + offset, high + offset

    def affine(self) -> str:
        names = dict.fromkeys(self.pick(self.indices).text for _ in range(1 + self.chance(0.3)))
        terms = [self.choose((4, v), (1, f"2 * {v}"), (0.5, f"3 * {v}"), (0.5, f"{v} // 2")) for v in names]
        offset = int(self.rng.integers(-2, 3))
        text = self.pick([" + ", " + ", " - "]).join(terms)
        return text if not offset else f"{text} {'+' if offset > 0 else '-'} {abs(offset)}"

    def element(self, v: Var) -> str:
        """An element of an array."""
        if not v.dims:
            return v.text
        found = [self.position(d) for d in v.dims]
        positions = ", ".join(p for p, _ in found)
        if all(safe for _, safe in found):
            return f"{v.text}[{positions}]"
        fill = self.choose((3, ""), (1, ", fill=0.5"), (0.5, ", fill=0"))
        return f"{v.text}.at({positions}{fill})"

    # Scalars ------------------------------------------------------------------------------------------------

    def number(self) -> str:
        return repr(self.pick((0.5, 2.0, -1.5, 1.0, float(np.round(self.rng.uniform(-2, 2), 2)))))

    def leaf(self) -> str:
        choice = self.rng.random()
        if choice < 0.85:
            return self.element(self.pick(self.scope))
        if choice < 0.92 and self.indices:
            return f"(0.5 * {self.pick(self.indices).text})"
        return self.number()

    def scalar(self, depth: int) -> str:
        """A floating-point number over the index variables in scope."""
        if depth <= 0 or self.chance(0.1):
            return self.leaf()
        write = self.choose(
            (5, self.arithmetic), (3, self.unary), (1.2, self.binary), (1.5, self.choice), (2.5, self.reduction),
            (0.25, self.inner_fold), (0.25, self.extreme_element), (0.2, self.cast),
        )  # fmt: skip
        return write(depth)  # type: ignore[no-any-return]

    def arithmetic(self, depth: int) -> str:
        a, b = self.scalar(depth - 1), self.scalar(depth - 1)
        operator = self.choose((4, "*"), (3, "+"), (2, "-"), (1.5, "/"))
        if operator == "/":
            positive = [v for v in self.scope if v.positive]
            b = self.element(self.pick(positive)) if positive and self.chance(0.5) else f"(1.5 + pb.square({b}))"
            if ".at(" in b and not b.startswith("("):
                b = f"(1.0 + pb.abs({b}))"
        return f"({a} {operator} {b})"

    def unary(self, depth: int) -> str:
        positive = [v for v in self.scope if v.positive]
        if positive and self.chance(0.25):
            inner = self.element(self.pick(positive))
            if ".at(" not in inner:
                return f"pb.{self.pick(POSITIVE)}({inner})"
        inner = self.scalar(depth - 1)
        if self.chance(0.55):
            return f"pb.{self.pick(ANYWHERE)}({inner})"
        name = self.pick(list(TAMED))
        return f"pb.{name}({TAMED[name].format(inner)})"

    def binary(self, depth: int) -> str:
        a, b = self.scalar(depth - 1), self.scalar(depth - 1)
        return self.choose(  # type: ignore[no-any-return]
            (2, f"pb.maximum({a}, {b})"), (2, f"pb.minimum({a}, {b})"), (1, f"pb.hypot({a}, 0.5 + {b})"),
            (1, f"pb.atan2({a}, 1.5 + pb.square({b}))"), (1, f"pb.power(1.2 + pb.square({a}), 0.7 * pb.tanh({b}))"),
            (1, f"{a} ** {self.pick((0, 1, 2, 2, 3, 4))}"), (0.7, f"(1.1 + pb.square({a})) ** {self.number()}"),
            (0.7, f"pb.remainder({a}, 0.7 + pb.square({b}))"), (0.7, f"pb.logaddexp({a}, {b})"),
            (0.7, f"pb.clip({a}, -0.5, 1.0)"), (0.5, f"pb.copysign({a}, {b})"), (0.3, f"pb.stop_gradient({a})"),
        )  # fmt: skip

    def cast(self, depth: int) -> str:
        other = "float64" if self.dtype == "float32" else "float32"
        inner = self.scalar(depth - 1)
        return self.choose(  # type: ignore[no-any-return]
            (1, f"pb.astype(pb.astype({inner}, pb.{other}), pb.{self.dtype})"),
            (1, f"pb.astype(pb.astype(7.3 * {inner}, pb.int32) % 5, pb.{self.dtype})"),
            (1, f"pb.astype({self.whole_number()}, pb.{self.dtype})"),
        )

    def whole_number(self) -> str:
        """An integer."""
        if not self.integers:
            return f"pb.astype({self.element(self.pick(self.inputs))} > 0.1, pb.int64)"
        text = self.element(self.pick(self.integers)[0]).replace(", fill=0.5", "")
        operator = self.pick(("//", "%", "*", "-", "&", "|", "^", "<<"))
        return f"({text} {operator} {int(self.rng.integers(1, 4))})"

    def condition(self, depth: int) -> str:
        choice = self.rng.random()
        if self.indices and choice < 0.55:
            i = self.pick(self.indices)
            others = [v.text for v in self.indices if v.dim.key == i.dim.key and v is not i]
            j = self.pick(others) if others and self.chance(0.7) else str(int(self.rng.integers(0, 3)))
            return f"({i.text} {self.pick(('<', '<=', '>', '>=', '==', '!='))} {j})"
        if self.indices and choice < 0.62:
            return f"({self.pick(self.indices).text} % 2 == 0)"
        if choice < 0.75 and depth > 0:
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            return self.choose((2, f"({a} & {b})"), (1, f"({a} | {b})"), (1, f"~{a}"))  # type: ignore[no-any-return]
        if choice < 0.8 and depth > 0:
            d = self.dim()
            made = self.under((d,))
            inner = self.condition(0)
            self.leave(made)
            return f"pb.{self.pick(('any', 'all'))}_over({self.extent(d)}, lambda {made[0].text}: {inner})"
        a = self.element(self.pick(self.inputs))
        b = self.element(self.pick(self.inputs)) if self.chance(0.4) else self.number()
        return f"({a} {self.pick(('<', '<=', '>', '>='))} {b})"

    def choice(self, depth: int) -> str:
        if self.indices and self.chance(0.25):  # a read that the condition guards
            fitting = [(v, i) for v in self.scope for i in self.indices if len(v.dims) == 1
                       and v.dims[0].key == i.dim.key]  # fmt: skip
            if fitting:
                v, i = self.pick(fitting)
                other = self.scalar(depth - 1)
                if self.chance(0.5):
                    return f"pb.where({i.text} > 0, {v.text}[{i.text} - 1], {other})"
                return f"pb.where({i.text} + 1 < {self.extent(i.dim)}, {v.text}[{i.text} + 1], {other})"
        test = self.condition(1)
        a = self.scalar(depth - 1)
        b = self.scalar(depth - 1) if self.chance(0.6) else self.pick(("0.0", "0", "1.0"))
        if self.chance(0.5):
            return f"pb.where({test}, {a}, {b})"
        return f"pb.where({test}, {b}, {a})"

    def reduction(self, depth: int, op: str = "") -> str:
        op = op or self.pick(FOLDED)
        dims = [self.dim() for _ in range(1 + self.chance(0.2))]
        extent = ", ".join(self.extent(d) for d in dims)
        if len(dims) == 1 and self.indices and self.chance(0.25):  # a triangle
            i = self.pick(self.indices)
            dims = [i.dim]
            extent = f"{i.text} + 1" if self.chance(0.7) else f"{self.extent(i.dim)} - {i.text}"
        made = self.under(dims)
        inner = self.scalar(depth - 1)
        self.leave(made)
        names = ", ".join(v.text for v in made)
        return f"pb.{op}_over({f'({extent})' if len(dims) > 1 else extent}, lambda {names}: {inner})"

    def extreme_element(self, depth: int) -> str:
        fitting = [v for v in self.scope if len(v.dims) == 1]
        if not fitting:
            return self.reduction(depth)
        v = self.pick(fitting)
        made = self.under(v.dims)
        inner = self.element(self.pick(self.inputs))
        self.leave(made)
        op = self.pick(("argmax", "argmin"))
        return f"{v.text}[pb.{op}_over({self.extent(v.dims[0])}, lambda {made[0].text}: {inner})]"

    def inner_fold(self, depth: int) -> str:
        start = self.scalar(0)
        state, t = self.loop_names()
        trips = self.dim() if self.chance(0.4) else Dim("2", 2)
        extent = self.extent(trips)
        self.scope.append(Var(state, ()))
        self.indices.append(IndexVar(t, trips))
        gathers = self.chance(0.4)  # the state is only added to, multiplied or compared
        if gathers:
            self.scope.pop()
            start = self.constant(()) if self.chance(0.6) else start
        inner = self.scalar(depth - 1)
        self.indices.pop()
        self.loops -= 1
        if gathers:
            new = self.accumulated(state, inner)
        else:
            self.scope.pop()
            new = f"pb.sin({inner} + 0.5 * {state})"
        return f"pb.fold({extent}, {start} * 1.0, lambda {state}, {t}: {new})"

    def accumulated(self, state: str, more: str) -> str:
        """A state that something is only added to, or what else a reduction does."""
        return self.choose(  # type: ignore[no-any-return]
            (4, f"{state} + {more}"), (1, f"{state} * ({more})"), (1, f"pb.maximum({state}, {more})"),
            (1, f"pb.minimum({more}, {state})"), (1, f"{state} - {more}"),
        )  # fmt: skip

    def loop_names(self) -> tuple[str, str]:
        self.loops += 1
        return f"s{self.loops}", f"t{self.loops}"


__all__ = ["Scalars"]
