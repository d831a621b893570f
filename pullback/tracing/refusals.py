"""Errors for operations that need the value of a traced array: truth, numbers, iteration, NumPy.

Each error states what to write instead, based on the user's line.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, NoReturn

import numpy as np

from pullback.errors import TraceError, UnknownNameError, counted
from pullback.ir.index import Index
from pullback.ir.reduction import COMBINING
from pullback.source import Position, called, source_text, user_position
from pullback.tracing import elsewhere
from pullback.tracing.active import ended, is_tracing


class Refusals:
    """The operations that traced arrays refuse."""

    __slots__ = ()

    name: str | None
    extents: tuple[Index, ...]
    index: Index | None
    weak: str | None

    @property
    def type_text(self) -> str:
        """The type in messages: f32[N, M]."""
        raise NotImplementedError

    def _kind(self) -> str:
        return f"the {'dim' if self.index.is_dim else 'index'} {self.index}" if self.index else self.type_text

    def _refused(self, what: str, remedy: str, code: str = "E134") -> TraceError:
        if not is_tracing():
            return ended(self, user_position())
        return TraceError(code, what, position=user_position(), remedy=remedy)

    def __bool__(self) -> NoReturn:
        what = f"the truth of a traced value ({self.type_text}) is not known when the function is defined"
        remedy = _truth_remedy(user_position())
        if self.weak == "bool" and self.name:
            remedy = f"`{self.name}: pb.Static` makes it a Python value; `cond` chooses when the function runs"
        raise self._refused(what, remedy)

    def __index__(self) -> NoReturn:
        what = f"a traced value ({self._kind()}) is no Python int, so `range` and the like cannot use it"
        raise self._refused(what, _number_remedy(user_position()))

    def _number(self, what: str) -> NoReturn:
        found = f"{what}() of a traced value ({self.type_text}): its value is not known when the function is defined"
        raise self._refused(found, _number_remedy(user_position()))

    def __float__(self) -> NoReturn:
        self._number("float")

    def __int__(self) -> NoReturn:
        self._number("int")

    def __complex__(self) -> NoReturn:
        self._number("complex")

    def __format__(self, wanted: str) -> str:
        if not wanted:
            return repr(self)
        what = f"a traced value ({self.type_text}) cannot be written as {wanted!r}: its value is not known"
        raise self._refused(what, "return it, and print what the call gives")

    def __hash__(self) -> int:
        what = "a traced value is no key of a dict or set: its value is not known"
        raise self._refused(what, "an int, a str or a tuple of these")

    def __len__(self) -> int:
        if self.extents and self.extents[0].constant is not None:
            return self.extents[0].constant
        if not self.extents:
            raise self._refused(f"len() of {self.type_text}, which has no axes", "`x.size` is 1")
        what = f"len() is a Python int, and {self.name or 'the array'} has {counted(self.extents[0], 'row')}"
        raise self._refused(what, f"`{self.name or 'x'}.shape[0]` is their number")

    def __contains__(self, item: object) -> NoReturn:
        what = "`in` on a traced value is not known when the function is defined"
        raise self._refused(what, "`any_over(n, lambda i: x[i] == value)`")

    def __delitem__(self, key: Any) -> NoReturn:
        what = f"del {subscript_text(self, user_position())}: the size of an array does not change"
        raise self._refused(what, "`pb.concat([x[:i], x[i + 1:]])` is the array without one element", "E147")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or name in type(self).__slots__:
            raise AttributeError(name)
        package = elsewhere.public_names()
        if name in package.__all__ and callable(getattr(package, name)):
            remedy = f"`pb.{name}({self.name or 'x'})`: it is a function"
        elif close := elsewhere.nearest(name, [n for n in dir(type(self)) if not n.startswith("_")]):
            remedy = f"did you mean `{close[0]}`?"
        else:
            remedy = elsewhere.remedy(name)
        raise UnknownNameError(
            "E146", f"a traced array has no attribute {name!r}", position=user_position(), remedy=remedy
        )

    # Uses by NumPy -------------------------------------------------------------------------------

    def __array__(self, *args: Any, **keywords: Any) -> NoReturn:
        position = user_position()
        text = source_text(position)
        if subscripted := _subscripted(text):
            known = self.index is not None and not self.index.is_dim
            own = self._kind() if known else self.name or f"this {self._kind()}"
            raise self._refused(
                f"{text}: {subscripted[0]} is a NumPy array, whose indices are numbers, and {own} is a traced value",
                f"`pb.asarray({subscripted[0]}){subscripted[1]}`",
                "E136",
            )
        name = (called(position) or "").split(".")[-1]
        remedy = "return it: the call of the function gives NumPy arrays"
        if name in ("array", "stack", "asarray"):
            remedy = "`pb.stack([a, b])` makes an array of traced values"
        raise self._refused("a traced array was given to NumPy, which needs its values", remedy, "E136")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        from pullback.tracing.numpy_calls import OTHERS, own  # imported with the first call, not with the package

        name = ufunc.__name__
        if "out" in keywords or method == "at":
            raise self._written(name)
        if method == "reduce":
            found, keywords = elsewhere.counterpart(COMBINING.get(name, "?")), {"axis": 0, **keywords}
            return self._as_here(f"{name}.reduce", found, inputs, keywords)
        if method != "__call__":
            return self._as_here(f"{name}.{method}", None, inputs, keywords)
        if (y := own(elsewhere.public_names(), name, inputs, keywords)) is not NotImplemented:
            return y
        found = elsewhere.counterpart("bitwise_invert" if name == "invert" else name)
        return self._as_here(name, None if name in OTHERS else found, inputs, keywords)

    def __array_function__(self, function: Any, types: Any, inputs: Any, keywords: Any) -> Any:
        from pullback.tracing.numpy_calls import OTHERS, own

        name = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
        if keywords.get("out") is not None:
            raise self._written(name)
        if (y := own(elsewhere.public_names(), name, inputs, keywords)) is not NotImplemented:
            return y
        found = elsewhere.counterpart(function.__name__, name.rpartition(".")[0])
        return self._as_here(name, None if function.__name__ in OTHERS else found, inputs, keywords, function)

    def _written(self, name: str) -> TraceError:
        what = f"numpy.{name} would write a traced value into a NumPy array"
        return self._refused(what, "`y = y + x` inside the function, and return it", "E136")

    def _as_here(self, name: str, found: Any, inputs: Any, keywords: Any, function: Any = None) -> Any:
        """Call the equivalent of a NumPy function; TraceError if it is missing or refuses these arguments.

        Args:
            function: NumPy's, whose parameters have other places; None if they have the same.
        """
        if found is None:
            raise self._refused(
                f"numpy.{name} was given a traced array, whose values it needs",
                elsewhere.remedy(name.split(".")[-1], misspelled=False),
                "E136",
            )
        from pullback.tracing.numpy_calls import arguments

        try:
            if function is not None:
                inputs, keywords = arguments(elsewhere.public_names(), function, found, inputs, keywords)
            inspect.signature(found).bind(*inputs, **keywords)
        except TypeError as error:
            raise self._refused(
                f"numpy.{name} is `pb.{found.__name__}` here, which takes other arguments: {error}",
                f"`{elsewhere.form('pb.' + found.__name__, found)}`",
                "E136",
            ) from None
        return found(*inputs, **keywords)


_BUILTINS = {
    "max": "`pb.maximum(a, b)`, `pb.max(x)`",
    "min": "`pb.minimum(a, b)`, `pb.min(x)`",
    "sum": "`pb.sum(x)`",
    "any": "`pb.any(x)`",
    "all": "`pb.all(x)`",
}


def _truth_remedy(position: Position | None) -> str:
    """The remedy for a truth test, based on the user's line."""
    line = (position.source_line or "").strip() if position else ""
    name = called(position)
    if name in _BUILTINS:
        return _BUILTINS[name]
    if ".shape" in source_text(position):
        return "a size is a symbol: `Float64[Array, \"3\"]` fixes it, and `n: pb.Static` is a number of Python"
    if line.startswith("while "):
        return "`pb.while_loop(test, body, state)`"
    if line.startswith("assert "):
        return "check arguments before the call; `pb.in_range(i, n)` declares what indices are"
    return "`where(condition, a, b)` or `cond` for `if`, `&` `|` `~` for and, or, not, `(0 <= i) & (i < n)` for a chain"


