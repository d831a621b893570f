"""Writes to lazy arrays in place: `x[key] = value`, `x += value`, and `x.at[key].set(value)`.

A write builds a node of all elements with some of them changed, which the memory of the array takes (`lazy.memory`).
Three nodes do it:
    integers              collected, and applied as one node when the elements are needed
    slices of an array    the operation `x.set`, with the key as part of the structure
    all other keys        a selection: NumPy computes for each element the number of the value that it takes, or -1
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from pullback.arrays.in_place import OPERATORS, unlike
from pullback.device import is_on_device
from pullback.errors import DeviceError, DTypeError, IndexRangeError, PullbackError, ShapeError, TraceError
from pullback.lazy.memory import Memory, Share, Step, Written, again, fixed, opened, share_of, written_weight
from pullback.lazy.node import BUSY, LOCK, Array, value_of
from pullback.lazy.operation import Operation, apply, as_operand
from pullback.lazy.places import leaf_at
from pullback.lazy.types import ArrayType
from pullback.lazy.weight import Weight
from pullback.source import source_text, user_position
from pullback.state import registered

__all__ = ["applied", "read", "whole"]

KEYS: Final = 16  # slices per array type that are part of the structure
GROUP: Final = 64  # the arrays that one node stacks
_KINDS: Final = "biufc"  # each converts to those after it
_INTEGERS: Final = (int, np.integer)


# Values -------------------------------------------------------------------------------------------------------------


def _operand(value: Any, type: ArrayType, what: str = "") -> Array:
    """A value as an array of the element type that is written.

    Raises:
        DTypeError: [E120] the element type does not convert, as a complex number in a float array.
    """
    if isinstance(value, bool | int | float | complex):
        made = leaf_at(np.asarray(_number(value, type, what), type.numpy), type.device)
    else:
        made = fixed(as_operand(Array.namespace.asarray(value) if isinstance(value, list | tuple) else value))
        if made.type.device not in ("", type.device):
            place = type.device or "cpu"
            what = what or _assigned()
            raise DeviceError("E422", f"{what}: the value is on {made.type.device}, the array on {place}",
                              position=user_position(), remedy=f'`value.to_device("{place}")`')  # fmt: skip
        if not np.can_cast(made.type.numpy, type.numpy, "same_kind"):
            raise unlike(what or _assigned(), repr(made.type), type.dtype)
    return made if made.type.dtype is type.dtype else made.astype(type.dtype)


def _number(value: Any, type: ArrayType, what: str = "") -> Any:
    if value.__class__ is float and type.numpy.kind == "f":
        return value
    kind = "i" if value.__class__ is int else np.asarray(value).dtype.kind  # of any size
    if _KINDS.index(kind if kind in _KINDS else "i") > _KINDS.index(type.numpy.kind) and (kind, type.numpy.kind) != (
        "i", "u"
    ):  # fmt: skip
        raise unlike(what or _assigned(), f"a Python {value.__class__.__name__}", type.dtype)
    if type.numpy.kind in "iu" and not np.iinfo(type.numpy).min <= value <= np.iinfo(type.numpy).max:
        raise DTypeError("E124", f"{what or _assigned()}: {value} does not fit {type.dtype}", position=user_position(),
                         remedy="an array of a wider type")  # fmt: skip
    return np.asarray(value, type.numpy)


def _assigned() -> str:
    """The target of an assignment, as the user wrote it."""
    found = re.match(r"[\w.]+\[[^=]*\]", source_text(user_position()))
    return f"{found.group() if found else 'x[...]'} = ..."


def _trimmed(value: Array, rank: int) -> Array:
    """A value without leading axes of size 1 that the selection lacks."""
    shape = value.type.shape
    extra = len(shape) - rank
    if extra <= 0 or any(n != 1 for n in shape[:extra]):
        return value
    return value.reshape(shape[extra:])


# Keys ---------------------------------------------------------------------------------------------------------------


def _plain_key(key: Any) -> Any:
    """A key of numbers, slices and NumPy arrays; lazy arrays in it are computed."""
    if key.__class__ is tuple:
        return tuple(_plain_key(k) for k in key)
    if isinstance(key, Array):
        return value_of(key.leaf)
    if is_on_device(key) or key.__class__ is list:
        return np.asarray(key)
    if key.__class__ is slice:
        return slice(*(None if k is None else operator.index(k) for k in (key.start, key.stop, key.step)))
    return key


def _is_basic(key: Any) -> bool:
    items = key if key.__class__ is tuple else (key,)
    return all(k is None or k is Ellipsis or k.__class__ is slice or _is_integer(k) for k in items)


def _is_integer(k: Any) -> bool:
    return isinstance(k, _INTEGERS) and not isinstance(k, bool)


def _block(key: Any, shape: Sequence[int]) -> tuple[int, int] | None:
    """The number of the block that integers select, and their count; None for other keys.

    Raises:
        IndexRangeError: [E401] an integer is out of range.
    """
    if key.__class__ is int and shape and 0 <= key < shape[0]:
        return key, 1
    items = key if key.__class__ is tuple else (key,)
    if not items or len(items) > len(shape):
        return None
    number = 0
    for axis, k in enumerate(items):
        if not _is_integer(k):
            return None
        n = shape[axis]
        if not -n <= k < n:
            raise _out_of_range(f"index {k} is out of bounds for axis {axis} with size {n}")
        number = number * n + int(k) % n
    return number, len(items)


def _out_of_range(text: str) -> IndexRangeError:
    return IndexRangeError("E401", f"{_assigned()}: {text}", position=user_position(),
                           remedy="an index from -n to n - 1; a slice stops at the end")  # fmt: skip


def _looked(a: Any, key: Any) -> Any:
    """NumPy's selection, with errors of this package."""
    try:
        return a[key]
    except IndexError as error:
        raise _wrong_key(error, a) from None
    except TypeError as error:
        raise TraceError("E135", f"{_assigned()}: {error}", position=user_position(), remedy="integers, slices, `...`, "
                         "None, integer arrays and masks") from None  # fmt: skip


