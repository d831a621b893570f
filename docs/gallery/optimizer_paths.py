"""Three ways down Rosenbrock's valley.

Gradient descent needs thousands of steps, Newton's method a handful. `pb.minimize` runs BFGS inside a traced
function. All three use the same derivative.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def valley(x: Float64[Array, "2"]):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


gradient, hessian = pb.grad(valley), pb.hessian(valley)
start = np.array([-1.2, 1.0])

descent = [start]
for _ in range(2000):
    descent.append(descent[-1] - 0.002 * gradient(descent[-1]))
newton = [start]
for _ in range(7):
    newton.append(newton[-1] - np.linalg.solve(hessian(newton[-1]), gradient(newton[-1])))
assert valley(newton[-1]) < 1e-12 < valley(descent[-1])
assert np.allclose(pb.function(lambda x: pb.minimize(valley, x))(start), 1.0, atol=1e-5)

grid = np.meshgrid(np.linspace(-1.6, 1.6, 200), np.linspace(-0.7, 1.8, 200))
heights = pb.vmap(valley)(np.stack(grid, -1).reshape(-1, 2)).reshape(200, 200)
plt.contourf(*grid, np.log10(heights + 1e-3), 20, cmap="bone")
plt.plot(*np.array(descent).T, label="gradient descent, 2,000 steps")
plt.plot(*np.array(newton).T, "o-", label="Newton, 7 steps")
plt.plot(1, 1, "w*", markersize=14)
plt.ylim(-0.7, 1.8)
plt.legend()
