"""Verbs as values of the evaluator: primitives, trains, and derived verbs."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pullback.apl import errors, values
from pullback.apl.errors import AplError, Spot
from pullback.apl.table import TABLE, Settings, migrated
from pullback.apl.values import (
    Value,
    elements,
    is_nested,
    lifted,
    objects,
    rank_of,
    settled,
    shape_of,
    simplified,
    vector,
    whole,
    whole_list,
)
from pullback.apl.verbs.scalar import DYADIC, MONADIC, circle, pervade
from pullback.apl.watch import refuse, watching
from pullback.calls.function import Function as Traced
from pullback.errors import DataError, OutOfMemoryError, PullbackError, ShapeError, UnfinishedError
from pullback.source import standing_at
from pullback.tracing.active import is_tracing

NO_MEMORY: Final = "there is no memory for the result"
TOO_LARGE: Final = re.compile("too big|[Mm]aximum (allowed|supported)")
"""Wording of NumPy's errors for shapes that are too large."""


class Verb:
    """A function of one or two arguments."""

    name = "verb"

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Apply the verb to a right argument, and optionally a left one."""
        raise NotImplementedError

    def result(self, y: Value, x: Value | None = None) -> Value | Shy:
        """Return the result, marked if a session does not print it."""
        return self(y, x)

    def identity(self) -> Any:
        """The neutral element: the reduction of an empty array; None if there is none."""
        return None


@dataclass(frozen=True)
class Shy:
    """A value that a session does not print, from an assignment or a function that ends with one."""

    value: Any


def plain(made: Any) -> Any:
    """Return the value itself, whether a session prints it or not."""
    return made.value if isinstance(made, Shy) else made


class placed:
    """Set the glyph as the place of errors raised inside, and of statements traced inside.

    It is a class rather than a generator for the same reason as `state.setting`.
    """

    __slots__ = ("_spot", "_standing")

    def __init__(self, spot: Spot | None) -> None:
        self._spot, self._standing = spot, standing_at(spot)

    def __enter__(self) -> None:
        self._standing.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._standing.__exit__()
        match error:
            case AplError(position=None) if self._spot is not None:
                raise error.at(self._spot) from None
            case AplError():
                return
            case PullbackError():
                raise translated(error, self._spot) from error
            case RecursionError():
                raise AplError("LIMIT ERROR", "the calls are too deep inside one another", position=self._spot,
                               remedy="a guard that ends the recursion") from None  # fmt: skip
            case MemoryError():
                raise AplError("WS FULL", NO_MEMORY, position=self._spot) from None
            case OverflowError():
                raise AplError("DOMAIN ERROR", "a number is too large", position=self._spot) from None
            case ValueError() if TOO_LARGE.search(str(error)):
                raise AplError("LIMIT ERROR", "an array has too many elements or axes",
                               position=self._spot) from None  # fmt: skip


def translated(error: PullbackError, spot: Spot | None) -> AplError:
    """Translate an error of the underlying language to an APL error."""
    if isinstance(error, ShapeError):
        kind = "RANK ERROR" if error.code == "E104" else "LENGTH ERROR"
    elif isinstance(error, UnfinishedError):
        kind = "LIMIT ERROR"
    elif isinstance(error, DataError):
        kind = "FILE ERROR"
    elif isinstance(error, OutOfMemoryError):
        return AplError("WS FULL", NO_MEMORY, position=spot)
    else:
        kind = "DOMAIN ERROR"
    return AplError(kind, error.what, position=spot, facts=error.facts, remedy=error.remedy)


@dataclass
class Primitive(Verb):
    """A verb of the table, with the settings at its place in the text."""

    glyph: str
    settings: Settings
    axis: Value | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        """The glyph."""
        return self.glyph

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Apply the monadic or dyadic meaning."""
        s = self.settings
        scalars = MONADIC if x is None else DYADIC
        if x is not None and self.glyph == "○":
            return self._circle(x, y)
        if self.glyph in scalars:
            if self.axis is not None:
                return self._along_axes(x, y)
            if x is None:
                return pervade(scalars[self.glyph], s.ct, y)
            return pervade(scalars[self.glyph], s.ct, x, y)
        watch = watching()
        if watch is not None:
            watch.table(migrated(self.glyph, x is not None, s), x, y)
        row = TABLE.get(migrated(self.glyph, x is not None, s))
        meaning = None if row is None else row.monadic if x is None else row.dyadic
        if row is None or meaning is None:
            sides = "a left argument" if x is None else "one argument only"
            raise errors.syntax(f"{self.glyph} takes {sides}")
        if self.axis is None:
            return meaning(s, y) if x is None else meaning(s, x, y)
        if not row.takes_axis[x is not None]:
            raise errors.syntax(f"{self.glyph} takes no axis")
        return meaning(s, y, axis=self.axis) if x is None else meaning(s, x, y, axis=self.axis)

    def _circle(self, x: Value, y: Value) -> Value:
        if rank_of(x) == 0:
            return pervade(circle(whole(x, "○")), self.settings.ct, y)
        x = settled(x)
        if rank_of(y) and shape_of(x) != shape_of(y):
            wrong = errors.length if rank_of(x) == rank_of(y) else errors.rank
            raise wrong("○ takes arrays of one shape")
        ys = elements(settled(y)) if rank_of(y) else [y] * len(elements(x))
        made = simplified(objects([self._circle(a, b) for a, b in zip(elements(x), ys)], shape_of(x)))
        return lifted(made) if is_nested(made) and all(rank_of(e) == 0 for e in elements(made)) else made

    def _along_axes(self, x: Value | None, y: Value) -> Value:
        """Apply `x+[k]y`: the smaller argument extends along axes of the larger."""
        if x is None:
            raise errors.syntax(f"{self.glyph} takes no axis with one argument")
        if (is_nested(x) or is_nested(y)) and (values.holds_traced(x) or values.holds_traced(y)):
            raise errors.domain(f"{self.glyph} along an axis, of a nested array in a compiled function")
        small, large = (x, y) if rank_of(x) <= rank_of(y) else (y, x)
        axes = [n - self.settings.io for n in whole_list(self.axis, "an axis")]
        if len(axes) != rank_of(small) or any(not 0 <= a < rank_of(large) for a in axes) or len(set(axes)) != len(axes):
            raise errors.rank(f"{self.glyph} takes one axis for each axis of the smaller argument")
        rest = [k for k in range(rank_of(large)) if k not in axes]
        order = [*sorted(range(len(axes)), key=axes.__getitem__)]
        turned = TABLE["⍉"].dyadic
        assert turned is not None
        io = self.settings.io
        small = (
            turned(self.settings, vector([values.scalar(order.index(k) + io) for k in range(len(order))]), small)
            if order
            else small
        )
        stretched = _stretched(small, shape_of(large), rest)
        left, right = (stretched, large) if rank_of(x) <= rank_of(y) else (large, stretched)
        return pervade(DYADIC[self.glyph], self.settings.ct, left, right)

    def identity(self) -> Any:
        """The identity of scalar verbs and some others."""
        return DYADIC[self.glyph].identity if self.glyph in DYADIC else None


