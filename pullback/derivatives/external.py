"""`external`: functions written in C as traced functions, with a user's derivative rule."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

from pullback import reading
from pullback.arrays.elementwise import convert
from pullback.calls.arguments import wrong_dtype
from pullback.calls.inline import unify
from pullback.calls.mistakes import public
from pullback.calls.signature import Parameter
from pullback.calls.specs import ArraySpec
from pullback.codegen.c.given import parameters
from pullback.derivatives.rules import Whole
from pullback.errors import CompilerError, DataError, ParseError, TraceError
from pullback.ir import nodes as ir
from pullback.ir.foreign import Foreign
from pullback.ir.index import Dim, DimSymbol, Index, as_index
from pullback.ir.lexer import TextPlace
from pullback.ir.parser import Arrow, parse_arrow
from pullback.ir.traverse import Substitution
from pullback.ir.types import DTYPES
from pullback.runtime.foreign import ForeignError
from pullback.source import Position, user_frame, user_position
from pullback.tracing.making import as_array, from_ref, ref_of
from pullback.tracing.naming import assigned_name
from pullback.tracing.tracer import current

Rule = Callable[..., Any]

_DEFINED = re.compile(r"\bvoid\s+(\w+)\s*\(")
_FORM = '`type="f(x: f64[N], k: f64) -> f64[N]"`'


class ExternalFunction(Whole):
    """A C function with a type."""

    def __init__(self, arrow: Arrow, foreign: Foreign, jvp: Rule | None, vjp: Rule | None) -> None:
        self.arrow, self.foreign = arrow, foreign

        def call(*values: Any) -> Any:
            return emit_external(arrow, foreign, values)

        call.__name__ = call.__qualname__ = foreign.name
        frame = user_frame()
        call.__module__ = frame.f_globals.get("__name__", __name__) if frame else __name__  # the name for pickling
        super().__init__(call, jvp, vjp)

    def _find_parameters(self) -> list[Parameter]:
        return [Parameter(r.name, _spec(r)) for r in self.arrow.inputs]


def _spec(r: ir.Ref) -> ArraySpec:
    dims = tuple(str(d).replace(" ", "") for d in r.shape)
    return ArraySpec(f"{r.dtype}[{', '.join(dims)}]", (r.dtype,), dims)


def emit_external(arrow: Arrow, foreign: Foreign, values: tuple[Any, ...]) -> Any:
    """The call as a statement of the program that is being traced."""
    position = user_position()
    handles = []
    for r, value in zip(arrow.inputs, values, strict=True):
        h = as_array(value, r.name)
        h = convert(h, r.dtype) if h.weak is not None else h
        if h.settled is not r.dtype:
            raise wrong_dtype(r.name, [r.dtype], h.settled, h)
        handles.append(h)
    dims: dict[DimSymbol, Index] = {}
    unify(foreign.name, arrow.inputs, handles, dims, position)
    own = Substitution(dims=dims)
    name = assigned_name(position) or "value"
    names = [name] if len(arrow.results) == 1 else [f"{name}_{k}" for k in range(len(arrow.results))]
    outs = tuple(ir.Ref(n, t, tuple(map(own.index, shape))) for n, (t, shape) in zip(names, arrow.results, strict=True))
    operands = tuple(ref_of(h, r.name) for h, r in zip(handles, arrow.inputs, strict=True))
    sizes = tuple(own.index(as_index(s)) for s in _dims(arrow))
    current().emit(ir.External(outs, foreign, operands, sizes, () if position is None else (position,)))
    made = tuple(map(from_ref, outs))
    return made if arrow.is_tuple else made[0]


def _dims(arrow: Arrow) -> list[DimSymbol]:
    """The dims of a type in order of appearance."""
    extents: list[Dim] = [d for r in arrow.inputs for d in r.shape]
    return list(dict.fromkeys(s for d in extents for s in sorted(d.symbols, key=str)))


@public
def external(
    c_source: str | PathLike[str], type: str, *, vjp: Rule | None = None, jvp: Rule | None = None
) -> ExternalFunction:
    """Make a traced function from C, for use in index notation, loops and networks.

    The C is part of the generated C, so exported projects are complete; the interpreter runs the same text. It is `void
    f(const T *x, .., T *y, .., int64_t N, ..)`: arguments, results, then the dims of the type in order of appearance.
    Arrays are contiguous and row-major; single numbers are pointers, too. It writes every element of its results, and
    has no other effect: calls may be left out, repeated or moved to other threads.

    Args:
        c_source: C text, or the path of a file that ends in `.c`. It may include headers of libc and libm, and define
            helpers.
        type: such as `"f(x: f64[N], k: f64) -> f64[N]"`, or with several results `"(x: f64[N]) -> (f64[N], f64)"`. Dims
            of results follow from those of arguments. The name is that of the C function, by default the last function
            of the text.
        vjp: `vjp(primals, out, cotangent) -> cotangents`, as in `custom_derivative`.
        jvp: `jvp(primals, out, tangents) -> tangent`. One rule is enough; without derivatives, none is needed.
    Returns:
        A traced function of these arguments.
    Raises:
        TraceError: [E152] the type cannot be read.
        CompilerError: [E413] the C does not compile, or defines no function of the type. [E410] there is no compiler.
        DataError: [E501] the file cannot be read.
        DerivativeError: [E254] when a derivative is taken: there is no rule. [E252] the result of a rule does not fit.
    Cost:
        The cost of the C for each call. Under `vmap` and inside `build`, elements run one by one, on copied rows.
        Compiling it at the definition takes a tenth of a second, once.
    Derivative:
        By the rule, which is itself traced and may call C.

    >>> import numpy as np, pullback as pb
    >>> cube = pb.external(
    ...     "void cube(const double *x, double *y, int64_t n) { while (n--) y[n] = x[n] * x[n] * x[n]; }",
    ...     type="cube(x: f64[N]) -> f64[N]",
    ...     vjp=lambda primals, out, bar: (3 * primals[0] ** 2 * bar,),
    ... )
    >>> pb.grad(lambda x: pb.sum(cube(x)))(np.array([1.0, 2.0])).tolist()
    [3.0, 12.0]
    """
    position = user_position()
    _check_text({"c_source": c_source, "type": type}, position)
    text, place = _text(c_source, position)
    arrow = _arrow(type, position)
    name = arrow.name or (_DEFINED.findall(text) or [""])[-1]
    if not re.search(rf"\b{name}\s*\(", text) or not name:
        raise CompilerError(
            "E413",
            f"external: the C defines no function {name}".rstrip(),
            position=position,
            facts=[f"defined: {', '.join(dict.fromkeys(_DEFINED.findall(text))) or 'nothing that gives void'}"],
            remedy=_FORM,
        )
    types = tuple(r.dtype for r in arrow.inputs), tuple(t for t, _ in arrow.results)
    foreign = Foreign(name, text, *types, len(_dims(arrow)))
    try:
        foreign.run  # noqa: B018  compiled now, so that errors appear at the definition
    except ForeignError as error:
        raise _placed(error, arrow, foreign, place, position) from None
    made = ExternalFunction(arrow, foreign, jvp, vjp)
    made.made_by = external, (text, type), {"jvp": jvp, "vjp": vjp}
    return made


def _check_text(given: Mapping[str, object], position: Position | None) -> None:
    for name, value in given.items():
        if not isinstance(value, str | PathLike if name == "c_source" else str):
            raise TraceError("E152", f"external: `{name}` is no text", position=position, remedy=_FORM)


def _text(c_source: str | PathLike[str], position: Position | None) -> tuple[str, TextPlace | None]:
    """The C text, and the location of its first line, if that can be found."""
    if not isinstance(c_source, str) or (c_source.endswith(".c") and "{" not in c_source):
        try:
            text = reading.content(c_source).decode("utf-8")
        except DataError as error:
            raise DataError(error.code, error.what, position=position, facts=error.facts, remedy=error.remedy) from None
        except UnicodeDecodeError as error:
            raise DataError("E501", f"{c_source}: cannot be read: {error}", position=position) from None
        return text, TextPlace(str(c_source), 1, 1, 1, None)
    file = "" if position is None else position.file
    before, found, _ = "".join(linecache.getlines(file)).partition(c_source)
    if not found:
        return c_source, None
    return c_source, TextPlace(file, before.count("\n") + 1, len(before) - before.rfind("\n"), 1, None)


def _arrow(type: str, position: Position | None) -> Arrow:
    try:
        arrow = parse_arrow(type)
    except ParseError as error:
        at = getattr(error.position, "column", 1)
        facts = [f"{type[: at - 1]} ‸ {type[at - 1 :]}"]
        raise TraceError(
            "E152", f"external: the type is none: {error.what}", position=position, facts=facts, remedy=_FORM
        ) from None
    halves = [str(t) for t in (*(r.dtype for r in arrow.inputs), *(t for t, _ in arrow.results)) if t not in DTYPES]
    if halves or any(r.bounds or r.storage is not r.dtype for r in arrow.inputs) or not arrow.results:
        what = f"{halves[0]} is no type of C" if halves else "there is a result, and names have types alone"
        raise TraceError("E152", f"external: the type is none: {what}", position=position, remedy=_FORM)
    return arrow


def _placed(
    error: ForeignError, arrow: Arrow, foreign: Foreign, place: TextPlace | None, position: Position | None
) -> CompilerError:
    """Move an error to the user's line of C; if the type differs, show both types."""
    if not error.line:
        names = [*(r.name for r in arrow.inputs), *("result" for _ in arrow.results), *map(str, _dims(arrow))]
        given = ", ".join(f"{p}{n}" for p, n in zip(parameters(foreign), names, strict=True))
        line = next((t.strip() for t in foreign.source.splitlines() if re.search(rf"\b{foreign.name}\s*\(", t)), "")
        return CompilerError(
            error.code,
            error.what,
            position=position,
            facts=[f"C: {line}"[:200]],
            remedy=f"`void {foreign.name}({given})`",
        )
    lines = foreign.source.splitlines()
    written = lines[error.line - 1] if error.line <= len(lines) else ""
    first = place if place is not None else TextPlace("c_source", 1, 1, 1, None)
    column = error.column + (first.column - 1 if error.line == 1 else 0)
    shown = written if error.line > 1 or first.column == 1 else " " * (first.column - 1) + written
    at = TextPlace(first.file, first.line + error.line - 1, column, column + 1, shown)
    remedy = "C99 that compiles by itself, with its `#include`s"
    return CompilerError(error.code, error.what, position=at, remedy=remedy)


__all__ = ["external"]
