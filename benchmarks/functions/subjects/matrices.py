"""Linear algebra."""

from __future__ import annotations

import math
from typing import Any

import pullback as pb
from benchmarks.functions.cases import between, case, symmetric, well_conditioned

SMALL = (3, 34)


@case("jax.numpy.linalg.inv", well_conditioned(), sizes=SMALL)
def inv(a: Any) -> Any:
    return pb.linalg.inv(a)


@case("jax.numpy.linalg.det", well_conditioned(), sizes=(3, 9))
def det(a: Any) -> Any:
    return pb.linalg.det(a)


@case("jax.numpy.linalg.slogdet", well_conditioned(), sizes=SMALL, note="the logarithm alone")
def slogdet(a: Any) -> Any:
    return pb.linalg.slogdet(a)[1]


@case("jax.numpy.linalg.solve", well_conditioned(), between(-1.0, 1.0, "n 2"), sizes=SMALL)
def solve(a: Any, b: Any) -> Any:
    return pb.linalg.solve(a, b)


@case("jax.numpy.linalg.cholesky", symmetric(), sizes=SMALL, note="of the symmetric part, as JAX", tolerance=1e-9)
def cholesky(a: Any) -> Any:
    return pb.linalg.cholesky((a + pb.matrix_transpose(a)) / 2)


@case("jax.numpy.linalg.qr", well_conditioned("n+2 n"), sizes=SMALL, note="R with a positive diagonal", tolerance=1e-9)
def qr(a: Any) -> Any:
    r = pb.linalg.qr(a)[1]
    return r * pb.expand_dims(pb.sign(pb.diagonal(r)), axis=1)


@case("jax.numpy.linalg.lstsq", well_conditioned("n+2 n"), between(-1.0, 1.0, "n+2"), sizes=SMALL, tolerance=1e-9)
def lstsq(a: Any, b: Any) -> Any:
    transposed = pb.matrix_transpose(a)
    return pb.linalg.solve(transposed @ a, transposed @ b)


@case("jax.numpy.linalg.pinv", well_conditioned("n+2 n"), sizes=SMALL, lacking=True, tolerance=1e-9)
def pinv(a: Any) -> Any:
    transposed = pb.matrix_transpose(a)
    return pb.linalg.inv(transposed @ a) @ transposed


@case("jax.numpy.linalg.matrix_power", well_conditioned(), sizes=(3, 33), note="n = 5")
def matrix_power(a: Any) -> Any:
    return pb.fold(4, a, lambda p, i: p @ a)


@case("scipy.linalg.expm", between(-0.5, 0.5, "n n"), sizes=(3, 8), lacking=True, tolerance=1e-9)
def expm(a: Any) -> Any:
    # Taylor's series of a / 16, squared four times
    b, one = a / 16, pb.eye(a.shape[0])
    sum_ = pb.fold(18, one, lambda s, i: one + b @ s / (18.0 - i))
    return pb.fold(4, sum_, lambda s, i: s @ s)


@case("scipy.linalg.sqrtm", symmetric(), sizes=(3, 6), lacking=True, tolerance=1e-9)
def sqrtm(a: Any) -> Any:
    def step(state: Any, i: Any) -> Any:  # Denman and Beavers
        y, z = state
        return (y + pb.linalg.inv(z)) / 2, (z + pb.linalg.inv(y)) / 2

    return pb.fold(9, (a, pb.eye(a.shape[0])), step)[0]


@case("scipy.linalg.solve_triangular", well_conditioned(), between(-1.0, 1.0), sizes=SMALL)
def solve_triangular(a: Any, b: Any) -> Any:
    return pb.linalg.solve_triangular(a, b, lower=True)


@case("scipy.linalg.cho_solve", symmetric(), between(-1.0, 1.0), sizes=SMALL)
def cho_solve(a: Any, b: Any) -> Any:
    factor = pb.linalg.cholesky((a + pb.matrix_transpose(a)) / 2)
    return pb.linalg.solve(pb.matrix_transpose(factor), pb.linalg.solve(factor, b))


