"""An ordinary differential equation, by Runge and Kutta's method of fourth order (`an_ode` of cmpad).

    y₀′(t) = x₀,    yᵢ′(t) = xᵢ yᵢ₋₁(t),    y(0) = 0,    from t = 0 to 2 in s steps

python -m examples.gradbench.ode
"""

import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array, Size


@pb.function
def primal(x: Float64[Array, "N"], s: Size["S"]):
    """y(2)."""
    N = x.shape[0]
    h = 2.0 / s

    def rate(y):
        return pb.build(N, lambda i: x[i] * y.at(i - 1, fill=1))

    def step(y, _):
        k1 = rate(y)
        k2 = rate(y + h / 2 * k1)
        k3 = rate(y + h / 2 * k2)
        k4 = rate(y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return pb.fold(s, pb.zeros(N), step)


@pb.function
def last(x: Float64[Array, "N"], s: Size["S"]):
    """The last component of y(2)."""
    return primal(x, s)[x.shape[0] - 1]


gradient = pb.grad(last, wrt="x")


def main() -> None:
    x = np.array([1.0, 0.5, 2.0, 0.25])
    print("y(2)", primal(x, 10).round(6))
    print("gradient of its last component", gradient(x, 10).round(6))


if __name__ == "__main__":
    main()
