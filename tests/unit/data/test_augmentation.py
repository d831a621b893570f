# ruff: noqa: E501
"""Random transforms against their formulas, pixel by pixel; mixtures, weighted sampling, folds and windows."""

from __future__ import annotations

import colorsys
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback import data, nn
from pullback.data import order
from pullback.data.loader import Samples
from pullback.data.order import weighted_choice
from pullback.errors import DataError

RNG = np.random.default_rng(0)
N = np.arange(12)
IMAGES = RNG.uniform(size=(12, 3, 8, 6)).astype(np.float32)


def made(transform: Any, images: Any = IMAGES, targets: Any = N, **draws: int) -> Any:
    return data.Dataset(images, targets).transformed(transform).batch(np.arange(len(images)), **draws)


TRANSFORMS: dict[str, Callable[[], Any]] = {
    "rotation": lambda: data.random_rotation(30),
    "affine": lambda: data.random_affine(10, (0.1, 0.2), (0.8, 1.2), 5, interpolation="nearest", fill=0.5),
    "erasing": lambda: data.random_erasing(0.7),
    "jitter": lambda: data.color_jitter(0.4, 0.4, 0.4, 0.1),
    "mixup": lambda: data.mixup(12, alpha=0.2),
    "cutmix": lambda: data.cutmix(12),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("kind", ["float32", "float64", "uint8"])
def test_draws_follow_the_sample(name: str, kind: str) -> None:
    """Alone, in another batch or from a slice, a sample of an epoch is the same; in another epoch it is not."""
    images = (IMAGES * 255).astype(kind) if kind == "uint8" else IMAGES.astype(kind)
    flip = data.random_flip()
    dataset = data.Dataset(images, N).transformed(flip, TRANSFORMS[name](), data.random_crop(5))
    whole, targets = dataset.batch(slice(None), seed=1, epoch=5)
    assert whole.dtype == (np.float32 if (name, kind) == ("mixup", "uint8") else images.dtype)
    assert whole.shape == (12, 3, 5, 5)
    for chosen in ([7], [3, 7, 3]):
        x, t = dataset.batch(np.array(chosen), seed=1, epoch=5)
        assert np.array_equal(x, whole[chosen]) and np.array_equal(t, targets[chosen])
    assert not np.array_equal(dataset.batch(slice(None), seed=1, epoch=6)[0], whole)
    assert not np.array_equal(dataset.batch(slice(None), seed=2, epoch=5)[0], whole)


# Geometry ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [-1, 0, 1, 2, 5])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_right_angles_are_those_of_numpy(turns: int, interpolation: Any) -> None:
    square = IMAGES[..., :6, :]
    large = RNG.uniform(size=(2, 33, 33))  # in double precision, the least error of an angle would show
    for images in (square, (square * 255).astype(np.uint8), np.arange(75).reshape(3, 5, 5), large):
        turn = data.random_rotation((90 * turns, 90 * turns), interpolation=interpolation)
        assert np.array_equal(made(turn, images, images)[0], np.rot90(images, turns, (-2, -1)))


@pytest.mark.parametrize("seed", range(4))
def test_affine_maps_of_a_plane(seed: int) -> None:
    """Linear interpolation is exact for a linear function, so values say where they were read."""
    y, x = np.mgrid[:9, :7]
    plane = np.broadcast_to(2.0 * x - 3.0 * y, (1, 9, 7))
    angle, lean, factor = RNG.uniform(-40, 40), RNG.uniform(-20, 20), RNG.uniform(0.7, 1.4)
    warp = data.random_affine((angle, angle), (0, 0), (factor, factor), (lean, lean), fill=np.nan)
    found = made(warp, plane, plane)[0][0]
    a, t = np.deg2rad(angle), np.tan(np.deg2rad(lean))
    # positions are (column, row), and rows grow downward: counterclockwise, and upper rows lean to the right
    forward = factor * np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]]) @ np.array([[1, -t], [0, 1]])
    source = np.einsum("ij,jyx->iyx", np.linalg.inv(forward), np.stack([x - 3.0, y - 4.0]))
    column, row = source[0] + 3, source[1] + 4
    inside = (column >= 0) & (column <= 6) & (row >= 0) & (row <= 8)
    edge = (np.abs(column - np.clip(column, 0, 6)) + np.abs(row - np.clip(row, 0, 8))) < 1e-6
    np.testing.assert_allclose(found[inside & edge], (2 * column - 3 * row)[inside & edge], atol=1e-8)
    assert np.isnan(found[~edge]).all()


