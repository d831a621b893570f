"""Other libraries call traced functions: the same bits as from Python, gradients of any order, no copies."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array
from pullback.errors import TraceError
from pullback.interop import as_jax, as_torch, pointer
from pullback.interop.scipy import Vectors, differential_equation, integrand, least_squares, minimization

rng = np.random.default_rng(0)
X, W = rng.normal(size=(4, 3)), rng.normal(size=(3, 2))
I = np.array([2, 0])


@pb.function
def layer(x: Float64[Array, "N 3"], w: Float64[Array, "3 2"], i: Int64[Array, "2"]):
    """A layer with an integer argument and an integer result."""
    y = pb.tanh(x @ w)
    return {"y": y, "first": pb.argmax(y, axis=1), "some": pb.build(2, lambda k: x[pb.clip(i[k], 0, 3), 0] ** 3)}


@pb.function
def energy(x: Float64[Array, "N"]):
    return pb.sum(x**3) + pb.sum(x[1:] * x[:-1])


V = rng.normal(size=5)


def wanted_pullback() -> Any:
    c = {"y": np.ones((4, 2)), "first": None, "some": np.ones(2)}
    return pb.vjp(layer, wrt=("x", "w"))(X, W, I, cotangent=c)[1]


# PyTorch ------------------------------------------------------------------------------------------------------------


def test_torch_gives_the_same_bits() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is a peer, not a dependency")
    x, w = (torch.tensor(a, requires_grad=True) for a in (X, W))
    out = as_torch(layer)(x, w, torch.tensor(I))
    for key, value in layer(X, W, I).items():
        np.testing.assert_array_equal(out[key].detach().numpy(), value)
    assert not out["first"].requires_grad
    (out["y"].sum() + out["some"].sum()).backward()
    for ours, theirs in zip(wanted_pullback(), (x.grad, w.grad), strict=True):
        np.testing.assert_allclose(theirs.numpy(), ours, rtol=1e-15)


def test_torch_derivatives_of_any_order() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is a peer, not a dependency")
    f, v = as_torch(energy), torch.tensor(V, requires_grad=True)
    assert torch.autograd.gradcheck(f, (v,)) and torch.autograd.gradgradcheck(f, (v,))
    hessian = torch.autograd.functional.hessian(f, torch.tensor(V))
    np.testing.assert_allclose(hessian.numpy(), pb.hessian(energy)(V), rtol=1e-12)


def test_a_torch_module_learns() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is a peer, not a dependency")
    module = as_torch(lambda p, x: x @ p["w"] + p["b"], {"w": np.zeros((3, 2)), "b": np.zeros(2)})
    assert sorted(name for name, _ in module.named_parameters()) == ["b", "w"]
    x, y, descent = torch.tensor(X), torch.tensor(X @ W + 1.0), torch.optim.LBFGS(module.parameters(), max_iter=40)

    def closure() -> Any:
        descent.zero_grad()
        loss = ((module(x) - y) ** 2).mean()
        loss.backward()
        return loss

    descent.step(closure)
    assert float(closure().detach()) < 1e-6


def test_torch_shares_memory() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is a peer, not a dependency")
    x = torch.arange(6.0, dtype=torch.float64)
    assert np.from_dlpack(x).ctypes.data == x.data_ptr()
    np.testing.assert_array_equal(energy(x), energy(np.arange(6.0)))
    strided = torch.arange(12.0, dtype=torch.float64)[::2]
    np.testing.assert_array_equal(as_torch(energy)(strided).numpy(), energy(np.arange(12.0)[::2].copy()))
    with pytest.raises(TraceError, match=r"\[E530\] a tensor is on the device meta"):
        as_torch(energy)(torch.empty(5, dtype=torch.float64, device="meta"))


def test_torch_reads_numpy_arrays_at_each_call() -> None:
    pytest.importorskip("torch", reason="PyTorch is a peer, not a dependency")
    f, a = as_torch(pb.function(lambda x: pb.sum(x))), np.zeros(3000)
    b = a.copy()
    b[1500] = 7.0  # what repr leaves out
    assert [float(f(x)) for x in (a, b, a)] == [0.0, 7.0, 0.0]


# JAX ----------------------------------------------------------------------------------------------------------------


def test_jax_gives_the_same_bits() -> None:
    jax = pytest.importorskip("jax", reason="JAX is a peer, not a dependency")
    with jax.enable_x64(True):
        f = as_jax(layer)
        for call in (f, jax.jit(f)):
            for key, value in call(jax.numpy.array(X), jax.numpy.array(W), jax.numpy.array(I)).items():
                np.testing.assert_array_equal(np.asarray(value), layer(X, W, I)[key])

        def total(x: Any, w: Any) -> Any:
            out = f(x, w, jax.numpy.array(I))
            return out["y"].sum() + out["some"].sum()

        found = jax.jit(jax.grad(total, argnums=(0, 1)))(jax.numpy.array(X), jax.numpy.array(W))
        for ours, theirs in zip(wanted_pullback(), found, strict=True):
            np.testing.assert_allclose(np.asarray(theirs), ours, rtol=1e-15)
        hessian = jax.jacrev(jax.grad(as_jax(energy)))(jax.numpy.array(V))
        np.testing.assert_allclose(np.asarray(hessian), pb.hessian(energy)(V), rtol=1e-12, atol=1e-12)


def test_jax_reads_each_functions_own_arrays() -> None:
    jax = pytest.importorskip("jax", reason="JAX is a peer, not a dependency")
    with jax.enable_x64(True):
        one, ten = (as_jax(closure(np.full(3, c))) for c in (1.0, 10.0))
        x = jax.numpy.array([1.0, 2.0, 3.0])
        assert [float(f(x)) for f in (one, ten, one)] == [6.0, 60.0, 6.0]
        assert [float(jax.jit(f)(x)) for f in (one, ten, one)] == [6.0, 60.0, 6.0]


# SciPy, and pointers --------------------------------------------------------------------------------------------------


def test_scipy_minimizes_trees() -> None:
    optimize = pytest.importorskip("scipy.optimize", reason="SciPy is an extra")

    @pb.function
    def valley(p: Any, target: Any) -> Any:
        return pb.sum((p["a"] - target) ** 4) + 3.0 * p["b"] ** 2 + p["b"] * p["a"][0, 0]

    start, target = {"a": np.zeros((2, 2)), "b": np.ones(())}, np.arange(4.0).reshape(2, 2)
    for method, more in (("BFGS", {}), ("trust-ncg", {"hessian": True})):
        given = minimization(valley, start, target, **more)
        found = Vectors(start).tree(optimize.minimize(**given, method=method, options={"gtol": 1e-8}).x)
        slope = pb.grad(valley)(found, target)
        assert max(np.abs(slope["a"]).max(), abs(slope["b"])) < 1e-6
        assert np.array_equal(given["fun"](given["x0"])[0], float(valley(start, target)))


def test_scipy_takes_sparse_jacobians_and_implicit_equations() -> None:
    optimize = pytest.importorskip("scipy.optimize", reason="SciPy is an extra")
    from scipy import integrate

    @pb.function
    def chain(x: Float64[Array, "N"], s: float):
        return pb.concat([x[:1] - 1.0, s * (x[1:] - x[:-1] ** 2)])

    given = least_squares(chain, np.full(5, 0.9), 10.0)
    assert given["jac"](np.zeros(5)).format == "csr" and given["jac"](np.ones(5)).nnz == 9
    np.testing.assert_allclose(optimize.least_squares(**given).x, 1.0, atol=1e-6)

    @pb.function
    def cool(t: float, y: Float64[Array, "N"], rate: float):
        return -rate * (y - t)

    given = differential_equation(cool, np.ones(3), 500.0, sparse=True)
    path = integrate.solve_ivp(t_span=(0.0, 1.0), method="Radau", **given)
    np.testing.assert_allclose(path.y[:, -1], 1.0 - 1 / 500, atol=1e-3)


def test_scipy_integrates_without_python() -> None:
    integrate = pytest.importorskip("scipy.integrate", reason="SciPy is an extra")

    @pb.function
    def bump(x: Float64[Array, "N"]):
        return pb.exp(-pb.sum(x * x))

    ranges = [[0.0, 1.0]] * 2
    found, ours = integrate.nquad(integrand(bump, N=2), ranges), integrate.nquad(lambda *x: bump(np.array(x)), ranges)
    assert found[0] == ours[0]
    with pytest.raises(TraceError, match=r"\[E531\] energies: an integrand is a function of one vector"):
        integrand(pb.function(named_energies), N=2)


def named_energies(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    return x + y


named_energies.__name__ = "energies"


def closure(a: Any) -> Any:
    """A function that reads an array from around it; the program is the same for every array."""

    @pb.function
    def weighted(x: Float64[Array, "3"]):
        return pb.sum(x * pb.asarray(a))

    return weighted


def test_pointers_hold_their_own_arrays(few_objects: None) -> None:
    x, out = np.array([1.0, 2.0, 3.0]), np.empty(())
    one, ten = (pointer(closure(np.full(3, c))) for c in (1.0, 10.0))
    calls = {p: p.function for p in (one, ten)}
    found = []
    for p in (one, ten, ten, one):
        assert calls[p](x.ctypes.data, out.ctypes.data) == 0
        found.append(float(out))
    assert found == [6.0, 60.0, 60.0, 6.0]
    texts = {one._text, ten._text}
    del calls, p, ten
    gc.collect()  # functions of ctypes are parts of cycles
    assert pointer(closure(np.full(3, 2.0)))._text in texts  # a text is used again when its pointer is gone


def test_a_pointer_runs_the_same_machine_code() -> None:
    table = np.arange(5.0)
    table.setflags(write=False)

    @pb.function
    def mixed(x: Float64[Array, "N"], i: Int64[Array, "N"]):
        return pb.build(x.shape[0], lambda n: x[n] * pb.asarray(table)[i[n]]), pb.sum(x)

    p = pointer(mixed, N=3)
    assert p.prototype == "int mixed(const double *x, const int64_t *i, double *out_0, double *out_1)"
    assert [(a.name, a.dtype, a.shape) for a in p.inputs] == [("x", "f64", (3,)), ("i", "i64", (3,))]
    x, i, y, s = rng.normal(size=3), np.array([4, 0, 2]), np.empty(3), np.empty(())
    run = p.function
    by_address = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(ctypes.cast(run, ctypes.c_void_p).value)
    assert by_address(*(a.ctypes.data for a in (x, i, y, s))) == 0
    for ours, theirs in zip(mixed(x, i), (y, s), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert run(*(a.ctypes.data for a in (x, np.array([9, 0, 0]), y, s))) != 0  # an index leaves its range
    other = pointer(mixed, N=3)
    assert other.function(*(a.ctypes.data for a in (x, i, y, s))) == 0
