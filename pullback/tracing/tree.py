"""User-level trees: dict, list, tuple, NamedTuple and dataclass with arrays at the leaves.

A complex array is a tree of its real and imaginary part.

The core knows only lists of arrays. A `Structure` records how to rebuild a tree from its leaves. It is hashable and
compares by value, so it serves in signatures. Dicts are ordered by key, OrderedDicts keep their order, and other
subclasses of dict count as dicts. None is a tree without leaves.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeGuard

import numpy as np

from pullback.records import dataclass
from pullback.tracing.complex_array import Parts, is_complex, joined

Kind = Literal["leaf", "none", "dict", "list", "tuple", "namedtuple", "dataclass", "complex"]


@dataclass(frozen=True)
class Structure:
    """The structure of a tree: `keys` name the children; `kind` and `type` describe the container."""

    kind: Kind
    type: type | None = None
    keys: tuple[Any, ...] = ()
    children: tuple[Structure, ...] = ()

    def __str__(self) -> str:
        match self.kind:
            case "leaf":
                return "*"
            case "none":
                return "None"
            case "complex":
                return "complex"
            case "dict":
                return "{" + ", ".join(f"{k!r}: {c}" for k, c in zip(self.keys, self.children)) + "}"
            case "list":
                return "[" + ", ".join(map(str, self.children)) + "]"
            case "tuple":
                return "(" + ", ".join(map(str, self.children)) + ("," if len(self.children) == 1 else "") + ")"
            case _:
                inner = ", ".join(f"{k}={c}" for k, c in zip(self.keys, self.children))
                return f"{self.type.__name__ if self.type else '?'}({inner})"


LEAF = Structure("leaf")
NONE = Structure("none")
PAIR = Structure("complex", None, ("real", "imag"))


def holds_complex(s: Structure) -> bool:
    """Whether a leaf is a complex array."""
    return s.kind == "complex" or any(map(holds_complex, s.children))


def has_form(s: Structure) -> bool:
    """Whether calls that bypass Python handle such trees; not OrderedDicts, or dicts with unusual keys."""
    known = s.kind != "dict" or (s.type is dict and all(type(k) in (str, int) for k in s.keys))
    whole = s.kind != "complex" or all(c.kind == "leaf" for c in s.children)  # not one derivative for each part
    return known and whole and all(map(has_form, s.children))


def form(s: Structure) -> Any:
    """Return a structure in the form for calls that bypass Python (`runtime/c/call.c`).

    A leaf is 0, a complex array 2, None is None and a tuple is a tuple. Other nodes are a list of type, keys, children,
    and the function that builds a node from its children.

    >>> form(flatten((1.0, (None, 2.0)))[1])
    (0, (None, 0))
    >>> form(flatten({"a": 1.0})[1])
    [<class 'dict'>, ('a',), (0,), None]
    """
    if s.kind in ("leaf", "complex"):
        return 2 if s.kind == "complex" else 0
    if s.kind == "none":
        return None
    children = tuple(map(form, s.children))
    if s.kind == "tuple":
        return children
    if s.kind in ("list", "dict"):
        return [list if s.kind == "list" else dict, s.keys, children, None]
    bare = dataclasses.replace(s, children=())
    return [s.type, s.keys, children, lambda values: _with_children(bare, values)]


def is_namedtuple(x: object) -> bool:
    """Whether x is an instance of a NamedTuple class."""
    return isinstance(x, tuple) and hasattr(type(x), "_fields")


def is_pair(x: Any) -> TypeGuard[Any]:
    """Whether x is a complex array or number, or a pair of parts."""
    return is_complex(x) or isinstance(x, Parts)


def open_node(x: object) -> tuple[Structure, Sequence[Any]] | None:
    """The node of x with its children; None if x is a leaf."""
    if type(x) is np.ndarray and x.dtype.kind != "c":  # the most common leaf
        return None
    if isinstance(x, OrderedDict):
        return Structure("dict", OrderedDict, tuple(x)), list(x.values())
    if isinstance(x, dict):
        keys = tuple(sorted(x, key=lambda k: (type(k).__name__, k)))
        return Structure("dict", dict, keys), [x[k] for k in keys]
    if isinstance(x, list):
        return Structure("list", None, tuple(range(len(x)))), x
    if is_namedtuple(x):
        return Structure("namedtuple", type(x), type(x)._fields), list(x)  # type: ignore[attr-defined, call-overload]
    if isinstance(x, tuple):
        return Structure("tuple", None, tuple(range(len(x)))), x
    if x is None:
        return NONE, []
    if is_pair(x):
        return PAIR, (x.real, x.imag)  # views of a NumPy array
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        keys = tuple(f.name for f in dataclasses.fields(x))
        return Structure("dataclass", type(x), keys), [getattr(x, k) for k in keys]
    return None


def flatten(x: object) -> tuple[list[Any], Structure]:
    """The leaves of x in order, and its structure.

    >>> flatten({"b": 2, "a": [1, (3,)]})[0]
    [1, 3, 2]
    """
    leaves: list[Any] = []
    return leaves, _flatten(x, leaves)


def _flatten(x: object, leaves: list[Any]) -> Structure:
    node = open_node(x)
    if node is None:
        leaves.append(x)
        return LEAF
    structure, children = node
    if structure.kind == "none":
        return NONE
    return Structure(structure.kind, structure.type, structure.keys, tuple([_flatten(c, leaves) for c in children]))


def collect_leaves(s: Structure, x: object, leaves: list[Any]) -> bool:
    """Append the leaves of x in order; return False if x does not have this structure (see `flatten`)."""
    if s.kind == "leaf":
        leaves.append(x)
        return open_node(x) is None
    if s.kind in ("tuple", "list"):
        fits = type(x) is (tuple if s.kind == "tuple" else list)
    elif s.kind == "none":
        return x is None
    elif s.kind == "complex":
        if not is_pair(x):
            return False
        return all(collect_leaves(c, v, leaves) for c, v in zip(s.children, (x.real, x.imag)))
    elif s.kind == "dict":
        fits = isinstance(x, dict) and isinstance(x, OrderedDict) == (s.type is OrderedDict)
    else:
        fits = type(x) is s.type
    if not fits or (s.kind != "dataclass" and len(x) != len(s.keys)):  # type: ignore[arg-type]
        return False
    if s.kind == "dict":
        return all(k in x and collect_leaves(c, x[k], leaves) for k, c in zip(s.keys, s.children))  # type: ignore[operator, index]
    children = [getattr(x, k) for k in s.keys] if s.kind == "dataclass" else x
    return all(collect_leaves(c, v, leaves) for c, v in zip(s.children, children))  # type: ignore[call-overload]


def unflatten(structure: Structure, leaves: Sequence[Any], apart: bool = False) -> Any:
    """Rebuild the tree from its leaves; with `apart`, parts of complex arrays stay separate.

    >>> unflatten(flatten({"b": 2, "a": [1, (3,)]})[1], "xyz")
    {'a': ['x', ('y',)], 'b': 'z'}
    """
    rest = iter(leaves)
    return _unflatten(structure, rest, apart)


def _unflatten(s: Structure, leaves: Iterator[Any], apart: bool) -> Any:
    if s.kind == "leaf":
        return next(leaves)
    if s.kind == "none":
        return None
    children = [_unflatten(c, leaves, apart) for c in s.children]
    if s.kind == "complex":
        return Parts(*children) if apart else joined(*children)
    return _with_children(s, children)


def _with_children(s: Structure, children: Sequence[Any]) -> Any:
    match s.kind:
        case "dict":
            return (s.type or dict)(zip(s.keys, children))
        case "list":
            return list(children)
        case "tuple":
            return tuple(children)
        case "namedtuple":
            assert s.type is not None
            return tuple.__new__(s.type, children)  # its own __new__ may refuse traced values
        case _:
            return _new_dataclass(s, children)


def _new_dataclass(s: Structure, children: Sequence[Any]) -> Any:
    assert s.type is not None
    made: Any = object.__new__(s.type)  # as above
    for key, child in zip(s.keys, children):
        object.__setattr__(made, key, child)
    return made


def step(kind: Kind, key: Any) -> str:
    """The path step from a node of this kind to a child, as users write it.

    >>> step("dict", "w"), step("dataclass", "w")
    ("['w']", '.w')
    """
    return f".{key}" if kind in ("namedtuple", "dataclass", "complex") else f"[{key!r}]"


def leaf_paths(s: Structure, name: str = "") -> list[str]:
    """The path of each leaf as users write it: `params.w`, `layers[0]`, `net['a']`.

    >>> leaf_paths(flatten({"w": 1, "b": (2, 3)})[1], "params")
    ["params['b'][0]", "params['b'][1]", "params['w']"]
    """
    if s.kind == "leaf":
        return [name]
    out: list[str] = []
    for key, child in zip(s.keys, s.children):
        out += leaf_paths(child, name + step(s.kind, key))
    return out


def leaf_names(s: Structure, name: str = "out", own: Iterable[str | None] = ()) -> list[str]:
    """An identifier for each leaf: the keys on its path, joined by underscores.

    `own` are the leaves' own names, if any, for leaves whose last key is a position.
    """
    rest = iter(own)
    return _leaf_names(s, name, lambda default: next(rest, None) or default)


def _leaf_names(s: Structure, name: str, own: Callable[[str], str], keyed: bool = False) -> list[str]:
    if s.kind == "leaf":
        found = own(name)
        return [name if keyed else found]
    out: list[str] = []
    for key, child in zip(s.keys, s.children):
        text = str(key)
        keyed = s.kind == "complex" or (text.isidentifier() and not text.isdigit())
        step = text if keyed and s.kind != "complex" else f"{name}_{text}"
        out += _leaf_names(child, step if step.isidentifier() else f"{name}_{len(out)}", own, keyed)
    return out


def map_leaves(f: Callable[..., Any], x: object, *others: object) -> Any:
    """Apply f to the leaves of trees of one structure.

    >>> map_leaves(lambda a, b: a + b, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}
    """
    leaves, structure = flatten(x)
    columns = [leaves]
    for other in others:
        more, theirs = flatten(other)
        if theirs != structure:
            raise ValueError(f"trees of different structure: {structure} and {theirs}")
        columns.append(more)
    return unflatten(structure, [f(*row) for row in zip(*columns)])