def test_moves_and_fills() -> None:
    moves = set()
    image = np.zeros((200, 1, 8, 8), np.float32)
    image[:, 0, 4, 3] = 1
    found = made(data.random_affine(0, (0.25, 0.125), interpolation="nearest", fill=-1.0), image, image)[0]
    for one in found[:, 0]:
        ((row, column),) = np.argwhere(one == 1)
        moves.add((row - 4, column - 3))
        lost = np.ones((8, 8), bool)
        lost[max(0, row - 4) : 8 + min(0, row - 4), max(0, column - 3) : 8 + min(0, column - 3)] = False
        assert np.array_equal(one == -1, lost)
    assert moves == {(r, c) for r in (-1, 0, 1) for c in (-2, -1, 0, 1, 2)}


def test_interpolated_bytes_are_rounded() -> None:
    """Twice as large, two columns are read at 1/4 and 3/4."""
    found = made(data.random_affine(0, scale=(2.0, 2.0)), np.array([[[0, 3]]], np.uint8), np.zeros(1))[0]
    assert found.tolist() == [[[1, 2]]] and found.dtype == np.uint8


def test_ranges_of_angles_and_factors() -> None:
    """A bright square shows the factor by its size."""
    square = np.zeros((300, 41, 41))
    square[:, 15:26, 15:26] = 1
    found = made(data.random_affine(45, scale=(0.5, 2.0)), square, square)[0].sum((1, 2)) ** 0.5 / 11
    assert 0.45 < found.min() < 0.6 and 1.9 < found.max() < 2.1 and 1.15 < found.mean() < 1.35


# Erasing and color ------------------------------------------------------------------------------------------------


def test_one_rectangle_is_erased() -> None:
    images = np.ones((400, 2, 20, 30), np.float32)
    found = made(data.random_erasing(0.5, (0.1, 0.3), (0.5, 2.0), value=7.0), images, np.zeros(400))[0] == 7
    erased = 0
    for one in found:
        assert np.array_equal(one[0], one[1])
        rows, columns = one[0].any(1), one[0].any(0)
        assert np.array_equal(one[0], rows[:, None] & columns)
        if rows.any():
            erased += 1
            assert 0.08 < one[0].mean() < 0.33 and 0.4 < rows.sum() / columns.sum() < 2.4
    assert 160 < erased < 240
    assert (made(data.random_erasing(1.0, (0.1, 0.1), (1.0, 1.0)), images, np.zeros(400))[0] == 0).sum((2, 3)).min() == 64


def test_erased_rectangles_reach_every_edge() -> None:
    images = np.ones((400, 7, 8), np.float32)
    erased = made(data.random_erasing(1.0, (0.25, 0.25), (0.75, 0.75)), images, np.zeros(400))[0] == 0
    assert set(erased.sum((1, 2)).tolist()) == {12} and set(erased.any(1).sum(1).tolist()) == {4}
    assert set(erased.any(2).argmax(1).tolist()) == {0, 1, 2, 3, 4}  # the first of three rows
    assert set(erased.any(1).argmax(1).tolist()) == {0, 1, 2, 3, 4}  # and of four columns


def test_heights_and_widths_are_drawn_alike() -> None:
    """The logarithm of the ratio is uniform: as many rectangles are tall as are wide."""
    images = np.ones((500, 64, 64), np.float32)
    erased = made(data.random_erasing(1.0, (0.1, 0.1), (0.25, 4.0)), images, np.zeros(500))[0] == 0
    rows, columns = erased.any(2).sum(1), erased.any(1).sum(1)
    assert abs(np.mean(rows > columns) - np.mean(rows < columns)) < 0.15


