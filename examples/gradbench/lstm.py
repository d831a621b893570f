"""The loss of a recurrent network that predicts the bits of the next character (ADBench).

Every layer has a forget gate, an ingate, an outgate and a change for each unit, and all weights act on one unit alone:

    c ← c σ(x wᶠ + bᶠ) + σ(h wⁱ + bⁱ) tanh(h wᶜ + bᶜ),    h ← σ(x wᵒ + bᵒ) tanh c,

where x is what the layer below gives, the last hidden states h of the topmost layer make the prediction.

python -m examples.gradbench.lstm
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array, logistic, tanh


class Parameters(NamedTuple):
    """L layers of B units: weights (row 0) and biases (row 1) of the four gates; scales and bias outside the layers."""

    main: Float64[Array, "L 2 4 B"]
    extra: Float64[Array, "3 B"]


FORGET, INGATE, OUTGATE, CHANGE = range(4)


@pb.function
def objective(parameters: Parameters, state: Float64[Array, "L 2 B"], sequence: Float64[Array, "C B"]):
    """Minus the mean logarithm of what the network predicts for what follows, bit by bit."""
    main, extra = parameters
    L, _, B = state.shape
    C = sequence.shape[0]

    def step(carry, t):
        hidden, cell, total = carry

        def layer(x, n):
            def gate(which, source):
                return source * main[n, 0, which] + main[n, 1, which]

            kept = cell[n] * logistic(gate(FORGET, x))
            c = kept + logistic(gate(INGATE, hidden[n])) * tanh(gate(CHANGE, hidden[n]))
            h = logistic(gate(OUTGATE, x)) * tanh(c)
            return h, (h, c)

        x, (hidden, cell) = pb.scan(L, sequence[t] * extra[0], layer)
        prediction = x * extra[1] + extra[2]
        whole = pb.log(2 + pb.sum(pb.exp(prediction)))
        return hidden, cell, total + pb.sum(sequence[t + 1] * (prediction - whole))

    _, _, total = pb.fold(C - 1, (state[:, 0], state[:, 1], 0.0), step)
    return -total / ((C - 1) * B)


jacobian = pb.grad(objective, wrt="parameters")


def main() -> None:
    random = np.random.default_rng(0)
    L, B, C = 2, 7, 20
    parameters = Parameters(random.random((L, 2, 4, B)), random.random((3, B)))
    state, sequence = random.random((L, 2, B)), random.integers(0, 2, (C, B)).astype(float)
    print("loss", objective(parameters, state, sequence))
    slope = jacobian(parameters, state, sequence)
    print("gradient of the scales and the bias", slope.extra.round(4).tolist())


if __name__ == "__main__":
    main()
