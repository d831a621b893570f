"""Element types of results are NumPy's, for operands of all types and all pairs of types; so are the values.

Where they differ, a rule below says why. Everything else must be equal.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import lazy
from pullback.lazy.namespace import INSPECTING, MODULES
from pullback.names import found
from tests.support.versions import ARRAY_API

SMALL = ["bool", "int8", "int64", "uint8", "uint64", "float32", "float64", "complex64", "complex128"]
ALL = [*SMALL, "int16", "int32", "uint16", "uint32"]
PAIRS = ["bool", "int8", "int64", "uint64", "float32", "float64", "complex64"]
NUMBERS: list[Any] = [True, 2, 2.5, 1.5j]
BINARY = """add subtract multiply divide floor_divide remainder pow maximum minimum hypot atan2 copysign logaddexp equal
not_equal less less_equal greater greater_equal bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor
matmul vecdot outer"""
UNARY = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf
isnan log log1p log2 log10 logical_not negative positive real round sign signbit sin sinh sqrt square tan tanh trunc
angle"""
REDUCING = """sum prod mean var std max min any all argmax argmin count_nonzero cumulative_sum cumulative_prod median
sort diff flip unique_values nan_to_num"""
FLOATING = {"hypot", "atan2", "copysign", "logaddexp", *UNARY.split()}
ORDER = {"max", "min", "argmax", "argmin", "sort", "median", "maximum", "minimum", "less", "less_equal", "greater",
         "greater_equal", "unique_values"}  # fmt: skip
REFUSED_BOOLS = {"abs", "ceil", "floor", "round", "square", "trunc", "diff", "less", "less_equal", "greater",
                 "greater_equal", "floor_divide", "remainder", "pow", "vecdot", "conj"}  # fmt: skip


def numbers(dtype: str) -> Any:
    value = np.array([0, 1, 2, 3, 1, 0.0])
    return (value + {"f": 0.5, "c": 0.5 + 1j}.get(dtype[0], 0)).astype(dtype)


def is_refused(name: str, kinds: set[str]) -> bool:
    """The operations that are left out: the array API has no order of complex numbers, and no sums of bools."""
    if "c" in kinds and name in (ORDER | {"var", "std", "nan_to_num"}):
        return True
    return kinds == {"b"} and name in REFUSED_BOOLS


def check(name: str, label: Any, call: Callable[[Any, Any], Any], arrays: list[Any], kinds: set[str]) -> None:
    try:
        with np.errstate(all="ignore"):
            wanted = np.asarray(call(np, arrays))
    except (TypeError, ValueError, OverflowError):
        return  # NumPy refuses it, too, or differs in how
    if is_refused(name, kinds):
        return
    result = np.asarray(call(lazy, [lazy.asarray(a) if isinstance(a, np.ndarray) else a for a in arrays]))
    dtype = wanted.dtype
    if name in FLOATING and not kinds & set("fc") and dtype.kind == "f":
        dtype = np.dtype("float64")  # NumPy takes half precision for int8, single for int16
    assert result.dtype == dtype, (name, label)
    single = dtype.char in "fFe" or wanted.dtype.char in "fFe"
    np.testing.assert_allclose(result, wanted, rtol=2e-3 if wanted.dtype.char == "e" else 1e-5 if single else 1e-12,
                               err_msg=f"{name} {label}")  # fmt: skip


def kinds_of(*values: Any) -> set[str]:
    return {np.asarray(v).dtype.kind for v in values}


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")


@ARRAY_API
@pytest.mark.parametrize("half", [0, 1, 2, 3])
def test_pairs(half: int) -> None:
    for name in BINARY.split()[half::4]:
        for a, b in product(PAIRS, PAIRS):
            x, y = numbers(a), numbers(b)[::-1].copy()
            check(name, (a, b), lambda xp, v, n=name: getattr(xp, n)(*v), [x, y], kinds_of(x, y))


@pytest.mark.slow
@ARRAY_API
def test_one_operand() -> None:
    for name in (*UNARY.split(), *REDUCING.split()):
        for a in SMALL:
            x = numbers(a)
            order = np.sort if name == "unique_values" else lambda v: v
            check(name, a, lambda xp, v, n=name, o=order: o(np.asarray(getattr(xp, n)(*v))), [x], kinds_of(x))


