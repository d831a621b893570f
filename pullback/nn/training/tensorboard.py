"""A callback that writes the history as event files for TensorBoard."""

from __future__ import annotations

import os
from typing import Any

from pullback.errors import DataError
from pullback.nn.parameters import check_writable
from pullback.nn.training.callbacks import TrainingState
from pullback.tracing.public import Answers

__all__ = ["TensorBoardLogger"]


class TensorBoardLogger(Answers):
    """A callback that writes every column of the history for TensorBoard after every epoch.

    Steps are numbers of updates. A resumed run adds a file to the folder, from its first new epoch on.

    Args:
        directory: the folder of event files, created if it does not exist.
    Raises:
        DataError: [E506] the package tensorboard is not installed. [E511] The folder cannot be written to.
    Cost:
        A file of some hundred bytes for each epoch.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = os.fspath(directory)
        self._writer: Any = None
        _library()
        try:
            os.makedirs(self.directory, exist_ok=True)
        except OSError as error:
            raise DataError("E511", f"{self.directory}: events cannot be written: {error.strerror or error}",
                            remedy="a folder that may be made and written to") from error  # fmt: skip
        check_writable(os.path.join(self.directory, "events"), "the events")

    def on_epoch_end(self, state: TrainingState) -> None:
        """Write the last row."""
        events, summaries, writers = _library()
        if self._writer is None:
            self._writer = writers.EventFileWriter(self.directory)
        row = state.history.rows[-1]
        values = [
            summaries.Summary.Value(tag=name, simple_value=float(value))
            for name, value in row.items()
            if name not in ("epoch", "step")
        ]
        summary = summaries.Summary(value=values)
        self._writer.add_event(events.Event(step=int(row["step"]), wall_time=_now(), summary=summary))
        self._writer.flush()


def _now() -> float:
    import time

    return time.time()


def _library() -> tuple[Any, Any, Any]:
    """The modules of TensorBoard: events, summaries, writers.

    Raises:
        DataError: [E506] the package is not installed.
    """
    try:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer import event_file_writer
    except ImportError as error:
        raise DataError("E506", "TensorBoardLogger: the package tensorboard is not installed", facts=(str(error),),
                        remedy="pip install 'pullback[tensorboard]', or `nn.CSVLogger`") from error  # fmt: skip
    return event_pb2, summary_pb2, event_file_writer
