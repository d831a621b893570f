"""The functions of the Python array API standard (2025.12), each with the calls that the table makes of it.

An entry gives, for an array of some shape and element type, the calls with all that their keywords can be. A call takes
the namespace first, pullback or NumPy, so that what NumPy has under another name, or what is not unique (eigenvectors),
is written out once for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import pullback as pb

Call = tuple[str, Callable[..., Any], tuple[Any, ...]]
DTYPES = {
    "b": ["bool"], "i": ["int8", "int16", "int32", "int64"], "u": ["uint8", "uint16", "uint32", "uint64"],
    "f": ["float64", "float32"], "c": ["complex128", "complex64"],
}  # fmt: skip
SHAPES: list[tuple[int, ...]] = [(2, 3), (), (3,), (1,), (3, 3), (2, 1, 3), (2, 2, 3, 3)]
SHAPES += [(0,), (0, 3), (3, 0), (2, 0, 3)]
INSPECTED = {"broadcast_shapes", "can_cast", "finfo", "iinfo", "isdtype", "result_type", "__array_namespace_info__"}
REFUSED = {"nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"}  # their shapes depend on data
CONSTANTS = {"e", "inf", "nan", "newaxis", "pi"}


@dataclass(frozen=True)
class Entry:
    """What the table knows of a function.

    Attributes:
        kinds: of the element types that it takes: b, i, u, f and c.
        calls: the calls of an array.
        smooth: whether the derivative of its calls is compared with differences.
    """

    kinds: str
    calls: Callable[[Any], Iterator[Call]]
    smooth: bool = True


@cache
def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Numbers of which some are equal and none is a special case of a function: zeros, ones and branch cuts are not."""
    r = np.random.default_rng([seed, *shape])
    whole = r.integers(-3, 4, shape)
    if dtype == "bool":
        return np.asarray(whole > 0)
    if np.dtype(dtype).kind in "iu":
        return np.asarray(np.abs(whole) if dtype[0] == "u" else whole).astype(dtype)
    made = whole * 0.25 + 0.0625
    return np.asarray(made if dtype[0] == "f" else made + 1j * (r.integers(-3, 4, shape) * 0.25 + 0.03)).astype(dtype)


def like(x: Any, seed: int = 1) -> Any:
    """Other numbers of the same shape and type."""
    return numbers(x.shape, str(x.dtype), seed)


def axes(x: Any) -> list[Any]:
    """All axes, one from either end, several."""
    return [None, *([0, -1] if x.ndim else []), *([(0, -1)] if x.ndim > 1 else [])]


def plain(name: str, *args: Any, **keywords: Any) -> Call:
    """A call of the function by its name in the namespace, `linalg.` or `fft.` in front."""
    def call(xp: Any, *arrays: Any) -> Any:
        found = xp
        for part in name.split("."):
            found = getattr(found, part)
        out = found(*arrays, **keywords)
        return tuple(out) if isinstance(out, tuple | list) else out

    said = ", ".join([*(f"{a.dtype}{list(a.shape)}" for a in args), *(f"{k}={v!r}" for k, v in keywords.items())])
    return f"{name}({said})", call, args


def written(label: str, call: Callable[..., Any], *args: Any) -> Call:
    """A call that is written out."""
    return f"{label} of {', '.join(f'{a.dtype}{list(a.shape)}' for a in args)}", call, args


def elementwise(name: str, kinds: str, shift: float = 0.0, smooth: bool = True) -> tuple[str, Entry]:
    """A function of one array; where it is defined for larger numbers only they are shifted."""
    def calls(x: Any) -> Iterator[Call]:
        if shift:
            yield written(name, lambda xp, x: getattr(xp, name)(x * x + shift), x)
        else:
            yield plain(name, x)

    return name, Entry(kinds, calls, smooth)