@ARRAY_API
def test_numbers_of_python() -> None:
    names = "add subtract multiply divide floor_divide remainder pow maximum less equal bitwise_and"
    for name in names.split():
        for a, number in product(PAIRS, NUMBERS):
            x = numbers(a)
            for v in ([x, number], [number, x]):
                kinds = kinds_of(x) | kinds_of(number)
                check(name, (a, number), lambda xp, v, n=name: getattr(xp, n)(*v), v, kinds)


JOINING: list[tuple[str, Callable[[Any, Any, Any], Any]]] = [
    ("concat", lambda xp, x, y: xp.concat([x, y])),
    ("stack", lambda xp, x, y: xp.stack([x, y])),
    ("where", lambda xp, x, y: xp.where(xp.asarray([True, False] * 3), x, y)),
    ("meshgrid", lambda xp, x, y: xp.meshgrid(x, y)[0]),
    ("broadcast_arrays", lambda xp, x, y: xp.broadcast_arrays(x, y)[0]),
]


@ARRAY_API
def test_joined_arrays() -> None:
    for (name, call), a, b in product(JOINING, PAIRS, PAIRS):
        x, y = numbers(a), numbers(b)
        check(name, (a, b), lambda xp, v, c=call: c(xp, *v), [x, y], set())


def test_types_that_are_asked_for() -> None:
    """Complex numbers do not become real ones, and NumPy's sums of floats as integers round each element."""
    made: list[tuple[str, Callable[[Any, Any, Any], Any]]] = [
        ("zeros_like", lambda xp, x, d: xp.zeros_like(x, dtype=d)),
        ("ones_like", lambda xp, x, d: xp.ones_like(x, dtype=d)),
        ("full_like", lambda xp, x, d: xp.full_like(x, 1, dtype=d)),
        ("astype", lambda xp, x, d: x.astype(d)),
        ("asarray", lambda xp, x, d: xp.asarray(x, dtype=d)),
        ("sum", lambda xp, x, d: xp.sum(x, dtype=d)),
    ]
    for (name, call), a, b in product(made, PAIRS, ALL):
        lossy = a[0] == "c" and b[0] != "c" and not name.endswith("_like")
        if not lossy and not (name == "sum" and (b == "bool" or (a[0] in "fc" and b[0] in "iu"))):
            kind = getattr(lazy, b)
            check(name, (a, b), lambda xp, v, c=call, b=b, k=kind: c(xp, *v, b if xp is np else k), [numbers(a)], set())


def test_result_type_is_that_of_operations() -> None:
    for a, b in product(ALL, ALL):
        wanted = np.result_type(np.dtype(a), np.dtype(b))
        x, y = lazy.zeros(2, dtype=getattr(lazy, a)), lazy.zeros(2, dtype=getattr(lazy, b))
        assert np.dtype(str(lazy.result_type(x, y.dtype).numpy)) == wanted
        assert lazy.where(lazy.asarray([True, False]), x, y).type.numpy == wanted


