# ruff: noqa: E402
"""Traced functions as ONNX files: onnx's own evaluator gives our values, and so do files that are read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32, Float64, Int64

onnx = pytest.importorskip("onnx", reason="ONNX files need the extra onnx")

import pullback as pb
from pullback import Array, nn
from pullback.errors import DataError, ShapeError, TraceError
from pullback.onnx import load, save
from tests.unit.onnx.saved import CASES, arrays, evaluated, inputs, settings

rng = np.random.default_rng(0)


def there_and_back(f: Any, folder: Path, *args: Any, parameters: Any = None, **dims: int) -> None:
    """The same numbers from f, from its file by onnx, and from its file by us."""
    save(f, folder / "f.onnx", parameters, **dims)
    onnx.checker.check_model(onnx.load(folder / "f.onnx"), full_check=True)
    wanted = f.interpret(*(() if parameters is None else (parameters,)), *args)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    found = evaluated(folder / "f.onnx", args)
    again, held = load(folder / "f.onnx")
    ours = again.interpret(held, *args)
    ours = ours if isinstance(ours, tuple) else (ours,)
    for results in (ours, ours if found is None else found):
        for a, b in zip(wanted, results, strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_allclose(b, a, rtol=2e-5, atol=1e-6)


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_networks(name: str, dtype: Any, tmp_path: Path) -> None:
    case, file = CASES[name], tmp_path / "net.onnx"
    parameters, state = arrays(case, dtype)
    save(case.net, file, parameters, state)
    onnx.checker.check_model(onnx.load(file), full_check=True)
    written = {node.op_type for node in onnx.load(file).graph.node}
    if dtype is np.float32:
        assert written >= set(case.operators) and not written & set(case.without)
    again, held = load(file)
    bound = 1e-5 if dtype is np.float32 else 1e-7 if "Erf" in written else 1e-10  # onnx computes Erf in float32
    for x in inputs(case, dtype):
        wanted = case.net.function(dtype).interpret(parameters, state, x)
        for found in (*(evaluated(file, [x]) or ()), again.interpret(held, x)):
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound)


@pytest.mark.slow
def test_settings_of_layers(tmp_path: Path) -> None:
    """Asymmetric padding, dilation, groups, averages with and without the padding, epsilons, directions, axes."""
    for name, case in settings().items():
        parameters, state = arrays(case, np.float32)
        save(case.net, tmp_path / "net.onnx", parameters, state)
        assert {node.op_type for node in onnx.load(tmp_path / "net.onnx").graph.node} >= set(case.operators), name
        again, held = load(tmp_path / "net.onnx")
        for x in inputs(case, np.float32):
            wanted = case.net.function(np.float32).interpret(parameters, state, x)
            results = [again.interpret(held, x)]
            if name != "MaxPool {'stride': 1, 'padding': (1, 0)}":  # onnx takes its pads in pairs; onnxruntime does not
                results += evaluated(tmp_path / "net.onnx", [x]) or ()
            for found in results:
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, err_msg=name)


def test_a_layer_of_the_user_with_the_name_of_ours(tmp_path: Path) -> None:
    def relu(x: Any) -> Any:
        return 2.0 * x

    net = nn.sequential(relu, nn.dense(2)).on("N 3")
    save(net, tmp_path / "net.onnx", *net.init())
    assert "Relu" not in {n.op_type for n in onnx.load(tmp_path / "net.onnx").graph.node}


def test_marks_do_not_stay() -> None:
    net = CASES["LeNet"].net
    assert all(type(s).__name__ != "Marked" for s in net.function().for_dims({})[0].body.statements)


def test_open_sizes_of_a_function(tmp_path: Path) -> None:
    @pb.function
    def f(x: Float64[Array, "N M 6"]):
        n, m, _ = x.shape
        flat, parts = pb.reshape(x, (n * m, 6)), pb.reshape(x, (n, m, 2, 3))
        later = pb.build((n, m), lambda a, b: x.at(a, b - 1, 0, fill=0.0) + b)
        turned, ordered = pb.permute_dims(parts, (0, 2, 1, 3)), pb.sort(x[:, :, 0], axis=1)
        return flat, turned, x[::-1], later, ordered, pb.mean(x, axis=0)

    save(f, tmp_path / "f.onnx")
    again, held = load(tmp_path / "f.onnx")
    for shape in ((1, 2, 6), (3, 4, 6)):
        x = rng.normal(size=shape)
        wanted, ours = f.interpret(x), again.interpret(held, x)
        for a, b, c in zip(wanted, evaluated(tmp_path / "f.onnx", [x]) or (), ours, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-10)
            np.testing.assert_allclose(c, a, rtol=1e-10)


def test_loops_and_branches(tmp_path: Path) -> None:
    @pb.function
    def f(x: Float64[Array, "N"], k: Int64[Array, ""]):
        total, rows = pb.scan(4, x, lambda a, t: (a * 0.5 + t, a.sum()))
        halved = pb.while_loop(lambda a: pb.sum(a) > 1.0, lambda a: a / 2, pb.abs(x), max_trips=50)
        return total, rows, halved, pb.cond(k > 0, lambda: x + 1, lambda: -x)

    for k in (0, 1):
        there_and_back(f, tmp_path, np.array([3.0, -1.0, 2.0]), np.int64(k))
    kinds = {node.op_type for node in onnx.load(tmp_path / "f.onnx").graph.node}
    assert kinds >= {"Scan", "Loop", "If"}


def test_parameters_of_another_network(tmp_path: Path) -> None:
    net, other = nn.dense(3).on("N 4"), nn.dense(2).on("N 4")
    with pytest.raises(ShapeError, match=r"\[E161\] onnx.save: b is \[2\]"):
        save(net, tmp_path / "net.onnx", *other.init())
    with pytest.raises(TraceError, match=r"\[E149\] onnx.save was given a network without parameters"):
        save(net, tmp_path / "net.onnx")


def test_what_onnx_has_not_is_listed_at_once(tmp_path: Path) -> None:
    @pb.function
    def odd(x: Float64[Array, "N"]):
        return pb.bitwise_left_shift(pb.astype(x, pb.int64), 1), pb.nextafter(x, 2 * x)

    with pytest.raises(DataError, match=r"\[E524\] odd has what ONNX files here have not: .*nextafter") as caught:
        save(odd, tmp_path / "odd.onnx", N=4)
    assert "shift" in caught.value.what
    assert not (tmp_path / "odd.onnx").exists()