def _wrong_key(error: IndexError, a: Any) -> PullbackError:
    text = str(error)
    if "out of bounds" in text:
        return _out_of_range(text)
    return ShapeError("E104", f"{_assigned()}: {text}", position=user_position(),
                      facts=[f"x : {list(a.shape)}"], remedy="one index for each axis at most, and masks of the "
                      "shape of the axes that they replace")  # fmt: skip


# Nodes of writes ----------------------------------------------------------------------------------------------------


def _selecting(x: Any, values: Any, numbers: Any) -> Any:
    """`x` with the block `values[numbers[i]]` for all leading indices i where the number is not negative."""
    import pullback as pb
    from pullback.tracing.complex_array import ComplexArray, joined

    if isinstance(x, ComplexArray):
        return joined(_selecting(x.real, values.real, numbers), _selecting(x.imag, values.imag, numbers))
    lead = numbers.ndim
    return pb.build(x.shape, lambda *i: pb.where(
        numbers[i[:lead]] >= 0, values.at(numbers[i[:lead]], *i[lead:], fill=0), x[i]))  # fmt: skip


def _one(x: Any, value: Any, number: Any) -> Any:
    """`x` with one block changed."""
    import pullback as pb
    from pullback.tracing.complex_array import ComplexArray, joined

    if isinstance(x, ComplexArray):
        return joined(_one(x.real, value.real, number), _one(x.imag, value.imag, number))
    lead = x.ndim - value.ndim

    def element(*i: Any) -> Any:
        at: Any = 0
        for k, n in zip(i[:lead], x.shape[:lead]):
            at = at * n + k
        return pb.where(at == number, value[i[lead:]] if i[lead:] else value, x[i])

    return pb.build(x.shape, element)