def _stretched(x: Value, shape: tuple[Any, ...], new: list[int]) -> Value:
    import pullback as pb

    for k in new:
        x = np.expand_dims(x, k) if isinstance(x, np.ndarray) else pb.expand_dims(x, k)
    own = shape_of(x)
    if any(isinstance(m, int) and isinstance(n, int) and m not in (1, n) for m, n in zip(own, shape)):
        raise errors.length("the sizes along the axes differ")
    return (
        np.broadcast_to(x, shape)
        if isinstance(x, np.ndarray) and all(isinstance(n, int) for n in shape)
        else pb.broadcast_to(lifted(x), shape)
    )


@dataclass
class PythonVerb(Verb):
    """A Pullback or Python function as a verb: of ⍵, or of ⍺ and ⍵."""

    function: Any

    @property
    def takes_left(self) -> bool:
        """Whether the function needs two arguments, ⍺ and ⍵."""
        try:
            found = inspect.signature(self.function).parameters.values()
        except (TypeError, ValueError):  # a function without an inspectable signature
            return False
        return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in found) > 1

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """The result of the Python function."""
        refuse("a function of Python")
        arguments = [y] if x is None else [x, y]
        given = [lifted(a) if is_tracing() else self._argument(a) for a in arguments]
        return values.from_python(self.function(*given))

    def _argument(self, x: Value) -> Any:
        """Return an argument of a call by values: a single number takes the type that is declared for it."""
        plain = isinstance(x, np.ndarray) and not x.ndim and x.dtype.kind in "if"
        return x.item() if plain and isinstance(self.function, Traced) else x


@dataclass
class Constant(Verb):
    """A value in the place of a verb, as in `(1,⊢)`."""

    value: Value

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """The value."""
        return self.value


@dataclass
class Atop(Verb):
    """`(f g)`: f of the result of g."""

    f: Verb
    g: Verb

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return `f g y`, or `f x g y`."""
        return self.f(self.g(y, x))


@dataclass
class Fork(Verb):
    """`(f g h)`: g between the results of f and h."""

    f: Verb
    g: Verb
    h: Verb

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """(f y) g h y, or (x f y) g x h y."""
        right = self.h(y, x)
        return self.g(right, self.f(y, x))


@dataclass
class Bound(Verb):
    """`a∘f` and `f∘a`: a verb with one of its arguments."""

    f: Verb
    left: Value | None = None
    right: Value | None = None

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """The verb with the other argument."""
        if x is not None:
            raise errors.syntax("a verb that has one of its arguments takes one more")
        return self.f(y, self.left) if self.left is not None else self.f(self.right, y)


@dataclass
class Placed(Verb):
    """A derived verb whose errors point to its operator's glyph."""

    verb: Verb
    spot: Spot

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """The verb's result."""
        return self.verb(y, x)

    def identity(self) -> Any:
        """The identity of the verb."""
        return self.verb.identity()
