"""Data that is wrong: NaN by row, channels on another axis, inputs and iterables that end early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pullback import nn
from pullback.data import Dataset
from pullback.data.loader import Samples
from pullback.errors import DataError
from pullback.nn.training.layout import layout_remedy

X = np.random.default_rng(0).normal(size=(40, 1, 6, 6)).astype(np.float32)
LABELS = np.arange(40) % 3
NET = nn.sequential(nn.conv(2, 3), nn.relu, nn.max_pool(2), nn.flatten(), nn.dense(3))


def said(data: Any, net: Any = NET, **options: Any) -> list[str]:
    how = {"optimizer": nn.sgd(0.1), "epochs": 2, "progress": False, **options}
    with pytest.raises(DataError) as caught:
        nn.fit(net, nn.cross_entropy, data, **how)
    return str(caught.value).splitlines()


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("batch_size", [1, 8, 32])
def test_nan_in_images_is_named_by_its_row(batch_size: int, shuffle: bool) -> None:
    images = X.copy()
    images[17, 0, 4, 5] = np.nan
    first, fact, *_ = said((images, LABELS), batch_size=batch_size, shuffle=shuffle, seed=3, drop_last=False)
    order = np.arange(40)[Samples((X,), batch_size, seed=3, shuffle=shuffle).samples(0, 0, 40)]
    batch, sample = divmod(order.tolist().index(17), batch_size)
    assert first == f"DataError [E514] the loss is nan in batch {batch + 1} of epoch 1"
    assert fact == f"   | inputs[{sample}, 0, 4, 5] is nan in sample {sample} of the batch, row 17 of the data"


def test_nan_in_an_iterable_is_named_by_its_sample() -> None:
    images = np.where(np.arange(40)[:, None, None, None] == 17, np.inf, X).astype(np.float32)
    batches = [(images[k : k + 8], LABELS[k : k + 8]) for k in range(0, 40, 8)]
    first, fact, *_ = said(batches)
    assert first == "DataError [E514] the loss is nan in batch 3 of epoch 1"
    assert fact == "   | inputs[1, 0, 0, 0] is inf in sample 1 of the batch"


LAST, FIRST = "the sizes are those of N H W C", "the sizes are those of N C H W"


@pytest.mark.parametrize(("shape", "wanted", "remedy"), [
    ((8, 28, 28, 1), "N 1 28 28", LAST), ((8, 32, 32, 3), "N C H W", LAST), ((8, 32, 20, 3), "N 3 H W", LAST),
    ((8, 3, 32, 32), "N H W C", FIRST), ((8, 1, 28, 28), "N 28 28 1", FIRST), ((8, 3, 9, 7), "N H W 3", FIRST),
    ((8, 9, 9, 4), "N C H W", LAST),
    ((8, 1, 28, 28), "N 1 28 28", None), ((8, 28, 28, 1), "N 28 28 1", None), ((8, 3, 32, 32), "N C H W", None),
    ((8, 28, 28, 1), "N 3 28 28", None), ((8, 6, 4, 3), "N C H W", None), ((8, 16, 16, 16), "N C H W", None),
    ((8, 3, 3, 3), "N 3 H W", None), ((8, 28, 28), "N 1 28 28", None), ((8, 28, 28, 1), "N M", None),
])  # fmt: skip
def test_layouts_that_sizes_show(shape: Any, wanted: str, remedy: str | None) -> None:
    found = layout_remedy(shape, wanted.split())
    assert found is remedy if remedy is None else found is not None and found.startswith(remedy)


def test_channels_on_another_axis() -> None:
    wrong = np.moveaxis(X, 1, -1)
    for net, takes in ((NET, "N C H W"), (NET.on("N 1 6 6"), "N 1 6 6")):
        assert said((wrong, LABELS), net) == [
            f"DataError [E508] {net} takes {takes}",
            "   | a batch of the data is float32[32, 6, 6, 1]",
            "  try: the sizes are those of N H W C: `np.moveaxis(images, -1, 1)` gives N C H W; "
            '`net.on("N 6 6 1")` if they are right as they are      See `pullback explain-error E508`',
        ]
    tall = nn.sequential(nn.conv(2, (3, 1)), nn.flatten(), nn.dense(3)).on("N 6 6 1")
    run = nn.fit(tall, nn.cross_entropy, (wrong, LABELS), optimizer=nn.sgd(0.1), epochs=1, progress=False)
    assert run.stop_reason == "finished"


class Short:
    """Images whose last 20 are gone, though their number is still said."""

    dtype, shape = X.dtype, X.shape

    def __len__(self) -> int:
        return 40

    def __getitem__(self, samples: Any) -> Any:
        chosen = np.arange(40)[samples]
        return X[chosen[chosen < 20]]


def test_labels_of_validation_data_are_checked_before_training() -> None:
    assert said((X, LABELS), validation_data=(X, LABELS + 1)) == [
        "DataError [E513] validation data: the label of sample 2 is 3, and there are 3 classes",
        "   | labels outside of 0 … 2: 13 of 40",
        "  try: labels from 0 to 2, or a network with more classes      See `pullback explain-error E513`",
    ]


def test_inputs_that_end_early() -> None:
    assert said(Dataset(Short(), LABELS, "mine"), batch_size=8, shuffle=False) == [
        "DataError [E512] mine: 40 samples were asked for, and the inputs gave 20",
        "   | len(inputs) : 40",
        "  try: inputs that hold as many samples as their `len` says      See `pullback explain-error E512`",
    ]


@pytest.mark.slow
def test_iterables_that_end_early() -> None:
    batches = [(X[k : k + 8], LABELS[k : k + 8]) for k in range(0, 40, 8)]
    wanted = ["DataError [E512] generator: no batches in epoch 2", "   | the epoch before had 5 batches"]
    assert said(iter(b for b in batches))[:2] == wanted
    assert said(iter(b for b in batches), epochs=None, steps=20)[:2] == wanted
    assert said((X, LABELS), validation_data=iter(b for b in batches))[:2] == wanted
