"""GradBench modules: a program call for each function, and how to answer its result.

A workload is made of the input of a message before any clock runs: numbers become arrays here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.gradbench.fields import BadInput, Fields


@dataclass
class Workload:
    """One function at one input.

    Attributes:
        run: what is timed: a call of compiled code.   answer: its result as numbers and lists.
    """

    run: Callable[[], Any]
    answer: Callable[[Any], Any]


def numbers(result: Any) -> Any:
    """An array or NumPy scalar as lists or a number."""
    return np.asarray(result).tolist()


def hello(program: Any, function: str, given: Any) -> Workload:
    """A number."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise BadInput("input is not a number")
    f, x = getattr(program, function), np.float64(given)
    return Workload(lambda: f(x), numbers)


def llsq(program: Any, function: str, given: Fields) -> Workload:
    """Coefficients x, and the number of points."""
    f, x, n = getattr(program, function), given.array("x", None), given.size("n", 2)
    return Workload(lambda: f(x, n), numbers)


def lse(program: Any, function: str, given: Fields) -> Workload:
    """A vector x."""
    f, x = getattr(program, function), given.array("x", None)
    return Workload(lambda: f(x), numbers)


def gmm(program: Any, function: str, given: Fields) -> Workload:
    """A mixture, the points, and the prior's m and gamma."""
    D, K, N, m, gamma = *(given.size(n) for n in "dkn"), given.size("m", 0), given.number("gamma")
    if gamma <= 0:
        raise BadInput(f"input.gamma is {gamma}; it must be positive")
    T = D * (D - 1) // 2
    mixture = program.Mixture(
        given.array("alpha", K), given.array("mu", K, D), given.array("q", K, D), given.array("l", K, T, empty=T == 0)
    )
    if T == 0:
        mixture = mixture._replace(l=np.zeros((K, 1)))  # no element is below the diagonal; one that nothing reads
    x, constant = given.array("x", N, D), program.wishart_constant(D, K, m, gamma)
    f = getattr(program, function)

    def fields(gradient: Any) -> Any:
        found = {name: numbers(value) for name, value in gradient._asdict().items()}
        return found | ({"l": [[] for _ in range(K)]} if T == 0 else {})

    return Workload(lambda: f(mixture, x, float(m), gamma, constant), numbers if function == "objective" else fields)


def lstm(program: Any, function: str, given: Fields) -> Workload:
    """Parameters of the layers and around them, the first state, and the characters."""
    main = given.array("main_params", None, None)
    if main.shape[0] % 2 or main.shape[1] % 4:
        raise BadInput(f"input.main_params has the shape {main.shape}, not 2 l × 4 b")
    L, B = main.shape[0] // 2, main.shape[1] // 4
    parameters = program.Parameters(main.reshape(L, 2, 4, B), given.array("extra_params", 3, B))
    state, sequence = given.array("state", 2 * L, B).reshape(L, 2, B), given.array("sequence", None, B)
    if len(sequence) < 2:
        raise BadInput("input.sequence has one character; there is nothing to predict")
    f = getattr(program, function)

    def flat(gradient: Any) -> Any:
        return [*numbers(np.ravel(gradient.main)), *numbers(np.ravel(gradient.extra))]

    return Workload(lambda: f(parameters, state, sequence), numbers if function == "objective" else flat)


def ode(program: Any, function: str, given: Fields) -> Workload:
    """Coefficients x, and the number of steps."""
    f, x, s = getattr(program, function), given.array("x", None), given.size("s")
    return Workload(lambda: f(x, s), numbers)


def det(program: Any, function: str, given: Fields) -> Workload:
    """A matrix, row after row."""
    n = given.size("ell")
    if n > 12:
        raise BadInput(f"input.ell is {n}; there are 2 ** {n} minors, and 12 is as far as this goes")
    f, a = {"primal": program.determinant, "gradient": program.gradient}[function](n), given.array("A", n * n)
    a = a.reshape(n, n)
    return Workload(lambda: f(a), (lambda v: numbers(np.ravel(v))) if function == "gradient" else numbers)


def kmeans(program: Any, function: str, given: Fields) -> Workload:
    """Points and centroids."""
    points = given.array("points", None, None)
    centroids = given.array("centroids", None, points.shape[1])
    f = {"cost": program.cost, "dir": program.direction}[function]
    return Workload(lambda: f(centroids, points), numbers)


def observations(given: Fields) -> tuple[Any, ...]:
    """Bundle adjustment's arguments: one camera, point, weight and feature, repeated n, m, p and p times."""
    N, M, P = (given.size(n) for n in "nmp")
    each = np.arange(P)
    return (
        np.tile(given.array("cam", 11), (N, 1)),
        np.tile(given.array("x", 3), (M, 1)),
        np.full(P, given.number("w")),
        np.tile(given.array("feat", 2), (P, 1)),
        each % N,
        each % M,
    )


