"""The training loop: updates, evaluation, checkpoints, and a clean end."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, Literal, TypeVar

import numpy as np

from pullback.clock import Stage, record_time, stage
from pullback.data import Batches, prefetch
from pullback.errors import CompilerError, NotFiniteError, UsageError, counted
from pullback.nn.training.callbacks import BATCH, EPOCH, TrainingState, callbacks_at
from pullback.nn.training.checkpoint import HISTORY, Best, Folder, Position, Resume
from pullback.nn.training.history import NOT_MEASURED, TIMES, History
from pullback.nn.training.mistakes import not_finite
from pullback.nn.training.monitors import EarlyStopping, ReduceLROnPlateau
from pullback.nn.training.report import Progress, Report
from pullback.nn.training.step import Updates, stack_size
from pullback.nn.training.validation import Validation
from pullback.notebook import Displayed
from pullback.tables import html_note
from pullback.tracing import tree
from pullback.tracing.public import Answers

__all__ = ["Run", "Training"]

T = TypeVar("T")
StopReason = Literal["finished", "stopped early", "interrupted"]


@dataclass(frozen=True)
class Run(Answers, Displayed):
    """The result of training.

    Attributes:
        parameters: the current parameters.
        state: the final state of the layers.
        optimizer_state: the final state of the optimizer.
        history: the measurements of each epoch.
        steps: the number of updates.
        seconds: the duration of training.
        stop_reason: the reason that training ended: "finished", "stopped early" (no improvement, or a callback returned
            True), or "interrupted".
        arena_bytes: working memory of the compiled calls, by the number of updates per call; empty if the interpreter
            or other processes ran them.
        best_epoch: the epoch whose parameters and state these are, if `EarlyStopping` restored the best.
        averaged_parameters: with `average=`, the moving averages of the parameters: those of the best epoch if it was
            restored.
    """

    parameters: Any
    state: Any
    optimizer_state: Any
    history: History
    steps: int
    seconds: float
    stop_reason: StopReason
    arena_bytes: Mapping[int, int] = field(default_factory=dict)
    best_epoch: int | None = None
    averaged_parameters: Any = None

    def __repr__(self) -> str:
        last = self.history.rows[-1] if self.history.rows else {}
        measured = "".join(f", {name} {last[name]:.5g}" for name in last if name not in NOT_MEASURED)
        return f"<Run: {counted(self.steps, 'step')} in {self.seconds:.3g} s, {self.stop_reason}{measured}>"

    def _repr_html_(self) -> str:
        return f"{html_note(repr(self)[1:-1])}\n{self.history._repr_html_()}"


class Training:
    """A training run in progress."""

    validation: Validation | None = None
    early_stopping: EarlyStopping | None = None
    folder: Folder | None = None
    callbacks: Sequence[Any] = ()
    plateau: ReduceLROnPlateau | None = None
    best: Best | None = None

    def __init__(self, source: Batches, updates: Updates, epochs: int | None, steps: int | None, debug: bool) -> None:
        self.source = source
        self.updates = updates
        self.epochs = math.inf if epochs is None else epochs
        self.steps = math.inf if steps is None else steps
        self.debug = debug
        self.at = Position()
        self.stack = 1
        self._part: list[dict[str, float]] = []  # the row of an incomplete epoch
        self._since = 0.0  # start time of this part of the run
        self._began = (0.0, 0)  # start time of this part of the epoch, and its first batch
        self._stages: Mapping[str, Stage] = {}
        self._before: Counter[str] = Counter()  # the seconds spent before this part of the epoch
        self._loss = math.nan  # of the last update
        self._stopped = False  # by a callback

    def resume(self, wish: Resume) -> None:
        """Continue from the last checkpoint, if there is one and it belongs to this run."""
        assert self.folder is not None
        there = bool(self.folder.files())
        if wish is not None and bool(wish) != there:
            raise UsageError(
                "E518",
                f"{self.folder.path} holds {'checkpoints' if there else 'no checkpoint'}",
                remedy="`resume=True` (--resume) goes on from the last one" if there else "begin without `resume`",
            )
        if found := self.folder.load(self.updates.carry, wish):
            carry, self.at = found
            for own, saved in zip(self.updates.arrays, tree.flatten(carry)[0], strict=True):
                own[...] = saved
            if self.best is not None:
                self.folder.load_best(self.best, carry, wish)

    def check_columns(self) -> None:
        """Check the columns that rules monitor.

        Raises:
            UsageError: [E518] a rule monitors a column that does not exist.
        """
        measured = () if self.validation is None else self.validation.columns
        rate = () if self.updates.learning_rate_at(0) is None else ("learning_rate",)
        for rule in (self.early_stopping, self.plateau):
            if rule is not None:
                rule.check(("epoch", "step", "loss", *measured, *rate, "samples_per_second", "seconds"))

    # The loop -------------------------------------------------------------------------------------------------

    def run(self, batch: Any, progress: bool | Callable[[Progress], None]) -> Run:
        """Train to the end."""
        self._since = time.perf_counter() - self.at.seconds
        with record_time() as self._stages, Report(progress) as report, _interruption() as interrupted:
            self._begin(self.at.batch)
            if self.source.whole and not self.debug and not callbacks_at(self.callbacks, BATCH):
                self.stack = stack_size(self.updates.seconds(batch), self.source.whole)
            try:
                end = self._train(report, interrupted)
            except CompilerError:
                # The terminal sends Ctrl-C to the C compiler, too, so its failure is not an error here. Nothing has
                # been overwritten: a compiled function runs to its end once it has started.
                if not interrupted[0]:
                    raise
                end = "interrupted"
            report.end([*self.at.history, *self._part])
        self._save(always=True)
        carry = self.updates.carry
        history = History((*self.at.history, *self._part))
        best = self.best if self.early_stopping is not None and self.early_stopping.restore_best else None
        averaged = self.updates.measured(carry).parameters if self.updates.averages else None
        done = Run(carry.parameters, carry.state, carry.optimizer, history, self.at.step, self.at.seconds, end,
                   self.updates.arena_bytes, averaged_parameters=averaged)  # fmt: skip
        if best is None or not best.is_kept(history):
            return done
        parameters, state = best.kept
        averaged = parameters if self.updates.averages else None
        return replace(done, parameters=parameters, state=state, best_epoch=best.epoch, averaged_parameters=averaged)

    def _train(self, report: Report, interrupted: list[bool]) -> StopReason:
        """Run the remaining updates; return why training ended."""
        at = self.at
        if at.batch == self.source.steps:  # the run ended before the end-of-epoch work
            self._finish_epoch(report)
        if end := self._end():
            return end
        load, is_quick = self.updates.loader(self.source)
        with closing(prefetch(load, self._requests(), is_quick)) as loaded:
            for (epoch, first, _), stacked in _waited(loaded):
                if epoch < at.epoch:  # requested before the end of an iterable was known
                    continue
                made = stacked is not None and self._update(stacked, first)
                if made:
                    self._call(BATCH, self._loss)
                    report.memory(self.updates.arena_bytes)
                    if report.is_due():
                        report.show(self._progress())
                    if interrupted[0]:
                        return "interrupted"
                if not made or at.batch == self.source.steps:
                    self._finish_epoch(report)
                if end := self._end():
                    break
                self._save()
        if at.batch:  # the number of updates was limited, and the last one was within an epoch
            self._part = [self._row()]
        return end or "finished"

    def _end(self) -> StopReason | None:
        """The reason that the run is over, or None: the limit is reached, or early stopping applies."""
        if self.at.epoch >= self.epochs or self.at.step >= self.steps:
            return "finished"
        if self._stopped:
            return "stopped early"
        rule = self.early_stopping if self.at.batch == 0 else None  # between epochs only
        return "stopped early" if rule is not None and rule(History(tuple(self.at.history))) else None

    def _requests(self) -> Iterator[tuple[int, int, int]]:
        """The remaining loads of the run: stacked batches, then the leftover batches of an epoch one by one.

        Each load is requested while the one before it is in use.
        """
        epoch, done, left = self.at.epoch, self.at.batch, self.steps - self.at.step
        steps, whole = self.source.steps, self.source.whole or 0
        while epoch < self.epochs and left > 0:
            fits = done % self.stack == 0 and done + self.stack <= whole and self.stack <= left
            size = self.stack if fits else 1
            yield epoch, done, size
            done += size
            if steps is None:
                if epoch < self.at.epoch:
                    epoch, done = self.at.epoch, 0
                continue
            left -= size
            if done == steps:
                epoch, done = epoch + 1, 0

    def _update(self, stacked: Any, first: int) -> int:
        """Run updates and add up their losses; return how many there were, 0 at the end of shards of data."""
        at = self.at
        losses = self._updated(stacked, first)
        if len(losses):
            self._loss = float(losses[-1])
        for loss in losses.tolist():  # one by one: the same bits however many updates a call makes
            at.loss += loss
        at.step, at.batch = at.step + len(losses), at.batch + len(losses)
        at.seconds = time.perf_counter() - self._since
        return len(losses)

    def _updated(self, stacked: Any, first: int) -> Any:
        """Run the updates and return the losses. A non-finite loss ends the run."""
        try:
            with stage("training"):
                losses = self.updates(stacked, self.at.step)
        except NotFiniteError as error:
            error.facts = (*error.facts, f"in batch {first + 1} of epoch {self.at.epoch + 1}")
            raise
        if not np.isfinite(losses).all():
            k = int(np.argmin(np.isfinite(losses)))
            batch = tree.map_leaves(lambda x: x[k], self.updates.batches(stacked))
            raise not_finite(losses[k], batch, first + k, self.at, self.folder, self.debug, self.source)
        return losses

    def _finish_epoch(self, report: Report) -> None:
        at = self.at
        row = self._row()
        at.history.append(row)
        shown = self._progress()
        at.epoch, at.batch, at.loss = at.epoch + 1, 0, 0.0
        if self.best is not None:
            self.best.note(History(tuple(at.history)), self.updates)
        if self.plateau is not None:
            self.updates.scale_learning_rate(self._scale(at.history[:-1]), self._scale(at.history))
        self._call(EPOCH, row["loss"])
        self._begin(0)
        report.epoch(row, shown._replace(epoch=at.epoch, batch=0))

    def _begin(self, batch: int) -> None:
        """Note the start of an epoch, or of the part of it that begins with this batch."""
        self._began, self._before = (time.perf_counter(), batch), self._spent()

    def _row(self) -> dict[str, float]:
        """The history row of an epoch, or of its part so far."""
        at = self.at
        rate = self.updates.learning_rate_at(at.step)
        measured: Mapping[str, float] = {}
        if self.validation is not None:
            with stage("validation"):
                measured = self.validation.measured(self.updates.measured(self.updates.current), at.epoch)
        spent = self._spent()
        row = {
            "epoch": at.epoch + 1,
            "step": at.step,
            "loss": at.loss / max(1, at.batch),
            **measured,
            **({} if rate is None else {"learning_rate": rate}),
            "samples_per_second": round(self._speed(), 1),
            "seconds": round(time.perf_counter() - self._since, 3),
            **{f"{name}_seconds": round(spent[name] - self._before[name], 4) for name in TIMES},
        }
        if rate is not None:  # of the next update, which this row may reduce
            row["learning_rate"] = rate * self._scale([*at.history, row])
        return row

    def _rate(self) -> float | None:
        """The learning rate of the next update."""
        rate = self.updates.learning_rate_at(self.at.step)
        return None if rate is None else rate * self._scale(self.at.history)

    def _scale(self, rows: Sequence[Mapping[str, float]]) -> float:
        return 1.0 if self.plateau is None else self.plateau.scale(History(tuple(rows)))

    def _call(self, moment: str, loss: float) -> None:
        """Call the callbacks; one that raises leaves the training saved."""
        at = self.at
        called = callbacks_at(self.callbacks, moment)
        if not called:
            return
        history, updates = History(tuple(at.history)), self.updates
        given = TrainingState(at.epoch, at.step, at.batch, loss, history, lambda: updates.carry, updates.measured)
        for f in called:
            try:
                found = f(given)
                self._stopped |= isinstance(found, bool | np.bool_) and bool(found)
            except BaseException as error:
                self._save(always=True)
                place = "lost without `save`"
                if self.folder is not None:
                    place = f"saved in {self.folder.path}: `fit` goes on from there"
                error.add_note(f"a callback of fit raised this after {at.step:,} updates; the training is {place}")
                raise

    def _spent(self) -> Counter[str]:
        """The seconds of this part of the run that went into each kind of work."""
        spent: Counter[str] = Counter()
        for s in self._stages.values():
            spent[s.name if s.name in TIMES else "compiling"] += 0 if s.inside else s.seconds  # type: ignore[assignment]
        return spent

    def _speed(self) -> float:
        """Samples per second of training in this epoch, or batches per second if the batch size is unknown."""
        began, before = self._began
        spent = self._spent()
        other = sum(spent[name] - self._before[name] for name in ("validation", "compiling"))
        seconds = max(time.perf_counter() - began - other, 1e-9)
        return max(1, self.source.items) * (self.at.batch - before) / seconds

    def _progress(self) -> Progress:
        at, each = self.at, self.source.steps
        fraction = 0.0
        if self.steps < math.inf:
            fraction = at.step / self.steps
        elif each is not None:
            fraction = (at.epoch + at.batch / each) / self.epochs
        epochs = None if self.epochs == math.inf else int(self.epochs)
        mean = at.loss / at.batch if at.batch else math.nan
        rate = self._rate()
        return Progress(at.epoch, epochs, at.step, at.batch, each, mean, self._speed(), fraction, at.seconds, rate)

    def _save(self, always: bool = False) -> None:
        if self.folder is not None and (always or self.folder.is_due(self.at.step)):
            self.folder.save(self.updates.carry, self.at, self.best)
            if self.at.history:
                History(tuple(self.at.history)).save(self.folder.path / HISTORY)


def _waited(loaded: Iterator[T]) -> Iterator[T]:
    """The same items; the time until each is there counts as loading."""
    while True:
        with stage("loading"):
            item = next(loaded, None)
        if item is None:
            return
        yield item


@contextmanager
def _interruption() -> Iterator[list[bool]]:
    """Record the first Ctrl-C so that training stops between two calls; a second one raises."""
    interrupted = [False]

    def note(number: int, frame: FrameType | None) -> None:
        if interrupted[0]:
            raise KeyboardInterrupt
        interrupted[0] = True

    if threading.current_thread() is not threading.main_thread():  # only the main thread handles signals
        yield interrupted
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
