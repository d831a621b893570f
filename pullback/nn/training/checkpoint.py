"""Checkpoints: all that a run needs to go on as if it had never stopped, in one file that is there whole or not at all.

A file is safetensors: the arrays of three trees under `parameters/…`, `state/…` and `optimiser/…`, and in its metadata,
as JSON, the position (updates, epoch, batch), the history, and what a run that goes on must share with this one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pullback.errors import DataError
from pullback.files import remove_unfinished
from pullback.lang import tree
from pullback.nn.parameters import CHECKPOINTS, check_writable, differences, named, put, read
from pullback.nn.training.step import Carry

__all__ = ["Checkpoints", "Folder", "Position"]

FORMAT = 1
KEY = "training"
PARTS = ("parameters", "state", "optimiser")


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often training is saved; it is saved when it ends as well.

    Args:
        folder: made where it is not there.
        every_steps: updates after which to save.
        every_seconds: seconds after which to save.
        keep: how many of the last checkpoints stay.
    """

    folder: str
    every_steps: int | None = None
    every_seconds: float | None = 60.0
    keep: int = 2


@dataclass
class Position:
    """Where a run is.

    Attributes:
        step: updates made.
        epoch: epochs completed.
        batch: batches of the next one that are done.
        loss: the sum of their losses.
        seconds: of training so far.
        history: the rows of the epochs that are over.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    loss: float = 0.0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)


class Folder:
    """The checkpoints of one run.

    Args:
        settings: where, and how often.
        shared: what a run that goes on must have alike, in words.
    Raises:
        DataError: [E511] the folder cannot be made or written to.
    """

    def __init__(self, settings: Checkpoints, shared: Mapping[str, Any]) -> None:
        self.settings = settings
        self.shared = dict(shared)
        self.path = Path(settings.folder)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                "E511",
                f"{self.path}: checkpoints cannot be written: {error.strerror or error}",
                remedy="a folder that may be made and written to",
            ) from error
        check_writable(self.path / CHECKPOINTS.replace("*", "0"))
        remove_unfinished(self.path)
        self._saved: int | None = None
        self._next = (0, 0.0)
        self._plan(0)

    def files(self) -> list[Path]:
        """The checkpoints, the oldest first."""
        return sorted(self.path.glob(CHECKPOINTS))

    def is_due(self, step: int) -> bool:
        """Whether it is time to save."""
        steps, seconds = self._next
        return step >= steps or time.monotonic() >= seconds

    def _plan(self, step: int) -> None:
        s = self.settings
        self._next = (
            step + s.every_steps if s.every_steps else 1 << 62,
            time.monotonic() + s.every_seconds if s.every_seconds is not None else float("inf"),
        )

    def save(self, carry: Carry, position: Position) -> None:
        """Write a checkpoint, then remove those that are too old. Nothing where this position is saved already.

        Raises:
            DataError: [E511] the file cannot be written.
        """
        self._plan(position.step)
        if self._saved == position.step:
            return
        arrays = {f"{part}/{n}": a for part, x in zip(PARTS, carry, strict=True) for n, a in named(x).items()}
        about = {"format": FORMAT, "shared": self.shared, "position": vars(position)}
        path = self.path / CHECKPOINTS.replace("*", f"{position.step:012}")
        put(path, arrays, {KEY: json.dumps(about)})
        self._saved = position.step
        for old in self.files()[: -self.settings.keep]:
            old.unlink(missing_ok=True)

    def load(self, like: Carry) -> tuple[Carry, Position] | None:
        """The last checkpoint; None where there is none.

        Args:
            like: arrays of the names, shapes and element types that it must have.
        Raises:
            DataError: [E509] it is damaged, [E510] it holds other arrays, [E515] it is that of another run: what
                differs is listed.
        """
        if not (files := self.files()):
            return None
        path = files[-1]
        arrays, words = read(path)
        about = self._about(path, words)
        theirs = about["shared"]
        other = tuple(
            f"{name}: {theirs.get(name)} in the checkpoint, {value} now"
            for name, value in self.shared.items()
            if theirs.get(name) != value
        )
        if other:
            raise DataError(
                "E515",
                f"{self.path} holds the checkpoints of another run",
                facts=other,
                remedy="a folder of its own for each run, or the settings of that run",
            )
        wanted = {f"{part}/{n}": a for part, x in zip(PARTS, like, strict=True) for n, a in named(x).items()}
        if wrong := differences(wanted, arrays, exactly=True):
            raise DataError(
                "E510", f"{path}: not a checkpoint of this network", facts=wrong, remedy="a folder of its own for each"
            )
        leaves = [arrays[n] for n in wanted]
        position = Position(**about["position"])
        self._saved = position.step
        self._plan(position.step)
        return tree.unflatten(tree.flatten(like)[1], leaves), position

    def _about(self, path: Path, words: Mapping[str, str]) -> dict[str, Any]:
        try:
            about: dict[str, Any] = json.loads(words[KEY])
            if about["format"] == FORMAT:
                return about
            problem = f"format {about['format']}, this version reads {FORMAT}"
        except (KeyError, ValueError, TypeError):
            problem = "parameters alone, without a position"
        what = f"{path}: no checkpoint of training"
        raise DataError("E509", what, facts=(problem,), remedy="another folder for `save`")
