"""A saddle point by gradient descent inside gradient descent (Pearlmutter and Siskind 2008).

    min x max y: (x₁² + x₂²) − (y₁² + y₂²)

The objective of the outer descent contains the inner one, each of whose steps contains a gradient. Both derivatives may
be taken in either mode: `fr` is the function with forward mode outside and reverse mode inside.

python -m examples.gradbench.saddle
"""

import numpy as np
from jaxtyping import Float64

import pullback as pb
from examples.gradbench.steepest import GRADIENTS, argmax, argmin
from pullback import Array

MAX_STEPS = 200


def height(x, y):
    """The function whose saddle point is sought."""
    return pb.sum(x * x) - pb.sum(y * y)


def saddle(outer, inner):
    """The function of the start that finds the saddle point with these modes."""

    @pb.function
    def saddle_point(start: Float64[Array, "2"]):
        def highest(x):
            y = argmax(inner, lambda y: height(x, y), start, MAX_STEPS)
            return height(x, y)

        x = argmin(outer, highest, start)
        y = argmax(outer, lambda y: height(x, y), start)
        return pb.concat([x, y])

    return saddle_point


ff, fr, rf, rr = (saddle(GRADIENTS[outer], GRADIENTS[inner]) for outer, inner in ("ff", "fr", "rf", "rr"))


def main() -> None:
    for name, f in {"ff": ff, "fr": fr, "rf": rf, "rr": rr}.items():
        print(name, f(np.array([1.0, 1.0])))


if __name__ == "__main__":
    main()
