"""What must hold for compiled code to mean what a session computes.

A session refuses results that are not finite, takes 0÷0 as 1, and turns integers that overflow into floating-point
numbers; compiled code does not. While a `Watch` is active in a thread, each verb that is traced there adds a test of its
arguments or its result. The tests together are one more result of the function. A construct that needs a test which
nobody has written is refused.

Tests are made where their operands are. Inside of `¨`, `⍤` and the like they hold for all indices, and a loop or a
branch hands them out as a part of its state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback.apl.bits import defined, is_rough, least
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

LARGE: Final = 1e300  # numbers beyond are left to the session
WHOLE: Final = 2.0**53  # integers up to here are floating-point numbers, too
MOST: Final = 400  # tests of a function


class NotSameError(Exception):
    """A construct whose compiled result may differ from a session's; `exact` says whether `pb.exact()` may help."""

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


def first_held() -> tuple[Any, ...]:
    """The part of a loop's first state that says whether all tests hold; none without a watch."""
    return () if _NOW.watch is None else (True,)


def held(*before: Any) -> tuple[Any, ...]:
    """Whether the tests of the block hold, and those of the loop's steps before; nothing without a watch."""
    if _NOW.watch is None:
        return ()
    found = _NOW.watch.held()
    return (pb.logical_and(before[0], found) if before else found,)


def passed(*found: Any) -> None:
    """Add a test that has been made in a loop or a branch."""
    if _NOW.watch is not None:
        _NOW.watch.must(found[0])


def watched(x: Any) -> Any:
    """Return a value made of those of an operand, with its test if there is a watch."""
    if _NOW.watch is not None:
        _NOW.watch.made(x.array if isinstance(x, Nested) else x)
    return x


class _Block:
    """The tests of one block of the program: of the function, a loop's body, or a branch."""

    def __init__(self) -> None:
        self.scope = current().scope
        self.tests: list[ir.Scalar] = []
        self.finite: dict[int, tuple[Array, ir.Scalar | None]] = {}
        self.nests: dict[int, _Nest] = {}


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
            yield
        finally:
            self._blocks.pop()

    def held(self) -> Any:
        """Whether all tests of the block hold, as an array of the block."""
        block = self._blocks[-1]
        self._compute()
        for value, test in list(block.finite.values()):
            if test is None:
                self.must((pb.sum(pb.abs(value)) if value.rank else pb.abs(value)) <= LARGE)
            else:
                block.tests.append(test)
        block.finite.clear()
        found: Any = True
        for test in dict.fromkeys(block.tests):
            own = from_ref(current().build((), [test], ["same"], None)[0])
            found = own if found is True else pb.logical_and(found, own)
        return found

    def _here(self) -> _Block:
        if not self.going():
            raise NotSameError("the session has ended")
        block = self._blocks[-1]
        if current().scope is not block.scope:
            raise NotSameError("a loop")
        return block

    # Tests ------------------------------------------------------------------------------------------------------

    def must(self, test: Any) -> None:
        """Add a test of truth values; it is to hold for all elements, and for all indices around it."""
        block = self._here()
        self._count += 1
        if self._count > MOST:
            raise NotSameError("too many tests")
        if isinstance(test, bool | np.bool_):
            if not test:
                raise NotSameError("a test that never holds")
            return
        block.tests.append(_for_all(test))

    def made(self, x: Any) -> Any:
        """Return a new value, whose numbers are to be finite."""
        if isinstance(x, Array) and kind_of(x) == "f" and x.literal is None:
            block = self._here()
            self._count += 1
            test = _for_all(pb.abs(x) <= LARGE) if current().lifted else None
            block.finite[id(x)] = x, test
        return x

    def covered(self, x: Any) -> None:
        """Leave out the test of a value, as it is finite if a result made of it is."""
        self._blocks[-1].finite.pop(id(x), None)

    def handed(self, x: Any) -> Any:
        """Return the value of an operand, which becomes a part of a value that is tested."""
        self.covered(x)
        self._compute()
        return x

    def _compute(self) -> None:
        """Compute the elements of the nests that were made for the indices in scope, as a session does."""
        block = self._blocks[-1]
        for key, own in list(block.nests.items()):
            if own.lifted == tuple(current().lifted):
                del block.nests[key]
                array = own.nest.array if own.computed is not False else None
                if own.computed:
                    self.made(array)

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

    def summed(self, x: Any) -> None:
        """Leave out the terms of a sum: it is finite only if they are. Terms that are sums may cancel before."""
        array = x.array if isinstance(x, Nested) else x
        if isinstance(defined(array), ir.Mul | ir.Get):
            self.covered(array)
            if isinstance(x, Nested):
                self._blocks[-1].nests.pop(id(x.element), None)

    def small(self, x: Any) -> None:
        """Test integers: up to `WHOLE` they are the same in floating point."""
        if isinstance(x, Array) and x.index is None and x.literal is None:
            self.must(pb.abs(x) <= int(WHOLE))

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
        if verb.need == "truth":
            for x in given:
                self.truths(x)
        rule = _RULES.get((verb.name, len(values)))
        if rule is None and len(values) == 1 and verb.name[:-1] in _CIRCLES:
            rule = _circle
        if rule is None:
            raise NotSameError(f"{verb.name} has no test")
        return rule(self, verb, tolerance, *values)

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
        if kind_of(x) == "f":
            if glyph == "+":
                self.summed(x)
            return self.made(made) if glyph in "+×" else made
        sizes = pb.abs(pb.astype(as_numbers(x) if kind_of(x) == "b" else lifted(x), pb.float64))
        if glyph == "+":
            self.must(pb.sum(sizes, axis=axes) <= WHOLE)
        elif glyph == "×":
            self.must(pb.prod(pb.maximum(sizes, 1.0), axis=axes) <= WHOLE)
        return made

    def reduced_nest(self, glyph: str, x: Nested, made: Any) -> None:
        """Test a reduction of a nest."""
        if not glyph:
            raise NotSameError("a reduction of a nest by another verb than + × ⌈ ⌊")
        self.reduced(glyph, x.array, made.array if isinstance(made, Nested) else made, None)
        if glyph == "+":
            self.summed(x)

    def product(self, x: Any, y: Any, made: Any) -> Any:
        """Return an inner product +.×, with its test."""
        if kind_of(made) == "f":
            return self.made(made)
        most = [pb.max(pb.abs(pb.astype(lifted(v), pb.float64))) for v in (x, y)]
        self.must(most[0] * most[1] * float(shape_of(lifted(x))[-1]) <= WHOLE)
        return made


