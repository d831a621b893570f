"""`function`: a Python function as a program that is checked, called, compiled and exported."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

import numpy as np

from pullback.calls import policy, sized
from pullback.calls.annotated import result_spec
from pullback.calls.annotations import (
    MISSING,
    AnySpec,
    ArraySpec,
    NumberSpec,
    OptionalSpec,
    SizeSpec,
    Spec,
    StaticSpec,
    TreeSpec,
    Undetermined,
)
from pullback.calls.carried import Recipe, reduced
from pullback.calls.execute import Runner, prepare
from pullback.calls.fast import Shortcut, arrangement, collect
from pullback.calls.inline import apart, inline
from pullback.calls.mistakes import out_of_memory, present, public
from pullback.calls.recent import Recent
from pullback.calls.shown import about, function_html
from pullback.calls.signature import Parameter, Signature, bind, name_of, parameters_of, signature_of
from pullback.calls.traced import Traced, trace
from pullback.calls.typetext import TypeText, program_type
from pullback.calls.versions import Versions
from pullback.clock import stage
from pullback.errors import PullbackError, ShapeError, TraceError
from pullback.ir.dims import check_bytes, check_requirements, determined_dims, has_empty_extent, solve_dims
from pullback.ir.expr import in_order, is_in_order
from pullback.ir.intern import uncollected
from pullback.ir.program import Known, Program, program_of
from pullback.ir.settings import MODES, SPECIALISE, MemoryMode, Settings, Specialise
from pullback.ir.verify import verifying
from pullback.source import user_position
from pullback.tracing import elsewhere, tree
from pullback.tracing.active import is_tracing
from pullback.tracing.distinct import distinct
from pullback.turns import turn

if TYPE_CHECKING:
    from pullback.calls.profile import Profile
    from pullback.derivation.render import Derivation
    from pullback.explanation import Explanation, Format
    from pullback.memory.size_table import SizeTable
    from pullback.memory.table import Build, MemoryTable
    from pullback.pictures import Picture

T = TypeVar("T")
ENTRIES = 4  # compiled calls that a function tries before it looks closely at its arguments


class _Thread(threading.local):
    """What belongs to a thread: the functions it is tracing, each for a signature."""

    def __init__(self) -> None:
        self.tracing: set[tuple[Function, Signature]] = set()


_THREAD = _Thread()


def _fixed(
    flat: Sequence[Any], signature: Signature, arrays: Sequence[np.ndarray[Any, Any]]
) -> tuple[tuple[int, int], ...] | None:
    """The integers among the leaves of the arguments that the program was made for, by position.

    None where others than these, arrays that go in as they are, complex ones, and numbers for arrays of rank 0 are
    among them: then a call needs to look closely each time.
    """
    found: list[tuple[int, int]] = []
    inputs = iter(arrays)
    parts = [part for s in signature.structures for part in tree.parts_of_complex(s)]
    for k, (x, leaf, is_part) in enumerate(zip(flat, signature.flat, parts, strict=True)):
        if leaf.is_input:
            array = next(inputs)
            if array is not x and not is_part and not (isinstance(x, float) and array.ndim == 0):
                return None
        elif type(x) is int:
            found.append((k, x))
        else:
            return None
    return tuple(found)


def _only_arrays(spec: Spec) -> bool:
    """Whether no Python number given for it can change the program."""
    match spec:
        case ArraySpec() | NumberSpec():
            return True
        case AnySpec():
            return spec.item is None or _only_arrays(spec.item)
        case OptionalSpec():
            return _only_arrays(spec.spec)
        case TreeSpec():
            return all(_only_arrays(s) for _, s in spec.fields)
        case _:
            return False


_COLLECTED: list[Function] | None = None


@contextmanager
def collecting() -> Iterator[list[Function]]:
    """The functions that are defined inside, which nobody checks as yet."""
    global _COLLECTED
    before, _COLLECTED = _COLLECTED, []
    try:
        yield _COLLECTED
    finally:
        _COLLECTED = before


class Function:
    """A traced function. Call it with NumPy arrays, or inside another traced function.

    Attributes:
        name: the Python function's name.
        is_derivative: whether it was made of another function's program.
    """

    __slots__ = ("__dict__", "__weakref__", "_entries")
    is_derivative = False
    made_by: Recipe | None = None  # how a derivative was made
    _entries: tuple[Callable[..., Any], ...]  # compiled calls for arrays that fit, the latest first

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """An instance whose calls can go straight to compiled code, where the class leaves calls as they are."""
        from pullback.runtime.shim import quick_class

        return object.__new__(quick_class(cls) if cls.__call__ is Function.__call__ else cls)

    def __init__(
        self,
        f: Callable[..., Any],
        *,
        threads: int | None = None,
        specialise: Specialise | None = None,
        donate: Sequence[str] = (),
        memory: MemoryMode = "fastest",
        memory_limit: int | None = None,
        debug: bool | None = None,
        exact: bool = False,
    ) -> None:
        self.python = f
        self.name = name_of(f)
        self.place = user_position()  # where it was made
        self._exact = exact or is_in_order()
        self._options = {"threads": threads, "specialise": specialise, "donate": donate, "memory": memory,
                         "memory_limit": memory_limit, "debug": debug, "exact": self._exact}  # fmt: skip
        self._threads = threads
        self._settings = Settings(memory=memory, memory_limit=memory_limit, debug=policy.is_debug(debug),
                                  specialise=policy.specialise(specialise))
        self._donate = tuple(donate)
        self._own_parameters: list[Parameter] | None = None
        self._annotated: Spec = AnySpec()  # what the annotation says of the result
        self._traces: Recent[tuple[Signature, bool], Traced] = Recent()
        self._fast: Recent[Any, Shortcut] = Recent()
        self._versions = Versions(self.name, threads, self._specialised, self._fast.clear)
        self._entries = ()
        self._by_value = True
        self._last: Signature | None = None
        self._sized: Recent[Signature, bool] = Recent()  # what is traced for the sizes of each call
        self._made: dict[Hashable, Any] = {}
        functools.update_wrapper(self, f, updated=())

    # Tracing ------------------------------------------------------------------------------------------------

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters with what their annotations say."""
        if self._own_parameters is None:
            self._own_parameters = self._find_parameters()
            self._by_value = not all(_only_arrays(p.spec) for p in self._own_parameters)
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
        """What is made of this function under a key, such as a derivative: made once."""
        own = distinct((is_in_order(), *key))
        found: T | None = self._made.get(own)
        return self._made.setdefault(own, make()) if found is None else found

    def define(self) -> None:
        """Trace now where the annotations say enough, so that errors appear where the function is defined."""
        if _COLLECTED is not None and not is_tracing():
            _COLLECTED.append(self)
            return
        try:
            self.check()
        except NameError as error:
            if isinstance(error, UnboundLocalError):
                raise
            # a global that is bound later: the check moves to the first use

    def check(self) -> bool:
        """Trace what the annotations determine; False where they leave something open."""
        try:
            if any(p.default is None for p in self.parameters):  # with what may be None, and without
                given = [replace(p, default=MISSING) for p in self.parameters]
                self.traced(signature_of(given, None)[0])
            self.traced(signature_of(self.parameters, None)[0])
        except Undetermined:
            return False
        except Exception as error:
            if isinstance(error, PullbackError) and sized.needs_numbers(error):
                return False  # a call says them
            present(error)
            raise
        return True

    @property
    def _in_order(self) -> bool:
        """Whether a trace made now is exact: as the function is, or the one that is traced around it."""
        return self._exact or (bool(_THREAD.tracing) and is_in_order())

    def traced(self, signature: Signature) -> Traced:
        """The function traced for a signature, once."""
        found = self._traces.get((signature, self._in_order)) or self._traced_now(signature)
        self._last = signature
        return found

    def traced_for(self, signature: Signature, values: Sequence[Any]) -> tuple[Signature, Traced]:
        """The function traced for a call: for all sizes, or for those of the call where they must be numbers."""
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
        """The function traced now, or by another thread meanwhile."""
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
            # who is tracing waits for nobody: functions may call one another in a circle
            with nullcontext() if is_tracing() else turn(key), uncollected(), in_order(exact):
                found = self._traces.get((signature, exact))
                if found is None:
                    with stage(f"{'derive' if self.is_derivative else 'trace'} {self.name}"):
                        found = self._trace(signature)
                    if not found.foreign and not (is_tracing() and found.closes_over_indices):
                        found = self._traces.put((signature, exact), found)
                return found
        finally:
            _THREAD.tracing.discard(key)

    def _stands_alone(self, signature: Signature) -> bool:
        """Whether it was traced outside of other functions, so that no dims but its own are in it."""
        found = self._traces.get((signature, self._in_order))
        return found is not None and not found.enclosed

    def _trace(self, signature: Signature) -> Traced:
        return trace(self.python, self.name, self.parameters, self._annotated, signature, self._settings,
                     self._donate)

    def _determined(self, dims: Mapping[str, int] | None = None) -> Traced:
        """The trace that the annotations determine, else the one of the last call.

        With `dims` it is for these where shapes must be numbers.
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

    def program(self, *args: Any, **keywords: Any) -> Program:
        """The program for these arguments; without arguments what the annotations determine.

        >>> from jaxtyping import Float64
        >>> from pullback import Array
        >>> @pb.function
        ... def total(x: Float64[Array, "N"]):
        ...     return pb.sum_over(x.shape[0], lambda n: x[n] * x[n])
        >>> total.program().name, len(total.program().body.statements)
        ('total', 1)
        """
        if not args and not keywords:
            return self._determined().program
        try:
            signature, flat = signature_of(self.parameters, bind(self.name, self.parameters, args, keywords))
            return self.traced_for(signature, flat)[1].program
        except Exception as error:
            present(error)
            raise

    # Calling ------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, out: Any = None, **keywords: Any) -> Any:  # noqa: D102
        return self._call_slowly(*args, out=out, **keywords)

    def _call_slowly(self, *args: Any, out: Any = None, **keywords: Any) -> Any:
        """A call with whatever arguments: traced, checked, converted, compiled, as needed."""
        shape: list[Any] = []
        given: list[Any] = []
        spans: list[tuple[str | None, int, int]] = []
        quick = not is_tracing()
        for name, value in (*((None, x) for x in args), *keywords.items()):
            start = len(given)
            shape.append(name)
            quick = quick and collect(value, shape, given, self._by_value)
            spans.append((name, start, len(given)))
        key = (*shape, policy.asked_threads()) if quick else None
        if quick:
            shortcut = self._fast.get(key)
            if shortcut is not None:
                try:
                    return shortcut.call(given, out)
                except Exception as error:
                    present(error)
                    raise
        try:
            with uncollected():
                values = bind(self.name, self.parameters, args, keywords)
                signature, flat = signature_of(self.parameters, values)
                if is_tracing():
                    if not self._stands_alone(signature):
                        signature = apart(self.name, signature, flat)
                    signature, traced = self.traced_for(signature, flat)
                    return inline(self.name, traced, signature.flat, flat)
                signature, traced = self.traced_for(signature, flat)
                runner, arrays = self._runner(signature, traced, flat)
        except Exception as error:
            present(error)
            raise
        if len(args) + len(keywords) == len(values) and (fixed := _fixed(flat, signature, arrays)) is not None:
            self._keep(runner, fixed, signature.structures)
        if quick:
            take = arrangement(self.parameters, spans, given, signature.leaves, flat)
            if take is not None:
                self._fast.put(key, Shortcut(runner, signature.flat, given, take))
        try:
            return runner.call(arrays, out)
        except Exception as error:
            present(error)
            raise

    def _runner(
        self, signature: Signature, traced: Traced, flat: Sequence[Any]
    ) -> tuple[Runner, list[np.ndarray[Any, Any]]]:
        """What runs a call with these leaves, and the arrays to give it."""
        runner, arrays = self._versions.runner(signature, traced, flat)
        numbered = self._numbered(signature, flat, runner)
        return (runner, arrays) if numbered is None else self._versions.runner(*numbered, flat)

    def _numbered(
        self, signature: Signature, flat: Sequence[Any], runner: Runner
    ) -> tuple[Signature, Traced] | None:
        """The signature and trace with numbers for dims, where a loop runs over nothing.

        What is traced with names for its dims takes all of them to be at least one, so that a guard may be gone that
        the empty array needs. Where the numbers refuse it, the program for all sizes says what is wrong.
        """
        if not runner.dims or not runner.is_empty:
            return None
        numbered = sized.of_call(self.name, signature, flat)
        if numbered is None:
            return None
        try:
            return numbered, self.traced(numbered)
        except PullbackError:
            return None

    def _keep(
        self, runner: Runner, fixed: tuple[tuple[int, int], ...], structures: tuple[tree.Structure, ...]
    ) -> None:
        """Let calls with arguments like these go straight to the compiled function (`runtime.shim.quick_class`)."""
        if any(p.kind == "rest" for p in self.parameters):
            return
        typed = all(isinstance(p.spec, ArraySpec | NumberSpec | SizeSpec | StaticSpec) for p in self.parameters)
        names = tuple(p.name for p in self.parameters)
        positional = sum(p.kind == "plain" for p in self.parameters)
        entry = runner.entry(fixed, typed, names, positional, structures, policy.asked_threads())
        if entry is None:
            return
        from pullback.runtime.shim import quicken

        self._entries = (entry, *(e for e in self._entries if e is not entry))[:ENTRIES]
        quicken(self, policy.ASKED_THREADS)

    def _specialised(self, traced: Traced, dims: dict[str, int]) -> Traced:
        """What is compiled for these dims: the function as traced, or an equal one that costs less for them."""
        return traced

    def arrays_of(self, values: Sequence[Any]) -> tuple[Signature, Traced, list[np.ndarray[Any, Any]], dict[str, int]]:
        """The signature and trace for a call's values, one for each parameter, and what its program is given."""
        signature, flat = signature_of(self.parameters, values)
        signature, traced = self.traced_for(signature, flat)
        arrays, sizes = prepare(signature.flat, flat)
        return signature, traced, arrays + traced.captured, sizes

    def interpret(self, *args: Any, **keywords: Any) -> Any:
        """The result by the reference interpreter in NumPy.

        >>> float(pb.function(lambda x: pb.sum(x)).interpret(np.array([1.0, 2.0])))
        3.0
        """
        values = bind(self.name, self.parameters, args, keywords)
        signature, traced, arrays, sizes = self.arrays_of(values)
        runner = Runner(self.name, traced, arrays, sizes, 1, backend="interpreter")
        numbered = self._numbered(signature, signature_of(self.parameters, values)[1], runner)
        if numbered is not None:
            runner = Runner(self.name, numbered[1], arrays, {}, 1, backend="interpreter")
        return runner.call(arrays, None)

    # Looking ------------------------------------------------------------------------------------------------

    @property
    def type(self) -> TypeText:
        """The type with its dims: `(x: f32[N, M], w: f32[M]) -> f32[N]`, and what the dims must fulfil.

        >>> from jaxtyping import Float64
        >>> from pullback import Array
        >>> @pb.function
        ... def total(x: Float64[Array, "N"]):
        ...     return pb.sum_over(x.shape[0], lambda n: x[n] * x[n])
        >>> total.type
        '(x: f64[N]) -> f64'
        """
        signature, traced = self.determined()
        return program_type(self.parameters, signature, traced)

    def determined(self) -> tuple[Signature, Traced]:
        """The trace that the annotations determine, else the one of the last call, and its signature."""
        traced = self._determined()
        return self._signature_of(traced), traced

    def _signature_of(self, traced: Traced) -> Signature:
        signature = next((s for (s, _), t in self._traces.items() if t is traced), self._last)
        assert signature is not None
        return signature

    @property
    def ir(self) -> str:
        """The program as text.

        >>> from jaxtyping import Float64
        >>> from pullback import Array
        >>> @pb.function
        ... def total(x: Float64[Array, "N"]):
        ...     return pb.sum_over(x.shape[0], lambda n: x[n] * x[n])
        >>> print(total.ir, end="")
        total(x: f64[N]) {
          sum = build { sum n < N { x[n] * x[n] } }
          return out = sum }
        """
        from pullback.ir.printer import print_program

        return print_program(self._determined().program)

    def _dims(self, program: Known, dims: dict[str, Any]) -> dict[str, int]:
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
                facts=[self.type, "C for all sizes takes extents of at least 1"],
                remedy=", ".join(f"{n}=…" for n in wanted),
            )
        check_requirements(program, found)
        check_bytes(program, found)
        return found

    def for_dims(self, given: dict[str, Any]) -> tuple[Program, dict[str, int]]:
        """The program that is compiled for dims given by name, and these dims."""
        known, dims = self.known_for_dims(given)
        program = program_of(known)
        check_bytes(program, dims)
        return program, dims

    def known_for_dims(self, given: dict[str, Any]) -> tuple[Known, dict[str, int]]:
        """The same, in outline where nothing needs its statements yet."""
        traced = self._determined(given)
        open_dims = determined_dims(traced.known)
        if not given.keys() <= open_dims.keys():  # one that became a number is none of the program
            numbers = sized.dims_of(self.parameters) - open_dims.keys()
            given = {n: v for n, v in given.items() if n not in numbers}
        dims = self._dims(traced.known, given)
        complete = len(dims) == len(determined_dims(traced.known))
        return (self._specialised(traced, dims) if complete else traced).known, dims

    def memory(
        self, mode: MemoryMode | None = None, build: Build = "call", /, **dims: int
    ) -> MemoryTable | SizeTable:
        """What a call needs: arguments and results, a row for every statement, the peak. Nothing runs.

        It is for as many threads as a call here would use; with `build="export"` for exported C, which is serial and
        for any processor, so that its arena may be larger or smaller. `arena_bytes` is to the byte what the call takes,
        or what the exported header says. Where some dims are not given, sizes are in terms of these.

        Args:
            mode: "fastest", "less" or "least"; by default the function's own. It is given by position, so that any
                name may be that of a dim.
            build: "call" or "export", by position too.
            dims: the dims.
        Raises:
            ValueError: there is no such mode or build.
            CompilerError: [E260] the function's memory limit is too small.

        >>> from jaxtyping import Float64
        >>> from pullback import Array
        >>> @pb.function
        ... def total(x: Float64[Array, "N"]):
        ...     return pb.sum_over(x.shape[0], lambda n: x[n] * x[n])
        >>> print(total.memory())
        statement  dims    bytes  where
        ---------  ------  -----  ------
        x          f64[N]  8 * N  input
        out        f64[]   8      output
        peak 0 bytes in the arena
        >>> total.memory(N=1000).peak_bytes
        0
        """
        from pullback.runtime import emit

        _check_mode(mode or "fastest")
        if build not in ("call", "export"):
            raise ValueError(f'memory of "call" or of "export", not of {build!r}')
        return emit.memory(*self.for_dims(dims), mode, policy.thread_count(self._threads), build)

    def profile(self, *args: Any, **keywords: Any) -> Profile:
        """Where the time of a call with these arguments goes: a row for every statement, with its operations.

        The program is compiled once more, with a look at the clock between statements, and called up to 20 times in at
        most about a second; the quickest call is shown, whose rows sum to its total. It has the threads that a call
        would use. Nothing is written over, donated arguments neither.

        Raises:
            CompilerError: [E410] there is no C compiler.
            ShapeError: [E115] a size is 0: such calls are interpreted.

        >>> from jaxtyping import Float64
        >>> from pullback import Array
        >>> @pb.function
        ... def total(x: Float64[Array, "N"]):
        ...     y = pb.cumulative_sum(x)
        ...     return pb.sum_over(x.shape[0], lambda n: y[n] * x[n])
        >>> found = total.profile(np.ones(1000))
        >>> found.rows[-1].name, found.rows[-1].operations, found.operations
        ('sum', 2000, 3000)
        >>> found.nanoseconds == sum(row.nanoseconds for row in found.rows)
        True
        """
        from pullback.calls.profile import profile_program

        try:
            values = bind(self.name, self.parameters, args, keywords)
            _, traced, arrays, sizes = self.arrays_of(values)
            dims = solve_dims(traced.known, [a.shape for a in arrays], sizes)
            program = self._specialised(traced, dims).program
            if has_empty_extent(program, dims):
                raise ShapeError("E115", f"{self.name}: a size is 0, and such calls are interpreted",
                                 position=user_position(), remedy="arrays that have elements")
            try:
                return profile_program(program, dims, arrays, policy.thread_count(self._threads))
            except MemoryError as error:
                raise out_of_memory(self.name, None, error) from None
        except Exception as error:
            present(error)
            raise

    def c_source(self, *, names: Literal["user", "canonical"] = "user", comments: bool = True, plain: bool = False,
                 **dims: int) -> str:
        """The C of the function; dims that are not given are its arguments, between the arrays and the arena.

        Args:
            names: "user" for your names, "canonical" for numbered ones, by which programs can be compared.
            comments: whether the C says what it computes.
            plain: whether it is the C one reads: loops over numbers and functions of libm, for every compiler of C99.
                Without it kernels are written with the vectors of gcc and clang, and in this form for other compilers.
            dims: numbers for dims.
        Raises:
            CompilerError: [E260] the function has a memory limit that no form of it keeps.

        >>> from jaxtyping import Float64
        >>> from pullback import Array
        >>> @pb.function
        ... def total(x: Float64[Array, "N"]):
        ...     return pb.sum_over(x.shape[0], lambda n: x[n])
        >>> print(total.c_source(N=3, comments=False))
        #include <stdint.h>
        <BLANKLINE>
        int total(const double *restrict x, double *restrict out, void *restrict arena) {
            (void)arena;
        <BLANKLINE>
            double sum = 0.0;
            for (int64_t n = 0; n < 3; ++n) {
                sum += x[n];
            }
            out[0] = sum;
            return 0;
        }
        <BLANKLINE>
        """
        from pullback.runtime import emit

        return emit.c_source(*self.for_dims(dims), names=names, comments=comments, plain=plain)

    def export(self, directory: Any, **dims: int) -> Any:
        """Write a standalone C project for given dims: header, source, CMakeLists.txt and an example main.

        >>> from jaxtyping import Float64
        >>> from pullback import Array
        >>> @pb.function
        ... def total(x: Float64[Array, "N"]):
        ...     return pb.sum_over(x.shape[0], lambda n: x[n] * x[n])
        >>> total.export("total", N=3)["files"]
        ['total/total.h', 'total/total.c', 'total/CMakeLists.txt', 'total/main.c']
        """
        from pullback.runtime.export import export

        return export(*self.for_dims(dims), directory)

    def export_microcontroller(
        self, directory: Any, *, arena: Literal["given", "static"] = "given", float_only: bool = False, **dims: int
    ) -> Any:
        """Write one header and one source for a small machine: plain C99 that prints nothing and allocates nothing.

        Arrays from around the function that are read-only are `const` tables in the source.

        Args:
            directory: made where it does not exist; files of the same names are replaced.
            arena: "given", the caller passes working memory; or "static", the source has it, and a second function,
                with `_run` behind its name, takes none.
            float_only: whether double precision is ruled out.
            dims: all dims.
        Returns:
            `files`, `arena_bytes` and `const_bytes`, the sizes of working memory and tables.
        Raises:
            CompilerError: [E414] a size is open, or `float_only` does not hold.

        >>> import numpy as np
        >>> from jaxtyping import Float32
        >>> from pullback import Array
        >>> weights = np.array([1, 2, 3], np.float32)
        >>> weights.setflags(write=False)
        >>> @pb.function
        ... def neuron(x: Float32[Array, "3"]):
        ...     return pb.tanh(pb.sum_over(3, lambda n: pb.asarray(weights)[n] * x[n]))
        >>> neuron.export_microcontroller("neuron", float_only=True)
        {'files': ['neuron/neuron.h', 'neuron/neuron.c'], 'arena_bytes': 0, 'const_bytes': 12}
        """
        from pullback.runtime.microcontroller import export

        return export(*self.for_dims(dims), directory, arena, float_only)

    def export_wasm(self, directory: str | os.PathLike[str], **dims: int) -> Any:
        """Write the function as a module for browsers and Node: one file of JavaScript that holds it, and its C.

        `const wasm = await NAME.load()` gives a function of typed arrays by name, flat and row by row, and its results
        likewise: `wasm.NAME({x: new Float32Array(...)}).out`.

        Args:
            directory: made where it does not exist; files of the same names are replaced.
            dims: all dims.
        Returns:
            `files`, and `wasm_bytes`, the size of the module.
        Raises:
            CompilerError: [E415] there is no compiler for wasm.
            TraceError: [E531] a size is open, or elements have 16 bits.
        Cost:
            One compilation, some seconds; the module is some kilobytes.

        >>> from jaxtyping import Float64
        >>> from pullback import Array
        >>> @pb.function
        ... def twice(x: Float64[Array, "N"]):
        ...     return 2 * x
        >>> def example():  # needs zig, or clang with wasi-libc
        ...     return twice.export_wasm("out", N=3).files
        """
        from pullback.wasm import export

        return export(*self.for_dims(dims), directory)

    def explain(
        self,
        *,
        format: Format = "text",
        plain: bool = False,
        html: str | os.PathLike[str] | None = None,
        **dims: int,
    ) -> Explanation:
        """Every stage from the program to C, and the rules that fired; for a derivative, first how it was found.

        Args:
            format: how the result prints: "text", or "markdown" with formulas in LaTeX.
            plain: whether the C is without vectors, as `c_source` gives it.
            html: a file to write a page to, with the stages side by side and lines of C linked to those of your file.
            dims: the dims, for kernels, memory and C to be shown too.
        Raises:
            ValueError: there is no such format.
            UsageError: [E607] the file cannot be written.

        >>> from jaxtyping import Float64
        >>> from pullback import Array
        >>> @pb.function
        ... def total(x: Float64[Array, "N"]):
        ...     return pb.sum_over(x.shape[0], lambda n: x[n] * x[n])
        >>> found = total.explain(N=3)
        >>> found.stages[0].name, found.stages[-1].name
        ('elaborated', 'C')
        """
        from pullback.explanation import explanation_of, save_page

        if format not in ("text", "markdown"):
            raise ValueError(f'format={format!r}: "text" or "markdown"')
        program = self._determined().program
        complete = bool(dims) or not determined_dims(program)
        sizes = self._dims(program, dims) if complete else None
        found = explanation_of(program, sizes, about(self), self.derivation(), format, plain, self.drawn)
        if html is not None:
            save_page(found, html)
        return found

    def drawn(self) -> Picture | None:
        """The graph of the function, or of what it is a derivative of: arrays, and on edges the operators between them.

        None where it has no floating-point arguments, or more than a thousand arrays. `save` writes the picture as SVG.

        Cost:
            That of the derivation, without any numbers.

        >>> from jaxtyping import Float64
        >>> from pullback import Array
        >>> @pb.function
        ... def energy(x: Float64[Array, "N"]):
        ...     return pb.sum(x * x)
        >>> energy.drawn().title
        'Graph of energy: how each array changes with those before it'
        """
        from pullback.explanation.drawing import graph_of

        base: Any = self
        while base.is_derivative and isinstance(getattr(base, "base", None), Function):
            base = base.base
        return graph_of(base.determined()[1].program)

    def derivation(self, check: bool | None = None) -> Derivation | None:
        """How this derivative was found, step by step, with the rules of the papers; None for what is no derivative.

        Args:
            check: whether each step is evaluated before and after at random points, local derivatives against central
                differences; the result's `checked` says how many were. By default where PULLBACK_VERIFY is 1.
        Raises:
            DerivativeError: [E227] a step changes a value.

        >>> import pullback as pb
        >>> from jaxtyping import Float64
        >>> from pullback import Array
        >>> @pb.function
        ... def energy(x: Float64[Array, "N"]):
        ...     return pb.sum_over(x.shape[0], lambda n: x[n] * x[n])
        >>> print(*str(pb.grad(energy).derivation()).split()[-8:])
        z_x = 2 · x (002: 29, 32)
        """
        if not self.is_derivative:
            return None
        from pullback.explanation import derive

        signature = self._signature_of(self._determined())
        return derive(lambda: self._trace(signature).program, verifying() if check is None else check)

    def __repr__(self) -> str:
        try:
            return f"<pullback function {self.name}{self.type}>"
        except Exception:
            return f"<pullback function {self.name}>"

    def _repr_html_(self) -> str:
        return function_html(self)

    def __reduce__(self) -> Any:
        return reduced(self, self.made_by, (_remade, (self.python,), self._options))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # as Python's functions are

    def __get__(self, instance: object, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _remade(f: Callable[..., Any], **options: Any) -> Function:
    """The function as another process wrote it down."""
    made = Function(f, **options)
    made.define()
    return made


def _check_mode(memory: str) -> None:
    if memory not in MODES:
        raise ValueError(f'memory={memory!r}: "fastest", "less" or "least"')


@overload
def function(f: Callable[..., Any], /) -> Function: ...
@overload
def function(
    *,
    threads: int | None = None,
    specialise: Specialise | None = None,
    donate: Sequence[str] = (),
    memory: MemoryMode = "fastest",
    memory_limit: int | None = None,
    debug: bool | None = None,
) -> Callable[[Callable[..., Any]], Function]: ...
@public
def function(
    f: Callable[..., Any] | None = None,
    /,
    *,
    threads: int | None = None,
    specialise: Specialise | None = None,
    donate: Sequence[str] = (),
    memory: MemoryMode = "fastest",
    memory_limit: int | None = None,
    debug: bool | None = None,
) -> Any:
    """Make a Python function a traced one: checked when it is defined, compiled when it is called.

    Args:
        f: the function; its annotations give element types and dims of the arguments.
        threads: how many threads a call may use; by default what `pb.threads` or PULLBACK_THREADS says, else 1.
        specialise: whether C is made for the dims of a call: "always", or "never" but once for all sizes; "auto" for
            the first four dims of a function, then once for all others, and for those of them whose calls have done as
            much work as compiling is worth. By default what PULLBACK_SPECIALISE says, or "auto".
        donate: names of arguments whose memory the result may overwrite: with these arrays as `out` they are updated
            where they lie.
        memory: "fastest"; "less", statements in an order that needs less memory; or "least". Derivatives keep it.
        memory_limit: the most bytes of working memory that C for this function, and for derivatives of it, may use.
            Where storing what a loop's backward pass reads would take more, steps are computed again from fewer stored
            states, on as many levels as it takes. Arguments and results do not count.
        debug: whether it is compiled as it is written, every result tested: a NaN or an infinity that a statement makes
            of finite numbers is an error that says which element of what, and where it was written; debuggers show
            these lines. By default what PULLBACK_DEBUG says, 1 or 0. Derivatives of it are like it.
    Returns:
        The function, or a decorator where only options are given.
    Raises:
        ShapeError: shapes in it disagree, or an index may leave its range.
        DTypeError: element types in it do not fit.
        TraceError: it uses Python control flow on traced values.
        ValueError: an option has no such value.
        CompilerError: [E260] at a call or `c_source`: the limit is too small for these dims.

    >>> import numpy as np, pullback as pb
    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> @pb.function
    ... def double(x: Float64[Array, "N"]):
    ...     return pb.build(x.shape[0], lambda n: 2 * x[n])
    >>> double(np.array([1.0, 2.0])).tolist()
    [2.0, 4.0]
    >>> double.type
    '(x: f64[N]) -> f64[N]'
    """
    if specialise is not None and specialise not in SPECIALISE:
        raise ValueError(f'specialise={specialise!r}: "auto", "always" or "never"')
    _check_mode(memory)
    if threads is not None and not policy.is_count(threads):
        raise ValueError(f"threads={threads!r}: the number of threads is an int of at least 1")
    if memory_limit is not None and not policy.is_count(memory_limit):
        raise ValueError(f"memory_limit={memory_limit!r}: a number of bytes, an int of at least 1")
    names = (donate,) if isinstance(donate, str) else tuple(donate)

    options = {"threads": threads, "specialise": specialise, "donate": names, "memory": memory,
               "memory_limit": memory_limit, "debug": debug}  # fmt: skip
    wishes = {key: value for key, value in options.items() if value != _DEFAULTS[key]}

    def make(g: Callable[..., Any]) -> Function:
        return _with_options(g, wishes) if wishes or not isinstance(g, Function) else g

    return make if f is None else make(f)


_DEFAULTS = {"threads": None, "specialise": None, "donate": (), "memory": "fastest", "memory_limit": None,
             "debug": None}  # fmt: skip


def _with_options(f: Callable[..., Any], wishes: dict[str, Any]) -> Function:
    """A Python function traced with these options; a traced one again, with these beside its own.

    A derivative is derived again, of the function with these options.

    Raises:
        ValueError: it is no text of the user's that could be compiled otherwise, but C or a rule.
    """
    if isinstance(f, Function) and f.made_by is not None:
        make, args, keywords = f.made_by
        if not any(isinstance(a, Function) for a in args):
            raise ValueError(f"{f.name} takes no {', '.join(wishes)} now: give it to the function that it was made of")
        again: Function = make(*(_with_options(a, wishes) if isinstance(a, Function) else a for a in args), **keywords)
        return again
    made = Function(f.python, **(f._options | wishes)) if isinstance(f, Function) else Function(f, **wishes)
    made.define()
    return made


__all__ = ["Function", "function", "tree"]
