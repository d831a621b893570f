"""Gradients of random programs of lazy arrays with Python's control flow, compared with dual numbers in plain Python.

A program is text that runs with `lazy` and with the class here. Some let a number leave: that is refused where the
dual number has a tangent, and free where it is a constant.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pullback import DerivativeError, lazy

COUNT = 200 * (10 if os.environ.get("PULLBACK_NIGHTLY") else 1)


class Left(Exception):
    """A number left that the gradient depends on."""


class Dual:
    """value + tangent ε, of the gradient of this depth; the parts may be dual numbers of outer gradients."""

    def __init__(self, value: Any, tangent: Any, depth: int) -> None:
        self.value, self.tangent, self.depth = value, tangent, depth

    def __add__(self, other: Any) -> Any:
        return through(lambda a, b: a + b, lambda a, b: (1.0, 1.0), self, other)

    def __sub__(self, other: Any) -> Any:
        return through(lambda a, b: a - b, lambda a, b: (1.0, -1.0), self, other)

    def __rsub__(self, other: Any) -> Any:
        return through(lambda a, b: a - b, lambda a, b: (1.0, -1.0), other, self)

    def __mul__(self, other: Any) -> Any:
        return through(lambda a, b: a * b, lambda a, b: (b, a), self, other)

    def __truediv__(self, other: Any) -> Any:
        return through(lambda a, b: a / b, lambda a, b: (1.0 / b, -1.0 * a / (b * b)), self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return through(lambda a, b: a / b, lambda a, b: (1.0 / b, -1.0 * a / (b * b)), other, self)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Any:
        return -1.0 * self

    def __abs__(self) -> Any:
        return self if plain(self) >= 0 else -self

    def __pow__(self, n: int) -> Any:
        return through(lambda a: a**n, lambda a: (float(n) * a ** (n - 1) if n > 1 else 1.0,), self)

    def __lt__(self, other: Any) -> bool:
        return plain(self) < plain(other)

    def __gt__(self, other: Any) -> bool:
        return plain(self) > plain(other)

    def __int__(self) -> int:
        return int(plain(self))

    def __float__(self) -> float:
        raise Left


def plain(x: Any) -> float:
    return plain(x.value) if isinstance(x, Dual) else x


def through(f: Callable[..., Any], partials: Callable[..., Any], *args: Any) -> Any:
    """f of numbers, the deepest of which are dual."""
    depth = max(a.depth if isinstance(a, Dual) else -1 for a in args)
    if depth < 0:
        return f(*args)
    values = [a.value if isinstance(a, Dual) and a.depth == depth else a for a in args]
    tangent: Any = 0.0
    for a, p in zip(args, partials(*values), strict=True):
        if isinstance(a, Dual) and a.depth == depth:
            tangent = tangent + p * a.tangent
    return Dual(f(*values), tangent, depth)


def sin(x: Any) -> Any:
    return through(sin, lambda a: (cos(a),), x) if isinstance(x, Dual) else math.sin(x)


def cos(x: Any) -> Any:
    return through(cos, lambda a: (-1.0 * sin(a),), x) if isinstance(x, Dual) else math.cos(x)


def exp(x: Any) -> Any:
    return through(exp, lambda a: (exp(a),), x) if isinstance(x, Dual) else math.exp(x)


def tanh(x: Any) -> Any:
    return through(tanh, lambda a: (1.0 - tanh(a) * tanh(a),), x) if isinstance(x, Dual) else math.tanh(x)


DEPTH = [0]


def grad(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def derivative(x: Any) -> Any:
        DEPTH[0] += 1
        try:
            y = f(Dual(x, 1.0, DEPTH[0]))
            return y.tangent if isinstance(y, Dual) and y.depth == DEPTH[0] else 0.0
        finally:
            DEPTH[0] -= 1

    return derivative


DUAL = SimpleNamespace(sin=sin, cos=cos, exp=exp, tanh=tanh, grad=grad, floor=lambda x: float(math.floor(plain(x))),
                       stop_gradient=plain)  # fmt: skip
LAZY = SimpleNamespace(sin=lazy.sin, cos=lazy.cos, exp=lazy.exp, tanh=lazy.tanh, floor=lazy.floor,
                       grad=lazy.grad, stop_gradient=lazy.stop_gradient)  # fmt: skip


class Writer:
    """A random program of x and y: lines that change a list of values, kept small so that nothing overflows."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []

    def value(self) -> str:
        return f"v[{self.r.randrange(5)}]"

    def number(self) -> str:
        return f"{self.r.uniform(0.2, 1.9):.4f}"

    def expression(self, depth: int = 2) -> str:
        if depth == 0 or self.r.random() < 0.15:
            return self.value() if self.r.random() < 0.75 else self.number()
        a, b = self.expression(depth - 1), self.expression(depth - 1)
        return self.r.choice((
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} * {b})", f"{a} / (1.5 + {b} * {b})",
            f"m.sin({a})", f"m.cos({a})", f"m.tanh({a})", f"m.exp(-1.0 * ({a}) ** 2)",
            f"({a}) ** {self.r.randint(2, 3)}",
            f"abs({a})", f"max({a}, {b})", f"min({a}, {b} + 0.0123)", f"m.floor({a}) * {b}", f"int({a}) * {b}",
            f"m.stop_gradient({a}) * {b}",
        ))  # fmt: skip

    def line(self, indent: str) -> None:
        what, target = self.r.random(), self.value()
        put = lambda text: self.lines.append(indent + text)
        inner = indent + "    "
        if what < 0.45 or len(indent) > 8:
            put(f"{target} = m.tanh({self.expression()}) * 2.0")
        elif what < 0.6:
            put(f"if {self.expression(1)} > {self.expression(1)} + 0.0321:")
            self.line(inner)
            put("else:")
            self.line(inner)
        elif what < 0.7:
            put(f"for k in range(int(abs({self.value()}) * 2.0) + 1):")
            self.line(inner)
        elif what < 0.8:
            put(f"while abs({target}) > 0.5:")
            put(f"    {target} = {target} * {self.r.uniform(0.4, 0.8):.3f}")
        elif what < 0.9:
            inner = f"m.sin(t) * {self.expression(1)} + t * {self.expression(1)}"
            put(f"{target} = m.grad(lambda t: {inner})({self.value()})")
        elif what < 0.95:
            put(f"{target} = float(m.stop_gradient({self.value()})) * {self.value()}")
        else:
            put(f"{target} = float({self.value()}) * {self.value()}")  # refused where it depends on x or y

    def text(self) -> str:
        self.lines = ["def f(x, y):", "    v = [x, y, 0.7, x * y, 1.2 - y]"]
        for _ in range(self.r.randint(2, 6)):
            self.line("    ")
        return "\n".join([*self.lines, "    return v[0] + v[1] * v[2] + v[3] + v[4] + 0.0 * x"])


def program(text: str, m: Any) -> Callable[..., Any]:
    space: dict[str, Any] = {"m": m}
    exec(text, space)
    return space["f"]  # type: ignore[no-any-return]


def expected(text: str, x: float, y: float) -> list[float] | None:
    """The gradient; None where a number that it depends on leaves."""
    f = program(text, DUAL)
    try:
        return [grad(lambda t: f(t, y))(x), grad(lambda t: f(x, t))(y)]
    except Left:
        return None


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_gradients_of_random_programs(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    left = 0
    for seed in range(part, COUNT, 4):
        text = Writer(seed).text()
        x, y = random.Random(-seed - 1).uniform(-1.5, 1.5), random.Random(-seed - 2).uniform(-1.5, 1.5)
        wanted = expected(text, x, y)
        f = program(text, LAZY)
        try:
            found = [float(lazy.grad(f, wrt)(x, y)) for wrt in (0, 1)]
        except DerivativeError as error:
            assert error.code == "E715" and wanted is None, f"{seed}: {error}\n{text}"
            left += 1
        else:
            assert wanted is not None, f"{seed}: a number left and the gradient is {found}\n{text}"
            assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9), f"{seed}: {found} for {wanted}\n{text}"
    assert 0 < left < COUNT // 8
