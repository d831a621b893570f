"""Tracking a hand: from where points were measured to where a posed model has them (ADBench, section 4.3).

26 numbers pose the hand: a rotation (axis times angle), a translation, and for each finger two angles of its first
joint and one of each further joint. Each bone moves with its parent; a vertex moves with a weighted mean of the bones.
A measured point lies on a triangle, at barycentric coordinates (u₀, u₁, 1 − u₀ − u₁), or at a vertex.

python -m examples.gradbench.ht
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array


class Model(NamedTuple):
    """B bones, the parent of each before it (-1 for none); V vertices and T triangles; `mirror` is 1 or -1."""

    parents: Int64[Array, "B"]
    base_relatives: Float64[Array, "B 4 4"]
    inverse_base_absolutes: Float64[Array, "B 4 4"]
    base_positions: Float64[Array, "V 4"]
    weights: Float64[Array, "V B"]
    triangles: Int64[Array, "T 3"]
    mirror: float


def matrix(rows):
    """A matrix of numbers."""
    return pb.stack([pb.stack([pb.asarray(x) for x in row]) for row in rows])


def turn(rotation):
    """The 3 × 3 matrix of a rotation, axis times angle; none where the angle is next to 0."""
    angle = pb.sqrt(pb.sum(rotation * rotation))
    turns = angle >= 1e-4
    x, y, z = (pb.where(turns, rotation[i] / angle, 0.0) for i in range(3))
    s, c = (pb.where(turns, f(angle), still) for f, still in ((pb.sin, 0.0), (pb.cos, 1.0)))
    xy, xz, yz = x * y * (1 - c), x * z * (1 - c), y * z * (1 - c)
    return matrix(
        [
            [x * x + (1 - x * x) * c, xy - z * s, xz + y * s],
            [xy + z * s, y * y + (1 - y * y) * c, yz - x * s],
            [xz - y * s, yz + x * s, z * z + (1 - z * z) * c],
        ]
    )


def bend(about_x, about_z):
    """The 4 × 4 matrix of a turn about x, then about z."""
    (sx, cx), (sz, cz) = ((pb.sin(a), pb.cos(a)) for a in (about_x, about_z))
    rows = [cz, -sz * cx, sz * sx, 0.0], [sz, cz * cx, -cz * sx, 0.0], [0.0, sx, cx, 0.0], [0.0, 0.0, 0.0, 1.0]
    return matrix(rows)


def joint(bends, b):
    """The angles about x and z of bone b = 1 + 4 f + i: both for i = 1, about x for i = 2 and 3, none for i = 0."""
    f, i = (b - 1) // 4, (b - 1) % 4
    moves = (b >= 1) & (b <= 20)
    about_x = pb.where(moves & (i >= 1), bends.at(4 * f + pb.where(i == 1, 0, i)), 0.0)
    return about_x, pb.where(moves & (i == 1), bends.at(4 * f + 1), 0.0)


def product(a, b, i, j):
    """Element i, j of the product of two 4 × 4 matrices."""
    return pb.sum_over(4, lambda k: a[i, k] * b[k, j])


def bone_transforms(bends, model):
    """What each bone does to a point of the model at rest before the hand is turned as a whole, (B, 3, 4)."""
    B = model.parents.shape[0]
    bent = pb.build((B, 4, 4), lambda b, i, j: bend(*joint(bends, b))[i, j])
    relative = pb.build((B, 4, 4), lambda b, i, j: product(model.base_relatives[b], bent[b], i, j))

    def place(absolute, b):  # row 0 is what the first bone hangs on
        parent = absolute[model.parents[b] + 1]
        moved = pb.build((4, 4), lambda i, j: product(parent, relative[b], i, j))
        return pb.build((B + 1, 4, 4), lambda c, i, j: pb.where(c == b + 1, moved[i, j], absolute[c, i, j]))

    absolute = pb.fold(B, pb.build((B + 1, 4, 4), lambda b, i, j: pb.where((b == 0) & (i == j), 1.0, 0.0)), place)
    inverse = model.inverse_base_absolutes
    return pb.build((B, 3, 4), lambda b, i, j: product(absolute[b + 1], inverse[b], i, j))


def held(rotation, position, bends, model, shares, corners):
    """Where the model has Σ k: shares[k] × vertex corners[k]; a vertex is a weighted mean of bones' doings."""
    transforms, B, whole = bone_transforms(bends, model), model.parents.shape[0], turn(rotation)

    def at_rest(b, j):
        return sum(s * model.weights[v, b] * model.base_positions[v, j] for s, v in zip(shares, corners))

    rest = pb.build((B, 4), at_rest)
    bent = pb.build(3, lambda i: pb.sum_over((B, 4), lambda b, j: transforms[b, i, j] * rest[b, j]))
    seen = pb.build(3, lambda i: pb.where(i == 0, model.mirror, 1.0) * bent[i])
    return position + whole @ seen


