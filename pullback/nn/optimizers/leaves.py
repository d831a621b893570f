"""Arrays of a tree by name: `conv1/w` is the leaf `w` of the subtree `conv1`.

Optimizers work on these leaves, for any kind of tree. Leaves that are None, such as gradients of frozen parameters,
are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from pullback.errors import DTypeError, PullbackError, ShapeError, TraceError
from pullback.nn.parameters import names_of
from pullback.nn.settings import listed
from pullback.source import user_position
from pullback.tracing import tree
from pullback.tracing.arithmetic import dtype_from
from pullback.tracing.array import Array, shape_text
from pullback.tracing.tree import NONE, Structure

__all__ = ["Leaves", "check_floating", "check_gradients", "leaves_of", "rebuilt"]

Leaves = dict[str, Any]
ALONE = "parameters"  # the name of a parameter that is not in a tree


def leaves_of(x: Any) -> Leaves:
    """The leaves of a tree by name, in the tree's order.

    Raises:
        ShapeError: [E139] two leaves have the same name.
    """
    values, structure = tree.flatten(x)
    names = names_of(structure, ALONE)
    if len(set(names)) < len(names):
        double = next(n for n in names if names.count(n) > 1)
        raise ShapeError(
            "E139",
            f"two leaves of a tree are called {double}",
            position=user_position(),
            remedy="keys without /",
        )
    return dict(zip(names, values))


def rebuilt(x: Any, leaves: Mapping[str, Any]) -> Any:
    """Rebuild a tree like x from these leaves, with None for missing ones."""
    structure = tree.flatten(x)[1]
    names = names_of(structure, ALONE)
    return tree.unflatten(_pruned(structure, "", leaves), [leaves[n] for n in names if n in leaves])


def _pruned(s: Structure, name: str, leaves: Mapping[str, Any]) -> Structure:
    if s.kind == "leaf":
        return s if (name or ALONE) in leaves else NONE
    parts = tuple(_pruned(c, f"{name}/{key}" if name else str(key), leaves) for key, c in zip(s.keys, s.children))
    if s.kind == "complex" and NONE in parts:
        return NONE
    return dataclasses.replace(s, children=parts)


def check_floating(leaves: Leaves, where: str) -> None:
    """Refuse parameters that are not floating-point.

    Raises:
        DTypeError: [E121] a parameter is not floating-point.
    """
    wrong = [f"{n} : {_type(x)}" for n, x in leaves.items() if not dtype_from(_dtype(x)).is_floating]
    if wrong:
        raise DTypeError(
            "E121",
            f"{where}: parameters that are not floating-point have no gradient",
            position=user_position(),
            facts=wrong,
            remedy=f"leave them out, or `nn.freeze({wrong[0].split(' : ')[0]!r}) >> ...`",
        )


def check_gradients(gradients: Leaves, parameters: Leaves, where: str) -> None:
    """Refuse gradients that do not match the parameters.

    Raises:
        ShapeError, DTypeError: [E139] gradients and parameters differ; the differences are listed.
    """
    missing = [n for n in parameters if n not in gradients]
    extra = [n for n in gradients if n not in parameters]
    if missing or extra:
        facts = [f"without gradient: {listed(missing)}"] if missing else []
        facts += [f"no parameter: {listed(extra)}"] if extra else []
        raise _differ(
            ShapeError,
            f"{where}: the gradients are not those of the parameters",
            facts,
            "`pb.grad` of these parameters",
        )
    for name, p in parameters.items():
        g = gradients[name]
        fact = [f"parameter : {_type(p)}", f"gradient : {_type(g)}"]
        if _shape(p) != _shape(g):
            raise _differ(ShapeError, f"{where}: the gradient of {name} has another shape", fact, None)
        if _dtype(p) != _dtype(g):
            raise _differ(DTypeError, f"{where}: the gradient of {name} has another element type", fact, "`astype`")


def foreign_state(where: str, what: str) -> TraceError:
    """The error for a state that does not belong to this optimizer and these parameters."""
    return TraceError(
        "E139",
        f"{where}: the state has no {what}",
        position=user_position(),
        remedy="a state that `init` of the same optimizer made for the same parameters",
    )


def _differ(kind: type[PullbackError], what: str, facts: list[str], remedy: str | None) -> PullbackError:
    return kind("E139", what, position=user_position(), facts=facts, remedy=remedy)


def _shape(x: Any) -> tuple[Any, ...]:
    return tuple(x.extents) if isinstance(x, Array) else np.shape(x)


def _dtype(x: Any) -> Any:
    return x.settled if isinstance(x, Array) else dtype_from(np.asarray(x).dtype)


def _type(x: Any) -> str:
    extents = shape_text(x.extents) if isinstance(x, Array) else f"[{', '.join(map(str, np.shape(x)))}]"
    return f"{_dtype(x)}{extents}"
