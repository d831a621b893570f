"""The input of a network as a tree of texts: the sizes of one array, or a tree with the sizes of each.

"N 784"                                             one array of the network's element type
"i64[N, L]"                                         one array of integers
{"image": "N 1 28 28", "tokens": "i64[N, L]"}       two arrays by name
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from pullback.calls.specs import ArraySpec, Spec, TreeSpec
from pullback.errors import ShapeError, TraceError
from pullback.ir import types
from pullback.ir.types import DType
from pullback.source import user_position
from pullback.tracing import tree
from pullback.tracing.array import Array
from pullback.tracing.making import as_array

__all__ = ["Takes", "annotation", "bound", "check_takes", "checked", "differs", "dims_of", "dtype_of", "leaves",
           "map_dims", "names", "of_type", "remedy", "text_of", "tree_text", "zeros"]  # fmt: skip

Takes = Any
"""A text, a tree of texts, or None if any input is accepted."""

DTYPES: Final = {str(d): d for d in types.DTYPES}


def dims_of(text: str) -> list[str]:
    """The sizes of an array: `N 784` and `f32[N, 784]` alike.

    >>> dims_of("i64[N, 2 * L]"), dims_of("N 784"), dims_of("bool")
    (['N', '2*L'], ['N', '784'], [])
    """
    name, bracket, inner = text.partition("[")
    if bracket:
        return [size.replace(" ", "") for size in inner.rstrip("]").split(",") if size.strip()]
    return [] if name.strip() in DTYPES else text.split()


def dtype_of(text: str) -> DType | None:
    """The element type of an array; None for that of the network.

    >>> str(dtype_of("i64[N, L]")), dtype_of("N 784")
    ('i64', None)
    """
    return DTYPES.get(text.partition("[")[0].strip())


def text_of(dims: Sequence[str], dtype: DType | None) -> str:
    """The text of an array with these sizes."""
    return " ".join(dims) if dtype is None else f"{dtype}[{', '.join(dims)}]"


def map_dims(takes: Takes, f: Any) -> Takes:
    """Apply a function to the list of sizes of each array."""
    return tree.map_leaves(lambda text: text_of(f(dims_of(text)), dtype_of(text)), takes)


def of_type(takes: Takes, integers: bool) -> Takes:
    """The takes of a layer with its element type in the text: `N L` of integers is `i64[N, L]`."""
    if not integers or not isinstance(takes, str) or dtype_of(takes):
        return takes
    return text_of(dims_of(takes), types.i64)


def leaves(takes: Takes) -> dict[str, str]:
    """The arrays by their names.

    >>> leaves({"a": "N 2", "b": ("N", "N 3")})
    {'a': 'N 2', 'b[0]': 'N', 'b[1]': 'N 3'}
    """
    texts, structure = tree.flatten(takes)
    return dict(zip(names(structure), texts, strict=True))


def names(structure: tree.Structure) -> list[str]:
    """The names of a tree's arrays as users write them: `image`, `pair[0]`; `input` for one array."""
    if structure.kind == "leaf":
        return ["input"]
    found = []
    for key, child in zip(structure.keys, structure.children, strict=True):
        own = str(key) if isinstance(key, str) else f"input[{key}]"
        found += tree.leaf_paths(child, own)
    return found


def tree_text(structure: tree.Structure, texts: Iterator[str]) -> str:
    """A tree of types as text: `{image: f32[N, 784], tokens: i64[N, L]}`."""
    if structure.kind == "leaf":
        return next(texts)
    inner = [tree_text(child, texts) for child in structure.children]
    if structure.kind in ("dict", "dataclass", "namedtuple"):
        listed = ", ".join(f"{key}: {text}" for key, text in zip(structure.keys, inner, strict=True))
        return f"{{{listed}}}" if structure.type in (None, dict) else f"{structure.type.__name__}({listed})"
    return {"none": "None", "list": f"[{', '.join(inner)}]"}.get(structure.kind, f"({', '.join(inner)})")


def annotation(takes: Takes, dtype: Any, integers: bool) -> Spec:
    """The annotation of an input; arrays without an element type have this one, or are integers."""
    node = tree.open_node(takes)
    if node is None:
        own = dtype_of(takes) or (types.i64 if integers else types.dtype_of(np.dtype(dtype)))
        assert own is not None, dtype
        dims = tuple(dims_of(takes))
        return ArraySpec(f"{own}[{', '.join(dims)}]", (own,), dims)
    structure, children = node
    specs = (annotation(child, dtype, integers) for child in children)
    return TreeSpec(structure.kind, structure.type, tuple(zip(structure.keys, specs)))  # type: ignore[arg-type]


def zeros(takes: Takes, dtype: Any, integers: bool) -> Any:
    """Arrays of zeros as an input whose sizes are numbers."""

    def of(text: str) -> Any:
        own = dtype_of(text)
        return np.zeros([int(n) for n in dims_of(text)], own.numpy if own else np.int64 if integers else dtype)

    return tree.map_leaves(of, takes or "")


def check_takes(given: Takes, where: str) -> None:
    """Refuse a tree whose leaves are not texts.

    Raises:
        TraceError: [E163] a leaf is no text.
    """
    for name, text in leaves(given).items():
        if not isinstance(text, str):
            raise TraceError(
                "E163",
                f"{where}: {name} is {text!r}, and the sizes of an array are one text",
                position=user_position(),
                remedy='`{"image": "N 1 28 28", "tokens": "i64[N, L]"}`',
            )


