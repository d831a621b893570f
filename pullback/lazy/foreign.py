"""Python operations in lazy arrays: another library, another process, or a user's own type.

class Square(lazy.Foreign):
    def result(self, x):                    # shapes and dtypes, when the node is built
        return x.shape, x.dtype
    def forward(self, x):                   # values: NumPy arrays; on a thread of the pool
        return x * x, x                     # the result, and data for backward
    def backward(self, saved, gradient):       # gradients of the operands; None means zero, also in `gradient`
        return (2 * saved * gradient,)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.device import is_on_device
from pullback.errors import PullbackError
from pullback.lazy.counts import COUNTS
from pullback.lazy.layers import here, noted
from pullback.lazy.namespace import numpy_type
from pullback.lazy.node import Array
from pullback.lazy.operation import Application, as_operand, build
from pullback.lazy.places import common_place, put
from pullback.lazy.tape import Kept
from pullback.lazy.types import ArrayType, array_type, type_of_value
from pullback.tracing.tree import LEAF, Structure

__all__ = ["Foreign", "ForeignTape"]


class Foreign:
    """A Python operation on lazy arrays: its results are computed on a thread when they are needed.

    A subclass defines `result`, `forward` and `backward`; an instance is called with arrays. Independent calls run at
    the same time, forward and backward, and may block. Cotangents may be of any type with `+` that their receiver
    (a weight's optimizer, another such operation) supports. Values on a device are given as `DeviceArray`s, and results
    go to the device of the operands.

    Attributes:
        name: the name in messages; by default the class name.
        trained: whether the operation has its own weights, so that it needs cotangents for any operands.
    Cost:
        5 µs per node, and some 50 µs for the thread of each concurrent call.

    >>> import numpy as np
    >>> from pullback import lazy
    >>> class Square(lazy.Foreign):
    ...     def result(self, x):
    ...         return x.shape, x.dtype
    ...     def forward(self, x):
    ...         return x * x, x
    ...     def backward(self, saved, gradient):
    ...         return (2.0 * saved * gradient,)
    >>> float(lazy.grad(lambda x: lazy.sum(Square()(x)))(3.0))
    6.0
    """

    name = ""
    trained = False

    def result(self, *operands: Array) -> Any:
        """Return the shape and element type of the result, or a list of pairs for several results."""
        raise NotImplementedError

    def forward(self, *values: Any) -> tuple[Any, Any]:
        """Compute the result, or a list of results, from operand values; also return data for `backward`."""
        raise NotImplementedError

    def backward(self, saved: Any, gradient: Any) -> Sequence[Any]:
        """Return the operands' cotangents, given that of the result, or a list for several results."""
        raise NotImplementedError

    def release(self, saved: Any) -> None:
        """Release `saved`: the backward pass has run, or will not run."""

    def __call__(self, *args: Any) -> Any:
        """Build the node, or a tuple of nodes for several results."""
        operands = tuple(map(as_operand, args))
        found = self.result(*operands)
        several = isinstance(found, list)
        place = common_place(self.name or type(self).__name__, [x.type for x in operands])
        types = tuple(array_type(_dtype(d), tuple(shape), place) for shape, d in (found if several else [found]))
        made = build(ForeignApplication(self, tuple(x.type for x in operands), types, several), operands)
        if self.trained:
            for node in (made[0].operands[0], *made) if several else (made,):
                node.tracked = node.application.floating
        return made


def _dtype(dtype: Any) -> Any:
    found = type_of_value(np.empty((), numpy_type(dtype)))
    assert found is not None
    return found.dtype


class ForeignApplication(Application):
    """One call of a Python operation."""

    __slots__ = ("operation", "place")
    foreign = True

    def __init__(
        self, operation: Foreign, operands: tuple[ArrayType, ...], results: tuple[ArrayType, ...], several: bool
    ) -> None:
        self.operation = operation
        self.place = here()
        structure = Structure("tuple", None, tuple(range(len(results))), (LEAF,) * len(results)) if several else LEAF
        name = operation.name or type(operation).__name__
        super().__init__(name, None, operands, results, structure, float("inf"))

    def call(self, values: Sequence[Any]) -> tuple[list[Any], Any]:
        """Run the operation; return checked results and the saved data."""
        COUNTS.foreign += 1
        found, saved = self.operation.forward(*values)
        results = list(found) if self.type is None else [found]
        return [self._checked(r, t) for r, t in zip(results, self.results, strict=True)], saved

    def _checked(self, value: Any, type: ArrayType) -> Any:
        array = put(value if is_on_device(value) else np.asarray(value), type.device)
        if array.shape != type.shape or array.dtype != type.numpy:
            raise PullbackError("E704", f"{self.text}: forward gave {array.dtype}{list(array.shape)}, and its result "
                                f"was said to be {type}", position=self.place.position,
                                remedy="`result` and `forward` must agree")  # fmt: skip
        return array


class ForeignTape(Kept):
    """The saved data of one call of a Python operation."""

    __slots__ = ("_saved", "application")

    def __init__(self, application: ForeignApplication, leaves: Sequence[Array], saved: Any) -> None:
        self.application = application
        self._saved = saved
        super().__init__(leaves, len(application.results), getattr(saved, "nbytes", 0))

    def pull(self, cotangents: list[Any]) -> list[tuple[Array, Any]]:
        """The cotangents of the leaves for cotangents of the results."""
        COUNTS.foreign += 1
        operation = self.application.operation
        try:
            found = operation.backward(self._saved, cotangents[0] if self.application.type is not None else cotangents)
        except Exception as error:
            raise noted(error, self.application.place) from None
        own = [(x, d) for x, d in zip(self.leaves, found, strict=True) if d is not None and x.tracked]
        return [(x, put(d, x.type.device)) for x, d in own]

    def release(self) -> None:
        """Release the saved data."""
        if not self.released:
            self.application.operation.release(self._saved)
            self._saved = None
        super().release()