def binary(name: str, kinds: str, smooth: bool = True, positive: bool = False) -> tuple[str, Entry]:
    """A function of two arrays that broadcast, or of one and a Python number."""
    def calls(x: Any) -> Iterator[Call]:
        y = like(x)
        if positive:
            x, y = np.abs(x), np.abs(y)  # of one type with them, and no powers or shifts below 0
        number: Any = True if x.dtype == bool else 2 if x.dtype.kind in "iu" else 1.5
        yield plain(name, x, y)
        yield written(f"{name}(x, {number})", lambda xp, x: getattr(xp, name)(x, number), x)
        if x.ndim > 1 and not positive:
            yield plain(name, x, y[:1])

    return name, Entry(kinds, calls, smooth)


def reduction(name: str, kinds: str, smooth: bool = True, several: bool = True, **more: list[Any]) -> tuple[str, Entry]:
    """A reduction over axes; `more` has other keywords and what they are tried with."""
    def calls(x: Any) -> Iterator[Call]:
        for axis in axes(x):
            given = axis if isinstance(axis, tuple) else range(x.ndim) if axis is None else (axis,)
            empty = 0 in [x.shape[a] for a in given] and name in ("max", "min", "argmax", "argmin")
            if empty or (isinstance(axis, tuple) and not several):
                continue
            for keepdims in (False, True):
                yield plain(name, x, axis=axis, keepdims=keepdims)
        for key, values in more.items():
            if 0 not in x.shape:
                yield from (plain(name, x, **{key: value}) for value in values)

    return name, Entry(kinds, calls, smooth)


def listed(name: str, kinds: str, calls: Callable[[Any], Iterator[Call]], smooth: bool = True) -> tuple[str, Entry]:
    """A function whose calls are written out."""
    return name, Entry(kinds, calls, smooth)


def each(name: str, kinds: str, *keywords: dict[str, Any], rank: int = 0, smooth: bool = True) -> tuple[str, Entry]:
    """A function of one array of at least some axes, with keywords; an axis stays where the array has it."""
    def calls(x: Any) -> Iterator[Call]:
        if x.ndim >= rank:
            yield from (plain(name, x, **k) for k in keywords)

    return name, Entry(kinds, calls, smooth)


# Arrays from nothing, and types -------------------------------------------------------------------------------------


def made(name: str) -> tuple[str, Entry]:
    """Arrays of a shape and type."""
    def calls(x: Any) -> Iterator[Call]:
        more = (3,) if name == "full" else ()
        yield written(f"{name}({x.shape}, {x.dtype})", lambda xp: getattr(xp, name)(x.shape, *more, dtype=x.dtype))

    return name, Entry("biufc", calls, False)


def alike(name: str) -> tuple[str, Entry]:
    """Arrays like another one."""
    def calls(x: Any) -> Iterator[Call]:
        more = (2,) if name == "full_like" else ()
        yield written(name, lambda xp, x: getattr(xp, name)(x, *more), x)
        yield written(f"{name}, float32", lambda xp, x: getattr(xp, name)(x, *more, dtype=np.dtype("float32")), x)

    return name, Entry("biuf", calls, False)


class _Zeros:
    """What NumPy leaves open."""

    empty, empty_like = staticmethod(np.zeros), staticmethod(np.zeros_like)


def nothing(name: str) -> tuple[str, Entry]:
    """Arrays whose elements are not said: their shape and type."""
    def calls(x: Any) -> Iterator[Call]:
        def call(xp: Any, x: Any) -> Any:
            xp = xp if xp is pb else _Zeros
            return xp.empty_like(x) if name == "empty_like" else xp.empty(x.shape, dtype=x.dtype)

        yield written(name, call, x)

    return name, Entry("iuf", calls, False)


def ranges(x: Any) -> Iterator[Call]:
    if x.shape == (3,):
        for args in ((4,), (1, 7, 2), (5, 0, -2), (0.0, 1.0, 0.25), (3, 3)):
            to = "float64" if 0.25 in args else "int64"
            yield written(f"arange{args}", lambda xp, a=args, to=to: xp.arange(*a, dtype=to))
        yield written("arange with a type", lambda xp: xp.arange(3, dtype=x.dtype))


