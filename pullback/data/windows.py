"""Windows of time series, each with the values after it as its target."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.data.dataset import Dataset
from pullback.data.settings import check_settings
from pullback.errors import DataError

__all__ = ["time_series_windows"]


def time_series_windows(series: Any, length: int, horizon: int = 1, stride: int = 1, *, targets: Any = None) -> Dataset:
    """Return the windows of a time series, each with the `horizon` values after it as its target.

    Args:
        series: (T, ...) values over time.
        length: the number of steps per window.
        horizon: the number of steps to predict.
        stride: the distance between the starts of windows.
        targets: (T, ...) another series to predict; by default `series`.
    Returns:
        Inputs (N, length, ...) and targets (N, horizon, ...), as views of the series.
    Raises:
        DataError: [E512] the series is shorter than a window with its target, or the targets have another length;
            [E508] a number is less than 1.
    Cost:
        Nothing is copied.

    >>> from pullback import data
    >>> windows = data.time_series_windows(np.arange(6), length=3, horizon=2)
    >>> windows.inputs.tolist(), windows.targets.tolist()
    ([[0, 1, 2], [1, 2, 3]], [[3, 4], [4, 5]])
    """
    given, wanted = np.asarray(series), np.asarray(series if targets is None else targets)
    numbers = (("length", length), ("horizon", horizon), ("stride", stride))
    check_settings("time_series_windows", *((name, x, x >= 1, "a whole number from 1") for name, x in numbers))
    count = len(given) - length - horizon + 1
    if count < 1 or len(wanted) != len(given):
        raise DataError(
            "E512",
            f"a series of {len(given)} steps makes no window of {length} with {horizon} behind it"
            if count < 1 else f"the series has {len(given)} steps, and the targets have {len(wanted)}",
            remedy="a longer series, or a shorter `length`" if count < 1 else "targets for the steps of the series",
        )  # fmt: skip
    every = slice(0, count, stride)
    return Dataset(_windows(given, length)[every], _windows(wanted, horizon)[length:][every], "windows")


def _windows(x: NDArray[Any], length: int) -> NDArray[Any]:
    return np.moveaxis(np.lib.stride_tricks.sliding_window_view(x, length, 0), -1, 1)
