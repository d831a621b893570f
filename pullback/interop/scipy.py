"""Traced functions in the forms that SciPy's solvers take, with their derivatives.

`minimization` and `least_squares` give the arguments of `scipy.optimize.minimize` and `least_squares`, for functions of
trees of arrays too, where SciPy knows vectors; `differential_equation` those of `solve_ivp`; `integrand` what `quad`
and `nquad` call without Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from pullback.errors import TraceError
from pullback.interop.flat import library
from pullback.interop.pointer import pointer
from pullback.source import user_position
from pullback.tracing import tree

__all__ = ["Vectors", "differential_equation", "integrand", "least_squares", "minimization"]

Vector = NDArray[np.float64]


class Vectors:
    """Trees of arrays as vectors of f64, and back.

    >>> v = Vectors({"w": np.ones((2, 2)), "b": np.zeros(1)})
    >>> v.vector({"w": np.eye(2), "b": np.array([5.0])}).tolist()
    [5.0, 1.0, 0.0, 0.0, 1.0]
    >>> v.tree(np.arange(5.0))["w"].tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """

    def __init__(self, like: Any) -> None:
        leaves, self.structure = tree.flatten(like)
        self.arrays = [np.asarray(leaf) for leaf in leaves]
        self.ends = np.cumsum([a.size for a in self.arrays]).tolist()

    def vector(self, x: Any) -> Vector:
        """The elements of all leaves in their order."""
        leaves, _ = tree.flatten(x)
        return np.concatenate([np.asarray(a, np.float64).reshape(-1) for a in leaves]) if leaves else np.zeros(0)

    def tree(self, v: Vector) -> Any:
        """The tree whose elements these are; parts of the vector itself where element types are equal."""
        parts = [v[end - a.size : end].reshape(a.shape).astype(a.dtype, copy=False)
                 for a, end in zip(self.arrays, self.ends)]  # fmt: skip
        return tree.unflatten(self.structure, parts)


def minimization(f: Any, x0: Any, *args: Any, hessian: bool = False) -> dict[str, Any]:
    """Arguments of `scipy.optimize.minimize` for a function of a tree: value, gradient, Hessian products.

    Args:
        f: a function of a tree of floating-point arrays, and of `args`, whose result is one number.
        x0: where to start: an array, or a tree of them.
        hessian: whether products of the Hessian with vectors are given, as Newton's methods want them.
    Returns:
        `fun`, `x0`, `jac` and perhaps `hessp`. Results are vectors: `Vectors(x0).tree(found.x)`.

    >>> from scipy import optimize
    >>> @pb.function
    ... def bowl(p):
    ...     return pb.sum((p["a"] - 1.0) ** 2) + (p["b"] + 2.0) ** 2
    >>> start = {"a": np.zeros(2), "b": np.zeros(())}
    >>> found = optimize.minimize(**minimization(bowl, start), method="BFGS")
    >>> Vectors(start).tree(found.x.round(6))["a"].tolist()
    [1.0, 1.0]
    """
    v = Vectors(x0)
    both = pb.value_and_grad(f)

    def fun(x: Vector) -> tuple[float, Vector]:
        value, slope = both(v.tree(x), *args)
        return float(value), v.vector(slope)

    given = {"fun": fun, "x0": v.vector(x0), "jac": True}
    if hessian:
        product = pb.hvp(f)
        given["hessp"] = lambda x, p: v.vector(product((v.tree(x), *args), v.tree(p)))
    return given


def least_squares(f: Any, x0: Any, *args: Any, sparse: bool = True) -> dict[str, Any]:
    """Arguments of `scipy.optimize.least_squares` for a function of an array: residuals, CSR Jacobian.

    Args:
        f: a function of a vector of f64, and of `args`, whose result is a vector.
        x0: where to start.
        sparse: whether the Jacobian has the zeros left out that follow from how the function is written.
    Returns:
        `fun`, `x0` and `jac`.

    >>> from scipy import optimize
    >>> @pb.function
    ... def residuals(x):
    ...     return pb.concat([x[:1] - 1.0, 10.0 * (x[1:] - x[:-1] ** 2)])
    >>> optimize.least_squares(**least_squares(residuals, np.zeros(4))).x.round(6).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    slopes: Any = pb.jacobian(f, wrt=0, sparse=True) if sparse else pb.jacobian(f, wrt=0)

    def jac(x: Vector) -> Any:
        found = slopes(x, *args)
        return found.tocsr() if sparse else found

    return {"fun": lambda x: f(x, *args), "x0": np.asarray(x0, np.float64), "jac": jac}


def differential_equation(f: Any, y0: Any, *args: Any, sparse: bool = False) -> dict[str, Any]:
    """Arguments of `scipy.integrate.solve_ivp` for f(t, y, *args), with its Jacobian by y.

    Args:
        f: a traced function of the time, a vector and `args`.
        y0: the first state.
        sparse: whether the Jacobian is in CSR, as implicit methods take it.
    Returns:
        `fun`, `y0` and `jac`; methods that are not implicit warn where they are given a `jac`.

    >>> from scipy import integrate
    >>> @pb.function
    ... def decay(t: float, y):
    ...     return -100.0 * y
    >>> path = integrate.solve_ivp(t_span=(0, 1), method="BDF", **differential_equation(decay, np.ones(2)))
    >>> path.success
    True
    """
    slopes: Any = pb.jacobian(f, wrt=1, sparse=True) if sparse else pb.jacobian(f, wrt=1)

    def jac(t: float, y: Vector) -> Any:
        found = slopes(t, y, *args)
        return found.tocsr() if sparse else found

    return {"fun": lambda t, y: f(t, y, *args), "y0": np.asarray(y0, np.float64), "jac": jac}


def integrand(f: pb.Function, **dims: int) -> Any:
    """A function of an f64 vector as a `scipy.LowLevelCallable` for `quad` and `nquad`, without Python.

    Args:
        f: a traced function of one vector, x: f64[N], whose result is a number; or of one number.
        dims: those of the vector.
    Returns:
        The callable, of signature `double (int, double *)`. It may be called in several threads.
    Raises:
        TraceError: [E531] it is another kind of function.

    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> from scipy import integrate
    >>> @pb.function
    ... def product(x: Float64[Array, "2"]):
    ...     return x[0] * x[1] ** 2
    >>> integrate.nquad(integrand(product), [[0, 1], [0, 3]])[0]
    4.5
    """
    scipy = library("scipy", "an integrand")
    p = pointer(f, **dims)
    types = [(a.dtype, len(a.shape)) for a in (*p.inputs, *p.outputs)]
    if len(p.inputs) != 1 or len(p.outputs) != 1 or types[0] not in (("f64", 0), ("f64", 1)) or types[1] != ("f64", 0):
        raise TraceError("E531", f"{f.name}: an integrand is a function of one vector of f64 whose result is a number",
                         position=user_position(), facts=[str(f.type)],
                         remedy='`def f(x: Float64[Array, "N"])`')  # fmt: skip
    found = p.wrapped(_INTEGRAND)
    return scipy.LowLevelCallable(found, signature="double (int, double *)")


_INTEGRAND = """\
double wrapped(int n, double *x) {
    double value;
    (void)n;
    if (RUN(x, &value)) return NAN;
    return value;
}
"""
