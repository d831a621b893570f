"""Random programs that write arrays in place, as source text that runs on NumPy and on lazy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

SHAPES = ((4,), (2, 3), (2, 2, 3))


def own(xp: Any, x: Any) -> Any:
    """The result of an operation; of NumPy in row-major order, as results of this package are."""
    return np.array(x, order="C")[()] if isinstance(x, np.ndarray | np.generic) else x


class Generator:
    """A random program of `steps` statements. Each is run on NumPy as it is made, so that all fit."""

    def __init__(self, seed: int, steps: int = 14, smooth: bool = False, views: bool = True) -> None:
        self.r = np.random.default_rng(seed)
        self.smooth = smooth
        self.lines: list[str] = []
        self.space: dict[str, Any] = {"xp": np, "np": np, "own": own, "t": 1.0}
        self.count = 0
        makers: Sequence[Callable[[], str]] = (
            self.view, self.view, self.written, self.written, self.written, self.written, self.combined, self.alias,
            self.operated,
        )  # fmt: skip
        self.makers = [m for m in makers if views or m != self.view]
        for _ in range(2):
            self.add(self.created)
        for _ in range(steps):
            self.add(self.makers[self.r.integers(len(self.makers))])

    @property
    def source(self) -> str:
        """The program, which leaves its arrays in variables."""
        return "\n".join(self.lines)

    def add(self, make: Callable[[], str]) -> None:
        """Add a statement that runs."""
        for _ in range(20):
            try:
                line = make()
                exec(line, self.space)
            except (ValueError, IndexError, TypeError):
                continue
            self.lines.append(line)
            self.count += f"v{self.count}" in self.space
            return

    # Statements -------------------------------------------------------------------------------------------------------

    def new(self) -> str:
        """The name of another array."""
        return f"v{self.count}"

    @property
    def names(self) -> list[str]:
        """The names of the arrays."""
        return [f"v{k}" for k in range(self.count)]

    def any(self) -> str:
        """The name of an array."""
        return self.names[self.r.integers(len(self.names))]

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an array."""
        return tuple(np.shape(self.space[name]))

    def number(self) -> float:
        """A short number."""
        return round(float(self.r.normal()), 2)

    def created(self) -> str:
        """A new array."""
        shape = SHAPES[self.r.integers(len(SHAPES))]
        if self.r.random() < 0.3 and self.lines:
            return f"{self.new()} = xp.zeros({shape})"
        values = self.r.normal(size=shape).round(2).tolist()
        return f"{self.new()} = own(xp, xp.asarray({values}) * t)"

    def key(self, shape: Sequence[int], basic: bool = False) -> str:
        """A subscript."""
        if not basic and shape and self.r.random() < 0.12:
            count = int(self.r.integers(1, 4))
            return f"np.array({self.r.integers(-shape[0], shape[0], count).tolist()})"
        items = []
        for n in shape[: self.r.integers(1, len(shape) + 1)] if shape else ():
            kind = self.r.random()
            if kind < 0.35:
                items.append(str(self.r.integers(-n, n)))
            elif kind < 0.9:
                low, high = sorted(self.r.integers(0, n + 1, 2).tolist())
                step = int(self.r.choice([1, 1, 2, -1]))
                items.append(f"{low}:{high}:{step}" if step > 0 else f"{high}:{low - 1 if low else ''}:{step}")
            else:
                items.append(":")
        if self.r.random() < 0.1:
            items.insert(0, "...") if len(items) == len(shape) else items.append("...")
        if basic and self.r.random() < 0.1:
            items.insert(0, "None")
        return ", ".join(items) or "..."

    def view(self) -> str:
        """A view."""
        x = self.any()
        shape = self.shape(x)
        rank = len(shape)
        kind = self.r.integers(10)
        made = {
            0: f"{x}.T" if rank == 2 else f"{x}[...]",
            1: f"xp.reshape({x}, (-1,))", 2: f"xp.reshape({x}, {shape[::-1]})",
            3: f"np.transpose({x}, {tuple(self.r.permutation(rank).tolist())})", 4: f"xp.flip({x}, axis=0)",
            5: f"xp.expand_dims({x}, axis=0)", 6: f"xp.broadcast_to({x}, {(2, *shape)})",
        }.get(int(kind), f"{x}[{self.key(shape, basic=True)}]")  # fmt: skip
        return f"{self.new()} = {made}"

    def value(self, shape: Sequence[int]) -> str:
        """A value that may broadcast to a shape."""
        fitting = [
            n for n in self.names
            if len(self.shape(n)) <= len(shape)
            and all(a in (1, b) for a, b in zip(self.shape(n)[::-1], tuple(shape)[::-1]))
        ]  # fmt: skip
        if fitting and self.r.random() < 0.6:
            found = fitting[self.r.integers(len(fitting))]
            return found if self.r.random() < 0.5 else f"{found} * {self.number()}"
        return str(self.number())

    def written(self) -> str:
        """A write in place."""
        x = self.any()
        kind = self.r.random()
        shape = self.shape(x)
        sign = self.r.choice(["", "", "+", "-", "*"])
        if kind < 0.15:
            return f"{x} {sign or '+'}= {self.value(shape)}"
        if kind < 0.25 and shape and not self.smooth:
            return f"{x}[{x} > {self.number()}] {sign}= {self.number()}"
        key = self.key(shape)
        try:
            selected = np.shape(eval(f"{x}[{key}]", self.space))
        except IndexError:
            selected = ()
        value = self.value(selected)
        if key.startswith("np.array"):
            value = f"own(xp, {value})"  # NumPy 1 may overwrite a value that shares its elements before it reads them
        return f"{x}[{key}] {sign}= {value}"

    def combined(self) -> str:
        """A new array from two."""
        x = self.any()
        return f"{self.new()} = own(xp, {x} * {self.number()} + {self.value(self.shape(x))})"

    def operated(self) -> str:
        """A new array from one."""
        x = self.any()
        function = self.r.choice(["sin", "tanh", "square", "cos"])
        return f"{self.new()} = own(xp, xp.{function}({x}))"

    def alias(self) -> str:
        """Another name."""
        return f"{self.new()} = {self.any()}"


def run(source: str, xp: Any, t: Any = 1.0) -> dict[str, Any]:
    """The arrays that a program leaves."""
    space: dict[str, Any] = {"xp": xp, "np": np, "own": own, "t": t}
    exec(source, space)
    return {name: x for name, x in space.items() if name.startswith("v")}


class Complex:
    """NumPy with complex zeros, for derivatives by a complex step."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def zeros(self, shape: Any) -> Any:
        """Zeros that can take any value."""
        return np.zeros(shape, complex)


def loss(source: str, xp: Any, t: Any) -> Any:
    """A number that depends on all arrays that a program leaves."""
    total: Any = 0.0
    for k, x in enumerate(run(source, xp, t).values()):
        total = total + xp.sum(xp.sin(x * (0.1 + 0.01 * k)))
    return total
