"""Knowledge of the numbers of a traced function: whether they have a session's bits, and their range.

Compiled code adds and multiplies in another order than NumPy, fuses a multiplication with an addition, and has other
functions of libm. The last digits of such a *rough* number differ from a session's. Under `pb.exact()` they do only for
reductions and libm.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf, prod, sqrt
from typing import Any, Final

from pullback.ir import nodes as ir
from pullback.ir.index import as_index
from pullback.tracing.array import Array
from pullback.tracing.making import axes_for
from pullback.tracing.tracer import current

LARGE: Final = 1e50  # numbers beyond are left to the session
WHOLE: Final = 2.0**52  # integers up to here, and sums of two, are floating-point numbers, too
KEPT: Final = frozenset(
    ("abs", "maximum", "minimum", "floor", "ceil", "round", "trunc", "sign", "copysign", "remainder")
)
"""Primitives whose result has the right bits if their arguments have."""
IN_ORDER: Final = frozenset(("divide", "sqrt"))  # such primitives under `pb.exact()`
BETWEEN: Final = {"sin": 1.0, "cos": 1.0, "tanh": 1.0, "sign": 1.0, "log": 1e3, "asinh": 1e3, "atan": 2.0, "acos": 4.0,
                  "asin": 2.0}  # fmt: skip
"""The largest magnitude of some functions."""

Range = tuple[float, float]


def _key(x: Array) -> Any:
    e = element_of(x)
    return e.ref if isinstance(e, ir.Get) else e


def element_of(x: Array) -> ir.Scalar:
    """The expression of any element."""
    return x.element(tuple(as_index(v) for v in axes_for(x.extents)))


def defined(x: Any) -> ir.Scalar | None:
    """The expression of any element; that of the statement which makes the array, if there is one."""
    e = element_of(x) if isinstance(x, Array) else None
    return (_defined(e.ref) or e) if isinstance(e, ir.Get) else e


def is_rough(x: Array, exact: bool) -> bool:
    """Whether the bits of a floating-point array may differ from a session's."""
    return _rough(element_of(x), exact)


def _defined(ref: ir.Ref) -> ir.Scalar | None:
    """The expression of the elements of an array that a statement makes; None for others."""
    for scope in current().scopes:
        for statement in reversed(scope.statements):
            if isinstance(statement, ir.Build) and ref in statement.outs:
                return statement.values[statement.outs.index(ref)]
    return None


def _is_given(ref: ir.Ref) -> bool:
    tracer = current()
    return ref in tracer.inputs or any(ref is own for own, _ in tracer.captured.values())


def _rough(e: ir.Scalar, exact: bool) -> bool:
    if not e.dtype.is_floating:
        return False
    match e:
        case ir.Get():
            if _is_given(e.ref):
                return False
            value = _defined(e.ref)
            return value is None or _rough(value, exact)
        case ir.Cast() | ir.Bracket():
            return _rough(e.arg, exact)
        case ir.Select():
            return _rough(e.then, exact) or _rough(e.otherwise, exact)
        case ir.Mul(args=(ir.Const(value=1.0 | -1.0), x)):
            return _rough(x, exact)
        case ir.Add() | ir.Mul():
            return not exact or any(_rough(a, exact) for a in e.args)
        case ir.Apply():
            keeps = e.primitive.name in KEPT or (exact and e.primitive.name in IN_ORDER)
            return not keeps or any(_rough(a, exact) for a in e.args)
        case ir.Reduce():
            return e.op not in ("max", "min") or _rough(e.arg, exact)
        case ir.Const() | ir.Zero() | ir.FromIndex():
            return False
        case _:
            return True


