"""Derivatives by PyTensor, the successor of Theano: reverse mode, compiled by Numba, its default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.systems.triangles import places_below

if TYPE_CHECKING:
    from benchmarks.derivatives import DerivativeCase

__all__ = ["FORMS", "prepare"]

# the dense Jacobian of the projection compiles for minutes
FORMS = {
    **dict.fromkeys(("dot", "max", "lse", "nnmf", "nnmf-10", "nnmf-50", "gmm"), ("grad",)),
    "plus": ("jacobian",),
    "scale": ("pushforward",),
    "blocks": ("two sums of all points",),
}


def _seen(pt: Any, p: Any, x: Any) -> list[Any]:
    """Both coordinates of all points, where each has its own copy of the camera."""
    turn, moved = p[:, 0:3], x - p[:, 3:6]
    r, z = ([a[:, j] for j in range(3)] for a in (turn, moved))
    f, center, k = p[:, 6], p[:, 7:9], p[:, 9:11]
    angle = pt.sqrt(r[0] ** 2 + r[1] ** 2 + r[2] ** 2)
    v = [a / angle for a in r]
    along = (v[0] * z[0] + v[1] * z[1] + v[2] * z[2]) * (1 - pt.cos(angle))
    across = [v[1] * z[2] - v[2] * z[1], v[2] * z[0] - v[0] * z[2], v[0] * z[1] - v[1] * z[0]]
    y = [z[j] * pt.cos(angle) + across[j] * pt.sin(angle) + v[j] * along for j in range(3)]
    e = [y[0] / y[2], y[1] / y[2]]
    q = e[0] ** 2 + e[1] ** 2
    return [e[j] * (1 + k[:, 0] * q + k[:, 1] * q * q) * f + center[:, j] for j in range(2)]


def _misfit(pt: Any, a: Any, p: Any) -> Any:
    return (pt.log(p) + a / p).sum()


def _density(pt: Any, mixture: Sequence[Any], x: Any, n: int) -> Any:
    """The logarithm of a mixture's posterior density without its constants, for points of n dimensions."""
    alpha, mu, q, l = mixture
    rows, columns = places_below(n)
    factor = pt.zeros((alpha.shape[0], n, n))
    factor = pt.set_subtensor(factor[:, range(n), range(n)], pt.exp(q))
    factor = pt.set_subtensor(factor[:, rows, columns], l)
    z = pt.matmul(x[None] - mu[:, None], factor.transpose(0, 2, 1))
    beta = (alpha + q.sum(axis=1))[:, None] - (z**2).sum(axis=2) / 2
    likelihood = pt.logsumexp(beta, axis=0).sum() - x.shape[0] * pt.logsumexp(alpha)
    return likelihood - (factor**2).sum() / 2


def _derivatives(pytensor: Any, name: str, n: int, given: Sequence[Any]) -> Any:
    """The derivatives as expressions of the inputs."""
    pt, grad = pytensor.tensor, pytensor.gradient.grad
    match name, given:
        case "dot", (v, w):
            return grad(pt.dot(v, w), [v, w])
        case "max", (v,):
            return grad(v.max(), v)
        case "plus", (v, w):
            return pytensor.gradient.jacobian(v + w, v, vectorize=True)
        case "scale", (s, v):
            return pytensor.gradient.pushforward(s * v, s, pt.ones(()))
        case "lse", (v,):
            return grad(pt.logsumexp(v), v)
        case "nnmf", (a, w, h):
            return grad(_misfit(pt, a, pt.outer(w, h)), [w, h])
        case (("nnmf-10" | "nnmf-50"), (a, w, h)):
            return grad(_misfit(pt, a, w @ h), [w, h])
        case "gmm", (*mixture, x):
            return grad(_density(pt, mixture, x, n), mixture)
        case "blocks", (p, x):
            cameras = pt.broadcast_to(p, (x.shape[0], 11))
            rows = [grad(seen.sum(), [cameras, x]) for seen in _seen(pt, cameras, x)]
            return [pt.stack(both, axis=1) for both in zip(*rows, strict=True)]
    raise AssertionError(name)


def prepare(case: DerivativeCase, n: int, form: str) -> Callable[[], Any]:
    """A call of the compiled function, which trusts the types of its inputs."""
    pytensor = import_module("pytensor")
    for part in ("tensor", "gradient"):
        import_module(f"pytensor.{part}")
    arrays = case.make(n)
    given = [pytensor.tensor.tensor(f"x{k}", dtype="float64", shape=(None,) * a.ndim) for k, a in enumerate(arrays)]
    made = _derivatives(pytensor, case.name, n, given)
    function = pytensor.function(given, made, trust_input=True)
    if isinstance(made, list | tuple):
        return lambda: tuple(function(*arrays))
    return lambda: function(*arrays)
