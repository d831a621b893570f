"""Specifications of arguments, made from their annotations.

A spec with an argument (or alone, if it is complete) gives a list of `Leaf`s: the arrays of the program, with element
type and dims. Leaves are hashable, and form the signature for which a function is traced.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from pullback.calls.arguments import (
    MISSING,
    Leaf,
    LeafKind,
    Leaves,
    Undetermined,
    argument_type,
    array_of,
    as_numpy,
    found_text,
    is_array_like,
    numpy_dtype,
    wrong_dtype,
)
from pullback.errors import DTypeError, ShapeError, TraceError, counted
from pullback.ir import types
from pullback.ir.index import as_index
from pullback.ir.types import DType
from pullback.records import dataclass
from pullback.state import cached
from pullback.tracing import tree
from pullback.tracing.active import is_tracing
from pullback.tracing.array import Array, type_text
from pullback.tracing.distinct import distinct
from pullback.tracing.making import axes_text
from pullback.tracing.tree import Structure


class Spec:
    """The specification of an annotation. `leaves` gives structure and leaves of an argument, or MISSING."""

    def leaves(self, value: Any, path: str) -> Leaves:
        """The structure, leaves and leaf values of an argument; MISSING works if the annotation is complete."""
        raise NotImplementedError


def joined(node: Structure, found: Sequence[Leaves]) -> Leaves:
    """Join the leaves of a node's children."""
    structure = dataclasses.replace(node, children=tuple(s for s, _, _ in found))
    return structure, [leaf for _, leaves, _ in found for leaf in leaves], [v for _, _, values in found for v in values]


@dataclass
class StaticSpec(Spec):
    """The spec of a Python value, fixed when the function is traced."""

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
    """The spec of an integer that binds a dim."""

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
    """The spec of a plain `int`, `float` or `bool`."""

    kind: Literal["int", "float", "bool"]

    def leaves(self, value: Any, path: str) -> Leaves:  # noqa: D102
        if self.kind == "int" and isinstance(value, Array) and value.index is not None:
            return tree.LEAF, [Leaf(path, "index", value=value.index)], [value]
        if self.kind == "int" and type(value) is int and is_tracing():
            return tree.LEAF, [Leaf(path, "index", value=as_index(value))], [value]
        dtype = {"int": types.i64, "float": types.f64, "bool": types.bool_}[self.kind]
        return tree.LEAF, [Leaf(path, self.kind, dtype)], [value]


@dataclass(frozen=True)
class ArraySpec(Spec):
    """The spec of a jaxtyping array type: the accepted dtypes and the tokens of the dims."""

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
        return tree.LEAF, [_annotated_leaf(self, dtype, rank, path)], [value]

    def tokens(self, rank: int, path: str) -> tuple[str, ...]:
        """The tokens of the dims, with `...` and `*names` expanded."""
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


@cached(4096)
def _annotated_leaf(spec: ArraySpec, dtype: DType, rank: int, path: str) -> Leaf:
    return Leaf(path, "array", dtype, spec.tokens(rank, path))


@dataclass
class ComplexSpec(Spec):
    """The spec of a jaxtyping array type of complex numbers, which is two arrays, the parts."""

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
        return joined(tree.PAIR, found)


@dataclass
class OptionalSpec(Spec):
    """The spec of `X | None`; whether the argument is None is known when the function is traced."""

    spec: Spec

    def leaves(self, value: Any, path: str) -> Leaves:  # noqa: D102
        return (tree.NONE, [], []) if value is None else self.spec.leaves(value, path)


@dataclass
class TreeSpec(Spec):
    """The spec of a NamedTuple, dataclass, TypedDict or tuple with annotated fields."""

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
                were = "was" if len(found.keys) == 1 else "were"
                what = f"{counted(len(found.keys), 'item')} {were} given where the annotation has {self._fields_text()}"
            elif missing:
                what = f"there is no {', '.join(map(repr, missing))}, and the annotation has {self._fields_text()}"
            else:
                what = f"there is {', '.join(map(repr, more))} besides {self._fields_text()} of the annotation"
        return TraceError("E139", f"{path}: {what}", remedy=remedy)

    @property
    def text(self) -> str:
        """The description of the tree, for messages."""
        return self.type.__name__ if self.type else self.kind

    def _fields_text(self) -> str:
        if self.kind == "tuple":
            return counted(len(self.fields), "item")
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
        found = [spec.leaves(c, path + tree.step(self.kind, k)) for (k, spec), c in zip(self.fields, children)]
        return joined(Structure(self.kind, self.type, keys), found)


@dataclass
class AnySpec(Spec):
    """The spec of no annotation, or a container of unknown length: the argument decides."""

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
        """The leaves of a list, tuple or dict of any length with annotated items."""
        node = tree.open_node(value)
        if node is None or node[0].kind not in ("list", "tuple", "dict"):
            raise TraceError(
                "E139",
                f"{path}: {found_text(value)} was given where the annotation has a list, tuple or dict",
                remedy="pass a container of the annotated items",
            )
        found = [item.leaves(child, f"{path}[{key!r}]") for key, child in zip(node[0].keys, node[1])]
        return joined(node[0], found)


@cached(4096)
def _array_leaf(path: str, dtype: DType, shape: tuple[int, ...]) -> Leaf:
    return Leaf(path, "array", dtype, tuple(as_index(n) for n in shape))


def _unannotated(value: Any, path: str) -> Leaf:
    if type(value) is np.ndarray:
        return _array_leaf(path, numpy_dtype(value, path), value.shape)
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
        # a Python object other than an array is fixed, like `self` of a method
        return Leaf(path, "static", value=value)
    array = as_numpy(value, path)  # one on a device has the bits of bfloat16
    return _array_leaf(path, getattr(array, "storage", None) or numpy_dtype(array, path), array.shape)


def spec_like(x: Any) -> Spec:
    """The specification of trees with the same structure, element types and sizes."""
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
