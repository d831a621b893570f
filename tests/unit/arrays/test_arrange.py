"""pad, split, diag, kron, grids, running extremes, samples: values as NumPy's, in the interpreter and in C, and
derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float, Float64

import pullback as pb
from pullback import Array
from pullback.testing import check_grads

pytestmark = pytest.mark.slow

X = np.random.default_rng(0).normal(size=(3, 4))
V, U = X[0].copy(), X[:, 1].copy()
INF, NAN = np.inf, np.nan

MODES = ["constant", "edge", "reflect", "symmetric", "wrap"]
WIDTHS: list[Any] = [2, (1, 2), ((1, 2), (2, 1)), ((0, 2), (1, 0)), ((2, 0),)]

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    **{f"pad {m} {w}": lambda xp, x, m=m, w=w: xp.pad(x, w, m) for m in MODES for w in WIDTHS},
    "pad with a number": lambda xp, x: xp.pad(x, 1, constant_values=-3.5),
    "split": lambda xp, x: xp.split(x, 2, axis=1),
    "split at": lambda xp, x: xp.split(x, [1, -1], axis=-1),
    "swapaxes": lambda xp, x: xp.swapaxes(x, 0, -1),
    "diag": lambda xp, x: [xp.diag(x[0], k) for k in (0, 2, -1)],
    "diag of a matrix": lambda xp, x: [xp.diag(x[:, :3], k) for k in (0, 1, -2)],
    "kron": lambda xp, x: [xp.kron(x, x[:2, :3]), xp.kron(x[0], x), xp.kron(x[0], x[1])],
    "meshgrid": lambda xp, x: [*xp.meshgrid(x[0], x[:, 0]), *xp.meshgrid(x[0], x[:, 0], x[1, :2], indexing="ij")],
    "meshgrid of one": lambda xp, x: list(xp.meshgrid(x[0])),
    "broadcast_arrays": lambda xp, x: list(xp.broadcast_arrays(x[:, :1], x[0], x[0, 0])),
    "vander": lambda xp, x: [xp.vander(x[0]), xp.vander(x[0], 2), xp.vander(x[0], 6, increasing=True)],
    "convolve": lambda xp, x: [xp.convolve(x[0], x[:, 1], m) for m in ("full", "same", "valid")],
    "convolve with a longer one": lambda xp, x: [xp.convolve(x[0, :2], x[1], m) for m in ("full", "same", "valid")],
    "gradient": lambda xp, x: [*xp.gradient(x), xp.gradient(x, axis=1), xp.gradient(x[0], 0.5, edge_order=2)],
    "gradient of places": lambda xp, x: [
        xp.gradient(x, xp.abs(x[1]) + 4.0 * np.arange(4), axis=1, edge_order=e) for e in (1, 2)
    ],
    "gradient of two": lambda xp, x: xp.gradient(x[:2], axis=0),
    "diff": lambda xp, x: [xp.diff(x, n=2), xp.diff(x, axis=0, prepend=x[:1], append=x[:2]), xp.diff(x, n=0)],
    "signbit": lambda xp, x: xp.signbit(x),
    "nan_to_num": lambda xp, x: [xp.nan_to_num(x), xp.nan_to_num(x, nan=1.0, posinf=2.0, neginf=-2.0)],
    "count_nonzero": lambda xp, x: [xp.count_nonzero(x > 0, axis=(0, 1), keepdims=True)],
}


def results(f: Callable[[Any, Any], Any], x: Any) -> Any:
    found = f(np, x)
    return list(found) if isinstance(found, list | tuple) else found


def test_values() -> None:
    @pb.function
    def every(x: Float[Array, "3 4"]):
        return [f(pb, x) for f in CALLS.values()]

    for dtype in (np.float64, np.float32):
        x = X.astype(dtype)
        for route in (every, every.interpret):
            for (name, f), found in zip(CALLS.items(), route(x), strict=True):
                wanted = results(f, x)
                pairs = zip(found, wanted, strict=True) if isinstance(wanted, list) else [(found, wanted)]
                for a, b in pairs:
                    assert np.shape(a) == np.shape(b), name
                    rtol = 1e-4 if dtype == np.float32 else 1e-13
                    np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-5, err_msg=name)


SMOOTH = [n for n in CALLS if n not in ("signbit", "count_nonzero", "nan_to_num")]


def test_derivatives() -> None:
    def every(x):
        leaves = [f(pb, x) for n, f in CALLS.items() if n in SMOOTH and not n.startswith("pad")]
        flat = [a for leaf in leaves for a in (leaf if isinstance(leaf, list | tuple) else [leaf])]
        return [pb.sum(pb.sin(a)) for a in flat]

    check_grads(every, (X,), order=1, elements=3)


@pytest.mark.parametrize("mode", MODES)
def test_derivatives_of_pad(mode: str) -> None:
    check_grads(lambda x: pb.sin(pb.pad(x, ((1, 2), (2, 1)), mode)), (X,), order=2, elements=3)  # type: ignore[arg-type]


def test_all_sizes(check) -> None:
    @pb.function
    def f(x: Float64[Array, "N M"], v: Float64[Array, "K"]):
        return (
            pb.pad(x, ((1, 2), (0, 1)), "reflect"),
            pb.pad(v, v.shape[0], "wrap"),
            pb.kron(x, v),
            pb.diag(v),
            pb.convolve(x[0], v, "full"),
            pb.gradient(v),
            pb.split(x, [1])[1],
        )

    v = U
    wanted = (
        np.pad(X, ((1, 2), (0, 1)), "reflect"),
        np.pad(v, 3, "wrap"),
        np.kron(X, v),
        np.diag(v),
        np.convolve(X[0], v),
        np.gradient(v),
        X[1:],
    )
    check(f, X, v, expected=wanted)
    with pytest.raises(pb.ShapeError, match="E114"):
        f(X[:2], v)  # of two rows one can be reflected


def test_equal_parts_of_all_sizes(check) -> None:
    @pb.function
    def f(x: Float64[Array, "2*N"]):
        return tuple(pb.split(x, 2))

    check(f, V, expected=(V[:2], V[2:]))


def test_interp(check) -> None:
    places, values = np.array([-1.0, 0.0, 2.0, 2.5]), np.array([1.0, -1.0, 3.0, 0.0])
    x = np.array([[-2.0, -1.0, -0.5, 0.0], [1.9, 2.0, 2.5, 3.0]])

    @pb.function
    def f(x: Float64[Array, "*B"], xp: Float64[Array, "N"], fp: Float64[Array, "N"]):
        return pb.interp(x, xp, fp), pb.interp(x, xp, fp, left=-7.0, right=8.0)

    wanted = np.interp(x, places, values), np.interp(x, places, values, -7.0, 8.0)
    check(f, x, places, values, expected=wanted)
    check(f, np.array(NAN), places, values, expected=(np.array(NAN), np.array(NAN)))
    check(f, x, places[:1], values[:1], expected=(np.full(x.shape, 1.0), np.interp(x, [-1.0], [1.0], -7.0, 8.0)))
    check_grads(f, (x[:1] + 0.3, places, values), order=2, elements=4)


def test_running_extremes(check) -> None:
    x = np.array([[1.0, 3.0, 2.0, 3.0], [NAN, 0.0, 1.0, -1.0]])

    @pb.function
    def f(x: Float64[Array, "N M"]):
        return pb.cumulative_max(x, axis=1), pb.cumulative_min(x, axis=0), pb.cumulative_max(x[0])

    check(f, x, expected=(np.maximum.accumulate(x, 1), np.minimum.accumulate(x, 0), np.maximum.accumulate(x[0])))

    @pb.function
    def total(x: Float64[Array, "M"]):
        return pb.sum(pb.cumulative_max(x))

    check(pb.grad(total), x[0], expected=[1.0, 3.0, 0.0, 0.0])
    check_grads(lambda x: pb.sin(pb.cumulative_min(x, axis=0)), (X,), order=2, elements=3)


def test_special_values(check) -> None:
    x = np.array([NAN, INF, -INF, -0.0, 0.0, 2.0])

    @pb.function
    def f(x: Float64[Array, "N"]):
        return pb.nan_to_num(x), pb.signbit(x), pb.isin(x, np.array([0.0, 2.0])), pb.isin(x, 2.0, invert=True)

    @pb.function
    def total(x: Float64[Array, "N"]):
        return pb.sum(pb.nan_to_num(x) * 3.0)

    wanted = np.nan_to_num(x), np.signbit(x), np.isin(x, [0.0, 2.0]), ~np.isin(x, 2.0)
    check(f, x, expected=wanted)
    check(pb.grad(total), x, expected=[0.0, 0.0, 0.0, 3.0, 3.0, 3.0])


LINEAR: dict[str, Callable[..., Any]] = {
    "einsum": lambda xp, a, b: [xp.einsum("ij,kj,kl->il", a, b, a), xp.einsum("ij,ij->j", a, b)],
    "einsum of one": lambda xp, a, b: [xp.einsum("ij->ji", a), xp.einsum("ij->", a)],
    "pad": lambda xp, a, b: [xp.pad(a, 1, "reflect"), xp.pad(a, 1, constant_values=2.0)],
    "kron": lambda xp, a, b: [xp.kron(a, b), xp.kron(b, a)],
    "convolve": lambda xp, a, b: [xp.convolve(a[0], b[0]), xp.convolve(a[0], a[1], "same")],
    "split": lambda xp, a, b: xp.split(a, 3, axis=1),
    "rest": lambda xp, a, b: [xp.diag(a[0]), xp.gradient(a, axis=1), xp.swapaxes(a, 0, 1)],
}


@pytest.mark.parametrize("name", LINEAR)
def test_complex_numbers(name: str) -> None:
    f = LINEAR[name]
    for dtype in (np.complex128, np.complex64):
        a = (X[:2, :3] + 1j * X[1:, 1:]).astype(dtype)
        b = X[:2, 1:].astype(a.real.dtype)
        for x in (b, a[::-1].copy()):
            for found, wanted in zip(pb.function(lambda a, b: f(pb, a, b))(a, x), f(np, a, x), strict=True):
                assert found.dtype == dtype
                np.testing.assert_allclose(found, wanted, rtol=1e-5 if dtype == np.complex64 else 1e-13, atol=1e-6)


def test_shapes_and_types() -> None:
    assert pb.broadcast_shapes((2, 1), (1, 3), ()) == (2, 3)
    assert pb.isdtype(pb.uint8, "integral") and not pb.isdtype(pb.float32, ("bool", "complex floating"))
    assert pb.isdtype(pb.bool, pb.bool) and pb.isdtype("float32", "numeric")
    assert pb.can_cast(pb.float32, pb.float64) and not pb.can_cast(pb.int64, pb.float64)
    assert pb.result_type(pb.float32, 1.5, 2) is pb.float32
    assert pb.result_type(np.zeros(2, np.int8), pb.int16) is pb.int16
    assert (pb.result_type(True), pb.result_type(1, True), pb.result_type(1, 2.0)) == (pb.bool, pb.int64, pb.float64)
    for mixed in ((pb.int8, 1.5), (pb.bool, 1), (pb.int64, pb.float32), (pb.uint64, pb.int8), (pb.int8, True)):
        with pytest.raises(pb.DTypeError, match="E120"):
            pb.result_type(*mixed)
    info = pb.finfo(pb.float64)
    assert (info.bits, info.eps, info.max, info.smallest_normal) == (64, 2.0**-52, np.finfo(float).max, 2.0**-1022)
    assert (pb.iinfo(pb.uint16).max, pb.iinfo(pb.int64).min) == (65535, -(2**63))
    with pytest.raises(pb.DTypeError, match="E121"):
        pb.finfo(pb.int8)
    with pytest.raises(pb.DTypeError, match="E121"):
        pb.iinfo(pb.float32)
    with pytest.raises(pb.DTypeError, match="E122"):
        pb.isdtype(pb.int8, "whole")
    there = pb.__array_namespace_info__()
    assert pb.isdtype(pb.complex64, ("numeric",)) and not pb.isdtype(np.complex64, "real floating")
    assert pb.result_type(pb.float64, pb.complex64) is pb.complex128 and pb.result_type(pb.float32, 1j) is pb.complex64
    assert pb.can_cast(pb.float64, pb.complex128) and not pb.can_cast(pb.complex64, pb.float64)
    assert pb.finfo(pb.complex64) == pb.finfo(pb.float32)
    assert there.dtypes()["int32"] is pb.int32
    assert set(there.dtypes(kind="complex floating")) == {"complex64", "complex128"}
    assert there.default_dtypes()["real floating"] is pb.float64
    assert there.capabilities()["boolean indexing"] is False


ERRORS: dict[str, str] = {
    "pb.split(x, 3)": "split: axis 0 of size 7 has no 3 equal parts",
    "pb.split(x, 0)": "split: 0 parts",
    "pb.pad(x, 8, 'reflect')": "pad: 8 elements cannot be added by 'reflect' to axis 0 of [7]: at most 6",
    "pb.pad(x, 1, 'mirror')": "pad: there is no mode 'mirror'",
    "pb.pad(x, ((1, 2), (3, 4)))": "pad: widths ((1, 2), (3, 4)) for an array of 1 axis",
    "pb.pad(x, -1)": "pad: a width of -1",
    "pb.diag(pb.zeros((2, 2, 2)))": "diag takes a vector or a matrix, not f64[2, 2, 2]",
    "pb.convolve(x, x, 'all')": "convolve: there is no mode 'all'",
    "pb.convolve(x, pb.zeros((2, 2)))": "convolve takes vectors, not f64[2, 2]",
    "pb.interp(x, x, pb.zeros(3))": "interp: 7 places, and 3 values",
    "pb.gradient(x[:1])": "gradient: 1 sample along axis 0, and 2 are needed",
    "pb.gradient(x, 1.0, 2.0)": "gradient: 2 spacings for 1 axis, and edge_order 1",
    "pb.meshgrid(x, indexing='yx')": "meshgrid: indexing is 'xy' or 'ij', not 'yx'",
    "pb.cumulative_max(pb.zeros((2, 2)))": "cumulative_max: the axis is needed for an array of 2 axes",
}


@pytest.mark.parametrize("call", ERRORS)
def test_errors(call: str) -> None:
    space: dict[str, Any] = {"pb": pb, "Float64": Float64, "Array": Array}
    exec(f'def f(x: Float64[Array, "7"]):\n    return {call}', space)
    with pytest.raises(pb.ShapeError) as caught:
        pb.function(space["f"])
    assert caught.value.what == ERRORS[call]


def test_what_to_write_for_unequal_parts() -> None:
    def f(x: Float64[Array, "7"], y: Float64[Array, "N"]):
        return pb.split(x, [3, 5]), pb.split(x, 3)

    with pytest.raises(pb.ShapeError) as caught:
        pb.function(f)
    assert caught.value.remedy == "`pb.split(x, [3, 5])`, as NumPy's `array_split` cuts"


def test_axes_beside_those_that_are_merged_stay_as_they_are() -> None:
    """Where their sizes are divided dims, the position in the whole array could not be taken apart again."""

    @pb.function
    def merged(x: Float[Array, "N 2 3 H W"]) -> Any:
        n, *_, height, width = x.shape
        small = x[:, :, :, : (height + 5) // 8, : (width + 5) // 8]
        return pb.reshape(small, (n, 6, (height + 5) // 8, (width + 5) // 8))

    x = np.arange(2 * 6 * 11 * 19.0).reshape(2, 2, 3, 11, 19)
    np.testing.assert_array_equal(merged.interpret(x), x[..., :2, :3].reshape(2, 6, 2, 3))
