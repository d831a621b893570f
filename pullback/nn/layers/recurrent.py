"""Recurrent layers: long short-term memory and gated recurrent units.

The products with the inputs of all steps are one matrix product before the loop. A step multiplies only the state.
Weights have PyTorch's layout, so PyTorch files need only a mapping of names:

    w (G W, M)  weight_ih    b (G W,)  bias_ih        G gates, W the hidden size, M features of the input
    u (G W, W)  weight_hh    c (G W,)  bias_hh
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pullback as pb
from pullback import Array
from pullback.errors import TraceError
from pullback.nn import init
from pullback.nn.composition import sequential
from pullback.nn.layer import Layer, as_layer, layer
from pullback.nn.layers.checks import check_count, check_setting
from pullback.nn.scope import Scope, type_of
from pullback.source import user_position

__all__ = ["bidirectional", "gru", "lstm", "with_states"]

State = Mapping[str, Array]
Step = Callable[[State, Array, Array], State]


def _takes(
    kind: str, hidden_size: int, *, num_layers: int = 1, reverse: bool = False, bidirectional: bool = False, **_: Any
) -> str:
    check_count(kind, hidden_size=hidden_size, num_layers=num_layers)
    remedy = "one of `reverse`, `bidirectional`"
    check_setting(kind, not (reverse and bidirectional), "reverse and bidirectional", remedy)
    return "N L M"


@layer(partial(_takes, "lstm"), accepts="=")
def lstm(
    scope: Scope,
    x: Any,
    hidden_size: int,
    *,
    num_layers: int = 1,
    reverse: bool = False,
    bidirectional: bool = False,
    return_sequences: bool = True,
) -> Any:
    """Long short-term memory (Hochreiter and Schmidhuber 1997; with forget gates, Gers et al. 2000).

        i, f, g, o = w x[t] + b + u h + c        gates in this order, each (W,)
        cell = σ(f) cell + σ(i) tanh(g)
        h    = σ(o) tanh(cell)

    Args:
        scope: provides the parameters w, u, b, c; for several layers under lstm1, lstm2, …; for two directions under
            forward and backward.
        x: (N, L, M), or a pair of it and the initial state {"h": (N, W), "cell": (N, W)}; for several layers or both
            directions, a tuple of states. The default state, or None, is zeros.
        hidden_size: the size W of the state.
        num_layers: the number of layers, each reading the result of the one before it.
        reverse: whether to read from the last step to the first.
        bidirectional: whether to concatenate the features of a forward and a backward pass.
        return_sequences: whether to return all steps, or only the last step read.
    Returns:
        h of all steps, (N, L, W); (N, W) with `return_sequences=False`; 2 W features with `bidirectional`. If x is a
        pair, a pair with the state after the last step read.
    Raises:
        TraceError: [E163] `hidden_size` or `num_layers` is below 1, or `reverse` is set with `bidirectional`.

    >>> from pullback import nn
    >>> nn.lstm(5, bidirectional=True).type.result, nn.lstm(5, return_sequences=False).type.result
    ('f32[N, L, 10]', 'f32[N, 5]')
    """
    if num_layers > 1 or bidirectional:
        one = partial(lstm, hidden_size, reverse=reverse)
        return _stacked(scope, x, one, num_layers, bidirectional, return_sequences)

    def step(state: State, own: Array, from_state: Array) -> State:
        i, f, g, o = _gates(own + from_state, 4)
        cell = pb.logistic(f) * state["cell"] + pb.logistic(i) * pb.tanh(g)
        return {"h": pb.logistic(o) * pb.tanh(cell), "cell": cell}

    return _read(scope, x, step, ("h", "cell"), 4, hidden_size, reverse, return_sequences)


@layer(partial(_takes, "gru"), accepts="=")
def gru(
    scope: Scope,
    x: Any,
    hidden_size: int,
    *,
    num_layers: int = 1,
    reverse: bool = False,
    bidirectional: bool = False,
    return_sequences: bool = True,
) -> Any:
    """Gated recurrent units (Cho et al. 2014), in the form that multiplies the state once.

        r, z = σ(w x[t] + b + u h + c)           the first two thirds of the rows, gates in this order
        n    = tanh(w x[t] + b + r (u h + c))    the last third
        h    = (1 - z) n + z h

    Args:
        scope: provides the parameters w, u, b, c; for several layers under gru1, gru2, …; for two directions under
            forward and backward.
        x: (N, L, M), or a pair of it and the initial state {"h": (N, W)}; for several layers or both
            directions, a tuple of states. The default state, or None, is zeros.
        hidden_size: the size W of the state.
        num_layers: the number of layers, each reading the result of the one before it.
        reverse: whether to read from the last step to the first.
        bidirectional: whether to concatenate the features of a forward and a backward pass.
        return_sequences: whether to return all steps, or only the last step read.
    Returns:
        The same as `lstm`.
    Raises:
        TraceError: [E163] `hidden_size` or `num_layers` is below 1, or `reverse` is set with `bidirectional`.

    >>> from pullback import nn
    >>> nn.gru(5).type.result
    'f32[N, L, 5]'
    """
    if num_layers > 1 or bidirectional:
        one = partial(gru, hidden_size, reverse=reverse)
        return _stacked(scope, x, one, num_layers, bidirectional, return_sequences)

    def step(state: State, own: Array, from_state: Array) -> State:
        (r, z, n), (r_state, z_state, n_state) = _gates(own, 3), _gates(from_state, 3)
        kept = pb.logistic(z + z_state)
        new = pb.tanh(n + pb.logistic(r + r_state) * n_state)
        return {"h": (1 - kept) * new + kept * state["h"]}

    return _read(scope, x, step, ("h",), 3, hidden_size, reverse, return_sequences)


def bidirectional(forward: Any, backward: Any = None) -> Layer:
    """Combine two layers that read a sequence forward and backward; their features are concatenated.

    Args:
        forward: a layer of (N, L, M).
        backward: the layer that reads the reversed sequence; by default another layer like `forward`.
    Returns:
        A layer whose result has the features of both. Sequences from the backward layer are reversed to the order
        of the input. Parameters are in `forward` and `backward`.

    >>> from pullback import nn
    >>> nn.bidirectional(nn.gru(3), nn.lstm(2)).type.result
    'f32[N, L, 5]'
    """
    ahead, back = as_layer(forward), as_layer(forward if backward is None else backward)

    def run(scope: Scope, x: Any) -> Any:
        sequence, states = _pair(x)
        given = (None, None) if states is None else states
        masks = (None, None) if scope.mask is None else (scope.mask, _flipped(scope.mask))
        results = [
            scope.masking(mask, partial(scope.call, part, _like(x, one, state), name))
            for part, one, state, name, mask in zip(
                (ahead, back), (sequence, _flipped(sequence)), given, ("forward", "backward"), masks
            )
        ]
        (y, first), (z, second) = map(_pair, results)
        joined = pb.concat([y, _flipped(z) if z.ndim == sequence.ndim else z], axis=-1)
        return _like(x, joined, (first, second))

    other = "" if backward is None else f", {back!r}"
    return Layer("bidirectional", run, ahead.takes, ahead.integers, text=f"bidirectional({ahead!r}{other})")


def _read(
    scope: Scope,
    given: Any,
    step: Step,
    names: tuple[str, ...],
    gates: int,
    hidden_size: int,
    reverse: bool,
    return_sequences: bool,
) -> Any:
    """Run one layer in one direction."""
    x, given_state = _pair(given)
    n, steps, inputs = x.shape
    scheme = init.uniform(-(hidden_size**-0.5), hidden_size**-0.5)
    w, u = (scope.parameter(name, (gates * hidden_size, m), scheme) for name, m in (("w", inputs), ("u", hidden_size)))
    b, c = (scope.parameter(name, (gates * hidden_size,), scheme) for name in "bc")
    products = x @ w.T + b
    state: State = {
        name: scope.carried(name, (n, hidden_size), dtype=x.dtype) if given_state is None else given_state[name]
        for name in names
    }

    def at(state: State, t: Any) -> tuple[State, Array]:
        now = steps - 1 - t if reverse else t
        after = step(state, products[:, now], state["h"] @ u.T + c)
        if scope.mask is not None:  # a step that is not there changes nothing
            there = pb.expand_dims(scope.mask[:, now], 1)
            after = {name: pb.where(there, x, state[name]) for name, x in after.items()}
        return after, after["h"]

    if not return_sequences:
        state = _kept(scope, pb.fold(steps, state, lambda state, t: at(state, t)[0]))
        return _like(given, state["h"], state)
    state, rows = pb.scan(steps, state, at)
    state = _kept(scope, state)
    y = pb.permute_dims(rows, (1, 0, 2))
    return _like(given, _flipped(y) if reverse else y, state)


def _kept(scope: Scope, state: State) -> State:
    """The state after the last step, which `with_states` gives the sequence that follows."""
    for name, value in state.items():
        scope.carry(name, value)
    return state


def with_states(*layers: Any) -> Layer:
    """A network whose recurrent states are an input and a result: it takes and gives a pair.

    So a sequence may come in parts, and one network may go on from the states of another.

    Args:
        layers: as for `sequential`; recurrent layers among them, at any depth, and layers that use `Scope.carried`.
    Returns:
        A layer of a pair (x, states) that gives the pair (y, states after the last step). States are dicts with the
        names of the layers, as parameters are; None begins with zeros. Parameters are those of the layers without it.

    >>> from pullback import nn
    >>> net = nn.sequential(nn.embedding(50, 8), nn.gru(4), nn.dense(50))
    >>> step = nn.with_states(net)
    >>> step.type.takes
    '(i64[N, L], {gru1: {h: f32[N, 4]}})'
    >>> parameters, _ = net.init(seed=0)
    >>> words = np.array([[3, 1, 4, 1, 5]])
    >>> _, states = step(parameters, (words[:, :3], None))
    >>> y, _ = step(parameters, (words[:, 3:], states))
    >>> bool(np.allclose(y, net(parameters, words)[:, 3:], atol=1e-6))
    True
    """
    body = as_layer(layers[0]) if len(layers) == 1 else sequential(*layers)

    def forward(scope: Scope, given: Any) -> Any:
        if not (isinstance(given, tuple) and len(given) == 2):
            raise TraceError("E168", f"with_states takes a pair (x, states), and was given {type_of(given)}",
                             position=user_position(), remedy="`(x, None)` begins with zeros")  # fmt: skip
        x, states = given
        return scope.carrying(states, lambda: body.forward(scope, x))

    takes = None if body.takes is None else (body.type.inputs, body.type.carried)
    return Layer("with_states", forward, takes, text=f"with_states({body!r})", name=body.name, parts=(body,))


def _stacked(
    scope: Scope, given: Any, one: Callable[..., Layer], num_layers: int, both: bool, return_sequences: bool
) -> Any:
    """Stack layers, in one or both directions: each reads the result of the one before it."""
    x, starts = _pair(given)
    states = []
    for k in range(num_layers):
        part = one(return_sequences=return_sequences or k < num_layers - 1)
        turned = bidirectional(part) if both else part
        start = starts if num_layers == 1 else None if starts is None else starts[k]
        x, state = scope.call(turned, (x, start), f"{part.kind}{k + 1}")
        states.append(state)
    return _like(given, x, tuple(states) if num_layers > 1 else states[0])


def _gates(a: Array, count: int) -> list[Array]:
    width = a.shape[1] // count
    return [a[:, k * width : (k + 1) * width] for k in range(count)]


def _flipped(x: Array) -> Array:
    """A sequence in reverse order."""
    flipped: Array = pb.flip(x, axis=1)
    return flipped


def _pair(given: Any) -> tuple[Any, Any]:
    """The pair (x, state) of a recurrent layer's input or result."""
    return given if isinstance(given, tuple) else (given, None)


def _like(given: Any, y: Array, state: Any) -> Any:
    """Return a pair if one was given."""
    return (y, state) if isinstance(given, tuple) else y
