"""Tests that must hold for compiled code to mean what a session computes.

A session refuses results that are not finite, takes 0÷0 as 1, and turns integers that overflow into floating-point
numbers; compiled code does not. While a `Watch` is active in a thread, each verb that is traced there adds a test of
its arguments or its result, unless that is known from the ranges of the numbers. The tests together are one more
result of the function. A construct that needs a test which nobody has written is refused.

Tests are made where their operands are. Inside of `¨`, `⍤` and the like they hold for all indices, and a loop or a
branch hands them out as a part of its state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from math import inf
from typing import Any, Final, NoReturn

import numpy as np

import pullback as pb
from pullback.apl.bits import BETWEEN, LARGE, WHOLE, Ranges, defined, is_rough
from pullback.apl.numbers import as_numbers, kind_of
from pullback.apl.values import Value, holds_traced, lifted, shape_of
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Var, as_index
from pullback.ir.traverse import Substitution
from pullback.state import PerThread
from pullback.tracing.array import Array
from pullback.tracing.making import axes_for, from_ref
from pullback.tracing.tracer import current
from pullback.verbs.nested import Nested

ROOM: Final = 1e300  # numbers up to here need no test, as they are finite
LOG_LARGE: Final = 115.0
MOST: Final = 400  # tests of a function


class NotSameError(Exception):
    """A construct whose compiled result may differ; `exact` says whether `pb.exact()` may help."""

    def __init__(self, what: str, exact: bool = False) -> None:
        super().__init__(what)
        self.exact = exact


class _Now(PerThread):
    """The watch of this thread."""

    watch: Watch | None = None


_NOW: Final = _Now()


def watching() -> Watch | None:
    """The active watch; None if there is none."""
    return _NOW.watch


def refuse(what: str) -> None:
    """Refuse a construct while a watch is active."""
    if _NOW.watch is not None:
        raise NotSameError(what)


@contextmanager
def _active(watch: Watch | None) -> Iterator[None]:
    before, _NOW.watch = _NOW.watch, watch
    try:
        yield
    finally:
        _NOW.watch = before


def unwatched() -> Any:
    """Trace inside without tests: the code is compiled in a session, too."""
    return _active(None)


def handed(x: Any) -> Any:
    """Return the value of an operand, which becomes a part of a value that is tested if there is a watch."""
    return x if _NOW.watch is None else _NOW.watch.handed(x)


def tests() -> Any:
    """Collect the tests of a loop's body or a branch, which has been entered, if there is a watch."""
    return nullcontext() if _NOW.watch is None else _NOW.watch.block()


def first_held(state: Sequence[Any]) -> tuple[Any, ...]:
    """Test a loop's first state; return the part that says whether all tests hold, if there is a watch."""
    if _NOW.watch is None:
        return ()
    for x in state:
        _NOW.watch.made(x, most=LARGE)
    return (True,)


def held(results: Sequence[Any], *before: Any) -> tuple[Any, ...]:
    """Whether the tests of a block, its results and the steps before hold; nothing without a watch."""
    if _NOW.watch is None:
        return ()
    found = _NOW.watch.held(results, LARGE)
    return (pb.logical_and(before[0], found) if before else found,)


def passed(*found: Any) -> None:
    """Add a test that has been made in a loop or a branch."""
    if _NOW.watch is not None:
        _NOW.watch.must(found[0])


def called(x: Any) -> None:
    """Note a result of a function that is compiled in a session, too: its numbers need not be finite."""
    if _NOW.watch is not None:
        _NOW.watch.ranges.open(x)


class _Block:
    """The tests of one block of the program: of the function, a loop's body, or a branch."""

    def __init__(self) -> None:
        self.scope = current().scope
        self.tests: list[ir.Scalar] = []
        self.nests: dict[int, _Nest] = {}
        self.open: dict[int, Array] = {}  # computed from numbers of which nothing is known, and to be tested


class _Nest:
    """A nest, and whether its elements are computed or only moved; None until one is asked for."""

    def __init__(self, nest: Nested) -> None:
        self.nest = nest
        self.lifted = tuple(current().lifted)
        self.computed: bool | None = None


