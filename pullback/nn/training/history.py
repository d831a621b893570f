"""The history of a run, with one row per epoch: as a table, as CSV, and as a plot."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pullback.errors import DataError, MissingKeyError, UsageError, counted
from pullback.files import put_file
from pullback.notebook import Displayed
from pullback.plots import curves
from pullback.source import user_position
from pullback.tables import html_note, html_table, text_table
from pullback.tracing.elsewhere import one_of, renamed_to

__all__ = ["NOT_MEASURED", "TIMES", "VALIDATION_LOSS", "EarlyStopping", "History"]

VALIDATION_LOSS = "validation_loss"
TIMES = ("training", "validation", "loading", "compiling")  # columns `…_seconds`
NOT_MEASURED = ("epoch", "step", "seconds", "learning_rate", "samples_per_second",
                *(f"{name}_seconds" for name in TIMES))  # not metrics  # fmt: skip

SHOWN = 16  # rows of the displayed table


@dataclass(frozen=True, repr=False)
class History(Displayed):
    """The epochs of a run, each a mapping from column names to measured values.

    A row has `epoch` (from 1), `step` (updates so far), `loss` (the mean over the epoch's updates), `seconds` since
    training began and `samples_per_second` of training. `learning_rate`, if the optimizer has one, is that of the next
    update. With `validation_data=` it has `validation_loss` and every metric. `training_seconds`,
    `validation_seconds`, `loading_seconds` and `compiling_seconds` say where the epoch's time went.

    >>> from pullback import nn
    >>> history = nn.History(({"epoch": 1, "step": 10, "loss": 0.5}, {"epoch": 2, "step": 20, "loss": 0.25}))
    >>> history["loss"], len(history)
    ([0.5, 0.25], 2)
    """

    rows: tuple[Mapping[str, float], ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Mapping[str, float]]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> list[float]:
        """Return a column: one value for each epoch that measured it.

        Raises:
            MissingKeyError: [E525] the column does not exist.
        """
        self._check(name)
        return [row[name] for row in self.rows if name in row]

    def _check(self, name: str) -> None:
        if self.rows and name not in self.names:
            raise MissingKeyError("E525", f"the history has no {name!r}", position=user_position(),
                                  remedy=_nearest(name, self.names))  # fmt: skip

    @property
    def losses(self) -> list[float]:
        """The mean loss of each epoch."""
        return self["loss"]

    @property
    def names(self) -> list[str]:
        """The names of the measured values, in column order."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def csv(self) -> str:
        """Return the table as CSV, with numbers in full precision.

        >>> from pullback import nn
        >>> nn.History(({"epoch": 1, "loss": 0.5},)).csv().splitlines()
        ['epoch,loss', '1,0.5']
        """
        text = io.StringIO()
        table = csv.DictWriter(text, self.names, lineterminator="\n")
        table.writeheader()
        table.writerows(self.rows)
        return text.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as a CSV file, atomically.

        Raises:
            DataError: [E511] the file cannot be written.
        """
        path = Path(path)
        try:
            put_file(path, self.csv().encode())
        except OSError as error:
            raise DataError(
                "E511",
                f"{path}: the history cannot be written: {error.strerror or error}",
                facts=(f"folder: {path.parent.resolve()}",),
                remedy="a folder that exists and may be written to",
            ) from error

    def _chosen(self, names: Sequence[str] = ()) -> list[list[str]]:
        """The columns of each panel: losses together, each metric alone; by default all measured columns."""
        chosen = list(names) or [n for n in self.names if n not in NOT_MEASURED]
        losses = [n for n in chosen if n.endswith("loss")]
        return [*([losses] if losses else []), *([n] for n in chosen if n not in losses)]

    def _points(self, name: str) -> list[tuple[float, float]]:
        return [(row["epoch"], row[name]) for row in self.rows if name in row]

    def _table(self) -> list[list[str]]:
        """The displayed rows as text; the middle of a long history is left out."""
        shown = [[_cell(row.get(name)) for name in self.names] for row in self.rows]
        if len(shown) > SHOWN:
            shown[SHOWN // 4 : -3 * SHOWN // 4] = [["⋮"] * len(self.names)]
        return [[name.replace("_", " ") for name in self.names], *shown]

    def __repr__(self) -> str:
        return "\n".join(text_table(self._table(), range(len(self.names)))) if self.rows else "<History: no epochs>"

    def _repr_html_(self) -> str:
        if not self.rows:
            return html_note(repr(self))
        panels = [{name.replace("_", " "): self._points(name) for name in panel} for panel in self._chosen()]
        picture = curves(f"{counted(len(self), 'epoch')} of training", panels, "epoch").svg
        return f"{picture}\n{html_table(self._table(), range(len(self.names)))}"

    def plot(self, path: str | os.PathLike[str] | None = None, names: Sequence[str] = ()) -> Any:
        """Plot curves over the epochs: losses in one panel, each metric in another.

        Args:
            path: a file to write; its extension selects the format.
            names: the columns to draw; by default all losses and metrics.
        Returns:
            The matplotlib figure.
        Raises:
            DataError: [E506] matplotlib is not installed. MissingKeyError: [E525] the column does not exist.
        """
        for name in names:
            self._check(name)
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise DataError(
                "E506",
                "History.plot: matplotlib is not installed",
                facts=(str(error),),
                remedy="pip install 'pullback[demo]', or `History.save` for CSV",
            ) from error
        panels = self._chosen(names)
        figure = Figure(figsize=(5 * max(1, len(panels)), 3.5), layout="constrained")
        for place, panel in enumerate(panels, 1):
            axes = figure.add_subplot(1, len(panels), place)
            for name in panel:
                axes.plot(*zip(*self._points(name), strict=True), marker=".", label=name.replace("_", " "))
            axes.set_xlabel("epoch")
            axes.legend()
        if path is not None:
            figure.savefig(path)
        return figure


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.5g}"


@dataclass(frozen=True)
class EarlyStopping:
    """Stop training when the monitored value has not improved for `patience` epochs.

    The rule depends only on the history, so a resumed run stops where an uninterrupted one does.

    Args:
        patience: epochs without improvement after which training ends.
        monitor: a column of the history; by default `validation_loss` if there is validation data, else `loss`.
        min_delta: the smallest change that counts as an improvement.
        mode: "min" if smaller is better, as for a loss; "max" if larger is better, as for an accuracy.
    Raises:
        UsageError: [E518] a setting is out of range, or `fit` finds no such column. `fit` checks this before training.

    >>> from pullback import nn
    >>> stop = nn.EarlyStopping(patience=2)
    >>> [stop(nn.History(tuple({"loss": x} for x in losses))) for losses in ([3, 2, 2.5], [3, 2, 2.5, 2.2])]
    [False, True]
    """

    patience: int
    monitor: str | None = None
    min_delta: float = 0.0
    mode: Literal["min", "max"] = "min"

    def __post_init__(self) -> None:
        given = (
            ("patience", self.patience, _is_number(self.patience, int) and self.patience >= 1,
             "a number of epochs, at least 1"),
            ("min_delta", self.min_delta, _is_number(self.min_delta, float) and self.min_delta >= 0,
             "a number of at least 0"),
            ("mode", self.mode, self.mode in ("min", "max"),
             '"min" where smaller is better, as for a loss, or "max" where larger is, as for an accuracy'),
        )  # fmt: skip
        for name, value, fits, remedy in given:
            if not fits:
                raise UsageError("E518", f"EarlyStopping: {name}={value!r}", remedy=remedy)

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
                f"EarlyStopping: monitor={name!r} is no column of the history",
                remedy=_nearest(name, [n for n in names if n != "epoch"]) + more,
            )
        return name

    def __call__(self, history: History) -> bool:
        """Whether training should end."""
        if not history.rows:
            return False
        name = self.check(history.names)
        best, since = float("inf"), 0
        for value in history[name]:
            value = -value if self.mode == "max" else value
            improves = value < best - self.min_delta
            since = 0 if improves else since + 1
            best = value if improves else best
        return since >= self.patience


def _is_number(value: object, kind: type) -> bool:
    """Whether a value is an int, or for float any number that is not NaN."""
    kinds = (int, np.integer) if kind is int else (int, float, np.number)
    return isinstance(value, kinds) and not isinstance(value, bool) and value == value


def _nearest(name: str, names: Sequence[str]) -> str:
    """The suggested column: a renamed or similar one, also for Keras' `val_…`; otherwise all columns."""
    new = renamed_to("columns of nn.History", name)
    if new in names:
        return f"`{name}` is now `{new}`"
    return one_of(VALIDATION_LOSS if name == "val_loss" else name.removeprefix("val_"), names)