def _for_all(test: Any) -> ir.Scalar:
    """Whether a test holds for all elements and for all indices in scope."""
    axes = axes_for(test.extents)
    e = test.element(tuple(as_index(v) for v in axes))
    bound = [v for v in (*current().lifted, *axes) if v in e.free]
    own = [Var(v.name, v.extent) for v in bound]
    return expr.reduce("all", own, Substitution({v: as_index(w) for v, w in zip(bound, own)}).scalar(e))


# The verbs on numbers, each with what must hold --------------------------------------------------------------------


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float)


def _plain(w: Watch, verb: Any, ct: float, *values: Any) -> Any:
    """A verb that is defined for all numbers and makes none that is large."""
    return verb.define(pb, ct, *values)


def _sum(w: Watch, verb: Any, ct: float, a: Any, b: Any) -> Any:
    made = verb.define(pb, ct, a, b)
    if kind_of(made) != "f":
        w.small(made)
        return made
    for x, other in ((a, b), (b, a)):
        if _is_number(other) or (_is_whole(x) and not is_rough(other, False)):
            w.covered(x)
    return w.made(made)


def _is_whole(x: Any) -> bool:
    """Whether no other number cancels a part of x: it is one reduction or one function."""
    return isinstance(x, Array) and isinstance(defined(x), ir.Reduce | ir.Apply)


def _product(w: Watch, verb: Any, ct: float, a: Any, b: Any) -> Any:
    made = verb.define(pb, ct, a, b)
    if kind_of(made) != "f":
        if isinstance(made, Array) and made.index is None and made.literal is None:
            w.must(pb.abs(_float(a) * _float(b)) <= WHOLE)
        return made
    for x, other in ((a, b), (b, a)):
        if _is_number(other) and abs(other) >= 1e-9:
            w.covered(x)
    return w.made(made)


