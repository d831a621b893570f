"""The definition of a function: its parameters, its traces by signature, and its program for dims."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from pullback.calls import policy, sized
from pullback.calls.annotated import result_spec
from pullback.calls.arguments import MISSING, Undetermined, prepare
from pullback.calls.carried import Recipe
from pullback.calls.mistakes import present
from pullback.calls.recent import Recent
from pullback.calls.signature import Parameter, Signature, bind, name_of, parameters_of, signature_of
from pullback.calls.specs import AnySpec, Spec
from pullback.calls.traced import Traced, trace
from pullback.calls.typetext import TypeText, program_type
from pullback.clock import stage
from pullback.errors import PullbackError, ShapeError, TraceError
from pullback.ir import nodes as ir
from pullback.ir.dims import check_bytes, check_requirements, determined_dims
from pullback.ir.expr import in_order, is_in_order
from pullback.ir.intern import uncollected
from pullback.ir.program import program_of
from pullback.ir.settings import MemoryMode, Precision, Settings, Specialize, Tune
from pullback.single_flight import single_flight
from pullback.source import user_position
from pullback.state import PerThread, context_variable
from pullback.tracing import elsewhere
from pullback.tracing.active import is_tracing
from pullback.tracing.distinct import distinct
from pullback.tracing.public import presented

T = TypeVar("T")


class _Thread(PerThread):
    """Thread-local state: the functions that the thread is tracing, each with a signature."""

    def __init__(self) -> None:
        self.tracing: set[tuple[Definition, Signature]] = set()


_THREAD = _Thread()


_COLLECTED: ContextVar[list[Definition] | None] = context_variable("collected", None)


@contextmanager
def collecting() -> Iterator[list[Definition]]:
    """Collect the functions defined in the block, without checking them."""
    found: list[Definition] = []
    token = _COLLECTED.set(found)
    try:
        yield found
    finally:
        _COLLECTED.reset(token)


class Definition:
    """A Python function that is traced, once for each signature.

    Attributes:
        name: the Python function's name.
        is_derivative: whether it was derived from another function's program.
    """

    __slots__ = ("__dict__", "__weakref__")
    is_derivative = False
    made_by: Recipe | None = None  # the way a derivative was made

    def __init__(
        self,
        f: Callable[..., Any],
        *,
        threads: int | None = None,
        specialize: Specialize | None = None,
        donate: Sequence[str] = (),
        memory: MemoryMode = "fastest",
        memory_limit: int | None = None,
        workspace_limit: int | None = None,
        swap: bool | str = False,
        debug: bool | None = None,
        precision: Precision = "f32",
        tune: Tune = False,
        device: str | None = None,
        exact: bool = False,
    ) -> None:
        self.python = f
        self.name = name_of(f)
        self.place = user_position()  # the location of the definition
        self._exact = exact or is_in_order()
        self._options = {"threads": threads, "specialize": specialize, "donate": donate, "memory": memory,
                         "memory_limit": memory_limit, "workspace_limit": workspace_limit, "swap": swap,
                         "debug": debug, "precision": precision, "tune": tune, "device": device,
                         "exact": self._exact}  # fmt: skip
        self._threads = threads
        self._settings = Settings(memory=memory, memory_limit=memory_limit, workspace_limit=workspace_limit,
                                  swap=policy.swap_folder(swap), debug=policy.is_debug(debug),
                                  specialize=policy.specialize(specialize), precision=precision, tune=tune,
                                  device=policy.device(device))
        self._donate = tuple(donate)
        self._own_parameters: list[Parameter] | None = None
        self._annotated: Spec = AnySpec()  # the annotation of the result
        self._traces: Recent[tuple[Signature, bool], Traced] = Recent()
        self._last: Signature | None = None
        self._sized: Recent[Signature, bool] = Recent()  # signatures that are traced for each call's sizes
        self._made: dict[Hashable, Any] = {}

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters with their annotations."""
        if self._own_parameters is None:
            self._own_parameters = self._find_parameters()
        return self._own_parameters

    def _find_parameters(self) -> list[Parameter]:
        found = parameters_of(self.python)
        self._annotated = result_spec(self.python)
        for name in self._donate:
            if all(p.name != name for p in found):
                raise TraceError(
                    "E108",
                    f"{self.name}: donate names {name!r}, which is no parameter",
                    remedy=elsewhere.one_of(name, [p.name for p in found]),
                )
        return found

    def once(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Return the object derived from this function under `key`, creating it on first use."""
        own = distinct((is_in_order(), *key))
        found: T | None = self._made.get(own)
        return self._made.setdefault(own, make()) if found is None else found

    def define(self) -> None:
        """Trace now if the annotations are complete, so that errors appear where the function is defined."""
        collected = _COLLECTED.get()
        if collected is not None and not is_tracing():
            collected.append(self)
            return
        try:
            self.check()
        except NameError as error:
            if isinstance(error, UnboundLocalError):
                raise

    def check(self) -> bool:
        """Trace the function by its annotations; return False if they are incomplete."""
        try:
            if any(p.default is None for p in self.parameters):  # optional parameters are traced with and without None
                given = [replace(p, default=MISSING) for p in self.parameters]
                self.traced(signature_of(given, None)[0])
            self.traced(signature_of(self.parameters, None)[0])
        except Undetermined:
            return False
        except Exception as error:
            if isinstance(error, PullbackError) and sized.needs_numbers(error):
                return False  # a call determines them
            present(error)
            raise
        return True

    @property
    def _in_order(self) -> bool:
        """Whether a new trace is exact: the function's setting, or that of the enclosing trace."""
        return self._exact or (bool(_THREAD.tracing) and is_in_order())

    def traced(self, signature: Signature) -> Traced:
        """Return the trace for a signature, created on first use."""
        found = self._traces.get((signature, self._in_order)) or self._traced_now(signature)
        self._last = signature
        return found

    def traced_for(self, signature: Signature, values: Sequence[Any]) -> tuple[Signature, Traced]:
        """The trace for a call: for all sizes, or for the call's sizes if they must be numbers."""
        own = sized.of_call(self.name, signature, values) if self._sized.get(signature) else None
        if own is None:
            try:
                return signature, self.traced(signature)
            except PullbackError as error:
                own = sized.of_call(self.name, signature, values) if sized.needs_numbers(error) else None
                if own is None or own == signature:
                    raise
        self._sized.put(signature, True)
        return own, self.traced(own)

    def _traced_now(self, signature: Signature) -> Traced:
        """Trace the function, or take the result of another thread."""
        exact = self._in_order
        key = (self, signature)
        if key in _THREAD.tracing:
            raise TraceError(
                "E142",
                f"{self.name} calls itself with the same static arguments, so its unrolling would not end",
                position=user_position(),
                remedy="recursion needs a `pb.Static` argument that changes; `fold` and `while_loop` repeat",
            )
        _THREAD.tracing.add(key)
        try:
            # a tracing thread does not wait, because functions may call each other in a cycle
            with nullcontext() if is_tracing() else single_flight(key), uncollected(), in_order(exact):
                found = self._traces.get((signature, exact))
                if found is None:
                    with stage(f"{'derive' if self.is_derivative else 'trace'} {self.name}"):
                        found = self._trace(signature)
                    found.signature = signature
                    if not found.foreign and not (is_tracing() and found.closes_over_indices):
                        found = self._traces.put((signature, exact), found)
                return found
        finally:
            _THREAD.tracing.discard(key)

    def _stands_alone(self, signature: Signature) -> bool:
        """Whether the function is traced outside other functions, so that it contains only its own dims."""
        found = self._traces.get((signature, self._in_order))
        return found is not None and not found.enclosed

    def _trace(self, signature: Signature) -> Traced:
        return trace(self.python, self.name, self.parameters, self._annotated, signature, self._settings,
                     self._donate)

    def determined(self, dims: Mapping[str, int] | None = None) -> Traced:
        """The trace that the annotations determine, or else the trace of the last call.

        If shapes must be numbers, the trace is for `dims`.
        """
        try:
            signature, _ = signature_of(self.parameters, None)
        except Undetermined:
            if self._last is None:
                raise TraceError(
                    "E140",
                    f"{self.name}: its annotations leave element types, ranks or static values open",
                    position=user_position(),
                    remedy=f"call {self.name} once, or use {self.name}.program(...) with arguments",
                ) from None
            signature = self._last
        try:
            return self.traced(signature)
        except PullbackError as error:
            own = self._last if dims is None else sized.of_dims(signature, dims)
            if not sized.needs_numbers(error) or own is None or own == signature:
                raise
        return self.traced(own)

    @presented
    def program(self, *args: Any, **keywords: Any) -> ir.Program:
        """The program for these arguments; without arguments, by the annotations.

        >>> from jaxtyping import Float64
        >>> from pullback import Array
        >>> @pb.function
        ... def total(x: Float64[Array, "N"]):
        ...     return pb.sum_over(x.shape[0], lambda n: x[n] * x[n])
        >>> total.program().name, len(total.program().body.statements)
        ('total', 1)
        """
        if not args and not keywords:
            return self.determined().program
        signature, flat = signature_of(self.parameters, bind(self.name, self.parameters, args, keywords))
        return self.traced_for(signature, flat)[1].program

    def _specialized(self, traced: Traced, dims: dict[str, int]) -> Traced:
        """The trace to compile for these dims: the function's own, or an equivalent, cheaper one."""
        return traced

    def arrays_of(self, values: Sequence[Any]) -> tuple[Signature, Traced, list[np.ndarray[Any, Any]], dict[str, int]]:
        """The signature and trace for a call's values, one per parameter, and the program's inputs."""
        signature, flat = signature_of(self.parameters, values)
        signature, traced = self.traced_for(signature, flat)
        arrays, sizes = prepare(signature.flat, flat)
        return signature, traced, arrays + traced.captured, sizes

    @property
    def type(self) -> TypeText:
        """The type with its dims and their requirements: `(x: f32[N, M], w: f32[M]) -> f32[N]`.

        >>> from jaxtyping import Float64
        >>> from pullback import Array
        >>> @pb.function
        ... def total(x: Float64[Array, "N"]):
        ...     return pb.sum_over(x.shape[0], lambda n: x[n] * x[n])
        >>> total.type
        '(x: f64[N]) -> f64'
        """
        traced = self.determined()
        return program_type(self.parameters, traced.signature, traced)

    def _check_sizes(self, dims: Mapping[str, Any]) -> None:
        """Raise ShapeError [E105] if a dim is given a value that is no size."""
        for name, value in dims.items():
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
                raise ShapeError("E105", f"{self.name}: {name}={value!r} is no size", position=user_position(),
                                 remedy="an int from 0 up")

    def _dims(self, program: ir.Known, dims: dict[str, Any]) -> dict[str, int]:
        self._check_sizes(dims)
        wanted = determined_dims(program)
        for name in dims:
            if name not in wanted:
                raise ShapeError(
                    "E106",
                    f"{self.name} has no dim {name}",
                    position=user_position(),
                    facts=[self.type],
                    remedy="its dims are " + ", ".join(wanted) if wanted else "it has no dims",
                )
        found = {n: int(dims[n]) for n in wanted if n in dims}
        missing = [n for n in wanted if n not in dims]
        if missing and min(found.values(), default=1) < 1:
            raise ShapeError(
                "E115",
                f"{self.name}: the dim {missing[0]} is not given",
                facts=[self.type, "C for all sizes takes axes of length 1 or more"],
                remedy=", ".join(f"{n}=…" for n in wanted),
            )
        check_requirements(program, found)
        check_bytes(program, found)
        return found

    def for_dims(self, given: dict[str, Any]) -> tuple[ir.Program, dict[str, int]]:
        """The program to compile for dims given by name, and these dims."""
        known, dims = self.known_for_dims(given)
        program = program_of(known)
        check_bytes(program, dims)
        return program, dims

    def known_for_dims(self, given: dict[str, Any]) -> tuple[ir.Known, dict[str, int]]:
        """Like `for_dims`, but return an outline if the statements are not needed yet."""
        self._check_sizes(given)
        traced = self.determined(given)
        open_dims = determined_dims(traced.known)
        if not given.keys() <= open_dims.keys():  # a dim that became a number is no longer in the program
            numbers = sized.dims_of(self.parameters) - open_dims.keys()
            given = {n: v for n, v in given.items() if n not in numbers}
        dims = self._dims(traced.known, given)
        complete = len(dims) == len(determined_dims(traced.known))
        return (self._specialized(traced, dims) if complete else traced).known, dims
