"""Checkpoints: the complete state of a run in one atomically written file.

A resumed run continues as if it had never stopped.

A file is safetensors: the arrays of three trees under `parameters/…`, `state/…` and `optimizer/…`, and in its metadata,
as JSON, the position (updates, epoch, batch), the history, and the properties that a resumed run must share. A digest
covers all of it. One run at a time uses a folder.
"""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pullback.errors import DataError, UsageError
from pullback.files import BusyError, FolderLock, remove_unfinished
from pullback.nn.parameters import CHECKPOINTS, alike, check_writable, checkpoints_in, named, newest_intact, put, read
from pullback.nn.training.history import History
from pullback.nn.training.monitors import Monitor
from pullback.nn.training.sameness import PLACES, Shared, differing
from pullback.nn.training.step import Carry, Updates
from pullback.tracing import tree

__all__ = ["Best", "Checkpoints", "Folder", "Position", "Resume"]

Resume = bool | Literal["newest intact", "anyway"] | None

FORMAT = 2  # version 1 had other names of columns and settings
KEY = "training"
HISTORY = "history.csv"
BEST = "best.safetensors"
PARTS = ("parameters", "state", "optimizer")


@dataclass(frozen=True)
class Checkpoints:
    """The folder and frequency of checkpoints. The end of training is saved, too.

    The file `best.safetensors` holds the parameters and the state of the epoch with the best monitored value: that of
    `early_stopping`, or else the smallest `validation_loss`, or `loss` without validation data.

    Args:
        directory: the folder, created if it does not exist.
        every_steps: the number of updates between checkpoints.
        every_seconds: the seconds between checkpoints.
        max_to_keep: the number of latest checkpoints to keep.
    Raises:
        UsageError: [E518] a number is out of range.
    """

    directory: str
    every_steps: int | None = None
    every_seconds: float | None = 60.0
    max_to_keep: int = 2

    def __post_init__(self) -> None:
        least = {"every_steps": 1, "every_seconds": 0, "max_to_keep": 1}
        for name, low in least.items():
            value = getattr(self, name)
            missing = value is None and name != "max_to_keep"
            if not missing and not (isinstance(value, int | float) and value >= low):
                raise UsageError("E518", f"Checkpoints: {name}={value!r}", remedy=f"a number from {low} up")


