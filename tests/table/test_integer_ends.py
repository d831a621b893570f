"""Integers at the ends of their types through every public function that takes them, against NumPy.

The functions are those of the namespace: a new one has to be classified here. Integers wrap.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pullback as pb
from tests.table.rows import Row, run
from tests.table.standard import DTYPES, STANDARD, Call, plain, written

INTEGERS = [*DTYPES["i"], *DTYPES["u"]]
SHAPES = [(9,), (3, 4)]
IN_C = 10_000 if os.environ.get("PULLBACK_NIGHTLY") else 25  # rows of each type


def ends(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """The ends of a type, -1, 0 and 1 in another order for each seed."""
    info = np.iinfo(dtype)
    some = [info.min, info.min + 1, info.max - 1, info.max, 0, 1, 2, *([-1, -2] if info.min else [info.max // 2])]
    rng, count = np.random.default_rng(seed), int(np.prod(shape))
    parts = [rng.permutation(np.array(some, dtype)) for _ in range(count // len(some) + 1)]
    return np.concatenate(parts)[:count].reshape(shape)


def exponents(x: Any) -> Any:
    """Exponents that NumPy takes."""
    return np.resize(np.array([0, 1, 2, 3, 7, 31, 63, 127], x.dtype), x.shape)


# Of the standard's functions, those whose calls need more than other numbers in their arrays.
OWN: dict[str, Callable[[Any, Any], Iterator[Call]]] = {
    "pow": lambda x, y: iter([plain("pow", x, exponents(x))]),
    "power": lambda x, y: iter([plain("power", x, exponents(x))]),
    "sort": lambda x, y: iter([plain("sort", x, axis=-1), written("sort down", lambda xp, x: (
        np.sort(x, axis=-1)[..., ::-1] if xp is np else xp.sort(x, descending=True)), x)]),
    "argsort": lambda x, y: iter([plain("argsort", x, axis=-1, stable=True)]),
    "take": lambda x, y: iter([plain("take", x, np.array([0, -1, 2]), axis=0)]),
    "take_along_axis": lambda x, y: iter([plain("take_along_axis", x, np.argsort(x, axis=-1), axis=-1)]),
    "searchsorted": lambda x, y: iter([plain("searchsorted", np.sort(x.reshape(-1)), y, side=s)
                                       for s in ("left", "right")]),
    "clip": lambda x, y: iter([plain("clip", x, np.minimum(y, y[::-1]), np.maximum(y, y[::-1])),
                               plain("clip", x, min=1), plain("clip", x, max=1)]),
    "real": lambda x, y: iter([plain("real", x)]), "imag": lambda x, y: iter([plain("imag", x)]),
    "kron": lambda x, y: iter([plain("kron", x, y)]),
    "outer": lambda x, y: iter([plain("outer", x, y)] if x.ndim == 1 else []),
    "convolve": lambda x, y: iter([plain("convolve", x, y[:4])] if x.ndim == 1 else []),
    "einsum": lambda x, y: iter([written("einsum", lambda xp, x, y: xp.einsum("...i,...i->...", x, y), x, y)]),
    "cumulative_max": lambda x, y: iter([written("cumulative_max", lambda xp, x: (
        np.maximum.accumulate(x, -1) if xp is np else xp.cumulative_max(x, axis=-1)), x)]),
    "cumulative_min": lambda x, y: iter([written("cumulative_min", lambda xp, x: (
        np.minimum.accumulate(x, -1) if xp is np else xp.cumulative_min(x, axis=-1)), x)]),
    "trace": lambda x, y: iter([plain("trace", x)] if x.ndim == 2 else []),
    "diagonal": lambda x, y: iter([plain("diagonal", x)] if x.ndim == 2 else []),
    "diag": lambda x, y: iter([plain("diag", x)]),
    "swapaxes": lambda x, y: iter([written("swapaxes", lambda xp, x: xp.swapaxes(x, 0, 1), x)] if x.ndim == 2 else []),
    "relu": lambda x, y: iter([written("relu", lambda xp, x: xp.maximum(x, 0) if xp is np else xp.relu(x), x)]),
    "pad": lambda x, y: iter([written("pad", lambda xp, x: xp.pad(x, 1, constant_values=1), x)]),
    "split": lambda x, y: iter([written("split", lambda xp, x: tuple(xp.split(x, 3)), x)]),
    "top_k": lambda x, y: iter([written("top_k", lambda xp, x: (
        np.sort(x, axis=-1)[..., ::-1][..., :3] if xp is np else xp.top_k(x, 3)[0]), x)]),
    "where": lambda x, y: iter([plain("where", x > y, x, y)]),
    "vander": lambda x, y: iter([plain("vander", exponents(x)[:3].astype("int64"))] if x.ndim == 1 else []),
    "stop_gradient": lambda x, y: iter([written("stop_gradient", lambda xp, x: (
        x if xp is np else xp.stop_gradient(x)), x)]),
    "bincount": lambda x, y: iter([written("bincount", lambda xp, x: (
        np.bincount(x, minlength=5) if xp is np else xp.bincount(x, length=5)), np.array([0, 4, 4]))]),
}  # fmt: skip
REFUSED = {  # floating-point numbers alone, or bools: integers are an error, so that nobody wonders what they become
    "acos", "acosh", "angle", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cos", "cosh", "divide", "erf",
    "exp", "expm1", "gradient", "hypot", "interp", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "logistic", "logsumexp", "mean", "median", "nextafter", "quantile",
    "reciprocal", "signbit", "sin", "sinh", "softmax", "sqrt", "std", "tan", "tanh", "var",
}  # fmt: skip
OTHER = {  # take functions, shapes, types or names, or make arrays of nothing
    "Jagged", "Size", "Static", "all_over", "any_over", "apl", "arange", "argmax_over", "argmin_over", "asarray",
    "astype",
    "broadcast_arrays", "broadcast_shapes", "build", "can_cast", "checkpoint", "complex", "cond",
    "custom_derivative", "debug", "device_put", "devices", "empty", "exact", "external", "eye", "finfo", "fold",
    "forward_backward",
    "from_dlpack", "full", "function", "grad", "graph", "hessian", "histogram", "hvp", "iinfo", "in_range",
    "isdtype", "jacfwd", "jacobian", "jacrev", "jagged", "jvp", "least_squares", "linspace", "max_over", "meshgrid",
    "min_over", "minimize",
    "nan_to_num", "nonzero", "odeint", "ones", "prod_over", "ravel", "result_type", "root",
    "root_scalar", "scan", "search_over", "sum_over", "threads", "tree_dot", "tree_map", "unique_all",
    "unique_counts", "unique_inverse", "unique_values", "value_and_grad", "vjp", "vmap", "while_loop", "zeros",
}  # fmt: skip
# Two things differ from NumPy. Floating-point numbers beyond the integers become the nearest end and NaN 0, where NumPy
# does what the processor does (`tests/unit/codegen/test_conversions.py`). Negative exponents give 0 but for bases 1 and
# -1, where NumPy refuses them (below).


def names() -> Iterator[str]:
    """The public functions."""
    for name in dir(pb):
        value = getattr(pb, name)
        if not name.startswith("_") and callable(value) and not isinstance(value, type) and name != "Any":
            yield name


def of_integers() -> list[str]:
    """The functions that are compared with NumPy."""
    return [n for n in names() if n in OWN or (n in STANDARD and set("iu") & set(STANDARD[n].kinds) and n not in OTHER)]


def test_every_function_is_classified() -> None:
    compared = set(of_integers())
    assert not set(names()) - compared - REFUSED - OTHER
    assert not compared & REFUSED


def rows(dtype: str) -> Iterator[Row]:
    """All calls for a type, with its ends in the arrays of that type."""
    for name in [*of_integers(), *(n for n in STANDARD if n.startswith("linalg.") and "i" in STANDARD[n].kinds)]:
        for shape in SHAPES:
            x, y = ends(shape, dtype), ends(shape, dtype, 1)
            found = OWN[name](x, y) if name in OWN else STANDARD[name].calls(x)
            for label, call, args in found:
                if name not in OWN:
                    args = tuple(ends(a.shape, dtype, k) if a.dtype == x.dtype else a for k, a in enumerate(args))
                yield Row(f"{label} {dtype}", call, args)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_ends(dtype: str) -> None:
    run(list(rows(dtype)), IN_C)


@pytest.mark.parametrize("name", sorted(REFUSED & set(names())))
def test_integers_are_refused(name: str) -> None:
    x = np.array([1, 2, 3])
    for count in (1, 2, 3):
        try:
            pb.function(getattr(pb, name)).interpret(*[x] * count)
        except pb.DTypeError:
            return
        except Exception:
            continue
    raise AssertionError(f"{name} takes integers")


def test_negative_exponents() -> None:
    """Negative powers of 1 and -1 are whole numbers."""
    x = np.array([-128, -2, -1, 0, 1, 127], np.int8)
    for found in (pb.function(lambda x: pb.pow(x, -1))(x), pb.function(lambda x: pb.pow(x, -3)).interpret(x)):
        assert found.tolist() == [0, 0, -1, 0, 1, 0]


@pytest.mark.parametrize("f", [
    lambda x: x + 300, lambda x: pb.full(2, -129, dtype="int8"), lambda x: pb.clip(x, 0, 128),
    lambda x: pb.where(x > 0, x, 128), lambda x: pb.maximum(x, -129),
])  # fmt: skip
def test_numbers_that_do_not_fit_are_refused(f: Callable[..., Any]) -> None:
    with pytest.raises(pb.DTypeError, match="E124"):
        pb.function(f)(np.zeros(2, np.int8))