def _joined(real: Any, imag: Any) -> Any:
    from pullback.tracing.complex_array import joined

    return joined(real, imag)


_SELECTING: Final = Operation("writing.selecting", _selecting)
_ONE: Final = Operation("writing.one", _one)
_PARTS: Final = Operation("writing.parts", _joined)
_SET: Final = Operation("array.set", lambda x, key, value: x.set(key, value))


def _selected(x: Array, value: Array, numbers: np.ndarray[Any, Any]) -> Array:
    node: Array = apply(_SELECTING, (x, value, leaf_at(numbers, x.type.device)), {})
    node.application.checked = False  # its indices are in range
    return node


def applied(x: Array, depth: int, pending: dict[int, Any]) -> Array:
    """The node of all elements after writes of blocks."""
    block = x.type.shape[depth:]
    if len(pending) == 1:
        ((number, value),) = pending.items()
        found: Array = apply(_ONE, (x, _node(value, x.type), leaf_at(np.asarray(number), x.type.device)), {})
        return found
    numbers = np.full(prod(x.type.shape[:depth]), -1)
    numbers[np.fromiter(pending, np.int64, len(pending))] = np.arange(len(pending))
    values = _stacked(list(pending.values()), x.type, block)
    return _selected(x, values, numbers.reshape(x.type.shape[:depth]))


def _node(value: Any, type: ArrayType) -> Array:
    return fixed(value) if isinstance(value, Array) else leaf_at(np.asarray(value, type.numpy), type.device)


def _stacked(values: list[Any], type: ArrayType, block: tuple[int, ...]) -> Array:
    """The values as blocks of one array, at least: further blocks may follow."""
    if not any(isinstance(v, Array) for v in values):
        return leaf_at(np.array(values, type.numpy).reshape(len(values), *block), type.device)
    parts = [_node(v, type) for v in values]
    join = Array.namespace.stack
    while len(parts) > 1 or join is Array.namespace.stack:
        parts = [join(group) for group in _groups(parts)]
        join = Array.namespace.concat
    return parts[0]


def _groups(parts: list[Array]) -> Iterator[list[Array]]:
    """Groups of one length, so that they share one operation; the last element fills the last group."""
    size = GROUP if len(parts) > GROUP else 1 << (len(parts) - 1).bit_length()
    for k in range(0, len(parts), size):
        group = parts[k : k + size]
        yield group + [group[-1]] * (size - len(group))


def whole(type: ArrayType, views: list[tuple[Array, Share]]) -> Array:
    """The elements that views show, of an array that is gone; zeros where none does."""
    found = leaf_at(np.zeros(type.shape, type.numpy), type.device)
    places = np.arange(found.type.size).reshape(type.shape)
    for x, share in views:
        numbers = np.full(found.type.size, -1)
        numbers[share.look(places)] = np.arange(x.type.size).reshape(x.type.shape)
        numbers = numbers.reshape(type.shape)
        found = _with_part(found, share.part, _filled(numbers, x))
    return found


def _with_part(x: Array, part: str, change: Callable[[Array], Array]) -> Array:
    """Change all elements, or their real or imaginary parts."""
    if not part:
        return change(x)
    real, imag = x.real, x.imag
    changed = (change(real), imag) if part == "real" else (real, change(imag))
    found: Array = apply(_PARTS, changed, {})
    return found


def _filled(numbers: np.ndarray[Any, Any], value: Array) -> Callable[[Array], Array]:
    """The change of an array by the elements of a value that these numbers select."""
    return lambda x: _selected(x, _flat(value), numbers)


def _flat(x: Array) -> Array:
    return x.reshape((x.type.size,))


# Writes -------------------------------------------------------------------------------------------------------------


