"""Values and derivatives of all cases, in C and in the interpreter, against JAX's numbers.

    python -m benchmarks.functions.check [--interpreted] [NAME ...]

Without names the table `benchmarks/results/functions.md` is written anew, of all cases that have numbers. They are
those of `benchmarks.functions.numbers`, which needs JAX; this needs none. `--interpreted` leaves out C.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.functions import CASES, Case

NUMBERS = Path(__file__).with_name("numbers.npz")
TABLE = Path(__file__).parents[1] / "results" / "functions.md"
KINDS = ("value", "reverse", "forward", "second")
Numbers = Mapping[str, Any]


def error(got: Any, wanted: Any) -> float:
    """The largest error relative to the element, or to a thousandth of the largest if that is larger."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.shape != wanted.shape:
        return np.inf
    if wanted.size == 0:
        return 0.0
    with np.errstate(invalid="ignore"):
        size = np.abs(wanted)
        floor = 1e-3 * np.max(size, initial=0.0) or 1.0
        off = np.where(got == wanted, 0.0, np.abs(got - wanted) / np.maximum(size, floor))
    return float(np.max(np.where(np.isnan(off), np.inf, off)))


def load_numbers() -> dict[str, Any]:
    """The arrays of `NUMBERS` by name: all elements lie one after another."""
    if not NUMBERS.exists():
        return {}
    with np.load(NUMBERS) as found:
        names, shapes, elements = found["names"].tolist(), found["shapes"].tolist(), found["elements"]
    extents = [tuple(map(int, text.split())) for text in shapes]
    ends = np.cumsum([int(np.prod(e)) for e in extents])
    return {n: a.reshape(e) for n, a, e in zip(names, np.split(elements, ends[:-1]), extents, strict=True)}


def save_numbers(numbers: Numbers) -> None:
    """Write `NUMBERS`."""
    shapes = [" ".join(map(str, a.shape)) for a in numbers.values()]
    elements = np.concatenate([np.ravel(a) for a in numbers.values()])
    np.savez_compressed(NUMBERS, names=np.array(list(numbers)), shapes=np.array(shapes), elements=elements)


def wanted_of(case: Case, size: int, kind: str, numbers: Numbers) -> list[Any] | None:
    """JAX's numbers: one array for each result; None where it has no such derivative."""
    found: list[Any] = []
    while (key := f"{case.name}/{size}/{kind}/{len(found)}") in numbers:
        found.append(numbers[key])
    return found or None


def got_of(case: Case, size: int, kind: str, run: Callable[..., Any], shape: tuple[int, ...]) -> list[Any]:
    """The same of Pullback; `run(f, *args)` says how a function is run."""
    arguments = case.arguments(size)
    tangents = tuple(t for t in case.tangents(size) if t is not None)
    weights = case.cotangent(size, shape)
    if kind == "value":
        return [run(case.value, *arguments)]
    if kind == "reverse":
        return list(run(case.reverse, arguments, weights)[1])
    if kind == "forward":
        return [run(case.forward, arguments, tangents)]
    return list(run(case.second, arguments, tangents, weights))


def compiled(f: Any, *arguments: Any) -> Any:
    """Run the C."""
    return f(*arguments)


def interpreted(f: Any, *arguments: Any) -> Any:
    """Run the interpreter."""
    return f.interpret(*arguments)


@dataclass
class Row:
    """The findings on one case."""

    name: str
    errors: dict[str, float] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """One word, or what went wrong."""
        return "; ".join(self.remarks) or "agrees"


def examine(
    case: Case,
    numbers: Numbers,
    runs: Sequence[Callable[..., Any]] = (interpreted, compiled),
    kinds: Sequence[str] = KINDS,
    sizes: Sequence[int] | None = None,
) -> Row:
    """Compare one case with JAX's numbers."""
    row = Row(case.name)
    for size in sizes or case.sizes:
        value = wanted_of(case, size, "value", numbers)
        assert value is not None, f"{case.name} has no numbers: run benchmarks.functions.numbers"
        for kind in kinds:
            wanted = wanted_of(case, size, kind, numbers)
            if wanted is None:
                continue
            for run in runs:
                try:
                    got = got_of(case, size, kind, run, value[0].shape)
                except Exception as failure:
                    row.remarks.append(f"{kind}, {run.__name__}, size {size}: {type(failure).__name__}: {failure}")
                    continue
                worst = max([error(g, w) for g, w in zip(got, wanted, strict=True)], default=0.0)
                if not worst <= case.tolerance:
                    row.remarks.append(f"{kind}, {run.__name__}, size {size}: {worst:.1e}")
                row.errors[kind] = max(row.errors.get(kind, 0.0), worst)
    return row


def table(rows: Sequence[Row], runs: Sequence[Callable[..., Any]]) -> str:
    """The page."""
    agree = sum(r.verdict == "agrees" for r in rows)
    lines = [
        "# Functions from the documentation of SciPy and JAX",
        "",
        f"This page has {len(rows)} functions. For {sum(CASES[r.name].lacking for r in rows)} of them Pullback has no",
        "function of that name; they are written as series, recurrences, integrals, or in index notation.",
        f"{' and '.join(r.__name__ for r in runs).capitalize()}, against JAX in double precision: {agree} agree, "
        f"{len(rows) - agree} do not.",
        "",
        "Errors are the largest relative errors over all elements, ways of running and sizes. For elements below a",
        "thousandth of the largest, the error is relative to that thousandth. *Gradient* covers reverse and forward",
        "mode. *Second* is the derivative of the gradient in one direction. A dash means that JAX has none.",
        "`python -m benchmarks.functions.check` makes this page.",
        "",
        "| function | page | sizes | value | gradient | second | allowed | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in sorted(rows, key=lambda r: (CASES[r.name].page, r.name)):
        case = CASES[r.name]
        gradients = [r.errors[kind] for kind in ("reverse", "forward") if kind in r.errors]
        figures = [
            f"{max(found):.1e}" if found else "–"
            for found in (
                [r.errors.get("value", np.inf)],
                gradients,
                [r.errors[k] for k in ("second",) if k in r.errors],
            )
        ]
        verdict = r.verdict.split("\n")[0] + (f" ({case.note})" if case.note else "")
        sizes = ", ".join(map(str, case.sizes))
        lines.append(f"| {r.name} | {case.page} | {sizes} | {' | '.join(figures)} | {case.tolerance:.0e} | {verdict} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> None:
    numbers, rows = load_numbers(), []
    runs = (interpreted,) if "--interpreted" in arguments else (interpreted, compiled)
    names = [a for a in arguments if not a.startswith("--")]
    for name in names or [n for n in CASES if f"{n}/{CASES[n].sizes[-1]}/value/0" in numbers]:
        rows.append(examine(CASES[name], numbers, runs))
        print(name, rows[-1].verdict, {k: f"{v:.1e}" for k, v in rows[-1].errors.items()}, flush=True)
    if not names:
        TABLE.write_text(table(rows, runs))


if __name__ == "__main__":
    main(sys.argv[1:])