def functions(space: Any, home: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    for name in dir(space):
        f = getattr(space, name)
        if name in MODULES and not prefix:
            yield from functions(f, getattr(home, name), f"{name}.")
        elif inspect.isfunction(f) and getattr(home, name, None) is not None and not isinstance(f, type):
            yield prefix + name, f, getattr(home, name)


def test_signatures_are_those_of_the_functions() -> None:
    """Whatever inspects `lazy.sum` sees its parameters; those with shapes from data have their own."""
    own = set(lazy.__all__) | INSPECTING
    seen = {n: (inspect.signature(f), inspect.signature(g)) for n, f, g in functions(lazy, pb) if n not in own}
    assert len(seen) > 200 and found("sum") is not lazy.sum
    assert {n for n, (f, g) in seen.items() if f != g} == set()


# Values that decide shapes ----------------------------------------------------------------------------------------

KEYS: list[Any] = [slice(None), slice(1, None), slice(None, -1), slice(None, None, 2), slice(None, None, -1), 1, -1,
                   None, Ellipsis, np.array([1, 0, 1]), np.array([-1, 0, 0]), np.array([[0], [1]])]  # fmt: skip


def lifted(key: Any) -> Any:
    """A key with lazy arrays in the place of all numbers and arrays."""
    if isinstance(key, slice):
        return slice(*(None if v is None else lazy.asarray(v) for v in (key.start, key.stop, key.step)))
    return lazy.asarray(key) if isinstance(key, int | np.ndarray) else key


def test_subscripts_of_lazy_integers() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    for key in [*((k,) for k in KEYS), *product(KEYS, KEYS)]:
        if sum(k is Ellipsis for k in key) > 1:
            continue
        found = lazy.asarray(x)[tuple(map(lifted, key))]
        np.testing.assert_array_equal(np.asarray(found), x[key], err_msg=str(key))


def test_masks() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    for rank in range(4):
        for seed in range(3):
            mask = np.random.default_rng(seed).random(x.shape[:rank]) > 0.4
            for m in (mask, lazy.asarray(mask)):
                np.testing.assert_array_equal(np.asarray(lazy.asarray(x)[m]), x[mask])
    for m in (True, False, np.True_, lazy.asarray(False)):
        np.testing.assert_array_equal(np.asarray(lazy.asarray(x)[m]), x[bool(m)])
    for key in ((slice(None), np.ones(3, bool)), (..., np.ones((3, 4), bool)), (0, np.ones(3, bool), slice(1)),
                (None, np.array([True, False]))):  # fmt: skip
        np.testing.assert_array_equal(np.asarray(lazy.asarray(x)[key]), x[key])
    for key in (np.ones(3, bool), (slice(None), np.ones(2, bool)), (..., np.ones(3, bool)), np.ones((2, 2), bool)):
        with pytest.raises(pb.ShapeError, match=r"E104.* a mask of shape"):  # it had selected by position
            lazy.asarray(x)[key]


@pytest.mark.parametrize("dtype", ALL)
def test_shapes_from_data(dtype: str) -> None:
    for shape in ((), (5,), (0,), (2, 3), (0, 3)):
        x = np.resize(numbers(dtype), shape)
        found = lazy.asarray(x)
        for axis in (None, *range(-len(shape), len(shape))):
            n = x.size if axis is None else x.shape[axis]
            for counts in (2, np.arange(n), np.zeros(n, np.int8), np.array([3])):
                counts = counts if isinstance(counts, int) else np.asarray(counts)
                wanted = np.repeat(x, counts, axis)
                given = [counts] if isinstance(counts, int) else [lazy.asarray(counts), counts.tolist()]
                for c in given:
                    result = np.asarray(lazy.repeat(found, c, axis=axis))
                    assert result.dtype == x.dtype
                    np.testing.assert_array_equal(result, wanted)
        if shape:
            for ours, theirs in zip(lazy.nonzero(found), np.nonzero(x), strict=True):
                np.testing.assert_array_equal(np.asarray(ours), theirs)
            assert [row.shape for row in lazy.unstack(found)] == [row.shape for row in x]
        for ours, theirs in zip(lazy.unique_all(found), np.unique(x, True, True, True), strict=True):
            np.testing.assert_array_equal(np.asarray(ours).ravel(), np.ravel(theirs))
    if dtype[0] in "iu":
        x = numbers(dtype)
        for weights, least in product((None, numbers("float64"), numbers("int8")), (0, 3, 9)):
            result = np.asarray(lazy.bincount(lazy.asarray(x), weights=weights, minlength=least))
            wanted = np.bincount(x.astype(np.int64), weights, least)
            assert result.dtype == wanted.dtype
            np.testing.assert_array_equal(result, wanted)


def test_sizes_may_be_arrays() -> None:
    n, shape = lazy.asarray(2), (lazy.asarray(3), np.int64(2))
    assert lazy.zeros(n).shape == lazy.arange(n).shape == lazy.linspace(0.0, 1.0, n).shape == (2,)
    assert lazy.ones(shape).shape == lazy.reshape(lazy.arange(6), shape).shape == (3, 2)
    assert lazy.broadcast_to(lazy.asarray(1.0), lazy.asarray([4, 5])).shape == (4, 5)
    assert lazy.eye(n, k=lazy.asarray(1)).tolist() == [[0.0, 1.0], [0.0, 0.0]]
    assert [lazy.zeros(lazy.asarray(k)).shape for k in range(4)] == [(0,), (1,), (2,), (3,)]  # not the first one again
