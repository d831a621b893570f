"""Gradient descent whose step grows and shrinks: what the programs `particle` and `saddle` are made of.

Ten steps downhill in a row double the rate; a step that does not lead down is not made and halves it. The descent ends
where the slope is small, or the step.
"""

import pullback as pb

NEAR = 1e-5


def forward_gradient(f):
    """The gradient of a function of a vector by forward mode: one tangent for each element."""
    return pb.jacobian(f, mode="forward")


def reverse_gradient(f):
    """The gradient of a function of a vector by reverse mode."""
    return pb.grad(f)


GRADIENTS = {"f": forward_gradient, "r": reverse_gradient}


def norm(v):
    """The length of a vector."""
    return pb.sqrt(pb.sum(v * v))


def argmin(gradient_of, f, start, max_steps=None):
    """Where f is smallest, downhill from `start`; a derivative of this in reverse mode needs `max_steps`."""
    gradient = gradient_of(f)

    def going(state):
        _, _, slope, rate, _ = state
        length = norm(slope)
        return (length > NEAR) & (rate * length > NEAR)

    def step(state):
        x, value, slope, rate, good = state
        there = x - rate * slope
        new = f(there)

        def move():
            tenth = good == 9
            return there, new, gradient(there), pb.where(tenth, 2 * rate, rate), pb.where(tenth, 0, good + 1)

        def stay():
            return x, value, slope, rate / 2, 0 * good

        return pb.cond(new < value, move, stay)

    return pb.while_loop(going, step, (start, f(start), gradient(start), 1e-5, 0), max_steps)[0]


def argmax(gradient_of, f, start, max_steps=None):
    """Where f is largest."""
    return argmin(gradient_of, lambda x: -f(x), start, max_steps)