def spaced(x: Any) -> Iterator[Call]:
    if x.shape == (3,):
        for n, end in ((5, True), (4, False), (1, True), (0, True)):
            call = lambda xp, n=n, e=end: xp.linspace(0.0, 2.0, n, endpoint=e, dtype=x.dtype)
            yield written(f"linspace({n}, {end})", call)


def eyes(x: Any) -> Iterator[Call]:
    if x.ndim == 2:
        for k in (0, 1, -1):
            yield written(f"eye({x.shape}, k={k})", lambda xp, k=k: xp.eye(*x.shape, k=k, dtype=x.dtype))


def meshes(x: Any) -> Iterator[Call]:
    if x.ndim == 1:
        yield from (plain("meshgrid", x, like(x), indexing=how) for how in ("xy", "ij"))


def converted(x: Any) -> Iterator[Call]:
    kinds = {"b": "biufc", "i": "bifc", "u": "biufc", "f": "bfc", "c": "c"}[x.dtype.kind]  # below 0 others saturate
    for to in [t for k in kinds for t in DTYPES[k]]:
        yield written(f"astype {to}", lambda xp, x, to=to: xp.astype(x, np.dtype(to)), x)
    yield written("astype, no copy", lambda xp, x: xp.astype(x, x.dtype if xp is np else str(x.dtype), copy=False), x)


CREATION = [
    listed("arange", "if", ranges, False), listed("linspace", "fc", spaced, False), listed("eye", "biufc", eyes, False),
    listed("asarray", "biufc", lambda x: iter([plain("asarray", x), plain("asarray", x, copy=True)])),
    listed("from_dlpack", "biuf", lambda x: iter([written("from_dlpack", lambda xp: xp.from_dlpack(x))]), False),
    listed("meshgrid", "biufc", meshes), listed("astype", "biufc", converted, False),
    *map(made, ["zeros", "ones", "full"]), *map(alike, ["zeros_like", "ones_like", "full_like"]),
    *map(nothing, ["empty", "empty_like"]),
    each("tril", "biufc", {}, {"k": 1}, rank=2), each("triu", "biufc", {}, {"k": -1}, rank=2),
]  # fmt: skip

# Elementwise --------------------------------------------------------------------------------------------------------