@dataclass
class Position:
    """The position of a run in its training.

    Attributes:
        step: the number of updates so far.
        epoch: epochs completed.
        batch: completed batches of the current epoch.
        loss: the sum of the losses of these batches.
        seconds: the training time so far.
        history: the rows of the completed epochs.
    Raises:
        ValueError: a value is invalid.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    loss: float = 0.0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        counts = (self.step, self.epoch, self.batch)
        measured = [self.loss, self.seconds, *(x for row in self.history for x in dict(row).values())]
        if any(type(n) is not int or n < 0 for n in counts) or any(type(x) not in (int, float) for x in measured):
            raise ValueError("a position of other things than numbers")


@dataclass
class Best:
    """The best epoch so far: its value, parameters and state.

    Attributes:
        rule: the monitored column.
        value: the value, with the sign for which smaller is better.
        epoch: the number of the epoch; 0 if there is none.
        kept: copies of the parameters and the state.
    """

    rule: Monitor
    value: float = math.inf
    epoch: int = 0
    kept: Any = None

    def note(self, history: History, updates: Updates) -> None:
        """Keep the current parameters if the last epoch is the best."""
        value = self.rule.values(history)[-1]
        if value < self.value:
            carry = updates.measured(updates.carry)
            self.value, self.epoch = value, int(history.rows[-1]["epoch"])
            self.kept = tree.map_leaves(np.copy, (carry.parameters, carry.state))

    def is_kept(self, history: History) -> bool:
        """Whether there is a best epoch, and a last one that is incomplete is not better."""
        return self.epoch > 0 and not self.rule.values(history)[-1] < self.value


class Folder:
    """The checkpoints of one run.

    Args:
        settings: the folder and frequency.
        shared: the properties that a resumed run must share.
    Raises:
        DataError: [E511] the folder cannot be created or written to. [E516] Another run uses the folder.
    """

    def __init__(self, settings: Checkpoints, shared: Shared) -> None:
        self.settings = settings
        self.shared = shared
        self.adopts: Sequence[str] = ()  # properties that this run takes from its checkpoint
        self.path = Path(settings.directory)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                "E511",
                f"{self.path}: checkpoints cannot be written: {error.strerror or error}",
                remedy="a folder that may be made and written to",
            ) from error
        for name in (CHECKPOINTS.replace("*", "0"), HISTORY):
            check_writable(self.path / name)
        self._lock = self._locked()
        remove_unfinished(self.path)
        self._saved: int | None = None
        self._best = 0  # the best epoch that is saved
        self._next = (0, 0.0)
        self._plan(0)

    def _locked(self) -> FolderLock:
        try:
            lock = FolderLock(self.path)
        except BusyError as error:
            raise DataError(
                "E516",
                f"{self.path} is in use by another run",
                facts=(str(error),),
                remedy="a folder of its own for each run, or wait until that one has ended",
            ) from None
        except OSError as error:
            raise DataError("E511", f"{self.path}: checkpoints cannot be written: {error.strerror or error}") from error
        if not lock.works:
            warnings.warn(f"{self.path} is on a file system without locks: a second run in it would not be noticed",
                          RuntimeWarning, stacklevel=5)  # fmt: skip
        return lock

    def release(self) -> None:
        """Let other runs use the folder."""
        self._lock.release()

    def files(self) -> list[Path]:
        """The checkpoint files, oldest first.

        Raises:
            DataError: [E501] the folder cannot be read.
        """
        return checkpoints_in(self.path)

    def is_due(self, step: int) -> bool:
        """Whether a checkpoint is due."""
        steps, seconds = self._next
        return step >= steps or time.monotonic() >= seconds

    def _plan(self, step: int) -> None:
        s = self.settings
        self._next = (
            step + s.every_steps if s.every_steps else 1 << 62,
            time.monotonic() + s.every_seconds if s.every_seconds is not None else float("inf"),
        )

    def save(self, carry: Carry, position: Position, best: Best | None = None) -> None:
        """Write the best epoch if it is new, and a checkpoint; then remove old ones.

        Do nothing if this position is saved already.

        Raises:
            DataError: [E501] the folder cannot be read. [E511] A file cannot be written or removed.
        """
        self._plan(position.step)
        if self._saved == position.step:
            return
        if best is not None and best.epoch > self._best:
            found = {"monitor": best.rule.column, "value": best.value, "epoch": best.epoch}
            put(self.path / BEST, _paths(best.kept), {KEY: json.dumps({"format": FORMAT, "best": found})})
            self._best = best.epoch
        about = {"format": FORMAT, "shared": self.shared, "position": vars(position)}
        path = self.path / CHECKPOINTS.replace("*", f"{position.step:012}")
        put(path, _paths(carry), {KEY: json.dumps(about)})
        self._saved = position.step
        for old in self.files()[: -self.settings.max_to_keep]:
            try:
                old.unlink(missing_ok=True)
            except OSError as error:
                raise DataError("E511", f"{old}: an old checkpoint cannot be removed: {error.strerror or error}",
                                remedy="a folder whose files may be removed") from error  # fmt: skip

    def load(self, like: Carry, wish: Resume = None) -> tuple[Carry, Position] | None:
        """Return the last checkpoint, or None.

        Args:
            like: arrays with the required names, shapes and element types.
            wish: "newest intact" skips damaged checkpoints; "anyway" accepts a checkpoint of another run.
        Raises:
            DataError: [E509] the file is damaged. [E510] It holds other arrays. [E515] It belongs to another run; the
                differences are listed.
        """
        if wish == "newest intact":
            self._set_damaged_aside()
        if not (files := self.files()):
            return None
        path = files[-1]
        arrays, words = read(path)
        theirs, position = self._about(path, words)
        self.shared |= {name: theirs[name] for name in self.adopts if isinstance(theirs.get(name), int)}
        other = differing(theirs, self.shared)
        if other and wish != "anyway":
            raise DataError(
                "E515",
                f"{self.path} holds the checkpoints of another run",
                facts=tuple(other.values()),
                remedy='a folder of its own for each run, the settings of that run, or `resume="anyway"` '
                "(--resume-anyway)",
            )
        if other.keys() & PLACES:  # the position does not exist in the new epochs
            position.batch, position.loss = 0, 0.0
        leaves = alike(path, _paths(like), arrays)
        self._saved = None if other else position.step
        self._plan(position.step)
        return tree.unflatten(tree.flatten(like)[1], leaves), position

    def load_best(self, best: Best, like: Carry, wish: Resume = None) -> None:
        """Read the best epoch of the run, if there is one by the same rule.

        Args:
            best: takes the values.
            like: arrays with the required names, shapes and element types.
            wish: "newest intact" ignores a damaged file.
        Raises:
            DataError: [E509] the file is damaged. [E510] It holds other arrays.
        """
        path = self.path / BEST
        if not path.exists():
            return
        try:
            arrays, words = read(path)
            found = json.loads(words[KEY])["best"]
            value, epoch = float(found["value"]), int(found["epoch"])
        except (DataError, KeyError, ValueError, TypeError) as error:
            if wish == "newest intact":
                return
            if isinstance(error, DataError):
                raise
            raise DataError("E509", f"{path}: not the best epoch of a run", remedy="remove it") from error
        if found["monitor"] == best.rule.column:
            leaves = alike(path, _paths(like[:2]), arrays)
            best.value, best.epoch = value, epoch
            best.kept = tree.unflatten(tree.flatten(tuple(like[:2]))[1], leaves)
            self._best = epoch

    def _set_damaged_aside(self) -> None:
        """Rename the checkpoints after the newest intact one, so that it is the last."""
        intact = newest_intact(self.path)
        for path in self.files():
            if intact is not None and path > intact:
                try:
                    os.replace(path, f"{path}.damaged")
                except OSError as error:
                    raise DataError("E511", f"{path} cannot be renamed: {error.strerror or error}") from error

    def _about(self, path: Path, words: dict[str, str]) -> tuple[Shared, Position]:
        what, remedy = f"{path}: no checkpoint of training", "another folder for `save`"
        try:
            about = json.loads(words[KEY]) if KEY in words else {}
            if not about:
                problem = "parameters alone, without a position"
            elif about["format"] != FORMAT:
                what = f"{path}: a checkpoint of another version"
                problem = f"format {about['format']}, this version reads {FORMAT}"
                remedy += ", and `parameters=nn.load_parameters(…)` to begin with its parameters"
            else:
                return dict(about["shared"]), Position(**about["position"])
        except (KeyError, ValueError, TypeError, RecursionError) as error:
            problem = f"what it says of training cannot be read: {error}"
        raise DataError("E509", what, facts=(problem,), remedy=remedy)


def _paths(trees: Iterable[Any]) -> dict[str, Any]:
    """The arrays of parameters, state and optimizer, or of the first two, by their names in a file."""
    return {f"{part}/{n}": a for part, x in zip(PARTS, trees) for n, a in named(x).items()}
