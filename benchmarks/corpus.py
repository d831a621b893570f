"""The corpus: programs whose C shows the effect of compiler changes, and whose times its cost.

    pullback bench corpus --save DIR        writes the C of every program, and a table of digests
    pullback bench corpus --against DIR     says which texts differ from those
    pullback bench corpus --against DIR --time    and times both texts of these programs, interleaved in one run

A program is a definition with sizes, from which all of this is made anew: the benchmarks' rows, the examples, random
programs, steps of small networks, verbs of APL. Each has the C that is exported and the C that calls are compiled from;
some also have C for all sizes. Texts have canonical names and no comments, and depend on nothing but the definition.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from benchmarks import counts, derivatives, kernels, networks, programs
from benchmarks.harness import Note
from benchmarks.systems import derivatives_pullback, kernels_pullback, programs_pullback
from benchmarks.trials import Trial, statements, trial
from pullback.calls import Function
from pullback.files import put_file
from pullback.ir.dims import determined_dims, solve_dims
from pullback.ir.program import Program
from pullback.machine import AVX512, GENERIC, Machine
from pullback.runtime.emit import Lowered, lower_program, print_lowered
from pullback.runtime.record import Record
from pullback.runtime.timing import Called, arguments, in_turns
from tests.support.programs import random_program

__all__ = ["FORMS", "Entry", "Form", "Timing", "corpus", "differing", "figures", "made", "save", "texts", "timings"]

TABLE: Final = "corpus.json"
RANDOM: Final = 24  # random programs
SLOWER: Final = 1.05


@dataclass(frozen=True)
class Entry:
    """A program of the corpus: its name, and what gives its definition and the values of its dims."""

    name: str
    make: Callable[[], tuple[Program, Mapping[str, int]]]


@dataclass(frozen=True)
class Form:
    """One of the ways in which a program becomes C."""

    name: str
    machine: Machine
    threaded: bool

    def lower(self, program: Program, dims: Mapping[str, int]) -> Lowered:
        """The program in this form, without a trace of the order in which things were made."""
        return lower_program(program, dims, False, self.machine, canonical=True, threaded=self.threaded)


CALLED: Final = Form("called", AVX512, True)
FORMS: Final = (Form("shipped", GENERIC, False), CALLED)
OPEN: Final = "open"  # the first form, for all sizes


# What is in it ----------------------------------------------------------------------------------------------------


def corpus(examples: Mapping[str, ModuleType] | None = None) -> Iterator[Entry]:
    """All programs.

    Args:
        examples: modules of the examples by name; those that are not there are left out.
    """
    for case in counts.cases(examples):
        yield Entry(case.name, partial(_counted, case, derived=False))
        yield Entry(f"{case.name}, gradient", partial(_counted, case, derived=True))
    for row in derivatives.CASES:
        yield Entry(f"derivative {row.name}", partial(_derivative, row))
    for kernel in kernels.CASES:
        yield Entry(f"kernel {kernel.name}", partial(_kernel, kernel))
    for whole in programs.CASES:
        yield Entry(f"program {whole.name}", partial(_program, whole))
    for name, shape in NETWORKS.items():
        yield Entry(f"network {name}", partial(_network, name, *shape))
    for name, (verb, shapes) in VERBS.items():
        yield Entry(f"apl {name}", partial(_verb, verb, shapes))
    for seed in range(RANDOM):
        yield Entry(f"random {seed}", partial(random, seed))


NETWORKS: Final[Mapping[str, tuple[dict[str, Any], tuple[int, ...], int]]] = {
    "lenet": ({}, (8, 1, 28, 28), 0),
    "resnet18": ({"num_classes": 10, "width_mult": 0.125}, (2, 3, 32, 32), 0),
    "mobilenet_v2": ({"num_classes": 10, "width_mult": 0.25, "dropout": 0.0}, (2, 3, 32, 32), 0),
    "gpt": ({"vocab_size": 32, "embed_dim": 32, "num_heads": 2, "num_layers": 2}, (2, 16), 32),
    "character_lstm": ({"vocab_size": 32, "hidden_size": 32, "num_layers": 1}, (4, 8), 32),
}
VERBS: Final[Mapping[str, tuple[str, tuple[tuple[int, ...], ...]]]] = {
    "mean": ("{(+/⍵)÷≢⍵}", ((1000,),)),
    "variance": ("{m←(+/⍵)÷≢⍵ ⋄ (+/(⍵-m)*2)÷≢⍵}", ((1000,),)),
    "product": ("{⍺+.×⍵}", ((60, 70), (70, 80))),
    "differences": ("{(1↓⍵)-¯1↓⍵}", ((1000,),)),
    "outer": ("{⍺∘.×⍵}", ((100,), (90,))),
    "scan": ("{+\\⍵}", ((500,),)),
    "turned": ("{(⌽⍵)+⍉⍵}", ((64, 64),)),
    "largest": ("{(⌈/⍵)-⌊/⍵}", ((50, 60),)),
    "logistic": ("{÷1+*-⍵}", ((1000,),)),
    "windows": ("{+/(⍳¯2+≢⍵)∘.(+)0 1 2}", ((100,),)),
}


def _counted(case: counts.CountedCase, derived: bool) -> tuple[Program, Mapping[str, int]]:
    program = case.function.program()
    if derived:
        single = len(program.outputs) == 1 and not program.outputs[0].shape and case.wrt is not None
        program = (pb.value_and_grad if single else pb.vjp)(case.function, case.wrt).program()
    return program, {n: case.dims[n] for n in determined_dims(program)}


def _of_call(function: Any, arguments: Sequence[Any]) -> tuple[Program, Mapping[str, int]]:
    """The program of a call, and its dims."""
    assert isinstance(function, Function)
    _, traced, arrays, sizes = function.arrays_of(arguments)
    return traced.program, solve_dims(traced.program, [a.shape for a in arrays], sizes)


def _derivative(case: derivatives.DerivativeCase) -> tuple[Program, Mapping[str, int]]:
    return _of_call(derivatives_pullback.FUNCTIONS[case.name], case.make(case.sizes[0]))


def _kernel(case: kernels.KernelCase) -> tuple[Program, Mapping[str, int]]:
    return _of_call(kernels_pullback.function(case), case.make())


def _program(case: programs.ProgramCase) -> tuple[Program, Mapping[str, int]]:
    function, arguments = programs_pullback.FUNCTIONS[case.name](case), case.make()
    return _of_call(function, arguments)


def _network(name: str, settings: Mapping[str, Any], shape: tuple[int, ...], integers: int
             ) -> tuple[Program, Mapping[str, int]]:
    """A step of descent."""
    from pullback import nn

    made = getattr(nn.models, name)(**settings)
    network = networks.Network(name, lambda: made, shape[1:], shape[0], 10, integers)
    net = network.on()
    parameters, state = net.init(seed=0)
    loss = nn.objective(net, nn.models.with_auxiliary(nn.cross_entropy))

    def step(parameters: Any, state: Any, x: Any, target: Any) -> Any:
        derived = pb.value_and_grad(loss, wrt="parameters", has_aux=True)
        (found, after), gradient = derived(parameters, state, (x, target))
        return (pb.tree_map(lambda p, g: p - 1e-3 * g, parameters, gradient), after), found

    x, target = network.inputs(shape[0])
    return _of_call(pb.function(step), (parameters, state, x, target))


def _verb(verb: str, shapes: Sequence[tuple[int, ...]]) -> tuple[Program, Mapping[str, int]]:
    from pullback.apl import apl

    return _of_call(apl(verb), [np.zeros(s) for s in shapes])


def random(seed: int) -> tuple[Program, Mapping[str, int]]:
    case = random_program(np.random.default_rng(seed))
    return case.program, case.dims


# Texts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """C of a program, and what calls of it need to know."""

    name: str
    form: str
    record: Record

    @property
    def file(self) -> str:
        """The name of its file."""
        kept = "".join(c if c.isalnum() or c in "-_." else "_" for c in self.name)
        return f"{kept}.{self.form}.c"

    @property
    def digest(self) -> str:
        """The digest of the text."""
        return hashlib.blake2b(self.record.units[0].encode(), digest_size=10).hexdigest()


def texts(entry: Entry) -> Iterator[Text]:
    """The C of a program in all forms."""
    program, dims = entry.make()
    for form in FORMS:
        yield _text(entry, form.name, form.lower(program, dims))
    if determined_dims(program):
        yield _text(entry, OPEN, FORMS[0].lower(program, {}))


def _text(entry: Entry, form: str, lowered: Lowered) -> Text:
    source = print_lowered(lowered, names="canonical", comments=False)
    record = Record.of(lowered.function, source)
    return Text(entry.name, form, replace(record, units=(source.text,), straight=False))


def save(entries: Sequence[Entry], directory: Path, note: Note) -> list[Text]:
    """Write the C of all programs and a table of what calls need, with digests."""
    directory.mkdir(parents=True, exist_ok=True)
    found = made(entries, note)
    for t in found:
        put_file(directory / t.file, t.record.units[0].encode())
    table = [{**asdict(replace(t.record, units=())), "entry": t.name, "form": t.form, "digest": t.digest}
             for t in found]
    put_file(directory / TABLE, json.dumps(table, indent=1).encode())
    return found


def made(entries: Sequence[Entry], note: Note) -> list[Text]:
    """The texts of all programs."""
    return [t for e in _noted(entries, note) for t in texts(e)]


def _noted(entries: Sequence[Entry], note: Note) -> Iterator[Entry]:
    for k, e in enumerate(entries):
        note(f"{k + 1} of {len(entries)}: {e.name}")
        yield e


def saved(directory: Path) -> dict[tuple[str, str], Text]:
    """The texts that `save` wrote, by program and form."""
    out = {}
    for row in json.loads((directory / TABLE).read_text(encoding="utf-8")):
        name, form = row["entry"], row["form"]
        empty = Text(name, form, Record.read(row))
        text = (directory / empty.file).read_text(encoding="utf-8")
        out[name, form] = replace(empty, record=replace(empty.record, units=(text,)))
    return out


def differing(entries: Sequence[Entry], directory: Path, note: Note) -> list[tuple[Text | None, Text]]:
    """The texts that are not what they were, each with what it was, None where there was none."""
    before = saved(directory)
    now = made(entries, note)
    return [(old, t) for t in now if (old := before.get((t.name, t.form))) is None or old.digest != t.digest]


# Times ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timing:
    """Seconds of a call by two texts of a program, and the largest difference of what they give."""

    name: str
    before: float
    after: float
    difference: float

    @property
    def ratio(self) -> float:
        """Above one where it has become slower."""
        return self.after / self.before


def timing(before: Text, after: Text, budget: float = 1.0) -> Timing:
    """Time two texts against each other: single calls in turns, the smallest time of each."""
    for integers in (2, 1):  # 1 may be out of range as an index
        inputs = arguments(after.record, integers)
        pair = [Called(t.record, inputs) for t in (before, after)]
        if not any(c.status for c in pair):
            break
    old, new = in_turns(pair, budget)
    return Timing(after.name, old, new, difference(pair[0].outputs, pair[1].outputs))


def difference(a: Sequence[NDArray[Any]], b: Sequence[NDArray[Any]]) -> float:
    """The largest, relative to the largest element."""
    worst = 0.0
    for x, y in zip(a, b, strict=True):
        if x.size and x.dtype.kind == "f":
            with np.errstate(all="ignore"):
                apart = np.nanmax(np.abs(x - y), initial=0.0) / max(1.0, float(np.nanmax(np.abs(x), initial=0.0)))
            worst = max(worst, float(apart))
        elif x.size:
            worst = max(worst, float(np.mean(x != y)))
    return worst


def timings(pairs: Sequence[tuple[Text | None, Text]], note: Note, budget: float = 1.0) -> list[Timing]:
    """Time those texts that calls are compiled from, where both are there."""
    out = []
    for before, after in pairs:
        if after.form == CALLED.name and before is not None:
            out.append(timing(before, after, budget=budget))
            note(line(out[-1]))
    return out


def line(t: Timing) -> str:
    """A timing in words."""
    wrong = f"   DIFFERS by {t.difference:.1e}" if t.difference > 1e-3 else ""
    return f"{t.ratio:6.3f}  {1e6 * t.before:10.2f} µs -> {1e6 * t.after:10.2f} µs  {t.name}{wrong}"


def figures(found: Sequence[Timing]) -> list[str]:
    """The geometric mean and the worst five, as lines."""
    if not found:
        return []
    mean = math.exp(statistics.fmean(math.log(t.ratio) for t in found))
    worst = sorted(found, key=lambda t: -t.ratio)[:5]
    slower = sum(t.ratio > SLOWER for t in found)
    head = f"{len(found)} programs timed: geometric mean {mean:.3f}, {slower} slower by more than 5 %; the worst:"
    return [head, *map(line, worst)]


def trials(entries: Sequence[Entry], note: Note, every: int = 1, of: Callable[..., Trial | None] = trial
           ) -> Iterator[Trial]:
    """Measure alternatives for each statement, or every n-th, as called; by default the candidates."""
    optimized = (CALLED.lower(*e.make()).program for e in _noted(entries, note))
    for k, s in enumerate(statements((p for p in optimized if not p.settings.exact), CALLED.machine)):
        found = of(s, CALLED.machine) if k % every == 0 else None
        if found is not None:
            note(str(found))
            yield found


def judged(found: Sequence[Trial]) -> list[str]:
    """Report as lines how often estimates chose well, and where not."""
    bad = sorted((t for t in found if not t.good), key=lambda t: -t.ratio)
    share = 100 * (1 - len(bad) / max(len(found), 1))
    chose = sum(t.tried[0].seconds for t in found) / max(sum(t.fastest.seconds for t in found), 1e-12)
    head = f"{len(found)} statements with a choice: {share:.0f} % chosen the fastest, or within 10 % of it"
    return [f"{head}; all of them together take {chose:.2f} times the fastest", *map(str, bad)]
