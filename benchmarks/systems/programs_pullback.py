"""Whole programs by Pullback: the loss in index notation, its gradient derived, called with `out=`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float32, UInt8

import pullback as pb
from benchmarks.counts import operations as counted
from pullback import Array
from pullback.ir.dims import solve_dims
from pullback.nn.activations import log_softmax
from pullback.nn.blocks import max_pool
from pullback.nn.models import lenet_by_hand

if TYPE_CHECKING:
    from benchmarks.program_cases import ProgramCase

__all__ = ["FORMS", "FUNCTIONS", "operations", "prepare"]


def _negative_log_likelihood(z: Any, labels: Any) -> Any:
    likely = log_softmax(z)
    return -pb.sum_over(z.shape, lambda n, k: pb.where(k == labels[n], likely[n, k], 0)) / z.shape[0]


def _affine(x: Any, w: Any, b: Any) -> Any:
    return pb.build((x.shape[0], w.shape[0]), lambda n, k: b[k] + pb.sum_over(x.shape[1], lambda m: x[n, m] * w[k, m]))


@pb.function
def _softmax_regression(
    w: Float32[Array, "K M"], b: Float32[Array, "K"], x: Float32[Array, "N M"], labels: UInt8[Array, "N"]
) -> Any:
    return _negative_log_likelihood(_affine(x, w, b), labels)


@pb.function
def _nnmf(w: Float32[Array, "M R"], h: Float32[Array, "R N"], a: Float32[Array, "M N"]) -> Any:
    """Negative logarithm of the likelihood under exponential distributions with means w h."""
    p = w @ h
    return pb.sum(pb.log(p) + a / p)


@pb.function
def _mlp(
    w1: Float32[Array, "H M"], b1: Float32[Array, "H"], w2: Float32[Array, "H2 H"], b2: Float32[Array, "H2"],
    w3: Float32[Array, "K H2"], b3: Float32[Array, "K"], x: Float32[Array, "N M"], labels: UInt8[Array, "N"],
) -> Any:  # fmt: skip
    h1 = pb.maximum(_affine(x, w1, b1), 0)
    h2 = pb.maximum(_affine(h1, w2, b2), 0)
    return _negative_log_likelihood(_affine(h2, w3, b3), labels)


@pb.function
def _log_sum_exp(v: Float32[Array, "N"]) -> Any:
    largest = pb.max(v)
    return largest + pb.log(pb.sum(pb.exp(v - largest)))


@pb.function
def _mixture(
    weight: Float32[Array, "K"], mean: Float32[Array, "K D"], scale: Float32[Array, "K D"], x: Float32[Array, "N D"]
) -> Any:
    """The mixture's log-likelihood Σ n: log Σ k: exp(score of n under k); logarithmic scales and weights."""
    (N, D), K = x.shape, weight.shape[0]
    sharpness = pb.build((K, D), lambda k, d: pb.exp(-scale[k, d]))
    whole = pb.log(pb.sum_over(K, lambda k: pb.exp(weight[k])))
    height = pb.build(K, lambda k: weight[k] - whole - pb.sum_over(D, lambda d: scale[k, d]))

    def score(n: Any, k: Any) -> Any:
        return height[k] - pb.sum_over(D, lambda d: ((x[n, d] - mean[k, d]) * sharpness[k, d]) ** 2) / 2

    scores = pb.build((N, K), score)
    largest = pb.build(N, lambda n: pb.max_over(K, lambda k: scores[n, k]))
    total = pb.build(N, lambda n: pb.sum_over(K, lambda k: pb.exp(scores[n, k] - largest[n])))
    return pb.sum_over(N, lambda n: largest[n] + pb.log(total[n]))


class _State(NamedTuple):
    """The state that an LSTM carries between steps."""

    cell: Float32[Array, "B H"]
    hidden: Float32[Array, "B H"]
    loss: Float32[Array, ""]


@pb.function
def _lstm(
    u: Float32[Array, "4 H M"], v: Float32[Array, "4 H H"], b: Float32[Array, "4 H"], x: Float32[Array, "T B M"]
) -> Any:
    """The sum of squares of the hidden states of all steps."""
    (T, B, M), H = x.shape, v.shape[1]

    def step(state: Any, t: Any) -> Any:
        def gate(g: Any, n: Any, h: Any) -> Any:
            own = pb.sum_over(H, lambda j: state.hidden[n, j] * v[g, h, j])
            return own + pb.sum_over(M, lambda m: x[t, n, m] * u[g, h, m]) + b[g, h]

        a = pb.build((4, B, H), gate)
        cell = pb.logistic(a[0]) * state.cell + pb.logistic(a[1]) * pb.tanh(a[2])
        hidden = pb.logistic(a[3]) * pb.tanh(cell)
        return _State(cell, hidden, state.loss + pb.sum(hidden * hidden))

    zero = pb.zeros((B, H), dtype=pb.float32)
    return pb.fold(T, _State(zero, zero, pb.zeros((), dtype=pb.float32)), step).loss


@pb.function
def _max_pool(x: Float32[Array, "N C H W"]) -> Any:
    return max_pool(x)


@pb.function
def _lenet(
    k1: Any, b1: Any, k2: Any, b2: Any, w3: Any, b3: Any, w4: Any, b4: Any,
    images: Float32[Array, "N 28 28"], labels: UInt8[Array, "N"],
) -> Any:  # fmt: skip
    return lenet_by_hand.loss(lenet_by_hand.Parameters(k1, b1, k2, b2, w3, b3, w4, b4), images, labels)


LOSSES = {
    "softmax-regression": _softmax_regression,
    "nnmf-20": _nnmf,
    "mlp": _mlp,
    "log-sum-exp": _log_sum_exp,
    "mixture": _mixture,
    "lstm": _lstm,
    "lenet-64": _lenet,
    "lenet-500": _lenet,
}
FUNCTIONS: dict[str, Callable[[ProgramCase], Any]] = {
    **dict.fromkeys(LOSSES, lambda case: pb.value_and_grad(LOSSES[case.name], wrt=tuple(range(case.parameters)))),
    "max-pool": lambda case: pb.vjp(_max_pool),
}
FORMS = dict.fromkeys(FUNCTIONS, ("function",))


def prepare(case: ProgramCase, form: str) -> Callable[[], Any]:
    """A call of the compiled function that writes its results into the same arrays each time."""
    function, arguments = FUNCTIONS[case.name](case), case.make()
    if case.name == "max-pool":
        x, g = arguments
        out, found = function(x, cotangent=g)
        return lambda: _flat(function(x, cotangent=g, out=(out, found)))
    value, gradients = function(*arguments)
    made = (np.array(value), tuple(gradients) if case.parameters > 1 else gradients)
    return lambda: _flat(function(*arguments, out=made))


def _flat(result: Any) -> tuple[Any, ...]:
    value, gradients = result
    return (value, *gradients) if isinstance(gradients, tuple) else (value, gradients)


def operations(case: ProgramCase) -> int:
    """Operations of the value and its gradient, as the derived program has them before optimization."""
    function, arguments = FUNCTIONS[case.name](case), case.make()
    if case.name == "max-pool":
        return int(2 * arguments[0].size)
    program = function.program(*arguments)
    return counted(program, solve_dims(program, [a.shape for a in arguments], {}))