ELEMENTWISE = [
    *(elementwise(n, "fc") for n in ("acos", "asin", "atan", "asinh", "atanh", "cos", "cosh", "exp", "expm1", "sin",
                                     "sinh", "tan", "tanh", "reciprocal")),
    *(elementwise(n, "fc", 0.5) for n in ("log", "log1p", "log2", "log10", "sqrt")), elementwise("acosh", "f", 1.5),
    *(elementwise(n, "iufc") for n in ("abs", "positive", "square", "sign", "conj")), elementwise("negative", "ifc"),
    *(elementwise(n, "fc") for n in ("real", "imag")), elementwise("round", "iufc"),
    *(elementwise(n, "iuf") for n in ("ceil", "floor", "trunc")), elementwise("bitwise_invert", "biu", smooth=False),
    *(elementwise(n, "iufc", smooth=False) for n in ("isfinite", "isinf", "isnan")),
    elementwise("logical_not", "b", smooth=False), elementwise("signbit", "f", smooth=False),
    *(binary(n, "iufc") for n in ("add", "multiply")), binary("subtract", "ifc"), binary("divide", "fc"),
    *(binary(n, "f") for n in ("atan2", "copysign", "hypot", "logaddexp")), binary("nextafter", "f", False),
    *(binary(n, "iuf") for n in ("maximum", "minimum", "floor_divide", "remainder")),
    *(binary(n, "biu", False) for n in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    *(binary(n, "iu", False, positive=True) for n in ("bitwise_left_shift", "bitwise_right_shift")),
    *(binary(n, "b", False) for n in ("logical_and", "logical_or", "logical_xor")),
    *(binary(n, "iuf", False) for n in ("greater", "greater_equal", "less", "less_equal")),
    *(binary(n, "biufc", False) for n in ("equal", "not_equal")), binary("pow", "iuf", positive=True),
    each("clip", "iuf", {"min": 0, "max": 1}, {"min": 1}, {"max": 1}, {}),
]  # fmt: skip

# Reductions, order --------------------------------------------------------------------------------------------------


def along(name: str, kinds: str, *keywords: dict[str, Any], smooth: bool = True) -> tuple[str, Entry]:
    """A function along one axis."""
    def calls(x: Any) -> Iterator[Call]:
        for axis in {0, x.ndim - 1} if x.ndim else ():
            yield from (plain(name, x, axis=axis, **k) for k in keywords)

    return name, Entry(kinds, calls, smooth)


def ordered(name: str, smooth: bool) -> tuple[str, Entry]:
    """`sort` and `argsort`, from the largest too, which NumPy has not."""
    def calls(x: Any) -> Iterator[Call]:
        for axis in (0, -1) if x.ndim else ():
            yield plain(name, x, axis=axis, stable=True)
            mirrored = -x.astype(float) if x.dtype.kind in "fiub" else x
            places = np.argsort(mirrored, axis=axis, stable=True)
            fixed = places if name == "argsort" else np.take_along_axis(x, places, axis)
            down = lambda xp, x, a=axis, w=fixed: w if xp is np else getattr(xp, name)(x, axis=a, descending=True)
            yield written(f"{name} down {axis}", down, x)

    return name, Entry("iuf", calls, smooth)


def searched(x: Any) -> Iterator[Call]:
    if x.ndim == 1 and x.size:
        row = np.sort(x)
        yield from (plain("searchsorted", row, like(x), side=side) for side in ("left", "right"))


def chosen(x: Any) -> Iterator[Call]:
    yield written("where", lambda xp, c, x, y: xp.where(c, x, y), numbers(x.shape, "bool", 3), x, like(x))
    yield written("where, a number", lambda xp, c, x: xp.where(c, x, x.dtype.type(1) if xp is np else 1),
                  numbers(x.shape, "bool", 3), x)  # fmt: skip


REDUCTIONS = [
    reduction("sum", "iufc"), reduction("prod", "iufc"), reduction("mean", "fc"), reduction("max", "iuf"),
    reduction("min", "iuf"), *(reduction(n, "f", correction=[1, 0.5]) for n in ("var", "std")),
    *(reduction(n, "biufc", False) for n in ("all", "any", "count_nonzero")),
    *(reduction(n, "iuf", False, several=False) for n in ("argmax", "argmin")),
    *(along(n, "iufc", {}, {"include_initial": True}) for n in ("cumulative_sum", "cumulative_prod")),
    along("diff", "ifc", {}, {"n": 2}), ordered("sort", True), ordered("argsort", False),
    listed("searchsorted", "iuf", searched, False), listed("where", "iufc", chosen),
    listed("isin", "iu", lambda x: iter([plain("isin", x, like(x)), plain("isin", x, like(x), invert=True)]), False),
]  # fmt: skip

# Moving elements ----------------------------------------------------------------------------------------------------


def taken(x: Any) -> Iterator[Call]:
    for axis in {0, x.ndim - 1} if x.ndim else ():
        if x.shape[axis]:
            yield plain("take", x, np.array([0, -1, 0]), axis=axis)


def taken_along(x: Any) -> Iterator[Call]:
    for axis in {0, x.ndim - 1} if x.ndim else ():
        if x.size:
            yield plain("take_along_axis", x, np.argsort(x.real, axis=axis), axis=axis)


def repeated(x: Any) -> Iterator[Call]:
    yield written("repeat 2", lambda xp, x: xp.repeat(x, 2), x)
    if x.ndim:
        yield written("repeat 3, axis -1", lambda xp, x: xp.repeat(x, 3, axis=-1), x)


def joined(name: str) -> tuple[str, Entry]:
    """`concat` and `stack`."""
    def calls(x: Any) -> Iterator[Call]:
        for axis in (0, -1) if x.ndim else (0,) if name == "stack" else ():
            call = lambda xp, x, y, a=axis: getattr(xp, name)([x, y], axis=a)
            yield written(f"{name}, axis {axis}", call, x, like(x))
        if name == "concat":
            yield written("concat of all", lambda xp, x, y: xp.concat([x, y], axis=None), x, like(x))

    return name, Entry("biufc", calls)


def by_shape(name: str, *ways: Callable[[Any], dict[str, Any] | None]) -> tuple[str, Entry]:
    """A function of one array whose keywords follow from its shape; None for arrays it does not take."""
    def calls(x: Any) -> Iterator[Call]:
        for way in ways:
            keywords = way(x)
            if keywords is not None:
                yield written(f"{name}({keywords})", lambda xp, x, k=keywords: _apply(xp, name, x, k), x)

    return name, Entry("biufc", calls)


def _apply(xp: Any, name: str, x: Any, keywords: dict[str, Any]) -> Any:
    out = getattr(xp, name)(x, *keywords.values()) if name in POSITIONAL else getattr(xp, name)(x, **keywords)
    return tuple(out) if isinstance(out, tuple | list) else out


POSITIONAL = {"broadcast_to", "moveaxis", "permute_dims", "reshape", "tile"}  # NumPy has other names for what follows
MOVING = [
    listed("take", "biufc", taken), listed("take_along_axis", "biufc", taken_along), joined("concat"), joined("stack"),
    by_shape("broadcast_to", lambda x: {"shape": (2, *x.shape)}),
    by_shape("expand_dims", lambda x: {"axis": 0}, lambda x: {"axis": -1}, lambda x: {"axis": (0, -1)}),
    by_shape("flip", lambda x: {}, lambda x: {"axis": 0} if x.ndim else None),
    by_shape("moveaxis", lambda x: {"source": 0, "destination": -1} if x.ndim else None),
    by_shape("permute_dims", lambda x: {"axes": tuple(reversed(range(x.ndim)))}),
    listed("repeat", "biufc", repeated),
    by_shape("reshape", lambda x: {"shape": (-1,)} if x.size else None, lambda x: {"shape": (1, *x.shape)}),
    by_shape("roll", lambda x: {"shift": 1}, lambda x: {"shift": (1, -2), "axis": (0, -1)} if x.ndim > 1 else None),
    by_shape("squeeze", lambda x: {"axis": x.shape.index(1)} if 1 in x.shape else None),
    by_shape("tile", lambda x: {"repetitions": (2,)}, lambda x: {"repetitions": (2, 1)}),
    by_shape("unstack", lambda x: {} if x.ndim and x.shape[0] else None,
             lambda x: {"axis": -1} if x.ndim > 1 and x.shape[-1] else None),
    by_shape("matrix_transpose", lambda x: {} if x.ndim > 1 else None),
    listed("broadcast_arrays", "biufc", lambda x: iter([plain("broadcast_arrays", x, like(x)[:1])] if x.ndim else [])),
]  # fmt: skip

# Linear algebra -----------------------------------------------------------------------------------------------------


def regular(x: Any) -> Any:
    """Stacks of square matrices that are far from singular."""
    return (x + 3 * np.eye(x.shape[-1])).astype(x.dtype)


def products(x: Any) -> Iterator[Call]:
    if x.ndim:
        yield plain("matmul", x, np.moveaxis(like(x), -1, -2) if x.ndim > 1 else like(x))
        yield plain("matmul", x, numbers(x.shape[-1:], str(x.dtype), 2))


def contracted(x: Any) -> Iterator[Call]:
    yield plain("tensordot", x, like(x), axes=0)
    if x.ndim > 1:
        yield plain("tensordot", x, like(x), axes=((0, -1), (0, -1)))
        yield plain("tensordot", x, np.moveaxis(like(x), -1, 0), axes=1)


def squares(name: str, call: Callable[..., Any] | None = None, kinds: str = "fc") -> tuple[str, Entry]:
    """A function of square matrices."""
    def calls(x: Any) -> Iterator[Call]:
        least = 3 if name in ("eig", "eigvals") else 9  # stacks are dear to interpret
        if 1 < x.ndim <= least and x.shape[-1] == x.shape[-2]:
            yield written(name, call or (lambda xp, a: _tuple(getattr(xp.linalg, name)(a))), regular(x))

    return f"linalg.{name}", Entry(kinds, calls)


def rectangles(
    name: str, *calls_of: Callable[..., Any], kinds: str = "fc", rank: int = 2, smooth: bool = True
) -> tuple[str, Entry]:
    """A function of matrices of any shape."""
    def calls(x: Any) -> Iterator[Call]:
        if x.ndim >= rank and x.size:
            for k, call in enumerate(calls_of):
                yield written(f"{name} {k}", call, x)

    return f"linalg.{name}", Entry(kinds, calls, smooth)


def _tuple(out: Any) -> Any:
    return tuple(out) if isinstance(out, tuple) else out


def adjoint(xp: Any, x: Any) -> Any:
    """The conjugate transposed matrices."""
    return xp.conj(xp.matrix_transpose(x))


def hermitian(xp: Any, x: Any) -> Any:
    """Positive matrices."""
    return xp.matmul(x, adjoint(xp, x))


def put_together(xp: Any, x: Any) -> Any:
    """What eigenvectors of Hermitian matrices make, and the eigenvalues."""
    w, v = xp.linalg.eigh(hermitian(xp, x))
    return w, xp.matmul(v * w[..., None, :], adjoint(xp, v))


def singular(xp: Any, x: Any, full: bool) -> Any:
    """What singular vectors make, and the singular values."""
    u, s, v = xp.linalg.svd(x, full_matrices=full)
    k = min(x.shape[-2:])
    return s, xp.matmul(u[..., :k] * s[..., None, :], v[..., :k, :]), xp.matmul(u, adjoint(xp, u))


def general(xp: Any, x: Any) -> Any:
    """What eigenvectors of general matrices make."""
    w, v = xp.linalg.eig(x)
    return xp.matmul(v * w[..., None, :], xp.linalg.inv(v)) * (1 + 0j), xp.sum(w, axis=-1) * (1 + 0j)


NORMS = [lambda xp, x, o=o: xp.linalg.matrix_norm(x, ord=o, keepdims=o == 1)
         for o in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)]  # fmt: skip