def _write(share: Share, key: Any, value: Array) -> None:
    """Write a value of the memory's element type at a key of an array."""
    memory = share.memory
    if memory.pending:
        memory.flush()
    path = share.path
    if path is not None and key is Ellipsis and path.view.key is not None and path.parent is None:
        key, path = path.view.key, None  # all elements of x[key]: x is written at the key
    assert memory.node is not None
    x = fixed(memory.node)
    probe = np.broadcast_to(np.empty((), np.int8), memory.type.shape) if _is_basic(key) else None
    if path is None and probe is not None and (application := _fixed(memory.type, key)) is not None:
        selected = np.shape(_looked(probe, key))
        value = _fitting(value, selected)
        memory.replace(apply(_SET, (x, application, value), {}))
        return
    numbers = np.full(memory.type.shape, -1)
    place = Share(memory, path).look(numbers)
    if not place.flags.writeable or _overlaps(place):
        raise TraceError("E147", f"{_assigned()}: a view that `broadcast_to` or `diagonal` made is read-only",
                         position=user_position(),
                         remedy="write a copy, `x = +x`, or the array of the view")  # fmt: skip
    selected = np.shape(_looked(place, key))
    value = _fitting(value, selected)
    if not prod(selected):
        return
    place[key] = np.arange(value.type.size).reshape(value.type.shape)
    part = share.part
    memory.replace(_with_part(x, part, _filled(numbers, value)))


def _overlaps(place: np.ndarray[Any, Any]) -> bool:
    return bool(place.size) and any(n > 1 and not s for n, s in zip(place.shape, place.strides))


def _fitting(value: Array, selected: tuple[int, ...]) -> Array:
    """The value, if it broadcasts to the selection."""
    if value.type.shape == selected:
        return value
    value = _trimmed(value, len(selected))
    try:
        if np.broadcast_shapes(value.type.shape, selected) == selected:
            return value
    except ValueError:
        pass
    raise ShapeError("E104", f"{_assigned()}: the value is {value.type!r}, the key selects {list(selected)}",
                     position=user_position(), remedy="a value that broadcasts to the selection")  # fmt: skip


_KNOWN_KEYS: Final[dict[ArrayType, set[Any]]] = registered({}, "array types", stays="with the types")


def _fixed(type: ArrayType, key: Any) -> Any:
    """The key, if it is among the first of a type, which are part of structures; otherwise None."""
    items = key if key.__class__ is tuple else (key,)
    form = tuple(k if not isinstance(k, slice) else (k.start, k.stop, k.step) for k in items)
    known = _KNOWN_KEYS.setdefault(type, set())
    if form not in known:
        if len(known) >= KEYS:
            return None
        known.add(form)
    return key


def _set_item(self: Array, key: Any, value: Any) -> None:
    """Write a value in place: the elements that the key selects change, also in bases and views.

    Args:
        key: a subscript, as for reading. Lazy arrays in it are computed.
        value: a number, or an array that broadcasts to the selection; it converts within its kind.
    Raises:
        DTypeError: [E120] the element type does not convert.   ShapeError: [E104] the value does not fit.
        IndexRangeError: [E401] an index is out of range.   TraceError: [E147] the array may not be written.
    """
    if isinstance(self, Weight):
        raise written_weight(self.name)
    if key.__class__ is not int:
        key = _plain_key(key)
    share = opened(self)
    memory = share.memory
    if isinstance(value, Written) and _is_same(share, key, value):
        return  # x[key] += y has written the view x[key]
    block = _block(key, self.type.shape)
    if block is not None and share.path is None:
        _collect(memory, *block, value, self.type)
        return
    _write(share, key, _operand(value, self.type))


def _collect(memory: Memory, number: int, depth: int, value: Any, type: ArrayType) -> None:
    """Note the write of a block, to be applied with the ones after it."""
    shape = type.shape[depth:]
    found: Any
    if not shape and isinstance(value, bool | int | float | complex):
        found = _number(value, type)
    else:
        found = _fitting(_operand(value, type), shape)
        if found.type.shape != shape:
            found = Array.namespace.broadcast_to(found, shape)
    if memory.pending and memory.depth != depth:
        memory.flush()
    memory.depth = depth
    memory.pending[number] = found
    memory.version += 1


