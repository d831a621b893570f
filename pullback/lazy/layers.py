"""Named layers: the context of errors in a network."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from pullback.errors import UndefinedNameError
from pullback.lazy.annotated import Borders, borders_of, slow
from pullback.lazy.plugins import PLUGGED, applied
from pullback.source import Position, user_position
from pullback.state import context_variable

__all__ = ["Place", "here", "layer", "lifted", "noted"]

P = ParamSpec("P")
R = TypeVar("R")
_NAMES: Final[ContextVar[tuple[str, ...]]] = context_variable("layers", ())


class Place(NamedTuple):
    """The source location and layer where a node was built."""

    position: Position | None
    layers: tuple[str, ...]

    def __str__(self) -> str:
        where = f"{self.position.file}:{self.position.line}" if self.position else "?"
        return f"{where} in layer {'/'.join(self.layers)}" if self.layers else where


def here() -> Place:
    """The place in the user's code that is building a node."""
    return Place(user_position(), _NAMES.get())


def noted(error: BaseException, place: Any) -> BaseException:
    """Add a note to an error, once, about where its node was built."""
    note = f"the value was built at {place}"
    if isinstance(place, Place) and note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    return error


def _path() -> str:
    return "/".join(_NAMES.get())


def lifted(name: str, f: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The result of a function of `lazy.lift`, a layer too, by way of the active plugins."""
    return applied("/".join((*_NAMES.get(), name)), f, args, keywords)


def layer(f: Callable[P, R]) -> Callable[P, R]:
    """Name a layer, and check its arrays: errors in its operations, when built or run, mention the name.

    Annotated arrays are checked: axes, element types, sizes, and names of sizes, which are one size in arguments and
    result. Each combination of types is checked once. Type checkers read `lazy.Array[Shape, DType]`; jaxtyping's
    annotations are for the run time.

    Raises:
        ShapeError: [E110], [E111] an argument has not the axes or sizes of its annotation. [E150] The result has not.
        DTypeError: [E122], [E150] the element types differ. TraceError: [E139], [E150] a value is no array. [E107] An
            annotation is not understood. UndefinedNameError: [E148] it uses a name that is not defined.
    Cost:
        Half a microsecond per call, and 0.2 µs more with annotations.

    >>> from jaxtyping import Float64
    >>> from pullback import lazy
    >>> @lazy.layer
    ... def head(x: Float64[lazy.Array, "N 3"]) -> Float64[lazy.Array, ""]:
    ...     return lazy.sum(x * 2.0)
    >>> float(head(lazy.ones((1, 3))))
    6.0
    """
    name = f.__name__
    try:
        borders = borders_of(f)
    except UndefinedNameError:  # an annotation names what comes later in the file
        return _checked(f, name, None)
    if borders is not None:
        return _checked(f, name, borders)

    @functools.wraps(f)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        token = _NAMES.set((*_NAMES.get(), name))
        try:
            return applied(_path(), f, args, keywords) if PLUGGED else f(*args, **keywords)
        except Exception as error:
            _add_note(error)
            raise
        finally:
            _NAMES.reset(token)

    return call


def _checked(f: Callable[P, R], name: str, borders: Borders | None) -> Callable[P, R]:
    """A layer with annotated arrays, whose `borders` may be found at the first call."""
    known, key = (borders.known, borders.key) if borders is not None else ({}, slow)

    @functools.wraps(f)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        nonlocal borders, known, key
        token = _NAMES.set((*_NAMES.get(), name))
        try:
            try:
                results = known[key(args)].results
            except (AttributeError, IndexError, KeyError):
                if borders is None:
                    borders = Borders(f)
                    known, key = borders.known, borders.key
                results = borders.enter(args, keywords).results
            result: Any = applied(_path(), f, args, keywords) if PLUGGED else f(*args, **keywords)
            if results is not None:
                try:
                    right = result.type in results
                except AttributeError:  # a tuple, or a mistake
                    right = False
                if not right:
                    assert borders is not None
                    borders.leave(args, keywords, result)
            return result  # type: ignore[no-any-return]
        except Exception as error:
            _add_note(error)
            raise
        finally:
            _NAMES.reset(token)

    return call


def _add_note(error: Exception) -> None:
    note = f"in layer {_path()}"
    if not any(n.startswith("in layer") for n in getattr(error, "__notes__", ())):
        error.add_note(note)
