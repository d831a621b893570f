# ruff: noqa: E402
"""Traced functions as ONNX files: onnx's own evaluator gives our values, and so do files that are read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32, Float64, Int64

onnx = pytest.importorskip("onnx", reason="ONNX files need the extra onnx")
from onnx.reference import ReferenceEvaluator

import pullback as pb
from pullback import Array, nn
from pullback.errors import DataError
from pullback.nn.types import function_types
from pullback.onnx import load, save

rng = np.random.default_rng(0)


def there_and_back(f: Any, folder: Path, *args: Any, parameters: Any = None, **dims: int) -> None:
    """The same numbers from f, from its file by onnx, and from its file by us."""
    save(f, folder / "f.onnx", parameters, **dims)
    onnx.checker.check_model(onnx.load(folder / "f.onnx"), full_check=True)
    wanted = f.interpret(*(() if parameters is None else (parameters,)), *args)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    theirs = ReferenceEvaluator(str(folder / "f.onnx"))
    found = theirs.run(None, dict(zip(theirs.input_names, args, strict=True)))
    again, held = load(folder / "f.onnx")
    ours = again.interpret(held, *args)
    for a, b, c in zip(wanted, found, ours if isinstance(ours, tuple) else (ours,), strict=True):
        assert np.asarray(a).dtype == b.dtype == np.asarray(c).dtype
        for other in (b, c):
            np.testing.assert_allclose(other, a, rtol=2e-5, atol=1e-6)


@pb.function
def several(x: Float64[Array, "N M"], w: Float64[Array, "M K"], i: Int64[Array, "N"]):
    """Products, windows, conditions on indices, reductions, positions, reads by data."""
    n, m = x.shape
    y = pb.tanh(x @ w) + pb.log1p(pb.abs(x[:, :1]))
    near = pb.build((n, m), lambda a, b: pb.sum_over(3, lambda k: x.at(a, b + k - 1, fill=0.0) * (k + 1.0)))
    some = pb.build(n, lambda a: x[pb.clip(i[a], 0, n - 1), 0] + pb.where(x[a, 0] > 0, 1.0, -2.0))
    return y, near[::-1].T, some, pb.argmax(x, axis=1), pb.max(x), pb.any(x > 1.0, axis=0), pb.tril(x)


def test_a_function_of_everything_that_onnx_has(tmp_path: Path) -> None:
    x, w = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
    there_and_back(several, tmp_path, x, w, np.array([2, 0, 7]), N=3, M=4, K=2)


def test_a_gradient(tmp_path: Path) -> None:
    @pb.function
    def loss(x: Float32[Array, "N M"], y: Float32[Array, "N"]):
        return pb.mean((pb.sum(pb.exp(-x * x), axis=1) - y) ** 2)

    x, y = (rng.normal(size=s).astype(np.float32) for s in ((3, 4), (3,)))
    there_and_back(pb.grad(loss, wrt="x"), tmp_path, x, y, N=3, M=4)


def test_a_network_with_its_parameters(tmp_path: Path) -> None:
    net = nn.sequential(
        nn.conv(3, 3, stride=2, padding=1), nn.batch_norm(), nn.relu, nn.max_pool(2), nn.flatten(), nn.dense(4)
    )
    net = net.on("2 1 8 8")
    parameters, state = net.init(seed=0)
    x = rng.normal(size=(2, 1, 8, 8)).astype(np.float32)

    def scores(parameters: Any, x: Any) -> Any:
        return net.apply(parameters, state, x)[0]

    types = function_types(net, (parameters, state), np.float32)
    scores.__annotations__ = {name: types[name] for name in ("parameters", "x")}
    there_and_back(pb.function(scores), tmp_path, x, parameters=parameters)


def test_what_onnx_has_not_is_listed_at_once(tmp_path: Path) -> None:
    @pb.function
    def odd(x: Float64[Array, "N"]):
        return pb.fold(3, x, lambda a, k: a * a + k), pb.sort(x), pb.nextafter(x, 2 * x)

    with pytest.raises(DataError, match=r"\[E524\] odd has what ONNX files here have not: .*nextafter") as caught:
        save(odd, tmp_path / "odd.onnx", N=4)
    assert "fold" in caught.value.what and "sort" in caught.value.what
    assert not (tmp_path / "odd.onnx").exists()
    with pytest.raises(DataError, match=r"\[E524\] odd: the dim N is not given"):
        save(odd, tmp_path / "odd.onnx")