class Watch:
    """The tests of a function that is being traced.

    Args:
        exact: whether it is traced under `pb.exact()`.
        going: a function that says whether to go on.
    """

    def __init__(self, exact: bool, going: Callable[[], bool] = lambda: True) -> None:
        self.exact = exact
        self.going = going
        self.ranges = Ranges()
        self._blocks: list[_Block] = []
        self._count = 0

    # Blocks -----------------------------------------------------------------------------------------------------

    @contextmanager
    def active(self) -> Iterator[None]:
        """Watch what is traced in this thread."""
        with _active(self):
            yield

    @contextmanager
    def block(self) -> Iterator[None]:
        """Collect the tests of a block, which has been entered; `held` ends them."""
        self._blocks.append(_Block())
        try:
            with self.ranges.kept():
                yield
        finally:
            self._blocks.pop()

    def held(self, results: Sequence[Any], most: float = ROOM) -> Any:
        """Whether all tests of the block hold, also those of its results, as an array of the block."""
        for x in results:
            self.made(x, most=most)
        self._compute()
        for x in self._blocks[-1].open.values():
            self.made(x, most=LARGE)
        tests = dict.fromkeys(self._blocks[-1].tests)
        if len(tests) > MOST:
            raise NotSameError("too many tests")
        found: Any = True
        for test in tests:
            own = from_ref(current().build((), [test], ["same"], None)[0])
            found = own if found is True else pb.logical_and(found, own)
        return found

    def _here(self) -> _Block:
        block = self._blocks[-1]
        if current().scope is not block.scope:
            raise NotSameError("a loop")
        return block

    # Nests ------------------------------------------------------------------------------------------------------

    def nest(self, x: Nested) -> Nested:
        """Return a nest whose elements a session computes all, also those that nobody needs here."""
        element, own = x.element, _Nest(x)

        def watched(*i: Any) -> Any:
            before = self._count
            made = element(*i)
            own.computed = bool(own.computed) or self._count > before
            return self.handed(made)

        x.element = watched
        self._here().nests[id(watched)] = own
        return x

    def handed(self, x: Any) -> Any:
        """Return the value of an operand, which ends here."""
        self._compute()
        return x

    def _compute(self) -> None:
        """Compute the elements of the nests that were made for the indices in scope, as a session does."""
        block = self._blocks[-1]
        for key, own in list(block.nests.items()):
            if own.lifted == tuple(current().lifted):
                del block.nests[key]
                if own.computed is not False:
                    assert own.nest.array is not None

    # Tests ------------------------------------------------------------------------------------------------------

    def must(self, test: Any) -> None:
        """Add a test of truth values; it is to hold for all elements, and for all indices around it."""
        block = self._here()
        self._count += 1
        if isinstance(test, bool | np.bool_):
            if not test:
                raise NotSameError("a test that never holds")
        else:
            block.tests.append(_for_all(test))

    def made(self, x: Any, factors: Sequence[Any] = (), most: float = ROOM) -> Any:
        """Return a new value, with a test that its numbers are not large, unless that is known.

        Args:
            factors: integers whose product it is.
            most: the largest magnitude that needs no test.
        """
        if not isinstance(x, Array) or x.literal is not None or x.index is not None or kind_of(x) == "b":
            return x
        if kind_of(x) == "i":
            if self.ranges.size(x) > WHOLE:
                self.must(pb.abs(_product(factors)) <= WHOLE if factors else pb.abs(x) <= int(WHOLE))
                self.ranges.tested(x)
        elif not self.ranges.size(x) <= most:
            self.must((pb.abs(x) if current().lifted or not x.rank else pb.sum(pb.abs(x))) <= LARGE)
            self.ranges.tested(x)
        return x

    def whole(self, x: Array) -> Array:
        """Note that integers have been tested."""
        self.ranges.tested(x)
        return x

    def steady(self, *values: Any) -> None:
        """Refuse rough numbers where a last digit decides: a comparison, a rounding, a zero."""
        for x in values:
            if isinstance(x, Array) and kind_of(x) == "f" and is_rough(x, self.exact):
                raise NotSameError("rounded numbers decide", exact=not self.exact)

    def truths(self, x: Any) -> None:
        """Test numbers that are taken as truth values."""
        if isinstance(x, Array) and kind_of(x) != "b":
            self.steady(x)
            self.must(pb.logical_or(x == 0, x == 1))

    def inside(self, own: Any, n: Any) -> None:
        """Test indices from 0 along an axis of n."""
        if kind_of(own) == "f" or not isinstance(n, int):
            raise NotSameError("an index that is no integer")
        self.must(pb.logical_and(own >= 0, own < n))

    # Verbs ------------------------------------------------------------------------------------------------------

    def scalar(self, verb: Any, tolerance: float, given: Sequence[Value], values: Sequence[Any]) -> Any:
        """Apply a verb on numbers, to the arguments as given and as converted."""
        if not self.going():
            raise NotSameError("the session has ended")
        if verb.need == "truth":
            for x in given:
                self.truths(x)
        if any(map(self._is_open, values)):
            if verb.name in "+-×" and len(values) == 2:
                return self._left_open(verb.define(pb, tolerance, *values), values)
            for x in values:
                self.made(x, most=LARGE)
        rule = _RULES.get((verb.name, len(values)))
        if rule is None and len(values) == 1 and verb.name[:-1] in _CIRCLES:
            rule = _circle
        if rule is None:
            raise NotSameError(f"{verb.name} has no test")
        return rule(self, verb, tolerance, *values)

    def _is_open(self, x: Any) -> bool:
        return isinstance(x, Array) and kind_of(x) == "f" and self.ranges.size(x) == inf

    def _left_open(self, made: Array, values: Sequence[Any]) -> Array:
        """Return a result that is tested later. Where it is finite, so are the numbers that it was made of."""
        block = self._here()
        self._count += 1
        for x in values:
            block.open.pop(id(x), None)
        self.ranges.open(made)
        if current().lifted:
            return self.made(made, most=LARGE)  # type: ignore[no-any-return]
        block.open[id(made)] = made
        return made

    def table(self, glyph: str, x: Value | None, y: Value) -> None:
        """Refuse verbs of the table that have no test."""
        if not holds_traced(y) and (x is None or not holds_traced(x)):
            return
        if glyph in "⍳∊" and x is not None:
            kinds = {kind_of(lifted(v)) for v in (x, y)}
            if kinds != {"i"}:
                raise NotSameError(f"{glyph} of other numbers than integers")
        elif glyph not in (_MOVES[0] if x is None else _MOVES[1]):
            raise NotSameError(f"{glyph} has no test")

    def reduced(self, glyph: str, x: Any, made: Any, axes: int | None) -> Any:
        """Return a reduction or a scan of an array by + × ⌈ ⌊, with its test."""
        if self._is_open(x):
            self.made(x, most=LARGE)
        if kind_of(x) == "f":
            if glyph not in "+×":
                return made
            return self.made(made, most=ROOM if isinstance(defined(made), ir.Reduce) and glyph == "+" else 0.0)
        sizes = pb.abs(pb.astype(as_numbers(x) if kind_of(x) == "b" else lifted(x), pb.float64))
        if glyph == "+" and kind_of(x) != "b":
            self.must(pb.sum(sizes, axis=axes) <= WHOLE)
        elif glyph == "×":
            self.must(pb.prod(pb.maximum(sizes, 1.0), axis=axes) <= WHOLE)
        if isinstance(made, Array):
            self.ranges.tested(made)
        return made

    def reduced_nest(self, glyph: str, x: Nested, made: Any) -> None:
        """Test a reduction of a nest."""
        if not glyph:
            raise NotSameError("a reduction of a nest by another verb than + × ⌈ ⌊")
        self._blocks[-1].nests.pop(id(x.element), None)  # all elements are computed here
        self.reduced(glyph, x.array, made.array if isinstance(made, Nested) else made, None)

    def product(self, x: Any, y: Any, made: Any) -> Any:
        """Return an inner product +.×, with its test."""
        for v in filter(self._is_open, (x, y)):
            self.made(v, most=LARGE)
        if kind_of(made) == "f":
            return self.made(made, most=ROOM if isinstance(defined(made), ir.Reduce) else 0.0)
        most = [pb.max(pb.abs(pb.astype(lifted(v), pb.float64))) for v in (x, y)]
        self.must(most[0] * most[1] * float(shape_of(lifted(x))[-1]) <= WHOLE)
        self.ranges.tested(made)
        return made


