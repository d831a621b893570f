"""`function`: Python functions as programs that can be checked, called, compiled and exported."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, overload

import numpy as np

from pullback.calls import policy, sized
from pullback.calls.arguments import NDArray
from pullback.calls.carried import reduced
from pullback.calls.compiled import Compiled
from pullback.calls.inline import apart, inline
from pullback.calls.inspection import Inspected, check_mode
from pullback.calls.mistakes import present, public
from pullback.calls.signature import Signature, bind, signature_of
from pullback.calls.table import Table
from pullback.calls.traced import Traced
from pullback.errors import PullbackError
from pullback.ir.dims import solve_dims
from pullback.ir.intern import uncollected
from pullback.ir.settings import PRECISIONS, SPECIALIZE, MemoryMode, Precision, Specialize, Tune
from pullback.runtime.shim import answer_of, quick_class, quicken
from pullback.tracing.active import TRACING, is_tracing
from pullback.tracing.public import Answers, presented

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar

    from pullback.calls.steps import Steps

    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any)
else:
    from typing import ParamSpec, TypeVar

    P, R = ParamSpec("P"), TypeVar("R")


class Function(Inspected, Answers, Generic[P, R]):
    """A traced function. Call it with NumPy arrays, or inside another traced function.

    Attributes:
        name: the Python function's name.
        is_derivative: whether it was derived from another function's program.
    """

    __slots__ = ("_entries",)
    _entries: list[Any]  # compiled calls, latest first (`runtime.entry`)

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Make an instance whose calls go straight to compiled code, unless the class overrides calls."""
        return object.__new__(quick_class(cls) if cls.__call__ is Function.__call__ else cls)

    def __init__(self, f: Callable[..., Any], **options: Any) -> None:
        super().__init__(f, **options)
        functools.update_wrapper(self, f, updated=())
        self._entries = []
        self._table = Table(self.name, self._threads, self._specialized, self._entries)
        quicken(self, policy.ASKED_THREADS, TRACING)

    @overload
    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R: ...
    @overload
    def __call__(self, *args: Any, out: Any, **keywords: Any) -> Any: ...
    def __call__(self, *args: Any, out: Any = None, **keywords: Any) -> Any:  # noqa: D102
        if self._entries and not is_tracing():
            try:
                answer = answer_of(self._entries, policy.ASKED_THREADS.get(), args, keywords, out)
            except Exception as error:
                present(error)
                raise
            if answer is not NotImplemented:
                return answer
        return self._call_slowly(*args, out=out, **keywords)

    def _call_slowly(self, *args: Any, out: Any = None, **keywords: Any) -> Any:
        """Call with any arguments: trace, check, convert and compile as needed."""
        try:
            with uncollected():
                signature, flat = signature_of(self.parameters, bind(self.name, self.parameters, args, keywords))
                if is_tracing():
                    return self._inlined(signature, flat)
                compiled, arrays = self.compiled(signature, flat)
            return compiled.call(arrays, out)
        except Exception as error:
            present(error)
            raise

    def compiled(self, signature: Signature, flat: Sequence[Any]) -> tuple[Compiled, list[NDArray]]:
        """The runner of calls with this signature and such leaves, and the arrays to pass for the leaves."""
        signature, traced = self.traced_for(signature, flat)
        found, arrays = self._table.find(self.parameters, signature, traced, flat)
        numbered = self._numbered(signature, flat, found)
        return (found, arrays) if numbered is None else self._table.find(self.parameters, *numbered, flat)

    def _inlined(self, signature: Signature, flat: Sequence[Any]) -> Any:
        """Call the function inside a function that is being traced."""
        if not self._stands_alone(signature):
            signature = apart(self.name, signature, flat)
        signature, traced = self.traced_for(signature, flat)
        return inline(self.name, traced, signature.flat, flat)

    def _numbered(
        self, signature: Signature, flat: Sequence[Any], compiled: Compiled
    ) -> tuple[Signature, Traced] | None:
        """The signature and trace with numbers for dims, for calls in which a loop has no steps.

        A trace with symbolic dims assumes that all are at least one, so it may lack a guard that an empty array needs.
        If the numbers are refused, the program for all sizes reports the error.
        """
        if not compiled.dims or not compiled.is_empty:
            return None
        numbered = sized.of_call(self.name, signature, flat)
        if numbered is None:
            return None
        try:
            return numbered, self.traced(numbered)
        except PullbackError:
            return None

    @presented
    def interpret(self, *args: Any, **keywords: Any) -> Any:
        """Return the result, computed by the reference interpreter in NumPy.

        >>> float(pb.function(lambda x: pb.sum(x)).interpret(np.array([1.0, 2.0])))
        3.0
        """
        values = bind(self.name, self.parameters, args, keywords)
        signature, traced, arrays, sizes = self.arrays_of(values)
        dims = solve_dims(traced.known, [a.shape for a in arrays], sizes)
        interpreted = Compiled(self.name, traced, dims, sizes, None)
        numbered = self._numbered(signature, signature_of(self.parameters, values)[1], interpreted)
        if numbered is not None:
            interpreted = Compiled(self.name, numbered[1], {}, {}, None)
        return interpreted.call(arrays, None)

    @presented
    def trace(self, *args: Any, **keywords: Any) -> Steps:
        """Run a call in the interpreter and return every array that it computes, step by step.

        Derivatives and other functions made from a program have steps too. No argument is overwritten.

        Cost:
            The interpreter's time, and the memory of all intermediate arrays, in loops for each iteration.

        >>> @pb.function
        ... def energy(x):
        ...     y = pb.exp(x)
        ...     return pb.sum(y)
        >>> found = energy.trace(np.zeros(3))
        >>> [(step.name, step.shape) for step in found]
        [('y', (3,)), ('sum', ())]
        >>> found["y"].tolist()
        [1.0, 1.0, 1.0]
        """
        from pullback.calls.steps import Steps, steps_of

        values = bind(self.name, self.parameters, args, keywords)
        _, traced, arrays, sizes = self.arrays_of(values)
        inputs = [np.array(a) for a in arrays]
        return Steps(self.name, *steps_of(traced.program, inputs, sizes))

    def __reduce__(self) -> Any:
        return reduced(self, self.made_by, (_remade, (self.python,), self._options))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # as for Python functions

    def __get__(self, instance: object, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _remade(f: Callable[..., Any], **options: Any) -> Function:
    """Restore a function that another process has pickled."""
    made = Function(f, **options)
    made.define()
    return made


@overload
def function(f: Callable[..., Any], /) -> Function: ...
@overload
def function(
    *,
    threads: int | None = None,
    specialize: Specialize | None = None,
    donate: Sequence[str] = (),
    memory: MemoryMode = "fastest",
    memory_limit: int | None = None,
    workspace_limit: int | None = None,
    swap: bool | str | os.PathLike[str] = False,
    debug: bool | None = None,
    precision: Precision = "f32",
    tune: Tune = False,
    device: str | None = None,
) -> Callable[[Callable[..., Any]], Function]: ...
@public
def function(
    f: Callable[..., Any] | None = None,
    /,
    *,
    threads: int | None = None,
    specialize: Specialize | None = None,
    donate: Sequence[str] = (),
    memory: MemoryMode = "fastest",
    memory_limit: int | None = None,
    workspace_limit: int | None = None,
    swap: bool | str | os.PathLike[str] = False,
    debug: bool | None = None,
    precision: Precision = "f32",
    tune: Tune = False,
    device: str | None = None,
) -> Any:
    """Make a Python function a traced one: checked when it is defined, compiled when it is called.

    Args:
        f: the function; its annotations give element types and dims of the arguments.
        threads: the number of threads a call may use; by default `pb.threads` or PULLBACK_THREADS, else 1.
        specialize: "always" compiles C for the dims of each call, "never" once for all sizes. "auto" compiles C for
            the first four dims of a function, then once for all others. Dims whose calls have done as much work
            as compiling is worth get their own C. By default PULLBACK_SPECIALIZE, or "auto".
        donate: names of arguments whose memory the result may overwrite; with these arrays as `out` they are updated in
            place.
        memory: "fastest"; "less", with statements in an order that needs less memory; or "least". Derivatives inherit
            it.
        memory_limit: the maximum bytes of working memory for the C of this function and of its derivatives. If
            the residuals of a loop's backward pass exceed it, steps are recomputed from fewer stored states, on as many
            levels as necessary. Arguments and results do not count.
        workspace_limit: the maximum bytes of working memory of one kernel on one thread, such as the packed operands of
            a convolution or a product. A kernel that needs more is replaced by a slower one. Derivatives inherit it.
        swap: whether arrays may move to a file and back to keep the limit: True, or the folder for the file. Results
            are then the bits without a limit, if moves suffice; otherwise steps are recomputed, too. Loops keep the
            arrays that they use. Derivatives inherit it.
        debug: whether to compile it as written, with a test of every result. If a statement makes NaN or infinity from
            finite numbers, the error names the array, the element and the line. Debuggers show these lines. By default
            PULLBACK_DEBUG, 1 or 0. Derivatives inherit it.
        precision: with "tf32" tensor cores of devices may multiply float32 numbers, rounded to 10 bits of mantissa;
            sums are float32. Processors compute in float32. Derivatives inherit it.
        tune: whether to measure other schedules for the kernels of CUDA devices at the first call with new sizes, and
            to use the fastest. They are kept on disk. A sum may then add in another order. With "libraries" products
            by cuBLASLt and convolutions by cuDNN are measured, too, if these are installed. Derivatives inherit it.
        device: the device that calls run on: "cpu", "cuda", "cuda:1" or "opencl". By default PULLBACK_DEVICE, or the
            device of the arguments. If the function cannot run there, a warning says why, and it runs on the
            processor; with "cuda!" that is an error. Derivatives inherit it.
    Returns:
        The function, or a decorator if only options are given.
    Raises:
        ShapeError: shapes in the function disagree, or an index may leave its range.
        DTypeError: element types in the function do not fit.
        TraceError: the function uses Python control flow on traced values.
        ValueError: the value of an option is invalid.
        CompilerError: [E260] at a call or `c_source`: the limit is too small for these dims.
            [E417] with "cuda!": devices do not support a part of the function.
        DeviceError: [E418], [E419] with "cuda!": no device, or no compiler for it. [E420] the device failed. [E422]
            arguments are on two devices. OutOfMemoryError: [E421] arrays do not fit on the device.

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
    if specialize is not None and specialize not in SPECIALIZE:
        raise ValueError(f'specialize={specialize!r}: "auto", "always" or "never"')
    if precision not in PRECISIONS:
        raise ValueError(f'precision={precision!r}: "f32" or "tf32"')
    if tune not in (False, True, "libraries"):
        raise ValueError(f'tune={tune!r}: True, False, or "libraries"')
    check_mode(memory)
    if threads is not None and not policy.is_count(threads):
        raise ValueError(f"threads={threads!r}: the number of threads is an int of at least 1")
    if memory_limit is not None and not policy.is_count(memory_limit):
        raise ValueError(f"memory_limit={memory_limit!r}: a number of bytes, an int of at least 1")
    if workspace_limit not in (None, 0) and not policy.is_count(workspace_limit):
        raise ValueError(f"workspace_limit={workspace_limit!r}: a number of bytes, an int of at least 0")
    policy.device(device)
    if swap and memory_limit is None:
        raise ValueError(f"swap={swap!r}: it keeps a `memory_limit`, and there is none")
    names = (donate,) if isinstance(donate, str) else tuple(donate)

    options = {"threads": threads, "specialize": specialize, "donate": names, "memory": memory,
               "memory_limit": memory_limit, "workspace_limit": workspace_limit,
               "swap": swap if isinstance(swap, bool) else os.fspath(swap), "debug": debug, "precision": precision,
               "tune": tune, "device": device}  # fmt: skip
    wishes = {key: value for key, value in options.items() if value != _DEFAULTS[key]}

    def make(g: Callable[..., Any]) -> Function:
        return _with_options(g, wishes) if wishes or not isinstance(g, Function) else g

    return make if f is None else make(f)


_DEFAULTS = {"threads": None, "specialize": None, "donate": (), "memory": "fastest", "memory_limit": None,
             "workspace_limit": None, "swap": False, "debug": None, "precision": "f32", "tune": False,
             "device": None}  # fmt: skip


def _with_options(f: Callable[..., Any], wishes: dict[str, Any]) -> Function:
    """Trace a Python function with these options; a traced function is traced again with options added.

    A derivative is derived again, from the base with these options.

    Raises:
        ValueError: the function is external C or a custom rule, which cannot take other options.
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


__all__ = ["Function", "function"]
