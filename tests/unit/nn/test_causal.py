"""Causal attention in blocks beside NumPy: values in extended precision, derivatives by complex steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.nn.layers.causal import SHORTEST, causal_attention
from pullback.onnx import save

NDArray = np.ndarray[Any, Any]


def by_hand(q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None) -> NDArray:
    """Softmax(q kᵀ / √D) v of each step over itself and earlier ones, in the precision of the arguments."""
    _, steps, heads, share = q.shape
    each = heads // k.shape[2]
    k, v = (np.repeat(x, each, axis=2) for x in (k, v))
    s = np.einsum("nihm,njhm->nhij", q, k) / np.sqrt(q.real.dtype.type(share))
    seen = np.tril(np.ones((steps, steps), bool))[None, None]
    if mask is not None:
        seen = seen & (mask[:, None, None, :] if mask.ndim == 2 else mask[:, None])
    top = np.max(np.where(seen, s.real, -np.inf), axis=-1, keepdims=True)
    w = np.where(seen, np.exp(np.where(seen, s - np.where(np.isinf(top), 0, top), 0)), 0)
    total = w.sum(axis=-1, keepdims=True)
    return np.einsum("nhij,njhm->nihm", w / np.where(total == 0, 1, total), v)


def case(steps: int, heads: int = 2, groups: int = 2, share: int = 3, masked: int = 0) -> list[NDArray]:
    """Queries, keys and values, and a mask of this rank; some steps then attend to nothing."""
    random = np.random.default_rng(steps)
    q, k, v = (random.normal(size=(2, steps, h, share)) for h in (heads, groups, groups))
    if not masked:
        return [q, k, v]
    mask = random.random((2, steps, steps)[:masked]) > 0.4
    mask[1, :70] = False
    return [q, k, v, mask]


@pb.function
def attend(q: Any, k: Any, v: Any, *mask: Any) -> Any:
    return causal_attention(q, k, v, mask[0] if mask else None)


CASES = [(192, 2, 2, 3, 0), (193, 4, 2, 2, 0), (255, 2, 1, 3, 2), (200, 1, 1, 2, 3)]


@pytest.mark.parametrize(("dtype", "most"), [(np.float32, 2e-6), (np.float64, 4e-15)])
@pytest.mark.parametrize("sizes", CASES)
def test_values(sizes: tuple[int, ...], dtype: Any, most: float) -> None:
    arrays = case(*sizes)
    (*numbers,) = (a.astype(dtype) for a in arrays[:3])
    wanted = by_hand(*(a.astype(np.longdouble) for a in numbers), *arrays[3:])
    assert abs(attend(*numbers, *arrays[3:]) - wanted).max() < most
    assert abs(attend.interpret(*numbers, *arrays[3:]) - wanted).max() < most


@pytest.mark.slow
@pytest.mark.parametrize("sizes", CASES)
def test_gradients_are_complex_steps(sizes: tuple[int, ...]) -> None:
    q, k, v, *mask = case(*sizes)
    random = np.random.default_rng(1)
    g, *directions = (random.normal(size=x.shape) for x in (q, q, k, v))

    @pb.function
    def gradients(q: Any, k: Any, v: Any, g: Any, *mask: Any) -> Any:
        return pb.grad(lambda q, k, v: pb.sum(causal_attention(q, k, v, mask[0] if mask else None) * g),
                       wrt=("q", "k", "v"))(q, k, v)  # fmt: skip

    found = gradients(q, k, v, g, *mask)
    for at, direction in enumerate(directions):
        moved = [x + 1e-30j * direction if at == place else x for place, x in enumerate((q, k, v))]
        wanted = np.sum(by_hand(*moved, *mask).imag * g) / 1e-30
        assert np.sum(found[at] * direction) == pytest.approx(wanted, rel=1e-11, abs=1e-11)


@pytest.mark.slow
def test_forward_and_second_derivatives() -> None:
    """Forward mode transposes the rule; a second derivative differentiates it."""
    q, k, v = case(200, share=2)
    random = np.random.default_rng(2)
    g, a, b = (random.normal(size=x.shape) for x in (q, q, k))

    @pb.function
    def tangent(q: Any, k: Any, v: Any, a: Any) -> Any:
        return pb.jvp(lambda q: causal_attention(q, k, v, None))((q,), (a,))[1]

    @pb.function
    def mixed(q: Any, k: Any, v: Any, g: Any, a: Any) -> Any:
        def slope(k: Any) -> Any:
            return pb.sum(pb.grad(lambda q: pb.sum(pb.sin(causal_attention(q, k, v, None)) * g))(q) * a)

        return pb.grad(slope)(k)

    def slope_by_hand(k: NDArray) -> float:
        y = by_hand(q + 1e-30j * a, k, v)
        return float(np.sum(np.sin(y).imag * g) / 1e-30)

    assert abs(tangent(q, k, v, a) - by_hand(q + 1e-30j * a, k, v).imag / 1e-30).max() < 1e-13
    wanted = (slope_by_hand(k + 1e-5 * b) - slope_by_hand(k - 1e-5 * b)) / 2e-5
    assert np.sum(mixed(q, k, v, g, a) * b) == pytest.approx(wanted, rel=1e-8)


def test_rows_whose_first_scores_are_minus_infinity() -> None:
    q, k, v = case(200)
    q[..., 0], k[:, :70, :, 0] = 1, -np.inf
    found = attend(q, k, v)
    assert np.isnan(found[:, :70]).all()  # no score is finite
    k[:, :70] = 0
    mask = np.broadcast_to(np.arange(200) >= 70, (2, 200))
    assert abs(found[:, 70:] - by_hand(q, k, v, mask)[:, 70:]).max() < 1e-14


def test_numbers_that_are_nan_reach_the_steps_that_attend_to_them() -> None:
    q, k, v = case(200)
    k[0, 100, 0, 0] = np.nan
    found = np.isnan(attend(q, k, v))
    assert found[0, 100:, 0].all() and found.sum() == 100 * 3


def test_only_blocks_are_stored() -> None:
    """The weights of 1,024 steps and two heads would have 8 MB, and a derivative stores two arrays like that."""

    @pb.function
    def gradient(q: Any, k: Any, v: Any) -> Any:
        return pb.grad(lambda q, k, v: pb.sum(pb.sin(causal_attention(q, k, v, None))), wrt=("q", "k", "v"))(q, k, v)

    x = np.zeros((1, 1024, 2, 8), np.float32)
    gradient(x, x, x)
    assert gradient.memory().peak_bytes < 500_000


def test_devices_and_exact_programs_take_whole_arrays() -> None:
    x = np.random.default_rng(0).normal(size=(1, 200, 2, 3)).astype(np.float32)

    def own(q: Any) -> Any:
        return causal_attention(q, q, q, None)

    f = pb.function(own)
    f(x)
    launches = f.explain(device="cuda").stages[-3].text
    assert "repeat" not in launches and "launches of a call: 3;" in launches
    assert f.memory().peak_bytes < 200 * 200 * 2 * 4
    with pb.exact():
        exact = pb.function(own)
        assert abs(exact(x) - by_hand(*3 * [x.astype(np.longdouble)])).max() < 2e-6
        assert exact.memory().peak_bytes > 200 * 200 * 2 * 4


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_layer_has_blocks_from_three_of_them_on(dropout: float) -> None:
    """In training with dropout, a random number belongs to each weight, so that all are stored."""

    def memory(steps: int, training: bool) -> int:
        net = nn.attention(2, is_causal=True, dropout=dropout).on(f"N {steps} 4")
        f = pb.function(lambda p, s, x: net.apply(p, s, x, training=training)[0])
        x = np.random.default_rng(0).normal(size=(2, steps, 4)).astype(np.float32)
        assert np.isfinite(f(*net.init(seed=0), x)).all()
        peak: int = f.memory().peak_bytes
        return peak

    weights = 2 * 2 * SHORTEST**2 * 4
    assert memory(SHORTEST - 1, False) > 0.98 * weights
    assert memory(SHORTEST, False) < 0.5 * weights
    assert (memory(SHORTEST, True) > 0.98 * weights) == (dropout > 0)


def test_onnx_files_have_whole_arrays(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    q, k, v = case(192)
    attend(q, k, v)
    save(attend, tmp_path / "attend.onnx")
    graph = onnx.load(tmp_path / "attend.onnx").graph
    assert not {"If", "Loop", "Scan"} & {n.op_type for n in graph.node}
