"""Heat spreading in a plate: a fold that carries the whole plate through time, in one C function.

python examples/heat.py
"""

import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array, Size


@pb.function
def spread(plate: Float64[Array, "H W"], rate: float, steps: Size["T"]):
    """Explicit steps of the heat equation; beyond the border it is cold."""
    H, W = plate.shape

    def step(u, t):
        def at(i, j):
            around = u.at(i - 1, j) + u.at(i + 1, j) + u.at(i, j - 1) + u.at(i, j + 1)
            return u[i, j] + rate * (around - 4 * u[i, j])

        return pb.build((H, W), at)

    return pb.fold(steps, plate, step)


def main() -> None:
    plate = np.zeros((9, 17))
    plate[4, 8] = 300
    warm = spread(plate, 0.2, 20)
    for row in warm:
        print("".join(" .:-=+*#%@"[min(9, int(x))] for x in row))


if __name__ == "__main__":
    main()