def _is_same(share: Share, key: Any, value: Array) -> bool:
    """Whether a value is the view that the key selects."""
    other = value._share
    if other.memory is not share.memory or not _is_basic(key) or other.part != share.part:
        return False
    probe = np.empty(share.memory.type.shape, np.int8)
    mine, its = _looked(share.look(probe), key), other.look(probe)
    return isinstance(mine, np.ndarray) and _place(mine) == _place(its)


def _place(a: np.ndarray[Any, Any]) -> Any:
    return a.__array_interface__["data"][0], a.shape, a.strides


def read(x: Array, key: Any) -> Any:
    """Read a written array: blocks that were or were not written need no other pending write."""
    share: Share = x._share
    memory = share.memory
    node_of_key = Array.__getitem__
    if not memory.pending or share.path is not None:
        return node_of_key(share.update(x), key)
    try:
        block = _block(key, x.type.shape)
    except IndexRangeError:
        block = None  # reading has an error of its own
    if block is None or block[1] != memory.depth:
        return node_of_key(share.update(x), key)
    value = memory.pending.get(block[0])
    if value is not None and not x.type.shape[memory.depth :]:
        return again(value) if isinstance(value, Array) else _node(value, x.type)
    assert memory.node is not None
    made = node_of_key(fixed(memory.node), key)
    if made.application.view is not None:  # a row: it has its elements, and follows later writes
        memory.add(made, Step(None, made.application, made.operands[1:]))
        if value is not None:
            made._share.know(again(_node(value, x.type)))
    return made


# Operators ----------------------------------------------------------------------------------------------------------

def _is_shared(x: Array) -> bool:
    """Whether an array without axes was written, or is a view such as `x[..., 0]`; others are numbers.

    A view of a number, such as `reshape(x[0], ())`, is a number.
    """
    share = share_of(x)
    if share is not None and share.path is not None and share.memory is not None and share.memory.type.shape:
        return True
    with LOCK, BUSY:
        while x.__class__ is not Written and x.application is not None and x.application.view is not None:
            x = x.operands[0]
            if x.type.shape:
                return True
    return x.__class__ is Written


def _in_place(name: str, sign: str) -> Callable[[Array, Any], Any]:
    combine = getattr(Array, f"__{name}__")

    def method(self: Array, other: Any) -> Any:
        if isinstance(self, Weight):
            raise written_weight(self.name)
        node = combine(self.leaf, other)
        if node is NotImplemented or (not self.type.shape and not _is_shared(self)):
            return node  # of rank 0 as numbers, which do not change
        what = f"x {sign}= ..."
        if node.type.shape != self.type.shape:
            raise ShapeError("E104", f"{what}: the result is {node.type!r}, the array is {self.type!r}",
                             position=user_position(),
                             remedy=f"`x = x {sign} ...` makes another array")  # fmt: skip
        share = opened(self)
        node = _operand(node, self.type, what)
        if share.path is None:
            share.memory.pending.clear()
            share.memory.replace(node)
        else:
            _write(share, Ellipsis, node)
            share.know(node)
        return self

    return method


def _deleted(self: Array, key: Any) -> None:
    raise TraceError("E147", "del x[...]: the size of an array does not change", position=user_position(),
                     remedy="`lazy.concat([x[:i], x[i + 1:]])` is the array without one element")  # fmt: skip


Memory.applied = staticmethod(applied)
Memory.whole = staticmethod(whole)
setattr(Written, "__getitem__", read)  # noqa: B010
setattr(Array, "__setitem__", _set_item)  # noqa: B010
setattr(Array, "__delitem__", _deleted)  # noqa: B010
for _name, _sign in OPERATORS.items():
    _method = _in_place(_name, _sign)
    _method.__name__ = f"__i{_name}__"
    setattr(Array, _method.__name__, _method)
