"""Names of other libraries, with their replacements for lazy arrays."""

from __future__ import annotations

import re
from typing import Final

from pullback.errors import UnknownNameError
from pullback.source import user_position
from pullback.tracing import elsewhere

__all__ = ["TRACED", "remedy", "unknown"]

# control flow of traced functions, for which lazy arrays use Python
_TRACED: Final = """
    lazy apl all_over any_over argmax_over argmin_over build checkpoint cond custom_derivative debug exact fold
    forward_backward function graph hessian hvp in_range jacfwd jacobian jacrev jvp max_over min_over minimize
    odeint prod_over root root_scalar scan search_over sum_over threads tree_dot tree_map vjp vmap
    while_loop Function Size Static distributions
"""
TRACED: Final = frozenset(_TRACED.split())


def remedy(name: str) -> str:
    """The replacement for a name that is missing in lazy arrays and their namespace."""
    own = elsewhere.words("names", "pullback").get(name, name)
    table = elsewhere.words("instead", "lazy")
    if found := table.get(name) or table.get(own):
        return str(found)
    if own in TRACED:
        return f"`lazy.lift` of a traced function that uses `pb.{own}`"
    text = elsewhere.remedy(name).replace("pb.", "lazy.").replace("dir(pb)", "dir(lazy)")
    return re.sub(r"`pullback\.nn\.(\w+)`", r"`lazy.lift(nn.\1)`", text)


def unknown(what: str, name: str, found: str = "") -> UnknownNameError:
    """The error for an unknown name of an array or the namespace; `found` is the remedy, if known."""
    text = found if found and name not in elsewhere.words("instead", "lazy") else remedy(name)
    return UnknownNameError("E146", f"{what} {name!r}", position=user_position(), remedy=text)