class Ranges:
    """The ranges of numbers, if the tests of a watch hold.

    Numbers that come from outside, from a loop's state or a call, and those that a test has seen are at most `LARGE`,
    and integers at most `WHOLE`.
    """

    def __init__(self) -> None:
        self._known: dict[ir.Scalar, Range] = {}
        self._tested: set[Any] = set()
        self._open: set[Any] = set()

    def of(self, x: Any) -> Range:
        """The least and the greatest number of an array, as far as is known."""
        return self._range(element_of(x)) if isinstance(x, Array) else (float(x), float(x))

    def size(self, x: Any) -> float:
        """The largest magnitude."""
        return max(map(abs, self.of(x)))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Forget at the end what was noted inside, as in a branch that may not run."""
        before = set(self._tested), set(self._open)
        try:
            yield
        finally:
            self._tested, self._open = before
            self._known.clear()

    def tested(self, x: Array) -> None:
        """Note that a test has seen an array."""
        self._open.discard(_key(x))
        self._tested.add(_key(x))
        self._known.clear()

    def open(self, x: Array) -> None:
        """Note that nothing is known of an array, whose numbers need not be finite."""
        self._open.add(_key(x))
        self._known.clear()

    def _range(self, e: ir.Scalar) -> Range:
        found = self._known.get(e)
        if found is None:
            found = self._known[e] = self._found(e)
        return found

    def _found(self, e: ir.Scalar) -> Range:
        most = LARGE if e.dtype.is_floating else WHOLE
        if e.dtype.is_bool:
            return 0.0, 1.0
        if e in self._tested:
            return -most, most
        if (e.ref if isinstance(e, ir.Get) else e) in self._open:
            return -inf, inf
        match e:
            case ir.Const():
                return float(e.value), float(e.value)
            case ir.Zero():
                return 0.0, 0.0
            case ir.Get():
                if e.ref in self._tested or e.ref in current().inputs:
                    return -most, most
                for ref, array in current().captured.values():
                    if ref is e.ref:
                        return _of_numbers(array)
                value = _defined(e.ref)
                return (-most, most) if value is None else self._range(value)
            case ir.Cast():
                return self._range(e.arg)
            case ir.Bracket():
                low, high = self._range(e.arg)
                return min(low, 0.0), max(high, 0.0)
            case ir.Select():
                return _around(self._range(e.then), self._range(e.otherwise))
            case ir.Add():
                parts = [self._range(a) for a in e.args]
                return sum(low for low, _ in parts), sum(high for _, high in parts)
            case ir.Mul():
                return self._product(e.args)
            case ir.Apply():
                return self._applied(e.primitive.name, [self._range(a) for a in e.args], most)
            case ir.Reduce():
                return self._reduced(e, most)
            case _:
                return -most, most

    def _product(self, args: tuple[ir.Scalar, ...]) -> Range:
        made = (1.0, 1.0)
        for k, a in enumerate(args):
            if a in args[:k]:
                continue
            low, high = _times(self._range(a), self._range(a)) if args.count(a) == 2 else self._range(a)
            made = _times(made, (max(low, 0.0), high) if args.count(a) == 2 else (low, high))
            if args.count(a) > 2:
                made = (-inf, inf)
        return made

    def _applied(self, name: str, given: list[Range], most: float) -> Range:
        low, high = given[0]
        match name:
            case "exp":
                return 0.0, most
            case "abs":
                return max(low, -high, 0.0), max(-low, high)
            case "sqrt":
                return 0.0, sqrt(max(high, 0.0))
            case "maximum":
                return max(low, given[1][0]), max(high, given[1][1])
            case "minimum":
                return min(low, given[1][0]), min(high, given[1][1])
            case "floor" | "ceil" | "round" | "trunc":
                return low - 1, high + 1
            case "divide" if given[1][0] > 0:
                return _times(given[0], (1 / given[1][1], 1 / given[1][0]))
            case "remainder":
                room = max(map(abs, (*given[0], *given[1])))
                return -room, room
            case _:
                room = BETWEEN.get(name, most)
                return -room, room

    def _reduced(self, e: ir.Reduce, most: float) -> Range:
        low, high = self._range(e.arg)
        if e.op in ("max", "min"):
            return low, high
        if e.op != "sum":
            return -most, most
        sizes = [v.extent.constant for v in e.vars]
        count = prod(inf if n is None else n for n in sizes)
        return count * low if low else 0.0, count * high if high else 0.0


def _of_numbers(x: Any) -> Range:
    low, high = float(x.min(initial=0)), float(x.max(initial=0))
    return (low, high) if low - high <= 0 else (-inf, inf)  # there are numbers that are none


def _around(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def _times(a: Range, b: Range) -> Range:
    made = [x * y if x and y else 0.0 for x in a for y in b]
    return min(made), max(made)
