"""The check of a layer's arrays against its annotations, once for each combination of types.

    Float64[lazy.Array, "N 10"]                          jaxtyping's annotations
    lazy.Array[tuple[N, Literal[10]], np.float64]        a size is Literal, a type variable, or int or Any for all sizes

A name is one size in arguments and results. Other annotations are not checked.
"""

from __future__ import annotations

import inspect
import types as python_types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

import numpy as np

from pullback.calls.annotations import function_annotations, spec_of
from pullback.calls.extents import parse_dim
from pullback.calls.generics import form_of
from pullback.calls.specs import ArraySpec, ComplexSpec
from pullback.errors import DTypeError, ShapeError, TraceError, UndefinedNameError, counted
from pullback.ir.index import DimSymbol, Index, as_index
from pullback.ir.traverse import Substitution
from pullback.lazy.typed import Typed
from pullback.source import user_position
from pullback.tracing.array import TracedArray

__all__ = ["Borders", "borders_of", "slow"]

TYPE: Final = attrgetter("type")
MOST: Final = 1024  # combinations of types that each layer remembers
_NUMBERS: Final = {bool: "b", int: "iufc", float: "fc", complex: "c"}  # the kinds of element types that take a number


class Wanted(NamedTuple):
    """An annotated array: its text, NumPy's names of its element types (None for all), and its dims."""

    text: str
    dtypes: tuple[str, ...] | None
    spec: ArraySpec
    optional: bool


class Codes(NamedTuple):
    """The codes of errors about the number of axes, their sizes, the element type, and what is no array."""

    axes: str
    sizes: str
    dtype: str
    kind: str


ARGUMENT: Final = Codes("E110", "E111", "E122", "E139")
RESULT: Final = Codes("E150", "E150", "E150", "E150")


class Passed:
    """Accepted arguments: the sizes by name, and the accepted types of results; None for any result."""

    __slots__ = ("results", "sizes")

    def __init__(self, sizes: Mapping[DimSymbol, tuple[Index, str]], results: set[Any] | None) -> None:
        self.sizes = sizes
        self.results = results