def gray(r: float, g: float, b: float) -> float:
    return 0.2989 * r + 0.587 * g + 0.114 * b


def jittered(image: Any, b: float, c: float, s: float, h: float) -> Any:
    """The four changes in Python, pixel by pixel, with `colorsys` for the hue."""
    clip = lambda x: min(max(x, 0.0), 1.0)
    pixels = [[clip(v * b) for v in pixel] for pixel in image.reshape(3, -1).T.tolist()]
    mean = np.mean([gray(*pixel) for pixel in pixels])
    pixels = [[clip(mean + c * (v - mean)) for v in pixel] for pixel in pixels]
    pixels = [[clip(gray(*pixel) + s * (v - gray(*pixel))) for v in pixel] for pixel in pixels]
    out = []
    for pixel in pixels:
        hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
        out.append(colorsys.hsv_to_rgb((hue + h) % 1, saturation, value))
    return np.array(out).T.reshape(image.shape)


def test_colors_are_those_of_colorsys() -> None:
    images = np.concatenate([IMAGES, np.zeros((1, 3, 8, 6)), np.full((1, 3, 8, 6), 0.5)]).astype(np.float32)
    n = np.arange(len(images))
    draws = data.Draws((3, 2, 0), n)
    b, c, s, h = (draws.uniform(-a, a) for a in (0.4, 0.5, 0.6, 0.3))
    wanted = np.stack([jittered(images[k], 1 + b[k], 1 + c[k], 1 + s[k], h[k]) for k in n])
    found = made(data.color_jitter(0.4, 0.5, 0.6, 0.3), images, n, seed=3, epoch=2)[0]
    np.testing.assert_allclose(found, wanted, atol=2e-6)
    np.testing.assert_allclose(made(data.color_jitter(), images, n)[0], images, atol=1e-6)
    bytes_ = np.rint(images * 255).astype(np.uint8)
    near = made(data.color_jitter(0.4, 0.5, 0.6, 0.3), bytes_, n, seed=3, epoch=2)[0]
    assert near.dtype == np.uint8 and np.abs(near / 255 - wanted).max() < 0.02
    with pytest.raises(DataError) as caught:
        made(data.color_jitter(0.1), IMAGES[:, :1])
    assert str(caught.value) == (
        "DataError [E508] color_jitter takes images of three channels, N 3 H W\n"
        "   | images : float32[12, 1, 8, 6]\n"
        "  try: RGB images, or `np.repeat(images, 3, axis=1)`      See `pullback explain-error E508`"
    )


def test_factors_of_colors_are_not_negative() -> None:
    n = np.arange(12)
    draws = data.Draws((0, 0, 0), n)
    b, c, s, _ = (np.maximum(1 + draws.uniform(-a, a), 0) for a in (0.5, 3, 3, 0))
    assert (c == 0).any() and (s == 0).any()
    wanted = np.stack([jittered(IMAGES[k], b[k], c[k], s[k], 0.0) for k in n])
    np.testing.assert_allclose(made(data.color_jitter(0.5, 3, 3))[0], wanted, atol=2e-6)


# Mixtures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.5, 1.0, 4.0])
def test_shares_are_of_the_beta_distribution(alpha: float) -> None:
    """Its even central moments, and the halves of its distribution function where that is in closed form."""
    x = data.Draws((0,), np.arange(200_000)).beta(alpha) - 0.5
    assert x.min() >= -0.5 and x.max() <= 0.5 and abs(x.mean()) < 0.004
    assert np.mean(x**2) == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.01)
    assert np.mean(x**4) == pytest.approx(3 / (16 * (2 * alpha + 1) * (2 * alpha + 3)), rel=0.02)
    if alpha in (0.5, 1.0):  # the arcsine and the uniform distribution
        at = 0.25
        share = at if alpha == 1 else 2 / np.pi * np.arcsin(np.sqrt(at))
        assert np.mean(x + 0.5 < at) == pytest.approx(share, abs=0.005)


