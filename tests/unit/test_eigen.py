"""Eigenvalues of general matrices: held to NumPy, and to what defines them; derivatives to differences."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import linalg
from pullback.linalg import multishift
from pullback.testing import check_grads

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(11)


def noise(*shape: int) -> Any:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


@pb.function
def spectrum(a):
    return linalg.eig(a)


@pb.function
def values(a):
    return linalg.eigvals(a)


def check(a: Any, found: Any, units: float = 100) -> None:
    """The eigenvalues are NumPy's in some order; a v = v w for vectors of norm 1, their largest element positive."""
    w, v = found
    eps = np.finfo(a.dtype).eps
    assert w.dtype == v.dtype == np.result_type(a.dtype, np.complex64)
    for one, roots, vectors in zip(a.reshape(-1, *a.shape[-2:]), w.reshape(-1, len(w.T)), v.reshape(-1, *v.shape[-2:])):
        size = max(np.linalg.norm(one, 2), np.finfo(a.dtype).tiny)
        np.testing.assert_allclose(one @ vectors / size, vectors * roots / size, atol=units * eps)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1, atol=units * eps)
        peak = np.abs(vectors) >= (1 - units * eps) * np.abs(vectors).max(0)
        assert (peak & (vectors.real > 0) & (np.abs(vectors.imag) <= eps)).any(0).all()
        left = list(np.linalg.eigvals(one.astype(np.result_type(a.dtype, float))))
        for root in roots:
            nearest = int(np.argmin(np.abs(np.array(left) - root)))
            off = np.abs(left.pop(nearest) - root)
            assert off <= units * eps * size * np.linalg.cond(vectors, 2) + eps * size


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_small_matrices(n: int) -> None:
    for a in (RNG.normal(size=(n, n)), noise(n, n)):
        check(a, spectrum.interpret(a))


@pytest.mark.parametrize("a", [
    noise(2, 20, 20), RNG.normal(size=(60, 60)), RNG.normal(size=(6, 6)).astype(np.float32),
    noise(7, 7).astype(np.complex64),
], ids=lambda a: f"{a.dtype} {a.shape}")  # fmt: skip
def test_in_c(a: Any) -> None:
    check(a, spectrum(a))


def test_hard_matrices() -> None:
    """Cycles, where the usual shift leads nowhere; equal eigenvalues, without a basis; graded and tiny elements."""
    n = 6
    cycle, step, numbers = np.roll(np.eye(n), 1, 0), np.eye(n, k=1), np.arange(n)
    triangles = [2 * np.eye(n) + step, step, np.zeros((n, n)), np.triu(np.ones((n, n)))]
    others = [cycle, np.kron(cycle[:3, :3], np.eye(2)), step + step.T, np.ones((n, n)), cycle * 1e-160, cycle * 1e150]
    others += [10.0 ** (-3.0 * numbers[:, None]) * np.cos(numbers * numbers[:, None]), np.diag(numbers * 1.0)]
    many = RNG.integers(-1, 2, size=(2000, n, n)).astype(float)
    w, v = spectrum(np.concatenate([triangles, others, many]))
    t, o = len(triangles), len(triangles) + len(others)
    np.testing.assert_allclose(w[:t], np.diagonal(triangles, axis1=1, axis2=2), atol=1e-15)
    np.testing.assert_allclose(triangles @ v[:t], v[:t] * w[:t, None], atol=1e-15)
    check(np.array(others), (w[t:o], v[t:o]), 1000)
    np.testing.assert_allclose(many @ v[o:], v[o:] * w[o:, None], atol=1e-13)
    np.testing.assert_allclose(np.prod(w[o:], axis=1), np.linalg.det(many), atol=1e-11)


