"""Newton's fractal: which root of z³ = 1 each start runs to.

The step divides by a derivative that `pb.jvp` takes of the polynomial, with complex numbers. All points take
forty steps in one compiled loop.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Complex128

import pullback as pb
from pullback import Array


@pb.function
def newton(z: Complex128[Array, "N M"]):
    polynomial = lambda z: z * z * z - 1

    def step(z, k):
        value, slope = pb.jvp(polynomial)((z,), (z * 0 + 1,))
        return z - value / slope

    return pb.fold(40, z, step)


side = np.linspace(-1.5, 1.5, 400)
found = newton(side[None, :] + 1j * side[:, None])
roots = np.exp(2j * np.pi * np.arange(3) / 3)
distance = np.abs(found[..., None] - roots)
assert np.mean(distance.min(-1) < 1e-9) > 0.999

plt.imshow(distance.argmin(-1), extent=(-1.5, 1.5, -1.5, 1.5), cmap="viridis")
plt.xlabel("real part")
plt.ylabel("imaginary part")