@pb.function
def on_triangle(
    u: Float64[Array, "2"],
    rotation: Float64[Array, "3"],
    position: Float64[Array, "3"],
    bends: Float64[Array, "20"],
    model: Model,
    at: Int64[Array, ""],
    point: Float64[Array, "3"],
):
    """From where triangle `at` of the model has (u, 1 − Σ u) to the point."""
    corners = [model.triangles[at, k] for k in range(3)]
    return point - held(rotation, position, bends, model, (u[0], u[1], 1 - u[0] - u[1]), corners)


@pb.function
def on_vertex(
    rotation: Float64[Array, "3"],
    position: Float64[Array, "3"],
    bends: Float64[Array, "20"],
    model: Model,
    at: Int64[Array, ""],
    point: Float64[Array, "3"],
):
    """From where the model has vertex `at` to the point."""
    return point - held(rotation, position, bends, model, (1.0,), [at])


def pose(theta):
    """A pose's rotation, position and bends of the fingers."""
    return theta[:3], theta[3:6], theta[6:]


PARTS = ("rotation", "position", "bends")


@pb.function
def complicated(
    us: Float64[Array, "C 2"],
    theta: Float64[Array, "26"],
    model: Model,
    at: Int64[Array, "C"],
    points: Float64[Array, "C 3"],
):
    """The distances for points on triangles."""
    return pb.vmap(on_triangle, in_axes=(0, None, None, None, None, 0, 0))(us, *pose(theta), model, at, points)


@pb.function
def simple(theta: Float64[Array, "26"], model: Model, at: Int64[Array, "C"], points: Float64[Array, "C 3"]):
    """The distances for points on vertices."""
    return pb.vmap(on_vertex, in_axes=(None, None, None, None, 0, 0))(*pose(theta), model, at, points)


@pb.function
def complicated_jacobian(
    us: Float64[Array, "C 2"],
    theta: Float64[Array, "26"],
    model: Model,
    at: Int64[Array, "C"],
    points: Float64[Array, "C 3"],
):
    """For each distance the derivative by its own u, then by theta: (C, 3, 2 + 26)."""
    blocks = pb.vmap(pb.jacobian(on_triangle, wrt=("u", *PARTS), mode="forward"), (0, None, None, None, None, 0, 0))
    return pb.concat(blocks(us, *pose(theta), model, at, points), axis=2)


@pb.function
def simple_jacobian(theta: Float64[Array, "26"], model: Model, at: Int64[Array, "C"], points: Float64[Array, "C 3"]):
    """For each distance the derivative by theta: (C, 3, 26)."""
    blocks = pb.vmap(pb.jacobian(on_vertex, wrt=PARTS, mode="forward"), (None, None, None, None, 0, 0))
    return pb.concat(blocks(*pose(theta), model, at, points), axis=2)


def main() -> None:
    random = np.random.default_rng(0)
    B, V, C = 22, 50, 4
    at_rest = np.tile(np.eye(4), (B, 1, 1))
    parents = np.array([-1] + [0 if b % 4 == 1 else b - 1 for b in range(1, B)])
    positions = np.concatenate([random.normal(size=(V, 3)), np.ones((V, 1))], axis=1)
    weights = random.dirichlet(np.ones(B), V)
    model = Model(parents, at_rest, at_rest, positions, weights, random.integers(0, V, (30, 3)), 1.0)
    theta, us, at = random.normal(size=26), random.random((C, 2)), random.integers(0, 30, C)
    points = random.normal(size=(C, 3))
    print("distances", complicated(us, theta, model, at, points).round(3).tolist())
    print("Jacobian", complicated_jacobian(us, theta, model, at, points).shape)
    print("Jacobian", simple_jacobian(theta, model, at, points).shape)


if __name__ == "__main__":
    main()
