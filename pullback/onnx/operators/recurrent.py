"""Recurrent networks: a step for each kind of cell, run over a sequence in either direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pullback as pb
from pullback.onnx.operators.common import integers, traced
from pullback.onnx.operators.elementwise import elu, hard_sigmoid, leaky_relu, thresholded_relu
from pullback.onnx.operators.table import WrongNode, operator

ACTIVATIONS: Final[dict[str, Callable[..., Any]]] = {
    "relu": lambda x, a, b: pb.maximum(x, 0.0),
    "tanh": lambda x, a, b: pb.tanh(x),
    "sigmoid": lambda x, a, b: pb.logistic(x),
    "softsign": lambda x, a, b: x / (1 + pb.abs(x)),
    "softplus": lambda x, a, b: pb.logaddexp(x, pb.zeros_like(x)),
    "affine": lambda x, a, b: (1.0 if a is None else a) * x + (0.0 if b is None else b),
    "leakyrelu": lambda x, a, b: leaky_relu(x, alpha=0.01 if a is None else a),
    "thresholdedrelu": lambda x, a, b: thresholded_relu(x, alpha=1.0 if a is None else a),
    "scaledtanh": lambda x, a, b: (1.0 if a is None else a) * pb.tanh((1.0 if b is None else b) * x),
    "hardsigmoid": lambda x, a, b: hard_sigmoid(x, alpha=0.2 if a is None else a, beta=0.5 if b is None else b),
    "elu": lambda x, a, b: elu(x, alpha=1.0 if a is None else a),
}

Step = Callable[..., tuple[Any, ...]]


def _chosen(names: Any, alphas: Any, betas: Any, usual: Sequence[str], directions: int) -> list[list[Any]]:
    """The activations of each direction."""
    wanted = list(names) if names else list(usual) * directions
    if len(wanted) != len(usual) * directions:
        raise WrongNode(f"{len(wanted)} activations, where {len(usual) * directions} are needed")
    missing = [n for n in wanted if n.lower() not in ACTIVATIONS]
    if missing:
        raise WrongNode(f"there is no activation {missing[0]}")
    a, b = list(alphas or ()), list(betas or ())

    def activation(k: int, name: str) -> Callable[[Any], Any]:
        f = ACTIVATIONS[name.lower()]
        return lambda x: f(x, a[k] if k < len(a) else None, b[k] if k < len(b) else None)

    all_of = [activation(k, name) for k, name in enumerate(wanted)]
    return [all_of[k * len(usual) : (k + 1) * len(usual)] for k in range(directions)]


def _run(x: Any, lengths: Any, states: Sequence[Any], step: Step, backward: bool) -> tuple[Any, tuple[Any, ...]]:
    """Run a step for each element of x (T, N, I); return all first states (T, N, H), and the last states."""
    steps = x.shape[0]

    def advance(before: Any, t: Any) -> Any:
        at = steps - 1 - t if backward else t
        after = step(x[at], *before)
        shown = after[0]
        if lengths is not None:
            goes_on = pb.expand_dims(lengths > at, -1)
            after = tuple(pb.where(goes_on, a, b) for a, b in zip(after, before))
            shown = pb.where(goes_on, shown, 0.0)
        return after, shown

    last, shown = pb.scan(steps, tuple(states), advance)
    return pb.flip(shown, axis=0) if backward else shown, last


def _recurrent(x: Any, lengths: Any, starts: Sequence[Any], width: int, direction: str, layout: int,
               step_of: Callable[[int], Step]) -> tuple[Any, ...]:  # fmt: skip
    """Run all directions; return the states at each step, and the last states."""
    ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(direction)
    if ways is None:
        raise WrongNode(f"direction={direction!r}: forward, reverse or bidirectional")
    if layout:
        x = pb.permute_dims(x, (1, 0, 2))
        starts = [None if s is None else pb.permute_dims(s, (1, 0, 2)) for s in starts]
    zeros = pb.zeros((x.shape[1], width), dtype=x.dtype)
    lengths = None if lengths is None else pb.astype(traced(lengths), pb.int64)
    shown, last = [], []
    for d, backward in enumerate(ways):
        states = [zeros if s is None else s[d] for s in starts]
        found, ends = _run(x, lengths, states, step_of(d), backward)
        shown.append(found)
        last.append(ends)
    y = pb.stack(shown, axis=1)
    results = (y, *(pb.stack(list(s), axis=0) for s in zip(*last)))
    if layout:
        return (pb.permute_dims(y, (2, 0, 1, 3)), *(pb.permute_dims(s, (1, 0, 2)) for s in results[1:]))
    return results


def _clipped(x: Any, clip: float | None) -> Any:
    return x if clip is None else pb.clip(x, -clip, clip)


def _biases(b: Any, d: int, w: Any, gates: int) -> tuple[Any, Any]:
    """The bias vectors of the input and of the state."""
    if b is None:
        zeros = pb.zeros((w.shape[1],), dtype=w.dtype)
        return zeros, zeros
    return b[d, : w.shape[1]], b[d, w.shape[1] :]


def _width(r: Any, hidden_size: int | None) -> int:
    own = integers([r.shape[2]])[0]
    if hidden_size is not None and hidden_size != own:
        raise WrongNode(f"hidden_size {hidden_size}, and weights of {own}")
    return own


@operator("RNN")
def rnn(X: Any, W: Any, R: Any, B: Any = None, sequence_lens: Any = None, initial_h: Any = None, *,
        activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None, clip: float | None = None,
        direction: str = "forward", hidden_size: int | None = None, layout: int = 0,
        output_sequence: int = 0) -> Any:  # fmt: skip
    """Recurrent layer with the step h' = f(W x + R h + b)."""
    chosen = _chosen(activations, activation_alpha, activation_beta, ["Tanh"], integers([W.shape[0]])[0])

    def step_of(d: int) -> Step:
        own, state = _biases(B, d, W, 1)
        (f,) = chosen[d]
        return lambda x, h: (f(_clipped(x @ W[d].T + h @ R[d].T + own + state, clip)),)

    return _recurrent(X, sequence_lens, [initial_h], _width(R, hidden_size), direction, layout, step_of)


