"""What the annotations of a function say about its arguments.

jaxtyping's array types are recognised by what they carry (`array_type`, `dim_str`, `dtypes`), so the package need not
be imported. A parameter's annotation becomes a `Spec`; a spec together with an argument (or alone, where it says
enough) becomes a list of `Leaf`s: the arrays of the program, with element type and dims. Leaves are hashable: they are
the signature by which a function is traced.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import types as python_types
import typing
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

import numpy as np

from pullback.calls.arguments import (
    argument_type,
    array_of,
    as_numpy,
    found_text,
    is_array_like,
    numpy_dtype,
    wrong_dtype,
)
from pullback.calls.extents import Token, parse_dim
from pullback.errors import DTypeError, ShapeError, TraceError
from pullback.ir import types
from pullback.ir.index import Index, as_index, symbol
from pullback.ir.types import DType
from pullback.source import is_ours, user_position
from pullback.state import cached
from pullback.tracing import tree
from pullback.tracing.active import is_tracing
from pullback.tracing.array import Array, type_text
from pullback.tracing.distinct import distinct
from pullback.tracing.making import axes_text
from pullback.tracing.tree import Structure


class Static:
    """Annotation of an argument that is a Python value, fixed when the function is traced.

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
    """Annotation of an integer argument that binds a dim: `steps: pb.Size["S"]`.

    Type checkers take it for a literal; for one that is to see an int, `Annotated[int, pb.Size["S"]]` says the same.
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


LeafKind = Literal["array", "int", "float", "bool", "size", "static", "index"]


class Origin:
    """How a leaf came about, where that has dims too."""

    def with_dims(self, extents: Sequence[Index]) -> Self:
        """The same for an array of these extents."""
        raise NotImplementedError


@dataclass(frozen=True)
class Leaf:
    """One argument of the program: its path in the user's spelling, dtype and dims.

    Not in the program are a static value, and an index of the function around the call, known as it is there. Values
    are told apart by their `key`.
    """

    path: str
    kind: LeafKind
    dtype: DType | None = None
    dims: tuple[Token, ...] = ()
    value: Any = field(default=None, compare=False)
    size: str = ""
    key: Hashable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", distinct(self.value))

    @property
    def extents(self) -> tuple[Index, ...]:
        """The extents of the array."""
        return tuple(parse_dim(t, self.path) for t in self.dims)

    @property
    def own_dims(self) -> list[Index]:
        """The extents, or the size, that an annotation gives in names of its own."""
        if self.kind == "size":
            return [symbol(self.size)]
        return [parse_dim(t, self.path) for t in self.dims if isinstance(t, str)]

    def with_dims(self, extents: Sequence[Index]) -> Leaf:
        """The leaf of an array of these extents, as if there were no annotation."""
        value = self.value.with_dims(extents) if isinstance(self.value, Origin) else self.value
        return dataclasses.replace(self, dims=tuple(extents), value=value)

    def with_size(self, extent: Index) -> Leaf:
        """The leaf of a size that is known."""
        return Leaf(self.path, "index", value=extent)

    @property
    def is_input(self) -> bool:
        """Whether it is an array of the program; sizes, static values and indices are not."""
        return self.kind not in ("static", "size", "index")


class Undetermined(Exception):
    """The annotation does not say enough; an argument is needed."""


MISSING: Any = object()


Leaves = tuple[Structure, list[Leaf], list[Any]]


class Spec:
    """What an annotation says. `leaves` gives the structure and leaves for an argument, or for MISSING."""

    def leaves(self, value: Any, path: str) -> Leaves:
        """The structure, leaves and leaf values of an argument; of MISSING where the annotation says enough."""
        raise NotImplementedError


@dataclass
class StaticSpec(Spec):
    """A Python value."""

    def leaves(self, value: Any, path: str) -> Leaves:  # noqa: D102
        if value is MISSING:
            raise Undetermined
        if isinstance(value, Array):
            raise TraceError(
                "E108",
                f"{path} is static, and a traced value ({type_text(value)}) was given",
                remedy="pass a Python value, or drop `pb.Static` from the annotation",
            )
        try:
            distinct(value)
        except TypeError:
            raise TraceError(
                "E108",
                f"{path} is static, and a {type(value).__name__} cannot be hashed",
                remedy="pass a tuple, a frozen dataclass or a function",
            ) from None
        return tree.LEAF, [Leaf(path, "static", value=value)], [value]


@dataclass
class SizeSpec(Spec):
    """An integer that binds a dim."""

    name: str

    def leaves(self, value: Any, path: str) -> Leaves:  # noqa: D102
        if (
            value is not MISSING
            and not (isinstance(value, Array) and value.index is not None)
            and (isinstance(value, bool) or not isinstance(value, int | np.integer))
        ):
            raise TraceError(
                "E108",
                f"{path} binds the dim {self.name}, and {found_text(value)} was given",
                remedy="pass a Python int or a dim",
            )
        return tree.LEAF, [Leaf(path, "size", size=self.name)], [value]


@dataclass
class NumberSpec(Spec):
    """A plain `int`, `float` or `bool`."""

    kind: Literal["int", "float", "bool"]

    def leaves(self, value: Any, path: str) -> Leaves:  # noqa: D102
        if self.kind == "int" and isinstance(value, Array) and value.index is not None:
            return tree.LEAF, [Leaf(path, "index", value=value.index)], [value]
        if self.kind == "int" and type(value) is int and is_tracing():
            return tree.LEAF, [Leaf(path, "index", value=as_index(value))], [value]
        dtype = {"int": types.i64, "float": types.f64, "bool": types.bool_}[self.kind]
        return tree.LEAF, [Leaf(path, self.kind, dtype)], [value]


@dataclass
class ArraySpec(Spec):
    """A jaxtyping array type: the dtypes it admits and the tokens of its dims."""

    text: str
    dtypes: tuple[DType, ...]
    dims: tuple[str, ...]

    @property
    def variadic(self) -> int | None:
        """The position of `...` or `*names`."""
        return next((k for k, t in enumerate(self.dims) if t == "..." or t.startswith("*")), None)

    def leaves(self, value: Any, path: str) -> Leaves:  # noqa: D102
        if isinstance(value, list | tuple):
            value = array_of(value, path, self.dtypes)
        if value is MISSING:
            if self.variadic is not None or (len(self.dtypes) != 1 and set(self.dtypes) != {types.f32, types.f64}):
                raise Undetermined  # `Float` alone is shown and checked as f32
            dtype, rank = self.dtypes[0], len(self.dims)
        else:
            found, rank = argument_type(value, path, self.dtypes)
            if found is None:
                found = self.dtypes[0] if len(self.dtypes) == 1 else None
            if found is None:
                found = types.f64 if types.f64 in self.dtypes else self.dtypes[-1]
            if found is types.u16 and types.bf16 in self.dtypes:
                found = types.bf16  # its bits
            if found not in self.dtypes:
                raise wrong_dtype(path, self.dtypes, found, value)
            dtype = found
        return tree.LEAF, [Leaf(path, "array", dtype, self.tokens(rank, path))], [value]

    def tokens(self, rank: int, path: str) -> tuple[str, ...]:
        """The tokens of the dims, those of `...` and `*names` written out."""
        name = "".join(c if c.isalnum() else "_" for c in path).strip("_")
        at = self.variadic
        fits = rank == len(self.dims) if at is None else rank >= len(self.dims) - 1
        if not fits:
            raise ShapeError(
                "E110",
                f"{path} has {axes_text(rank)}, its annotation {self.text} has {len(self.dims)}",
                remedy="pass an array with the axes of the annotation",
            )
        tokens = list(self.dims)
        if at is not None:
            label = tokens[at].lstrip("*") if tokens[at] != "..." else f"{name}_d"
            tokens[at : at + 1] = [f"{label}{k}" for k in range(rank - len(self.dims) + 1)]
        return tuple(f"{name}_{k}" if t.startswith("_") else t for k, t in enumerate(tokens))


@dataclass
class ComplexSpec(Spec):
    """A jaxtyping array type of complex numbers: two arrays, its parts."""

    part: ArraySpec

    def leaves(self, value: Any, path: str) -> Leaves:  # noqa: D102
        parts: Sequence[Any] = (MISSING, MISSING)
        if value is not MISSING:
            value = value if tree.is_pair(value) or isinstance(value, Array) else as_numpy(value, path)
            if not tree.is_pair(value):
                raise DTypeError(
                    "E122",
                    f"{path} is {found_text(value)} of real numbers, its annotation says {self.part.text}",
                    remedy=f"`{path}.astype(np.complex128)` converts it",
                )
            parts = value.real, value.imag
        found = [self.part.leaves(v, f"{path}.{name}") for v, name in zip(parts, tree.PAIR.keys)]
        structure = dataclasses.replace(tree.PAIR, children=tuple(s for s, _, _ in found))
        return structure, [leaf for _, more, _ in found for leaf in more], [v for _, _, more in found for v in more]


@dataclass
class OptionalSpec(Spec):
    """`X | None`: whether it is None is known when the function is traced."""

    spec: Spec

    def leaves(self, value: Any, path: str) -> Leaves:  # noqa: D102
        return (tree.NONE, [], []) if value is None else self.spec.leaves(value, path)


@dataclass
class TreeSpec(Spec):
    """A NamedTuple, dataclass, TypedDict or tuple whose fields are annotated."""

    kind: Literal["namedtuple", "dataclass", "dict", "tuple", "list", "none"]
    type: type | None
    fields: tuple[tuple[Any, Spec], ...]

    def _differs(self, value: Any, path: str, found: Structure | None) -> TraceError:
        names = [k for k, _ in self.fields]
        what = f"{found_text(value)} was given where the annotation has {self.text} of {self._fields_text()}"
        remedy = "pass a tree of the annotated structure"
        if found is not None and found.kind == self.kind:
            missing = [k for k in names if k not in found.keys]
            more = [k for k in found.keys if k not in names]
            if self.kind == "tuple":
                what = f"{len(found.keys)} items were given where the annotation has {self._fields_text()}"
            elif missing:
                what = f"there is no {', '.join(map(repr, missing))}, and the annotation has {self._fields_text()}"
            else:
                what = f"there is {', '.join(map(repr, more))} besides {self._fields_text()} of the annotation"
        return TraceError("E139", f"{path}: {what}", remedy=remedy)

    @property
    def text(self) -> str:
        """What it is, in messages."""
        return self.type.__name__ if self.type else self.kind

    def _fields_text(self) -> str:
        if self.kind == "tuple":
            return f"{len(self.fields)} items"
        return ", ".join(str(k) for k, _ in self.fields)

    def leaves(self, value: Any, path: str) -> Leaves:  # noqa: D102
        keys = tuple(k for k, _ in self.fields)
        children: list[Any] = [MISSING] * len(keys)
        if value is not MISSING:
            node = tree.open_node(value)
            if node is None or node[0].kind != self.kind or set(node[0].keys) != set(keys):
                raise self._differs(value, path, node[0] if node else None)
            by_key = dict(zip(node[0].keys, node[1]))
            children = [by_key[k] for k in keys]
        structures, leaves, values = [], [], []
        for (key, spec), child in zip(self.fields, children):
            step = f".{key}" if self.kind in ("namedtuple", "dataclass") else f"[{key!r}]"
            s, more, v = spec.leaves(child, path + step)
            structures.append(s)
            leaves += more
            values += v
        return Structure(self.kind, self.type, keys, tuple(structures)), leaves, values


@dataclass
class AnySpec(Spec):
    """No annotation, or a container of unknown length: the argument decides."""

    item: Spec | None = None

    def leaves(self, value: Any, path: str) -> Leaves:  # noqa: D102
        if value is MISSING:
            raise Undetermined
        if self.item is not None:
            return self._items(self.item, value, path)
        values, structure = tree.flatten(value)
        paths = tree.leaf_paths(structure, path)
        return structure, [_unannotated(v, p) for v, p in zip(values, paths)], values

    def _items(self, item: Spec, value: Any, path: str) -> Leaves:
        """A list, tuple or dict of any length whose items are annotated."""
        node = tree.open_node(value)
        if node is None or node[0].kind not in ("list", "tuple", "dict"):
            raise TraceError(
                "E139",
                f"{path}: {found_text(value)} was given where the annotation has a list, tuple or dict",
                remedy="pass a container of the annotated items",
            )
        found = [item.leaves(child, f"{path}[{key!r}]") for key, child in zip(node[0].keys, node[1])]
        structure = dataclasses.replace(node[0], children=tuple(s for s, _, _ in found))
        return structure, [leaf for _, more, _ in found for leaf in more], [v for _, _, more in found for v in more]


def _unannotated(value: Any, path: str) -> Leaf:
    if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
        kind: LeafKind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
        return Leaf(path, kind, {"int": types.i64, "float": types.f64, "bool": types.bool_}[kind])
    if isinstance(value, Array):
        if value.index is not None:
            return Leaf(path, "index", value=value.index)
        if value.weak is not None:
            kind = {"bool": "bool", "integer": "int", "floating": "float"}[value.weak]  # type: ignore[assignment]
            return Leaf(path, kind, value.settled)
        return Leaf(path, "array", value.storage, tuple(value.extents))
    if not is_array_like(value):
        # a Python object that is no array is fixed, as `self` of a method is
        return Leaf(path, "static", value=value)
    array = as_numpy(value, path)
    return Leaf(path, "array", numpy_dtype(array, path), tuple(as_index(n) for n in array.shape))


# Reading annotations --------------------------------------------------------------------------------------------


def spec_like(x: Any) -> Spec:
    """The Spec of trees like this one: the same structure, and arrays of the same element types and extents."""
    node = tree.open_node(x)
    if node is None:
        array = np.asarray(x)
        dims = tuple(map(str, array.shape))
        dtype = types.dtype_of(array.dtype)
        assert dtype is not None, array.dtype
        return ArraySpec(f"{dtype}[{', '.join(dims)}]", (dtype,), dims)
    structure, children = node
    fields = tuple(zip(structure.keys, map(spec_like, children)))
    return TreeSpec(structure.kind, structure.type, fields)  # type: ignore[arg-type]


def spec_of(annotation: Any, owner: str) -> Spec:
    """The Spec of an annotation; a Spec is one.

    Raises:
        TraceError: [E107] it is nothing the language knows.
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
        hints = _hints(cls)
        return TreeSpec(
            "dataclass",
            cls,
            tuple((f.name, spec_of(hints[f.name], f"{owner}.{f.name}")) for f in dataclasses.fields(cls)),
        )
    return AnySpec()


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
    """The function behind a partial application, a traced function, or an object that can be called."""
    while not hasattr(f, "__code__"):
        if isinstance(f, functools.partial):
            f = f.func
        elif hasattr(f, "__wrapped__"):
            f = f.__wrapped__
        else:
            return f if isinstance(f, type) else vars(type(f)).get("__call__", f)
    return f


def function_annotations(f: Callable[..., Any], wanted: Sequence[str] | None = None) -> dict[str, Any]:
    """The annotations of a function, or those wanted, strings evaluated in its globals and closure."""
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
            # a function of the package itself, whose annotations are there for type checkers only
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
    if not dtypes and names is not None:  # those of `Float` are what is computed with
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


_PARTS: Final = {"complex64": types.f32, "complex128": types.f64}
