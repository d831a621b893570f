"""Pieces: straight-line groups of operations that are computed together from their leaves.

The structure of a piece identifies it: its applications, the leaves and steps they read, and the requested steps.
The forward and backward kernels are programs of the language, created on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pullback.derivatives.direction import substituted
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.intern import uncollected
from pullback.lazy.counts import COUNTS
from pullback.lazy.device_kernel import DeviceKernel, kernel_of
from pullback.lazy.kernel import Kernel
from pullback.lazy.operation import Application, traced_program
from pullback.lazy.stepwise import Step, evaluated, run_steps
from pullback.lazy.types import ArrayType, array_type
from pullback.state import registered

if TYPE_CHECKING:
    from pullback.lazy.node import Array

__all__ = ["LIGHT", "Backward", "Piece", "piece_of"]

LIGHT: Final = 1e5  # scalar operations that NumPy runs in less time than tracing an operation of a piece takes
MOST: Final = 4096  # pieces to keep; a dropped piece is rebuilt, with its code from disk
_KNOWN: Final[dict[tuple[int, ...], Piece]] = registered({}, MOST)
K = TypeVar("K")


class Backward:
    """A kernel that computes cotangents.

    Attributes:
        kernel: the kernel.   places: the leaf for each result of the kernel; other leaves' cotangents are zero.
    """

    __slots__ = ("kernel", "places")

    def __init__(self, kernel: Kernel | DeviceKernel | None, places: tuple[int, ...]) -> None:
        self.kernel = kernel
        self.places = places


class Piece:
    """A straight-line piece of a lazy program.

    Attributes:
        steps: the operations, in order.   leaves: the types of the inputs.   wanted: the steps that are results.
        device: the device that runs it; "" for the processor.
        types: the types of the results.   work: the approximate number of scalar operations of the processor.
    """

    __slots__ = ("_kernels", "_program", "_split", "device", "leaves", "steps", "types", "wanted", "work")

    def __init__(self, steps: tuple[Step, ...], leaves: tuple[ArrayType, ...], wanted: tuple[int, ...]) -> None:
        self.steps = steps
        self.leaves = leaves
        self.wanted = wanted
        self.device = steps[0][0].device
        self.types = tuple(self._type(k) for k in wanted)
        self.work = sum(application.work for application, _ in steps)
        self._program: ir.Program | None = None
        self._kernels: dict[Any, Any] = {}
        self._split: dict[tuple[int, ...], Any] = {}

    def _type(self, k: int) -> ArrayType:
        found = self.steps[k][0].type
        assert found is not None
        return found

    def run(self, handles: Sequence[Any]) -> list[Any]:
        """The traced results for traced leaves."""
        made: list[Any] = []
        for application, operands in self.steps:
            given = [made[p] if p >= 0 else handles[-1 - p] for p in operands]
            made.append(given[0][application.item] if application.item >= 0 else application.run(given))
        return [made[k] for k in self.wanted]

    @property
    def program(self) -> ir.Program:
        """The program of the piece, traced on first use."""
        if self._program is None:
            self._program, _, _ = traced_program("piece", self.leaves, self.run)
        return self._program

    # Kernels --------------------------------------------------------------------------------------------------------

    def _once(self, key: Any, make: Callable[[], K]) -> K:
        found: K | None = self._kernels.get(key)
        if found is None:
            with uncollected():
                found = self._kernels[key] = make()
        return found

    def value(self) -> Kernel | DeviceKernel:
        """The kernel that computes the results from the leaves."""

        def make() -> Kernel | DeviceKernel:
            if self.device:
                return kernel_of(self.program, self.leaves, self.types, self.device)
            light = self.work <= LIGHT * len(self.steps)
            traced = partial(self._traced, expr.is_in_order())  # another thread may call it
            return Kernel(traced, self.leaves, self.types, self._stepwise, light)

        return self._once("value", make)

    def _traced(self, exact: bool) -> ir.Program:
        with uncollected(), expr.in_order(exact):
            return self.program

    def _stepwise(self, values: Sequence[Any]) -> tuple[Any, ...]:
        return run_steps(self.steps, self.wanted, values)

    def forward(self, wrt: tuple[int, ...]) -> Kernel | DeviceKernel:
        """The kernel that computes the results and the residuals of the backward pass."""

        def make() -> Kernel | DeviceKernel:
            parts = self._parts(wrt)
            results = (*self.types, *self._residuals(wrt))
            return kernel_of(parts.forward, self.leaves, results, self.device)

        return self._once(("forward", wrt), make)

    def backward(self, wrt: tuple[int, ...], given: tuple[int, ...]) -> Backward:
        """The backward kernel: cotangents of the leaves `wrt`, given those of the outputs `given`."""

        def make() -> Backward:
            parts = self._parts(wrt)
            program = self._seeded(parts.backward, len(parts.residuals), given, None)
            types = (*self._residuals(wrt), *(self.types[k] for k in given), *self.leaves)
            return self._cotangents(program, types, wrt, 0)

        key = ("backward", wrt, given)
        return self._once(key, make)

    def both(self, wrt: tuple[int, ...], seeded: int) -> Backward:
        """The kernel for the results and the cotangents of the leaves `wrt`; the cotangent of `seeded` is 1."""

        def make() -> Backward:
            program = self._seeded(self._vjp(wrt), len(self.program.inputs), (), seeded)
            return self._cotangents(program, self.leaves, wrt, len(self.types))

        key = ("both", wrt, seeded)
        return self._once(key, make)

    def again(self, wrt: tuple[int, ...], given: tuple[int, ...]) -> Backward:
        """The kernel for cotangents of leaves `wrt` from leaves and cotangents of `given`, without residuals."""

        def make() -> Backward:
            program = self._seeded(self._vjp(wrt), len(self.program.inputs), given, None)
            parts = sum(2 if t.form else 1 for t in self.types)
            body = replace(program.body, results=program.body.results[parts:])
            program = replace(program, body=body, output_names=())
            return self._cotangents(program, (*self.leaves, *(self.types[k] for k in given)), wrt, 0)

        key = ("again", wrt, given)
        return self._once(key, make)

    def failing(self, values: Sequence[Any]) -> int | None:
        """The first step that fails for these NumPy arrays as leaves, found by the interpreter."""
        made: list[Any] = []
        for k, (application, operands) in enumerate(self.steps):
            given = [made[p] if p >= 0 else values[-1 - p] for p in operands]
            try:
                made.append(evaluated(application, given))
            except IndexError:
                return k
        return None

    def smooth_leaves(self, result: int) -> list[int]:
        """The leaves that a result may have derivatives with respect to."""
        stack = [self.wanted[result]]
        seen = set(stack)
        while stack:
            p = stack.pop()
            if p >= 0 and self.steps[p][0].floating:
                new = set(self.steps[p][1]) - seen
                seen |= new
                stack += new
        return [-1 - p for p in seen if p < 0]

    # Programs -------------------------------------------------------------------------------------------------------

    def _positions(self, wrt: tuple[int, ...]) -> list[int]:
        """The positions of the program's inputs for some leaves."""
        starts, at = [], 0
        for t in self.leaves:
            starts.append(range(at, at + (2 if t.form else 1)))
            at += 2 if t.form else 1
        return [p for k in wrt for p in starts[k]]

    def _parts(self, wrt: tuple[int, ...]) -> Any:
        from pullback.ad.split import split

        found = self._split.get(wrt)
        if found is None:
            with uncollected():
                found = self._split[wrt] = split(self.program, self._positions(wrt), self.program.inputs)
        return found

    def _residuals(self, wrt: tuple[int, ...]) -> tuple[ArrayType, ...]:
        """The types of the residuals."""
        shapes = [(r.storage, tuple(int(e.constant or 0) for e in r.shape)) for r in self._parts(wrt).residuals]
        return tuple(array_type(dtype, shape, self.device) for dtype, shape in shapes)

    def _vjp(self, wrt: tuple[int, ...]) -> ir.Program:
        from pullback.ad.reverse import vjp

        return vjp(self.program, self._positions(wrt))

    def _seeded(self, program: ir.Program, first: int, given: tuple[int, ...], one: int | None) -> ir.Program:
        """Fix missing cotangents of a derivative: one for result `one`, else zero."""
        seeds = []  # the result number for each floating-point array
        for k, t in enumerate(self.types):
            seeds += [k] * (2 if t.form else 1) if t.floating else []
        refs = program.inputs[first : first + len(seeds)]
        constants: dict[ir.Ref, ir.Scalar] = {
            r: expr.const(1.0, r.dtype) if k == one else expr.zero(r.dtype)
            for r, k in zip(refs, seeds, strict=True)
            if k not in given
        }
        statements, results = substituted(program, {}, constants)
        inputs = tuple(r for r in program.inputs if r not in constants)
        return replace(program, inputs=inputs, body=ir.Block(statements, results))

    def _cotangents(
        self, program: ir.Program, types: Sequence[ArrayType], wrt: tuple[int, ...], before: int
    ) -> Backward:
        """The kernel of a derivative, without cotangents that are zero; `before` results come first."""
        from pullback.rewrite.copies import tidy

        start = sum(2 if t.form else 1 for t in self.types) if before else 0
        program = tidy(program)
        zeros = {
            r
            for s in program.body.statements
            if isinstance(s, ir.Build)
            for r, v in zip(s.outs, s.values)
            if isinstance(v, ir.Zero) or (isinstance(v, ir.Const) and not v.value)
        }
        results, places = list(program.body.results[:start]), []
        at = start
        for k in wrt:
            count = 2 if self.leaves[k].form else 1
            own = program.body.results[at : at + count]
            at += count
            if not zeros.issuperset(own):
                results += own
                places.append(k)
        if not results:
            return Backward(None, ())
        body = replace(program.body, results=tuple(results))
        program = replace(
            program, name="backward", body=body, output_names=tuple(f"out{k}" for k in range(len(results)))
        )
        outputs = (*(self.types if before else ()), *(self.leaves[k] for k in places))
        return Backward(kernel_of(program, types, outputs, self.device), tuple(places))


def piece_of(key: Sequence[int], applications: Sequence[Application], leaves: Sequence[Array],
             wanted: Iterable[int]) -> Piece:  # fmt: skip
    """Return the piece for a structure key, or make a new one of these applications."""
    own = tuple(key)
    found = _KNOWN.get(own)
    if found is None:
        steps = steps_of(key, applications)
        if len(_KNOWN) >= MOST:
            for old in list(_KNOWN)[: MOST // 2]:
                _KNOWN.pop(old, None)
        found = _KNOWN[own] = Piece(steps, tuple(x.type for x in leaves), tuple(wanted))
        COUNTS.pieces += 1
    else:
        COUNTS.found += 1
    return found


def steps_of(key: Sequence[int], applications: Sequence[Application]) -> tuple[Step, ...]:
    """The steps in a structure key: each the number of an application, and its operands."""
    found: list[Step] = []
    at = 0
    for application in applications:
        end = at + 1 + (1 if application.item >= 0 else len(application.operands))
        found.append((application, tuple(key[at + 1 : end])))
        at = end
    return tuple(found)