def _for_all(test: Any) -> ir.Scalar:
    """Whether a test holds for all elements and for all indices in scope."""
    axes = axes_for(test.extents)
    e = test.element(tuple(as_index(v) for v in axes))
    bound = [v for v in (*current().lifted, *axes) if v in e.free]
    own = [Var(v.name, v.extent) for v in bound]
    return expr.reduce("all", own, Substitution({v: as_index(w) for v, w in zip(bound, own)}).scalar(e))


def _product(factors: Sequence[Any]) -> Any:
    """The product of arrays and numbers, in floating point."""
    made: Any = 1.0
    for x in factors:
        made = made * (float(x) if _is_number(x) else pb.astype(x, pb.float64))
    return made


# The verbs on numbers, each with what must hold --------------------------------------------------------------------


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float)


def _plain(w: Watch, verb: Any, ct: float, *values: Any) -> Any:
    """A verb that is defined for all numbers and makes none that is large."""
    return verb.define(pb, ct, *values)


def _bounded(w: Watch, verb: Any, ct: float, *values: Any) -> Any:
    """A verb that is defined for all numbers, and may make large ones."""
    return w.made(verb.define(pb, ct, *values))


def _times(w: Watch, verb: Any, ct: float, a: Any, b: Any) -> Any:
    return w.made(verb.define(pb, ct, a, b), (a, b))


