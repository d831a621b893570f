"""The history of a run, with one row per epoch: as a table, as CSV, and as a plot."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, SupportsIndex, overload

from pullback.errors import DataError, IndexRangeError, MissingKeyError, counted
from pullback.files import put_file
from pullback.nn.parameters import unwritable
from pullback.notebook import Displayed
from pullback.pictures import Picture
from pullback.plots import curves
from pullback.source import user_position
from pullback.tables import html_note, html_table, text_table
from pullback.tracing.elsewhere import one_of, renamed_to
from pullback.tracing.public import Answers

__all__ = ["NOT_MEASURED", "TIMES", "VALIDATION_LOSS", "History", "nearest"]

VALIDATION_LOSS = "validation_loss"
TIMES = ("training", "validation", "loading", "compiling")  # columns `…_seconds`
NOT_MEASURED = ("epoch", "step", "seconds", "learning_rate", "samples_per_second",
                *(f"{name}_seconds" for name in TIMES))  # not metrics  # fmt: skip

SHOWN = 16  # rows of the displayed table


@dataclass(frozen=True, repr=False)
class History(Answers, Displayed):
    """The epochs of a run, each a mapping from column names to measured values.

    A name selects a column, a number an epoch as in a list, and a slice a history of some epochs.

    A row has `epoch` (from 1), `step` (updates so far), `loss` (the mean over the epoch's updates), `seconds` since
    training began and `samples_per_second` of training. `learning_rate`, if the optimizer has one, is that of the next
    update. With `validation_data=` it has `validation_loss` and every metric. `training_seconds`,
    `validation_seconds`, `loading_seconds` and `compiling_seconds` say where the epoch's time went.

    >>> from pullback import nn
    >>> history = nn.History(({"epoch": 1, "step": 10, "loss": 0.5}, {"epoch": 2, "step": 20, "loss": 0.25}))
    >>> history["loss"], len(history), "accuracy" in history
    ([0.5, 0.25], 2, False)
    >>> history[-1]["loss"], history[:1]["loss"]
    (0.25, [0.5])
    """

    rows: tuple[Mapping[str, float], ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Mapping[str, float]]:
        return iter(self.rows)

    def __contains__(self, item: object) -> bool:
        return item in (self.names if isinstance(item, str) else self.rows)

    @overload
    def __getitem__(self, which: str) -> list[float]: ...
    @overload
    def __getitem__(self, which: SupportsIndex) -> Mapping[str, float]: ...
    @overload
    def __getitem__(self, which: slice) -> History: ...
    def __getitem__(self, which: str | SupportsIndex | slice) -> Any:
        """Return a column, an epoch, or a history of some epochs.

        A column has one value for each epoch that measured it.

        Raises:
            MissingKeyError: [E525] the column does not exist.
            IndexRangeError: [E525] the epoch does not exist.
        """
        if isinstance(which, slice):
            return History(self.rows[which])
        if isinstance(which, Integral):
            return self._row(int(which))
        name: Any = which
        self._check(name)
        return [row[name] for row in self.rows if name in row]

    def _row(self, number: int) -> Mapping[str, float]:
        if -len(self) <= number < len(self):
            return self.rows[number]
        remedy = f"numbers from 0 to {len(self) - 1}, or -1 for the last" if self.rows else "`fit` of some epochs"
        raise IndexRangeError("E525", f"the history has {counted(len(self), 'epoch')}, and none at [{number}]",
                              position=user_position(), remedy=remedy)  # fmt: skip

    def _check(self, name: Any) -> None:
        if not isinstance(name, str):
            what = f"a {type(name).__name__} selects nothing in a history"
            remedy = '`history["loss"]`, or `history[-1]`'
        elif self.rows and name not in self.names:
            what, remedy = f"the history has no {name!r}", nearest(name, self.names)
        else:
            return
        raise MissingKeyError("E525", what, position=user_position(), remedy=remedy)

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
            raise unwritable(path, "the history", error) from error

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
        return f"{self.picture().svg}\n{html_table(self._table(), range(len(self.names)))}"

    def picture(self, names: Sequence[str] = ()) -> Picture:
        """Plot the curves as a picture that notebooks show and `save` writes as SVG, without matplotlib.

        Args:
            names: the columns to draw; by default all losses and metrics.
        Raises:
            MissingKeyError: [E525] the column does not exist.

        >>> from pullback import nn
        >>> nn.History(({"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25})).picture()
        <picture '2 epochs of training', 340 × 230>
        """
        for name in names:
            self._check(name)
        panels = [{name.replace("_", " "): self._points(name) for name in panel} for panel in self._chosen(names)]
        return curves(f"{counted(len(self), 'epoch')} of training", panels, "epoch")

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


def nearest(name: str, names: Sequence[str]) -> str:
    """The suggested column: a renamed or similar one, also for Keras' `val_…`; otherwise all columns."""
    new = renamed_to("columns of nn.History", name)
    if new in names:
        return f"`{name}` is now `{new}`"
    return one_of(VALIDATION_LOSS if name == "val_loss" else name.removeprefix("val_"), names)
