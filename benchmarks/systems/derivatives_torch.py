"""Derivatives by PyTorch: eager reverse mode for gradients, `torch.func` for Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.environment import allowed_threads
from benchmarks.systems.triangles import places_below

if TYPE_CHECKING:
    from benchmarks.derivatives import DerivativeCase

__all__ = ["FORMS", "prepare"]

FORMS = {
    **dict.fromkeys(("dot", "max", "lse", "nnmf", "nnmf-10", "nnmf-50", "gmm"), ("autograd.grad",)),
    **dict.fromkeys(("plus", "scale", "project", "blocks"), ("jacfwd", "jacrev")),
}


def _point(torch: Any, p: Any, x: Any) -> Any:
    r, c, f, center, k = p[0:3], p[3:6], p[6], p[7:9], p[9:11]
    angle = torch.sqrt(r @ r)
    v, z = r / angle, x - c
    y = z * torch.cos(angle) + torch.linalg.cross(v, z) * torch.sin(angle) + v * (v @ z) * (1 - torch.cos(angle))
    e = y[0:2] / y[2]
    q = e @ e
    return e * (1 + k[0] * q + k[1] * q * q) * f + center


def _density(torch: Any, alpha: Any, mu: Any, q: Any, l: Any, x: Any) -> Any:
    """The logarithm of a mixture's posterior density without its constants."""
    n = x.shape[1]
    rows, columns = places_below(n)
    factor = torch.zeros(len(alpha), n, n, dtype=x.dtype)
    factor[:, range(n), range(n)] = torch.exp(q)
    factor[:, rows, columns] = l
    z = torch.einsum("kij,nkj->nki", factor, x[:, None] - mu)
    beta = alpha + q.sum(1) - (z**2).sum(2) / 2
    likelihood = torch.logsumexp(beta, 1).sum() - len(x) * torch.logsumexp(alpha, 0)
    return likelihood - (factor**2).sum() / 2


def _gradient(torch: Any, f: Callable[..., Any], wrt: tuple[int, ...]) -> Callable[..., Any]:
    def gradient(*arguments: Any) -> Any:
        made = torch.autograd.grad(f(*arguments), [arguments[k] for k in wrt])
        return made if len(wrt) > 1 else made[0]

    gradient.wrt = wrt  # type: ignore[attr-defined]
    return gradient


def _function(torch: Any, name: str, form: str) -> Callable[..., Any]:
    jacobian = torch.func.jacrev if form == "jacrev" else torch.func.jacfwd

    def misfit(a: Any, p: Any) -> Any:
        return (torch.log(p) + a / p).sum()

    def project(p: Any, x: Any) -> Any:
        return torch.func.vmap(lambda q: _point(torch, p, q))(x)

    blocks = torch.func.vmap(jacobian(lambda p, x: _point(torch, p, x), argnums=(0, 1)), (None, 0))
    functions: dict[str, Callable[..., Any]] = {
        "dot": _gradient(torch, lambda v, w: v @ w, (0, 1)),
        "max": _gradient(torch, lambda v: v.max(), (0,)),
        "plus": jacobian(lambda v, w: v + w),
        "scale": jacobian(lambda s, v: s * v),
        "lse": _gradient(torch, lambda v: torch.logsumexp(v, 0), (0,)),
        "nnmf": _gradient(torch, lambda a, w, h: misfit(a, torch.outer(w, h)), (1, 2)),
        "nnmf-10": _gradient(torch, lambda a, w, h: misfit(a, w @ h), (1, 2)),
        "nnmf-50": _gradient(torch, lambda a, w, h: misfit(a, w @ h), (1, 2)),
        "gmm": _gradient(torch, lambda *given: _density(torch, *given), (0, 1, 2, 3)),
        "project": jacobian(project, argnums=(0, 1)),
        "blocks": blocks,
    }
    return functions[name]


def prepare(case: DerivativeCase, n: int, form: str) -> Callable[[], Any]:
    """A call on tensors that share the inputs' memory."""
    torch = import_module("torch")
    torch.set_num_threads(allowed_threads())
    function = _function(torch, case.name, form)
    arguments = [torch.from_numpy(a) for a in case.make(n)]
    for k in getattr(function, "wrt", ()):
        arguments[k].requires_grad_()
    return lambda: function(*arguments)