def _quotient(w: Watch, verb: Any, ct: float, *values: Any) -> Any:
    b = values[-1]
    if w.ranges.of(b)[0] <= 0:
        w.steady(b)
        w.must(b != 0)
        made = verb.define(pb, ct, *values)
        return w.made(made, most=0.0)
    return w.made(verb.define(pb, ct, *values))


def _exponential(w: Watch, verb: Any, ct: float, x: Any) -> Any:
    if not w.ranges.of(x)[1] <= LOG_LARGE:
        w.must((x if current().lifted or not x.rank else pb.max(x)) <= LOG_LARGE)
    return verb.define(pb, ct, x)


def _tested(w: Watch, verb: Any, ct: float, *values: Any) -> Any:
    """A verb whose result is tested, as there is none for some numbers."""
    return w.made(verb.define(pb, ct, *values), most=0.0)


def _above_zero(w: Watch, x: Any) -> None:
    if _is_number(x):
        w.must(x > 0)
    elif w.ranges.of(x)[0] <= 0:
        w.steady(x)
        w.must(x > 0)


def _logarithm(w: Watch, verb: Any, ct: float, *values: Any) -> Any:
    for x in values:
        _above_zero(w, x)
    if len(values) == 2:
        w.steady(values[0])
        w.must(values[0] != 1)
    made = verb.define(pb, ct, *values)
    return w.made(made, most=0.0) if len(values) == 2 else made


def _power(w: Watch, verb: Any, ct: float, a: Any, b: Any) -> Any:
    if _is_number(b) and float(b).is_integer() and b >= 0:
        if kind_of_number(a) != "f" and isinstance(b, int):
            made = verb.define(pb, ct, a, b)
            return w.made(made, (a,) * b) if b <= 4 else _refused("a large power of integers")
        if kind_of_number(a) != "f":
            raise NotSameError("a power of integers to a number with a point")
    elif kind_of_number(a) != "f" and kind_of_number(b) != "f":
        raise NotSameError("a power of integers to integers")
    else:
        _above_zero(w, a)
    return w.made(verb.define(pb, ct, a, b), most=0.0)


