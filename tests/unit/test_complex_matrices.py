"""Linear algebra of complex matrices against NumPy, and its derivatives against differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import linalg
from pullback.testing import check_grads

pytestmark = pytest.mark.slow

R = np.random.default_rng(0)


def noise(*shape: int) -> np.ndarray[Any, Any]:
    return R.normal(size=shape) + 1j * R.normal(size=shape)


A, B, S, TALL, V = noise(4, 4), noise(4, 2), noise(3, 4, 4), noise(5, 3), noise(4)
H = A + A.conj().T
L = np.linalg
CASES: dict[str, tuple[Callable[..., Any], Any, tuple[Any, ...]]] = {
    "solve a vector": (lambda a, b: pb.linalg.solve(a, b), L.solve(A, V), (A, V)),
    "solve a matrix": (lambda a, b: pb.linalg.solve(a, b), L.solve(A, B), (A, B)),
    "solve a real system": (lambda a, b: pb.linalg.solve(a, b), L.solve(A.real, B), (A.real, B)),
    "inv": (lambda a: pb.linalg.inv(a), L.inv(S), (S,)),
    "det": (lambda a: pb.linalg.det(a), L.det(S), (S,)),
    "sign of the determinant": (lambda a: pb.linalg.slogdet(a)[0], L.slogdet(A)[0], (A,)),
    "size of the determinant": (lambda a: pb.linalg.slogdet(a)[1], L.slogdet(A)[1], (A,)),
    "det of nothing": (lambda a: pb.linalg.det(a), np.complex128(0), (np.zeros((2, 2), complex),)),
    "pinv": (lambda a: pb.linalg.pinv(a), L.pinv(TALL), (TALL,)),
    "svdvals": (lambda a: pb.linalg.svdvals(a), L.svd(TALL)[1], (TALL,)),
    "eigvalsh": (lambda a: pb.linalg.eigvalsh(a), L.eigvalsh(H), (H,)),
    "matrix_rank": (lambda a: pb.linalg.matrix_rank(a), np.int64(3), (TALL,)),
    "matrix_power": (lambda a: pb.linalg.matrix_power(a, -3), L.matrix_power(A, -3), (A,)),
    "expm of turns": (lambda a: pb.linalg.expm(a), np.diag(np.exp(1j * np.arange(3))), (np.diag(1j * np.arange(3)),)),
    "norm 2": (lambda a: pb.linalg.matrix_norm(a, ord=2), L.norm(A, 2), (A,)),
    "norm fro": (lambda a: pb.linalg.matrix_norm(a), L.norm(A), (A,)),
    "norm 1": (lambda a: pb.linalg.matrix_norm(a, ord=1), L.norm(A, 1), (A,)),
    "vector_norm": (lambda a: pb.linalg.vector_norm(a), L.norm(V), (V,)),
    "cross": (lambda a, b: pb.linalg.cross(a, b), np.cross(V[:3], V[1:]), (V[:3], V[1:])),
    "prod": (lambda a: pb.prod(a, axis=0, keepdims=True), np.prod(A, axis=0, keepdims=True), (A,)),
    "prod of all": (lambda a: pb.prod(a), np.prod(A), (A,)),
    "cumulative_prod": (lambda a: pb.cumulative_prod(a, axis=1), np.cumprod(A, axis=1), (A,)),
    "sum in double": (lambda a: pb.sum(a, dtype="complex128"), np.sum(A.real) + 0j, (A.real,)),
    "any": (lambda a: pb.any(a), np.bool_(True), (A,)),
    "all numbers": (lambda a: pb.all(a, axis=0), np.array([True, False]), (np.array([[1.0, 0], [2, 3]]),)),
    "count_nonzero": (lambda a: pb.count_nonzero(a), np.int64(2), (np.array([0, 1j, 2]),)),
    "meshgrid": (lambda a, b: pb.meshgrid(a, b)[1], np.meshgrid(V, V * 2)[1], (V, V * 2)),
    "repeat each": (lambda a: pb.repeat(a, [1, 0, 2, 3], axis=1), np.repeat(A, [1, 0, 2, 3], axis=1), (A,)),
    "a list": (lambda: pb.asarray([[1.0, 2j], [3, 4]]), np.array([[1.0, 2j], [3, 4]]), ()),
    "a list of bools and integers": (lambda: pb.asarray([[1, False], [3, 4]]), np.array([[1, 0], [3, 4]]), ()),
    "an empty list": (lambda: pb.asarray([[], []]), np.zeros((2, 0)), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_as_numpy(name: str) -> None:
    f, expected, given = CASES[name]
    g = pb.function(f)
    for found in (g(*given), g.interpret(*given)):
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f", [
    lambda a: abs(pb.linalg.det(a)), lambda a: pb.linalg.slogdet(a)[1], lambda a: pb.sum(abs(pb.linalg.inv(a)) ** 2),
    lambda a: pb.sum(abs(pb.linalg.solve(a, V))), lambda a: pb.real(pb.prod(a[0])),
])  # fmt: skip
def test_gradients(f: Callable[..., Any]) -> None:
    g = pb.function(f)
    found = pb.grad(g)(A)
    numerical = np.zeros_like(A)
    for k in range(A.size):
        for unit in (1, 1j):
            e = np.zeros(A.size, complex)
            e[k] = unit * 1e-6
            numerical.flat[k] += unit * (g(A + e.reshape(4, 4)) - g(A - e.reshape(4, 4))) / 2e-6
    np.testing.assert_allclose(found, numerical, rtol=1e-6, atol=1e-7)


def projector(u: Any) -> Any:
    return u @ pb.conj(u).mT


def vectors_of_singular_values(a: Any) -> Any:
    """What of them does not depend on their phases, nor on the choice of a basis."""
    u, s, v = linalg.svd(a)
    return projector(u[:, :1]), projector(u[:, 2:]), s, u[:, :1] @ v[:1], projector(v.mT)


@pytest.mark.parametrize("f", [
    lambda a, t: (linalg.cholesky(a @ pb.conj(a).mT), linalg.qr(t), projector(linalg.qr(t, mode="complete").Q[:, 2:])),
    lambda a, t: (linalg.eigh(a @ pb.conj(a).mT), vectors_of_singular_values(t), linalg.pinv(t)),
    lambda a, t: (linalg.lstsq(t, t[:, 0] ** 2), linalg.slogdet(a), linalg.det(a), linalg.inv(a)),
    lambda a, t: (linalg.solve(a, pb.real(a) * 2.0 + 1.0), linalg.solve_triangular(a, a, lower=True, trans=1)),
    lambda a, t: (linalg.solve(pb.real(a), a[:, 0]), linalg.matrix_norm(t, ord="nuc")),
    lambda a, t: (linalg.qr(pb.real(t)[:3], mode="complete"), linalg.svd(pb.real(t)[:3]).U),
], ids=["cholesky, qr", "eigh, svd", "elimination", "systems", "norms", "real bases"])  # fmt: skip
def test_derivatives(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    check_grads(pb.function(f), (A[:3, :3], TALL[:4, :2]), order=1, elements=3)
