r"""Operators, which derive verbs from verbs: / ⌿ \\ ⍀ ¨ ⍨ ⍣ . ∘ ⍤ ⍥ ⍛ ⌺ ⌸ @."""

from __future__ import annotations

from typing import Any

from pullback.apl import errors
from pullback.apl.functions import Atop, Bound, Verb
from pullback.apl.operators.at import At
from pullback.apl.operators.cells import Each, Rank
from pullback.apl.operators.compositions import Behind, Beside, Commute, Constantly, Over
from pullback.apl.operators.inverses import inverse
from pullback.apl.operators.key import Key
from pullback.apl.operators.parts import flattened, like
from pullback.apl.operators.power import Power
from pullback.apl.operators.products import Inner, Outer
from pullback.apl.operators.reductions import Reduce, Scan
from pullback.apl.operators.stencil import Stencil
from pullback.apl.reader import HYBRIDS
from pullback.apl.table import Settings
from pullback.apl.values import Value

__all__ = ["Reduce", "derive", "flattened", "like"]


def derive(glyph: str, left: Any, right: Any, s: Settings, axis: Value | None = None) -> Verb:
    """Return the verb that an APL operator derives from its operands.

    Raises:
        AplError: [E801] the operator does not take these operands.
    """
    if axis is not None and glyph not in HYBRIDS:
        raise errors.syntax(f"{glyph} takes no axis")
    lefts, rights = isinstance(left, Verb), isinstance(right, Verb)
    match glyph:
        case "/" | "⌿" if lefts:
            return Reduce(left, s, glyph == "⌿", axis)
        case "\\" | "⍀" if lefts:
            return Scan(left, s, glyph == "⍀", axis)
        case "⌸" if lefts:
            return Key(left, s)
        case "¨" if lefts:
            return Each(left)
        case "⍨":
            return Commute(left) if lefts else Constantly(left)
        case "∘" if lefts and rights:
            return Beside(left, right)
        case "∘" if lefts:
            return Bound(left, right=right)
        case "∘" if rights:
            return Bound(right, left=left)
        case "⍤" if lefts and rights:
            return Atop(left, right)
        case "⍤" if lefts:
            return Rank(left, right)
        case "⍥" if lefts and rights:
            return Over(left, right)
        case "⍛" if lefts and rights:
            return Behind(left, right)
        case "⍣" if lefts:
            return Power(left, right, lambda: inverse(left, s))
        case "." if lefts and rights:
            return Inner(left, right, s)
        case "∘." if rights:
            return Outer(right)
        case "⌺" if lefts and not rights:
            return Stencil(left, right)
        case "@":
            return At(left, right, s)
        case _:
            raise errors.syntax(f"{glyph} takes other operands")
