"""A charged particle that shall fly through the origin (Pearlmutter and Siskind 2008).

Two charges sit at (10, 10 − w) and (10, 0). A particle starts at (0, 8) with velocity (0.75, 0), is pushed by minus the
gradient of their potential, and crosses the x-axis somewhere: w is chosen by gradient descent so that this is at the
origin. The derivative of the crossing by w goes through a loop without known length, each of whose steps contains a
gradient; either may be taken in either mode: `fr` is the function with forward mode outside and reverse mode inside.

python -m examples.gradbench.particle
"""

from jaxtyping import Float64

import pullback as pb
from examples.gradbench.steepest import GRADIENTS, argmin, norm
from pullback import Array

TIME_STEP, MAX_STEPS = 0.1, 2000  # of w = 1, 1,144 are taken


def crossing(inner, w):
    """Where the particle crosses the x-axis: Euler's method while it is above, and a straight line to the axis."""
    charges = pb.stack([10.0, 10.0 - w]), pb.asarray([10.0, 0.0])

    def potential(x):
        return 1 / norm(x - charges[0]) + 1 / norm(x - charges[1])

    push = inner(potential)

    def step(state):
        x, velocity = state
        return x + TIME_STEP * velocity, velocity - TIME_STEP * push(x)

    def above(state):
        x, velocity = state
        return x[1] + TIME_STEP * velocity[1] > 0

    x, velocity = pb.while_loop(above, step, (pb.asarray([0.0, 8.0]), pb.asarray([0.75, 0.0])), MAX_STEPS)
    return x[0] - x[1] / velocity[1] * velocity[0]


def particle(outer, inner):
    """The function of the first guess that finds w with these modes."""

    @pb.function
    def control(w: Float64[Array, ""]):
        found = argmin(outer, lambda w: crossing(inner, w[0]) ** 2, pb.stack([w]))
        return found[0]

    return control


ff, fr, rf, rr = (particle(GRADIENTS[outer], GRADIENTS[inner]) for outer, inner in ("ff", "fr", "rf", "rr"))


def main() -> None:
    for name, f in {"ff": ff, "fr": fr, "rf": rf, "rr": rr}.items():
        print(name, f(0.0))


if __name__ == "__main__":
    main()