def errors_of_observations(result: Any) -> Any:
    """The answer of bundle adjustment's objective."""
    reprojection, weights = result
    return {
        "reproj_error": {"elements": numbers(reprojection[0]), "repeated": len(weights)},
        "w_err": {"element": float(weights[0]), "repeated": len(weights)},
    }


def rows_of_observations(result: Any) -> Any:
    """The answer of bundle adjustment's Jacobian."""
    names = ("rows", "cols", "vals")
    return {n: [*numbers(part[:30]), part[-1].item()] for n, part in zip(names, result, strict=True)}


def ba(program: Any, function: str, given: Fields) -> Workload:
    """Observations."""
    arguments, f = observations(given), getattr(program, function)
    return Workload(lambda: f(*arguments), errors_of_observations if function == "objective" else rows_of_observations)


def ht(program: Any, function: str, given: Fields) -> Workload:
    """A pose, a model, what was measured, and for points on triangles where on them."""
    theta, data = given.array("theta", 26), given.inside("data")
    model, us = hand(program, data.inside("model")), given.array("us", None, 2, empty=True)
    at = data.array("correspondences", None, dtype=np.int64)
    points = data.array("points", len(at), 3)
    name = ("complicated" if len(us) else "simple") + ("" if function == "objective" else "_jacobian")
    f = getattr(program, name)
    arguments: tuple[Any, ...] = (theta, model, at, points)
    if len(us):
        if len(us) != len(at):
            raise BadInput(f"input.us has {len(us)} rows for {len(at)} correspondences")
        arguments = (us, *arguments)
    if function == "objective":
        return Workload(lambda: f(*arguments), lambda v: numbers(np.ravel(v)))
    return Workload(lambda: f(*arguments), lambda v: numbers(v.reshape(-1, v.shape[-1])))


def hand(program: Any, given: Fields) -> Any:
    """The model of a hand."""
    parents = given.array("parents", None, dtype=np.int64)
    B = len(parents)
    late = [b for b in range(B) if not -1 <= parents[b] < b]
    if late:
        raise BadInput(f"{given.path}.parents: the parent of bone {late[0]}, {parents[late[0]]}, is not before it")
    positions = given.array("base_positions", None, 4)
    return program.Model(
        parents,
        given.array("base_relatives", B, 4, 4),
        given.array("inverse_base_absolutes", B, 4, 4),
        positions,
        given.array("weights", len(positions), B),
        given.array("triangles", None, 3, dtype=np.int64),
        -1.0 if given.truth("is_mirrored") else 1.0,
    )


def particle(program: Any, function: str, given: Fields) -> Workload:
    """The first guess of w."""
    f, w = getattr(program, function), np.float64(given.number("w"))
    return Workload(lambda: f(w), numbers)


def saddle(program: Any, function: str, given: Fields) -> Workload:
    """The start of every descent."""
    f, start = getattr(program, function), given.array("start", 2)
    return Workload(lambda: f(start), numbers)


MODES = ("ff", "fr", "rf", "rr")
MODULES: dict[str, tuple[Callable[[Any, str, Any], Workload], tuple[str, ...]]] = {
    "hello": (hello, ("square", "double")),
    "llsq": (llsq, ("primal", "gradient")),
    "lse": (lse, ("primal", "gradient")),
    "gmm": (gmm, ("objective", "jacobian")),
    "lstm": (lstm, ("objective", "jacobian")),
    "ode": (ode, ("primal", "gradient")),
    "det": (det, ("primal", "gradient")),
    "kmeans": (kmeans, ("cost", "dir")),
    "ba": (ba, ("objective", "jacobian")),
    "ht": (ht, ("objective", "jacobian")),
    "particle": (particle, MODES),
    "saddle": (saddle, MODES),
}


def program_of(module: str) -> Any:
    """The Python module with the programs of a GradBench module; its functions are checked on import."""
    if module not in MODULES:
        raise BadInput(f"no module {module!r}; there are {', '.join(MODULES)}")
    return import_module(f"examples.gradbench.{module}")


def workload(module: str, function: str, given: Any) -> Workload:
    """One function of a module at one input.

    Raises:
        BadInput: there is no such module or function, or the input is not one for it.
    """
    program = program_of(module)
    make, functions = MODULES[module]
    if function not in functions:
        raise BadInput(f"module {module!r} has no function {function!r}; it has {', '.join(functions)}")
    return make(program, function, given if module == "hello" else Fields(given))
