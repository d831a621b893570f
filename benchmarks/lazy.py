"""Chains of operations on lazy arrays, beside NumPy, numexpr, PyTorch and JAX.

    chain-5-10000-float64    five operations on 10,000 elements: products, sums, tanh and exp in turn
    sum-5-10000-float64      the same, and the sum of the result
    new-5-10000-float64      five operations in an order that did not occur before, with known operations

A call builds the nodes and computes the value, as user code does. Structures are known and compiled, but in the last
group. JAX is measured operation by operation and compiled, `jax jit`, which needs all operations in one function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np

from benchmarks.environment import allowed_threads
from benchmarks.harness import Contender, Note, Repeated, Row, Runner
from benchmarks.suite import measure_groups, microseconds, shown

__all__ = ["CASES", "HEAD", "SYSTEMS", "LazyCase", "bench_lazy", "cells"]

SYSTEMS: Final = ("pullback", "numpy", "numexpr", "torch", "jax")
FORMS: Final = {"pullback": ("lazy",), "jax": ("eager", "jit")}
LENGTHS: Final = (1, 2, 5, 10, 20)
SIZES: Final = (100, 10_000, 1_000_000, 10_000_000)
NEW: Final = 8  # new structures of one call
WARM: Final = 8  # calls before the time counts, in which pieces are compiled
Call = Callable[[], Any]


@dataclass(frozen=True)
class LazyCase:
    """A table line: a chain of some length on arrays of some size."""

    kind: str
    length: int
    size: int
    dtype: str

    @property
    def name(self) -> str:
        """The name of the case on the command line."""
        return f"{self.kind}-{self.length}-{self.size}-{self.dtype}"

    def make(self) -> tuple[Any, Any]:
        """The two arrays, the same in every process."""
        random = np.random.default_rng(0)
        x, y = random.uniform(-1.0, 1.0, (2, self.size)).astype(self.dtype)
        return x, y

    def value(self, xp: Any, x: Any, y: Any) -> Any:
        """The chain in a library."""
        h = x
        for k in range(self.length):
            h = _STEPS[k % len(_STEPS)](xp, h, x, y)
        return xp.sum(h) if self.kind == "sum" else h

    @property
    def text(self) -> str:
        """The chain as an expression of numexpr."""
        found = "x"
        for k in range(self.length):
            found = _TEXTS[k % len(_TEXTS)].format(found)
        return f"sum({found})" if self.kind == "sum" else found


_STEPS: Final[tuple[Callable[[Any, Any, Any, Any], Any], ...]] = (
    lambda xp, h, x, y: h * y,
    lambda xp, h, x, y: h + x,
    lambda xp, h, x, y: xp.tanh(h),
    lambda xp, h, x, y: h - 0.5,
    lambda xp, h, x, y: xp.exp(h),
)
_BOUNDED: Final = (*_STEPS[:4], lambda xp, h, x, y: xp.abs(h))  # in any order
_TEXTS: Final = ("({} * y)", "({} + x)", "tanh({})", "({} - half)", "exp({})")

CASES: Final = (
    *(LazyCase(kind, n, size, dtype) for kind in ("chain", "sum") for dtype in ("float64", "float32") for size in SIZES
      for n in LENGTHS),
    *(LazyCase("new", n, size, "float64") for size in SIZES[:2] for n in LENGTHS),
)  # fmt: skip


def bench_lazy(
    *,
    cases: Sequence[str] = tuple(c.name for c in CASES),
    systems: Sequence[str] = SYSTEMS,
    threads: int = 1,
    rounds: int = 9,
    budget: float = 4.0,
    note: Note = lambda text: None,
) -> list[Row]:
    """Measure chains of operations.

    Args:
        cases: names of CASES.
        systems: any of SYSTEMS; those that are not installed are left out with a note.
        threads: processors for everyone.
        rounds: repetitions of each; short calls are made many times in one.
        budget: seconds for a case after which no further round starts.
        note: called with lines about progress.
    Returns:
        One row per case, system and form; times are of one call.
    """
    found = ([Contender(case.name, s, form, case.dtype, threads, partial(_prepare, case, s, form))
              for s in (SYSTEMS if case.kind != "new" else SYSTEMS[:2]) if s in systems
              for form in FORMS.get(s, ("call",))] for case in CASES if case.name in cases)
    return measure_groups(((group, None) for group in found), threads=threads, rounds=rounds, budget=budget,
                          tolerance=1e-5, note=note)


def _prepare(case: LazyCase, system: str, form: str) -> Runner:
    if case.kind == "new":
        return _New(case, system)
    call = {"pullback": _pullback, "numpy": _numpy, "numexpr": _numexpr, "torch": _torch,
            "jax": _jax_jit if form == "jit" else _jax}[system](case)  # fmt: skip
    return Repeated(call)


def _pullback(case: LazyCase) -> Call:
    from pullback import lazy

    x, y = map(lazy.asarray, case.make())
    for _ in range(WARM):
        case.value(lazy, x, y).numpy()
        lazy.finish_compiling()
    return lambda: case.value(lazy, x, y).numpy()


def _numpy(case: LazyCase) -> Call:
    return partial(case.value, np, *case.make())


def _numexpr(case: LazyCase) -> Call:
    numexpr: Any = import_module("numexpr")
    numexpr.set_num_threads(allowed_threads())
    x, y = case.make()
    arrays = {"x": x, "y": y, "half": np.asarray(0.5, case.dtype)}  # a number in the text would make doubles of all
    text = case.text
    return lambda: numexpr.evaluate(text, local_dict=arrays)


def _torch(case: LazyCase) -> Call:
    torch: Any = import_module("torch")
    torch.set_num_threads(allowed_threads())
    return partial(case.value, torch, *map(torch.from_numpy, case.make()))


def _jax(case: LazyCase) -> Call:
    jax, jnp, arrays = _of_jax(case)
    return lambda: jax.block_until_ready(case.value(jnp, *arrays))


def _jax_jit(case: LazyCase) -> Call:
    jax, jnp, arrays = _of_jax(case)
    f = jax.jit(partial(case.value, jnp))
    return lambda: jax.block_until_ready(f(*arrays))


def _of_jax(case: LazyCase) -> tuple[Any, Any, Any]:
    jax: Any = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    return jax, import_module("jax.numpy"), [jax.device_put(a) for a in case.make()]


class _New:
    """Structures that did not occur before, some in each call: steps in random order.

    A step reads the previous result, and a product or a sum another one too. Nodes of all operations were built before,
    so none has to be traced.
    """

    calls = NEW

    def __init__(self, case: LazyCase, system: str) -> None:
        self.case = case
        self.random = np.random.default_rng(case.length)
        self.lazy = system == "pullback"
        self.xp: Any = import_module("pullback.lazy") if self.lazy else np
        self.x, self.y = map(self.xp.asarray, case.make())
        for k, _ in enumerate(_BOUNDED):
            self._value([(k, 0, 1)])  # not computed
        if self.lazy:
            for _ in range(WARM):  # imports, and the first errors of caches
                (self._value([(k % 5, 0, 0) for k in range(3)]) + self.x).numpy()

    def reset(self) -> None:
        """Draw the next structures; not timed."""
        self.next = [[(int(self.random.integers(len(_BOUNDED))), int(self.random.integers(k + 2)), k + 1)
                      for k in range(self.case.length)] for _ in range(NEW)]  # fmt: skip

    def _value(self, steps: Sequence[tuple[int, int, int]]) -> Any:
        """The value of steps: each reads the previous result, and a product or sum another one."""
        made = [self.x, self.y]
        for k, other, last in steps:
            step: Any = _BOUNDED[k]
            made.append(step(self.xp, made[last], made[other], made[other]))
        return made[-1]

    def call(self) -> Any:
        """Compute them."""
        found = [self._value(steps) for steps in self.next]
        return tuple(v.numpy() if self.lazy else v for v in found)


HEAD = ("case", "threads", "ours, µs", "µs a node", "NumPy", "numexpr", "PyTorch", "JAX", "JAX jit",
        "best eager / ours", "jit / ours")  # fmt: skip
_COLUMNS: Final = (("numpy", "call"), ("numexpr", "call"), ("torch", "call"), ("jax", "eager"), ("jax", "jit"))


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The table's lines as text; times are medians, in µs."""
    of: dict[str, dict[tuple[str, str], Row]] = {}
    for row in rows:
        of.setdefault(row["case"], {})[row["system"], row["form"]] = row
    lines: list[tuple[str, ...]] = []
    for name, found in of.items():
        case = next(c for c in CASES if c.name == name)
        times = {key: row["median"] for key, row in found.items()}
        own, jit = times.get(("pullback", "lazy")), times.get(("jax", "jit"))
        eager = min((t for key, t in times.items() if key not in (("pullback", "lazy"), ("jax", "jit"))), default=None)
        nodes = case.length + (case.kind == "sum")
        threads = next(iter(found.values()))["threads"]
        lines.append((name, str(threads), microseconds(own), microseconds(own and own / nodes),
                      *(microseconds(times.get(key)) for key in _COLUMNS),
                      *(shown(t / own if t and own else None) for t in (eager, jit))))
    return lines
