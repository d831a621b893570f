"""The display of training progress: a bar, and a line after every epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, Self

from pullback.nn.training.history import NOT_MEASURED, TIMES, VALIDATION_LOSS
from pullback.progress import Bar, duration, progress_bar

__all__ = ["Progress", "Report"]

OFTEN = 0.1  # seconds between two updates of the bar


class Progress(NamedTuple):
    """The progress of training.

    Attributes:
        epoch: the number of completed epochs.
        epochs: the total number of epochs; None if the number of updates is set.
        step: the number of updates so far.
        batch: the number of completed batches of this epoch.
        batches: the number of batches per epoch; None if unknown.
        loss: the mean loss of this epoch so far.
        samples_per_second: the speed in this epoch; batches per second if the batch size is unknown.
        fraction: the completed fraction of training, from 0 to 1; 0 if unknown.
        seconds: the seconds since training began.
        learning_rate: the learning rate of the next update; None if the optimizer has none.
    """

    epoch: int
    epochs: int | None
    step: int
    batch: int
    batches: int | None
    loss: float
    samples_per_second: float
    fraction: float
    seconds: float
    learning_rate: float | None = None


class Report:
    """The display of progress: a bar and lines on standard error, a callback, or nothing."""

    def __init__(self, wish: bool | Callable[[Progress], None]) -> None:
        self._call = wish if callable(wish) else None
        self._wanted = wish is True
        self._bar: Bar | None = None
        self._next = 0.0
        self._told: set[int] = set()  # the numbers of updates per call whose memory was printed
        self._first: tuple[float, float] | None = None  # the fraction and the seconds when this part of the run began
        self._validation: float | None = None  # the loss of the last epoch that was measured
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._wanted:
            self._bar = self._stack.enter_context(progress_bar())
            self._bar.update(0.0, "compiling the training step")
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.__exit__(*exception)

    def is_due(self) -> bool:
        """Whether it is time to update the display."""
        return self._call is not None or (self._bar is not None and time.monotonic() >= self._next)

    def show(self, at: Progress) -> None:
        """Show the progress of training."""
        if self._call is not None:
            self._call(at)
        if self._bar is not None:
            self._next = time.monotonic() + OFTEN
            epoch = f"epoch {at.epoch + 1}" + (f"/{at.epochs}" if at.epochs else "")
            left = self._left(at)
            parts = [epoch, f"loss {at.loss:.4g}"]  # the most important first, for narrow terminals
            parts += [] if left is None else [f"{duration(left)} left"]
            parts += [] if self._validation is None else [f"validation {self._validation:.4g}"]
            parts += self._pace(at.learning_rate, at.samples_per_second)
            self._bar.update(min(1.0, at.fraction), "  ".join(parts))

    def memory(self, arena_bytes: Mapping[int, int]) -> None:
        """Print the working memory of calls once per number of updates."""
        for updates in arena_bytes.keys() - self._told:
            self._told.add(updates)
            if self._bar is not None:
                made = "an update" if updates == 1 else f"{updates:,} updates in a call"
                self._bar.line(f"{arena_bytes[updates]:,} bytes of working memory for {made}")

    def epoch(self, row: Mapping[str, float], at: Progress) -> None:
        """Print the line of an epoch."""
        if self._call is not None:
            self._call(at)
        self._validation = row.get(VALIDATION_LOSS)
        if self._bar is not None:
            measured = [n for n in row if n not in NOT_MEASURED]
            parts = [f"epoch {row['epoch']:3d}", *(f"{n.replace('_', ' ')} {row[n]:.5f}" for n in measured)]
            parts += self._pace(row.get("learning_rate"), row["samples_per_second"])
            self._bar.line("  ".join([*parts, duration(row["seconds"])]))

    def end(self, rows: Sequence[Mapping[str, float]]) -> None:
        """Print where the time of these epochs went."""
        if self._bar is not None and rows:
            spent = {name: sum(row.get(f"{name}_seconds", 0.0) for row in rows) for name in TIMES}
            self._bar.line("  ".join(["time", *(f"{name} {spent[name]:.3g} s" for name in TIMES if spent[name])]))

    @staticmethod
    def _pace(rate: float | None, speed: float) -> list[str]:
        """The optimizer's learning rate, if it has one, and the samples per second."""
        found = [] if rate is None else [f"learning rate {rate:.3g}"]
        return [*found, f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.2g}/s"]

    def _left(self, at: Progress) -> float | None:
        """The estimated seconds left, from the speed of this part of the run."""
        if self._first is None:
            self._first = at.fraction, at.seconds
        fraction, seconds = self._first
        if at.fraction <= fraction:
            return None
        return (1 - at.fraction) * (at.seconds - seconds) / (at.fraction - fraction)
