"""Derivatives by Pullback: the traced function is called with `out=`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

import pullback as pb
from benchmarks.gradbench.workloads import program_of
from pullback import Array

if TYPE_CHECKING:
    from benchmarks.derivatives import DerivativeCase

__all__ = ["FORMS", "FUNCTIONS", "PROGRAMS", "prepare"]

Vector = Float64[Array, "N"]


@pb.function
def _dot(v: Vector, w: Vector) -> Any:
    return pb.sum_over(v.shape[0], lambda i: v[i] * w[i])


@pb.function
def _max(v: Vector) -> Any:
    return pb.max(v)


@pb.function
def _plus(v: Vector, w: Vector) -> Any:
    return v + w


@pb.function
def _scale(s: Float64[Array, ""], v: Vector) -> Any:
    return s * v


@pb.function
def _log_sum_exp(v: Vector) -> Any:
    largest = pb.max(v)
    return largest + pb.log(pb.sum(pb.exp(v - largest)))


def _misfit(a: Any, p: Any) -> Any:
    """The negative log-likelihood under exponential distributions with means p (paper 003, section 5)."""
    return pb.sum(pb.log(p) + a / p)


@pb.function
def _nnmf(a: Float64[Array, "M N"], w: Float64[Array, "M"], h: Vector) -> Any:
    return _misfit(a, pb.linalg.outer(w, h))


@pb.function
def _nnmf_rank(a: Float64[Array, "M N"], w: Float64[Array, "M K"], h: Float64[Array, "K N"]) -> Any:
    return _misfit(a, w @ h)


@pb.function
def _project_point(p: Float64[Array, "11"], x: Float64[Array, "3"]) -> Any:
    """Rodrigues' rotation of x - c, the pinhole and radial distortion (paper 003, section 5)."""
    r, c, f, center, k = p[0:3], p[3:6], p[6], p[7:9], p[9:11]
    angle = pb.sqrt(pb.sum(r * r))
    v, z = r / angle, x - c
    cross = pb.stack([v[1] * z[2] - v[2] * z[1], v[2] * z[0] - v[0] * z[2], v[0] * z[1] - v[1] * z[0]])
    y = z * pb.cos(angle) + cross * pb.sin(angle) + v * (pb.sum(v * z) * (1 - pb.cos(angle)))
    e = y[0:2] / y[2]
    q = pb.sum(e * e)
    return e * (1 + k[0] * q + k[1] * q * q) * f + center


_of_point = pb.jacobian(_project_point, wrt=(0, 1))


@pb.function
def _blocks(p: Float64[Array, "11"], x: Float64[Array, "N 3"]) -> Any:
    return pb.vmap(_of_point, in_axes=(None, 0))(p, x)


@pb.function
def _project(p: Float64[Array, "11"], x: Float64[Array, "N 3"]) -> Any:
    return pb.vmap(_project_point, in_axes=(None, 0))(p, x)


@pb.function
def _gmm(
    alpha: Float64[Array, "K"], mu: Float64[Array, "K D"], q: Float64[Array, "K D"], l: Float64[Array, "K T"],
    x: Float64[Array, "N D"],
) -> Any:  # fmt: skip
    """The logarithm of a mixture's posterior density, without its constants."""
    program = program_of("gmm")
    return program.objective(program.Mixture(alpha, mu, q, l), x, 0.0, 1.0, 0.0)


PROGRAMS = {
    "dot": _dot,
    "max": _max,
    "plus": _plus,
    "scale": _scale,
    "lse": _log_sum_exp,
    "nnmf": _nnmf,
    "nnmf-10": _nnmf_rank,
    "project": _project,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "dot": pb.grad(_dot, wrt=(0, 1)),
    "max": pb.grad(_max),
    "plus": pb.jacobian(_plus),
    "scale": pb.jacobian(_scale),
    "lse": pb.grad(_log_sum_exp),
    "nnmf": pb.grad(_nnmf, wrt=(1, 2)),
    "nnmf-10": pb.grad(_nnmf_rank, wrt=(1, 2)),
    "nnmf-50": pb.grad(_nnmf_rank, wrt=(1, 2)),
    "gmm": pb.grad(_gmm, wrt=(0, 1, 2, 3)),
    "project": pb.jacobian(_project, wrt=(0, 1)),
    "blocks": _blocks,
}
FORMS = dict.fromkeys(FUNCTIONS, ("function",))


def prepare(case: DerivativeCase, n: int, form: str) -> Callable[[], Any]:
    """A call of the compiled function that writes its results into the same arrays each time."""
    function, arguments = FUNCTIONS[case.name], case.make(n)
    made = tuple(np.empty(shape) for shape in case.outputs(n))
    out = made[0] if len(made) == 1 else made
    function(*arguments, out=out)
    return lambda: function(*arguments, out=out)
