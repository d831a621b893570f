"""Complex arrays against NumPy, and their derivatives against differences and rules of complex analysis."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxtyping import Complex64, Complex128

import pullback as pb
from pullback import Array

pytestmark = pytest.mark.slow

R = np.random.default_rng(0)
Z = R.normal(size=(3, 4)) * 2 + 1j * R.normal(size=(3, 4))
W = R.normal(size=4) + 1j * R.normal(size=4)
X = R.normal(size=(3, 4))
AWKWARD = np.array([1, -1, 1j, -1j, 0, 0.5 + 1e-9j, -2 + 0j, 30 - 2j, -30 + 1j, 1e-8j, 1 + 1e-8j, 1e150 + 1e150j])
ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "abs": abs, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "expm1": np.expm1, "log1p": np.log1p,
    "log2": np.log2, "log10": np.log10, "square": np.square, "reciprocal": np.reciprocal,
    "sign": lambda z: np.where(z == 0, 0, z / np.where(z == 0, 1, np.abs(z))),  # as NumPy 2 has it
    "negative": np.negative, "conj": np.conj, "real": np.real, "imag": np.imag, "angle": np.angle,
    "isnan": np.isnan, "isfinite": np.isfinite, "isinf": np.isinf, "sum": np.sum, "mean": np.mean, "round": np.round,
}  # fmt: skip


def check(f: Callable[..., Any], expected: Any, *arguments: Any, tolerance: float = 1e-12) -> None:
    """F in C and in the interpreter gives what is expected."""
    g = pb.function(f)
    for found in (g(*arguments), g.interpret(*arguments)):
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=0)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_functions(name: str) -> None:
    with np.errstate(all="ignore"):
        check(lambda z: getattr(pb, name)(z), ELEMENTWISE[name](Z), Z)
        check(lambda z: getattr(pb, name)(z), ELEMENTWISE[name](Z * 1e-4), Z * 1e-4, tolerance=1e-11)


@pytest.mark.parametrize("name", ["abs", "exp", "log", "sqrt", "tanh", "acos", "acosh", "asinh", "log1p", "sign"])
def test_awkward_points(name: str) -> None:
    points = AWKWARD[:-1] if name in ("exp", "acos", "acosh", "asinh", "tanh") else AWKWARD
    with np.errstate(all="ignore"):
        expected = np.asarray(ELEMENTWISE[name](points))
    found = np.asarray(pb.function(lambda z: getattr(pb, name)(z))(points))
    for part in (np.real, np.imag):
        np.testing.assert_allclose(part(found), part(expected), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "pow", "equal", "not_equal"])
def test_operations(name: str) -> None:
    numpy = getattr(np, {"pow": "power"}.get(name, name))
    for a, b in ((Z, W), (Z, X), (X, Z), (Z, 2.0), (3.0, Z), (Z, 1 - 2j)):
        check(lambda a, b: getattr(pb, name)(a, b), numpy(a, b), a, b)


def test_operators_and_numbers() -> None:
    check(lambda z: z**3 + 1j * z - 2.0 / z, Z**3 + 1j * Z - 2 / Z, Z)
    check(lambda z: abs(-z) * (1 + z), abs(Z) * (1 + Z), Z)
    check(lambda x: x * 1j, X.astype("f4") * np.complex64(1j), X.astype("f4"))
    check(lambda z: z + W, Z + W, Z)
    check(lambda x: pb.complex(x, 2.0), X + 2j, X)
    check(lambda z: z / z, np.ones(1, complex), np.array([1e300 + 1e300j]))


def test_products() -> None:
    check(lambda a, b: a @ b, Z @ W, Z, W)
    check(lambda a, b: pb.matmul(a, b), X @ Z.T, X, Z.T)
    check(lambda a, b: pb.vecdot(a, b), (Z.conj() * W).sum(-1), Z, W)
    check(lambda a, b: pb.tensordot(a, b, axes=1), np.tensordot(Z, W, axes=1), Z, W)
    check(lambda a, b: pb.outer(a, b), np.outer(W, W), W, W)


def test_moving_elements() -> None:
    check(lambda z: z[:, ::2].T.reshape(-1), Z[:, ::2].T.reshape(-1), Z)
    check(lambda z: pb.concat([z, z[:1] * 2]), np.concatenate([Z, Z[:1] * 2]), Z)
    check(lambda z: pb.stack([z[0], X[1]]), np.stack([Z[0], X[1]]), Z)
    check(lambda z: pb.roll(z, 1, axis=1), np.roll(Z, 1, axis=1), Z)
    check(lambda z: pb.where(X > 0, z, 0.0), np.where(X > 0, Z, 0), Z)
    check(lambda z: z.set(0, 1j), np.concatenate([np.full((1, 4), 1j), Z[1:]]), Z)
    check(lambda z, i: z[i], Z[[2, 0]], Z, np.array([2, 0]))
    check(lambda z: pb.cumulative_sum(z, axis=1), np.cumsum(Z, axis=1), Z)
    check(lambda: pb.zeros(3, dtype=pb.complex64) + pb.arange(3, dtype="complex64"), np.arange(3, dtype="c8"))
    check(lambda z: z.astype("complex64"), Z.astype("c8"), Z)
    check(lambda x: x.astype(complex), X.astype(complex), X)


def test_notation_and_loops() -> None:
    check(lambda z: pb.build(3, lambda i: pb.sum_over(4, lambda j: z[i, j] * z[i, j])), (Z * Z).sum(1), Z)
    check(lambda z: pb.fold(3, z[0], lambda s, i: s * z[i]), Z[0] * Z[0] * Z[1] * Z[2], Z)
    check(lambda z: pb.cond(X[0, 0] > 100, lambda a: a, lambda a: a * 1j, z), Z * 1j, Z)
    np.testing.assert_allclose(pb.vmap(pb.function(lambda z: pb.sum(z * z)))(Z), (Z * Z).sum(1))


def test_the_gradient_is_the_steepest_ascent() -> None:
    f = pb.function(lambda z: pb.sum(abs(pb.exp(z) * W - 1.0) ** 2))
    found = pb.grad(f)(Z)
    numerical = np.zeros_like(Z)
    for k in range(Z.size):
        for unit in (1, 1j):
            e = np.zeros(Z.size, complex)
            e[k] = unit * 1e-6
            e = e.reshape(Z.shape)
            numerical.flat[k] += unit * (f(Z + e) - f(Z - e)) / 2e-6
    np.testing.assert_allclose(found, numerical, rtol=1e-6)
    assert pb.grad(pb.function(lambda z: pb.sum(abs(z))))(np.zeros(2, complex)).tolist() == [0, 0]


@pytest.mark.parametrize(("name", "derivative"), [
    ("exp", np.exp), ("sin", np.cos), ("log", np.reciprocal), ("sqrt", lambda z: 0.5 / np.sqrt(z)),
    ("tanh", lambda z: 1 - np.tanh(z) ** 2), ("asin", lambda z: 1 / np.sqrt(1 - z * z)),
    ("atan", lambda z: 1 / (1 + z * z)), ("square", lambda z: 2 * z),
])  # fmt: skip
def test_tangents_of_holomorphic_functions(name: str, derivative: Callable[..., Any]) -> None:
    f = pb.function(lambda z: getattr(pb, name)(z))
    np.testing.assert_allclose(pb.jvp(f)((Z,), (W + Z,))[1], derivative(Z) * (W + Z), rtol=1e-11)
    np.testing.assert_allclose(pb.vjp(f)(Z, cotangent=Z)[1][0], np.conj(derivative(Z)) * Z, rtol=1e-11)


def test_annotations_and_types() -> None:
    @pb.function
    def power(z: Complex128[Array, "N"]):
        return pb.sum(abs(z) ** 2), z * pb.conj(z)

    assert power.type == "(z: c128[N]) -> (f64, c128[N])"
    assert power(W)[0] == pytest.approx(np.sum(abs(W) ** 2))
    with pytest.raises(pb.DTypeError, match="E122"):
        power(np.ones(3))
    single = pb.function(_single)
    assert single(W.astype("c8")).dtype == np.complex64
    with pytest.raises(pb.DTypeError, match="E122"):
        single(W)


def _single(z: Complex64[Array, "N"]):
    return z * 2.0


def test_what_complex_numbers_are_not() -> None:
    for f in (lambda z: z < z, lambda z: pb.maximum(z, z), lambda z: pb.floor(z), lambda z: z // z,
              lambda z: pb.sort(z), lambda z: z.astype("float64"), lambda z: z + pb.arange(4)):
        with pytest.raises(pb.DTypeError):
            pb.function(f)(W)


def test_calls_with_complex_arrays_go_straight_to_machine_code():
    rng = np.random.default_rng(11)
    f = pb.function(lambda z, w, x: ((z * w).conj(), (2 * x, None, pb.sum(z))))
    for kind, real in ((np.complex128, np.float64), (np.complex64, np.float32)):
        z, w = ((rng.normal(size=(5, 7)) + 1j * rng.normal(size=(5, 7))).astype(kind) for _ in range(2))
        x = rng.normal(size=(5, 7)).astype(real)
        for _ in range(2):
            product, (scaled, nothing, total) = f(z, w, x)
            assert (product.dtype, scaled.dtype, type(total)) == (kind, real, kind)
            np.testing.assert_allclose(product, (z * w).conj(), rtol=1e-5)
            np.testing.assert_allclose(scaled, x * 2, rtol=1e-6)
            np.testing.assert_allclose(total, z.sum(), rtol=1e-4)
            assert nothing is None
    assert f._entries
    g = pb.function(lambda z: z * 2)
    z = rng.normal(size=(4, 6)) + 1j
    g(z)
    assert g._entries
    for given in (z, z.T, z[::2], np.asfortranarray(z), z.astype(np.complex64), z[:0], z[0, 0], z.real):
        np.testing.assert_allclose(g(given), given * 2)
    with pytest.raises(pb.DTypeError):
        g(z.astype(">c16"))


def test_numbers_take_the_type_of_an_array_and_arrays_keep_theirs() -> None:
    z = Z.astype(np.complex64)
    assert pb.function(lambda z, x: pb.add(z, 1j) + pb.sum(x))(z, X.astype(np.float32)).dtype == np.complex64
    assert pb.function(lambda z, x: (pb.add(z, 1j), x))(z, X)[0].dtype == np.complex64
    assert pb.function(lambda z, w: pb.add(z, w))(z, W).dtype == np.complex128
    np.testing.assert_array_equal(pb.function(lambda z: z.to_device("cpu").mT)(Z), Z.T)


C8, F4 = Z.astype(np.complex64), X.astype(np.float32)


@pytest.mark.parametrize(("f", "expected"), [
    (lambda z, x: pb.ones_like(z), np.ones_like(C8)),
    (lambda z, x: pb.ones_like(z, dtype="float32"), np.ones_like(F4)),
    (lambda z, x: pb.zeros_like(z, dtype="int32"), np.zeros_like(F4, dtype="i4")),
    (lambda z, x: pb.empty_like(z, dtype=bool), np.zeros_like(F4, dtype=bool)),
    (lambda z, x: pb.full_like(z, 3), np.full_like(C8, 3)),
    (lambda z, x: pb.full_like(z, 3, dtype="float64"), np.full_like(X, 3)),
    (lambda z, x: pb.full_like(x, 3 - 1j, dtype="complex64"), np.full_like(C8, 3 - 1j)),
    (lambda z, x: pb.full(2, z[0, 0]), np.full(2, C8[0, 0])),
    (lambda z, x: pb.linspace(1.0, 1 + 2j, 3, dtype="complex128"), np.linspace(1.0, 1 + 2j, 3)),
    (lambda z, x: pb.broadcast_arrays(x, z[0])[0], F4),
    (lambda z, x: pb.broadcast_arrays(x, z[0])[1], np.broadcast_to(C8[0], C8.shape)),
    (lambda z, x: pb.meshgrid(x[0], z[0])[0], np.meshgrid(F4[0], C8[0])[0]),
    (lambda z, x: pb.meshgrid(x[0], z[0])[1], np.meshgrid(F4[0], C8[0])[1]),
    (lambda z, x: pb.diff(z, prepend=x[:, :1]), np.diff(C8, prepend=F4[:, :1])),
    (lambda z, x: pb.diff(x, append=z[:, :1]), np.diff(F4, append=C8[:, :1])),
    (lambda z, x: pb.imag(x / 0.0), np.zeros_like(F4)),
    (lambda z, x: pb.imag((x / 0.0).astype("complex64")), np.zeros_like(F4)),
    (lambda z, x: pb.imag(pb.asarray(x / 0.0, dtype="complex64")), np.zeros_like(F4)),
])  # fmt: skip
def test_arrays_like_others_have_the_type_asked_for(f: Callable[..., Any], expected: Any) -> None:
    check(f, expected, C8, F4, tolerance=1e-6)


def test_complex_values_are_not_made_real() -> None:
    for f in (lambda z: pb.full(2, 1j, dtype="float64"), lambda z: pb.asarray(z, dtype="float64"),
              lambda z: pb.sum(z, dtype="float64"), lambda z: pb.full_like(z, 1j, dtype="float32")):
        with pytest.raises(pb.DTypeError, match="E122"):
            pb.function(f)(W)


COMPLEX_JACOBIANS = {
    "jacobian(lambda)": lambda f: pb.jacobian(f),
    "jacobian(lambda) forward": lambda f: pb.jacobian(f, mode="forward"),
    "jacobian(lambda) sparse": lambda f: pb.jacobian(f, sparse=True),
    "jacobian(lambda) colored": lambda f: pb.jacobian(f, sparse="colored"),
    "hessian(lambda)": lambda f: pb.hessian(lambda z: pb.sum(pb.abs(f(z)) ** 2)),
}


@pytest.mark.parametrize("what", COMPLEX_JACOBIANS)
def test_derivatives_of_complex_numbers_by_complex_numbers_are_refused(what):
    z = np.array([1 + 2j, 3 - 1j])
    with pytest.raises(pb.errors.DerivativeError) as raised:
        COMPLEX_JACOBIANS[what](lambda z: z * z)(z)
    name = what.split()[0]
    assert raised.value.code == "E225"
    assert raised.value.what == f"{name}: derivatives of complex numbers by complex numbers have four parts"
    assert raised.value.remedy == ("make both real: `lambda x, y: pb.real(f(x + 1j * y))`, and the same with `pb.imag`")


def test_the_gradient_of_a_complex_number_says_so():
    with pytest.raises(pb.errors.DerivativeError) as raised:
        pb.grad(lambda z: pb.sum(z * z))(np.array([1 + 2j]))
    assert raised.value.what == "grad(lambda): the result is complex, and a gradient is that of one number"
    assert raised.value.remedy == "`pb.real`, `pb.imag` or `pb.abs` of it"


@pytest.mark.parametrize("sparse", [True, "colored"])
def test_sparse_jacobians_have_the_parts_of_complex_numbers(sparse):
    found = pb.jacobian(lambda x: x * x * 1j, sparse=sparse)(np.array([1.0, 2.0]))
    assert found.real.to_dense().tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert found.imag.to_dense().tolist() == [[2.0, 0.0], [0.0, 4.0]]
