"""Programs and their derivatives written by hand in fused, vectorized C: what a processor can do.

Each is `reference/<module>.c`, which exports a function for each function of the module. Here is what their arguments
are. `measure` puts their times beside Pullback's; tests hold their answers to the same references.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gradbench.fields import Fields
from benchmarks.gradbench.workloads import (
    MODULES,
    Workload,
    errors_of_observations,
    hand,
    numbers,
    observations,
    program_of,
    rows_of_observations,
)
from pullback.runtime.compile import compiled_library, find_compiler

FOLDER = Path(__file__).parent / "reference"
FLAGS = ("-O3", "-fopenmp-simd", "-finline-small-functions", "-finline-functions-called-once",
         "-fassociative-math", "-fno-signed-zeros", "-ffinite-math-only")  # fmt: skip
NDArray = np.ndarray[Any, Any]


class Call:
    """The functions of a module, called with arguments that are converted once."""

    def __init__(self, module: str) -> None:
        text = "".join((FOLDER / name).read_text() for name in ("lanes.h", f"{module}.c"))
        self.compiled = ctypes.CDLL(str(compiled_library(text, FLAGS)))

    def __call__(self, function: str, result: NDArray, *arguments: NDArray | int | float) -> Workload:
        """A call of a function; its answer is what it left in `result`, its last argument."""
        f = getattr(self.compiled, function)
        f.restype, given = None, [_converted(a) for a in (*arguments, result)]
        kept = [a for a in (*arguments, result) if isinstance(a, np.ndarray)]

        def run() -> NDArray:
            f(*given)
            return kept[-1]  # all arrays live as long as the call

        return Workload(run, numbers)


def _converted(argument: NDArray | int | float) -> Any:
    match argument:
        case np.ndarray():
            return ctypes.c_void_p(argument.ctypes.data)
        case int():
            return ctypes.c_int64(argument)
    return ctypes.c_double(argument)


def llsq(call: Call, given: Fields) -> list[Workload]:
    """Coefficients, how many, and the number of points."""
    x, n = given.array("x", None), given.size("n", 2)
    return [call("primal", np.zeros(()), x, len(x), n), call("gradient", np.zeros(len(x)), x, len(x), n)]


def lse(call: Call, given: Fields) -> list[Workload]:
    """The vector and its length."""
    x = given.array("x", None)
    return [call("primal", np.zeros(()), x, len(x)), call("gradient", np.zeros(len(x)), x, len(x))]


def kmeans(call: Call, given: Fields) -> list[Workload]:
    """Centroids, points, and K, N, D."""
    points, centroids = given.array("points", None, None), given.array("centroids", None, None)
    arguments = (centroids, points, len(centroids), *points.shape)
    return [call("cost", np.zeros(()), *arguments), call("dir", np.zeros(centroids.shape), *arguments)]


def ode(call: Call, given: Fields) -> list[Workload]:
    """Rates, how many, and the number of steps."""
    x, s = given.array("x", None), given.size("s", 1)
    return [call("primal", np.zeros(len(x)), x, len(x), s), call("gradient", np.zeros(len(x)), x, len(x), s)]


def lstm(call: Call, given: Fields) -> list[Workload]:
    """Parameters, first state, characters, and numbers of layers, units, characters; one flat gradient."""
    main, extra = given.array("main_params", None, None), given.array("extra_params", 3, None)
    state, sequence = given.array("state", None, None), given.array("sequence", None, None)
    arguments = (main, extra, state, sequence, len(main) // 2, extra.shape[1], len(sequence))
    gradient = np.zeros(main.size + extra.size)
    return [call("objective", np.zeros(()), *arguments), call("jacobian", gradient, *arguments)]


def det(call: Call, given: Fields) -> list[Workload]:
    """The matrix and its size."""
    n = given.size("ell")
    a = given.array("A", n * n)
    return [call("primal", np.zeros(()), a, n), call("gradient", np.zeros(n * n), a, n)]


def ba(call: Call, given: Fields) -> list[Workload]:
    """Observations and how many, and the numbers of cameras and points; all results are given."""
    arguments = observations(given)
    N, M, P = len(arguments[0]), len(arguments[1]), len(arguments[2])
    errors = np.zeros((P, 2)), np.zeros(P)
    rows = np.zeros(3 * P + 1, np.int64), np.zeros(31 * P, np.int64), np.zeros(31 * P)
    objective = call("objective", errors[0], *arguments, P, errors[1])
    jacobian = call("jacobian", rows[2], *arguments, N, M, P, rows[0], rows[1])
    objective.answer, jacobian.answer = lambda _: errors_of_observations(errors), lambda _: rows_of_observations(rows)
    return [objective, jacobian]


def gmm(call: Call, given: Fields) -> list[Workload]:
    """The mixture, the points, D, K, N, the prior and working memory; the gradient's parts are results."""
    D, K, N = (given.size(n) for n in "dkn")
    T, m, gamma = D * (D - 1) // 2, given.size("m", 0), given.number("gamma")
    mixture = [given.array("alpha", K), given.array("mu", K, D), given.array("q", K, D)]
    mixture.append(given.array("l", K, T, empty=T == 0))
    constant = program_of("gmm").wishart_constant(D, K, m, gamma)
    M = -(-N // 32) * 32
    room = np.zeros(K * D * D + K * M + D * M)
    arguments = (*mixture, given.array("x", N, D), D, K, N, float(m), gamma, constant, room)
    parts = {name: np.zeros(a.shape) for name, a in zip(("alpha", "mu", "q", "l"), mixture, strict=True)}
    jacobian = call("jacobian", parts["l"], *arguments, *(parts[name] for name in ("alpha", "mu", "q")))
    jacobian.answer = lambda _: {name: numbers(a) for name, a in parts.items()}
    return [call("objective", np.zeros(()), *arguments), jacobian]


def ht(call: Call, given: Fields) -> list[Workload]:
    """Pose, model, points and their triangles, numbers of bones and points; room for vertices."""
    data = given.inside("data")
    model, us = hand(program_of("ht"), data.inside("model")), given.array("us", None, 2, empty=True)
    at = data.array("correspondences", None, dtype=np.int64)
    if not len(us):
        return []  # the C is for points on triangles
    arguments = (
        us, given.array("theta", 26), model.parents, model.base_relatives, model.inverse_base_absolutes,
        model.base_positions, model.weights, model.triangles, at, data.array("points", len(at), 3),
        len(model.parents), len(at), model.mirror, np.zeros((len(model.weights), 76)), len(model.weights),
    )  # fmt: skip
    shapes = {"objective": (3 * len(at),), "jacobian": (3 * len(at), 28)}
    return [call(function, np.zeros(shape), *arguments) for function, shape in shapes.items()]


ARGUMENTS: dict[str, Callable[[Call, Fields], list[Workload]]] = {
    "llsq": llsq, "lse": lse, "gmm": gmm, "ode": ode, "kmeans": kmeans, "ht": ht, "ba": ba,
    "lstm": lstm, "det": det,
}  # fmt: skip


def fused(module: str, given: Any) -> list[Workload]:
    """A workload for each function of a module; none where there is no C for it or for such an input.

    Raises:
        CompilerError: there is no C compiler.
    """
    if module not in ARGUMENTS:
        return []
    find_compiler()
    made = ARGUMENTS[module](Call(module), Fields(given))
    assert len(made) in (0, len(MODULES[module][1]))
    return made
