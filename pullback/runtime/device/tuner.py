"""The tuner: schedules of a kernel, tried on a device.

For each kernel of a program without a measured schedule, the cheapest schedules by their estimates are compiled. The
results of each are checked before it is timed. Rounds time them in turns, with the present one first and last:

    estimates  →  four schedules  →  checked  →  timed beside the present one  →  estimates, corrected  →  four more ..

A schedule is used if it is faster by more than `GAIN`. If the present one does not keep its time within a round, the
device's clocks have changed, and the round does not count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from pullback.codegen.device.program import device_program
from pullback.errors import CompilerError, DeviceError, IndexRangeError, OutOfMemoryError
from pullback.ir import nodes as ir
from pullback.ir.alone import alone, scalars_of
from pullback.ir.halves import elements_of, to_half
from pullback.ir.program import Program
from pullback.ir.settings import Settings
from pullback.loops.plain.builder import Work
from pullback.loops.plain.candidates import Candidate
from pullback.loops.program.nodes import kernels_of
from pullback.loops.program.schedule import PLAIN, Chosen
from pullback.runtime.device.array import DeviceArray, sent
from pullback.runtime.device.cuda import CudaGpu
from pullback.runtime.device.driver import Gpu
from pullback.runtime.device.executor import DeviceExecutable
from pullback.runtime.device.export import loops_for, refuse
from pullback.runtime.device.schedules import (
    Table,
    chosen_text,
    elementwise,
    say,
    schedule_text,
    statement_key,
)
from pullback.runtime.device.stopwatch import Stopwatch, enough_calls
from pullback.runtime.emit import device_for, lower_as_preferred
from pullback.runtime.timing import on_processor

if TYPE_CHECKING:
    from pullback.runtime.buffer import NDArray

WIDTH: Final = 4  # schedules that are tried together
MOST: Final = 24  # schedules of a kernel that are tried
FAR: Final = 1.5  # times the best, beyond which a corrected estimate is not tried
ROUNDS: Final = 5
GAIN: Final = 0.97  # of the present time, above which a schedule is not worth a change
DRIFT: Final = 0.1  # the part by which the present schedule's time may change within a round
MOST_ROUNDS: Final = 3 * ROUNDS
SEED: Final = 0
ROUNDED: Final = {"f16": 2.0**-10, "bf16": 2.0**-7}  # the distance of neighbors by their size
Offers = Callable[[], list[Candidate]]


def tuned(gpu: Gpu, program: Program, dims: Mapping[str, int]) -> Measured | None:
    """Measure the kernels of a program that the table does not have; return the choice of their schedules.

    Devices without events for measurements keep the schedules of the estimates, with a warning.
    """
    if not isinstance(gpu, CudaGpu) or not gpu.family:
        say(f"{program.name}: kernels are not measured on {gpu.name}, and keep their schedules")
        return None
    measured = Measured(gpu, program.settings)
    while True:
        loops_for(program, dims, gpu.model, measured)
        if not measured.missing:
            return measured
        measured.measure()


class Measured:
    """The choice of schedules by a device's table; a `Preference`.

    Attributes:
        missing: works that the table does not have, by key.
    """

    def __init__(self, gpu: CudaGpu, settings: Settings) -> None:
        self.missing: dict[str, Work] = {}
        self._gpu = gpu
        self._settings = Settings(exact=settings.exact, precision=settings.precision, tune=settings.tune)
        self._table = Table(gpu.family)
        self._known: dict[str, str | None] = {}

    def __call__(self, work: Work, every: Offers) -> Candidate | None:
        """The measured schedule of some work; None if there is none, or it is the cheapest by its estimate."""
        key = self._key(work)
        if key is None:
            return None
        if key not in self._known:
            self._known[key] = self._table.find(key, work.outs[0].name)
        text = self._known[key]
        if text is None:
            self.missing[key] = work
        return _named(text, work, every) if text else None

    def _key(self, work: Work) -> str | None:
        return statement_key(work, f"{self._settings.precision} {self._settings.tune}")

    def measure(self) -> None:
        """Measure what is missing. Each result is stored at once."""
        while self.missing:
            key, work = self.missing.popitem()
            text = Trials(self._gpu, self._settings, work, self._key).best()
            self._known[key] = text or ""
            if text is not None:
                self._table.keep(key, text)


def _named(text: str, work: Work, every: Offers) -> Candidate | None:
    return next((c for c in every() if schedule_text(c.name, c.schedule, work) == text), None)


def program_of(work: Work, settings: Settings) -> Program:
    """The statements of a kernel as a program."""
    return alone(elementwise(work) or (), work.outs, settings, re.sub(r"\W", "_", work.outs[0].name))


class Wrong(Exception):
    """Raised when the results of a schedule are wrong, with the place."""


class Unsteady(Exception):
    """Raised when a device does not keep its clocks."""


@dataclass(frozen=True, eq=False)
class Trial:
    """A schedule on the device.

    Attributes:
        text: the schedule.   exact: whether its results round as written.
        executable: the program.   given, results: arrays on the device.
    """

    text: str
    exact: bool
    executable: DeviceExecutable
    given: Sequence[DeviceArray]
    results: Sequence[DeviceArray]

    def watch(self, gpu: CudaGpu, calls: int) -> Stopwatch:
        """A stopwatch of its calls."""
        return Stopwatch(gpu, self.executable.repeated(self.given, self.results), calls)


class Pick:
    """A preference for one schedule of one work; it keeps what is offered.

    Attributes:
        offered: the candidates by text, the cheapest first.
    """

    def __init__(self, key: str, key_of: Callable[[Work], str | None], text: str = "") -> None:
        self.offered: dict[str, Candidate] = {}
        self._key, self._key_of, self._text = key, key_of, text

    def __call__(self, work: Work, every: Offers) -> Candidate | None:
        """The candidate, if it is offered."""
        if self._key_of(work) != self._key:
            return None
        for c in every():
            self.offered.setdefault(schedule_text(c.name, c.schedule, work), c)
        return self.offered.get(self._text)


class Trials:
    """The trials of one kernel's schedules."""

    def __init__(self, gpu: CudaGpu, settings: Settings, work: Work, key_of: Callable[[Work], str | None]) -> None:
        self._gpu, self._work, self._key_of = gpu, work, key_of
        self._model = device_for(gpu.model, settings)
        self._name = f"{work.outs[0].name} on {gpu.name}"
        self.program = program_of(work, settings)
        self._draws = [Draw(self.program, "whole"), Draw(self.program, "near 1")]
        self._wanted: list[list[NDArray]] = []  # of the present schedule, for each of them

    def best(self) -> str | None:
        """The fastest schedule; "" if it is the present one, None if that is not known."""
        key = self._key_of(self._work) or ""
        pick = Pick(key, self._key_of)
        try:
            present = self._trial(pick)
            offered = pick.offered
            if present is None or len(offered) < 2:
                return ""
            if any(c.name == "library" for c in offered.values()):
                self._draws.append(Draw(self.program, "signed"))
            self._check_present(present)
            return self._search(present, offered, key)
        except Wrong as error:
            say(f"{self._name}: {error}; its schedules are not measured")
        except Unsteady:
            say(f"{self._name}: the clocks of the device change by more than {DRIFT:.0%} within a round of "
                "measurements; its schedule stays, and is measured again by the next process")
        except IndexRangeError:  # drawn indices are not in range
            return ""
        except OutOfMemoryError as error:
            say(f"{self._name}: {error.what}; its schedules are not measured")
        return None

    def _search(self, present: Trial, offered: Mapping[str, Candidate], key: str) -> str:
        """The beam: the cheapest by corrected estimates, as long as they help."""
        base = next((c.cycles for text, c in offered.items() if text == present.text), min(
            c.cycles for c in offered.values()))  # fmt: skip
        scale, best, chosen = dict[str, float](), 1.0, ""
        left = {text: c for text, c in offered.items() if text != present.text}
        calls = enough_calls(self._gpu, present.executable.repeated(present.given, present.results))
        for _ in range(MOST // WIDTH):
            expected = {text: c.cycles / base * scale.get(c.name, 1.0) for text, c in left.items()}
            front = sorted((t for t in expected if expected[t] <= FAR * best), key=expected.__getitem__)[:WIDTH]
            trials = [t for text in front if (t := self._checked(key, text)) is not None]
            found = self._ratios(present, trials, calls) if trials else {}
            for text in front:
                c = left.pop(text)
                if text in found:
                    seen = found[text] / (c.cycles / base)
                    scale[c.name] = min(scale.get(c.name, math.inf), seen)
            faster = min(found, key=found.__getitem__, default="")
            if not faster or found[faster] >= best * GAIN:
                break
            best, chosen = found[faster], faster
        return chosen

    def _checked(self, key: str, text: str) -> Trial | None:
        """A schedule whose results are right; None for others, which are reported."""
        try:
            trial = self._trial(Pick(key, self._key_of, text))
            if trial is None or trial.text != text:
                return None
            self._check(trial)
            calls = trial.executable.vendor
            if trial.executable.program.vendor_calls and (calls is None or calls.failed):
                return None  # as was reported
        except Wrong as error:
            say(f"{self._name}: the schedule {text} is wrong and not used: {error}")
            return None
        except (CompilerError, OutOfMemoryError) as error:
            say(f"{self._name}: the schedule {text} is not used: {error.what}")
            return None
        except DeviceError as error:
            if error.code != "E419":  # then nothing runs any more
                raise
            say(f"{self._name}: the schedule {text} is not used: {error.what}")
            return None
        return trial

    def _trial(self, pick: Pick) -> Trial | None:
        """The program with a schedule, called once; None if it is not one kernel by choice."""
        gpu, exact = self._gpu, self.program.settings.exact
        lowered = lower_as_preferred(self.program, self._model, pick)
        refuse(lowered.function)
        made = device_program(lowered.function, lowered.memory, gpu.words, self._model, comments=False, exact=exact)
        executable = DeviceExecutable(gpu, self.program, lowered, made, gpu.image(made, exact))
        choices = [k.choice for k in kernels_of(lowered.function.body)]
        text = self._text(pick, choices)
        if text is None:
            return None
        arrays = zip(self._draws[0].arrays, self.program.inputs, strict=True)
        given = [sent(gpu, a, r.storage, r.name) for a, r in arrays]
        results = executable.queued(given)
        for r in results:
            r.verify()
        return Trial(text, all(o.exact for t, o in pick.offered.items() if t == text), executable, given, results)

    def _text(self, pick: Pick, choices: Sequence[Chosen | None]) -> str | None:
        """The schedule that was built."""
        built = [t for c in choices if c is not None
                 for t in (chosen_text(c, self._work), schedule_text(c.name, PLAIN, self._work))]  # fmt: skip
        whole = next((t for t in built if t in pick.offered), None)
        return whole or next((t for t, c in pick.offered.items() if c.name == "apart"), None)

    # Checks -----------------------------------------------------------------------------------------------------

    def _check_present(self, present: Trial) -> None:
        """Compare the present schedule with C for processors.

        Raises:
            Wrong: they differ by more than rounding.
        """
        self._wanted = [_called(present.executable, d.arrays) for d in self._draws]
        host = on_processor(self.program, self._draws[0].arrays)
        for a, b, o in zip(self._wanted[0], host, self.program.outputs, strict=True):
            if why := difference(a, b, o, self._draws[0].bound):
                raise Wrong(f"its present schedule gives other values than the processor: {o.name} {why}")

    def _check(self, trial: Trial) -> None:
        """Compare a schedule with the present one.

        Raises:
            Wrong: they differ by more than rounding, or at all where both round as written.
        """
        for d, wanted in zip(self._draws, self._wanted, strict=True):
            for a, b, o in zip(_called(trial.executable, d.arrays), wanted, self.program.outputs, strict=True):
                if why := difference(a, b, o, 0.0 if trial.exact and self.program.settings.exact else d.bound):
                    raise Wrong(f"{o.name} {why}")

    # Times ------------------------------------------------------------------------------------------------------

    def _ratios(self, present: Trial, trials: Sequence[Trial], calls: int) -> dict[str, float]:
        """The times of schedules by that of the present one: the median of the ratios within rounds.

        Raises:
            Unsteady: the present one does not keep its time.
        """
        ratios: dict[str, list[float]] = {t.text: [] for t in trials}
        with ExitStack() as stack:
            first, *others = (stack.enter_context(t.watch(self._gpu, calls)) for t in (present, *trials))
            first.seconds()
            rounds = 0
            for _ in range(MOST_ROUNDS):
                before = first.seconds()
                times = [w.seconds() for w in others]
                after = first.seconds()
                if not abs(after - before) <= DRIFT * min(before, after) or not after:
                    continue
                for t, seconds in zip(trials, times, strict=True):
                    ratios[t.text].append(2 * seconds / (before + after))
                if (rounds := rounds + 1) == ROUNDS:
                    return {text: median(r) for text, r in ratios.items()}
        raise Unsteady


def _called(executable: DeviceExecutable, inputs: Sequence[NDArray]) -> list[NDArray]:
    return executable.run([a.copy() for a in inputs])


# Arrays and their comparison ------------------------------------------------------------------------------------


class Draw:
    """Reproducible arguments, and the largest difference of results by rounding.

    Sums of products of small whole numbers are exact, so all orders give the same sum, and a lost term shows. Numbers
    near 1 show lost digits. In sums of numbers with signs, the sum is small beside the terms. There digits of the terms
    show that are lost in a long sum of positive numbers. Only plain products take them, as other functions of
    a small sum may be large.

    Attributes:
        arrays: the arguments.   bound: the difference, relative to the largest element.
    """

    def __init__(self, program: Program, kind: Literal["whole", "near 1", "signed"]) -> None:
        rng = np.random.default_rng(SEED)
        self.arrays = [_drawn(r, kind, rng) for r in program.inputs]
        self.bound = bound(program, kind == "signed")


def _drawn(ref: ir.Ref, kind: str, rng: np.random.Generator) -> NDArray:
    shape = tuple(i.constant or 0 for i in ref.shape)
    if not ref.dtype.is_floating:
        return rng.integers(0, 2, shape).astype(ref.storage.numpy)
    if kind == "whole":
        return _stored(rng.integers(1, 4, shape), ref)
    return _stored(rng.normal(size=shape) if kind == "signed" else rng.uniform(0.5, 1.5, shape), ref)


def _stored(numbers: NDArray, ref: ir.Ref) -> NDArray:
    if ref.storage.is_half:
        return to_half(numbers, ref.storage).view(ref.storage.numpy)
    return np.asarray(numbers, ref.storage.numpy)


def bound(program: Program, signed: bool = False) -> float:
    """The largest difference by rounding of sums in other orders, relative to the largest element.

    A sum of n positive terms in order has an error of about sqrt(n) roundings, and n at most (Higham and Mary, A New
    Approach to Probabilistic Rounding Error Analysis, 2019). Tensor cores cut off instead of rounding, once for each 8
    or 16 terms, and these errors add up. So n / 8 roundings are allowed; sqrt(n) for terms with signs, whose errors
    have signs, too.
    """
    sums = [n.vars for s in program.body.statements for n in scalars_of(_elementwise(s)) if isinstance(n, ir.Reduce)]
    sums += [s.vars for s in program.body.statements if isinstance(s, ir.Scatter)]
    terms = sum(math.prod(v.extent.constant or 1 for v in run) for run in sums)
    rounded = 2.0**-10 if program.settings.precision == "tf32" else 0.0
    return rounded + (16 + (math.sqrt(terms) if signed else terms / 8)) * 2.0**-23


def _elementwise(s: ir.Statement) -> ir.Elementwise:
    assert isinstance(s, ir.Build | ir.Scatter | ir.Sort)
    return s


def difference(a: Any, b: Any, ref: ir.Ref, most: float) -> str:
    """The difference of results from the wanted ones in words; empty if it is only rounding."""
    a, b = (elements_of(x, ref.storage) for x in (a, b))
    if not ref.dtype.is_floating:
        return "" if np.array_equal(a, b) else f"differs at {_place(a != b)}"
    if a.tobytes() == b.tobytes():
        return ""
    a, b = a.astype(np.float64), b.astype(np.float64)
    if ref.dtype.bits > 32 and most:
        most *= 2.0**-29
    finite = np.isfinite(b)
    same = np.where(finite, np.isfinite(a), (a == b) | (np.isnan(a) & np.isnan(b)))
    scale = max(float(np.max(np.abs(b), where=finite, initial=0.0)), 1e-30)
    room = most + ROUNDED.get(ref.storage.name, 0.0) * bool(most)
    apart = np.abs(np.where(finite, a - b, 0.0)) / scale
    if np.all(same) and (worst := float(np.max(apart, initial=0.0))) <= room:
        return ""
    if not np.all(same):
        return f"is not finite, or should not be, at {_place(~same)}"
    return f"is apart by {worst:.1e} of the largest element at {_place(apart == worst)}, more than {room:.1e}"


def _place(where: Any) -> str:
    return str([int(k) for k in np.argwhere(np.atleast_1d(where))[0]])
