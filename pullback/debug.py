"""Tools to look for a mistake: the values that a program computes, the state that the process keeps."""

from __future__ import annotations

import builtins
from collections.abc import Collection
from typing import Any

import numpy as np

from pullback import state
from pullback.tables import Rows, Tables
from pullback.tracing import tree
from pullback.tracing.active import is_tracing
from pullback.tracing.array import Array
from pullback.tracing.making import as_array, ref_of
from pullback.tracing.printing import Print, formatted
from pullback.tracing.tracer import current

__all__ = ["Caches", "caches", "clear", "print"]


def print(text: str, /, *values: Any, **named: Any) -> None:
    """Print values of a traced function when it is called, compiled or interpreted.

    It happens when the call has ended, in the order of the program, in loops once for each step: the values are results
    that the call keeps to itself. A call that stops with an error prints nothing. Derivatives and `vmap` print primal
    values once, and no tangents or cotangents; exported C prints nothing. Without it nothing changes.

    Args:
        text: a format as for `str.format`; the format spec after the colon applies to each element of an array.
        values: the values for `{}`: arrays, numbers and trees of them, traced or not.
        named: what stands in `{name}`.
    Raises:
        TraceError: [E133] it is inside of a `build`, a reduction, a `cond` or a `while_loop`, where it is not known how
            often it happens.
    Cost:
        Memory for the printed values of every loop step, and slower calls through Python.

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


class Caches(Tables, tuple[state.Entry, ...]):
    """Rows of state; `str` and notebooks show them as a table."""

    __slots__ = ()

    def _parts(self) -> list[str | tuple[Rows, Collection[int]]]:
        head = ("module", "name", "kind", "size", "bound", "cleared")
        rows = ((e.owner.removeprefix("pullback."), e.name, e.kind, str(e.size), str(e.bound), e.cleared) for e in self)
        return [([head, *rows], (3,))]


def caches(module: str = "") -> Caches:
    """List the caches, registries, context variables and thread locals of this package, as they are now.

    The table covers all imported modules. It excludes state that belongs to one object and ends with it, such as a
    function's compiled versions.

    Args:
        module: the module or package to show, such as "pullback.ir"; all of them if empty.
    Returns:
        Rows with `owner`, `name`, `kind`, `size`, `bound` (a number, or the reason why none is needed) and `cleared`
        (when entries go). Printed as a table.
    Cost:
        Some microseconds for each row.

    >>> import pullback as pb
    >>> count = pb.debug.clear()
    >>> pb.debug.caches("pullback.ir.index")
    module               name                  kind      size  bound  cleared
    -------------------  --------------------  --------  ----  -----  -------------
    ir.index.polynomial  number                function     0  4096   debug.clear()
    ir.index.proofs      _consequences         function     0  4096   debug.clear()
    ir.index.proofs      _shifted_nonnegative  function     0  65536  debug.clear()
    ir.index.proofs      prove_nonnegative     function     0  65536  debug.clear()
    """
    return Caches(e for e in state.entries() if f"{e.owner}.".startswith(f"{module}." if module else ""))


def clear() -> int:
    """Empty the caches that may be emptied, and return how many entries went.

    Results stay the same; what is computed next may take longer. Compiled functions and the cache on disk stay. Call it
    while no other thread uses this package.

    >>> import pullback as pb
    >>> count = pb.debug.clear()
    >>> pb.debug.clear()
    0
    """
    return state.clear()