class Borders:
    """The annotated arrays of a layer.

    Attributes:
        known: the combinations of argument types that have passed.
        key: the key of positional arguments in `known`; IndexError or AttributeError if they are not just arrays.
        leaves: whether the result is checked.
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        self.name = f.__name__
        parameters = inspect.signature(f).parameters
        found = _annotations(f)
        self.wanted = {n: w for n in parameters if n in found and (w := _wanted(found[n], n)) is not None}
        self.order = tuple(n for n, p in parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
        self.rest = next((n for n, p in parameters.items() if p.kind is p.VAR_POSITIONAL and n in self.wanted), None)
        returned = None if inspect.iscoroutinefunction(f) else found.get("return")
        self.returned = tuple(_parts(returned))
        self.leaves = any(w is not None for w in self.returned)
        self.known: dict[Any, Passed] = {}
        self.key = self._key()

    def _key(self) -> Callable[[tuple[Any, ...]], Any]:
        places = [self.order.index(n) for n in self.wanted if n in self.order]
        if len(places) < len(self.wanted):
            return slow
        match places:  # written out, as this runs in each call
            case []:
                return lambda args: ()
            case [a]:
                return lambda args: args[a].type
            case [a, b]:
                return lambda args: (args[a].type, args[b].type)
            case [a, b, c]:
                return lambda args: (args[a].type, args[b].type, args[c].type)
        take = itemgetter(*places)
        return lambda args: tuple(map(TYPE, take(args)))

    def enter(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Passed:
        """Check the arguments of a call, unless one is traced.

        Raises:
            ShapeError: [E110], [E111] the axes or sizes of an argument are not those of its annotation.
            DTypeError: [E122] the element type is not. TraceError: [E139] it is no array.
        """
        values = dict(zip(self.order, args)) | dict(keywords)
        given = [(n, values[n], w) for n, w in self.wanted.items() if n in values]
        if self.rest is not None:
            given += [(f"{self.rest}[{k}]", x, self.wanted[self.rest]) for k, x in enumerate(args[len(self.order) :])]
        if any(isinstance(x, TracedArray) for _, x, _ in given):
            return Passed({}, None)
        key = tuple((n, _type(x)) for n, x, _ in given)
        passed = self.known.get(key)
        if passed is None:
            check = _Check(self.name, {})
            for name, x, wanted in given:
                check.compare(name, x, wanted, ARGUMENT)
            check.finish()
            if len(self.known) >= MOST:
                self.known.clear()
            passed = self.known[key] = Passed(check.sizes, set() if self.leaves else None)
            try:
                self.known[self.key(args)] = passed
            except (AttributeError, IndexError):
                pass  # not just positional arrays
        return passed

    def leave(self, args: tuple[Any, ...], keywords: Mapping[str, Any], result: Any) -> None:
        """Check the result of such a call.

        Raises:
            ShapeError: [E150] its axes or sizes are not those of the annotation. DTypeError: [E150] the element type.
            TraceError: [E150] it is no such array or tuple.
        """
        passed = self.enter(args, keywords)
        assert passed.results is not None
        parts = result if len(self.returned) > 1 and isinstance(result, tuple) else (result,)
        key = _type(result) if len(parts) == 1 else tuple(map(_type, parts))
        if key in passed.results or any(isinstance(x, TracedArray) for x in parts):
            return
        check = _Check(self.name, passed.sizes)
        if len(parts) != len(self.returned):
            found = f"{_kind(result)} of {len(parts)}, its annotation says {len(self.returned)}"
            raise TraceError("E150", f"{self.name}: the result is {found}", position=user_position(),
                             remedy="return what the annotation says")  # fmt: skip
        for k, (x, wanted) in enumerate(zip(parts, self.returned)):
            if wanted is not None:
                check.compare(f"the result[{k}]" if len(parts) > 1 else "the result", x, wanted, RESULT)
        check.finish()
        if len(passed.results) >= MOST:
            passed.results.clear()
        passed.results.add(key)


def borders_of(f: Callable[..., Any]) -> Borders | None:
    """The annotated arrays of a function; None if there are none.

    Raises:
        UndefinedNameError: [E148] an annotation uses a name that is not defined (yet).
    """
    if not getattr(f, "__annotations__", None):
        return None
    found = Borders(f)
    return found if found.wanted or found.leaves else None


def slow(args: tuple[Any, ...]) -> Any:
    """The key of calls that go to `Borders.enter` each time."""
    raise IndexError


def _annotations(f: Callable[..., Any]) -> dict[str, Any]:
    try:
        return function_annotations(f)
    except NameError as error:
        raise UndefinedNameError(
            "E148",
            f"{f.__name__}: an annotation names {error.name!r}, which is not defined",
            position=user_position(),
            remedy="import it, or define it before the first call",
        ) from None


def _parts(annotation: Any) -> Iterator[Wanted | None]:
    """The arrays of a result: of a tuple each item."""
    items = typing.get_args(annotation) if typing.get_origin(annotation) is tuple else (annotation,)
    fixed = Ellipsis not in items
    yield from (_wanted(a, "the result") for a in (items if fixed else (None,)))


def _wanted(annotation: Any, owner: str) -> Wanted | None:
    """The array that an annotation describes; None for all other annotations."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, python_types.UnionType):
        inner = [a for a in typing.get_args(annotation) if a is not type(None)]
        found = _wanted(inner[0], owner) if len(inner) == 1 else None
        return found and found._replace(optional=True)
    if hasattr(annotation, "dim_str") and hasattr(annotation, "dtypes"):
        return _of_jaxtyping(annotation, owner)
    if isinstance(origin, type) and issubclass(origin, Typed | TracedArray):
        text, dims, names = form_of(typing.get_args(annotation), owner)
        return Wanted(text, names, ArraySpec(text, (), dims), False)
    return None


def _of_jaxtyping(annotation: Any, owner: str) -> Wanted | None:
    found = spec_of(annotation, owner)
    if isinstance(found, ComplexSpec):
        names = tuple(f"complex{2 * d.bits}" for d in found.part.dtypes)
        return Wanted(found.part.text, names, found.part, False)
    assert isinstance(found, ArraySpec)
    return Wanted(found.text, tuple(d.title for d in found.dtypes), found, False)