LINEAR = [
    listed("matmul", "iufc", products), listed("tensordot", "iufc", contracted),
    listed("vecdot", "iufc", lambda x: iter([plain("vecdot", x, like(x))] if x.ndim else [])),
    *((f"linalg.{n}", Entry("iufc", c)) for n, c in (("matmul", products), ("tensordot", contracted))),
    listed("linalg.vecdot", "iufc", lambda x: iter([plain("linalg.vecdot", x, like(x), axis=-1)] if x.ndim else [])),
    rectangles("matrix_transpose", lambda xp, x: xp.linalg.matrix_transpose(x), kinds="biufc"),
    listed("linalg.outer", "iufc", lambda x: iter([plain("linalg.outer", x, like(x))] if x.ndim == 1 else [])),
    listed("linalg.cross", "ifc",
           lambda x: iter([plain("linalg.cross", x, like(x))] if x.ndim and x.shape[-1] == 3 else [])),
    rectangles("diagonal", *(lambda xp, x, k=k: xp.linalg.diagonal(x, offset=k) for k in (0, 1, -1)), kinds="biufc"),
    rectangles("trace", *(lambda xp, x, k=k: xp.linalg.trace(x, offset=k) for k in (0, 1)), kinds="iufc"),
    rectangles("matrix_norm", *NORMS), rectangles("matrix_rank", lambda xp, x: xp.linalg.matrix_rank(x), smooth=False),
    rectangles("pinv", lambda xp, x: xp.linalg.pinv(x), lambda xp, x: xp.linalg.pinv(x, rtol=1e-3)),
    rectangles("svd", lambda xp, x: singular(xp, x, True), lambda xp, x: singular(xp, x, False)),
    rectangles("svdvals", lambda xp, x: xp.linalg.svdvals(x)),
    rectangles("qr", *(lambda xp, x, m=m: _tuple(xp.linalg.qr(x, mode=m)) for m in ("reduced", "complete"))),
    rectangles("vector_norm", *(lambda xp, x, o=o, a=a: xp.linalg.vector_norm(x, ord=o, axis=a, keepdims=a == -1)
                                for o in (2, 1, 3, 0, np.inf, -np.inf) for a in (None, -1)), rank=1),
    squares("cholesky", lambda xp, x: tuple(xp.linalg.cholesky(hermitian(xp, x), upper=up) for up in (False, True))),
    squares("det"), squares("inv"), squares("slogdet"), squares("eigh", put_together), squares("eig", general),
    squares("eigvalsh", lambda xp, x: xp.linalg.eigvalsh(hermitian(xp, x))),
    squares("eigvals", lambda xp, x: xp.sum(xp.linalg.eigvals(x) ** 3, axis=-1) * (1 + 0j)),
    squares("solve", lambda xp, x: (xp.linalg.solve(x, x[..., :2]), xp.linalg.solve(x, x[(0,) * (x.ndim - 1)]))),
    squares("matrix_power", lambda xp, x: tuple(xp.linalg.matrix_power(x, n) for n in (0, 1, 3, -2))),
]  # fmt: skip

