"""Rules that follow a column of the history: early stopping and the learning rate on a plateau.

A rule depends only on the history, so a resumed run decides as an uninterrupted one does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pullback.errors import UsageError
from pullback.nn.training.history import VALIDATION_LOSS, History, nearest

__all__ = ["EarlyStopping", "Monitor", "ReduceLROnPlateau"]


class Monitor:
    """The base of rules: a column of the history, and which of its values is better."""

    monitor: str | None
    min_delta: float
    mode: Literal["min", "max"]

    def __post_init__(self) -> None:
        self._check(
            ("min_delta", self.min_delta, _is_number(self.min_delta, float) and self.min_delta >= 0,
             "a number of at least 0"),
            ("mode", self.mode, self.mode in ("min", "max"),
             '"min" where smaller is better, as for a loss, or "max" where larger is, as for an accuracy'),
        )  # fmt: skip

    @property
    def column(self) -> str:
        """The column and its mode as text."""
        return f"{self.mode} {self.monitor or 'loss'}"

    def _check(self, *given: tuple[str, Any, bool, str]) -> None:
        for name, value, fits, remedy in given:
            if not fits:
                raise UsageError("E518", f"{type(self).__name__}: {name}={value!r}", remedy=remedy)

    def check(self, names: Sequence[str]) -> str:
        """Check the monitored column against a history's columns; return its name.

        Raises:
            UsageError: [E518] the column does not exist.
        """
        name = self.monitor or (VALIDATION_LOSS if VALIDATION_LOSS in names else "loss")
        if name not in names:
            more = "" if VALIDATION_LOSS in names else "; `validation_data=` adds `validation_loss` and the metrics"
            raise UsageError(
                "E518",
                f"{type(self).__name__}: monitor={name!r} is no column of the history",
                remedy=nearest(name, [n for n in names if n != "epoch"]) + more,
            )
        return name

    def values(self, history: History) -> list[float]:
        """The monitored values, with the sign for which smaller is better."""
        if not history.rows:
            return []
        sign = -1 if self.mode == "max" else 1
        return [sign * value for value in history[self.check(history.names)]]

    def improvements(self, history: History) -> Iterator[bool]:
        """For each epoch, whether its value is better than all before by more than `min_delta`."""
        best = float("inf")
        for value in self.values(history):
            improves = value < best - self.min_delta
            best = value if improves else best
            yield improves


@dataclass(frozen=True)
class EarlyStopping(Monitor):
    """Stop training when the monitored value has not improved for `patience` epochs.

    Args:
        patience: epochs without improvement after which training ends.
        monitor: a column of the history; by default `validation_loss` if there is validation data, else `loss`.
        min_delta: the smallest change that counts as an improvement.
        mode: "min" if smaller is better, as for a loss; "max" if larger is better, as for an accuracy.
        restore_best: whether the run gives the parameters and the state of the best epoch instead of the last.
    Raises:
        UsageError: [E518] a setting is out of range, or `fit` finds no such column. `fit` checks this before training.
    Cost:
        A copy of the parameters and the state for each new best epoch.

    >>> from pullback import nn
    >>> stop = nn.EarlyStopping(patience=2)
    >>> [stop(nn.History(tuple({"loss": x} for x in losses))) for losses in ([3, 2, 2.5], [3, 2, 2.5, 2.2])]
    [False, True]
    """

    patience: int
    monitor: str | None = None
    min_delta: float = 0.0
    mode: Literal["min", "max"] = "min"
    restore_best: bool = True

    def __post_init__(self) -> None:
        self._check(("patience", self.patience, _is_number(self.patience, int) and self.patience >= 1, EPOCHS))
        super().__post_init__()

    def __call__(self, history: History) -> bool:
        """Whether training should end."""
        since = 0
        for improves in self.improvements(history):
            since = 0 if improves else since + 1
        return since >= self.patience


@dataclass(frozen=True)
class ReduceLROnPlateau(Monitor):
    """Multiply the learning rate by `factor` after `patience` epochs without improvement, each time.

    For `callbacks=` of `nn.fit`. It scales the updates of any optimizer, also one with a schedule.

    Args:
        factor: from above 0 to below 1.
        patience: epochs without improvement before each reduction.
        cooldown: epochs after a reduction that do not count as such.
        min_factor: the smallest product of the reductions.
        monitor, min_delta, mode: as for `EarlyStopping`.
    Raises:
        UsageError: [E518] a setting is out of range, or `fit` finds no such column.
    Cost:
        A multiplication for each parameter in every update.

    >>> from pullback import nn
    >>> reduce = nn.ReduceLROnPlateau(factor=0.5, patience=2)
    >>> reduce.scale(nn.History(tuple({"loss": x} for x in (3, 2, 2, 2, 2, 2))))
    0.25
    """

    factor: float = 0.1
    patience: int = 10
    monitor: str | None = None
    min_delta: float = 1e-4
    mode: Literal["min", "max"] = "min"
    cooldown: int = 0
    min_factor: float = 0.0

    def __post_init__(self) -> None:
        self._check(
            ("factor", self.factor, _is_number(self.factor, float) and 0 < self.factor < 1, "above 0 and below 1"),
            ("patience", self.patience, _is_number(self.patience, int) and self.patience >= 1, EPOCHS),
            ("cooldown", self.cooldown, _is_number(self.cooldown, int) and self.cooldown >= 0,
             "a number of epochs, at least 0"),
            ("min_factor", self.min_factor, _is_number(self.min_factor, float) and 0 <= self.min_factor <= 1,
             "from 0 to 1"),
        )  # fmt: skip
        super().__post_init__()

    def scale(self, history: History) -> float:
        """The factor of the learning rate after these epochs."""
        reductions = since = rest = 0
        for improves in self.improvements(history):
            since = 0 if improves or rest else since + 1
            rest = max(0, rest - 1)
            if since == self.patience:
                reductions, since, rest = reductions + 1, 0, self.cooldown
        return max(float(self.factor**reductions), float(self.min_factor))


EPOCHS = "a number of epochs, at least 1"


def _is_number(value: object, kind: type) -> bool:
    """Whether a value is an int, or for float any number that is not NaN."""
    kinds = (int, np.integer) if kind is int else (int, float, np.number)
    return isinstance(value, kinds) and not isinstance(value, bool) and value == value
