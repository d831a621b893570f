"""Array functions beside NumPy's and JAX's: sorting, Fourier transforms, einsum, random numbers.

Each case is one call that makes its result, as a user would write it; arguments are the same arrays for everyone.
Transforms are there twice: of complex arrays, and of two real arrays, which is what they are inside a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Contender, Note, Repeated, Row, Runner
from benchmarks.suite import lines, measure_groups, microseconds, shown

__all__ = ["CASES", "HEAD", "SYSTEMS", "ArrayCase", "bench_arrays", "cells"]

SYSTEMS = ("pullback", "numpy", "jax")
Call = Callable[..., Any]


@dataclass(frozen=True)
class ArrayCase:
    """A table line: an operation on arrays of given shapes and type. `text` is that of an einsum."""

    kind: str
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    text: str = ""

    @property
    def name(self) -> str:
        """The name of the case on the command line."""
        sizes = "x".join(map(str, self.shapes[0])) if not self.text else self.text.replace(" ", "")
        return f"{self.kind}-{sizes}-{self.dtype}"

    def make(self) -> list[NDArray[Any]]:
        """The arguments, the same in every process."""
        random = np.random.default_rng(0)
        if self.kind in ("uniform", "normal"):
            return []
        made = [random.normal(size=s) for s in self.shapes]
        if self.dtype == "complex128":
            made = [a + 1j * random.normal(size=a.shape) for a in made]
        return [a.astype(self.dtype) for a in made]


def _einsum(text: str, *shapes: tuple[int, ...]) -> ArrayCase:
    return ArrayCase("einsum", "float32", shapes, text)


CASES: Final = (
    *(ArrayCase(kind, dtype, ((n,),)) for kind in ("sort", "argsort") for dtype in ("float32", "float64")
      for n in (100, 1000, 100_000, 1_000_000)),
    ArrayCase("sort", "float64", ((1000, 1000),)),
    *(ArrayCase("fft", "complex128", ((1 << k,),)) for k in (10, 14, 20)),
    *(ArrayCase("fft-of-parts", "float64", ((1 << k,), (1 << k,))) for k in (10, 14, 17, 20)),
    ArrayCase("fft-of-parts", "float64", ((10_007,), (10_007,))),
    *(ArrayCase("rfft", "float64", ((1 << k,),)) for k in (10, 17, 20)),
    _einsum("ij,jk->ik", (512, 512), (512, 512)),
    _einsum("bij,bjk->bik", (64, 64, 64), (64, 64, 64)),
    _einsum("ij,jk,kl->il", (300, 20), (20, 300), (300, 20)),
    _einsum("bhqd,bhkd->bhqk", (4, 8, 64, 32), (4, 8, 64, 32)),
    *(ArrayCase(kind, dtype, ((1_000_000,),)) for kind in ("uniform", "normal") for dtype in ("float32", "float64")),
)  # fmt: skip


def bench_arrays(
    *,
    cases: Sequence[str] = tuple(c.name for c in CASES),
    systems: Sequence[str] = SYSTEMS,
    threads: int = 1,
    rounds: int = 9,
    budget: float = 10.0,
    note: Note = lambda text: None,
) -> list[Row]:
    """Measure functions of arrays.

    Args:
        cases: names of CASES.
        systems: any of SYSTEMS; those that are not installed are left out with a note.
        threads: processors for everyone.
        rounds: repetitions of each; short calls are made many times in one.
        budget: seconds for a case after which no further round starts.
        note: called with lines about progress.
    Returns:
        One row per case and system; times are of one call.
    """
    found = ([Contender(case.name, s, "call", case.dtype, threads, partial(_prepare, case, s)) for s in SYSTEMS
              if s in systems] for case in CASES if case.name in cases)
    return measure_groups(((group, None) for group in found), threads=threads, rounds=rounds, budget=budget,
                          tolerance=1e-3, note=note)


def _prepare(case: ArrayCase, system: str) -> Runner:
    return Repeated({"pullback": _pullback, "numpy": _numpy, "jax": _jax}[system](case))


def _pullback(case: ArrayCase) -> Callable[[], Any]:
    import pullback as pb

    dtype = case.dtype
    kinds: dict[str, Call] = {
        "sort": lambda x: pb.sort(x),
        "argsort": lambda x: pb.argsort(x),
        "fft": lambda z: pb.fft.fft(z),
        "rfft": lambda x: pb.fft.rfft(x),
        "fft-of-parts": lambda x, y: _parts(pb.fft.fft(pb.complex(x, y))),
        "einsum": lambda *a: pb.einsum(case.text, *a),
        "uniform": lambda seed: pb.random.uniform(pb.random.key(seed), case.shapes[0], dtype=dtype),
        "normal": lambda seed: pb.random.normal(pb.random.key(seed), case.shapes[0], dtype=dtype),
    }
    f = pb.function(kinds[case.kind])
    given = case.make()
    if not given:
        return lambda: np.array(f(np.int64(7)).shape)
    return lambda: f(*given)


def _parts(z: Any) -> tuple[Any, Any]:
    return z.real, z.imag


def _numpy(case: ArrayCase) -> Callable[[], Any]:
    random = np.random.Generator(np.random.Philox(7))
    dtype = np.dtype(case.dtype).type
    size = case.shapes[0]
    kinds: dict[str, Call] = {
        "sort": np.sort,
        "argsort": lambda x: np.argsort(x, kind="stable"),
        "fft": np.fft.fft,
        "rfft": np.fft.rfft,
        "fft-of-parts": lambda x, y: _parts(np.fft.fft(x + 1j * y)),
        "einsum": lambda *a: np.einsum(case.text, *a, optimize=True),
        "uniform": lambda: np.array(random.random(size, dtype).shape),
        "normal": lambda: np.array(random.standard_normal(size, dtype).shape),
    }
    return partial(kinds[case.kind], *case.make())


def _jax(case: ArrayCase) -> Callable[[], Any]:
    jax: Any = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    jnp: Any = import_module("jax.numpy")
    kinds: dict[str, Call] = {
        "sort": jnp.sort,
        "argsort": jnp.argsort,
        "fft": jnp.fft.fft,
        "rfft": jnp.fft.rfft,
        "fft-of-parts": lambda x, y: _parts(jnp.fft.fft(x + 1j * y)),
        "einsum": lambda *a: jnp.einsum(case.text, *a),
        "uniform": lambda key: jax.random.uniform(key, case.shapes[0], case.dtype),
        "normal": lambda key: jax.random.normal(key, case.shapes[0], case.dtype),
    }
    f = jax.jit(kinds[case.kind])
    given = [jax.device_put(a) for a in case.make()]
    if not given:
        key = jax.random.key(7)
        return lambda: np.array(jax.block_until_ready(f(key)).shape)
    return lambda: jax.block_until_ready(f(*given))


HEAD = ("case", *(f"{s}, µs" for s in SYSTEMS), "NumPy's / ours", "best peer's / ours")


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The table's lines as text; times are the smallest."""
    return [(line.case, *(microseconds(line.times[s]) for s in SYSTEMS),
             *(shown(line.ratio(peer, "pullback")) for peer in ("numpy", line.best_peer)))
            for line in lines(rows, SYSTEMS)]
