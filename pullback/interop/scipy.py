"""Adapters of traced functions for SciPy's solvers, with derivatives.

`minimization` returns the arguments of `scipy.optimize.minimize`, also for functions of trees of arrays.
`least_squares` returns those of `scipy.optimize.least_squares`, and `differential_equation` those of `solve_ivp`.
`integrand` returns a function that `quad` and `nquad` call without Python.
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
    """Conversion of trees of arrays to f64 vectors and back.

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
        """Concatenate the elements of all leaves to a vector."""
        leaves, _ = tree.flatten(x)
        return np.concatenate([np.asarray(a, np.float64).reshape(-1) for a in leaves]) if leaves else np.zeros(0)

    def tree(self, v: Vector) -> Any:
        """Rebuild the tree from a vector; f64 leaves are views of it."""
        parts = [v[end - a.size : end].reshape(a.shape).astype(a.dtype, copy=False)
                 for a, end in zip(self.arrays, self.ends)]  # fmt: skip
        return tree.unflatten(self.structure, parts)


def minimization(f: Any, x0: Any, *args: Any, hessian: bool = False) -> dict[str, Any]:
    """Arguments of `scipy.optimize.minimize` for a function of a tree: value, gradient, Hessian products.

    Args:
        f: a function of a tree of floating-point arrays, and of `args`, whose result is one number.
        x0: the starting point: an array, or a tree of arrays.
        hessian: whether to include Hessian-vector products, for Newton-type methods.
    Returns:
        `fun`, `x0`, `jac`, and `hessp` on request. SciPy returns vectors; `Vectors(x0).tree(found.x)` converts them.

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
        f: a function of an f64 vector and of `args`, whose result is a vector.
        x0: the starting point.
        sparse: whether the Jacobian omits structural zeros.
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
    """Arguments of `scipy.integrate.solve_ivp` for f(t, y, *args), with its Jacobian with respect to y.

    Args:
        f: a traced function of the time, a vector and `args`.
        y0: the initial state.
        sparse: whether the Jacobian is in CSR format, which implicit methods accept.
    Returns:
        `fun`, `y0` and `jac`. Explicit methods do not use `jac` and warn about it.

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
    """Turn a function of an f64 vector into a `scipy.LowLevelCallable` for `quad` and `nquad`.

    Args:
        f: a traced function of one vector `x: f64[N]`, or of one number, whose result is a number.
        dims: the dims of the vector.
    Returns:
        The callable, with signature `double (int, double *)`. It runs without Python; several threads may call it.
    Raises:
        TraceError: [E531] the function is of another kind.

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
