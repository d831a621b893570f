"""Eigenvalues, singular values and functions of matrices: held to NumPy and mpmath, derivatives to differences."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from jaxtyping import Float32, Float64

import pullback as pb
from pullback import Array, linalg
from pullback.linalg import divide
from pullback.linalg.upper_hessenberg import hessenberg
from pullback.testing import check_grads

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(5)
SQUARE, TALL = RNG.normal(size=(4, 4)), RNG.normal(size=(5, 3))
SYMMETRIC = SQUARE + SQUARE.T
POSITIVE = SQUARE @ SQUARE.T + np.eye(4)
INF = np.inf


def traced(f: Callable[[Any], Any], dims: str, kind: Any = Float64) -> Any:
    def of(a):
        return f(a)

    of.__annotations__ = {"a": kind[Array, dims]}
    return pb.function(of)


def close(found: Any, wanted: Any, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n", [1, 2, 3, 6, 17])
def test_eigh(n: int) -> None:
    a = RNG.normal(size=(n, n))
    a = a + a.T
    f = traced(lambda a: linalg.eigh(a), "N N")
    for route in (f, f.interpret) if n < 6 else (f,):
        w, v = route(a)
        close(w, np.linalg.eigvalsh(a))
        close(a @ v, v * w)
        close(v.T @ v, np.eye(n))
        assert (v[np.abs(v).argmax(0), np.arange(n)] > 0).all()


@pytest.mark.parametrize("a", [np.eye(4) * 2, np.zeros((3, 3)), np.ones((5, 5)), np.diag([1e-9, 1.0, 1e9])])
def test_eigh_of_equal_and_distant_eigenvalues(a: Any) -> None:
    w, v = traced(lambda a: linalg.eigh(a), "N N")(a)
    close(w, np.linalg.eigvalsh(a))
    close(v.T @ v, np.eye(len(a)))
    close(v * w @ v.T, a)


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (7, 3), (6, 5)])
def test_svd(shape: tuple[int, int]) -> None:
    a = RNG.normal(size=shape)
    u, s, vh = traced(lambda a: tuple(linalg.svd(a, full_matrices=False)), "M N")(a)
    close(s, np.linalg.svd(a)[1])
    close(u * s @ vh, a)
    close(u.T @ u, np.eye(shape[1]))
    close(vh @ vh.T, np.eye(shape[1]))


def test_svd_of_wide_matrices_and_stacks() -> None:
    a = RNG.normal(size=(2, 3, 5))
    u, s, vh = traced(lambda a: tuple(linalg.svd(a, full_matrices=False)), "B 3 5")(a)
    close(np.einsum("bik,bk,bkj->bij", u, s, vh), a)
    w = traced(lambda a: linalg.eigvalsh(a @ a.mT), "B 3 5")(a)
    close(w, np.linalg.svd(a)[1][:, ::-1] ** 2)


def test_small_singular_values_are_accurate() -> None:
    """To their own size, where the eigenvalues of aᵀ a lose them."""
    a = np.array([[1.0, 1.0], [1e-9, 0.0], [0.0, 1e-9]])
    with mp.workdps(50):
        wanted = sorted((float(v) for v in mp.svd_r(mp.matrix(a.tolist()), compute_uv=False)), reverse=True)
    np.testing.assert_allclose(traced(linalg.svdvals, "M N")(a), wanted, rtol=1e-7)


def hard_matrices() -> dict[str, Any]:
    """Matrices on which reflections, shifts or tests for zeros could fail."""
    n, random = 20, np.random.default_rng(3)
    a, grades = random.normal(size=(n, n)), 10.0 ** -(2.0 * np.arange(n))
    basis, ones = np.linalg.qr(a)[0], np.ones(n - 1)
    bidiagonal = np.eye(n) + np.diag(ones, 1)
    for k in (0, 7, 12, n - 1):  # zeros on the diagonal decouple a bidiagonal form
        bidiagonal[k, k] = 0
    return {
        "random": a,
        "ones": np.ones((n, n)),  # what is left of it underflows, reflection by reflection
        "rank one": np.outer(a[0], a[1]),
        "rank five": a[:, :5] @ a[:5],
        "two values": basis * np.repeat([1.0, 2.0], n // 2) @ basis.T,
        "graded": a * grades * grades[:, None],
        "graded upward": (a * grades * grades[:, None])[::-1, ::-1],
        "decoupled": bidiagonal,
        "nilpotent": np.diag(ones, 1),
        "zero diagonal": np.diag(ones, 1) + np.diag(ones, -1),
        "Wilkinson": np.diag(np.abs(np.arange(n) - 9.5)) + np.diag(ones, 1) + np.diag(ones, -1),
        "Hilbert": 1 / (1 + np.arange(n)[:, None] + np.arange(n)),
        "subnormal": a * 1e-310,
        "large": a * 1e250,
        "complex": a + 1j * random.normal(size=(n, n)),
        "complex of rank one": np.outer(a[0] + 1j * a[1], a[2] - 1j * a[3]),
    }


@pytest.mark.parametrize("name", hard_matrices())
def test_hard_matrices(name: str) -> None:
    """To the machine precision times the largest value: values, bases, and the products of all."""
    a = hard_matrices()[name]
    scale = 2.0**1000 if name == "subnormal" else 2.0**-800 if name == "large" else 1.0  # NumPy's norms overflow
    decomposed = pb.function(lambda a: (linalg.eigh(a), linalg.svd(a), linalg.eigvalsh(a), linalg.svdvals(a)))
    (w, v), (u, s, vh), *alone = decomposed(a)
    a, w, s = a * scale, w * scale, s * scale
    hermitian, size = (a + a.conj().T) / 2, np.linalg.norm(a, 2)
    eigenvalues, singular = np.linalg.eigvalsh(hermitian), np.linalg.svd(a)[1]
    for found, wanted in (
        *((x, eigenvalues) for x in (w, alone[0] * scale)),
        *((x, singular) for x in (s, alone[1] * scale)),
        (v * w @ v.conj().T, hermitian),
        (u * s @ vh, a),
        *((size * x.conj().T @ x, size * np.eye(len(a))) for x in (v, u, vh)),
    ):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14 * size)


def divided_matrices(n: int) -> dict[str, Any]:
    """Matrices that are halved, among them some of which the halves share eigenvalues."""
    random = np.random.default_rng(n)
    a, ones = random.normal(size=(n, n)), np.ones(n - 1)
    period = 2 * (n // 6) + 1
    glue = np.where(np.arange(n - 1) % period == period - 1, 1e-9, 1.0)
    basis = np.linalg.qr(a)[0]
    return {
        "random": a,
        "zero": np.zeros((n, n)),
        "diagonal": np.diag(random.normal(size=n)),
        "nilpotent": np.diag(ones, 1),
        "second difference": np.diag(2 * np.ones(n)) - np.diag(ones, 1) - np.diag(ones, -1),
        "glued": np.diag(np.abs(np.arange(n) % period - period // 2.0)) + np.diag(glue, 1) + np.diag(glue, -1),
        "graded": a * 10.0 ** -np.linspace(0, 30, n),
        "rank three": a[:, :3] @ a[:3],
        "equal values": basis * np.where(np.arange(n) % 3, 1.0, 2.0) @ basis.T,
        "tiny": a * 1e-200,
        "integers": random.integers(-1, 2, size=(n, n)).astype(float),
    }


def other_matrices(n: int) -> dict[str, Any]:
    """Matrices of other element types and shapes; each is compiled for itself."""
    random = np.random.default_rng(n)
    a = random.normal(size=(n, n))
    return {
        "single": a.astype(np.float32),
        "tall": random.normal(size=(n + 9, n)),
        "complex": a + 1j * random.normal(size=(n, n)),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "n", "whole"), [(divided_matrices, 33, 8), (divided_matrices, 16, 8), (other_matrices, 19, 10)]
)
def test_matrices_that_are_divided(
    of: Callable[[int], dict[str, Any]], n: int, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values and bases to the machine precision times the largest value, for one, two and three halvings."""
    monkeypatch.setattr(divide, "WHOLE", whole)
    factors = pb.function(lambda a: linalg.svd(a, full_matrices=False))
    spectrum = pb.function(lambda a: linalg.eigh(a))
    for a in of(n).values():
        scale = 2.0**600 if 0 < np.abs(a).max() < 1e-100 else 1.0  # NumPy's norms underflow
        u, s, vh = (np.asarray(x) for x in factors(a))
        h = (a + a.conj().T) / 2 if len(a) == n else None
        w, v = (np.asarray(x) for x in spectrum(h)) if h is not None else (s, vh)
        a, s = a * scale, s * scale
        size = max(np.linalg.norm(a, 2), np.finfo(a.dtype).tiny)
        wide = a.astype(np.result_type(a.dtype, float))
        pairs = [(s, np.linalg.svd(wide)[1]), (u * s @ vh, a)]
        pairs += [(size * x, size * np.eye(n)) for x in (u.conj().T @ u, vh @ vh.conj().T)]
        if h is not None:
            w, h = w * scale, h * scale
            pairs += [(w, np.linalg.eigvalsh(h.astype(wide.dtype))), (v * w @ v.conj().T, h)]
            pairs += [(size * v.conj().T @ v, size * np.eye(n))]
        for found, wanted in pairs:
            np.testing.assert_allclose(found, wanted, rtol=0, atol=100 * np.finfo(a.dtype).eps * size)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("machine", ["", "avx2", "sse2", "scalar"])
