"""Hello: a square and its derivative.

python -m examples.gradbench.hello
"""

from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def square(x: Float64[Array, ""]):
    """x²."""
    return x * x


double = pb.grad(square)


def main() -> None:
    print("square", square(3.0), "double", double(3.0))


if __name__ == "__main__":
    main()
