"""Syntax trees of APL: a closed union of nodes, each with the place of its glyph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pullback.apl.errors import Spot


@dataclass(frozen=True, eq=False)
class Literal:
    """A literal: numbers or characters in the text, as a value."""

    value: Any
    spot: Spot


@dataclass(frozen=True, eq=False)
class Name:
    """A name, including ⍺, ⍵, ∇ and system names."""

    name: str
    spot: Spot


@dataclass(frozen=True, eq=False)
class Glyph:
    """A verb of the language."""

    glyph: str
    spot: Spot


@dataclass(frozen=True, eq=False)
class Strand:
    """A strand: adjacent values that form a vector."""

    items: tuple[Node, ...]
    spot: Spot


@dataclass(frozen=True, eq=False)
class Indexed:
    """An indexed value `a[i;j]`; None selects a whole axis."""

    array: Node
    indices: tuple[Node | None, ...]
    spot: Spot


@dataclass(frozen=True, eq=False)
class OnAxis:
    """A verb or derived verb along an axis: `f[k]`."""

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
    """An atop of two verbs, or a fork of three, whose first may be a value; longer trains nest rightward."""

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
    """An assignment of a value or verb to one or several names; `modify` is the verb of `x+←1`."""

    target: Node
    value: Node
    modify: Node | None
    spot: Spot


@dataclass(frozen=True, eq=False)
class Dfn:
    """A dfn `{…}`: its statements, and the number of operands if it is an operator."""

    body: tuple[Statement, ...]
    operands: int
    spot: Spot
    text: str


@dataclass(frozen=True, eq=False)
class Definition:
    """A ∇-definition: its header, the statements of its lines in order, and its text."""

    header: Any
    body: tuple[Statement, ...]
    spot: Spot
    text: str


Node = (
    Literal | Name | Glyph | Strand | Indexed | OnAxis | Derived | Train | Monadic | Dyadic | Assign | Dfn | Definition
)


@dataclass(frozen=True, eq=False)
class Group:
    """A group of tokens before name classes are known: `(…)`, `[…]`, `{…}` or a single token."""

    opening: str
    items: tuple[tuple[Group | Any, ...], ...]
    spot: Spot
    text: str = ""


@dataclass(eq=False)
class Statement:
    """A statement of a body. Its parse depends on its names' classes; `parsed` caches it.

    Attributes:
        items: its tokens and groups.
        guard: the tokens before the colon; None without a colon. Those before :In for the control word :For.
        names: all names in the statement, whose classes the parse depends on.
        word: the control word that it begins with, such as "If", or "→"; only in ∇-definitions.
        label: the label before it; only in ∇-definitions.
    """

    items: tuple[Any, ...]
    guard: tuple[Any, ...] | None
    names: tuple[str, ...]
    spot: Spot
    parsed: dict[Any, Any]
    word: str = ""
    label: str = ""


def rightmost(node: Node) -> Name | None:
    """Return the name that an expression selects from, or None."""
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


SELECTING: Final = (",⍪⌽⊖⍉⊃∊", "↑↓⌽⊖⍉⍴⊃⌷/⌿\\⍀")  # the monadic and the dyadic ones


def not_selecting(node: Node) -> Node | None:
    """Return the innermost verb around a name that is not a selection; None if all are."""
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