def test_values_alone(machine: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of all matrices of a size, from one program, are NumPy's to rounding of the largest."""
    monkeypatch.setenv("PULLBACK_MACHINE", machine)
    singular, hermitian = pb.function(linalg.svdvals), pb.function(linalg.eigvalsh)
    for name, a in divided_matrices(21).items():
        scale = np.abs(a).max() or 1.0
        if name == "tiny" and dtype is np.float32:
            scale, a = 1e-30, a / scale * 1e-30
        a = a.astype(dtype)
        unit = a / scale
        wide = np.asarray(a, np.float64) / scale
        eps = 100 * np.finfo(dtype).eps * max(np.linalg.norm(unit, 2), 1.0)
        for found, wanted in (
            (singular(a), np.linalg.svd(wide)[1]),
            (hermitian(a), np.linalg.eigvalsh((wide + wide.T) / 2)),
        ):
            np.testing.assert_allclose(np.asarray(found) / scale, wanted, rtol=0, atol=eps)


@pytest.mark.parametrize("n", [1, 2, 3, 12])
def test_values_alone_have_their_digits(n: int) -> None:
    """Beside values of forty digits. Steps without roots divide by numbers that may vanish: see the second matrix."""
    random = np.random.default_rng(n)
    a, ones = random.integers(-9, 10, size=(n, n)).astype(float), np.ones(n - 1)
    f = pb.function(lambda a: (linalg.eigvalsh(a), linalg.svdvals(a)))
    for matrix in (a + a.T, np.diag(ones, 1) + np.diag(ones, -1), np.diag(2.0 ** -np.arange(0, 6 * n, 6)) + 1e-3):
        with mp.workdps(40):
            exact = mp.eigsy(mp.matrix(matrix.tolist()), eigvals_only=True)
            wanted = np.array([float(x) for x in exact])
        limit = 8 * np.finfo(float).eps * np.abs(wanted).max()
        w, s = f(matrix)
        np.testing.assert_allclose(w, np.sort(wanted), rtol=0, atol=limit)
        np.testing.assert_allclose(s, np.sort(np.abs(wanted))[::-1], rtol=0, atol=limit)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_reflections_in_blocks(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of four, and for real matrices a last one of three, in parts of the rows."""
    random = np.random.default_rng(3)
    n = 27 if dtype is np.float64 else 28
    a = random.normal(size=(n + 4, n)).astype(dtype)
    if dtype is np.complex128:
        a = a + 1j * random.normal(size=a.shape)
    h = a[:n] + a[:n].conj().T
    for name, value in (("BLOCK", 4), ("BLOCKED", 10), ("PARTS", 3)):
        monkeypatch.setattr(import_module("pullback.linalg.qr"), name, value)
    w, v = (np.asarray(x) for x in pb.function(linalg.eigh)(h))
    u, s, vh = (np.asarray(x) for x in pb.function(lambda a: linalg.svd(a, full_matrices=False))(a))
    q, r = (np.asarray(x) for x in pb.function(linalg.qr)(a))
    form, basis = (np.asarray(x) for x in pb.function(hessenberg)(a[:n]))
    for found, wanted in ((v * w @ v.conj().T, h), (basis @ np.triu(form, -1) @ basis.conj().T, a[:n]),
                          (u * s @ vh, a), (q @ r, a), (q.conj().T @ q, np.eye(n)),
                          (v.conj().T @ v, np.eye(n)), (u.conj().T @ u, np.eye(n))):  # fmt: skip
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_gives_nan(bad: float) -> None:
    for n in (5, 40):
        a = RNG.normal(size=(n, n))
        a[1, 2] = a[2, 1] = bad
        found = pb.function(lambda a: (*linalg.eigh(a), *linalg.svd(a), linalg.eigvalsh(a), linalg.svdvals(a)))(a)
        assert all(np.isnan(x).all() for x in found)


def test_stacks_are_their_matrices() -> None:
    a = RNG.normal(size=(2, 3, 6, 6))
    decomposed = pb.function(lambda a: (linalg.eigh(a), linalg.svd(a), linalg.eig(a)))
    for stacked, parts in zip(decomposed(a), zip(*(decomposed(x) for x in a.reshape(6, 6, 6)), strict=True)):
        for found, wanted in zip(stacked, zip(*parts, strict=True), strict=True):
            close(np.reshape(found, np.shape(wanted)), wanted)


def test_the_gradients_of_divided_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of matrices beside their differences, which share no code with the vectors' tangents."""
    monkeypatch.setattr(divide, "WHOLE", 20)
    n, random = 40, np.random.default_rng(8)
    a, b, c = random.normal(size=(3, n, n))
    for f in (
        lambda a: pb.sum(linalg.eigvalsh(a) ** 3),
        lambda a: pb.sum(linalg.svdvals(a) ** 3),
        lambda a: pb.sum((lambda r: (r.eigenvectors * pb.sin(r.eigenvalues)) @ r.eigenvectors.T)(linalg.eigh(a)) * c),
        lambda a: pb.sum((lambda r: (r.U * pb.sin(r.S)) @ r.Vh)(linalg.svd(a)) * c),
    ):
        of, h = traced(f, f"{n} {n}"), 1e-5
        wanted = (float(of(a + h * b)) - float(of(a - h * b))) / (2 * h)
        assert np.sum(np.asarray(pb.grad(of)(a)) * b) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("n", [4, 6, 9])
def test_gradients_of_projections_where_values_are_equal_up_to_rounding(n: int) -> None:
    """A matrix of two values projects onto the space of one by p, of the other by q: dp = (p da q + q da p) / gap."""
    random = np.random.default_rng(n)
    basis, _ = np.linalg.qr(random.normal(size=(n, n)))
    upper = np.arange(n) >= n // 2
    p, q = basis * upper @ basis.T, basis * ~upper @ basis.T
    a, c = 3.0 * p + 1.0 * q, random.normal(size=(n, n))
    c = c + c.T

    def projected(a: Any) -> Any:
        w, v = linalg.eigh(a)
        return pb.sum(c * (pb.where(w > 2, v, 0.0) @ v.T))

    found = pb.grad(traced(projected, f"{n} {n}"))(a)
    np.testing.assert_allclose((found + found.T) / 2, (p @ c @ q + q @ c @ p) / 2, rtol=0, atol=1e-12)


def test_random_integer_matrices() -> None:
    """Small matrices of small integers have zeros, equal values and deficient ranks everywhere."""
    random = np.random.default_rng(4)
    shapes = [(1, 1), (2, 2), (3, 3), (4, 2), (5, 5), (6, 4)]
    stacks = [random.integers(-1, 2, size=(40, *shape)).astype(float) for shape in shapes]
    factors = pb.function(lambda xs: [linalg.svd(x, full_matrices=False) for x in xs])(stacks)
    spectra = pb.function(lambda xs: [linalg.eigh(x.mT @ x) for x in xs])(stacks)
    for a, (u, s, vh), (w, v) in zip(stacks, factors, spectra, strict=True):
        close(s, np.linalg.svd(a)[1])
        close(u * s[:, None] @ vh, a)
        close(w, np.linalg.svd(a)[1][:, ::-1] ** 2)
        for x in (u, vh.mT, v):
            close(x.mT @ x, np.broadcast_to(np.eye(x.shape[-1]), (len(a), x.shape[-1], x.shape[-1])))


def test_what_singular_values_serve() -> None:
    deficient = np.outer([1.0, 2.0, 3.0], [1.0, -1.0])
    for a in (TALL, deficient):
        close(traced(linalg.pinv, "M N")(a), np.linalg.pinv(a))
        assert traced(linalg.matrix_rank, "M N")(a) == np.linalg.matrix_rank(a)
    close(traced(linalg.cond, "N N")(SQUARE), np.linalg.cond(SQUARE))
    for order in (2, -2, "nuc", "fro", 1, -1, INF, -INF):
        wanted = np.linalg.norm(TALL, order)
        close(traced(lambda a, o=order: linalg.matrix_norm(a, ord=o), "M N")(TALL), wanted)
        assert traced(lambda a, o=order: linalg.matrix_norm(a, ord=o, keepdims=True), "M N")(TALL).shape == (1, 1)


def test_expm() -> None:
    f = traced(linalg.expm, "N N")
    for scale in (0.01, 1.0, 40.0):
        with mp.workdps(60):
            wanted = np.array(mp.expm(mp.matrix((SQUARE * scale).tolist())).tolist(), float)
        np.testing.assert_allclose(f(SQUARE * scale), wanted, rtol=1e-11, atol=1e-13 * np.abs(wanted).max())
    close(f(np.zeros((3, 3))), np.eye(3))
    close(traced(linalg.expm, "B N N")(np.stack([SQUARE, -SQUARE]))[1], np.linalg.inv(f(SQUARE)), 1e-11)


def test_sqrtm() -> None:
    f = traced(linalg.sqrtm, "N N")
    for a in (POSITIVE, np.diag([1e-6, 1.0, 1e4]), np.array([[0.0, -1.0], [1.0, 0.0]])):
        y = f(a)
        np.testing.assert_allclose(y @ y, a, rtol=1e-9, atol=1e-11)


def test_powers_and_wide_qr() -> None:
    close(traced(lambda a: linalg.matrix_power(a, -3), "N N")(SQUARE), np.linalg.matrix_power(SQUARE, -3), 1e-9)
    a = TALL.T.copy()
    q, r = traced(lambda a: tuple(linalg.qr(a)), "3 5")(a)
    close(np.abs(q), np.abs(np.linalg.qr(a)[0]))
    close(q @ r, a)
    close(np.tril(r[:, :3], -1), 0)


CASES: dict[str, tuple[Any, str, Any]] = {
    "eigvalsh": (linalg.eigvalsh, "N N", SYMMETRIC),
    "eigh": (lambda a: (linalg.eigh(a).eigenvalues, pb.sin(linalg.eigh(a).eigenvectors)), "N N", SYMMETRIC[:3, :3]),
    "svd": (lambda a: tuple(linalg.svd(a, full_matrices=False)), "M N", TALL),
    "svd of a wide one": (lambda a: tuple(linalg.svd(a, full_matrices=False)), "2 3", TALL[:3, :2].T.copy()),
    "pinv": (linalg.pinv, "M N", TALL),
    "expm": (linalg.expm, "N N", SQUARE[:3, :3]),
    "sqrtm": (linalg.sqrtm, "N N", POSITIVE[:3, :3]),
    "cond": (linalg.cond, "N N", SQUARE[:3, :3]),
    "nuclear norm": (lambda a: linalg.matrix_norm(a, ord="nuc"), "M N", TALL),
    "qr of a wide one": (lambda a: tuple(linalg.qr(a)), "2 3", TALL[:3, :2].T.copy()),
}


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name: str) -> None:
    f, dims, a = CASES[name]
    check_grads(traced(f, dims), (a,), order=1, elements=5)


@pytest.mark.parametrize("name", ["eigvalsh", "svd"])
def test_second_derivatives(name: str) -> None:
    f, _, _ = CASES[name]
    a = SYMMETRIC[:2, :2] if name == "eigvalsh" else TALL[:2, :2]
    check_grads(traced(f, "N N"), (a,), modes=("reverse",), order=2, elements=3)


def test_a_function_of_equal_eigenvalues_has_its_derivative() -> None:
    """tr(f(a)) by eigenvalues, and f(a) itself at a multiple of the identity, where vectors have no derivative."""
    f = traced(lambda a: pb.sum(linalg.eigvalsh(a) ** 3), "N N")
    close(pb.grad(f)(2 * np.eye(3)), 12 * np.eye(3))
    low = traced(lambda a: pb.sum(linalg.svdvals(a)), "N N")
    close(pb.grad(low)(np.diag([2.0, 2.0, 1.0])), np.eye(3))


def test_single_precision() -> None:
    a = SYMMETRIC.astype(np.float32)
    w, v = traced(lambda a: tuple(linalg.eigh(a)), "N N", Float32)(a)
    assert w.dtype == v.dtype == np.float32
    np.testing.assert_allclose(w, np.linalg.eigvalsh(a), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(
        traced(linalg.expm, "N N", Float32)(a), np.asarray(traced(linalg.expm, "N N")(SYMMETRIC)), rtol=2e-4
    )


def test_errors() -> None:
    with pytest.raises(pb.ShapeError, match="qr: there is no mode 'full'"):
        traced(lambda a: linalg.qr(a, mode="full"), "M N")
    with pytest.raises(pb.ShapeError, match="E114"):
        traced(linalg.svdvals, "M N")(TALL.T.copy())
    with pytest.raises(pb.ShapeError, match="there is no norm 3"):
        traced(lambda a: linalg.matrix_norm(a, ord=3), "M N")
