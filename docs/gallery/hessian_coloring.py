"""A sparse Hessian, and the colors that find it in a few products.

Two columns may share a color if no row has entries in both. One Hessian-vector product then gives all columns of a
color. A membrane of 100 points needs 100 products without colors, and 13 or fewer with them.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def area(z: Float64[Array, "N N"]):
    """Return the area of a membrane over a square, with the heights z at the grid points."""
    down, right = z[1:, :-1] - z[:-1, :-1], z[:-1, 1:] - z[:-1, :-1]
    return pb.sum(pb.sqrt(1 + down**2 + right**2))


z = np.random.default_rng(0).normal(size=(10, 10))
H = pb.hessian(area, sparse=True)(z).tocsr()
pattern = H.toarray() != 0

colors = np.full(100, -1)
for k in range(100):
    near = pattern[pattern[:, k]].any(0)
    colors[k] = min(set(range(100)) - set(colors[near]))
seeds = np.eye(colors.max() + 1)[colors]
product = np.stack([pb.hvp(area)((z,), v.reshape(10, 10)).ravel() for v in seeds.T], axis=1)
found = np.where(pattern, product[:, colors], 0)
assert np.abs(found - H.toarray()).max() < 1e-12
assert seeds.shape[1] <= 13

rows, columns = np.nonzero(pattern)
plt.figure(figsize=(5, 4.4))
plt.scatter(columns, rows, c=colors[columns], cmap="tab20", s=5, marker="s")
plt.gca().invert_yaxis()
plt.gca().set_aspect("equal")
plt.xlabel(f"columns, in {seeds.shape[1]} colors")
plt.ylabel("rows")