@operator("GRU")
def gru(X: Any, W: Any, R: Any, B: Any = None, sequence_lens: Any = None, initial_h: Any = None, *,
        activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None, clip: float | None = None,
        direction: str = "forward", hidden_size: int | None = None, layout: int = 0, linear_before_reset: int = 0,
        output_sequence: int = 0) -> Any:  # fmt: skip
    """Gated recurrent unit with gates z and r, and the step h' = (1 - z) g + z h."""
    chosen = _chosen(activations, activation_alpha, activation_beta, ["Sigmoid", "Tanh"], integers([W.shape[0]])[0])
    width = _width(R, hidden_size)

    def step_of(d: int) -> Step:
        own, state = _biases(B, d, W, 3)
        f, g = chosen[d]

        def step(x: Any, h: Any) -> tuple[Any, ...]:
            given, kept = x @ W[d].T + own, h @ R[d, : 2 * width].T + state[: 2 * width]
            z, r = (f(_clipped(given[:, s] + kept[:, s], clip)) for s in (slice(0, width), slice(width, 2 * width)))
            last, bias = R[d, 2 * width :].T, state[2 * width :]
            inner = r * (h @ last + bias) if linear_before_reset else (r * h) @ last + bias
            return ((1 - z) * g(_clipped(given[:, 2 * width :] + inner, clip)) + z * h,)

        return step

    return _recurrent(X, sequence_lens, [initial_h], width, direction, layout, step_of)


@operator("LSTM")
def lstm(X: Any, W: Any, R: Any, B: Any = None, sequence_lens: Any = None, initial_h: Any = None, initial_c: Any = None,
         P: Any = None, *, activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None,
         clip: float | None = None, direction: str = "forward", hidden_size: int | None = None, input_forget: int = 0,
         layout: int = 0, output_sequence: int = 0) -> Any:  # fmt: skip
    """Long short-term memory: gates i, o, f, candidate c̃, peepholes P; c' = f c + i c̃, h' = o g(c')."""
    usual = ["Sigmoid", "Tanh", "Tanh"]
    chosen = _chosen(activations, activation_alpha, activation_beta, usual, integers([W.shape[0]])[0])
    width = _width(R, hidden_size)
    parts = [slice(k * width, (k + 1) * width) for k in range(4)]

    def step_of(d: int) -> Step:
        own, state = _biases(B, d, W, 4)
        f, g, h_of = chosen[d]
        peep = [0.0] * 3 if P is None else [P[d, s] for s in parts[:3]]

        def step(x: Any, h: Any, c: Any) -> tuple[Any, ...]:
            all_of = x @ W[d].T + h @ R[d].T + own + state
            i, o, forget, candidate = (all_of[:, s] for s in parts)
            i = f(_clipped(i + peep[0] * c, clip))
            forget = 1 - i if input_forget else f(_clipped(forget + peep[2] * c, clip))
            after = forget * c + i * g(_clipped(candidate, clip))
            o = f(_clipped(o + peep[1] * after, clip))
            return o * h_of(after), after

        return step

    return _recurrent(X, sequence_lens, [initial_h, initial_c], width, direction, layout, step_of)