def large_matrices(n: int) -> dict[str, Any]:
    """Matrices of an even number of rows: cycles, no basis, equal and nearly equal values, graded, sparse and tiny."""
    random, numbers, step = np.random.default_rng(5), np.arange(n), np.eye(n, k=1)
    a, cycle, turn = random.normal(size=(n, n)), np.roll(np.eye(n), 1, 0), [[0.6, 0.8], [-0.8, 0.6]]
    basis = np.linalg.qr(a)[0]
    turns = np.kron(np.eye(n // 2), turn)
    return {
        "random": a,
        "cycle": cycle,
        "two cycles": np.kron(np.eye(2), np.roll(np.eye(n // 2), 1, 0)),
        "companion": np.eye(n, k=-1) + np.outer(np.eye(n)[0], random.normal(size=n)),
        "one block": step + 2 * np.eye(n),
        "nilpotent": step.T,
        "zero": np.zeros((n, n)),
        "diagonal": np.diag(numbers * 1.0),
        "triangle": np.triu(a),
        "rank one": np.ones((n, n)),
        "rows graded": 10.0 ** (-0.3 * numbers[:, None]) * a,
        "columns graded": a * 10.0 ** (-0.3 * numbers),
        "Hilbert": 1 / (numbers[:, None] + numbers + 1),
        "Grcar": sum(np.eye(n, k=j) for j in range(4)) - np.eye(n, k=-1),
        "Frank": np.triu(np.minimum(n - numbers[:, None], n - numbers) * 1.0, -1),
        "blocks": np.kron(np.eye(n // 4), random.normal(size=(4, 4))),
        "equal pairs": basis @ turns @ basis.T,
        "clustered": basis @ np.diag(1 + 1e-9 * numbers) @ basis.T + 1e-3 * np.triu(a, 1),
        "antisymmetric": a - a.T,
        "sparse": np.where(random.random((n, n)) < 2 / n, a, 0.0),
        "integers": random.integers(-1, 2, size=(n, n)).astype(float),
        "tiny": a * 1e-170,
        "huge": a * 1e150,
    }


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_large_matrices(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains of three bulges in windows of sixteen rows; all stay in one program."""
    for name, value in (("LARGE", 40), ("WINDOW", 16), ("BULGES", 3), ("LENGTH", 6), ("MOVES", 6), ("FEW", 3)):
        monkeypatch.setattr(multishift, name, value)
    monkeypatch.setattr(import_module("pullback.linalg.eigen"), "BLOCK", 12)
    matrices = large_matrices(40)
    if dtype is np.float32:
        matrices = {name: matrices[name] for name in ("random", "cycle", "rank one", "Grcar", "integers")}
    a = np.array([*matrices.values()]).astype(dtype)
    w, v = (np.asarray(x) for x in pb.function(lambda a: linalg.eig(a))(a))
    check(a, (w, v), 1000)
    for roots in w:
        assert set(roots.tolist()) == set(roots.conj().tolist())


def test_a_large_matrix() -> None:
    a = RNG.normal(size=(130, 130))
    check(a, spectrum(a))
    a[1, 2] = np.nan
    assert np.isnan(values(a)).any()


def test_real_matrices_have_conjugate_pairs() -> None:
    """Exactly; and the blocks of two rows may be nearly triangular, or what is left of a matrix of rank one."""
    numbers = RNG.integers(-3, 4, size=(500, 4, 4)).astype(float)
    near = np.array([[0.0, -2, -3, -3], [-1, 2, -2, 3], [1, -1, -1, -1], [-1, -1, -2, -3]])  # -1 twice, without a basis
    for a in (np.concatenate([numbers, near[None]]), np.ones((1, 40, 40)), RNG.normal(size=(1, 101, 101))):
        w, v = (np.asarray(x) for x in spectrum(a))
        for roots in w:
            assert set(roots.tolist()) == set(roots.conj().tolist())
        size = np.linalg.norm(a, axis=(1, 2))[:, None, None] + 1e-300
        np.testing.assert_allclose(a @ v / size, v * w[:, None] / size, atol=5e-15)


def test_sizes_that_are_open() -> None:
    """One program for all sizes, of one row on."""

    @pb.function
    def of(a: Float64[pb.Array, "N N"]):
        return linalg.eig(a)

    for n in (1, 2, 3, 17):
        a = RNG.normal(size=(n, n))
        check(a, of(a))


def test_what_is_not_finite_raises_nothing() -> None:
    w, v = spectrum.interpret(np.full((2, 2), np.nan))
    assert np.isnan(w).any()
    assert np.isnan(v).any()


def test_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    pair = noise(3, 3)
    check_grads(lambda a, b: (linalg.eig(a), linalg.eig(b)), (pair.real.copy(), pair), order=1, elements=4)


def test_second_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    check_grads(values, (RNG.normal(size=(2, 2)),), ("reverse",), order=2, elements=3)


def test_the_gradient_is_the_textbooks() -> None:
    """∂w/∂a = conj(u) vᵀ / (uᴴ v) of left and right eigenvectors, here of the root of a positive matrix."""
    a = RNG.random((5, 5))
    largest = pb.function(lambda a: pb.max(pb.abs(linalg.eigvals(a))))
    w, v = np.linalg.eig(a)
    k = np.abs(w).argmax()
    u = np.linalg.inv(v)[k]
    np.testing.assert_allclose(pb.grad(largest)(a), np.outer(u, v[:, k]).real, atol=1e-12)


def test_sums_over_equal_eigenvalues_have_their_derivative() -> None:
    trace = pb.function(lambda a: pb.real(pb.sum(linalg.eigvals(a) ** 2)))
    np.testing.assert_allclose(pb.grad(trace).interpret(2 * np.eye(3)), 4 * np.eye(3), atol=1e-14)


def test_errors() -> None:
    with pytest.raises(pb.ShapeError, match="E104"):
        spectrum(np.ones((2, 3)))
    with pytest.raises(pb.DTypeError, match="E121"):
        values(np.ones((2, 2), int))
