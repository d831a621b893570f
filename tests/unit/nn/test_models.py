"""The networks: what the training loop is told about them is true, and LeNet computes what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.nn import fit, sgd
from pullback.nn.models import BY_HAND, lenet_by_hand, recipe, zhang

Values = np.ndarray[Any, Any]


def module(name: str) -> Any:
    return {"zhang": zhang, "lenet": lenet_by_hand}[name]


@pytest.mark.parametrize("name", BY_HAND)
def test_the_recipe_of_a_network(name: str) -> None:
    found = recipe(name)
    assert found.name == name
    assert tuple(module(name).SHAPES) == found.init()._fields
    assert set(module(name).FANS) < set(module(name).SHAPES)
    assert found.batch_size >= 1


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_uniform_start(name: str, dtype: Any) -> None:
    parameters = recipe(name).init("uniform", seed=3, dtype=dtype)
    for field, shape in module(name).SHAPES.items():
        array = getattr(parameters, field)
        assert array.shape == shape
        assert array.dtype == dtype
        fans = module(name).FANS.get(field)
        if fans is None:
            assert not array.any()
        else:
            assert fans[0] == int(np.prod(shape[1:]))
            bound = np.sqrt(6 / sum(fans))
            assert np.abs(array).max() <= bound
            assert np.abs(array).max() > 0.9 * bound
            assert abs(array.mean()) < 4 * bound / np.sqrt(array.size)


def test_seeds() -> None:
    one, same, other = (zhang.start(seed=seed).k1 for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_element_types_draw_the_same_numbers() -> None:
    single, double = (zhang.start(dtype=dtype).fc for dtype in (np.float32, np.float64))
    assert np.array_equal(single, double.astype(np.float32))


def test_a23_constants() -> None:
    parameters = zhang.start("constant", dtype=np.float64)
    expected = {"k1": 1 / 25, "b1": 1 / 6, "k2": 1 / 150, "b2": 1 / 12, "fc": 1 / 192, "b": 1 / 10}
    for name, value in expected.items():
        assert np.unique(getattr(parameters, name)).tolist() == [value]


def images_and_labels(count: int) -> tuple[Values, Values]:
    random = np.random.default_rng(3)
    return random.random((count, 28, 28)), random.integers(0, 10, count).astype(np.uint8)


def start() -> lenet_by_hand.Parameters:
    """Parameters in float64 with biases that are not zero, so that nothing is left out by symmetry."""
    random = np.random.default_rng(1)
    parameters = lenet_by_hand.start(seed=2, dtype=np.float64)
    return type(parameters)(*(p + 0.01 * random.standard_normal(p.shape) for p in parameters))


def numpy_scores(parameters: lenet_by_hand.Parameters, images: Values) -> Values:
    p = parameters
    windows = np.lib.stride_tricks.sliding_window_view

    def pool(x: Values) -> Values:
        n, c, h, w = x.shape
        return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))

    c1 = np.einsum("nijpq,opq->noij", windows(images, (5, 5), (1, 2)), p.k1) + np.reshape(p.b1, (-1, 1, 1))
    s1 = pool(c1)
    c2 = np.einsum("ncijpq,ocpq->noij", windows(s1, (5, 5), (2, 3)), p.k2, optimize=True) + np.reshape(p.b2, (-1, 1, 1))
    s2 = pool(c2)
    h = np.maximum(np.einsum("ncij,ocij->no", s2, p.w3) + p.b3, 0)
    scores: Values = h @ np.transpose(p.w4) + p.b4
    return scores


def numpy_loss(parameters: lenet_by_hand.Parameters, images: Values, labels: Values) -> float:
    z = numpy_scores(parameters, images)
    z = z - z.max(1, keepdims=True)
    likely = z - np.log(np.exp(z).sum(1, keepdims=True))
    return float(-likely[np.arange(len(labels)), labels].mean())


@pytest.mark.slow
def test_lenet_scores_and_loss() -> None:
    parameters = start()
    images, labels = images_and_labels(3)
    assert np.allclose(lenet_by_hand.scores(parameters, images), numpy_scores(parameters, images), atol=1e-12)
    loss = float(lenet_by_hand.loss(parameters, images, labels))
    assert loss == pytest.approx(numpy_loss(parameters, images, labels))
    assert lenet_by_hand.recognize(parameters, images).tolist() == numpy_scores(parameters, images).argmax(1).tolist()


@pytest.mark.slow
def test_lenet_gradient_is_that_of_finite_differences() -> None:
    parameters = start()
    images, labels = images_and_labels(2)
    gradient = pb.grad(lenet_by_hand.loss, wrt="parameters")(parameters, images, labels)
    random = np.random.default_rng(0)
    step = 1e-6
    for name, array in parameters._asdict().items():
        flat = array.reshape(-1)
        derived = getattr(gradient, name).reshape(-1)
        assert derived.any(), name
        for n in random.choice(flat.size, min(flat.size, 5), replace=False):
            kept, values = flat[n], []
            for sign in (1, -1):
                flat[n] = kept + sign * step
                values.append(numpy_loss(parameters, images, labels))
            flat[n] = kept
            assert derived[n] == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-7), name


@pytest.mark.slow
def test_lenet_learns_a_handful_of_images() -> None:
    images, labels = images_and_labels(20)
    for image, label in zip(images, labels, strict=True):
        image[4 + 2 * label : 6 + 2 * label] += 2
    data = images.astype(np.float32), labels
    begin = {"parameters": lenet_by_hand.start(seed=1), "optimizer": sgd(0.05)}
    losses = fit(lenet_by_hand.batch_loss, data, **begin, epochs=12, batch_size=10, progress=False).history.losses
    assert losses[-1] < losses[0] / 2