@pytest.mark.parametrize("make", [data.mixup, data.cutmix])
def test_mixtures_say_what_they_hold(make: Any) -> None:
    """Image k is all k, so its pixels say how much of which sample is in it."""
    images = np.broadcast_to(np.arange(10.0, dtype=np.float32)[:, None, None, None], (10, 1, 16, 16))
    seen = set()
    for epoch in range(20):
        x, t = made(make(10, alpha=0.7), images, np.arange(10), epoch=epoch)
        assert t.dtype == np.float32 and np.allclose(t.sum(1), 1)
        np.testing.assert_allclose(x.mean((1, 2, 3)), t @ np.arange(10), rtol=1e-5, atol=1e-5)
        for k in range(10):
            others = np.flatnonzero(t[k])
            assert len(others) <= 2
            seen |= {(k, int(o)) for o in others if o != k}
            if make is data.cutmix:
                assert set(np.unique(x[k])) <= {float(k), *map(float, others)}
    assert len(seen) > 60  # partners come from the whole data set


def test_mixtures_of_mixtures_and_of_distributions() -> None:
    soft = RNG.dirichlet(np.ones(4), 12).astype(np.float32)
    dataset = data.Dataset(soft, soft).transformed(data.mixup(4), data.mixup(4))
    x, t = dataset.batch(np.arange(12))
    np.testing.assert_allclose(x, t, atol=1e-6)
    assert not np.allclose(x, soft)


X_FOUR = np.zeros((4, 2, 2))


@pytest.mark.parametrize(("targets", "kind", "least", "most"), [
    ([0, 1, 2, 3], "int64[4]", 0, 3), ([0, 1, -1, 2], "int64[4]", -1, 2), ([[0], [1], [2], [0]], "int64[4, 1]", 0, 2),
    ([0.0, 1.0, 2.0, 2.0], "float64[4]", 0.0, 2.0),
])  # fmt: skip
def test_targets_that_cannot_be_mixed(targets: Any, kind: str, least: Any, most: Any) -> None:
    for make in (data.mixup, data.cutmix):
        with pytest.raises(DataError) as caught:
            make(3)((X_FOUR, np.array(targets)), (X_FOUR, np.array(targets)), data.Draws((0,), np.arange(4)))
        assert str(caught.value) == (
            "DataError [E513] mixed targets are labels from 0 to 2, one for each sample\n"
            f"   | targets : {kind}, from {least} to {most}\n"
            "  try: labels of shape (N,), distributions of shape (N, K), or another `num_classes`      "
            "See `pullback explain-error E513`"
        )


@pytest.mark.parametrize("alpha", [0.2, 4.0])
def test_shares_of_mixup_follow_alpha(alpha: float) -> None:
    t = made(data.mixup(500, alpha), np.zeros((500, 1)), np.arange(500))[1]
    assert np.var(np.diag(t)) == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.15)


def test_rectangles_of_cutmix() -> None:
    """With a large alpha the share is near 1/2, so the sides are near the root of 1/2, less what is cut off at edges."""
    images = np.broadcast_to(np.arange(400.0)[:, None, None], (400, 40, 20))
    x, _ = made(data.cutmix(400, alpha=1000.0), images, np.arange(400))
    pasted = x != images
    rows, columns = pasted.any(2).sum(1), pasted.any(1).sum(1)
    assert 26 <= rows.max() <= 30 and 12 <= columns.max() <= 14
    assert (rows >= 13).sum() == (rows > 0).sum() and pasted.any(0).all()  # also at the edges
    assert (pasted[:, -1].any(1).sum(), pasted[:, :, -1].any(1).sum()) == pytest.approx((140, 130), rel=0.3)
    small = made(data.cutmix(400, alpha=0.05), images, np.arange(400))[0] != images
    assert np.mean(small.sum((1, 2)) == 0) > 0.35  # nearly all or nothing


