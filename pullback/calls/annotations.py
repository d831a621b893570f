"""Conversion of parameter annotations to specs.

jaxtyping's array types are recognized by their attributes (`array_type`, `dim_str`, `dtypes`), so the package need not
be imported.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import types as python_types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pullback.calls.specs import (
    AnySpec,
    ArraySpec,
    ComplexSpec,
    NumberSpec,
    OptionalSpec,
    SizeSpec,
    Spec,
    StaticSpec,
    TreeSpec,
)
from pullback.errors import DTypeError, TraceError
from pullback.ir import types
from pullback.ir.types import DType
from pullback.source import is_ours, user_position
from pullback.state import cached
from pullback.tracing.array import Array


class Static:
    """The annotation of an argument that is a Python value, fixed when the function is traced.

    >>> import pullback as pb
    >>> @pb.function
    ... def powers(n: pb.Static):
    ...     return pb.stack([2 ** k for k in range(n)])
    >>> powers(4).tolist()
    [1, 2, 4, 8]
    """

    def __class_getitem__(cls, item: object) -> type[Static]:
        return cls


class Size:
    """The annotation of an integer argument that binds a dim: `steps: pb.Size["S"]`.

    Type checkers take it for a literal. With `Annotated[int, pb.Size["S"]]`, which means the same, they see an int.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __class_getitem__(cls, name: Any) -> Size:
        if not isinstance(name, str) or not name.isidentifier():
            raise TraceError(
                "E107",
                f"Size[{name!r}]: the name of a dim is an identifier in quotes",
                position=user_position(),
                remedy='`pb.Size["S"]`',
            )
        return cls(name)

    def __repr__(self) -> str:
        return f"Size[{self.name!r}]"


def spec_of(annotation: Any, owner: str) -> Spec:
    """The Spec of an annotation; a Spec stands for itself.

    Raises:
        TraceError: [E107] the annotation is not supported.
    """
    if isinstance(annotation, Spec):
        return annotation
    if annotation is inspect.Parameter.empty or annotation is Any:
        return AnySpec()
    if isinstance(annotation, Size):
        return SizeSpec(annotation.name)
    if annotation is Static:
        return StaticSpec()
    if annotation in (int, float, bool):
        return NumberSpec(annotation.__name__)
    if hasattr(annotation, "dim_str") and hasattr(annotation, "dtypes") and hasattr(annotation, "array_type"):
        return _array_spec(annotation, owner)
    origin = typing.get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, Array):
        return _generic_spec(annotation, owner)
    if origin is typing.Annotated:
        kind, *more = typing.get_args(annotation)
        return next((SizeSpec(a.name) for a in more if isinstance(a, Size)), None) or spec_of(kind, owner)
    if origin in (typing.Union, python_types.UnionType):
        given = [a for a in typing.get_args(annotation) if a is not type(None)]
        if len(given) == 1:
            return OptionalSpec(spec_of(given[0], owner))
    if origin is tuple:
        items = typing.get_args(annotation)
        if len(items) == 2 and items[1] is Ellipsis:
            return AnySpec(spec_of(items[0], owner))
        return TreeSpec("tuple", None, tuple((k, spec_of(a, f"{owner}[{k}]")) for k, a in enumerate(items)))
    if origin in (list, dict):
        return AnySpec(spec_of(typing.get_args(annotation)[-1], owner))
    if isinstance(origin, type) and dataclasses.is_dataclass(origin):
        variables = getattr(origin, "__parameters__", ())
        return _dataclass_spec(origin, owner, dict(zip(variables, typing.get_args(annotation))))
    if isinstance(annotation, type):
        if annotation.__module__.partition(".")[0] == "jaxtyping":
            raise TraceError(
                "E107",
                f"{owner}: the annotation {annotation.__name__} has no dims",
                remedy=f'`{annotation.__name__}[Array, "N"]`, and `{annotation.__name__}[Array, "..."]` for any',
            )
        return _class_spec(annotation, owner)
    raise TraceError(
        "E107",
        f"{owner}: the annotation {annotation!r} is not understood",
        remedy='`Float32[Array, "N M"]` of jaxtyping, int, float, bool, pb.Static, pb.Size["S"], '
        "or a NamedTuple, dataclass or TypedDict of these",
    )


def _class_spec(cls: type, owner: str) -> Spec:
    if typing.is_typeddict(cls):
        hints = _hints(cls)
        return TreeSpec("dict", dict, tuple((k, spec_of(hints[k], f"{owner}[{k!r}]")) for k in sorted(hints)))
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        hints = _hints(cls)
        return TreeSpec("namedtuple", cls, tuple((k, spec_of(hints.get(k, Any), f"{owner}.{k}")) for k in cls._fields))
    if dataclasses.is_dataclass(cls):
        return _dataclass_spec(cls, owner, {})
    return AnySpec()


