"""Conversions of refs, rules, expressions, numbers and indices to arrays, and of arrays to refs."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pullback.errors import DTypeError, ShapeError, TraceError, counted
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import DimSymbol, Index, Var, as_index
from pullback.ir.types import DType
from pullback.source import Position, user_position
from pullback.tracing.active import place
from pullback.tracing.array import (
    Array,
    Indices,
    Rule,
    TracedArray,
    Weak,
    blank,
    from_index,
    type_text,
    weak,
)
from pullback.tracing.naming import assigned_name, axis_names
from pullback.tracing.tracer import current

DEEPEST: Final = 32  # the maximum depth of an expression
WIDEST: Final = 64  # the maximum number of terms or factors
Extent = Any  # int, dim, index handle, or None


def from_ref(ref: ir.Ref) -> Array:
    """The traced array for an array of the program."""
    h = blank()
    h.extents, h._dtype, h.ref, h.name = ref.shape, ref.dtype, ref, ref.name
    h.stored = ref.storage if ref.storage.is_half else None
    h.home = place()
    h._rule = lambda indices: current().read(ref, indices)
    return h


def view(
    extents: Sequence[Index], dtype: DType, rule: Rule, position: Position | None = None, name: str | None = None,
    base: tuple[Array, str, Any] | None = None,
) -> Array:  # fmt: skip
    """An array given by an expression for its elements.

    Args:
        position: the source location of its reads.
        base: of a view, as NumPy has them: the array that it shows, how, and by what (`arrays.in_place`).
    """
    h = blank()
    if base is not None and not base[0].extents and base[0].base is None:
        base = None  # of a number, which does not change
    h.base, h.home = base, place()
    if h.home is not None:
        h.home[0].closures.append(weakref.ref(h))
    h.extents, h._dtype, h.name, h.position = tuple(extents), dtype, name, position
    rule = _where_there_are_any(h.extents, rule, dtype)

    def read(indices: Indices) -> ir.Scalar:
        e = rule(indices)
        if position is not None and isinstance(e, ir.Get):
            current().positions.setdefault(e, position)
        return e

    h._rule = read
    return h


def _where_there_are_any(extents: Indices, rule: Rule, dtype: DType) -> Rule:
    """The rule, guarded for empty arrays: it may divide by a size, or read an element."""
    return (lambda _: expr.zero(dtype)) if any(e.constant == 0 for e in extents) else rule


def scalar(e: ir.Scalar) -> Array:
    """A value of rank 0; a long expression becomes a statement, so that walks stay bounded."""
    if e.depth > DEEPEST or (isinstance(e, ir.Add | ir.Mul) and len(e.args) > WIDEST):
        position = user_position()
        return from_ref(current().build((), [e], [assigned_name(position) or "value"], position)[0])
    h = blank()
    h.extents, h._dtype = (), e.dtype
    h._rule = lambda indices: e
    return h


def from_number(value: bool | int | float) -> Array:
    """A Python number, which takes the dtype of its partner."""
    if isinstance(value, bool):
        h = weak("bool", lambda dtype: expr.const(value, dtype))
    elif isinstance(value, int):
        h = weak("integer", lambda dtype: _integer(value, dtype))
        h.index = as_index(int(value))
    else:
        number = float(value)
        h = weak("floating", lambda dtype: expr.const(number, dtype))
    h.literal = value
    return h


def _integer(value: int, dtype: DType) -> ir.Scalar:
    if dtype.is_integer and not dtype.minimum <= value <= dtype.maximum:
        raise DTypeError(
            "E124",
            f"{value} does not fit {dtype}, which holds {dtype.minimum} to {dtype.maximum}",
            position=user_position(),
            remedy="convert the other operand with `astype`",
        )
    return expr.const(value, dtype)


def weak_input(ref: ir.Ref, kind: Weak) -> Array:
    """A weak input for a plain `int`, `float` or `bool` argument."""
    h = weak(kind, lambda dtype: expr.cast(current().read(ref, ()), dtype))
    h.ref, h.name = ref, ref.name
    return h


def unmasked(x: np.ndarray[Any, Any], what: str) -> np.ndarray[Any, Any]:
    """Return the array; refuse masked elements, with which programs would compute as with others.

    Raises:
        TraceError: [E138] it is a masked array with masked elements.
    """
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        raise TraceError(
            "E138",
            f"{what}: a masked array was given, and its mask would be lost",
            position=user_position(),
            remedy="`.filled(value)`, or the mask as an array of bools for `pb.where`",
        )
    return x


def as_array(x: object, what: str = "operand") -> Array:
    """Convert any valid operand to a traced array."""
    if isinstance(x, Array):
        return x
    if isinstance(x, bool | int | float):
        return from_number(x)
    if isinstance(x, np.ndarray | np.generic) and x.dtype.kind != "c":
        dtype = types.dtype_of(x.dtype)
        if dtype is None:
            raise DTypeError(
                "E122",
                f"{what}: NumPy dtype {x.dtype!s} has no counterpart in the language",
                position=user_position(),
                remedy=types.conversion(x.dtype),
            )
        if isinstance(x, np.generic) or x.ndim == 0:
            return scalar(expr.const(x.item(), dtype.computed))
        return from_ref(current().capture(unmasked(x, what)))
    if isinstance(getattr(x, "storage", None), DType):  # an array on a device
        return from_ref(current().capture(x))
    if isinstance(x, Index | Var):
        return from_index(x)
    if isinstance(x, TracedArray | complex | np.complexfloating | np.ndarray) or hasattr(x, "is_pair"):
        raise DTypeError(
            "E121",
            f"{what} takes no complex numbers",
            position=user_position(),
            remedy="`pb.real`, `pb.imag` and `pb.abs` give real ones",
        )
    raise TraceError(
        "E135",
        f"{what}: {_article(x)} is neither an array nor a number",
        position=user_position(),
        remedy=_as_array_remedy(x),
    )


def table(array: np.ndarray[Any, Any], name: str) -> Array:
    """A constant array of a library function, with a name for programs."""
    return from_ref(current().capture(array, name))


def _article(x: object) -> str:
    kind = "lazy array" if type(x).__module__.startswith("pullback.lazy") else type(x).__name__
    return "None" if x is None else "a function" if callable(x) else f"{'an' if kind[0] in 'aeioAEIO' else 'a'} {kind}"


def _as_array_remedy(x: object) -> str:
    match x:
        case None:
            return "a function that returns nothing gives None: is a `return` missing?"
        case list() | tuple():
            return '`pb.asarray(...)` makes an array of a list, and so does a parameter `x: Float64[Array, "N"]`'
        case complex():
            return "real and imaginary part as two arrays"
        case _ if type(x).__module__.startswith("pullback.lazy"):
            return "functions of `lazy` take lazy arrays; `x.numpy()` is an array for a `pb.function`"
        case _ if callable(x):
            return "call it, with brackets"
        case _:
            return "pass an array, or build one with `stack` or `build`"


_SCAN = "`pb.scan(n, init, f)`, and f(carry, i) reads `xs[i]`: JAX has `scan(f, init, xs)`"


def extent_of(x: object, what: str) -> Index:
    """A user-given size: an int, a dim or an index."""
    if isinstance(x, bool):
        pass
    elif isinstance(x, int | np.integer):
        return as_index(int(x))
    elif isinstance(x, Array):
        if x.index is not None:
            return x.index
        if x.weak == "floating":
            raise TraceError(
                "E135",
                f"{what}: a size is a whole number, and {type_text(x)} was given",
                position=user_position(),
                remedy="`//` divides sizes",
            )
        raise ShapeError(
            "E106",
            f"{what}: a size must be known when the function is defined, and this one is computed from data",
            position=user_position(),
            facts=[describe(x, "size")] if x.rank else (),
            remedy=f"`{x.name or 'x'}.shape[0]`: the size of axis 0"
            if x.rank
            else 'declare it as a dim (`pb.Size["S"]` for an integer argument)',
        )
    elif isinstance(x, Index | Var):
        return as_index(x)
    raise TraceError(
        "E135",
        f"{what}: {'a function' if callable(x) else repr(x)} is not a size",
        position=user_position(),
        remedy=_SCAN if what == "scan" else "the size comes first, then the function"
        if callable(x)
        else "give an int, a dim such as x.shape[0], or a tuple of them",
    )


def axes_for(extents: Sequence[Index]) -> tuple[Var, ...]:
    """Fresh index variables for an array of this shape, named after its dims if possible."""
    names: list[str] = []
    symbols = {s.name for e in extents for s in e.symbols}
    for fallback, extent in zip(axis_names(len(extents)), extents):
        atom = extent.single
        name = atom.name.lower() if isinstance(atom, DimSymbol) else fallback
        if name in symbols or name in names or not name.isidentifier():
            name = fallback
        while name in names:
            name += "_"
        names.append(name)
    return tuple(Var(n, e) for n, e in zip(names, extents))


def emit(
    extents: Sequence[Index],
    rule: Rule,
    fallback: str,
    position: Position | None = None,
) -> Array:
    """Emit a statement for the array with these elements."""
    tracer = current()
    position = position or user_position()
    variables = axes_for(extents)
    value = rule(tuple(as_index(v) for v in variables))
    name = assigned_name(position) or fallback
    return from_ref(tracer.build(variables, [value], [name], position)[0])


def ref_of(h: Array, name: str | None = None) -> ir.Ref:
    """The array as a ref of the program; a view becomes a statement."""
    if h.ref is not None and (h.weak is None or h.ref.dtype is h.settled):
        if not current().is_foreign(h.ref):
            current().visible(h.ref)
            return current().whole(h.ref)
    made = emit(h.extents, lambda indices: h.element(indices), name or h.name or "value", h.position or user_position())
    assert made.ref is not None
    made.ref.storage = h.stored or made.ref.dtype
    return made.ref


def axes_text(rank: int) -> str:
    """`1 axis`, `2 axes`."""
    return counted(rank, "axis", "axes")


def describe(h: Array, fallback: str) -> str:
    """The text `name : type`, for the facts of a message."""
    return f"{h.name or fallback} : {type_text(h)}"


def operands_text(position: Position | None, count: int) -> list[str]:
    """The names for operands without a name."""
    return ["left operand", "right operand"][:count] if count == 2 else [f"operand {k + 1}" for k in range(count)]
