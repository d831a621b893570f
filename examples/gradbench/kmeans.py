"""The step of Newton's method for k-means clustering.

    f(C) = Σ i: min j: ‖pᵢ − cⱼ‖²

The Hessian of f is diagonal wherever it exists (Bottou and Bengio 1994), so its product with ones is its diagonal: one
derivative of the gradient in one direction gives all of it.

python -m examples.gradbench.kmeans
"""

import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def cost(centroids: Float64[Array, "K D"], points: Float64[Array, "N D"]):
    """The sum of squared distances from each point to the centroid next to it."""
    (K, D), N = centroids.shape, points.shape[0]

    def distance(i, j):
        return pb.sum_over(D, lambda d: (points[i, d] - centroids[j, d]) ** 2)

    return pb.sum_over(N, lambda i: pb.min_over(K, lambda j: distance(i, j)))


@pb.function
def direction(centroids: Float64[Array, "K D"], points: Float64[Array, "N D"]):
    """Gradient over Hessian, element by element."""
    slope = pb.grad(cost, wrt="centroids")
    gradient, curvature = pb.jvp(slope)((centroids, points), (pb.ones_like(centroids), None))
    return gradient / curvature


def main() -> None:
    random = np.random.default_rng(0)
    points = np.concatenate([random.normal(m, 0.3, (50, 2)) for m in ([-2, 0], [0, 2], [2, 0])])
    centroids = points[[0, 60, 120]].copy()
    for step in range(4):
        print("step", step, "cost", cost(centroids, points).round(4))
        centroids -= direction(centroids, points)
    print(centroids.round(2).tolist())


if __name__ == "__main__":
    main()