def _type(x: Any) -> Any:
    """A hashable type of an argument: element type and shape if it is an array."""
    found = getattr(x, "type", None)
    if found is not None and isinstance(x, Typed):
        return found
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return str(x.dtype), tuple(x.shape)
    return type(x)


def _like(x: Any, dtypes: Sequence[str]) -> str | None:
    """The element type that a Python number takes: the first that fits."""
    return next((d for d in dtypes if np.dtype(d).kind in _NUMBERS[type(x)]), None)


def _title(dtype: Any) -> str:
    """The name of an element type of the language, of NumPy or of another library."""
    return str(getattr(dtype, "title", None) or dtype) if not isinstance(dtype, np.dtype) else dtype.name


def _kind(x: Any) -> str:
    name = type(x).__name__
    return "None" if x is None else f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


class _Check:
    """The comparison of a call's arrays with annotations. Dims of unknown names wait for the names."""

    def __init__(self, layer: str, sizes: Mapping[DimSymbol, tuple[Index, str]]) -> None:
        self.layer = layer
        self.sizes = dict(sizes)
        self.waiting: list[tuple[Index, int, Callable[[Index], Exception]]] = []

    def compare(self, path: str, x: Any, wanted: Wanted, codes: Codes) -> None:
        """Compare an array with its annotation."""
        if x is None and wanted.optional:
            return
        if type(x) in _NUMBERS and not wanted.spec.dims:
            x = np.asarray(x, None if wanted.dtypes is None else _like(x, wanted.dtypes))
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            raise TraceError(codes.kind, self._what(path, _kind(x), wanted), position=user_position(),
                             remedy=f"`lazy.asarray` makes an array, as {wanted.text} asks")  # fmt: skip
        shape, dtype = tuple(x.shape), _title(x.dtype)
        what = self._what(path, f"{dtype}[{', '.join(map(str, shape))}]" if shape else dtype, wanted)
        spec = wanted.spec
        if len(shape) != len(spec.dims) if spec.variadic is None else len(shape) < len(spec.dims) - 1:
            axes = counted(len(spec.dims), "axis", "axes")
            raise ShapeError(codes.axes, what, position=user_position(), remedy=f"{axes}, or another annotation")
        for token, n in zip(spec.tokens(len(shape), path), shape):
            self._size(parse_dim(token, path), n, path, lambda e: self._differs(codes.sizes, what, e))
        if wanted.dtypes is not None and dtype not in wanted.dtypes:
            raise DTypeError(codes.dtype, what, position=user_position(),
                             remedy=f"`astype(np.{wanted.dtypes[-1]})` converts it; or another annotation")  # fmt: skip

    def _what(self, path: str, found: str, wanted: Wanted) -> str:
        return f"{self.layer}: {path} is {found}, its annotation says {wanted.text}"

    def _size(self, dim: Index, n: int, path: str, error: Callable[[Index], Exception]) -> None:
        unknown = [s for s in dim.symbols if s not in self.sizes]
        if len(unknown) == 1 and dim.single is unknown[0]:
            self.sizes[unknown[0]] = as_index(n), path
        elif unknown:
            self.waiting.append((dim, n, error))
        elif Substitution(dims={s: self.sizes[s][0] for s in dim.symbols}).index(dim) is not as_index(n):
            raise error(dim)

    def finish(self) -> None:
        """Compare the sizes that waited for names; those whose names no array has are left."""
        waiting, self.waiting = self.waiting, []
        for dim, n, error in waiting:
            self._size(dim, n, "", error)

    def _differs(self, code: str, what: str, dim: Index) -> ShapeError:
        facts = [f"{s} = {n} by {path}" for s, (n, path) in self.sizes.items() if s in dim.symbols]
        return ShapeError(code, what, position=user_position(), facts=facts,
                          remedy="an array of the annotated sizes, or another annotation")  # fmt: skip
