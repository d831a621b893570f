"""The table of a function's compiled code by key, with a bounded number of entries.

A key holds everything that compiled code depends on: signature, shapes, sizes, threads, backend, machine and
compiler. Its code has an entry (`runtime.entry`), which compares the arguments of a call with those of the key. Calls
try these entries first, latest first, so a repeated call computes no key.

The first dims of a function are compiled at once. Others share open-size C until their calls have cost about as much as
compiling. This takes at most twice the work of an optimal choice that knows all calls beforehand (the ski rental
problem: Karlin, Manasse, Rudolph, Sleator, "Competitive snoopy caching", 1988). Operations are counted, not
seconds: the same calls run the same code each time, so that their results are the same bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.calls import policy
from pullback.calls.arguments import MISSING, NDArray, prepare
from pullback.calls.compiled import Compiled, Trial
from pullback.calls.recent import Recent
from pullback.calls.signature import Parameter, Signature
from pullback.calls.specs import ArraySpec, NumberSpec, Spec
from pullback.calls.traced import Traced
from pullback.ir.dims import solve_dims
from pullback.ir.types import bf16
from pullback.machine import native
from pullback.runtime.compile import compiler_command
from pullback.runtime.shim import Look, to_front
from pullback.single_flight import single_flight
from pullback.tracing import tree

__all__ = ["Table"]

FIRST = 4  # dims that are compiled at once, before open-size C serves all others
MOST = 64  # the maximum number of dims that are compiled


class Table:
    """The compiled code of one function.

    Attributes:
        kept: the most recently called runners, by key.
        entries: the entries of the runners, which calls try in this order.
    """

    def __init__(
        self, name: str, threads: int | None, specialized: Callable[[Traced, dict[str, int]], Traced],
        entries: list[Any],
    ) -> None:
        """Set up the table for a function: its name, threads, specialization policy and list of entries."""
        self.kept: Recent[Any, Compiled] = Recent()
        self.entries = entries
        self._name = name
        self._threads = threads
        self._specialized = specialized

    def find(
        self, parameters: Sequence[Parameter], signature: Signature, traced: Traced, flat: Sequence[Any]
    ) -> tuple[Compiled, list[NDArray]]:
        """The runner of a call with these leaves, and the arrays to pass."""
        arrays, sizes = prepare(signature.flat, flat)
        arrays += traced.captured
        threads = policy.thread_count(self._threads)
        where = _place(self._name, signature, traced, arrays)
        key = (signature, tuple(a.shape for a in arrays), tuple(sizes.items()), threads, where, *_target())
        found = self.kept.get(key)
        if found is None:
            with single_flight((self, key)):
                found = self.kept.get(key)
                if found is None:
                    found = self._keep(key, self._made(parameters, signature, traced, flat, arrays, sizes, where))
        if found.entry is None:
            with single_flight((self, "entries")):
                if found.enter():
                    self.entries[:] = [found.entry, *(e for e in self.entries.copy() if e.left)]
        else:
            to_front(self.entries, found.entry)
        return found, arrays

    def _keep(self, key: Any, made: Compiled) -> Compiled:
        """Keep compiled code; replaced code takes its entries along."""
        with single_flight((self, "entries")):
            for k, c in self.kept.items():
                if c.entry is not None and c.entry.used:
                    c.entry.used = False
                    self.kept.get(k)  # calls through entries bypass this table
            found = self.kept.put(key, made)
            left = {id(c.entry) for _, c in self.kept.items()}
            self.entries[:] = [e for e in self.entries.copy() if id(e) in left]  # a concurrent call may reorder them
        return found

    def _made(
        self, parameters: Sequence[Parameter], signature: Signature, traced: Traced, flat: Sequence[Any],
        arrays: Sequence[NDArray], sizes: dict[str, int], where: str,
    ) -> Compiled:
        threads = policy.thread_count(self._threads) if policy.backend() == "c" else None
        look = None if threads is None else _look_of(parameters, signature, flat, self._threads)
        dims = solve_dims(traced.known, [a.shape for a in arrays], sizes)
        if where or traced.prints is not None or not _is_general(traced, dims):
            return Compiled(self._name, self._specialized(traced, dims), dims, sizes, threads, look, device=where)
        trial = None if traced.known.settings.specialize == "never" else self._trial(traced, dims, threads or 1)
        return Compiled(self._name, traced, dims, sizes, threads, look, lambda: _general(traced), trial)

    def _trial(self, traced: Traced, dims: dict[str, int], threads: int) -> Trial:
        """The number of calls that open-size C serves these dims before they are compiled."""

        def executable() -> Any:
            from pullback.runtime.executor import compile_program

            values = tuple(dims.values())
            if len(traced.own) >= MOST and values not in traced.own:
                return None
            traced.own.add(values)
            return compile_program(self._specialized(traced, dims).known, dims, threads)

        return Trial(traced, dims, executable)


def _place(name: str, signature: Signature, traced: Traced, arrays: Sequence[Any]) -> str:
    """The device of a call with these arrays; "" for the processor."""
    wish = traced.known.settings.device
    if not wish and all(isinstance(a, np.ndarray) for a in arrays):
        return ""
    from pullback.runtime.device.executor import place

    paths = [leaf.path for leaf in signature.flat if leaf.is_input]
    return place(name, wish, paths + [r.name for r in traced.known.inputs[len(paths) :]], arrays)


def _is_general(traced: Traced, dims: dict[str, int]) -> bool:
    """Whether open-size C should serve these dims."""
    settings = traced.known.settings
    wish = settings.specialize
    if wish == "always" or not dims or (wish == "auto" and settings.memory_limit is not None) or settings.debug:
        return False
    if wish == "never":
        return True
    values = tuple(dims.values())
    if len(traced.own) < FIRST:
        traced.own.add(values)
    return values not in traced.own


def _general(traced: Traced) -> Any:
    """The program compiled for all sizes, created on first use."""
    key = _target()
    with single_flight((id(traced), "general")):
        if key not in traced.general:
            from pullback.runtime.executor import compile_general

            traced.general[key] = compile_general(traced.known)
        return traced.general[key]


def _target() -> tuple[Any, ...]:
    """The backend, and the machine and compiler that the environment selects for C."""
    return (policy.backend(), native(), compiler_command()) if policy.backend() == "c" else (policy.backend(),)


def _look_of(
    parameters: Sequence[Parameter], signature: Signature, flat: Sequence[Any], threads: int | None
) -> Look | None:
    """The pattern of calls with this signature and equal sizes and static values.

    None if such calls need a full check each time.

    Args:
        parameters: the parameters of the function.
        flat: the leaves of one such call.
        threads: the function's own number of threads.
    """
    *_, last = parameters or [Parameter("", ArraySpec("", (), ()))]
    structures = list(signature.structures)
    if any(p.kind == "rest" for p in parameters[:-1]) or not all(map(tree.has_form, structures)):
        return None
    specs = [p.spec for p, leaves in zip(parameters, signature.leaves, strict=True) for _ in leaves]
    if any(leaf.dtype is bf16 and not _takes_numbers(s) for s, leaf in zip(specs, signature.flat, strict=True)):
        return None  # an entry knows bfloat16 by its bits, and here uint16 is another type
    names, positional = tuple(p.name for p in parameters), sum(p.kind == "plain" for p in parameters)
    if last.kind == "rest":
        structures[-1:] = structures[-1].children
        names, positional = (), len(structures)
    fixed, numbers = [], []
    for k, (spec, leaf, value) in enumerate(zip(specs, signature.flat, flat, strict=True)):
        if leaf.is_input:
            numbers.append(1 if _takes_numbers(spec) else 0 if leaf.kind == "array" else 2)
        else:
            fixed.append((k, value if leaf.kind == "static" else int(value)))
    whole = all(s == tree.LEAF for s in structures)
    return Look(
        None if whole else tuple(map(tree.form, structures)),
        names,
        positional,
        {p.name: p.default for p in parameters if p.default is not MISSING and p.kind != "rest"},
        tuple(fixed),
        tuple(numbers),
        (policy.thread_count(threads), policy.usual_threads(threads)),
    )


def _takes_numbers(spec: Spec) -> bool:
    """Whether a Python number can replace a rank-0 array, because the annotation has one element type."""
    return isinstance(spec, NumberSpec) or (isinstance(spec, ArraySpec) and len(spec.dtypes) == 1)
