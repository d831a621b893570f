"""The example of an exported project: inputs in the function's domain, and a `main` that checks what it computes.

Inputs are numbers of a kind, made from their positions by the same formula here and in C, or given arrays. Kinds are
tried on the interpreter: first one for all inputs, then another for one input at a time, until each result is finite
and changes little where the inputs change by a few units of the last place; else the inputs of most such results are
taken. Results that a rounding changes are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Final

import numpy as np

from pullback.codegen.c import CSource
from pullback.codegen.expressions import literal
from pullback.codegen.names import unique
from pullback.errors import PullbackError, ShapeError
from pullback.ir.interpret import interpret
from pullback.ir.program import Program
from pullback.ir.types import DType, f64
from pullback.loops.storage import make_buffer
from pullback.runtime.buffer import NDArray, extents, prepared

SAMPLES: Final = 32
EMBEDDED: Final = 4096  # elements of a captured array that the example may hold
TOLERANCE: Final = {"f32": 2e-3, "f64": 1e-7}
MOST_WORK: Final = 10**9  # operations of all runs of the interpreter
MOST_RUNS: Final = 60
_MULTIPLIER: Final = 2654435761


# Inputs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """Floating-point numbers from `low` to `low + width`; with `definite` a matrix, symmetric and positive definite.

    The width is a power of two and `low` has few bits, so that no operation rounds.
    """

    low: float
    width: float
    definite: bool = False


@dataclass(frozen=True)
class Whole:
    """Integers low .. low + count - 1."""

    low: int
    count: int


UNIFORM: Final = Kind(-1, 2)
POSITIVE: Final = Kind(0.5, 1)
FRACTION: Final = Kind(0.125, 0.5)
DEFINITE: Final = Kind(-1, 2, definite=True)
FAMILIES: Final = (UNIFORM, POSITIVE, FRACTION, Kind(1.5, 1), Kind(-1.5, 1), Kind(8, 4))
WHOLES: Final = (Whole(0, 5), Whole(0, 2), Whole(1, 4), Whole(0, 1), Whole(1, 1))
Fill = Kind | Whole | None  # None: the array is given


@dataclass(frozen=True)
class Example:
    """Inputs, how they are filled, and their results; `steady` says which of these a rounding does not change."""

    inputs: tuple[NDArray, ...]
    fills: tuple[Fill, ...]
    outputs: tuple[NDArray, ...]
    steady: tuple[NDArray, ...]

    @property
    def quality(self) -> float:
        """The part of the results that are finite and steady."""
        total = sum(a.size for a in self.outputs)
        return sum(int((s & np.isfinite(a)).sum()) for a, s in zip(self.outputs, self.steady)) / max(total, 1)


def find_example(program: Program, given: Sequence[NDArray] | None, operations: int) -> Example:
    """The example of a program whose dims are numbers.

    Args:
        given: what the caller says that it is called with; captured arrays may be left out.
        operations: about how many the program takes, as a measure of the time to spend.
    Raises:
        ShapeError: [E147] it runs with none of the inputs that were tried.
    """
    captured = program.notes.get("captured", ())
    first = len(program.inputs) - len(captured)
    known: dict[int, NDArray] = {first + k: np.asarray(a) for k, a in enumerate(captured) if np.size(a) <= EMBEDDED}
    if given is not None:
        known |= dict(enumerate(map(np.asarray, given)))
    search = _Search(program, known)
    runs = max(len(FAMILIES), min(MOST_RUNS, MOST_WORK // max(operations, 1)))
    for fills in islice(search.candidates(), runs):
        search.run(fills)
        if search.best is not None and search.best.quality == 1:
            break
    if search.best is None:
        raise ShapeError(
            "E147", f"{program.name}: no inputs were found that the example of its C can call it with",
            facts=[search.failures[0].what], remedy="`example=(...)` with the arguments of a call",
        ) from search.failures[0]
    return search.best


class _Search:
    """Looks for inputs by running the interpreter."""

    def __init__(self, program: Program, known: Mapping[int, NDArray]) -> None:
        self.program = program
        self.buffers = [make_buffer(r, "input") for r in program.inputs]
        self.known = {k: prepared(a, b.name, b.dtype.numpy, extents(b))
                      for k, b in enumerate(self.buffers) if (a := known.get(k)) is not None}
        self.best: Example | None = None
        self.failures: list[PullbackError] = []

    def run(self, fills: Sequence[Fill]) -> None:
        """Keep the example with these inputs if it is the best."""
        arrays = [self.known[k] if fill is None else numbers(fill, extents(b), b.dtype, seed(k))
                  for k, (fill, b) in enumerate(zip(fills, self.buffers))]
        try:
            outputs = interpret(self.program, arrays)
            noisy = interpret(self.program, [_noisy(a) for a in arrays])
        except PullbackError as error:  # an index that is out of its range
            self.failures.append(error)
            return
        steady = tuple(_close(a, b, TOLERANCE.get(r.dtype.name, 0) / 8)
                       for r, a, b in zip(self.program.outputs, outputs, noisy, strict=True))
        found = Example(tuple(arrays), tuple(fills), tuple(outputs), steady)
        if self.best is None or found.quality > self.best.quality:
            self.best = found

    def candidates(self) -> Iterator[list[Fill]]:
        """What to try: one kind for all, matrices positive definite or not, then another for one input at a time."""
        if len(self.known) == len(self.buffers):
            yield [None] * len(self.buffers)
            return
        squares = {k for k, b in enumerate(self.buffers) if len(b.shape) > 1 and b.shape[-1] is b.shape[-2]}
        integers = [k for k, r in enumerate(self.program.inputs) if k not in self.known and r.dtype.is_integer]
        whole = WHOLES[0]
        for whole in WHOLES:
            yield self._all(UNIFORM, whole)
            if self.best is not None:
                break
        else:
            for wholes in product(WHOLES, repeat=len(integers)):
                yield self._changed(self._all(UNIFORM, whole), dict(zip(integers, wholes)))
        for kind in FAMILIES:
            fills = self._all(kind, whole)
            if squares:
                yield self._changed(fills, dict.fromkeys(squares, DEFINITE))
            yield fills
        for k, b in enumerate(self.buffers):
            for other in (*FAMILIES, DEFINITE) if b.dtype.is_floating else WHOLES if k in integers else ():
                if self.best is not None and (other is not DEFINITE or k in squares):
                    yield self._changed(self.best.fills, {k: other})

    def _changed(self, fills: Sequence[Fill], others: Mapping[int, Kind | Whole]) -> list[Fill]:
        """Other fills for some inputs, except for given arrays."""
        return [others.get(k, fill) if fill is not None else None for k, fill in enumerate(fills)]

    def _all(self, kind: Kind, whole: Whole) -> list[Fill]:
        """Numbers of one kind for all inputs, integers in their bounds where these are declared."""
        out: list[Fill] = []
        for k, r in enumerate(self.program.inputs):
            bounds = None if r.bounds is None else (r.bounds[0].constant, r.bounds[1].constant)
            if k in self.known:
                out.append(None)
            elif r.dtype.is_floating:
                out.append(kind)
            elif r.dtype.is_bool:
                out.append(Whole(0, 2))
            elif bounds is not None and bounds[0] is not None and bounds[1] is not None:
                out.append(Whole(bounds[0], max(1, bounds[1] - bounds[0])))
            else:
                out.append(whole)
        return out


def seed(input: int) -> int:
    """What is added to the positions in an input, so that inputs differ."""
    return 1000 * input + 1


def numbers(fill: Kind | Whole, shape: tuple[int, ...], dtype: DType, seed: int) -> NDArray:
    """The numbers that the example makes, by the formula that `_filling` prints."""
    i = np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.uint64)
    values: NDArray
    if isinstance(fill, Whole):
        values = (_mixed(i + np.uint64(seed)) >> np.uint64(8)) % np.uint64(fill.count) + np.uint64(fill.low)
    elif not fill.definite:
        values = _mixed(i + np.uint64(seed)) / (4294967296.0 / fill.width) + fill.low
    else:
        n = np.uint64(shape[-1])
        row, column = i // n % n, i % n
        both = np.maximum(row, column) * n + np.minimum(row, column)
        values = _mixed(both + np.uint64(seed)) / (4294967296.0 / fill.width) + fill.low
        values = np.where(row == column, float(n + np.uint64(1)), values)
    return values.astype(dtype.numpy).reshape(shape)


def _mixed(i: NDArray) -> NDArray:
    return i * np.uint64(_MULTIPLIER) & np.uint64(0xFFFFFFFF)


def _noisy(a: NDArray) -> NDArray:
    """The array with every number changed a little, up or down."""
    if a.dtype.kind != "f":
        return a
    up = _mixed(np.arange(a.size, dtype=np.uint64) + np.uint64(7)).reshape(a.shape) >= 1 << 31
    noise = 4 * np.finfo(a.dtype).eps
    changed: NDArray = a * np.where(up, 1 + noise, 1 - noise).astype(a.dtype)
    return changed


def _close(a: NDArray, b: NDArray, tolerance: float) -> NDArray:
    """Where two results are the same, up to a tolerance as `close_to` in the example has it."""
    same: NDArray = (a == b) | ((a != a) & (b != b))
    if a.dtype.kind == "f":
        with np.errstate(all="ignore"):
            same |= np.abs(a - b) <= tolerance * (1 + np.abs(b))
    return same


# C --------------------------------------------------------------------------------------------------------------


def example_text(program: Program, source: CSource, arena_bytes: int, dims: Mapping[str, int],
                 example: Example) -> str:
    """The file with `main`.

    Args:
        arena_bytes: what the arena has.   dims: the arguments that are dims.
    """
    return _Main(program, source).text(arena_bytes, dims, example)


class _Main:
    """Prints the file: its own names are none of the function's."""

    def __init__(self, program: Program, source: CSource) -> None:
        self.program = program
        self.source = source
        self.top: list[str] = []
        self.body: list[str] = []
        self.checks: list[str] = []
        self.arguments: list[str] = []

    def own(self, wish: str) -> str:
        """A name of this file."""
        return unique(wish, lambda n: n in (self.source.name, f"{self.source.name}_arena_bytes"))

    def text(self, arena_bytes: int, dims: Mapping[str, int], example: Example) -> str:
        """The file."""
        name, macro = self.source.name, self.source.name.upper()
        own, arena, wrong, status = self.own, self.own("memory"), self.own("wrong"), self.own("status")
        for k, (fill, a) in enumerate(zip(example.fills, example.inputs)):
            self._input(k, fill, a)
        for k, (a, steady) in enumerate(zip(example.outputs, example.steady)):
            self._output(k, a, steady)
        sizes = [str(n) for n in dims.values()]
        if sizes:
            self.body += [f"if ({name}_arena_bytes({', '.join(sizes)}) > sizeof {arena} - 64) {{",
                          '    printf("the arena is too small\\n");', "    return 1;", "}"]
        arguments = [*self.arguments, *sizes, f"{macro}_ALIGNED({arena})", *["0"] * bool(self.source.sites)]
        mixed = ([f"static uint32_t {own('mixed')}(uint32_t i) {{", f"    return i * {_MULTIPLIER}u;", "}", ""]
                 if any(fill is not None for fill in example.fills) else [])
        memory = f"static unsigned char {arena}[{arena_bytes} + 64];" if sizes else f"{macro}_STATIC_ARENA({arena});"
        lines = [
            f"/* Calls {name} and compares its results with numbers computed by the reference interpreter. */",
            "#include <math.h>", "#include <stdio.h>", f'#include "{name}.h"', "", memory, "", *self.top, "", *mixed,
            *(self._close_to() if self.checks else []), "int main(void) {", f"    int {wrong} = 0;",
            *(f"    {t}" for t in self.body), f"    int {status} = {name}({', '.join(arguments)});",
            f"    if ({status}) {{", f'        printf("range check %d failed\\n", {status});', "        return 1;",
            "    }",
            *(f"    {t}" for t in self.checks),
            f'    printf("{name}: %d numbers differ from the reference\\n", {wrong});', f"    return {wrong} != 0;",
            "}", "",
        ]  # fmt: skip
        return "\n".join(lines)

    def _close_to(self) -> list[str]:
        return [f"static int {self.own('close_to')}(double got, double wanted, double tolerance) {{",
                "    if (got == wanted || (got != got && wanted != wanted)) return 1;",
                "    return fabs(got - wanted) <= tolerance * (1 + fabs(wanted));", "}", ""]

    def _input(self, k: int, fill: Fill, a: NDArray) -> None:
        """The array of an input, and what fills it."""
        r, variable, count = self.program.inputs[k], self.own(f"input{k}"), max(a.size, 1)
        self.arguments.append(variable)
        if fill is None:
            given = ", ".join(literal(v.item(), r.dtype)[0] for v in a.reshape(-1)) or "0"
            self.top.append(f"static const {r.dtype.c} {variable}[{count}] = {{{_folded(given)}}}; /* {r.name} */")
            return
        self.top.append(f"static {r.dtype.c} {variable}[{count}]; /* {r.name} */")
        value = self._filling(fill, a.shape, seed(k))
        self.body.append(f"for (uint32_t i = 0; i < {a.size}; ++i) {variable}[i] = ({r.dtype.c})({value});")

    def _filling(self, fill: Kind | Whole, shape: tuple[int, ...], seed: int) -> str:
        """The number at position i; as `numbers` has it."""
        mixed = self.own("mixed")
        if isinstance(fill, Whole):
            return f"({mixed}(i + {seed}) >> 8) % {fill.count}" + f" + {fill.low}" * (fill.low != 0)
        end = f"/ {4294967296.0 / fill.width} {'-' if fill.low < 0 else '+'} {abs(fill.low)}"
        if not fill.definite:
            return f"{mixed}(i + {seed}) {end}"
        n = shape[-1]
        row, column = f"i / {n} % {n}", f"i % {n}"
        both = f"({row} > {column} ? {row} * {n} + {column} : {column} * {n} + {row})"
        return f"{row} == {column} ? {n + 1}.0 : {mixed}({both} + {seed}) {end}"

    def _output(self, k: int, a: NDArray, steady: NDArray) -> None:
        """The array of a result, and the comparison of some of its numbers."""
        r, variable = self.program.outputs[k], self.own(f"output{k}")
        self.arguments.append(variable)
        self.top.append(f"static {r.dtype.c} {variable}[{max(a.size, 1)}]; /* {r.name} */")
        flat, places = a.reshape(-1), np.flatnonzero(steady)
        if not places.size:
            self.top += [f"/* {r.name} is not compared: small changes of the inputs change it. */"] * bool(a.size)
            return
        spread = np.linspace(0, places.size - 1, min(SAMPLES, places.size)).astype(int)
        picked = sorted({int(places[i]) for i in spread})
        position, wanted, wrong = self.own(f"position{k}"), self.own(f"wanted{k}"), self.own("wrong")
        texts = ", ".join(map(str, picked)), ", ".join(literal(float(flat[i]), f64)[0] for i in picked)
        self.top.append(f"static const uint32_t {position}[{len(picked)}] = {{{_folded(texts[0])}}};")
        self.top.append(f"static const double {wanted}[{len(picked)}] = {{{_folded(texts[1])}}};")
        self.checks += [
            f"for (int i = 0; i < {len(picked)}; ++i) {{",
            f"    double got = (double){variable}[{position}[i]];",
            f"    if (!{self.own('close_to')}(got, {wanted}[i], {TOLERANCE.get(r.dtype.name, 0)})) {{",
            f'        printf("{r.name}[%u] is %.9g, not %.9g\\n",',
            f"               (unsigned){position}[i], got, {wanted}[i]);",
            f"        ++{wrong};",
            "    }",
            "}",
        ]


def _folded(text: str, width: int = 100) -> str:
    """A list of numbers over several lines where it is long."""
    if len(text) <= width:
        return text
    lines, line = [], ""
    for part in text.split(", "):
        if len(line) + len(part) + 2 > width:
            lines.append(line.rstrip())
            line = ""
        line += part + ", "
    return "\n    " + "\n    ".join([*lines, line]).rstrip(", ")
