"""Inspection of a traced function: its type, program, memory, C and derivation; and its exports."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pullback.calls import policy
from pullback.calls.definition import Definition
from pullback.calls.mistakes import out_of_memory
from pullback.calls.shown import about, function_html
from pullback.calls.signature import bind
from pullback.errors import ShapeError
from pullback.ir.dims import determined_dims, has_empty_extent, solve_dims
from pullback.ir.settings import MODES, MemoryMode
from pullback.ir.verify import verifying
from pullback.notebook import Displayed
from pullback.source import user_position
from pullback.tracing.public import presented

if TYPE_CHECKING:
    from pullback.calls.profile import Profile
    from pullback.derivation.render import Derivation
    from pullback.explanation import Explanation, Format
    from pullback.memory.size_table import SizeTable
    from pullback.memory.table import Build, MemoryTable
    from pullback.pictures import Picture


class Inspected(Definition, Displayed):
    """A definition that can be inspected and exported."""

    __slots__ = ()

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

        return print_program(self.determined().program)

    @presented
    def memory(
        self, mode: MemoryMode | None = None, build: Build = "call", /, **dims: int
    ) -> MemoryTable | SizeTable:
        """Return the planned memory of a call: arguments, results, each statement, and the peak.

        The plan holds for the number of threads that a call here would use. With `build="export"` it is for exported C,
        which is serial and portable, so its arena may be larger or smaller. `arena_bytes` is what the call takes
        to the byte,
        or what the exported header says. If some dims are not given, sizes are in terms of these.

        Args:
            mode: "fastest", "less" or "least"; by default the function's own. It is positional-only, so that dims may
                have any name.
            build: "call" or "export"; also positional-only.
            dims: the dims.
        Raises:
            ValueError: the mode or build is unknown.
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

        check_mode(mode or "fastest")
        if build not in ("call", "export"):
            raise ValueError(f'memory of "call" or of "export", not of {build!r}')
        return emit.memory(*self.for_dims(dims), mode, policy.thread_count(self._threads), build)

    @presented
    def profile(self, *args: Any, **keywords: Any) -> Profile:
        """Measure the time of each statement of a call, with its operations.

        The program is compiled once more with clock reads between statements. It is called up to 20 times in at most
        about a second, with the threads that a call would use. The fastest call is shown, and its rows sum to its
        total. No argument is overwritten, donated ones included.

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

        values = bind(self.name, self.parameters, args, keywords)
        _, traced, arrays, sizes = self.arrays_of(values)
        dims = solve_dims(traced.known, [a.shape for a in arrays], sizes)
        program = self._specialized(traced, dims).program
        if has_empty_extent(program, dims):
            raise ShapeError("E115", f"{self.name}: a size is 0, and such calls are interpreted",
                             position=user_position(), remedy="arrays that have elements")
        try:
            return profile_program(program, dims, arrays, policy.thread_count(self._threads))
        except MemoryError as error:
            raise out_of_memory(self.name, None, error) from None

    @presented
    def c_source(self, *, names: Literal["user", "canonical"] = "user", comments: bool = True, plain: bool = False,
                 **dims: int) -> str:
        """Return the C of the function. Dims that are not given become arguments after the arrays.

        Args:
            names: "user" for your names, "canonical" for numbered ones, which make programs comparable.
            comments: whether the C has comments.
            plain: whether to write readable C99: loops over numbers and functions of libm. Otherwise kernels use the
                vectors of gcc and clang, and contain this form for other compilers.
            dims: numbers for dims.
        Raises:
            CompilerError: [E260] no form of the function keeps its memory limit.

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

    @presented
    def export(self, directory: Any, *, plain: bool = False, **dims: int) -> Any:
        """Write a standalone C project for given dims: header, source, CMakeLists.txt and an example main.

        Args:
            directory: created if it does not exist; files of the same names are replaced.
            plain: whether to write C99 without vectors, as in `c_source`.
            dims: numbers for dims; others are arguments of the C function.
        Returns:
            `files`, the paths written, and `peak_bytes`, the size of the arena.

        >>> from jaxtyping import Float64
        >>> from pullback import Array
        >>> @pb.function
        ... def total(x: Float64[Array, "N"]):
        ...     return pb.sum_over(x.shape[0], lambda n: x[n] * x[n])
        >>> total.export("total", N=3)["files"]
        ['total/total.h', 'total/total.c', 'total/CMakeLists.txt', 'total/main.c']
        """
        from pullback.codegen.targets import C_TO_READ, PLAIN_C
        from pullback.runtime.export import export

        return export(*self.for_dims(dims), directory, target=PLAIN_C if plain else C_TO_READ)

    @presented
    def export_microcontroller(
        self, directory: Any, *, arena: Literal["given", "static"] = "given", float_only: bool = False, **dims: int
    ) -> Any:
        """Write a header and a source for microcontrollers: plain C99 without printing or allocation.

        Captured read-only arrays are `const` tables in the source.

        Args:
            directory: created if it does not exist; files of the same names are replaced.
            arena: "given": the caller passes working memory. "static": the source contains it, and a second function,
                with the suffix `_run`, takes none.
            float_only: whether to refuse double precision.
            dims: numbers for all dims.
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

    @presented
    def export_wasm(self, directory: str | os.PathLike[str], **dims: int) -> Any:
        """Write a module for browsers and Node: a JavaScript file that contains it, and its C.

        `const wasm = await NAME.load()` gives functions that take and return typed arrays by name, in row-major order:
        `wasm.NAME({x: new Float32Array(...)}).out`.

        Args:
            directory: created if it does not exist; files of the same names are replaced.
            dims: numbers for all dims.
        Returns:
            `files`, and `wasm_bytes`, the size of the module.
        Raises:
            CompilerError: [E415] no compiler for WebAssembly is installed.
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

    @presented
    def export_device(self, directory: Any, language: Literal["cuda", "opencl"] = "cuda",
                      architectures: Sequence[str] = (), /, **dims: int) -> Any:  # fmt: skip
        """Write a program for GPUs: the kernels, a host program in C and its header.

        A call copies arguments and results.

        Args:
            directory: the folder to write; created if needed. Files of the same names are replaced.
            language: the language of the kernels: "cuda" for NVIDIA's GPUs, "opencl" for those of all makers.
            architectures: those of CUDA for which NVRTC compiles the kernels, such as "sm_90a". Each has a folder.
            **dims: the size of each dim.
        Returns:
            A dict: `files`, the paths written; `device_bytes`, the device memory; `kernels`, their number.
        Raises:
            CompilerError: [E417] a size is open, or devices do not support a part of the function.
            DeviceError: [E419] NVRTC is not installed, or does not know an architecture.
        Cost:
            One lowering, and no compilation; for architectures, one of both for each.

        >>> import tempfile
        >>> from jaxtyping import Float32
        >>> from pullback import Array
        >>> @pb.function
        ... def doubled(x: Float32[Array, "N"]):
        ...     return 2 * x
        >>> made = doubled.export_device(tempfile.mkdtemp(), N=1000)
        >>> made["kernels"], made["device_bytes"]
        (1, 8192)
        """
        from pullback.runtime.device.export import export

        return export(*self.for_dims(dims), directory, language, architectures)

    @presented
    def explain(
        self,
        *,
        format: Format = "text",
        plain: bool = False,
        html: str | os.PathLike[str] | None = None,
        device: str | None = None,
        **dims: int,
    ) -> Explanation:
        """Explain every stage from the program to C with its rules; for a derivative, its derivation first.

        Args:
            format: the format of the printed result: "text", or "markdown" with formulas in LaTeX.
            plain: whether to show C without vectors, as in `c_source`.
            html: a file to write a page to, with the stages side by side and lines of C linked to those of your file.
            device: a device, such as "cuda" or "opencl", to show launches and device kernels instead of C.
            dims: numbers for the dims, to show kernels, memory and C, too.
        Raises:
            ValueError: the format is unknown.
            UsageError: [E607] the file cannot be written.
            CompilerError: [E417] a size is open, or devices do not support a part of the function.

        >>> from jaxtyping import Float64
        >>> from pullback import Array
        >>> @pb.function
        ... def total(x: Float64[Array, "N"]):
        ...     return pb.sum_over(x.shape[0], lambda n: x[n] * x[n])
        >>> found = total.explain(N=3)
        >>> found.stages[0].name, found.stages[-1].name
        ('elaborated', 'C')
        >>> print(total.explain(device="cuda", N=1000).stages[-3].text)
        sum: tree: grid 1 | threads n 256 | tree
        launches of a call: 1; the host waits for 0 conditions
        """
        from pullback.explanation import explanation_of, save_page

        if format not in ("text", "markdown"):
            raise ValueError(f'format={format!r}: "text" or "markdown"')
        program = self.determined().program
        complete = bool(dims) or not determined_dims(program)
        sizes = self._dims(program, dims) if complete else None
        found = explanation_of(program, sizes, about(self), self.derivation(), format, plain, self.drawn, device)
        if html is not None:
            save_page(found, html)
        return found

    def drawn(self) -> Picture | None:
        """Draw the graph of the function, or of its base: arrays as nodes, operators on the edges.

        It is None without floating-point arguments, or with more than a thousand arrays. `save` writes it as SVG.

        Cost:
            The cost of the derivation; nothing is computed with numbers.

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
        while base.is_derivative and isinstance(getattr(base, "base", None), Definition):
            base = base.base
        return graph_of(base.determined().program)

    @presented
    def derivation(self, check: bool | None = None) -> Derivation | None:
        """The derivation of this derivative with the papers' rules; None if it is not a derivative.

        Args:
            check: whether to evaluate each step before and after at random points, and compare local derivatives with
                central differences. `checked` of the result counts the steps. The default is True if PULLBACK_VERIFY is
                1.
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

        signature = self.determined().signature
        return derive(lambda: self._trace(signature).program, verifying() if check is None else check)

    def __repr__(self) -> str:
        try:
            return f"<pullback function {self.name}{self.type}>"
        except Exception:
            return f"<pullback function {self.name}>"

    def _repr_html_(self) -> str:
        return function_html(self)


def check_mode(memory: str) -> None:
    """Refuse an unknown memory mode."""
    if memory not in MODES:
        raise ValueError(f'memory={memory!r}: "fastest", "less" or "least"')
