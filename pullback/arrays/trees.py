"""User-level trees of arrays: tree_map, tree_dot, and ravel, which flattens a tree to a vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.arrays.elementwise import convert, elementwise
from pullback.arrays.manipulation import concat, product, reshape
from pullback.arrays.reduction import sum as total
from pullback.errors import ShapeError
from pullback.source import user_position
from pullback.tracing import tree
from pullback.tracing.arithmetic import common_dtype
from pullback.tracing.array import Array, from_index
from pullback.tracing.making import as_array


def tree_map(f: Callable[..., Any], x: Any, *others: Any) -> Any:
    """Apply `f` to each leaf of a tree, and to corresponding leaves of further trees.

    >>> pb.tree_map(lambda a, b: a + b, {"w": 1, "b": [2]}, {"w": 10, "b": [20]})
    {'b': [22], 'w': 11}
    """
    try:
        return tree.map_leaves(f, x, *others)
    except ValueError as error:
        if not str(error).startswith("trees of different structure"):
            raise
        raise ShapeError("E139", f"tree_map: {error}", position=user_position()) from None


def tree_dot(x: Any, y: Any) -> Array:
    """The sum of the products of corresponding elements of two trees.

    >>> @pb.function
    ... def size(x):
    ...     return pb.tree_dot((x, 2 * x), (x, x))
    >>> size(np.array([1.0, 2.0])).item()
    15.0
    """
    leaves, _ = tree.flatten(tree_map(lambda a, b: total(elementwise("multiply", a, b)), x, y))
    out = as_array(leaves[0] if leaves else 0.0)
    for leaf in leaves[1:]:
        out = elementwise("add", out, leaf)
    return out


def ravel(x: Any) -> tuple[Array, Callable[[Any], Any]]:
    """Flatten all leaves into one vector; also return the function that rebuilds the tree.

    >>> @pb.function
    ... def doubled(w, b):
    ...     vector, back = pb.ravel({"w": w, "b": b})
    ...     return back(2 * vector)["w"]
    >>> doubled(np.array([[1.0, 2.0]]), np.array([3.0])).tolist()
    [[2.0, 4.0]]
    """
    leaves, structure = tree.flatten(x)
    handles: list[Array] = [as_array(leaf, "ravel") for leaf in leaves]
    if not handles:
        raise ShapeError("E104", "ravel: the tree has no leaves", position=user_position())
    dtype = common_dtype("ravel", handles, user_position()) or handles[0].settled
    sizes = [product(h.extents) for h in handles]
    flat = [reshape(convert(h, dtype), (-1,)) for h in handles]
    vector = concat(flat) if len(flat) > 1 else flat[0]

    def back(values: Any) -> Any:
        v = as_array(values, "ravel")
        out, start = [], sizes[0] - sizes[0]
        for h, size in zip(handles, sizes):
            part = v[from_index(start) : from_index(start + size)] if len(handles) > 1 else v
            out.append(reshape(part, tuple(h.extents)))
            start = start + size
        return tree.unflatten(structure, out)

    return vector, back
