"""Values that are made of several arrays and act as one: complex arrays.

Trees open them, and elementwise functions hand them on, without knowing more of them than stands here. What they are,
and what the functions do with them, is said in `pullback.lang.complex`, which sets the hooks.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar


def _is_one(x: object) -> bool:
    """The first who asks sets the hooks."""
    import_module("pullback.lang.complex")
    return Composite.is_one(x)


def _names_type(dtype: object) -> bool:
    import_module("pullback.lang.complex")
    return Composite.names_type(dtype)


class Composite:
    """The base of such values.

    Attributes:
        is_one: whether a value is one, or a NumPy value that stands for one.
        parts: its two parts, traced or as NumPy arrays; the inverse is `join`, and `hold` keeps them as they are.
        elementwise: an elementwise function by name of values of which one is a composite.
        convert: `astype` from or to a composite.
        choose: `where` between composites.
        names_type: whether a dtype is that of composites.
        products: products of two arrays, by name.
    """

    __slots__ = ()
    is_one: ClassVar[Callable[[object], bool]] = staticmethod(_is_one)
    parts: ClassVar[Callable[[Any], tuple[Any, Any]]]
    join: ClassVar[Callable[[Any, Any], Any]]
    hold: ClassVar[Callable[[Any, Any], Any]]
    elementwise: ClassVar[Callable[..., Any]]
    convert: ClassVar[Callable[..., Any]]
    choose: ClassVar[Callable[..., Any]]
    names_type: ClassVar[Callable[[object], bool]] = staticmethod(_names_type)
    products: ClassVar[dict[str, Callable[..., Any]]] = {}
