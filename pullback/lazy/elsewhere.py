"""Names of other libraries, with their replacements for lazy arrays."""

from __future__ import annotations

import re
from typing import Final

from pullback.errors import UnknownNameError
from pullback.source import user_position
from pullback.tracing import elsewhere

__all__ = ["TRACED", "remedy", "unknown"]

# functions of traced functions: lazy arrays use Python for that
_TRACED: Final = """
    lazy apl all_over any_over argmax_over argmin_over build checkpoint cond custom_derivative debug exact fold
    forward_backward function graph hessian hvp in_range jacfwd jacobian jacrev jvp max_over min_over minimize
    odeint prod_over root root_scalar scan search_over sum_over threads tree_dot tree_map vjp vmap
    while_loop Function Size Static distributions ravel
"""
TRACED: Final = frozenset(_TRACED.split())
_LOOP: Final = "a loop of Python; or `lazy.lift(f)` of a traced function that has one"
_NONE: Final = "nothing: only what is computed from a `lazy.Weight` or an argument of `lazy.grad` keeps anything"
_INSTEAD: Final = {
    "cond": "`if` of Python, which looks at the value",
    "switch": "`if` of Python, or a list of functions",
    "lax": "`if` and loops of Python",
    "fold": _LOOP, "scan": _LOOP, "while_loop": _LOOP, "build": _LOOP,
    "function": "nothing: what runs is compiled; `lazy.lift(f)` makes one operation of f",
    "hessian": "`lazy.grad` of a function that calls `lazy.grad`; or `lazy.lift(pb.hessian(f))`",
    "ravel": "`x.reshape(-1)`",
    "no_grad": _NONE, "inference_mode": _NONE, "eval": _NONE,
    "grad": "`grad` of a `lazy.Weight`, after `lazy.backward(loss)`; or `lazy.grad(f)`",
    "requires_grad": "`lazy.Weight(array)` is a cell that has a gradient",
    "requires_grad_": "`lazy.Weight(array)` is a cell that has a gradient",
    "retain_grad": "`lazy.grad(f)(x)` gives the gradient by x",
    "zero_grad": "`lazy.Trainer.update` forgets gradients; so does `w.grad = None`",
    "data": "`x.numpy()`, and `w.set_value(array)` of a weight",
    "copy_": "`w.set_value(array)` of a weight",
    "float": "`x.astype(lazy.float32)`",
    "dim": "`x.ndim`",
    "from_numpy": "`lazy.asarray(x)`",
    "parameters": "a list of the weights; `lazy.weights(tree)` makes them of arrays",
    "rand": "draw with NumPy: `lazy.asarray(r.random(n))`",
    "randn": "draw with NumPy: `lazy.asarray(r.normal(size=n))`",
    "randint": "draw with NumPy: `lazy.asarray(r.integers(0, k, n))`",
    "dropout": "`lazy.lift` of a network with `nn.dropout`, or a mask drawn with NumPy",
    "one_hot": "`np.eye(n)[labels]`",
    "cross_entropy": "`lazy.lift(nn.cross_entropy)`",
}  # fmt: skip


def remedy(name: str) -> str:
    """The replacement for a name that neither lazy arrays nor their namespace have."""
    own = elsewhere.EQUAL.get(name, name)
    found = _INSTEAD.get(name) or _INSTEAD.get(own)
    if found is not None:
        return found
    if own in TRACED:
        return f"`lazy.lift` of a traced function that uses `pb.{own}`"
    text = elsewhere.remedy(name).replace("pb.", "lazy.").replace("dir(pb)", "dir(lazy)")
    return re.sub(r"`pullback\.nn\.(\w+)`", r"`lazy.lift(nn.\1)`", text)


def unknown(what: str, name: str, found: str = "") -> UnknownNameError:
    """The error for an unknown name of an array or the namespace; `found` is the remedy, if known."""
    text = found if found and name not in _INSTEAD else remedy(name)
    return UnknownNameError("E146", f"{what} {name!r}", position=user_position(), remedy=text)