@case(
    "scipy.linalg.solve_toeplitz",
    between(0.1, 0.4, "n"),
    between(-1.0, 1.0),
    lacking=True,
    tolerance=1e-9,
    sizes=(4, 33),
    note="the column's first element is raised",
)
def solve_toeplitz(c: Any, b: Any) -> Any:
    # Levinson: solutions of the leading systems, one row more at a time; the matrix is symmetric
    n = b.shape[0]
    t = pb.build(n, lambda i: pb.where(i == 0, c[i] + 6.0, c[i]))

    def step(state: Any, m: Any) -> Any:
        y, x = state  # T y = e_0 scaled so that y[0] = 1 gives, reversed, the vector that adds a row
        k = m + 1
        error = pb.sum_over(n, lambda j: pb.where(j < k, t.at(k - j) * y[j], 0.0))
        size = pb.sum_over(n, lambda j: pb.where(j < k, t[j] * y[j], 0.0))
        share = error / size
        y = pb.build(n, lambda j: pb.where(j <= k, y[j] - share * y.at(k - j), 0.0))
        size = pb.sum_over(n, lambda j: pb.where(j <= k, t[j] * y[j], 0.0))
        miss = b.at(k) - pb.sum_over(n, lambda j: pb.where(j < k, t.at(k - j) * x[j], 0.0))
        return y, pb.build(n, lambda j: pb.where(j <= k, x[j] + miss / size * y.at(k - j), 0.0))

    first = pb.build(n, lambda j: pb.where(j == 0, 1.0, 0.0))
    return pb.fold(n - 1, (first, first * b[0] / t[0]), step)[1]


@case(
    "scipy.linalg.solve_sylvester",
    well_conditioned("3 3"),
    well_conditioned("2 2"),
    between(-1.0, 1.0, "3 2"),
    sizes=(3,),
    lacking=True,
)
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    whole = pb.build((3, 2, 3, 2), lambda i, j, k, l: pb.where(j == l, a[i, k], 0.0) + pb.where(i == k, b[l, j], 0.0))
    return pb.reshape(pb.linalg.solve(pb.reshape(whole, (6, 6)), pb.reshape(q, (6,))), (3, 2))


@case("jax.numpy.linalg.eigvalsh", symmetric("4 4"), sizes=(4,), lacking=True, tolerance=1e-8, note="ascending")
def eigvalsh(a: Any) -> Any:
    # Jacobi: rotate each pair of axes until nothing is left beside the diagonal
    pairs = [(p, q) for p in range(4) for q in range(p + 1, 4)]
    a = (a + pb.matrix_transpose(a)) / 2

    def rotate(a: Any, p: int, q: int) -> Any:
        theta = 0.5 * pb.atan2(2 * a[p, q], a[q, q] - a[p, p])
        c, s = pb.cos(theta), pb.sin(theta)
        r = pb.build(
            (4, 4),
            lambda i, j: pb.where(
                i == j,
                pb.where((i == p) | (i == q), c, 1.0),
                pb.where((i == p) & (j == q), s, pb.where((i == q) & (j == p), -s, 0.0)),
            ),
        )
        return pb.matrix_transpose(r) @ a @ r

    def sweep(a: Any, i: Any) -> Any:
        for p, q in pairs:
            a = rotate(a, p, q)
        return a

    d = pb.diagonal(pb.fold(6, a, sweep))
    place = pb.build(4, lambda i: pb.sum_over(4, lambda j: (d[j] < d[i]).astype(pb.int64)))
    return pb.build(4, lambda k: pb.sum_over(4, lambda i: pb.where(place[i] == k, d[i], 0.0)))


@case(
    "jax.numpy.linalg.svd",
    well_conditioned("3 2"),
    sizes=(3,),
    lacking=True,
    tolerance=1e-9,
    note="singular values of 3 by 2",
)
def svdvals(a: Any) -> Any:
    g = pb.matrix_transpose(a) @ a
    half, root = (g[0, 0] + g[1, 1]) / 2, pb.hypot((g[0, 0] - g[1, 1]) / 2, g[0, 1])
    return pb.sqrt(pb.stack([half + root, half - root]))


