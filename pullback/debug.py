"""To see what a program computes while one looks for a mistake."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from pullback.tracing import tree
from pullback.tracing.active import is_tracing
from pullback.tracing.array import Array
from pullback.tracing.making import as_array, ref_of
from pullback.tracing.printing import Print, formatted
from pullback.tracing.tracer import current

__all__ = ["print"]


def print(text: str, /, *values: Any, **named: Any) -> None:
    """Print values of a traced function when it is called, compiled or interpreted.

    It happens when the call has ended, in the order of the program, in loops once for each step: the values are results
    that the call keeps to itself. A call that stops with an error prints nothing. Derivatives and `vmap` print what the
    function does, once, and not tangents or cotangents; C that is exported prints nothing. Without it nothing changes.

    Args:
        text: a format, as for `str.format`; what follows the colon is about each element of an array.
        values: what stands in `{}`: arrays, numbers and trees of them, traced or not.
        named: what stands in `{name}`.
    Raises:
        TraceError: [E133] it is inside of a `build`, a reduction, a `cond` or a `while_loop`, where it is not known how
            often it happens.
    Cost:
        The memory of what is printed, for every step of a loop, and calls that take the way through Python.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def root(x):
    ...     def step(guess, i):
    ...         pb.debug.print("{}: {guess:.4f}", i, guess=guess)
    ...         return (guess + x / guess) / 2
    ...     return pb.fold(3, x, step)
    >>> float(root(np.float64(2.0))) # doctest: +ELLIPSIS
    0: 2.0000
    1: 1.5000
    2: 1.4167
    1.41421...
    """
    leaves, structure = tree.flatten((values, named))
    if not is_tracing():
        builtins.print(formatted(text, values, named))
        return
    arrays = [isinstance(x, Array | np.ndarray | np.generic) for x in leaves]
    refs = tuple(ref_of(as_array(x, "debug.print"), "printed") for x, known in zip(leaves, arrays) if known)
    constants = tuple(None if known else x for x, known in zip(leaves, arrays))
    current().prints(Print(text, structure, constants, refs))