def _dataclass_spec(cls: type, owner: str, given: Mapping[Any, Any]) -> Spec:
    """The Spec of a dataclass; `given` has the arguments of a generic one by their type variables."""
    hints = _hints(cls)
    wanted = {
        f.name: given.get(hint, Any) if isinstance(hint := hints[f.name], typing.TypeVar) else hint
        for f in dataclasses.fields(cls)
    }
    return TreeSpec("dataclass", cls, tuple((n, spec_of(hint, f"{owner}.{n}")) for n, hint in wanted.items()))


def _hints(cls: type) -> dict[str, Any]:
    module = sys.modules.get(cls.__module__)
    names = dict(vars(module)) if module else {}
    return {
        k: evaluated(a, names)
        for base in reversed(cls.__mro__)
        for k, a in getattr(base, "__annotations__", {}).items()
    }


def evaluated(annotation: Any, names: Mapping[str, Any]) -> Any:
    """An annotation written as a string (PEP 563), evaluated."""
    if isinstance(annotation, str):
        return eval(annotation, dict(names))
    if isinstance(annotation, typing.ForwardRef):
        return eval(annotation.__forward_arg__, dict(names))
    return annotation


def python_function(f: Any) -> Any:
    """The Python function behind a partial application, a traced function, or a callable object."""
    while not hasattr(f, "__code__"):
        if isinstance(f, functools.partial):
            f = f.func
        elif hasattr(f, "__wrapped__"):
            f = f.__wrapped__
        else:
            return f if isinstance(f, type) else vars(type(f)).get("__call__", f)
    return f


def function_annotations(f: Callable[..., Any], wanted: Sequence[str] | None = None) -> dict[str, Any]:
    """The annotations of a function, or the given ones, with strings evaluated in its globals and closure."""
    f = python_function(f)
    names = dict(getattr(f, "__globals__", {}))
    code, cells = getattr(f, "__code__", None), getattr(f, "__closure__", None) or ()
    if isinstance(code, python_types.CodeType):
        for name, cell in zip(code.co_freevars, cells):
            try:
                names[name] = cell.cell_contents
            except ValueError:
                pass  # not bound yet
    found = {}
    annotations = getattr(f, "__annotations__", {})
    for name, annotation in annotations.items() if wanted is None else ((n, annotations[n]) for n in wanted):
        try:
            found[name] = evaluated(annotation, names)
        except NameError:
            if not isinstance(code, python_types.CodeType) or not is_ours(code.co_filename):
                raise
            # a function of the package itself, whose annotations are only for type checkers
    return found


@cached(1)
def _dtypes_by_name() -> dict[str, DType]:
    return {str(d.numpy): d for d in types.DTYPES}


def _array_spec(annotation: Any, owner: str) -> Spec:
    kind = getattr(annotation, "__name__", "Shaped").partition("[")[0]
    text = f"{kind}[{annotation.dim_str!r}]".replace("'", '"')
    names = annotation.dtypes if isinstance(annotation.dtypes, tuple | list) else None
    known = _dtypes_by_name()
    dtypes = tuple(d for n, d in known.items() if names is None or n in names)
    if not dtypes and names is not None:  # `Float` means the types used for computation
        dtypes = tuple(d for d in types.HALVES if d.title in names)
    complexes = tuple(d for n, d in _PARTS.items() if names is not None and n in names)
    if not dtypes and not complexes:
        raise DTypeError(
            "E122", f"{owner}: {text} admits no element type of the language", remedy="one of " + ", ".join(known)
        )
    tokens: list[str] = []
    for token in annotation.dim_str.split():
        if token.startswith(("#", "?")):
            raise TraceError(
                "E107",
                f"{owner}: the dim {token!r} of {text} is not supported",
                remedy="a name, a number, arithmetic on names, `_`, `...` or `*names`",
            )
        tokens.append(token.split("=")[-1])
    if sum(t == "..." or t.startswith("*") for t in tokens) > 1:
        raise TraceError("E107", f"{owner}: {text} has more than one variadic dim")
    spec = ArraySpec(text, dtypes or complexes, tuple(tokens))
    return spec if dtypes else ComplexSpec(spec)


def _generic_spec(annotation: Any, owner: str) -> Spec:
    from pullback.calls.generics import form_of

    text, dims, names = form_of(typing.get_args(annotation), owner)
    own = tuple(d for n, d in _dtypes_by_name().items() if names is None or n in names)
    parts = tuple(d for n, d in _PARTS.items() if names is not None and n in names)
    spec = ArraySpec(text, own or parts, dims)
    return spec if own else ComplexSpec(spec)


_PARTS: Final = {"complex64": types.f32, "complex128": types.f64}