def _number_remedy(position: Position | None) -> str:
    """The remedy for a traced value used as a number, based on the function that receives it."""
    module, _, name = (called(position) or "").rpartition(".")
    if module == "math" or module.split(".")[0] in ("np", "numpy"):
        return elsewhere.remedy("random" if "random" in module else name)
    if subscripted := _subscripted(source_text(position)):
        return f"`pb.asarray({subscripted[0]}){subscripted[1]}`"
    if name in ("float", "int"):
        return "`astype` converts; `pb.Static` makes an argument a Python value"
    return "`fold`, `build` or `sum_over` loop over indices; `pb.Static` makes an argument a Python value"


def _subscripted(text: str) -> tuple[str, str] | None:
    """The base (unparenthesized) and the subscript of text such as `W[i, 0]` or `(a + b)[i]`."""
    depth = 0
    for k in range(len(text) - 1, 0, -1):
        depth += (text[k] == "]") - (text[k] == "[")
        if not depth:
            base = text[:k]
            return (base[1:-1] if base[0] + base[-1] == "()" else base, text[k:]) if text[k] == "[" else None
    return None


def subscript_text(x: Any, position: Position | None) -> str:
    """`x[0]`, as the user wrote it."""
    found = re.match(r"(?:del )?([\w.]+\[[^=]*\])", source_text(position))
    return found.group(1) if found else f"{x.name or 'x'}[...]"