def test_partners_are_transformed_as_samples_are() -> None:
    """The other sample has passed the transforms before, with its own draws in this epoch."""
    noise = lambda inputs, draws: inputs + draws.uniform()[:, None]
    dataset = data.Dataset(np.zeros((9, 1)), np.arange(9)).transformed(noise)
    for epoch in (0, 3):
        alone = dataset.batch(slice(None), seed=4, epoch=epoch)[0]
        x, t = dataset.transformed(data.mixup(9)).batch(slice(None), seed=4, epoch=epoch)
        np.testing.assert_allclose(x, t @ alone, rtol=1e-6)


def test_equal_transforms_draw_for_themselves() -> None:
    note: list[Any] = []

    def draw(inputs: Any, draws: Any) -> Any:
        note.append(draws.uniform())
        return inputs

    data.Dataset(N, N).transformed(draw, draw).batch(slice(None))
    assert not np.isclose(*note).any()


def test_training_with_mixtures_and_weights_resumes(tmp_path: Path) -> None:
    x = RNG.normal(size=(60, 6)).astype(np.float32)
    k = (x[:, 0] > 0.8).astype(np.int64)
    train = data.Dataset(x, k).balanced().transformed(data.mixup(2, alpha=0.4))
    how: Any = {"optimizer": nn.adam(1e-2), "batch_size": 8, "progress": False, "validation_data": (x, k)}
    fit = lambda epochs, **options: nn.fit(nn.dense(2).on("N 6"), nn.cross_entropy, train, epochs=epochs, **how, **options)
    whole = fit(4, metrics=[nn.metrics.accuracy])
    fit(2, save=tmp_path, metrics=[nn.metrics.accuracy])
    resumed = fit(4, save=tmp_path, resume=True, metrics=[nn.metrics.accuracy])
    for name in ("w", "b"):
        assert np.array_equal(whole.parameters[name], resumed.parameters[name])
    assert whole.history["validation_loss"] == resumed.history["validation_loss"]


# Sampling and splits ----------------------------------------------------------------------------------------------


def test_weighted_epochs() -> None:
    weights = np.array([0.0, 1.0, 2.0, 5.0, 0.0, 2.0])
    counts = np.bincount(weighted_choice(weights, 100_000, 3), minlength=6)
    np.testing.assert_allclose(counts / 1e5, weights / 10, atol=0.008)
    six = data.Dataset(np.arange(6), np.arange(6)).weighted(weights)
    drawn = [Samples(six, 2, seed=1).stacked(epoch, k, 1)[0] for epoch in range(300) for k in range(3)]
    np.testing.assert_allclose(np.bincount(np.ravel(drawn), minlength=6) / 1800, weights / 10, atol=0.05)
    assert np.array_equal(Samples(six, 6, shuffle=False).stacked(0, 0, 1)[0].ravel(), np.arange(6))
    assert np.array_equal(Samples(six, 3, seed=1).samples(4, 0, 6), Samples(six, 2, seed=1).samples(4, 0, 6))
    other = six.weighted(weights[::-1])
    assert Samples(six, 2).fingerprint(None) != Samples(other, 2).fingerprint(None)
    assert six.split(0.5)[1].weights.tolist() == [5, 0, 2] and six.take(2).weights.tolist() == [0, 1]  # type: ignore[union-attr]
    for wrong in ([1.0] * 5, [-1.0] + [1.0] * 5, [np.nan] * 6, [np.inf] + [1.0] * 5, [0.0] * 6):
        with pytest.raises(DataError) as caught:
            six.weighted(wrong)
        assert str(caught.value) == (
            "DataError [E508] data: the weights are no numbers of at least 0, one for each of 6 samples\n"
            f"   | weights : float64[{len(wrong)}]\n"
            "  try: finite weights (N,), at least one positive      See `pullback explain-error E508`"
        )


@pytest.mark.parametrize("total", [1.0, 3.0, 1 + 2.0**-52, 0.1, 1e300])
def test_extreme_draws_choose_a_positive_weight(monkeypatch: pytest.MonkeyPatch, total: float) -> None:
    for bits in (0, 2**64 - 1):
        monkeypatch.setattr(order, "random_bits", lambda *counters, bits=bits: np.array([bits], np.uint64))
        assert weighted_choice(np.array([0.0, total, 0.0]), 1).tolist() == [1]


