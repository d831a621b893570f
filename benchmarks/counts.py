"""Operations of functions and of functions with their gradients: a table that needs no clock.

Reverse mode in one sweep costs at most a few times its function (Baur and Strassen, "The complexity of partial
derivatives", 1983: four times for multiplications and divisions). Here everything counts, transcendental functions as
one operation, on the programs as derived (`passes.operations`); BAR is what each ratio is held to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from jaxtyping import Float64, Int64

import pullback as pb
from benchmarks.systems import derivatives_pullback as paper_003
from pullback import Array
from pullback.calls import Function
from pullback.ir.program import Program
from pullback.nn.models import lenet_by_hand, zhang
from pullback.passes.operations import operation_count
from pullback.rewrite.cse import eliminate_common, eliminate_dead
from pullback.rewrite.normal_form import normalize

__all__ = ["BAR", "HEAD", "WITHOUT", "Count", "CountedCase", "cases", "cells", "operations"]

BAR = 4.0


@dataclass(frozen=True)
class CountedCase:
    """A function, what it is differentiated by, and sizes.

    Attributes:
        wrt: parameters; None for all that are floating-point.
    """

    name: str
    function: Function
    wrt: Any
    dims: Mapping[str, int]

    def count(self) -> Count:
        """The operations of the function, and with its derivative in reverse mode."""
        primal = self.function.program()
        single = len(primal.outputs) == 1 and not primal.outputs[0].shape and self.wrt is not None
        both = (pb.value_and_grad if single else pb.vjp)(self.function, self.wrt)
        return Count(self.name, operations(primal, self.dims), operations(both.program(), self.dims))


@dataclass(frozen=True)
class Count:
    """A line of the table."""

    name: str
    function: int
    both: int

    @property
    def ratio(self) -> float:
        """Function and gradient by function."""
        return self.both / self.function


def operations(program: Program, dims: Mapping[str, int]) -> int:
    """Operations of a program as it comes from tracing or as a derivative, each statement counted once."""
    return operation_count(eliminate_dead(eliminate_common(normalize(program))), dims)


# Programs --------------------------------------------------------------------------------------------------------


@pb.function
def _softmax_regression(
    w: Float64[Array, "K D"], b: Float64[Array, "K"], x: Float64[Array, "N D"], label: Int64[Array, "N"]
) -> Any:
    z = x @ w.T + b
    largest = pb.max(z, axis=1)
    scale = largest + pb.log(pb.sum(pb.exp(z - largest[:, None]), axis=1))
    likely = pb.build(x.shape[0], lambda n: pb.sum_over(b.shape[0], lambda k: pb.where(label[n] == k, z[n, k], 0.0)))
    return pb.sum(scale - likely)


@pb.function
def _perceptron(
    w1: Float64[Array, "H D"],
    b1: Float64[Array, "H"],
    w2: Float64[Array, "K H"],
    b2: Float64[Array, "K"],
    x: Float64[Array, "N D"],
    y: Float64[Array, "N K"],
) -> Any:
    hidden = pb.tanh(x @ w1.T + b1)
    return pb.sum((pb.logistic(hidden @ w2.T + b2) - y) ** 2)


@pb.function
def _lstm(
    w: Float64[Array, "4 H D"], u: Float64[Array, "4 H H"], b: Float64[Array, "4 H"], x: Float64[Array, "T D"]
) -> Any:
    depth, width = x.shape[1], b.shape[1]

    def step(state: Any, t: Any) -> Any:
        h, c = state
        a = pb.build(
            (4, width),
            lambda g, i: (
                b[g, i]
                + pb.sum_over(depth, lambda d: w[g, i, d] * x[t, d])
                + pb.sum_over(width, lambda j: u[g, i, j] * h[j])
            ),
        )
        c = pb.logistic(a[0]) * c + pb.logistic(a[1]) * pb.tanh(a[2])
        return pb.logistic(a[3]) * pb.tanh(c), c

    start = pb.zeros((width,))
    return pb.sum(pb.fold(x.shape[0], (start, start), step)[0])


@pb.function
def _product(x: Float64[Array, "N"]) -> Any:
    return pb.prod(x)


@pb.function
def _convolution(w: Float64[Array, "O K"], x: Float64[Array, "N"]) -> Any:
    (count, size), length = w.shape, x.shape[0]
    y = pb.build((count, length), lambda o, i: pb.sum_over(size, lambda k: w[o, k] * x.at(i + k - size // 2, fill=0)))
    return pb.sum(pb.tanh(y))


_IMAGE = {"C": 4, "H": 33, "W": 32, "O": 6, "P": 3, "Q": 3}
_PROGRAMS = (
    CountedCase("softmax regression", _softmax_regression, ("w", "b"), {"N": 100, "D": 20, "K": 10}),
    CountedCase("perceptron", _perceptron, ("w1", "b1", "w2", "b2"), {"N": 50, "D": 20, "H": 30, "K": 10}),
    CountedCase("LSTM", _lstm, ("w", "u", "b"), {"T": 20, "D": 8, "H": 16}),
    CountedCase("product", _product, 0, {"N": 1000}),
    CountedCase("convolution", _convolution, ("w", "x"), {"O": 4, "K": 5, "N": 100}),
    CountedCase("Zhang's network", zhang.loss, "parameters", {}),
    CountedCase("LeNet", lenet_by_hand.loss, "parameters", {"N": 4}),
    CountedCase("dot (D16)", paper_003.PROGRAMS["dot"], (0, 1), {"N": 1000}),
    CountedCase("max (D16)", paper_003.PROGRAMS["max"], 0, {"N": 1000}),
    CountedCase("plus (D16)", paper_003.PROGRAMS["plus"], None, {"N": 1000}),
    CountedCase("scale (D16)", paper_003.PROGRAMS["scale"], None, {"N": 1000}),
    CountedCase("log-sum-exp (D18)", paper_003.PROGRAMS["lse"], 0, {"N": 1000}),
    CountedCase("factorization, rank 1 (D17)", paper_003.PROGRAMS["nnmf"], (1, 2), {"M": 80, "N": 100}),
    CountedCase("factorization, rank 10 (D17)", paper_003.PROGRAMS["nnmf-10"], (1, 2), {"M": 80, "N": 100, "K": 10}),
    CountedCase("projection (D19)", paper_003.PROGRAMS["project"], (0, 1), {"N": 100}),
)

# module of `examples`, function (or what makes it), parameters, sizes
_EXAMPLES: tuple[tuple[str, str | Callable[[Any], Any], Any, dict[str, int]], ...] = (
    ("convolution", "energy", ("image", "k"), _IMAGE),
    ("dense", "loss", ("w", "b"), {"N": 50, "M": 40, "K": 10}),
    ("descent", "loss", "w", {"N": 50, "M": 10}),
    ("descent", "fit", None, {"N": 50, "M": 10, "S": 10}),
    ("gaussian_process", "log_likelihood", 0, {"N": 30, "D": 2}),
    ("heat", "spread", None, {"H": 20, "W": 30, "T": 10}),
    ("mixture", "log_likelihood", "mixture", {"N": 100, "D": 5, "K": 4}),
    ("zhang_verbs", "loss", "parameters", {}),
    ("gradbench.ba", "reprojection_error", None, {}),
    ("gradbench.det", lambda module: module.determinant(6), 0, {}),
    ("gradbench.gmm", "objective", "mixture", {"N": 100, "D": 5, "K": 4, "T": 10}),
    ("gradbench.hello", "square", 0, {}),
    ("gradbench.kmeans", "cost", "centroids", {"N": 100, "K": 5, "D": 3}),
    ("gradbench.llsq", "primal", "x", {"M": 20, "N": 100}),
    ("gradbench.lse", "primal", 0, {"N": 1000}),
    ("gradbench.lstm", "objective", "parameters", {"L": 2, "B": 14, "C": 20}),
    ("gradbench.ode", "last", "x", {"N": 20, "S": 10}),
)

WITHOUT = {
    "gradbench.ht": "bones are placed by their parents' numbers: scatters",
    "gradbench.particle": "differentiates inside of loops that end by a test",
    "gradbench.saddle": "differentiates inside of loops that end by a test",
    "gradbench.steepest": "a module of the two before",
    "network": "trains by `nn.fit`, which differentiates inside",
    "reverse": "trains by `nn.fit`, which differentiates inside",
}


def cases(examples: Mapping[str, ModuleType] | None = None) -> Iterator[CountedCase]:
    """All programs of the table.

    Args:
        examples: modules of the examples by name, as `gradbench.ba`; those that are not there are left out.
    """
    yield from _PROGRAMS
    for module, function, wrt, dims in _EXAMPLES:
        found = (examples or {}).get(module)
        if found is not None:
            made = getattr(found, function) if isinstance(function, str) else function(found)
            yield CountedCase(f"{module}.{made.name}", made, wrt, dims)


HEAD = ("program", "function", "with gradient", "ratio")


def cells(counts: list[Count]) -> list[tuple[str, ...]]:
    """The lines as text."""
    return [(c.name, f"{c.function:,}", f"{c.both:,}", f"{c.ratio:.2f}") for c in counts]
