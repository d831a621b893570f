"""Bundle adjustment: errors of reprojection, and their sparse Jacobian (ADBench, section 4.2).

Every observation sees one point through one camera. A camera is 11 numbers: a rotation (axis times angle), its center,
the focal length, the principal point, and two coefficients of radial distortion.

python -m examples.gradbench.ba
"""

import numpy as np
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array

ROTATION, CENTRE, FOCAL, PRINCIPAL, RADIAL = slice(0, 3), slice(3, 6), 6, slice(7, 9), slice(9, 11)


def cross(a, b):
    """The cross product."""
    return pb.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def rotate(rotation, x):
    """X turned about an axis by an angle, their product being `rotation` (Rodrigues' formula)."""
    squared = pb.sum(rotation * rotation)
    turns = squared > 0
    angle = pb.sqrt(pb.where(turns, squared, 1.0))
    axis = rotation / angle
    along = pb.sum(axis * x) * (1 - pb.cos(angle))
    turned = x * pb.cos(angle) + cross(axis, x) * pb.sin(angle) + axis * along
    return pb.where(turns, turned, x + cross(rotation, x))


@pb.function
def reprojection_error(
    camera: Float64[Array, "11"], point: Float64[Array, "3"], weight: float, feature: Float64[Array, "2"]
):
    """The weighted distance in the image from where the camera should see the point to where it does."""
    seen = rotate(camera[ROTATION], point - camera[CENTRE])
    flat = seen[:2] / seen[2]
    squared = pb.sum(flat * flat)
    distortion = 1 + camera[9] * squared + camera[10] * squared * squared
    return weight * (flat * distortion * camera[FOCAL] + camera[PRINCIPAL] - feature)


@pb.function
def objective(
    cameras: Float64[Array, "N 11"],
    points: Float64[Array, "M 3"],
    weights: Float64[Array, "P"],
    features: Float64[Array, "P 2"],
    camera_of: Int64[Array, "P"],
    point_of: Int64[Array, "P"],
):
    """Errors of reprojection (P, 2), and 1 − w² for every weight (P)."""
    errors = pb.vmap(reprojection_error)(cameras[camera_of], points[point_of], weights, features)
    return errors, 1 - weights * weights


@pb.function
def jacobian(
    cameras: Float64[Array, "N 11"],
    points: Float64[Array, "M 3"],
    weights: Float64[Array, "P"],
    features: Float64[Array, "P 2"],
    camera_of: Int64[Array, "P"],
    point_of: Int64[Array, "P"],
):
    """The Jacobian of all errors by (cameras, points, weights) in compressed rows: (row starts, columns, values)."""
    N, M, P = cameras.shape[0], points.shape[0], weights.shape[0]
    block = pb.jacobian(reprojection_error, wrt=("camera", "point", "weight"))
    by_camera, by_point, by_weight = pb.vmap(block)(cameras[camera_of], points[point_of], weights, features)
    blocks = pb.concat([by_camera, by_point, by_weight[:, :, None]], axis=2)
    values = pb.concat([pb.reshape(blocks, (30 * P,)), -2 * weights])

    first_point, first_weight = 11 * N, 11 * N + 3 * M

    def column(p, r, k):
        of_point, of_weight = first_point + 3 * point_of[p] + k - 11, first_weight + p
        return pb.where(k < 11, 11 * camera_of[p] + k, pb.where(k < 14, of_point, of_weight))

    columns = pb.build((P, 2, 15), column)
    columns = pb.concat([pb.reshape(columns, (30 * P,)), pb.build(P, lambda p: first_weight + p)])
    starts = pb.build(3 * P + 1, lambda r: pb.where(r <= 2 * P, 15 * r, 28 * P + r))
    return starts, columns, values


def main() -> None:
    random = np.random.default_rng(0)
    N, M, P = 2, 3, 4
    cameras, points = random.normal(size=(N, 11)), random.normal(size=(M, 3)) + [0, 0, 9]
    weights, features = random.random(P), random.normal(size=(P, 2))
    camera_of, point_of = np.arange(P) % N, np.arange(P) % M
    errors, regular = objective(cameras, points, weights, features, camera_of, point_of)
    print("errors", errors.round(3).tolist(), regular.round(3).tolist())
    starts, columns, values = jacobian(cameras, points, weights, features, camera_of, point_of)
    print("row 0: columns", columns[: starts[1]].tolist())
    print("row 0: values", values[: starts[1]].round(3).tolist())


if __name__ == "__main__":
    main()