def test_balanced_epochs_draw_every_label_alike() -> None:
    labels = np.repeat([3, 5, 9], [900, 80, 20])
    epoch = labels[data.Dataset(np.zeros(1000), labels).balanced().order(0, 1)]
    assert len(epoch) == 1000 and all(abs(np.mean(epoch == k) - 1 / 3) < 0.06 for k in (3, 5, 9))
    with pytest.raises(DataError) as caught:
        data.Dataset(np.zeros(4), np.zeros((4, 2))).balanced()
    assert str(caught.value) == (
        "DataError [E507] data: balanced sampling needs one label for each sample\n   | targets: shape (4, 2)\n"
        "  try: labels of shape (N,), or `weighted`      See `pullback explain-error E507`"
    )


@pytest.mark.parametrize("seed", [None, 0, 7])
@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("folds", [2, 3, 7])
def test_folds_are_a_partition(folds: int, stratified: bool, seed: int | None) -> None:
    labels = RNG.integers(0, 3, 40)
    pairs = data.Dataset(np.arange(40), labels).k_fold(folds, seed, stratified=stratified)
    tests = [test.inputs.tolist() for _, test in pairs]
    assert sorted(itertools.chain(*tests)) == list(range(40)) and len(pairs) == folds
    assert all(train.inputs.tolist() == sorted(set(range(40)) - set(test)) for (train, _), test in zip(pairs, tests, strict=True))
    assert all(np.array_equal(labels[part.inputs], part.targets) for pair in pairs for part in pair)
    sizes = list(map(len, tests))
    assert max(sizes) - min(sizes) <= 1
    if stratified:
        counts = np.array([np.bincount(labels[test], minlength=3) for test in tests])
        assert (np.ptp(counts, 0) <= 1).all()
    elif seed is None:
        assert list(itertools.chain(*tests)) == list(range(40))
    else:
        assert tests != [test.inputs.tolist() for _, test in data.Dataset(np.arange(40), labels).k_fold(folds)]


def test_folds_that_there_are_not() -> None:
    three = data.Dataset(np.arange(3), np.zeros((3, 2)))
    for folds in (1, 4):
        with pytest.raises(DataError) as caught:
            three.k_fold(folds)
        assert str(caught.value) == (
            f"DataError [E508] data: {folds} folds of 3 samples\n"
            "  try: from 2 to 3 folds      See `pullback explain-error E508`"
        )
    assert [test.inputs.tolist() for _, test in three.k_fold(3)] == [[0], [1], [2]]  # leave one out
    with pytest.raises(DataError) as caught:
        three.k_fold(2, stratified=True)
    assert str(caught.value) == (
        "DataError [E507] data: a stratified split needs one label for each sample\n   | targets: shape (3, 2)\n"
        "  try: labels of shape (N,), or a split that is not stratified      See `pullback explain-error E507`"
    )


@pytest.mark.parametrize(("length", "horizon", "stride"), [(1, 1, 1), (3, 2, 1), (4, 1, 3), (5, 5, 2)])
@pytest.mark.parametrize("shape", [(11,), (11, 2), (11, 2, 3)])
def test_windows_of_a_series(shape: Any, length: int, horizon: int, stride: int) -> None:
    series, other = RNG.normal(size=shape), RNG.normal(size=(11, 4))
    starts = range(0, 11 - length - horizon + 1, stride)
    for targets in (None, other):
        windows = data.time_series_windows(series, length, horizon, stride, targets=targets)
        wanted = series if targets is None else targets
        assert np.array_equal(windows.inputs, [series[k : k + length] for k in starts])
        assert np.array_equal(windows.targets, [wanted[k + length : k + length + horizon] for k in starts])
        assert np.shares_memory(windows.inputs, series)


