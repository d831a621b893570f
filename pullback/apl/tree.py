"""Syntax trees of APL: a closed union of nodes, each with the place of its glyph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pullback.apl.errors import Spot


@dataclass(frozen=True, eq=False)
class Literal:
    """Numbers or characters that stand in the text, as a value."""

    value: Any
    spot: Spot


@dataclass(frozen=True, eq=False)
class Name:
    """A name, ⍺ and ⍵ and ∇ among them, and system names."""

    name: str
    spot: Spot


@dataclass(frozen=True, eq=False)
class Glyph:
    """A verb of the language."""

    glyph: str
    spot: Spot


@dataclass(frozen=True, eq=False)
class Strand:
    """Values side by side: a vector of them."""

    items: tuple[Node, ...]
    spot: Spot


@dataclass(frozen=True, eq=False)
class Indexed:
    """`a[i;j]`; None where an axis is taken whole."""

    array: Node
    indices: tuple[Node | None, ...]
    spot: Spot


@dataclass(frozen=True, eq=False)
class OnAxis:
    """`f[k]`: a verb, or one derived by an operator, along an axis."""

    verb: Node
    axis: Node
    spot: Spot


@dataclass(frozen=True, eq=False)
class Derived:
    """An operator with its operands; `right` is None for monadic operators."""

    operator: Node
    left: Node
    right: Node | None
    spot: Spot


@dataclass(frozen=True, eq=False)
class Train:
    """Two verbs, an atop, or three, a fork, whose first may be a value; longer trains nest to the right."""

    left: Node | None
    middle: Node
    right: Node
    spot: Spot
    left_is_value: bool = False


@dataclass(frozen=True, eq=False)
class Monadic:
    """A verb with its right argument."""

    verb: Node
    omega: Node
    spot: Spot


@dataclass(frozen=True, eq=False)
class Dyadic:
    """A verb between its arguments."""

    verb: Node
    alpha: Node
    omega: Node
    spot: Spot


@dataclass(frozen=True, eq=False)
class Assign:
    """A value or a verb under a name, or several values under several; `modify` is the verb of `x+←1`."""

    target: Node
    value: Node
    modify: Node | None
    spot: Spot


@dataclass(frozen=True, eq=False)
class Dfn:
    """`{…}`: its statements, and whether it is an operator (of how many operands)."""

    body: tuple[Statement, ...]
    operands: int
    spot: Spot
    text: str


Node = Literal | Name | Glyph | Strand | Indexed | OnAxis | Derived | Train | Monadic | Dyadic | Assign | Dfn


@dataclass(frozen=True, eq=False)
class Group:
    """Tokens that belong together, before names have their classes: `(…)`, `[…]`, `{…}` or a single token."""

    opening: str
    items: tuple[tuple[Group | Any, ...], ...]
    spot: Spot
    text: str = ""


@dataclass(eq=False)
class Statement:
    """A statement of a body. Its parse depends on its names' classes; `parsed` caches it.

    Attributes:
        items: its tokens and groups.
        guard: those before the colon, None where there is none.
        names: all names in it, whose classes the parse depends on.
    """

    items: tuple[Any, ...]
    guard: tuple[Any, ...] | None
    names: tuple[str, ...]
    spot: Spot
    parsed: dict[Any, Any]


def rightmost(node: Node) -> Name | None:
    """The name that an expression selects from, None where it selects from none."""
    match node:
        case Name():
            return node
        case Monadic() | Dyadic():
            return rightmost(node.omega)
        case Indexed():
            return rightmost(node.array)
        case Strand(items=(item,)):
            return rightmost(item)
        case _:
            return None


SELECTING: Final = (",⍪⌽⊖⍉⊃∊", "↑↓⌽⊖⍉⍴⊃⌷/⌿\\⍀")  # with one argument, and with two


def not_selecting(node: Node) -> Node | None:
    """The innermost verb around a name that selects none of its elements, None where all do."""
    match node:
        case Monadic() | Dyadic():
            verb: Any = node.verb
            while isinstance(verb, Derived) and isinstance(verb.operator, Glyph) and verb.operator.glyph == "¨":
                verb = verb.left
            verb = verb.verb if isinstance(verb, OnAxis) else verb
            selects = isinstance(verb, Glyph) and verb.glyph in SELECTING[isinstance(node, Dyadic)]
            return not_selecting(node.omega) or (None if selects else node.verb)
        case Indexed():
            return not_selecting(node.array)
        case Strand():
            return next((found for item in node.items if (found := not_selecting(item)) is not None), None)
        case _:
            return None
