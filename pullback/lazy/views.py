"""The operations whose results share elements with an operand, as NumPy's views do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from pullback.lazy.types import ArrayType

__all__ = ["VIEWS", "View", "view_of"]

Look = Callable[..., Any]


def _reshaped(a: Any, *shape: Any, copy: bool | None = None) -> Any:
    """Reshape; a copy, which the caller recognizes, where NumPy's strides allow no view."""
    return None if copy else a.reshape(*shape)


def _transposed(a: Any, *axes: Any) -> Any:
    return a.transpose(*axes)


def _exchanged(a: Any) -> Any:
    return a.swapaxes(-1, -2)


def _columns(a: Any, axis: int = 0) -> tuple[Any, ...]:
    return tuple(np.moveaxis(a, axis, 0))


def _diagonal(a: Any, offset: int = 0) -> Any:
    return np.diagonal(a, offset, -2, -1)


def _diag(a: Any, k: int = 0) -> Any:
    return np.diagonal(a, k)  # of a vector, it makes a matrix: NumPy refuses, and there is no view


def _same(a: Any) -> Any:
    return a[...]


VIEWS: Final[dict[str, Look]] = {
    "operator.getitem": lambda a, key: a[key],
    "array.T": _transposed, "array.transpose": _transposed, "pb.permute_dims": _transposed,
    "array.mT": _exchanged, "pb.matrix_transpose": _exchanged, "pb.linalg.matrix_transpose": _exchanged,
    "array.reshape": _reshaped, "pb.reshape": _reshaped, "array.ravel": lambda a: a.reshape(-1),
    "pb.expand_dims": np.expand_dims, "pb.squeeze": np.squeeze, "pb.flip": np.flip,
    "pb.moveaxis": np.moveaxis, "pb.swapaxes": np.swapaxes, "pb.broadcast_to": np.broadcast_to,
    "pb.diagonal": _diagonal, "pb.linalg.diagonal": _diagonal, "pb.diag": _diag,
    "array.real": _same, "array.imag": _same, "pb.real": _same, "pb.imag": _same,
    "pb.unstack": _columns, "pb.split": np.split,
}  # fmt: skip
PARTS: Final = ("real", "imag")  # of complex arrays: half of each element


class View:
    """The place of an operation's result in its operand.

    Attributes:
        look: takes a NumPy array that stands for the operand; returns NumPy's view of it.
        part: "real" or "imag" if each element is one part of a complex element; otherwise "".
        key: the key of a subscript; None for other operations.
    """

    __slots__ = ("key", "look", "part")

    def __init__(self, look: Look, part: str = "", key: Any = None) -> None:
        self.look = look
        self.part = part
        self.key = key


def view_of(name: str, args: Sequence[Any], keywords: dict[str, Any], type: ArrayType) -> View | None:
    """Return how the result of an operation on one array of this type lies in it; None if it is a copy.

    Args:
        args: the arguments after the array.
    """
    look = VIEWS.get(name)
    if look is None or any(not _is_plain(x) for x in args):
        return None
    part = name.rpartition(".")[2]
    part = part if part in PARTS else ""
    if part == "imag" and not type.form:
        return None
    own = View(lambda a: look(a, *args, **keywords), part if type.form else "",
               args[0] if name == "operator.getitem" else None)  # fmt: skip
    return own if _shares(own, type) else None


def _is_plain(x: Any) -> bool:
    """Whether a key or argument is of numbers only: arrays and lists in a key select copies."""
    if x.__class__ is tuple:
        return all(y.__class__ is not list and _is_plain(y) for y in x)
    return x is None or x is Ellipsis or isinstance(x, int | slice | list)


def _shares(view: View, type: ArrayType) -> bool:
    probe = np.empty(type.shape, np.int8)  # its pages are never touched
    try:
        found = view.look(probe)
    except (TypeError, ValueError, IndexError):
        return False
    parts = found if isinstance(found, tuple | list) else (found,)
    return all(isinstance(p, np.ndarray) and (not prod(p.shape) or np.may_share_memory(p, probe)) for p in parts)
