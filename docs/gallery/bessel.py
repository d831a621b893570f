"""Bessel functions with their derivatives, and the zeros that Newton's method finds.

The derivative of J₀ is -J₁, and Pullback takes it from the series. The zeros are the frequencies of a round drum.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def bessel(x: Float64[Array, "N"]):
    return pb.special.j0(x), pb.special.j1(x), pb.special.y0(x)


@pb.function
def zeros(guess: Float64[Array, "N"]):
    return pb.vmap(pb.function(lambda x: pb.root(pb.special.j0, x)))(guess)


slope = pb.function(lambda x: pb.jvp(pb.special.j0)((x,), (pb.ones_like(x),))[1])
x = np.linspace(0.05, 20, 400)
j0, j1, y0 = bessel(x)
assert np.abs(slope(x) + j1).max() < 1e-13
found = zeros(np.pi * (np.arange(6) + 0.75))
assert np.allclose(found[:3], [2.404825557695773, 5.520078110286311, 8.653727912911012], rtol=1e-12)

plt.plot(x, j0, label="J₀")
plt.plot(x, j1, label="J₁")
plt.plot(x, y0, label="Y₀")
plt.plot(found, 0 * found, "ko", markersize=4, label="zeros of J₀")
plt.ylim(-1, 1.05)
plt.legend()