def _float(x: Any) -> Any:
    return float(x) if _is_number(x) else pb.astype(x, pb.float64)


def _negative(w: Watch, verb: Any, ct: float, x: Any) -> Any:
    w.covered(x)
    return w.made(verb.define(pb, ct, x))


def _quotient(w: Watch, verb: Any, ct: float, *values: Any) -> Any:
    a, b = (1.0, *values) if len(values) == 1 else values
    low = least(b)
    if low <= 0:
        w.steady(b)
        w.must(b != 0)
    made = verb.define(pb, ct, *values)
    if not _is_number(a) or not abs(a) >= 1e-9 or low < 1e-9:
        return w.made(made)
    w.covered(b)  # it is finite where the quotient is not zero
    w.must(pb.abs(made) >= abs(a) / LARGE)
    return made


def _exponential(w: Watch, verb: Any, ct: float, x: Any) -> Any:
    return w.made(verb.define(pb, ct, x))


def _above_zero(w: Watch, x: Any) -> None:
    if _is_number(x):
        w.must(x > 0)
    elif least(x) <= 0:
        w.steady(x)
        w.must(x > 0)


def _logarithm(w: Watch, verb: Any, ct: float, *values: Any) -> Any:
    for x in values:
        _above_zero(w, x)
    if len(values) == 2:
        w.steady(values[0])
        w.must(values[0] != 1)
    return w.made(verb.define(pb, ct, *values))


def _power(w: Watch, verb: Any, ct: float, a: Any, b: Any) -> Any:
    if _is_number(b) and float(b).is_integer() and b >= 0:
        if kind_of_number(a) != "f" and isinstance(b, int):
            w.must(pb.abs(_float(a)) ** float(b) <= WHOLE)
            return verb.define(pb, ct, a, b)
        if kind_of_number(a) != "f":
            raise NotSameError("a power of integers to a number with a point")
    elif kind_of_number(a) != "f" and kind_of_number(b) != "f":
        raise NotSameError("a power of integers to integers")
    else:
        _above_zero(w, a)
    return w.made(verb.define(pb, ct, a, b))


def kind_of_number(x: Any) -> str:
    """The kind of an array or a Python number."""
    return kind_of(x) if isinstance(x, Array) else "f" if isinstance(x, float) else "i"


_CIRCLES: Final = {"1": False, "2": False, "3": False, "5": False, "6": False, "7": False, "¯3": False, "-3": False,
                   "-5": False, "4": False, "0": True, "-1": True, "-2": True, "-6": True, "-7": True}  # fmt: skip
"""The circular functions, and whether they end at some number, where a last digit decides."""


def _circle(w: Watch, verb: Any, ct: float, x: Any) -> Any:
    if _CIRCLES[verb.name[:-1]]:
        w.steady(x)
    return w.made(verb.define(pb, ct, x))


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
    return pb.astype(made, pb.int64)


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
    ("+", 1): _plain, ("-", 1): _negative, ("×", 1): _sign, ("÷", 1): _quotient, ("*", 1): _exponential,
    ("⍟", 1): _logarithm, ("○", 1): _exponential, ("|", 1): _plain, ("⌈", 1): _floor, ("⌊", 1): _floor,
    ("~", 1): _plain, ("+", 2): _sum, ("-", 2): _sum, ("×", 2): _product, ("÷", 2): _quotient, ("*", 2): _power,
    ("⍟", 2): _logarithm, ("|", 2): _residue, ("⌈", 2): _plain, ("⌊", 2): _plain, ("∧", 2): _number_of_truth,
    ("∨", 2): _number_of_truth, ("⍲", 2): _plain, ("⍱", 2): _plain,
    **{(glyph, 2): _comparison for glyph in "=≠<≤>≥"},
}  # fmt: skip
_MOVES: Final = (",⍴⍪≢≡⌽⊖⍉↓↑⊂⊆⊃⊢⊣⌷∊", ",⍴⍪⌽⊖⍉↑↓⌷/⌿\\⍀⊢⊣⊃≡≢⊥")
"""The verbs of the table that move elements or only name them, with one argument and with two."""
