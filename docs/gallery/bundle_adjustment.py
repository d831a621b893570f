"""Bundle adjustment: cameras and points from pictures alone.

The Jacobian of all residuals is sparse, and its pattern follows from the index arrays. Levenberg-Marquardt steps use
SciPy's sparse solver. The picture shows the pattern, and the error of the points before and after.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64, Int64
from scipy.sparse import diags, hstack
from scipy.sparse.linalg import spsolve

import pullback as pb
from pullback import Array


@pb.function
def residuals(
    cameras: Float64[Array, "C 4"], points: Float64[Array, "P 3"],
    camera_of: Int64[Array, "N"], point_of: Int64[Array, "N"], seen: Float64[Array, "N 2"],
):  # fmt: skip
    """Return predicted minus measured places in pixels. A camera is its angle about the vertical and its center."""

    def one(camera, point, image):
        s, c, d = pb.sin(camera[0]), pb.cos(camera[0]), point - camera[1:]
        depth = c * d[2] - s * d[0]
        return 500.0 * pb.stack([(c * d[0] + s * d[2]) / depth, d[1] / depth]) - image

    return pb.vmap(one)(cameras[camera_of], points[point_of], seen)


r, C, P = np.random.default_rng(0), 5, 60
cameras = np.concatenate([0.1 * r.normal(size=(C, 1)), r.normal(size=(C, 3)) - [0, 0, 10]], axis=1)
points = r.uniform(-2, 2, (P, 3))
kept = r.random(C * P) < 0.9
index = np.repeat(np.arange(C), P)[kept], np.tile(np.arange(P), C)[kept]
exact = residuals(cameras, points, *index, np.zeros((kept.sum(), 2)))
seen = exact + 0.5 * r.normal(size=exact.shape)

first = at = cameras + 0.02 * r.normal(size=cameras.shape), points + 0.2 * r.normal(size=points.shape)
slopes, damping = pb.jacobian(residuals, wrt=("cameras", "points"), sparse=True), 1e-3
for _ in range(6):
    error, J = residuals(*at, *index, seen).ravel(), hstack([x.tocsr() for x in slopes(*at, *index, seen)]).tocsr()
    normal = (J.T @ J).tocsc()
    change = spsolve(normal + damping * diags(normal.diagonal()), -(J.T @ error))
    at, damping = (at[0] + change[: 4 * C].reshape(C, 4), at[1] + change[4 * C :].reshape(P, 3)), damping / 10
left = residuals(*at, *index, seen)
assert np.sqrt(np.mean(left**2)) < 0.5  # pixels, the noise of the measurements

fig, (before, after) = plt.subplots(1, 2, layout="constrained", width_ratios=(1, 2))
before.spy(J, markersize=0.6, aspect="auto")
before.set_xlabel("unknowns")
before.set_ylabel("residuals")
for guess, label in ((first, "at the start"), (at, "adjusted")):
    miss = np.linalg.norm(residuals(*guess, *index, seen), axis=1)
    after.hist(miss, np.logspace(-2, 2, 40), alpha=0.7, label=label)
after.set_xscale("log")
after.set_xlabel("residual in pixels")
after.legend()