def _refused(what: str) -> NoReturn:
    raise NotSameError(what)


def kind_of_number(x: Any) -> str:
    """The kind of an array or a Python number."""
    return kind_of(x) if isinstance(x, Array) else "f" if isinstance(x, float) else "i"


_CIRCLES: Final = {"1": False, "2": False, "3": False, "5": False, "6": False, "7": False, "-3": False,
                   "-5": False, "4": False, "0": True, "-1": True, "-2": True, "-6": True, "-7": True}  # fmt: skip
"""The circular functions, and whether they end at some number, where a last digit decides."""


def _circle(w: Watch, verb: Any, ct: float, x: Any) -> Any:
    ends = _CIRCLES[verb.name[:-1]]
    if ends:
        w.steady(x)
    return w.made(verb.define(pb, ct, x), most=0.0 if ends else max(BETWEEN.values()))


def _sign(w: Watch, verb: Any, ct: float, x: Any) -> Any:
    w.steady(x)
    return verb.define(pb, ct, x)


def _floor(w: Watch, verb: Any, ct: float, x: Any) -> Any:
    """⌊ and ⌈, with the tolerance, to integers."""
    if kind_of_number(x) != "f":
        return verb.define(pb, ct, x)
    w.steady(x)
    near = pb.round(x)
    down = pb.floor(x) if verb.name == "⌊" else pb.ceil(x)
    made = pb.where(pb.abs(x - near) <= ct * pb.maximum(pb.abs(x), 1.0), near, down) if ct else down
    w.must(pb.abs(made) <= WHOLE)
    return w.whole(pb.astype(made, pb.int64))


def _residue(w: Watch, verb: Any, ct: float, a: Any, b: Any) -> Any:
    made = verb.define(pb, ct, a, b)
    if kind_of_number(a) != "f" and kind_of_number(b) != "f":
        return made
    w.steady(a, b)
    if not ct or (_is_number(a) and not a):
        return made
    quotient = b / (a if _is_number(a) else pb.where(a == 0, 1.0, a))
    near = pb.abs(quotient - pb.round(quotient)) <= ct * pb.maximum(pb.abs(quotient), 1.0)
    return pb.where(near if _is_number(a) else pb.logical_and(near, a != 0), 0.0, made)


def _comparison(w: Watch, verb: Any, ct: float, a: Any, b: Any) -> Any:
    w.steady(a, b)
    return verb.define(pb, ct, a, b)


def _number_of_truth(w: Watch, verb: Any, ct: float, a: Any, b: Any) -> Any:
    return as_numbers(verb.define(pb, ct, a, b))


_Rule = Callable[..., Any]
_RULES: Final[dict[tuple[str, int], _Rule]] = {
    ("+", 1): _plain, ("-", 1): _bounded, ("×", 1): _sign, ("÷", 1): _quotient, ("*", 1): _exponential,
    ("⍟", 1): _logarithm, ("○", 1): _bounded, ("|", 1): _plain, ("⌈", 1): _floor, ("⌊", 1): _floor,
    ("~", 1): _plain, ("+", 2): _bounded, ("-", 2): _bounded, ("×", 2): _times, ("÷", 2): _quotient, ("*", 2): _power,
    ("⍟", 2): _logarithm, ("|", 2): _residue, ("⌈", 2): _plain, ("⌊", 2): _plain, ("∧", 2): _number_of_truth,
    ("∨", 2): _number_of_truth, ("⍲", 2): _plain, ("⍱", 2): _plain,
    **{(glyph, 2): _comparison for glyph in "=≠<≤>≥"},
}  # fmt: skip
_MOVES: Final = (",⍴⍪≢≡⌽⊖⍉↓↑⊂⊆⊃⊢⊣⌷∊", ",⍴⍪⌽⊖⍉↑↓⌷/⌿\\⍀⊢⊣⊃≡≢⊥")
"""The verbs of the table that move elements or only name them, with one argument and with two."""
