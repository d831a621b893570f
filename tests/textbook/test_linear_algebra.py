"""Linear algebra from the textbook, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from tests.textbook.harness import Algorithm, check

RNG = np.random.default_rng(1)


def matrix(n: int) -> Any:
    """A matrix whose diagonal dominates."""
    return RNG.uniform(-1, 1, (n, n)) + n * np.eye(n)


def symmetric(n: int) -> Any:
    a = RNG.uniform(-1, 1, (n, n))
    return a @ a.T + n * np.eye(n)


def vector(n: int) -> Any:
    return RNG.uniform(0.5, 1.5, n)


def put(x: Any, i: Any, value: Any) -> Any:
    """The vector with one element changed."""
    return pb.build(x.shape[0], lambda k: pb.where(k == i, value, x[k]))


def forward_substitution(a: Any, b: Any) -> Any:
    n = b.shape[0]

    def row(x: Any, i: Any) -> Any:
        known = pb.sum_over(n, lambda j: pb.where(j < i, a[i, j] * x[j], 0.0))
        return put(x, i, (b[i] - known) / a[i, i])

    return pb.fold(n, pb.zeros(n), row)


def plain_forward_substitution(a: Any, b: Any) -> Any:
    x = np.zeros_like(b)
    for i in range(len(b)):
        x[i] = (b[i] - a[i, :i] @ x[:i]) / a[i, i]
    return x


def back_substitution(a: Any, b: Any) -> Any:
    n = b.shape[0]

    def row(x: Any, t: Any) -> Any:
        i = n - 1 - t
        known = pb.sum_over(n, lambda j: pb.where(j > i, a[i, j] * x[j], 0.0))
        return put(x, i, (b[i] - known) / a[i, i])

    return pb.fold(n, b * 0.0, row)


def plain_back_substitution(a: Any, b: Any) -> Any:
    x = np.zeros_like(b)
    for i in reversed(range(len(b))):
        x[i] = (b[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return x


def lu(a: Any) -> Any:
    """Both factors in one matrix."""
    n = a.shape[0]

    def column(a: Any, k: Any) -> Any:
        def element(i: Any, j: Any) -> Any:
            factor = a[i, k] / a[k, k]
            right = pb.where(j > k, a[i, j] - factor * a[k, j], a[i, j])
            return pb.where(i > k, pb.where(j == k, factor, right), a[i, j])

        return pb.build((n, n), element)

    return pb.fold(n, a, column)


def plain_lu(a: Any) -> Any:
    a = a.copy()
    for k in range(len(a)):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a


def cholesky(a: Any) -> Any:
    n = a.shape[0]

    def column(l: Any, j: Any) -> Any:
        rest = lambda i: a[i, j] - pb.sum_over(n, lambda k: pb.where(k < j, l[i, k] * l[j, k], 0.0))
        diagonal = pb.sqrt(rest(j))
        new = lambda i: pb.where(i == j, diagonal, pb.where(i > j, rest(i) / diagonal, 0.0))
        return pb.build((n, n), lambda i, k: pb.where(k == j, new(i), l[i, k]))

    return pb.fold(n, pb.zeros((n, n)), column)


def plain_cholesky(a: Any) -> Any:
    l = np.zeros_like(a)
    for j in range(len(a)):
        for i in range(j, len(a)):
            rest = a[i, j] - l[i, :j] @ l[j, :j]
            l[i, j] = np.sqrt(rest) if i == j else rest / l[j, j]
    return l


def gram_schmidt(a: Any) -> Any:
    """The modified one."""
    rows, columns = a.shape

    def column(q: Any, k: Any) -> Any:
        length = pb.sqrt(pb.sum_over(rows, lambda i: q[i, k] ** 2))
        along = pb.build(columns, lambda j: pb.sum_over(rows, lambda i: q[i, k] * q[i, j]) / length)
        unit = pb.build(rows, lambda i: q[i, k] / length)
        changed = lambda i, j: pb.where(j == k, unit[i], q[i, j] - along[j] * unit[i])
        return pb.build((rows, columns), lambda i, j: pb.where(j < k, q[i, j], changed(i, j)))

    return pb.fold(columns, a, column)


def plain_gram_schmidt(a: Any) -> Any:
    q = a.copy()
    for k in range(q.shape[1]):
        q[:, k] /= np.sqrt(q[:, k] @ q[:, k])
        for j in range(k + 1, q.shape[1]):
            q[:, j] -= (q[:, k] @ q[:, j]) * q[:, k]
    return q


def householder(a: Any) -> Any:
    """The triangular factor, its diagonal negative."""
    m, n = a.shape

    def column(r: Any, k: Any) -> Any:
        length = pb.sqrt(pb.sum_over(m, lambda i: pb.where(i >= k, r[i, k] ** 2, 0.0)))
        v = pb.build(m, lambda i: pb.where(i < k, 0.0, pb.where(i == k, r[i, k] + length, r[i, k])))
        vv = pb.sum(v * v)
        along = pb.build(n, lambda j: pb.sum_over(m, lambda i: v[i] * r[i, j]))
        return pb.build((m, n), lambda i, j: r[i, j] - 2.0 * v[i] * along[j] / vv)

    return pb.fold(n, a, column)


def plain_householder(a: Any) -> Any:
    r = a.copy()
    for k in range(r.shape[1]):
        v = np.zeros_like(r[:, k])
        v[k:] = r[k:, k]
        v[k] += np.sqrt(v @ v)
        r = r - 2 * np.outer(v, v @ r) / (v @ v)
    return r


def jacobi(a: Any, b: Any) -> Any:
    n = b.shape[0]
    new = lambda x, i: (b[i] - pb.sum_over(n, lambda j: pb.where(j == i, 0.0, a[i, j] * x[j]))) / a[i, i]
    return pb.fold(10, pb.zeros_like(b), lambda x, _: pb.build(n, lambda i: new(x, i)))


def plain_jacobi(a: Any, b: Any) -> Any:
    x = np.zeros_like(b)
    for _ in range(10):
        x = (b - a @ x + np.diag(a) * x) / np.diag(a)
    return x


def gauss_seidel(a: Any, b: Any) -> Any:
    n = b.shape[0]

    def row(x: Any, i: Any) -> Any:
        others = pb.sum_over(n, lambda j: pb.where(j == i, 0.0, a[i, j] * x[j]))
        return put(x, i, (b[i] - others) / a[i, i])

    return pb.fold(4, pb.zeros_like(b), lambda x, _: pb.fold(n, x, row))


def plain_gauss_seidel(a: Any, b: Any) -> Any:
    x = np.zeros_like(b)
    for _ in range(4):
        for i in range(len(b)):
            x[i] = (b[i] - a[i] @ x + a[i, i] * x[i]) / a[i, i]
    return x


def relaxed(a: Any, b: Any, omega: Any) -> Any:
    """Successive over-relaxation."""
    n = b.shape[0]

    def row(x: Any, i: Any) -> Any:
        residual = b[i] - pb.sum_over(n, lambda j: a[i, j] * x[j])
        return pb.build(n, lambda k: x[k] + pb.where(k == i, omega * residual / a[i, i], 0.0))

    return pb.fold(4, pb.zeros_like(b), lambda x, _: pb.fold(n, x, row))


def plain_relaxed(a: Any, b: Any, omega: Any) -> Any:
    x = np.zeros_like(b)
    for _ in range(4):
        for i in range(len(b)):
            x[i] += omega * (b[i] - a[i] @ x) / a[i, i]
    return x


def conjugate_gradients(a: Any, b: Any) -> Any:
    def step(state: Any, _: Any) -> Any:
        x, r, p, rr = state
        ap = a @ p
        alpha = rr / pb.sum(p * ap)
        new = r - alpha * ap
        rr_new = pb.sum(new * new)
        return x + alpha * p, new, new + rr_new / rr * p, rr_new

    return pb.fold(5, (b * 0.0, b, b, pb.sum(b * b)), step)[0]


def plain_conjugate_gradients(a: Any, b: Any) -> Any:
    x, r, p = 0 * b, b.copy(), b.copy()
    for _ in range(5):
        alpha = r @ r / (p @ a @ p)
        x = x + alpha * p
        new = r - alpha * a @ p
        p = new + new @ new / (r @ r) * p
        r = new
    return x


def power_iteration(a: Any, start: Any) -> Any:
    def step(x: Any, _: Any) -> Any:
        y = a @ x
        return y / pb.sqrt(pb.sum(y * y))

    x = pb.fold(12, start, step)
    return pb.sum(x * (a @ x)), x


def plain_power_iteration(a: Any, start: Any) -> Any:
    x = start
    for _ in range(12):
        x = a @ x
        x = x / np.sqrt(x @ x)
    return x @ a @ x, x


def thomas(lower: Any, diagonal: Any, upper: Any, b: Any) -> Any:
    """A tridiagonal system: a scan down and a scan up."""
    n = b.shape[0]

    def down(state: Any, i: Any) -> Any:
        c, d = state
        pivot = diagonal[i] - lower[i] * c
        new = upper[i] / pivot, (b[i] - lower[i] * d) / pivot
        return new, new

    _, (c, d) = pb.scan(n, (0.0, 0.0), down)

    def up(x: Any, t: Any) -> Any:
        new = d[n - 1 - t] - c[n - 1 - t] * x
        return new, new

    return pb.flip(pb.scan(n, 0.0, up)[1])


def plain_thomas(lower: Any, diagonal: Any, upper: Any, b: Any) -> Any:
    n = len(b)
    c, d, x = np.zeros_like(b), np.zeros_like(b), np.zeros_like(b)
    for i in range(n):
        pivot = diagonal[i] - (lower[i] * c[i - 1] if i else 0)
        c[i] = upper[i] / pivot
        d[i] = (b[i] - (lower[i] * d[i - 1] if i else 0)) / pivot
    for i in reversed(range(n)):
        x[i] = d[i] - (c[i] * x[i + 1] if i + 1 < n else 0)
    return x


def gauss_jordan(a: Any) -> Any:
    """The inverse, in a matrix of twice as many columns."""
    n = a.shape[0]
    wide = pb.build((n, 2 * n), lambda i, j: pb.where(j < n, a.at(i, j), pb.where(j == n + i, 1.0, 0.0)))

    def column(m: Any, k: Any) -> Any:
        row = pb.build(2 * n, lambda j: m[k, j] / m[k, k])
        return pb.build((n, 2 * n), lambda i, j: pb.where(i == k, row[j], m[i, j] - m[i, k] * row[j]))

    return pb.fold(n, wide, column)[:, n:]


def plain_gauss_jordan(a: Any) -> Any:
    n = len(a)
    m = np.concatenate([a, np.eye(n, dtype=a.dtype)], 1)
    for k in range(n):
        m[k] /= m[k, k]
        for i in range(n):
            if i != k:
                m[i] -= m[i, k] * m[k]
    return m[:, n:]


def levinson(r: Any, y: Any) -> Any:
    """A Toeplitz system by Levinson and Durbin: prediction coefficients, and the solution."""
    n = y.shape[0]

    def order(state: Any, k: Any) -> Any:
        a, x, error = state
        back = pb.sum_over(n, lambda j: pb.where(j < k, a[j] * r.at(k - j), 0.0))
        reflection = -(r.at(k + 1) + back) / error
        grown = pb.build(
            n, lambda j: pb.where(j < k, a[j] + reflection * a.at(k - 1 - j), pb.where(j == k, reflection, 0.0))
        )
        missing = y[k] - pb.sum_over(n, lambda j: pb.where(j < k, x[j] * r.at(k - j), 0.0))
        factor = missing / error
        solved = pb.build(n, lambda j: pb.where(j < k, x[j] + factor * a.at(k - 1 - j), pb.where(j == k, factor, 0.0)))
        return grown, solved, error * (1.0 - reflection * reflection)

    a, x, error = pb.fold(n, (pb.zeros(n), pb.zeros(n), r[0]), order)
    return x, a, error


def plain_levinson(r: Any, y: Any) -> Any:
    n = len(y)
    r = np.append(r, [0])
    a, x, error = np.zeros(0, r.dtype), np.zeros(0, r.dtype), r[0]
    for k in range(n):
        factor = (y[k] - x @ r[k:0:-1]) / error
        x = np.append(x + factor * a[::-1], factor)
        reflection = -(r[k + 1] + a @ r[k:0:-1]) / error
        a = np.append(a + reflection * a[::-1], reflection)
        error = error * (1 - reflection * reflection)
    return x, a, error


def jacobi_rotations(a: Any) -> Any:
    """A sweep of rotations, each of which takes an element off the diagonal away."""
    n = a.shape[0]

    def rotate(a: Any, p: Any, q: Any) -> Any:
        theta = 0.5 * pb.atan2(2.0 * a[p, q], a[q, q] - a[p, p])
        c, s = pb.cos(theta), pb.sin(theta)
        rows = pb.build((n, n), lambda i, j: pb.where(
            i == p, c * a[p, j] - s * a[q, j], pb.where(i == q, s * a[p, j] + c * a[q, j], a[i, j])))
        return pb.build((n, n), lambda i, j: pb.where(
            j == p, c * rows[i, p] - s * rows[i, q], pb.where(j == q, s * rows[i, p] + c * rows[i, q], rows[i, j])))

    for p in range(n):
        for q in range(p + 1, n):
            a = rotate(a, p, q)
    return pb.build(n, lambda i: a[i, i])


def plain_jacobi_rotations(a: Any) -> Any:
    n = len(a)
    for p in range(n):
        for q in range(p + 1, n):
            theta = np.arctan2(2 * a[p, q], a[q, q] - a[p, p]) / 2
            turn = np.eye(n, dtype=a.dtype)
            turn[p, p] = turn[q, q] = np.cos(theta)
            turn[p, q], turn[q, p] = -np.sin(theta), np.sin(theta)
            a = turn @ a @ turn.T
    return np.diag(a)


def determinant(a: Any) -> Any:
    """The determinant by elimination with the largest pivot."""
    n = a.shape[0]

    def column(state: Any, k: Any) -> Any:
        a, det = state
        p = pb.argmax_over(n, lambda i: pb.where(i >= k, pb.abs(a[i, k]), -1.0))
        swapped = pb.build((n, n), lambda i, j: pb.where(i == k, a[p, j], pb.where(p == i, a[k, j], a[i, j])))
        sign = pb.where(p == k, 1.0, -1.0)
        left = lambda i, j: swapped[i, j] - swapped[i, k] / swapped[k, k] * swapped[k, j]
        return pb.build((n, n), lambda i, j: pb.where(i > k, left(i, j), swapped[i, j])), det * sign * swapped[k, k]

    return pb.fold(n, (a, 1.0), column)[1]


def plain_determinant(a: Any) -> Any:
    a, det = a.copy(), np.longdouble(1)
    for k in range(len(a)):
        p = k + int(np.argmax(np.abs(a[k:, k])))
        a[[k, p]] = a[[p, k]]
        det = det * a[k, k] * (1 if p == k else -1)
        a[k + 1 :] -= np.outer(a[k + 1 :, k] / a[k, k], a[k])
    return det


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 33])
def test_substitution_and_factors(n: int) -> None:
    a, s, b = matrix(n), symmetric(n), vector(n)
    check(
        Algorithm(forward_substitution, plain_forward_substitution, (a, b)),
        Algorithm(back_substitution, plain_back_substitution, (a, b)),
        Algorithm(lu, plain_lu, (a,)),
        Algorithm(cholesky, plain_cholesky, (s,)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("n", [33])
def test_orthogonal_factors(n: int) -> None:
    check(
        Algorithm(gram_schmidt, plain_gram_schmidt, (RNG.uniform(-1, 1, (n + 3, n)) + 2 * np.eye(n + 3, n),)),
        Algorithm(householder, plain_householder, (RNG.uniform(-1, 1, (n + 3, n)) + 2 * np.eye(n + 3, n),)),
        Algorithm(gauss_jordan, plain_gauss_jordan, (matrix(n),)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("n", [37])
def test_iterations(n: int) -> None:
    a, s, b = matrix(n), symmetric(n), vector(n)
    check(
        Algorithm(jacobi, plain_jacobi, (a, b)),
        Algorithm(gauss_seidel, plain_gauss_seidel, (a, b)),
        Algorithm(relaxed, plain_relaxed, (a, b, 1.2)),
        Algorithm(conjugate_gradients, plain_conjugate_gradients, (s, b)),
        Algorithm(power_iteration, plain_power_iteration, (s, b)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("n", [6, 39])
def test_structured_systems(n: int) -> None:
    r = np.append(3.0, RNG.uniform(-0.5, 0.5, n - 1) / np.arange(1, n))
    check(
        Algorithm(thomas, plain_thomas, (vector(n), vector(n) + 3, vector(n), vector(n))),
        Algorithm(levinson, plain_levinson, (r, vector(n))),
        Algorithm(determinant, plain_determinant, (RNG.uniform(-1, 1, (n, n)) / 2,)),
    )


@pytest.mark.slow
def test_rotations() -> None:
    check(Algorithm(jacobi_rotations, plain_jacobi_rotations, (symmetric(4),)))
