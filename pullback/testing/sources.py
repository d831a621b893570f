"""Random programs of the public language as source text, with arguments and queries, for the oracle to judge.

    sample = random_source(np.random.default_rng(seed))
    print(sample)                                   # a program to paste
    Program(sample.source, sample.arguments).judge(sample.queries[0])

A writer grows text from the inside out: scalars over the index variables in scope, arrays of shapes asked for,
statements that give them names. Dims are names of an annotation or numbers; every read is provably in range, guarded,
or filled.
What is written is tame on purpose (most values stay near 1), and awkward in places: ties, zeros, kinks, tiny and huge
arguments.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

NDArray = np.ndarray[Any, Any]

SMALL: Final = (1, 2, 2, 3, 3, 4, 5)
LARGE: Final = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 32, 33, 33, 40, 40)  # around lengths of vectors and strips
ANYWHERE: Final = ("sin", "cos", "tanh", "logistic", "atan", "erf", "asinh", "abs", "relu", "square", "negative")
# What a function needs to be in its domain and of moderate size; {} is any number.
TAMED: Final = {
    "exp": "0.5 * {}", "expm1": "pb.tanh({})", "sinh": "pb.tanh({})", "cosh": "pb.sin({})", "tan": "pb.tanh({})",
    "asin": "0.9 * pb.tanh({})", "acos": "0.9 * pb.sin({})", "atanh": "0.9 * pb.tanh({})",
    "acosh": "1.2 + pb.square({})", "log": "1.5 + pb.square({})", "log1p": "pb.square({})",
    "log2": "0.7 + pb.square({})", "log10": "1.5 + pb.square({})", "sqrt": "0.5 + pb.square({})",
    "reciprocal": "1.5 + pb.square({})", "floor": "{}", "ceil": "{}", "round": "{}", "trunc": "{}", "sign": "{}",
}  # fmt: skip
POSITIVE: Final = ("sqrt", "log", "log2", "log10", "reciprocal", "log1p")  # of numbers above 0 as they are
FOLDED: Final = ("sum", "sum", "sum", "prod", "max", "min")


@dataclass(frozen=True)
class Dim:
    """An extent: equal keys are equal for all sizes."""

    key: str
    size: int


@dataclass(frozen=True)
class Var:
    """An array in scope: what it is called and its extents."""

    text: str
    dims: tuple[Dim, ...]
    positive: bool = False


@dataclass(frozen=True)
class IndexVar:
    """An index variable, below `dim`."""

    text: str
    dim: Dim


@dataclass
class Sample:
    """A program with arguments, and expressions that ask for values and derivatives."""

    source: str
    arguments: dict[str, NDArray]
    queries: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = ["import numpy as np", "import pullback as pb"]
        types = [t for t in ("Float32", "Float64", "Int64") if t in self.source]
        lines += [f"from jaxtyping import {', '.join(types)}"] * bool(types)
        lines += ["", self.source.rstrip(), ""]
        used = {name: v for name, v in self.arguments.items() if re.search(rf"\b{name}\b", " ".join(self.queries))}
        lines += [f"{name} = np.array({value.tolist()!r}, np.{value.dtype})" for name, value in used.items()]
        return "\n".join([*lines, *(f"print({query})" for query in self.queries), ""])


def random_source(rng: np.random.Generator, *, large: bool = False, longest: int | None = None) -> Sample:
    """A random program.

    Args:
        rng: where all choices come from.
        large: extents up to 40, around those at which compiled code changes its form, instead of up to 5.
        longest: the most letters of its source: what is longer is drawn again. The time of a program is that of its
            derivation and grows with its length: a tenth of all take half of the time.
    """
    while True:
        sample = _Writer(rng, LARGE if large else SMALL).sample()
        if longest is None or len(sample.source) <= longest:
            return sample


class _Writer:
    def __init__(self, rng: np.random.Generator, extents: Sequence[int]) -> None:
        self.rng = rng
        self.extents = extents
        self.scope: list[Var] = []
        self.indices: list[IndexVar] = []
        self.integers: list[tuple[Var, Dim]] = []
        self.helpers: list[str] = []
        self.loops = 0
        self.symbolic = self.chance(0.5)
        self.dtype = "float64" if self.chance(0.75) else "float32"
        self.arguments: dict[str, NDArray] = {}
        self.names: list[str] = []
        self.inputs: list[Var] = []
        self.dims: list[Dim] = []
        self.awkward = self.chance(0.25)
        self.brief = self.chance(0.75)  # most programs are small: so many more of them can be run

    # Choices ------------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def choose(self, *weighted: tuple[float, Any]) -> Any:
        total = sum(w for w, _ in weighted)
        at = self.rng.random() * total
        for w, item in weighted:
            at -= w
            if at < 0:
                return item
        return weighted[-1][1]

    # The program --------------------------------------------------------------------------------------------

    def sample(self) -> Sample:
        names = ["N", "M"][: 1 + self.chance(0.3 if self.brief else 0.6)]
        for name in names:
            size = 0 if self.symbolic and self.extents is SMALL and self.chance(0.03) else self.pick(self.extents)
            self.dims.append(Dim(name if self.symbolic else str(size), size))
        for k, d in enumerate(self.dims):
            self.input("xy"[k], (d,))
        for name in "zw"[: int(self.rng.integers(0, 2 if self.brief else 3))]:
            self.input(name, tuple(self.dim() for _ in range(int(self.rng.integers(0, 3)))))
        if self.chance(0.3):
            self.integer_input()
        scalar = self.chance(0.7)
        body = self.body(scalar)
        parameters = ", ".join(self.parameter(name) for name in self.names)
        source = "\n".join([*self.helpers, "@pb.function", f"def f({parameters}):", *body, ""])
        queries = self.queries(scalar)
        return Sample(source, self.arguments, [self.pick(queries)] if self.brief else queries)

    def body(self, scalar: bool) -> list[str]:
        """The lines of the function."""
        if self.brief and scalar and self.chance(0.5):
            return [f"    return {self.array((), int(self.rng.integers(1, 3)))}"]
        count = 1 if self.brief else int(self.rng.integers(1, 4))
        lines = [f"    u{k} = {self.statement(f'u{k}')}" for k in range(count)]
        return [*lines, f"    return {self.total() if scalar else self.results()}"]

    def parameter(self, name: str) -> str:
        if not self.symbolic:
            return name
        kind = {"float64": "Float64", "float32": "Float32", "int64": "Int64"}[self.arguments[name].dtype.name]
        dims = next(v.dims for v in (*self.inputs, *(v for v, _ in self.integers)) if v.text == name)
        return f'{name}: {kind}[pb.Array, "{" ".join(d.key for d in dims)}"]'

    def input(self, name: str, dims: tuple[Dim, ...]) -> None:
        positive = self.chance(0.4)
        shape = tuple(d.size for d in dims)
        values = self.rng.uniform(0.2, 2.0, shape) if positive else self.rng.uniform(-2.0, 2.0, shape)
        values = np.round(values, 2)
        if self.awkward:
            special = [1.0, 0.5, 2.0] if positive else [0.0, 1.0, -1.0, 0.5, -0.0]
            if self.chance(0.15):
                small, big = (1e-30, 1e15) if self.dtype == "float32" else (1e-290, 1e100)
                special += [small, big]
            values = np.where(self.rng.random(shape) < 0.5, self.rng.choice(special, shape), values)
        self.arguments[name] = values.astype(self.dtype)
        self.names.append(name)
        self.inputs.append(Var(name, dims, positive))
        self.scope.append(self.inputs[-1])

    def integer_input(self) -> None:
        below, dim = self.dim(), self.dim()
        self.arguments["p"] = self.rng.integers(0, max(below.size, 1), dim.size)
        self.names.append("p")
        self.integers.append((Var("p", (dim,)), below))

    def dim(self) -> Dim:
        """A dim of the program, or a small number."""
        if self.chance(0.8):
            return self.pick(self.dims)  # type: ignore[no-any-return]
        size = int(self.rng.integers(1, 4))
        return Dim(str(size), size)

    def extent(self, d: Dim) -> str:
        """A dim as an expression."""
        if d.key.isdigit() and self.chance(0.7):
            return d.key
        found = [f"{v.text}.shape[{k}]" for v in self.scope for k, e in enumerate(v.dims) if e.key == d.key]
        return str(self.pick(found)) if found else d.key

    def statement(self, name: str) -> str:
        dims = tuple(self.dim() for _ in range(self.choose((1, 0), (5, 1), (2.5, 2), (0.4, 3))))
        text = self.array(dims, int(self.rng.integers(1, 3 if self.brief else 4)))
        self.scope.append(Var(name, dims))
        return text

    def total(self) -> str:
        """A number that depends on what was made."""
        last = self.scope[-1]
        if not last.dims and self.chance(0.5):
            return last.text
        parts = [last, *(v for v in self.scope[:-1] if self.chance(0.1 if self.brief else 0.25))]
        return " + ".join(self.reduced_whole(v) for v in parts)

    def reduced_whole(self, v: Var) -> str:
        if not v.dims:
            return self.scalar(1) if self.chance(0.3) else f"pb.sin({v.text})"
        how = self.choose((4, "sum"), (1, "mean"), (1, "max"), (1, "min"), (0.5, "prod"), (1, "logsumexp"), (3, "over"))
        if how == "over":
            return self.reduction(2, self.pick(FOLDED))
        inner = v.text if self.chance(0.5) else f"pb.{self.pick(ANYWHERE)}({v.text})"
        return f"pb.{how}({inner})"

    def results(self) -> str:
        made = self.scope[len(self.inputs) :]
        if len(made) > 1 and self.chance(0.3):
            return f"({made[-1].text}, {made[-2].text})"
        return made[-1].text

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
        inner = self.scalar(depth - 1)
        self.indices.pop()
        self.scope.pop()
        self.loops -= 1
        return f"pb.fold({extent}, {start} * 1.0, lambda {state}, {t}: pb.sin({inner} + 0.5 * {state}))"

    def loop_names(self) -> tuple[str, str]:
        self.loops += 1
        return f"s{self.loops}", f"t{self.loops}"

    # Arrays -------------------------------------------------------------------------------------------------

    def array(self, dims: tuple[Dim, ...], depth: int) -> str:
        """An array of these extents."""
        if depth <= 0:
            same = [v.text for v in self.scope if v.dims == dims]
            if same and self.chance(0.8):
                return self.pick(same)  # type: ignore[no-any-return]
            return self.build(dims, 1)
        write = self.choose(
            (6, self.build), (2, self.whole), (1.5, self.moved), (3, self.fold), (0.5, self.scan), (0.6, self.loop),
            (0.6, self.cond), (1, self.product), (0.8, self.call), (0.6, self.inner_derivative), (0.5, self.mapped),
            (1, self.rows), (0.4, self.solved), (0.8, self.verb), (1, self.ordered), (0.8, self.written),
        )  # fmt: skip
        return write(dims, depth)  # type: ignore[no-any-return]

    def build(self, dims: tuple[Dim, ...], depth: int) -> str:
        if not dims:
            return self.reduction(depth + 1) if self.chance(0.7) else f"({self.scalar(depth)} + 0.0)"
        if len(dims) == 2 and self.chance(0.15):  # rows
            extent = self.extent(dims[0])
            made = self.under(dims[:1])
            inner = self.build(dims[1:], depth)
            self.leave(made)
            return f"pb.build({extent}, lambda {made[0].text}: {inner})"
        extents = ", ".join(self.extent(d) for d in dims)
        made = self.under(dims)
        inner = self.scalar(depth)
        self.leave(made)
        names = ", ".join(v.text for v in made)
        return f"pb.build({f'({extents})' if len(dims) > 1 else extents}, lambda {names}: {inner})"

    def whole(self, dims: tuple[Dim, ...], depth: int) -> str:
        """Elementwise functions of whole arrays."""
        a = self.array(dims, depth - 1)
        how = self.choose((3, "unary"), (3, "binary"), (1, "where"), (1, "axis"))
        if how == "unary":
            name = self.pick(list(TAMED))
            return f"pb.{self.pick(ANYWHERE)}({a})" if self.chance(0.6) else f"pb.{name}({TAMED[name].format(a)})"
        if how == "axis" and dims:
            k = int(self.rng.integers(len(dims)))
            return self.choose(  # type: ignore[no-any-return]
                (1, f"pb.softmax({a}, axis={k})"), (1, f"pb.cumulative_sum({a}, axis={k})"),
                (0.5, f"pb.cumulative_prod({a}, axis={k})"), (1, f"({a} - pb.mean({a}, axis={k}, keepdims=True))"),
                (0.5, f"({a} / pb.sqrt(0.5 + pb.var({a}, axis={k}, keepdims=True)))"),
                (0.5, f"pb.broadcast_to(pb.max({a}, axis={k}, keepdims=True), ({', '.join(map(self.extent, dims))},))"),
            )  # fmt: skip
        b = self.array(dims, depth - 2)
        if how == "where":
            test = self.element_test(dims) or f"({a} > {self.number()})"
            return f"pb.where({test}, {a}, {b})"
        operator = self.pick(("+", "-", "*"))
        return f"({a} {operator} {b})" if self.chance(0.7) else f"({a} / (1.5 + pb.square({b})))"

    def element_test(self, dims: tuple[Dim, ...]) -> str:
        same = [v.text for v in self.inputs if v.dims == dims]
        return f"({self.pick(same)} > {self.number()})" if same else ""

    def moved(self, dims: tuple[Dim, ...], depth: int) -> str:
        """Elements at other places."""
        if not dims:
            return f"pb.reshape({self.array((Dim('1', 1),), depth - 1)}, ())"
        a = self.array(dims, depth - 1)
        k = int(self.rng.integers(len(dims)))
        options: list[tuple[float, str]] = [
            (1, f"pb.flip({a}, axis={k})"),
            (1, f"pb.roll({a}, {int(self.rng.integers(-2, 3))}, axis={k})"),
            (0.5, f"{a}[{', '.join(':' for _ in range(k))}{', ' if k else ''}::-1]"),
        ]
        options.append((0.7, f"pb.concat([{a}[:1], {a}[1:]], axis=0)"))
        options += self.cut(dims, k, depth)
        if len(dims) == 2:
            turned = self.array((dims[1], dims[0]), depth - 1)
            options += [(2, f"pb.matrix_transpose({turned})"), (1, f"pb.permute_dims({turned}, (1, 0))")]
            options += [(1, f"pb.tril({a})"), (1, f"pb.triu({a}, k={int(self.rng.integers(-1, 2))})")]
            flat = "-1" if self.chance(0.5) else " * ".join(map(self.extent, dims))
            options.append((1, f"pb.reshape(pb.reshape({a}, ({flat},)), ({', '.join(map(self.extent, dims))}))"))
        gathers = [v for v, below in self.integers if v.dims[0].key == dims[k].key and below.key == dims[k].key]
        if gathers:
            options.append((2, f"pb.take({a}, {gathers[0].text}, axis={k})"))
        return self.choose(*options)  # type: ignore[no-any-return]

    def cut(self, dims: tuple[Dim, ...], k: int, depth: int) -> list[tuple[float, str]]:
        """Pieces of larger arrays, arrays of smaller ones."""
        n = dims[k].size
        if not dims[k].key.isdigit():
            return []
        lead = ":, " * k
        longer, double = ((*dims[:k], Dim(str(m), m), *dims[k + 1 :]) for m in (n + 1, 2 * n))
        slices = [(longer, "1:"), (longer, ":-1"), *((double, s) for s in ("::2", "1::2", "::-2", f"{n}:"))]
        source, piece = self.pick(slices)
        out = [(2.0, f"{self.array(source, depth - 2)}[{lead}{piece}]")]
        out.append((1.0, f"pb.diff({self.array(longer, depth - 2)}, axis={k})"))
        if n % 2 == 0:
            half = (*dims[:k], Dim(str(n // 2), n // 2), *dims[k + 1 :])
            a, b = self.array(half, depth - 2), self.array(half, depth - 2)
            out += [(1.0, f"pb.concat([{a}, {b}], axis={k})"), (0.7, f"pb.repeat({a}, 2, axis={k})")]
            if k == 0:
                out.append((0.7, f"pb.tile({a}, (2,{' 1,' * (len(dims) - 1)}))"))
        if n == 2:
            rest = (*dims[:k], *dims[k + 1 :])
            out.append((1.5, f"pb.stack([{self.array(rest, depth - 2)}, {self.array(rest, depth - 2)}], axis={k})"))
        return out

    def ordered(self, dims: tuple[Dim, ...], depth: int) -> str:
        """Elements in order, or where others belong among them."""
        d = self.dim()
        row = f"pb.sort({self.array((d,), depth - 1)})"
        if not dims:
            if not d.size:
                return self.build(dims, depth)
            largest = f"pb.top_k({self.array((d,), depth - 1)}, 1, largest={self.chance(0.5)})"
            return self.choose(  # type: ignore[no-any-return]
                (1, f"{row}[0]"), (1, f"{row}[{self.extent(d)} // 2]"), (1, f"{largest}[0][0]"),
                (1, f"pb.astype({largest}[1][0], pb.{self.dtype})"),
            )  # fmt: skip
        k = int(self.rng.integers(len(dims)))
        a, along = self.array(dims, depth - 1), f"axis={k}"
        turned = f"{along}, descending=True" if self.chance(0.3) else along
        options: list[tuple[float, str]] = [
            (3, f"pb.sort({a}, {turned})"), (0.7, f"pb.astype(pb.argsort({a}, {turned}), pb.{self.dtype})"),
            (1.5, f"pb.take_along_axis({a}, pb.argsort({self.array(dims, depth - 2)}, {turned}), {along})"),
            (0.7, f"pb.astype(pb.searchsorted({row}, {a}, side='{self.pick(('left', 'right'))}'), pb.{self.dtype})"),
        ]  # fmt: skip
        n, lead = dims[k].size, ":, " * k
        if dims[k].key.isdigit() and n:
            longer = tuple(Dim(str(n + 2), n + 2) if j == k else e for j, e in enumerate(dims))
            b, largest = self.array(longer, depth - 1), f"{along}, largest={self.chance(0.5)}"
            options += [
                (1.5, f"pb.top_k({b}, {n}, {largest})[0]"),
                (1.5, f"pb.top_k({b}, {n + 1}, {largest})[0][{lead}{self.pick(('1:', f':{n}'))}]"),
                (0.7, f"pb.astype(pb.top_k({b}, {n}, {largest})[1], pb.{self.dtype})"),
                (1.5, f"pb.sort({b}, {turned})[{lead}{self.pick(('2:', f':{n}', '1:-1', '-2:0:-1'))}]"),
            ]
        return self.choose(*options)  # type: ignore[no-any-return]

    def written(self, dims: tuple[Dim, ...], depth: int) -> str:
        """An array with some elements set, or added to."""
        if not dims or not all(d.size for d in dims):
            return self.build(dims, depth)
        a, how = f"({self.array(dims, depth - 1)})", self.pick(("set", "add"))
        row = self.array(dims[1:], depth - 2)
        k = int(self.rng.integers(len(dims)))
        lead = "slice(None), " * k
        options: list[tuple[float, str]] = [
            (1, f"{a}.{how}(0, {row})"), (1, f"{a}.{how}(-1, {row})"),
            (1, f"{a}.{how}({lead}slice({self.pick(('None, None, 2', '1, None', 'None, -1', 'None, None, -1'))})), "
                f"{self.number()})"),
            (1, f"{a}.{how}(({lead}{self.extent(dims[k])} // 2), {self.array((), depth - 2)})"),
        ]  # fmt: skip
        for v, below in self.integers:
            if below.key == dims[0].key and v.dims[0].size:
                options.append((3, f"{a}.{how}({v.text}, {self.array((v.dims[0], *dims[1:]), depth - 2)})"))
        return self.choose(*options)  # type: ignore[no-any-return]

    def rows(self, dims: tuple[Dim, ...], depth: int) -> str:
        """An array of one axis more, reduced."""
        extra = self.dim()
        k = int(self.rng.integers(len(dims) + 1))
        a = self.array((*dims[:k], extra, *dims[k:]), depth - 1) if len(dims) < 2 else self.build(dims, depth)
        if len(dims) >= 2:
            return a
        op = self.choose((4, "sum"), (1, "max"), (1, "min"), (0.7, "prod"), (1, "mean"), (1, "logsumexp"), (0.5, "var"),
                         (0.4, "std"))  # fmt: skip
        return f"pb.{op}({a}, axis={k})"

    def product(self, dims: tuple[Dim, ...], depth: int) -> str:
        """A product of matrices and vectors."""
        inner = self.dim()
        if len(dims) > 2:
            return self.build(dims, depth)
        if len(dims) == 2 and self.chance(0.15):
            a, b = self.array((inner, dims[0]), depth - 1), self.array((inner, dims[1]), depth - 2)
            return f"pb.tensordot({a}, {b}, axes=((0,), (0,)))"
        if len(dims) == 1 and self.chance(0.15):
            if self.chance(0.5):
                return f"pb.diagonal({self.array((dims[0], dims[0]), depth - 1)})"
            return f"pb.vecdot({self.array((dims[0], inner), depth - 1)}, {self.array((dims[0], inner), depth - 2)})"
        if not dims:
            return f"({self.array((inner,), depth - 1)} @ {self.array((inner,), depth - 1)})"
        if len(dims) == 1:
            if self.chance(0.5):
                return f"({self.array((dims[0], inner), depth - 1)} @ {self.array((inner,), depth - 2)})"
            return f"({self.array((inner,), depth - 2)} @ {self.array((inner, dims[0]), depth - 1)})"
        if self.chance(0.3):
            return f"pb.outer({self.array(dims[:1], depth - 1)}, {self.array(dims[1:], depth - 2)})"
        return f"({self.array((dims[0], inner), depth - 1)} @ {self.array((inner, dims[1]), depth - 2)})"

    def solved(self, dims: tuple[Dim, ...], depth: int) -> str:
        """Linear algebra of matrices whose diagonal is large."""
        if len(dims) > 2 or (len(dims) == 2 and dims[0] != dims[1]):
            return self.product(dims, depth)
        d = dims[0] if dims else self.dim()
        matrix = (f"({2 + 0.5 * d.size} * pb.eye({self.extent(d)}, dtype=pb.{self.dtype}) "
                  f"+ 0.4 * pb.tanh({self.array((d, d), depth - 1)}))")  # fmt: skip
        if not dims:
            return f"(pb.linalg.det({matrix}) * 0.1)"
        if len(dims) == 1:
            return f"pb.linalg.solve({matrix}, {self.array(dims, depth - 2)})"
        if self.chance(0.3):
            return f"pb.linalg.solve({matrix}, {self.array(dims, depth - 2)})"
        return f"pb.linalg.{self.pick(('inv', 'cholesky'))}({matrix})"

    def verb(self, dims: tuple[Dim, ...], depth: int) -> str:
        """A rank verb."""
        if not dims:
            return f"pb.verbs.reduce(lambda a, b: pb.sin(a) - 0.5 * b, {self.array((self.dim(),), depth - 1)})"
        if len(dims) > 2:
            return self.build(dims, depth)
        extra, n = self.dim(), dims[-1]
        each = f"pb.verbs.each(lambda e: pb.{self.pick(ANYWHERE)}(e) * e)"
        window = self.pick(("pb.sum", "pb.max", "lambda w: pb.sum(w * w) * w[0]"))
        if len(dims) == 1:
            options = [(1.0, f"{each}({self.array(dims, depth - 1)})"),
                       (1.0, f"pb.verbs.reduce(lambda a, b: a - b * 0.5, {self.array((extra, n), depth - 1)}, axis=0)"),
                       (1.0, f"pb.verbs.stencil({window}, 3)({self.array(dims, depth - 1)})"),
                       (1.0, f"pb.verbs.power(lambda v: pb.tanh(v) + 0.1, 2)({self.array(dims, depth - 1)})")]
            if n.key.isdigit():
                given = self.array((extra,), depth - 1)
                options.append((2.0, f"pb.verbs.{self.pick(('take', 'reshape'))}({n.key}, {given})"))
                options.append((0.5, f"pb.verbs.take(-{n.key}, {given})"))
            return self.choose(*options)  # type: ignore[no-any-return]
        a = self.array(dims, depth - 1)
        weighed = self.pick(("r / (1.5 + pb.sum(pb.square(r)))", "r * pb.max(r)", "pb.verbs.reduce(pb.add, r) * r"))
        return self.choose(  # type: ignore[no-any-return]
            (1, f"pb.verbs.table({self.pick(('pb.multiply', 'pb.subtract', 'lambda a, b: pb.sin(a * b)'))})"
                f"({self.array(dims[:1], depth - 1)}, {self.array(dims[1:], depth - 2)})"),
            (1, f"pb.verbs.rank(lambda r: {weighed}, 1)({a})"),
            (1, f"pb.verbs.rank(pb.multiply, (0, 1))({self.array(dims[:1], depth - 2)}, {a})"),
            (0.5, f"pb.verbs.transpose({self.array((dims[1], dims[0]), depth - 1)})"),
            (0.5, f"{each}({a})"), (0.7, f"pb.verbs.stencil(pb.sum, (3, 1))({a})"),
        )  # fmt: skip

    # Loops --------------------------------------------------------------------------------------------------

    def fold(self, dims: tuple[Dim, ...], depth: int) -> str:
        """A loop over one to four states of these extents, which feed each other in some way."""
        count = self.choose((3, 1), (3, 2), (1.5, 3), (0.7, 4))
        inits = [self.array(dims, depth - 2) for _ in range(count)]
        state, t = self.loop_names()
        size = self.choose((3, 2), (3, 3), (1, 4), (1, 5))
        trips = self.pick(self.dims) if self.chance(0.4) else Dim(str(size), size)
        if dims and self.chance(0.4):
            trips = dims[0]
        extent = self.extent(trips)
        named = count == 2 and self.chance(0.3)  # a tree
        places = [state] if count == 1 else [f"{state}['p']", f"{state}['q'][0]"] if named else [
            f"{state}[{k}]" for k in range(count)]  # fmt: skip
        states = [Var(place, dims) for place in places]
        self.scope += states
        self.indices.append(IndexVar(t, trips))
        results = self.steps(dims, states, IndexVar(t, trips), depth)
        self.indices.pop()
        del self.scope[len(self.scope) - count :]
        self.loops -= 1
        init, result = (r[0] if count == 1 else f"{{'p': {r[0]}, 'q': ({r[1]},)}}" if named else f"({', '.join(r)})"
                        for r in (inits, results))  # fmt: skip
        text = f"pb.fold({extent}, {init}, lambda {state}, {t}: {result})"
        return text + self.pick(places).removeprefix(state)  # type: ignore[no-any-return]

    def steps(self, dims: tuple[Dim, ...], states: list[Var], t: IndexVar, depth: int) -> list[str]:
        """The next value of each state: the old one of another, or something new."""
        count = len(states)
        step = self.pointwise if self.chance(0.35) else self.step
        how = self.choose((3, "new"), (2, "chain"), (1, "rotate"), (1, "swap"), (2, "any")) if count > 1 else "new"
        if how == "rotate":
            turned = [states[(k + 1) % count].text for k in range(count)]
            turned[-1] = step(dims, states, t, depth)
            return turned
        if how == "chain":
            return [step(dims, states, t, depth), *(s.text for s in states[:-1])]
        if how == "swap":
            rest = [step(dims, states, t, depth - 1) for _ in states[2:]]
            return [states[1].text, step(dims, states, t, depth), *rest]
        if how == "any":
            return [self.pick(states).text if self.chance(0.4) else step(dims, states, t, depth - 1) for _ in states]
        return [step(dims, states, t, depth if k == 0 else depth - 1) for k in range(count)]

    def pointwise(self, dims: tuple[Dim, ...], states: list[Var], t: IndexVar, depth: int) -> str:
        """A new state, each element of which is made of the same elements of others."""
        same = [*states, *(v for v in self.scope if v.dims == dims)]
        a, b = self.pick(states).text, self.pick(same).text
        new = self.choose((3, f"{a} + {b}"), (2, f"{a} * {b}"), (1, f"{a} - 0.5 * {b}"), (1, f"0.9 * {a}"))
        return new if self.chance(0.3) else f"pb.{self.pick(('sin', 'tanh', 'atan'))}({new})"

    def step(self, dims: tuple[Dim, ...], states: list[Var], t: IndexVar, depth: int) -> str:
        """A new state."""
        old = self.pick(states)
        if len(dims) == 1 and dims[0].key == t.dim.key and self.chance(0.5):  # one element a step
            made = self.under(dims)
            inner = self.scalar(max(depth - 1, 1))
            self.leave(made)
            i = made[0].text
            return (f"pb.build({self.extent(dims[0])}, lambda {i}: "
                    f"pb.where({i} == {t.text}, pb.sin({inner}), {old.text}[{i}]))")  # fmt: skip
        if self.chance(0.3):
            return f"pb.tanh({self.array(dims, depth - 1)} + 0.5 * {old.text})"
        if not dims:
            return f"pb.sin({self.scalar(depth)} + 0.5 * {old.text})"
        extents = ", ".join(self.extent(d) for d in dims)
        made = self.under(dims)
        inner = self.scalar(max(depth - 1, 1))
        names = ", ".join(v.text for v in made)
        self.leave(made)
        wrap = self.choose((2, "pb.sin({} + 0.5 * {})"), (1, "({} * 0.5 + {})"), (1, "pb.tanh({} - {})"))
        body = wrap.format(inner, f"{old.text}[{names}]")
        return f"pb.build({f'({extents})' if len(dims) > 1 else extents}, lambda {names}: {body})"

    def scan(self, dims: tuple[Dim, ...], depth: int) -> str:
        """Rows of a loop."""
        if not dims:
            return self.fold(dims, depth)
        rest = dims[1:]
        init = self.array(rest, depth - 2)
        state, t = self.loop_names()
        extent = self.extent(dims[0])
        self.scope.append(Var(state, rest))
        self.indices.append(IndexVar(t, dims[0]))
        new = self.step(rest, [self.scope[-1]], self.indices[-1], depth - 1)
        row = state if self.chance(0.4) else self.step(rest, [self.scope[-1]], self.indices[-1], depth - 1)
        self.indices.pop()
        self.scope.pop()
        self.loops -= 1
        return f"pb.scan({extent}, {init} * 1.0, lambda {state}, {t}: ({new}, {row}))[1]"

    def loop(self, dims: tuple[Dim, ...], depth: int) -> str:
        """A while loop, whose number of steps a counter or an argument decides."""
        if self.indices:
            return self.build(dims, depth)
        init = self.array(dims, depth - 2)
        state, t = self.loop_names()
        old = Var(f"{state}[0]", dims)
        self.scope.append(old)
        new = self.step(dims, [old], IndexVar(t, Dim("never", 0)), depth)
        self.scope.pop()
        self.loops -= 1
        steps = int(self.rng.integers(0, 4))
        test = f"{state}[1] < {steps}"
        if self.chance(0.3):
            limit = self.choose((1, "0.5"), (1, "2.5"))
            amount = self.reduction(1, "max")
            test = f"({state}[1] < {steps}) & ({amount} < {limit})"
        return (f"pb.while_loop(lambda {state}: {test}, lambda {state}: ({new}, {state}[1] + 1), "
                f"({init} * 1.0, 0), max_trips={steps + int(self.rng.integers(0, 3)) or 1})[0]")  # fmt: skip

    def cond(self, dims: tuple[Dim, ...], depth: int) -> str:
        given = self.array(dims, depth - 2)
        test = self.condition(1) if self.chance(0.4) else f"({self.element(self.pick(self.inputs))} > {self.number()})"
        name = f"a{len(self.scope)}"
        self.scope.append(Var(name, dims))
        then, otherwise = self.array(dims, depth - 1), self.array(dims, depth - 2)
        self.scope.pop()
        return f"pb.cond({test} & True, lambda {name}: {then} * 1.0, lambda {name}: {otherwise} * 1.0, {given})"

    # Functions ----------------------------------------------------------------------------------------------

    def apart(self, f: Any) -> Any:
        """What is written with nothing in scope but inputs' shapes: the body of a function of its own."""
        saved = self.scope, self.indices, self.integers, self.inputs, self.loops, self.dims
        self.scope, self.indices, self.integers, self.inputs, self.loops = [], [], [], [], 0
        try:
            return f()
        finally:
            self.scope, self.indices, self.integers, self.inputs, self.loops, self.dims = saved

    def call(self, dims: tuple[Dim, ...], depth: int) -> str:
        """A function of its own of two arrays: plain, a checkpoint, or with a rule."""
        if self.indices or len(self.helpers) > 3:
            return self.build(dims, depth)
        given = [self.typed(dims, depth - 2) for _ in range(2)]
        name = f"g{len(self.helpers)}"
        self.helpers.append("")
        at = len(self.helpers) - 1

        def body() -> str:
            self.inputs = [Var("a", dims), Var("b", dims)]
            self.scope, self.dims = list(self.inputs), list(dims) or [Dim("2", 2)]
            return self.array(dims, depth - 1)

        inner = self.apart(body)
        how = self.choose((1, "plain"), (1, "checkpoint"), (1.2, "jvp"), (1.2, "vjp"), (0.7, "tree"), (0.7, "static"))
        lines = [f"def {name}(a, b):", f"    return {inner} * 1.0", ""]
        if how == "checkpoint":
            lines = ["@pb.checkpoint", *lines]
        elif how == "jvp":
            weights = "(pb.cos(p[0]) + out)", "(p[1] * 0.5)"
            lines += [f"{name} = pb.custom_derivative({name}, "
                      f"jvp=lambda p, out, t: t[0] * {weights[0]} + t[1] * {weights[1]})", ""]  # fmt: skip
        elif how == "vjp":
            lines += [f"{name} = pb.custom_derivative({name}, vjp=lambda p, out, c: (c * pb.sin(p[1]), c * out))", ""]
        elif how == "tree":
            lines = [f"def {name}(t):", "    a, b = t['first'], t['rest'][0]", *lines[1:]]
        elif how == "static":
            lines = ["@pb.function", f"def {name}(a, b, n: pb.Static):", f"    return {inner} * n", ""]
        self.helpers[at] = "\n".join(lines)
        first, second = given
        if how == "tree":
            return f"{name}({{'first': {first}, 'rest': ({second},)}})"
        return f"{name}({first}, {second}{', 2' if how == 'static' else ''})"

    def typed(self, dims: tuple[Dim, ...], depth: int) -> str:
        """An array of the program's dtype: a single value may be made of numbers alone, which take that of others."""
        return f"{self.array(dims, depth)} * " + ("1.0" if dims else f"pb.ones((), dtype=pb.{self.dtype})")

    def inner_derivative(self, dims: tuple[Dim, ...], depth: int) -> str:
        """The derivative of a closure."""
        if self.indices:
            return self.build(dims, depth)
        given = self.typed(dims, depth - 2)
        name = f"v{len(self.scope)}"
        self.scope.append(Var(name, dims))
        inner = self.array(dims, depth - 1)
        self.scope.pop()
        how = self.choose((2, "grad"), (1, "jvp"), (1, "vjp"), (0.5, "hvp"))
        if how == "grad":
            return f"pb.grad(lambda {name}: pb.sum({inner} * 0.5))({given})"
        if how == "jvp":
            return f"pb.jvp(lambda {name}: {inner} * 1.0)(({given},), ({self.typed(dims, 0)},))[1]"
        if how == "vjp":
            return f"pb.vjp(lambda {name}: {inner} * 1.0)({given}, {self.typed(dims, 0)})[1][0]"
        return f"pb.hvp(lambda {name}: pb.sum({inner}))(({given},), {self.typed(dims, 0)})"

    def mapped(self, dims: tuple[Dim, ...], depth: int) -> str:
        if not dims or self.indices:
            return self.build(dims, depth)
        a = self.array(dims, depth - 1)
        name = f"r{len(self.scope)}"
        self.scope.append(Var(name, dims[1:]))
        inner = self.array(dims[1:], depth - 1)
        self.scope.pop()
        return f"pb.vmap(lambda {name}: {inner} + 0.5 * {name})({a})"

    # Queries ------------------------------------------------------------------------------------------------

    def queries(self, scalar: bool) -> list[str]:
        """Expressions that ask for derivatives."""
        names = self.names
        args = ", ".join(names)
        floats = [v for v in self.inputs if v.text in names]
        wanted = [v for v in floats if self.chance(0.7)] or floats[:1]
        wrt = tuple(v.text for v in wanted)
        first = wanted[0]
        tangents = ", ".join(self.direction(n) if self.arguments[n].dtype.kind == "f" else "None" for n in names)
        tangents = f"({tangents},)"
        one = f"wrt={wrt[0]!r}"
        if not scalar:
            return self.array_queries(args, wrt, one, tangents)
        reverse = f"pb.grad(f, wrt={wrt})"
        turned = (f"pb.grad(lambda {args}: pb.sum(pb.sin(pb.grad(f, {one})({args}))), wrt={wrt})({args})")
        halves = f"pb.forward_backward(f, wrt={wrt})"
        opened = ", ".join(f"t[{n!r}][0]" if n in wrt else n for n in names)
        tree = ", ".join(f"{n!r}: ({n},)" for n in wrt)
        options: list[tuple[float, str]] = [
            (3, f"pb.jvp({reverse})(({args},), {tangents})"),
            (2, turned),
            (1.5, f"pb.hvp(f, {one})(({args},), {self.direction(first.text)})"),
            (1, f"pb.hessian(f, {one})({args})"),
            (0.5, f"pb.hessian(f, {one}, sparse=True)({args})"),
            (0.4, f'pb.hessian(f, {one}, sparse="coloured")({args})'),
            (1, f'pb.jacobian(pb.grad(f, {one}), {one}, mode="{self.pick(("reverse", "mixed", "auto"))}")({args})'),
            (1, f"pb.jvp(f)(({args},), {tangents})"),
            (0.7, f"pb.vjp(f, wrt={wrt})({args}, cotangent={self.literal()})"),
            (0.4, f"{halves}[1]({halves}[0]({args})[1], {self.literal()})"),
            (0.7, self.batched(reverse, names)),
            (0.4, f"pb.jvp(pb.jvp(f))((({args},), {tangents}), ({tangents}, None))"),
            (0.4, f"pb.grad(lambda {args}: pb.sum(pb.jvp(pb.grad(f, {one}))(({args},), {tangents})[1]))({args})"),
            (0.5, f"pb.grad(lambda t, {args}: f({opened}), wrt='t')({{{tree}}}, {args})"),
        ]  # fmt: skip
        return [f"pb.value_and_grad(f, wrt={wrt})({args})", self.choose(*options)]

    def array_queries(self, args: str, wrt: tuple[str, ...], one: str, tangents: str) -> list[str]:
        names = self.names
        mode = self.pick(("forward", "reverse", "mixed", "auto"))
        options: list[tuple[float, str]] = [
            (3, f'pb.jacobian(f, wrt={wrt}, mode="{mode}")({args})'),
            (0.8, f"pb.jacobian(f, {one}, sparse=True)({args})"),
            (0.7, f'pb.jacobian(f, {one}, sparse="coloured")({args})'),
            (1, f"pb.jvp(f)(({args},), {tangents})"),
            (1, f"pb.jvp(pb.jacobian(f, {one}))(({args},), {tangents})"),
            (1, f'pb.jacobian(pb.jacobian(f, {one}, mode="reverse"), {one}, mode="{mode}")({args})'),
            (0.7, self.batched("f", names)),
        ]
        return [f"f({args})", self.choose(*options)]

    def direction(self, name: str) -> str:
        """A direction in which an argument moves, as an argument of its own."""
        shape = self.arguments[name].shape
        self.arguments[f"d{name}"] = np.round(self.rng.uniform(-1.5, 1.5, shape), 1).astype(self.dtype)
        return f"d{name}"

    def literal(self) -> str:
        return f"np.{self.dtype}(0.7)"

    def batched(self, f: str, names: Sequence[str]) -> str:
        moved = [n for n in names if self.arguments[n].dtype.kind == "f" and self.chance(0.6)] or [names[0]]
        axes = tuple(0 if n in moved else None for n in names)
        args = ", ".join(f"np.stack([{n}, {n} * {n}.dtype.type(0.5)])" if n in moved else n for n in names)
        return f"pb.vmap({f}, in_axes={axes})({args})"


def with_settings(sample: Sample, settings: str) -> Sample:
    """The program with settings of its function."""
    return replace(sample, source=sample.source.replace("@pb.function\n", f"@pb.function({settings})\n"))


__all__ = ["Sample", "random_source", "with_settings"]
