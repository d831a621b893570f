"""Arrays of other libraries become lazy arrays and back; matplotlib draws lazy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pullback import DerivativeError, DTypeError, PullbackError, lazy

VALUES = np.array([[0.5, 2.0, -1.0], [3.0, 0.25, 4.0]])


def is_taken(x: Any, wanted: Any = VALUES) -> None:
    """Check values, type and shape of the lazy array made of x, and a gradient at it."""
    found = lazy.asarray(x)
    assert isinstance(found, lazy.Array)
    assert found.numpy().dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_array_equal(found.numpy(), wanted)
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(lazy.grad(lambda v: lazy.sum(v * v))(found).numpy(), 2 * wanted, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "uint8", "bool", "complex128"])
def test_numpy(dtype: str) -> None:
    wanted = VALUES.astype("int64").astype(dtype) if dtype == "uint8" else VALUES.astype(dtype)
    is_taken(wanted, wanted)
    is_taken(np.asfortranarray(wanted), wanted)
    is_taken(wanted[:, ::-2], wanted[:, ::-2])
    np.testing.assert_array_equal(np.asarray(lazy.asarray(wanted)), wanted)
    assert np.asarray(lazy.asarray(wanted)).dtype == wanted.dtype


@pytest.mark.parametrize(
    ("x", "wanted"),
    [
        (VALUES.tolist(), VALUES),
        (tuple(map(tuple, VALUES.tolist())), VALUES),
        ([1, 2, 3], np.array([1, 2, 3])),
        ([True, False], np.array([True, False])),
        ([1, 2.5], np.array([1.0, 2.5])),
        ([np.float32(1.5), np.float32(2)], np.array([1.5, 2], "float32")),
        (range(4), np.arange(4)),
        (np.float64(2.5), np.array(2.5)),
        (np.float32(2.5), np.array(2.5, "float32")),
        (np.int16(3), np.array(3, "int16")),
        (np.bool_(True), np.array(True)),
        (2.5, np.array(2.5)),
        (7, np.array(7)),
    ],
    ids=repr,
)
def test_python(x: Any, wanted: Any) -> None:
    is_taken(x, wanted)


@pytest.mark.parametrize(
    "x", [["a", "b"], np.array(["2020-01-01"], "datetime64[D]"), [object()]], ids=["texts", "dates", "objects"]
)
def test_refused(x: Any) -> None:
    with pytest.raises(PullbackError, match="E1"):
        lazy.asarray(x)


def test_pandas() -> None:
    pd = pytest.importorskip("pandas")
    is_taken(pd.DataFrame(VALUES, columns=list("abc")))
    is_taken(pd.Series(VALUES[0]), VALUES[0])
    is_taken(pd.Series([1, 2, 3]), np.array([1, 2, 3]))
    is_taken(pd.Index([1.5, 2.5]), np.array([1.5, 2.5]))
    is_taken(pd.Series([1.5, None], dtype="Float64").fillna(0.0), np.array([1.5, 0.0]))
    missing = lazy.asarray(pd.Series([1, None, 3], dtype="Int64")).numpy()
    np.testing.assert_array_equal(missing, [1.0, np.nan, 3.0])
    with pytest.raises(PullbackError, match="E122"):
        lazy.asarray(pd.Series(["a", "b"]))
    x = lazy.asarray(VALUES)
    pd.testing.assert_frame_equal(pd.DataFrame(x), pd.DataFrame(VALUES))
    pd.testing.assert_series_equal(pd.Series(x[0]), pd.Series(VALUES[0]))


def test_polars() -> None:
    pl = pytest.importorskip("polars")
    is_taken(pl.Series([0.5, 2.0]), np.array([0.5, 2.0]))
    is_taken(pl.Series([1, 2], dtype=pl.Int32), np.array([1, 2], "int32"))
    is_taken(pl.DataFrame(VALUES, schema=list("abc")))
    assert pl.Series(lazy.asarray([0.5, 2.0]).numpy()).to_list() == [0.5, 2.0]


def test_xarray() -> None:
    xr = pytest.importorskip("xarray")
    is_taken(xr.DataArray(VALUES, dims=("row", "column")))
    kept = xr.DataArray(lazy.asarray(VALUES), dims=("row", "column"))
    assert isinstance(kept.data, lazy.Array)
    is_taken(kept.sum("row").data, VALUES.sum(0))
    is_taken(kept.mean("column").data, VALUES.mean(1))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool"])
def test_torch(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    wanted = VALUES.astype(dtype)
    tensor = torch.from_numpy(wanted.copy())
    is_taken(tensor, wanted)
    is_taken(tensor.T, wanted.T)
    for back in (torch.from_dlpack, torch.asarray):
        found = back(lazy.asarray(wanted))
        assert found.dtype == tensor.dtype and torch.equal(found, tensor)


def test_torch_refusals() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(DTypeError, match=r"(?i)E122.*bfloat16"):
        lazy.asarray(torch.zeros(3, dtype=torch.bfloat16))
    is_taken(torch.tensor(VALUES, requires_grad=True).detach())


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_jax(dtype: str) -> None:
    jnp = pytest.importorskip("jax.numpy")
    wanted = VALUES.astype(dtype)
    is_taken(jnp.asarray(wanted), wanted)
    for back in (jnp.from_dlpack, jnp.asarray):
        np.testing.assert_array_equal(np.asarray(back(lazy.asarray(wanted))), wanted)


def _to_pandas(x: Any) -> Any:
    return pytest.importorskip("pandas").DataFrame(x)


def _to_torch(x: Any) -> Any:
    return pytest.importorskip("torch").from_dlpack(x)


def _to_jax(x: Any) -> Any:
    return pytest.importorskip("jax.numpy").asarray(x)


def _to_polars(x: Any) -> Any:
    return pytest.importorskip("polars").Series(x.numpy()[0])


LEAVING: dict[str, Callable[[Any], Any]] = {
    "asarray": np.asarray, "array": np.array, "numpy": lambda x: x.numpy(), "tolist": lambda x: x.tolist(),
    "float": lambda x: float(x[0, 0]), "item": lambda x: x[0, 0].item(), "from_dlpack": np.from_dlpack,
    "pandas": _to_pandas, "polars": _to_polars, "torch": _to_torch, "jax": _to_jax,
}  # fmt: skip


@pytest.mark.parametrize("name", LEAVING)
def test_no_value_leaves_a_gradient(name: str) -> None:
    """Outside of a gradient, a value may leave; inside it is an error, unless the gradient does not depend on it."""
    leave = LEAVING[name]
    x = lazy.asarray(VALUES)
    leave(x)

    def loss(v: Any) -> Any:
        leave(v * 2.0)
        return lazy.sum(v)

    with pytest.raises(DerivativeError, match="E715"):
        lazy.grad(loss)(x)
    gradient = lazy.grad(lambda v: lazy.sum(v * lazy.asarray(np.asarray(leave(lazy.stop_gradient(v))).ravel()[0])))(x)
    np.testing.assert_array_equal(gradient.numpy(), np.full((2, 3), VALUES[0, 0]))


@pytest.mark.slow
def test_matplotlib() -> None:
    """The numbers that matplotlib draws are those that it draws of NumPy arrays."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn = {}
    for name, xp in (("numpy", np), ("lazy", lazy)):
        x, y, image = xp.asarray([0.0, 1.0, 2.0]), xp.asarray([2.0, 0.5, 1.0]), xp.asarray(VALUES)
        figure, axes = pyplot.subplots(2, 3)
        (line,) = axes[0, 0].plot(x, y)
        points = axes[0, 1].scatter(x, y, c=y, s=10.0 * y)
        bars = axes[0, 2].bar(x, y)
        picture = axes[1, 0].imshow(image)
        counts, edges, _ = axes[1, 1].hist(y, bins=4)
        filled = axes[1, 2].fill_between(x, y, xp.zeros_like(y)).get_paths()[0].vertices
        figure.canvas.draw()
        heights = [bar.get_height() for bar in bars]
        drawn[name] = [
            line.get_xydata(), points.get_offsets(), points.get_array(), heights, picture.get_array(), counts, edges,
            filled, figure.canvas.buffer_rgba(),
        ]  # fmt: skip
        pyplot.close(figure)
    for found, wanted in zip(drawn["lazy"], drawn["numpy"], strict=True):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
