"""Programs of all kinds: networks, derivatives, factorization, loops, integers, statistics, APL."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from jaxtyping import Float32, Float64, Int8, Int32, Int64, UInt8

import pullback as pb
from pullback import Array, nn
from pullback.apl import apl
from pullback.nn.models import lenet_by_hand, zhang


class Mixture(NamedTuple):
    """A mixture of K axis-aligned Gaussians in D dimensions; log weights and log scales."""

    log_weight: Float64[Array, "K"]
    mean: Float64[Array, "K D"]
    log_scale: Float64[Array, "K D"]


@pb.function
def mixture(parameters: Mixture, x: Float64[Array, "N D"]) -> Any:
    """The log-likelihood of points, up to a constant."""
    weight, mean, scale = parameters
    (N, D), K = x.shape, weight.shape[0]
    height = pb.build(K, lambda k: weight[k] - pb.sum_over(D, lambda d: scale[k, d]))

    def score(n: Any, k: Any) -> Any:
        def term(d: Any) -> Any:
            z = (x[n, d] - mean[k, d]) * pb.exp(-scale[k, d])
            return z * z

        return height[k] - pb.sum_over(D, term) / 2

    scores = pb.build((N, K), score)
    largest = pb.build(N, lambda n: pb.max_over(K, lambda k: scores[n, k]))
    total = pb.build(N, lambda n: pb.sum_over(K, lambda k: pb.exp(scores[n, k] - largest[n])))
    normal = pb.log(pb.sum_over(K, lambda k: pb.exp(weight[k])))
    return pb.sum_over(N, lambda n: largest[n] + pb.log(total[n]) - normal)


@pb.function
def solved(a: Float64[Array, "N N"], b: Float64[Array, "N"]) -> Any:
    """A linear system."""
    return pb.linalg.solve(pb.build(a.shape, lambda i, j: a[i, j] + pb.where(i == j, 4.0, 0.0)), b)


@pb.function
def collatz(a: Int64[Array, ""]) -> Any:
    """A loop that ends when its test says so."""

    def step(state: Any) -> Any:
        return pb.where(state[0] % 2 == 0, state[0] // 2, 3 * state[0] + 1), state[1] + 1

    return pb.while_loop(lambda state: state[0] > 1, step, (a + 27, pb.zeros((), dtype=pb.int64)), max_trips=1000)


@pb.function
def chain(x: Float64[Array, "N"]) -> Any:
    """Springs in a row: element i depends on three."""
    return pb.build(x.shape[0], lambda i: x[i] * x[i] * x.at(i + 1) - x.at(i - 1) + 2.0 * x[i])


@pb.function
def integers(
    a: Int32[Array, "N M"], b: Int32[Array, "N M"], c: UInt8[Array, "N M"], d: Int8[Array, "N M"], e: Int64[Array, "M"]
) -> Any:
    """Arithmetic that wraps, of all widths and mixed."""
    shifts = pb.bitwise_left_shift(a, pb.bitwise_and(b, 15)), pb.bitwise_right_shift(a, 3)
    parts = (a * 1234567 + b) // 3, a % 7, c + c, d * d, pb.abs(d), -d, c.astype(pb.int32) - a, e // -3, e % 5
    return *shifts, *parts, pb.bitwise_and(a, b), a.astype(pb.float32) * 0.5, pb.maximum(a, b), e * 0x123456789ABCDEF


@pb.function
def stencil(x: Float64[Array, "N M"]) -> Any:
    """Five points of a grid."""
    return pb.build(
        x.shape, lambda i, j: x.at(i - 1, j) + x.at(i + 1, j) + x.at(i, j - 1) + x.at(i, j + 1) - 4.0 * x[i, j]
    )


@pb.function
def statistics(x: Float32[Array, "N M"]) -> Any:
    """Moments, extremes and order, along columns and rows."""
    return (
        pb.mean(x, axis=0), pb.var(x, axis=1), pb.max(x, axis=0), pb.argmax(x, axis=1), pb.median(x, axis=1),
        pb.sort(x, axis=1), pb.cumulative_sum(x, axis=1), pb.sum(x * x),
    )  # fmt: skip


apl_lines = apl(
    """{ mean←(+/⍵)÷≢⍵
    distance←⍵-mean
    scale←((+/distance×distance)÷≢⍵)*0.5
    scores←distance÷scale
    bounded←¯2⌈2⌊scores
    sums←+\\bounded
    table←3 4⍴12↑sums
    weights←*-|⍳4
    (⌈/⌽sums)+(+/table+.×weights)-⌊/scores }""",
    name="apl_lines",
    annotations={"omega": Float64[Array, "37"]},
)


def lstm() -> pb.Function:
    """A recurrent layer and a score, for a sequence."""
    return nn.sequential(nn.lstm(8, return_sequences=False), nn.dense(3)).named("lstm").on("N 6 5").function()


Programs = dict[str, tuple[pb.Function, dict[str, int]]]

PROGRAMS: Final[Programs] = {
    "zhang": (zhang.recognize, {"N": 2}),
    "zhang_training": (zhang.train, {"N": 2}),
    "lenet": (lenet_by_hand.recognize, {"N": 2}),
    "lenet_training": (lenet_by_hand.train, {"S": 1, "B": 2}),
    "mixture_gradient": (pb.grad(mixture, wrt="parameters"), {"N": 37, "K": 5, "D": 3}),
    "lstm": (lstm(), {"N": 2}),
    "solved": (solved, {"N": 9}),
    "collatz": (collatz, {}),
    "jacobian": (pb.jacobian(chain, sparse=True).entries, {"N": 37}),
    "integers": (integers, {"N": 5, "M": 37}),
    "stencil": (stencil, {"N": 9, "M": 37}),
    "statistics": (statistics, {"N": 9, "M": 37}),
    "apl_lines": (apl_lines, {}),
}