def bound(own: Takes, given: Takes, what: str) -> Takes:
    """The input `own` of a network with given sizes; element types stay where the new text has none.

    Raises:
        TraceError: [E168] the names differ from those that the network takes.
    """
    if own is None or isinstance(own, str):
        return given
    _check_names(own, given, what)
    sizes: dict[str, str] = {}
    found = _bound(own, given, sizes)
    return map_dims(found, lambda dims: [sizes.get(d, d) for d in dims]) if sizes else found


def _bound(own: Takes, given: Takes, sizes: dict[str, str]) -> Takes:
    """The given sizes, or own ones where None is given; `sizes` collects what names became then."""
    node = tree.open_node(own)
    if node is None:
        if given is None:
            return own
        new, old = dims_of(given), dims_of(own)
        sizes |= {a: b for a, b in zip(old, new) if len(new) == len(old) and a.isidentifier() and a != b}
        return text_of(new, dtype_of(given) or dtype_of(own))
    structure, children = node
    others = [None] * len(children) if given is None else tree.open_node(given)[1]  # type: ignore[index]
    found = [_bound(a, b, sizes) for a, b in zip(children, others, strict=True)]
    return tree.unflatten(replace(structure, children=(tree.LEAF,) * len(found)), found)


def checked(takes: Takes, x: Any, what: str) -> None:
    """Refuse an input that is not a tree as a network takes it.

    One array is not checked: layers say what they do not accept.

    Raises:
        TraceError: [E168] names are missing or unknown. ShapeError: [E168] sizes of one name differ.
    """
    if takes is None or isinstance(takes, str):
        return
    _check_names(takes, x, what)
    found, structure = tree.flatten(x)
    arrays = dict(zip(names(structure), map(as_array, found), strict=True))
    sizes: dict[str, tuple[Any, str]] = {}
    for name, text in leaves(takes).items():
        if name in arrays:
            _check_sizes(name, text, arrays[name], sizes, what)


def _check_sizes(name: str, text: str, array: Array, sizes: dict[str, tuple[Any, str]], what: str) -> None:
    """Refuse an array of other sizes; names alone, as layers declare them, allow more axes than that."""
    dims, wrong = dims_of(text), ""
    is_open = not any(map(str.isdigit, dims))
    if len(dims) != array.ndim and is_open:
        dims = dims[:1]
    pairs = list(zip(dims, array.extents))
    fits = all(not dim.isdigit() or n.constant in (None, int(dim)) for dim, n in pairs)
    if not fits or not (is_open or len(dims) == array.ndim):
        wrong = f"{name} is {array.type_text}, and [{', '.join(dims)}] is taken"
    for dim, extent in pairs if not wrong else []:
        known, of = sizes.setdefault(dim, (extent, name)) if dim.isidentifier() else (extent, name)
        if known != extent and not wrong:
            wrong = f"{of} has {dim} = {known}, and {name} has {dim} = {extent}"
    if wrong:
        remedy = "arrays of the sizes that the network takes"
        raise ShapeError("E168", f"{what}: {wrong}", position=user_position(), remedy=remedy)


def _check_names(takes: Takes, given: Any, what: str) -> None:
    if difference := differs(takes, given):
        raise TraceError("E168", f"{what}: {difference}", position=user_position(), remedy=remedy(takes))


def remedy(takes: Takes) -> str:
    """The tree that a network takes, for messages."""
    texts, structure = tree.flatten(takes)
    return f"a tree as the network takes it: {tree_text(structure, iter(texts))}"


def differs(takes: Takes, given: Any, name: str = "the input") -> str:
    """The difference of a tree from the one that is taken; empty if it has the same structure."""
    wanted, found = tree.flatten(takes)[1], tree.flatten(given)[1]
    return "" if _fits(wanted, found) else _difference(wanted, found, name)


def _fits(wanted: tree.Structure, found: tree.Structure) -> bool:
    """Whether structures are equal; None stands for a tree of states that begin with zeros."""
    if found.kind == "none" and wanted.kind == "dict":
        return True
    if found.kind != wanted.kind or found.type is not wanted.type or found.keys != wanted.keys:
        return False
    return all(map(_fits, wanted.children, found.children))


def _difference(wanted: tree.Structure, found: tree.Structure, place: str) -> str:
    if found.kind != wanted.kind or found.type is not wanted.type:
        return f"{place} is {_kind(found)}, and {_kind(wanted)} is taken"
    missing = [k for k in wanted.keys if k not in found.keys]
    more = [k for k in found.keys if k not in wanted.keys]
    if missing or more:
        lacks = [f"there is no {_listed(missing)}"] if missing else []
        lacks += [f"{_listed(more)} {'is' if len(more) == 1 else 'are'} not taken"] if more else []
        return f"{place} is {_kind(found)}: {'; '.join(lacks)}"
    for key, one, other in zip(wanted.keys, wanted.children, found.children):
        if not _fits(one, other):
            return _difference(one, other, f"{place}{tree.step(wanted.kind, key)}")
    return f"{place} has another structure"


def _listed(keys: Sequence[Any]) -> str:
    return ", ".join(map(repr, keys))


def _kind(structure: tree.Structure) -> str:
    match structure.kind:
        case "leaf":
            return "one array"
        case "none":
            return "None"
        case "dict":
            return f"a dict of {_listed(structure.keys)}" if structure.keys else "an empty dict"
        case "tuple" | "list":
            return f"a {structure.kind} of {len(structure.keys)}"
        case _:
            return f"a {structure.type.__name__ if structure.type else structure.kind}"