# Fourier transforms -------------------------------------------------------------------------------------------------


def transform(name: str, kinds: str, several: bool) -> tuple[str, Entry]:
    """A transform, along axes, of other lengths, with all norms."""
    def calls(x: Any) -> Iterator[Call]:
        if x.ndim < 1 + several or not x.size:
            return
        least = {"axes": (0, -1)} if several else {"axis": 0}
        sizes = {"s": (4, 3), "axes": (-2, -1)} if several else {"n": 5}
        if name not in ("irfft", "irfftn", "hfft") or x.shape[-1] > 1:
            yield from (plain(f"fft.{name}", x, norm=norm) for norm in ("backward", "ortho", "forward"))
        yield plain(f"fft.{name}", x, **sizes)
        if x.ndim > 1 and (name not in ("irfft", "irfftn", "hfft") or min(x.shape) > 1):
            yield plain(f"fft.{name}", x, **least)

    return f"fft.{name}", Entry(kinds, calls)


def frequencies(name: str) -> tuple[str, Entry]:
    """Where the elements of a transform are."""
    def calls(x: Any) -> Iterator[Call]:
        if x.shape == (3,):
            for n in (1, 4, 5):
                call = lambda xp, n=n: getattr(xp.fft, name)(n, d=0.5, **({"dtype": "float64"} if xp is pb else {}))
                yield written(f"{name}({n})", call)

    return f"fft.{name}", Entry("f", calls, False)


FOURIER = [
    *(transform(n, "c", False) for n in ("fft", "ifft", "irfft", "hfft")),
    *(transform(n, "f", False) for n in ("rfft", "ihfft")),
    *(transform(n, "c", True) for n in ("fftn", "ifftn", "irfftn")), transform("rfftn", "f", True),
    frequencies("fftfreq"), frequencies("rfftfreq"),
    *((f"fft.{n}", Entry("fc", lambda x, n=n: iter([plain(f"fft.{n}", x)] if x.ndim and x.size else [])))
      for n in ("fftshift", "ifftshift")),
]  # fmt: skip

STANDARD: dict[str, Entry] = dict([*CREATION, *ELEMENTWISE, *REDUCTIONS, *MOVING, *LINEAR, *FOURIER])
