"""Callbacks of training: what they are given, how they are called, and the CSV logger."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pullback.errors import UsageError
from pullback.nn.parameters import check_writable
from pullback.nn.training.history import History
from pullback.nn.training.monitors import EarlyStopping, ReduceLROnPlateau
from pullback.nn.training.step import Carry
from pullback.tracing import tree
from pullback.tracing.public import Answers

__all__ = ["CSVLogger", "TrainingState", "callbacks_at", "check_callbacks"]

EPOCH, BATCH = "on_epoch_end", "on_batch_end"


@dataclass(frozen=True)
class TrainingState(Answers):
    """The training so far, for callbacks.

    `parameters`, `state` and `optimizer_state` are read-only views that later updates overwrite: copy what you keep.
    With `device=` they are copied from the device when they are read.

    Attributes:
        epoch: the number of completed epochs.
        step: the number of updates so far.
        batch: the number of completed batches of this epoch; 0 at the end of an epoch.
        loss: at the end of a batch its loss, at the end of an epoch the mean of its losses.
        history: the rows of the completed epochs; the last one is that of this epoch.
    Cost:
        Nothing is copied, except from a device.

    >>> from pullback import nn
    >>> loss = lambda parameters, state, batch: pb.mean((parameters * batch - 1) ** 2)
    >>> show = lambda state: print(state.epoch, state.step, state.loss, state.parameters)
    >>> how = {"optimizer": nn.sgd(0.25), "epochs": 2, "progress": False}
    >>> run = nn.fit(loss, np.ones(4), parameters=np.zeros(()), callbacks=[show], **how)
    1 1 1.0 0.5
    2 2 0.25 0.75
    """

    epoch: int
    step: int
    batch: int
    loss: float
    history: History
    carry: Callable[[], Carry] = field(repr=False)
    measured: Callable[[Carry], Carry] = field(repr=False, default=lambda carry: carry)

    @property
    def parameters(self) -> Any:
        """The current parameters."""
        return tree.map_leaves(_read_only, self.carry().parameters)

    @property
    def averaged_parameters(self) -> Any:
        """The moving averages of the parameters with `average=`, otherwise the current parameters."""
        return tree.map_leaves(_read_only, self.measured(self.carry()).parameters)

    @property
    def state(self) -> Any:
        """The current state of the layers."""
        return tree.map_leaves(_read_only, self.carry().state)

    @property
    def optimizer_state(self) -> Any:
        """The current state of the optimizer."""
        return tree.map_leaves(_read_only, self.carry().optimizer)


def _read_only(x: Any) -> Any:
    view = x.view()
    view.flags.writeable = False
    return view


def callbacks_at(callbacks: Sequence[Any], moment: str) -> list[Callable[[TrainingState], Any]]:
    """The functions to call at a moment; a plain function is called at the end of an epoch."""
    found = [getattr(c, moment, c if moment == EPOCH and not hasattr(c, BATCH) else None) for c in callbacks]
    return [f for f in found if callable(f)]


def check_callbacks(callbacks: Any) -> None:
    """Refuse objects that are no callbacks.

    Raises:
        UsageError: [E518] an object is no callback.
    """
    if not isinstance(callbacks, list | tuple):
        raise UsageError("E518", f"fit: callbacks is of type {type(callbacks).__name__}", remedy="a list of callbacks")
    if (count := sum(isinstance(c, ReduceLROnPlateau) for c in callbacks)) > 1:
        raise UsageError("E518", f"fit: {count} callbacks are ReduceLROnPlateau", remedy="one of them")
    for c in callbacks:
        if isinstance(c, EarlyStopping):
            raise UsageError("E518", "fit: EarlyStopping in callbacks", remedy=f"`early_stopping={c}`")
        if isinstance(c, type) or not (isinstance(c, ReduceLROnPlateau) or _is_called(c)):
            name = c.__name__ if isinstance(c, type) else type(c).__name__
            raise UsageError(
                "E518",
                f"fit: {name} in callbacks is no callback",
                remedy="a function of a TrainingState, or an object with `on_epoch_end` or `on_batch_end`",
            )


def _is_called(c: Any) -> bool:
    return bool(callbacks_at([c], EPOCH) or callbacks_at([c], BATCH))


class CSVLogger(Answers):
    """A callback that writes the history to a CSV file after every epoch, atomically.

    Args:
        path: the file.
    Raises:
        DataError: [E511] the file cannot be written.
    Cost:
        The whole table is written each time.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from pullback import nn
    >>> x = np.ones(4)
    >>> loss = lambda parameters, state, batch: pb.mean((parameters * batch - 1) ** 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/run.csv"
    ...     run = nn.fit(loss, x, parameters=np.zeros(()), optimizer=nn.sgd(0.5), epochs=2, progress=False,
    ...                  callbacks=[nn.CSVLogger(path)])
    ...     print(Path(path).read_text().splitlines()[0][:15])
    epoch,step,loss
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        check_writable(path, "the history")
        self.path = path

    def on_epoch_end(self, state: TrainingState) -> None:
        """Write the table."""
        state.history.save(self.path)
