"""A strided, padded, dilated convolution. Its gradients are gathers too: no scatter, no index arithmetic by hand.

python examples/convolution.py
"""

import numpy as np
from jaxtyping import Float32

import pullback as pb
from pullback import Array

STRIDE, PADDING, DILATION = 2, 1, 2


@pb.function
def convolve(image: Float32[Array, "C H W"], k: Float32[Array, "O C P Q"]):
    """Each output pixel sees a P × Q window whose points are DILATION apart; outside of the image is zero."""
    (C, H, W), (O, _, P, Q) = image.shape, k.shape
    rows = (H + 2 * PADDING - DILATION * (P - 1) - 1) // STRIDE + 1
    columns = (W + 2 * PADDING - DILATION * (Q - 1) - 1) // STRIDE + 1

    def pixel(o, i, j):
        def term(c, p, q):
            u, v = STRIDE * i + DILATION * p - PADDING, STRIDE * j + DILATION * q - PADDING
            return image.at(c, u, v, fill=0) * k[o, c, p, q]

        return pb.sum_over((C, P, Q), term)

    return pb.build((O, rows, columns), pixel)


@pb.function
def energy(image: Float32[Array, "C H W"], k: Float32[Array, "O C P Q"]):
    """Half the sum of squares of the result: something to differentiate."""
    y = convolve(image, k)
    return pb.sum_over(y.shape, lambda o, i, j: y[o, i, j] * y[o, i, j]) / 2


def main() -> None:
    random = np.random.default_rng(0)
    image = random.standard_normal((2, 9, 8), dtype=np.float32)
    k = random.standard_normal((3, 2, 3, 3), dtype=np.float32)
    print(convolve.type)
    print(convolve(image, k).shape)
    gradient = pb.grad(energy, wrt=("image", "k"))
    print([g.shape for g in gradient(image, k)])
    print(gradient.ir)


if __name__ == "__main__":
    main()