@case("jax.numpy.linalg.norm", between(-1.0, 1.0, "n n+1"), note="of the rows, order 3")
def norm(a: Any) -> Any:
    return pb.sum(pb.abs(a) ** 3, axis=1) ** (1 / 3)


@case("scipy.linalg.toeplitz", between(-1.0, 1.0), between(-1.0, 1.0), lacking=True)
def toeplitz(c: Any, r: Any) -> Any:
    return pb.build((c.shape[0], r.shape[0]), lambda i, j: pb.where(i >= j, c.at(i - j), r.at(j - i)))


@case("scipy.linalg.circulant", between(-1.0, 1.0), lacking=True)
def circulant(c: Any) -> Any:
    n = c.shape[0]
    return pb.build((n, n), lambda i, j: c[(i - j) % n])


@case("scipy.linalg.block_diag", between(-1.0, 1.0, "n 2"), between(-1.0, 1.0, "3 n"), lacking=True)
def block_diag(a: Any, b: Any) -> Any:
    (n, m), (k, l) = a.shape, b.shape
    return pb.build((n + k, m + l), lambda i, j: a.at(i, j) + b.at(i - n, j - m))


@case("jax.numpy.kron", between(-1.0, 1.0, "3 2"), between(-1.0, 1.0, "2 n"), lacking=True)
def kron(a: Any, b: Any) -> Any:
    (n, m), (k, l) = a.shape, b.shape
    return pb.build((n * k, m * l), lambda i, j: a[i // k, j // l] * b[i % k, j % l])


@case("jax.numpy.vander", between(0.5, 1.5), lacking=True, note="5 columns")
def vander(x: Any) -> Any:
    return pb.build((x.shape[0], 5), lambda i, j: x[i] ** (4 - j))


@case(
    "jax.numpy.einsum",
    between(-1.0, 1.0, "n 3"),
    between(-1.0, 1.0, "3 n"),
    between(-1.0, 1.0, "n"),
    sizes=(4, 34),
    lacking=True,
    note="ij,ji,j->i",
)
def einsum(a: Any, b: Any, c: Any) -> Any:
    return pb.build(a.shape[0], lambda i: pb.sum_over(3, lambda j: a[i, j] * b[j, i] * c[j]))


@case(
    "jax.scipy.spatial.transform.Rotation",
    between(-1.0, 1.0, "3"),
    between(-1.0, 1.0, "n 3"),
    lacking=True,
    note="from_rotvec and apply",
)
def rotate_vectors(rotvec: Any, vectors: Any) -> Any:
    # Rodrigues
    angle = pb.sqrt(pb.sum(rotvec * rotvec))
    k = rotvec / angle
    cross = pb.build(
        vectors.shape, lambda i, j: k[(j + 1) % 3] * vectors[i, (j + 2) % 3] - k[(j + 2) % 3] * vectors[i, (j + 1) % 3]
    )
    along = pb.expand_dims(vectors @ k, axis=1)
    return vectors * pb.cos(angle) + cross * pb.sin(angle) + along * k * (1 - pb.cos(angle))


@case(
    "scipy.linalg.logm",
    symmetric(),
    sizes=(3,),
    lacking=True,
    tolerance=1e-9,
    note="trace of the product with a matrix of ones",
)
def logm(a: Any) -> Any:
    # ∫ (A - 1) (t (A - 1) + 1)^-1 dt over 0 < t < 1
    import numpy as np

    nodes, weights = np.polynomial.legendre.leggauss(24)
    one = pb.eye(a.shape[0])
    b = a - one
    return sum(
        w / 2 * pb.sum(b @ pb.linalg.inv((x + 1) / 2 * b + one)) for x, w in zip(nodes.tolist(), weights.tolist())
    )


@case("scipy.linalg.dft", between(-1.0, 1.0), lacking=True, note="real and imaginary part of the transform")
def dft(x: Any) -> Any:
    n = x.shape[0]

    def part(wave: Any) -> Any:
        return pb.build(n, lambda k: pb.sum_over(n, lambda i: x[i] * wave(-2 * math.pi * ((i * k) % n) / n)))

    return pb.stack([part(pb.cos), part(pb.sin)])