def test_windows_that_there_are_not() -> None:
    short, other = "a longer series, or a shorter `length`", "targets for the steps of the series"
    for call, text, remedy in (
        (lambda: data.time_series_windows(np.zeros(5), 4, 2), "a series of 5 steps makes no window of 4 with 2 behind it", short),
        (lambda: data.time_series_windows(np.zeros(5), 2, targets=np.zeros(4)), "the series has 5 steps, and the targets have 4", other),
    ):
        with pytest.raises(DataError) as caught:
            call()
        assert str(caught.value) == f"DataError [E512] {text}\n  try: {remedy}      See `pullback explain-error E512`"


FACTOR, COUNT, POSITIVE = "a number from 0", "a whole number from 1", "a number above 0"
ANGLES, CLASSES = "a number from 0, or a range (low, high)", "the number of classes, at least 1"
SHEAR = "a number from 0 to 89, or a range (low, high) within -89 and 89"


@pytest.mark.parametrize(("make", "wrong", "remedy"), [
    (data.random_rotation, {"degrees": -1}, ANGLES), (data.random_rotation, {"degrees": (3, 2)}, ANGLES),
    (data.random_rotation, {"degrees": np.inf}, ANGLES),
    (data.random_rotation, {"interpolation": "cubic"}, '"nearest" or "bilinear"'),
    (data.random_affine, {"degrees": (1, 2, 3)}, ANGLES),
    (data.random_affine, {"interpolation": None}, '"nearest" or "bilinear"'),
    *((data.random_affine, {"translate": t}, "two fractions from 0 to 1, of the width and of the height")
      for t in (0.1, (0.1, 1.5), (-0.1, 0.1))),
    *((data.random_affine, {"scale": s}, "a range (low, high) of factors above 0") for s in (2.0, (0.0, 1.0), (2.0, 1.0))),
    *((data.random_affine, {"shear": s}, SHEAR) for s in (90, -5, (-90, 0), (3, 2))),
    *((data.random_erasing, {"p": p}, "a probability from 0 to 1") for p in (-0.1, 1.1, np.nan, "half")),
    *((data.random_erasing, {"scale": s}, "a range (low, high) within 0 and 1") for s in (0.1, (0.3, 0.1), (0.5, 1.5))),
    *((data.random_erasing, {"ratio": r}, "a range (low, high) of numbers above 0") for r in ((0, 1), (2, 1), (1, np.inf))),
    *((data.color_jitter, {name: -0.1}, FACTOR) for name in ("brightness", "contrast", "saturation")),
    *((data.color_jitter, {"hue": h}, "a number from 0 to 0.5") for h in (-0.1, 0.6)),
    *((make, {"num_classes": n}, CLASSES) for make in (data.mixup, data.cutmix) for n in (0, 2.5)),
    *((make, {"alpha": a}, POSITIVE) for make in (data.mixup, data.cutmix) for a in (0, -1.0, np.nan)),
    *((data.time_series_windows, {name: 0}, COUNT) for name in ("length", "horizon", "stride")),
])  # fmt: skip
def test_settings_out_of_range(make: Any, wrong: dict[str, Any], remedy: str) -> None:
    needed: Any = {
        data.random_rotation: {"degrees": 0}, data.random_affine: {"degrees": 0}, data.mixup: {"num_classes": 2},
        data.cutmix: {"num_classes": 2}, data.time_series_windows: {"series": N, "length": 2},
    }  # fmt: skip
    with pytest.raises(DataError) as caught:
        make(**{**needed.get(make, {}), **wrong})
    ((name, value),) = wrong.items()
    assert str(caught.value) == (
        f"DataError [E508] {make.__name__}: {name}={value!r}\n  try: {remedy}      See `pullback explain-error E508`"
    )


def test_settings_at_the_ends_of_their_ranges() -> None:
    for transform in (
        data.random_affine(np.float32(0), (0, 1), (1, 1), 89), data.random_erasing(0, (0, 1), (1, 1)), data.random_erasing(1),
        data.color_jitter(0, 0, 0, 0.5), data.random_rotation([0, 0]),
    ):  # fmt: skip
        assert np.isfinite(made(transform)[0]).all()
