"""The values of APL.

    concrete   a NumPy array: numbers, characters (dtype U1), or objects that are values themselves
    traced     an array of the language while a function is compiled, or a `Nested`, whose elements have one shape

A nested array is an object array, possibly with traced elements, as in a strand of traced arrays. A shape with dims
is a vector of scalars, some of which are dims. An array of plain scalars of one kind is stored as a plain array.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback.apl import errors
from pullback.apl.nests import check_nest
from pullback.arrays.subscript import subscript
from pullback.tracing.array import Array
from pullback.tracing.making import as_array
from pullback.verbs.nested import Extents, Nested, disclose

INSTEAD_OF_NUMBERS: Final = "a number in the text, a size such as ≢⍵, or a `pb.Static` argument"
INSTEAD: Final = dict.fromkeys(
    "/⌿", "`mask×y` or `0@(~mask)⊢y`, which keep the shape; or the line outside of the function"
)

Value = Any  # np.ndarray, Array or Nested
NDArray = np.ndarray[Any, Any]


def scalar(x: Any) -> NDArray:
    """Convert a Python number or a character to a value."""
    return np.array(x)


def is_traced(x: Value) -> bool:
    """Whether a value is an array of the function being compiled."""
    return isinstance(x, Array | Nested)


def holds_traced(x: Value) -> bool:
    """Whether a value is or contains an array of the function being compiled."""
    return is_traced(x) or (isinstance(x, np.ndarray) and x.dtype == object and any(map(holds_traced, x.ravel())))


def is_nested(x: Value) -> bool:
    """Whether the elements are values rather than numbers or characters."""
    return isinstance(x, Nested) or (isinstance(x, np.ndarray) and x.dtype == object)


def is_characters(x: Value) -> bool:
    """Whether a value is a simple array of characters."""
    return isinstance(x, np.ndarray) and x.dtype.kind == "U"


def shape_of(x: Value) -> tuple[Any, ...]:
    """The sizes: ints, or dims for traced arrays."""
    return tuple(x.shape)


def rank_of(x: Value) -> int:
    """The number of axes."""
    return len(shape_of(x))


def count_of(x: Value) -> int | None:
    """The number of elements; None if the shape has dims."""
    extents = shape_of(x)
    return int(np.prod(extents, dtype=object)) if all(isinstance(e, int) for e in extents) else None


def from_python(x: Any) -> Value:
    """Convert a Python object from a caller to a value."""
    if isinstance(x, Array | Nested):
        return x
    if isinstance(x, Extents):
        return vector([from_python(e) for e in x])
    if isinstance(x, str):
        return scalar(x) if len(x) == 1 else np.array(list(x), dtype="<U1")
    if isinstance(x, list | tuple):
        return vector([from_python(e) for e in x])
    made = np.asarray(x)
    if made.dtype.kind == "U" and made.dtype != np.dtype("<U1"):
        return vector([from_python(str(e)) for e in made.ravel()]).reshape(made.shape)
    if made.dtype == object and not made.ndim and (item := made.item()) is x:
        raise errors.domain(
            f"{type(item).__name__} is no value of APL", remedy="numbers, text, arrays, or lists of them"
        )
    if made.dtype == object:
        return simplified(objects([from_python(e) for e in made.ravel()], made.shape))
    if made.dtype.kind not in "biufcU":
        raise errors.domain(f"an array of {made.dtype} is no value of APL")
    return made


def objects(items: Sequence[Value], shape: Sequence[int] | None = None) -> NDArray:
    """Make an object array of values, without conversion."""
    made = np.empty(len(items), dtype=object)
    for k, item in enumerate(items):
        made[k] = item
    if shape is not None:
        made = made.reshape(tuple(shape))
    check_nest(made, items)
    return made


def vector(items: Sequence[Value]) -> NDArray:
    """Make a strand: a vector with these elements."""
    return simplified(objects(items)) if len(items) else np.zeros(0, np.int64)


def literal_vector(items: Sequence[NDArray]) -> NDArray:
    """Make a strand of literals."""
    return vector(list(items))


def simplified(x: NDArray) -> NDArray:
    """Convert an object array to a plain one if all elements are scalars of one kind."""
    if x.dtype != object or not x.size:
        return x
    items = x.ravel()
    if not all(isinstance(e, np.ndarray) and e.ndim == 0 and e.dtype != object for e in items):
        return x
    kinds = {"n" if e.dtype.kind in "biufc" else e.dtype.kind for e in items}
    if len(kinds) > 1:
        return x
    return np.array([e[()] for e in items]).reshape(x.shape)


def elements(x: Value) -> list[Value]:
    """All elements in row-major order, as values."""
    if isinstance(x, np.ndarray):
        if x.dtype == object:
            return list(x.ravel())
        return [np.array(e) for e in x.ravel()]
    return [element(x, i) for i in product(*(range(n) for n in known_shape(x)))]


def element(x: Value, at: Sequence[Any]) -> Value:
    """The element at given indices, which may be symbolic."""
    if isinstance(x, Nested):
        return from_python(x.element(*at))
    if isinstance(x, np.ndarray):
        if all(isinstance(i, int | np.integer) for i in at):
            found = x[tuple(at)]
            return found if x.dtype == object else np.array(found)
        x = lifted(x)
    return subscript(x, tuple(at)) if len(at) else x


def known_shape(x: Value) -> tuple[int, ...]:
    """The sizes as numbers.

    Raises:
        AplError: [E809] some are dims.
    """
    extents = shape_of(x)
    if not all(isinstance(e, int | np.integer) for e in extents):
        raise errors.of_data(
            "an element by element treatment", "a dim", "fix the sizes: `pb.apl` takes shapes in annotations"
        )
    return tuple(int(e) for e in extents)


def settled(x: Value) -> Value:
    """Convert a `Nested` to an object array of its elements, if its sizes are known."""
    if not isinstance(x, Nested):
        return x
    if x.flat and len(x.shape) != 1:
        return simplified(objects([from_python(e) for e in elements(Nested(x.shape, x.element))]))
    return simplified(objects(elements(x), known_shape(x)))


def lifted(x: Value) -> Any:
    """Convert a value to an array of the function being compiled."""
    if isinstance(x, Nested):
        return disclose(x)
    if isinstance(x, Array):
        return x
    if isinstance(x, int | float):
        return as_array(x)
    if x.dtype == object:
        parts = [lifted(e) for e in x.ravel()]
        if not parts or any(p.rank != parts[0].rank for p in parts):
            raise errors.domain("a nested array of elements of different ranks is no array of a compiled function")
        made = parts[0] if x.ndim == 0 else pb.stack(parts)
        return made if x.ndim < 2 else pb.reshape(made, (*x.shape, *made.shape[1:]))
    if x.dtype.kind not in "biuf":
        kind = "characters" if x.dtype.kind == "U" else "complex numbers"
        raise errors.domain(f"{kind} in a compiled function")
    if x.dtype == bool:
        x = x.astype(np.int64)
    return as_array(x.item()) if x.ndim == 0 else _constant(x)


def _constant(x: NDArray) -> Any:
    """Convert a literal array: to an index expression if its elements follow one, else to a constant."""
    flat = x.ravel()
    if not x.size:
        return pb.zeros(x.shape, dtype=x.dtype)
    if (flat == flat[0]).all():
        return pb.full(x.shape, flat[0].item(), dtype=x.dtype)
    if x.dtype.kind == "i" and x.ndim == 1 and (steps := set(np.diff(flat).tolist())) and len(steps) == 1:
        step = steps.pop()
        return pb.arange(x.size) * step + int(flat[0])
    return as_array(np.ascontiguousarray(x))


def simple_list(given: Value, what: str) -> list[Any]:
    """Convert a scalar or vector of numbers known at compilation to a list of ints, floats and dims.

    Raises:
        AplError: [E803] it is a matrix, [E804] it has no numbers, [E809] the numbers are computed from data.
    """
    x: Any = settled(given)
    if isinstance(x, Array):
        if x.rank == 0:
            return [_static(x, what)]
        extent = shape_of(x)[0] if x.rank == 1 else None
        if isinstance(extent, int):
            return [_static(subscript(x, (k,)), what) for k in range(extent)]
        raise errors.rank(f"{what} takes a scalar or a vector here")
    if x.ndim > 1:
        raise errors.rank(f"{what} takes a scalar or a vector here, not an array of rank {x.ndim}")
    if x.dtype == object:
        return [_static(e, what) for e in x.ravel()]
    if x.dtype.kind == "U" and x.size:
        raise errors.domain(f"{what} takes numbers here, not characters")
    return [] if not x.size else list(x.ravel().tolist())


def _static(x: Value, what: str) -> Any:
    if isinstance(x, np.ndarray) and x.ndim == 0 and x.dtype.kind in "biufc":
        return x.item()
    if isinstance(x, Array) and x.rank == 0:
        if x.index is not None:
            constant = x.index.constant
            return x if constant is None else constant
        if x.literal is not None:
            return x.literal
        name = x.name or "a traced value"
        raise errors.of_data(what, name, INSTEAD.get(what, INSTEAD_OF_NUMBERS))
    raise errors.domain(f"{what} takes plain numbers here")


def whole_list(x: Value, what: str) -> list[Any]:
    """Convert like `simple_list`, to integers and dims.

    Raises:
        AplError: [E804] a number is not an integer.
    """
    found = simple_list(x, what)
    for k, n in enumerate(found):
        if isinstance(n, float | complex):
            if isinstance(n, complex) or not n.is_integer() or abs(n) >= 2**62:
                raise errors.domain(
                    f"{what} takes whole numbers here, and {n:g} is none"
                    if isinstance(n, float)
                    else f"{what} takes whole numbers here"
                )
            found[k] = int(n)
        elif isinstance(n, bool):
            found[k] = int(n)
    return found


def whole(x: Value, what: str) -> int:
    """Convert a single known integer to an int.

    Raises:
        AplError: [E802] there are several numbers, [E804] the number is a dim.
    """
    found = whole_list(x, what)
    if len(found) != 1:
        raise errors.length(f"{what} takes one number here, not {len(found)}")
    if not isinstance(found[0], int):
        raise errors.of_data(what, "a dim", "a number")
    return found[0]


def prototype(x: Value) -> Any:
    """The fill element of an array: 0, a blank, or for nested arrays the fills of the first element."""
    if isinstance(x, np.ndarray):
        if x.dtype.kind == "U":
            return np.array(" ")
        if x.dtype == object and x.size:
            return fills(x.ravel()[0])
        if x.dtype.metadata:
            return x.dtype.metadata["fill"]
    return np.array(0)


def filled(shape: Sequence[int], fill: NDArray) -> NDArray:
    """Make an array of fills. An empty nested array stores its fill in its dtype."""
    if fill.ndim == 0 and fill.dtype != object:
        return np.full(tuple(shape), fill)
    if 0 in shape:
        return np.empty(tuple(shape), np.dtype("O", metadata={"fill": fill}))
    return objects([fill] * prod(shape), shape)


def fills(x: Value) -> Value:
    """Replace all elements by fills, in the same structure."""
    x = settled(x)
    if isinstance(x, Array):
        return pb.zeros_like(x)
    if x.dtype == object:
        return objects([fills(e) for e in x.ravel()], x.shape)
    return np.full(x.shape, " ") if x.dtype.kind == "U" else np.zeros(x.shape, np.int64)


def joined_pool(arrays: Sequence[NDArray], fill: NDArray) -> NDArray:
    """Join a fill and all elements of arrays in one vector of a common type."""
    families = {a.dtype.kind if a.dtype.kind in "UO" else "n" for a in arrays if a.size}
    own = "O" if fill.ndim or fill.dtype == object else "U" if fill.dtype.kind == "U" else "n"
    if not families - {own} and own != "O":
        return np.concatenate([fill.reshape(1), *(a.reshape(-1) for a in arrays if a.size)])
    pool: list[Value] = [fill]
    for a in arrays:
        pool += elements(a)
    return objects(pool)


def gathered(pool: NDArray, positions: NDArray) -> NDArray:
    """Gather elements of a pool at positions, as a value."""
    if not positions.size:
        return filled(positions.shape, pool[0] if pool.dtype == object else np.zeros_like(pool, shape=()))
    made: Any = pool[positions]
    if positions.ndim == 0:
        made = objects([made], ()) if pool.dtype == object else np.array(made)
    return simplified(made)
