"""Order, transformations and loading ahead: each sample once, the same whatever the batch, the thread or the start."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from pullback import data
from pullback.data.loader import Samples, prefetch
from pullback.data.order import Draws, permutation, random_bits


def reference_bits(*counters: int) -> int:
    """SplitMix64's finalizer over the counters, in Python's integers."""
    mask, state = (1 << 64) - 1, 0
    for counter in counters:
        z = ((state ^ counter) + 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        state = z ^ (z >> 31)
    return state


def test_bits_are_those_of_the_paper() -> None:
    assert int(random_bits(0)) == 0xE220A8397B1DCDAF  # the first output of SplitMix64 from seed 0
    for counters in ((0,), (1, 2), (2**63, 5, 7)):
        assert int(random_bits(*counters)) == reference_bits(*counters)


def test_numbers_are_even() -> None:
    draws = Draws((0, 1), np.arange(100_000))
    counts = np.bincount(draws.integers(10))
    assert np.abs(counts - 10_000).max() < 4 * np.sqrt(9_000)
    uniform = draws.uniform()
    assert 0 <= uniform.min() < uniform.max() < 1
    assert uniform.mean() == pytest.approx(0.5, abs=4 / np.sqrt(12 * 100_000))
    assert abs(np.corrcoef(uniform, draws.uniform())[0, 1]) < 4 / np.sqrt(100_000)
    places = np.array([permutation(6, seed) for seed in range(6000)])
    for column in places.T:
        assert np.abs(np.bincount(column) - 1000).max() < 5 * np.sqrt(1000)


@pytest.mark.parametrize("count", [1, 7, 50])
def test_every_sample_once_in_an_epoch(count: int) -> None:
    """The order follows from seed and epoch alone: not from the batch, nor from where one begins."""
    x = np.arange(count)
    wholes = []
    for batch in (1, 3, 7, 100):
        source = Samples((x, x), batch, seed=4, drop_last=False)
        assert source.steps is not None
        parts = [source.stacked(2, k, 1)[0].ravel() for k in range(source.steps)]
        wholes.append(np.concatenate(parts).tolist())
    assert all(sorted(whole) == x.tolist() for whole in wholes)
    assert all(whole == wholes[0] for whole in wholes)
    if count == 50:
        assert Samples((x, x), 50, seed=4).stacked(3, 0, 1)[0].ravel().tolist() != wholes[0]
        assert Samples((x, x), 50, seed=5).stacked(2, 0, 1)[0].ravel().tolist() != wholes[0]


def test_stacked_batches() -> None:
    x = np.arange(20.0).reshape(10, 2)
    source = Samples({"x": x}, 3, shuffle=False)
    stacked = source.stacked(0, 1, 2)["x"]
    assert stacked.tolist() == x[3:9].reshape(2, 3, 2).tolist()
    assert np.shares_memory(stacked, x)  # nothing is copied in order
    assert (source.whole, source.steps, source.items) == (3, 3, 3)


def moved() -> data.Dataset:
    images = np.random.default_rng(0).normal(size=(12, 2, 6, 5)).astype(np.float32)
    return data.Dataset(images, np.arange(12)).transformed(
        data.random_crop((4, 5), padding=1), data.random_flip(), data.subtract(images.mean(0)[:, 1:5]),
        data.normalize(0.0, [[[2.0]], [[4.0]]]),
    )  # fmt: skip


def test_c29_transformations_are_what_they_say() -> None:
    """Every result is one of the windows, mirrored or not, and all of them occur."""
    dataset = moved()
    images = dataset.inputs
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    seen = set()
    for epoch in range(40):
        x, _ = dataset.batch(np.arange(12), seed=1, epoch=epoch)
        assert x.dtype == np.float32
        x = x * np.array([[[2.0]], [[4.0]]], np.float32) + images.mean(0)[:, 1:5]
        for n in range(12):
            found = [
                (i, j, flipped)
                for i in range(5)
                for j in range(3)
                for flipped in (False, True)
                if np.allclose(padded[n, :, i : i + 4, j : j + 5][..., :: -1 if flipped else 1], x[n], atol=1e-6)
            ]
            assert len(found) == 1
            seen.add(found[0])
    assert len(seen) == 5 * 3 * 2
    with pytest.raises(ValueError, match="a window of 9 × 9 in an image of 6 × 5"):
        data.Dataset(images, images).transformed(data.random_crop(9)).batch([0])


@pytest.mark.parametrize("rows", range(3, 9))
def test_c29_crops_of_the_middle(rows: int) -> None:
    """Both sides lose the same, or the rest is shared as by torchvision: round(rest / 2) rows above, to the even."""
    above = {0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 2}[rows - 3]
    images = np.arange(2 * 3 * rows * 5).reshape(2, 3, rows, 5)
    found, _ = data.Dataset(images, np.zeros(2)).transformed(data.center_crop((3, 3))).batch([1, 0])
    np.testing.assert_array_equal(found, images[[1, 0], :, above : above + 3, 1:4])
    with pytest.raises(ValueError, match=rf"a window of 9 × 9 in an image of {rows} × 5"):
        data.Dataset(images, images).transformed(data.center_crop(9)).batch([0])


def test_draws_follow_the_sample() -> None:
    """Alone, in another batch, or from a slice: a sample of an epoch is the same; in another epoch it is not."""
    dataset = moved()
    whole, _ = dataset.batch(np.arange(12), seed=1, epoch=5)
    again, _ = dataset.batch(slice(None), seed=1, epoch=5)
    assert np.array_equal(whole, again)
    for n in (7, 3):
        assert np.array_equal(dataset.batch(np.array([n]), seed=1, epoch=5)[0][0], whole[n])
    assert not np.array_equal(dataset.batch(np.arange(12), seed=1, epoch=6)[0], whole)
    assert not np.array_equal(dataset.batch(np.arange(12), seed=2, epoch=5)[0], whole)


# Loading ahead ----------------------------------------------------------------------------------------------------


def test_loading_overlaps_and_is_bounded() -> None:
    """While one thing is used, the next one is loaded, and none further."""
    loading: list[int] = []

    def load(epoch: int, first: int, count: int) -> int:
        assert threading.current_thread() is not threading.main_thread()
        loading.append(first)
        return 10 * first

    found = []
    for (_, first, _), value in prefetch(load, ((0, k, 1) for k in range(5))):
        deadline = time.monotonic() + 5
        while len(loading) < min(first + 2, 5) and time.monotonic() < deadline:
            time.sleep(0.001)
        assert loading == list(range(min(first + 2, 5)))
        found.append(value)
    assert found == [0, 10, 20, 30, 40]


def test_errors_come_where_what_failed_would_have() -> None:
    def load(epoch: int, first: int, count: int) -> int:
        if first == 2:
            raise ValueError("sample 2")
        return first

    found: list[Any] = []
    before = threading.active_count()
    with pytest.raises(ValueError, match="sample 2"):
        found.extend(value for _, value in prefetch(load, [(0, k, 1) for k in range(5)]))
    assert threading.active_count() == before
    loaded = prefetch(load, [(0, 0, 1), (0, 1, 1)])
    next(loaded)
    loaded.close()
    assert threading.active_count() == before


def test_what_is_quick_is_loaded_without_a_thread() -> None:
    where: list[int] = []

    def load(epoch: int, first: int, count: int) -> int:
        where.append(threading.get_ident())
        return first

    own = threading.get_ident()
    requests = [(0, k, 1) for k in range(6)]
    before = threading.active_count()
    assert [x for _, x in prefetch(load, requests, lambda *request: True)] == [*range(6)]
    assert (set(where), threading.active_count()) == ({own}, before)
    where.clear()
    assert [x for _, x in prefetch(load, requests, lambda epoch, first, count: first % 3 == 0)] == [*range(6)]
    assert [w == own for w in where].count(True) == 2


@pytest.mark.parametrize(("rows", "columns", "settings", "quick"), [
    (100, 4, {}, True), (100, 1 << 14, {}, False), (100, 1 << 14, {"shuffle": False}, True),
])  # fmt: skip
def test_views_and_small_copies_of_arrays_in_memory_are_quick(
    tmp_path: Any, rows: int, columns: int, settings: Any, quick: bool
) -> None:
    x = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (rows, columns))
    y = np.zeros(rows)
    assert Samples((np.array(x), y), 10, **settings).is_quick(0, 0, 1) is quick
    assert Samples(data.Dataset(np.array(x), y), 10, **settings).is_quick(0, 0, 1) is quick
    assert not Samples((x, y), 10, **settings).is_quick(0, 0, 1)  # reads a file
    scaled = data.Dataset(np.array(x), y).transformed(data.scale())
    assert not Samples(scaled, 10, **settings).is_quick(0, 0, 1)
    assert not Samples(data.Dataset(y, x), 10, **settings).is_quick(0, 0, 1)


def test_copies_of_many_batches_and_of_strided_arrays_are_not_quick() -> None:
    x = np.zeros((100, 1 << 12), np.float32)
    assert [Samples((x,), 10).is_quick(0, 0, count) for count in (1, 2)] == [True, False]
    assert [Samples((x[:, ::k],), 100, shuffle=False).is_quick(0, 0, 1) for k in (1, 2)] == [True, False]
