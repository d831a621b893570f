"""The parser of APL: right-to-left binding of tokens into a tree.

Brackets are grouped first, and each statement is stored as tokens. The meaning of a statement depends on whether its
names are values, verbs or operators. So it is parsed when it first runs, with the classes its names have then.

    bind      adjacent values form a vector; a[i] is an element; operators take the verb or value to their left
    phrase    then verbs take everything to their right, and the single value to their left
    train     if there is no value at the right end, the verbs form a train
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from typing import Literal as Choice

import numpy as np

from pullback.apl import errors
from pullback.apl.definitions import Source
from pullback.apl.errors import Spot, syntax
from pullback.apl.reader import HYBRIDS, MONADIC_OPERATORS, VERBS, Token
from pullback.apl.tree import (
    Assign,
    Definition,
    Derived,
    Dfn,
    Dyadic,
    Glyph,
    Group,
    Indexed,
    Literal,
    Monadic,
    Name,
    Node,
    OnAxis,
    Statement,
    Strand,
    Train,
    not_selecting,
    rightmost,
)
from pullback.apl.values import literal_vector

Class = Choice["value", "verb", "monadic operator", "dyadic operator"]
Classes = Callable[..., "Class | None"]  # of a name; with `own=True` among the names of this scope alone

Item = Token | Group | Dfn | Definition

DEEPEST = 150  # nested brackets


@dataclass(frozen=True)
class Unit:
    """A bound piece of a statement."""

    kind: Class | Choice["arrow"]
    node: Node
    spot: Spot


# Grouping -----------------------------------------------------------------------------------------------------


def statements(found: Sequence[Token]) -> list[Statement]:
    """Split a text into statements.

    Raises:
        AplError: [E801] brackets do not match.
    """
    made, at = _statements(found, 0, None, 0)
    assert at == len(found)
    return made


def _statements(found: Sequence[Token], at: int, opened: Token | None, depth: int) -> tuple[list[Statement], int]:
    made: list[Statement] = []
    items: list[Item] = []
    guard: list[Item] | None = None
    while True:
        if at == len(found):
            if opened is not None:
                raise syntax("{ is not closed", opened.spot, "a } for every {")
            return made, at
        token = found[at]
        ends = token.kind == "end" or (opened is not None and token.text == "}" and token.kind == "mark")
        if ends:
            if items or guard is not None:
                made.append(_statement(items, guard, token.spot))
                items, guard = [], None
            at += 1
            if token.kind != "end":
                return made, at
        elif token.kind == "mark" and token.text == ":":
            if guard is not None or not items:
                raise _misplaced_colon(found, at, bool(items or guard))
            guard, items = items, []
            at += 1
        else:
            item, at = _item(found, at, depth)
            items.append(item)


WORDS: Final = {
    word.upper(): word
    for words in (("If", "ElseIf", "Else", "AndIf", "OrIf", "EndIf"), ("While", "EndWhile"), ("For", "EndFor"),
                  ("Repeat", "Until", "EndRepeat"), ("Select", "Case", "CaseList", "EndSelect"),
                  ("Return", "Leave", "Continue", "GoTo", "End"))
    for word in words
}  # fmt: skip
UNKNOWN_WORDS: Final = frozenset(
    ("TRAP", "ENDTRAP", "WITH", "ENDWITH", "HOLD", "ENDHOLD", "NAMESPACE", "CLASS", "SECTION", "ENDSECTION")
)


def _word(found: Sequence[Token], at: int) -> str | None:
    """Return the control word, in capitals, of a colon and a name; None for other tokens."""
    name = found[at + 1] if at + 1 < len(found) else None
    is_word = found[at].text == ":" and found[at].kind == "mark" and name is not None and name.kind == "name"
    return name.text.upper() if is_word and name is not None else None


def lines_of(source: Source) -> tuple[Statement, ...]:
    """Return the statements of the lines of a ∇-definition, with their labels and control words.

    Raises:
        AplError: [E801] brackets do not match, or a control word is unknown.
    """
    made: list[Statement] = []
    found, at = source.body, 0
    while at < len(found):
        statement, at = _line(found, at)
        if statement is not None:
            made.append(statement)
    return tuple(made)


def _line(found: Sequence[Token], at: int) -> tuple[Statement | None, int]:
    """Return one statement of a ∇-definition, with its label and control word, and the next position."""
    first = found[at]
    label = word = ""
    if first.kind == "name" and found[at + 1].text == ":" and _word(found, at + 1) not in ("IN", "INEACH"):
        label, at = first.text, at + 2
    if (name := _word(found, at)) is not None:
        if name not in WORDS:
            what = "is not supported" if name in UNKNOWN_WORDS else "is no control word"
            raise syntax(f":{found[at + 1].text} {what}", found[at].spot, ":If :For :While :Repeat :Select :Return …")
        word, at = WORDS[name], at + 2
    elif found[at].text == "→":
        word, at = "→", at + 1
    items: list[Item] = []
    before: tuple[Any, ...] | None = None
    while found[at].kind != "end":
        name = _word(found, at)
        if word == "For" and before is None and name in ("IN", "INEACH"):
            word, before, items, at = "For" if name == "IN" else "ForEach", tuple(items), [], at + 2
        elif name in ("ANDIF", "ORIF") and items:
            at -= 1  # the next statement begins here
            break
        elif found[at].text == ":" and found[at].kind == "mark":
            raise syntax("a guard stands in a dfn", found[at].spot, ":If … :EndIf")
        else:
            item, at = _item(found, at, 0)
            items.append(item)
    if not (items or label or word):
        return None, at + 1
    return Statement(tuple(items), before, tuple(_names(items)), first.spot, {}, word, label), at + 1


def _misplaced_colon(found: Sequence[Token], at: int, behind_guard: bool) -> errors.AplError:
    spot = found[at].spot
    if behind_guard and found[at - 1].text == ":":
        return syntax("there are no error guards", spot, "a test before what may fail, as in {⍵=0:… ⋄ ÷⍵}")
    if not behind_guard and (name := _word(found, at)) is not None and name in {*WORDS, *UNKNOWN_WORDS}:
        remedy = "∇ r←f x, the lines, and ∇; a guard {test:value ⋄ …} chooses in a dfn"
        return syntax(f":{found[at + 1].text} stands outside of a ∇-definition", spot, remedy)
    return syntax("a guard is `condition:value`", spot)


def _statement(items: Sequence[Item], guard: Sequence[Item] | None, end: Spot) -> Statement:
    everything = [*(guard or ()), *items]
    if not items:
        raise syntax("nothing stands after the colon", end)
    return Statement(
        tuple(items), None if guard is None else tuple(guard), tuple(_names(everything)), _spot(everything[0]), {}
    )


def _names(items: Sequence[Item]) -> list[str]:
    found: dict[str, None] = {}
    for item in items:
        if isinstance(item, Group):
            for part in item.items:
                found.update(dict.fromkeys(_names(part)))
        elif isinstance(item, Token) and item.kind == "name":
            found[item.text] = None
    return list(found)


def _item(found: Sequence[Token], at: int, depth: int) -> tuple[Item, int]:
    token = found[at]
    if token.kind == "definition":
        return Definition(token.value.header, lines_of(token.value), token.spot, token.value.text), at + 1
    if token.kind != "mark" or token.text == "←":
        return token, at + 1
    if token.text == "→":
        raise syntax("→ stands at the beginning of a line of a ∇-definition", token.spot)
    if token.text not in "([{":
        raise syntax(
            f"{token.text} closes nothing" if token.text in ")]}" else f"{token.text} stands outside of brackets",
            token.spot,
        )
    if depth > DEEPEST:
        raise syntax(f"more than {DEEPEST} brackets inside one another", token.spot)
    if token.text == "{":
        return _dfn(found, at, depth)
    return _group(found, at, depth)


def _dfn(found: Sequence[Token], at: int, depth: int) -> tuple[Dfn, int]:
    body, end = _statements(found, at + 1, found[at], depth + 1)
    own = _own_names(found[at + 1 : end - 1])
    operands = 2 if "⍵⍵" in own else 1 if "⍺⍺" in own else 0
    return Dfn(tuple(body), operands, found[at].spot, _text(found, at, end)), end


def _own_names(found: Sequence[Token]) -> set[str]:
    """Return the names used in a dfn, without its inner dfns."""
    depth, own = 0, set[str]()
    for t in found:
        depth += (t.text == "{") - (t.text == "}") if t.kind == "mark" else 0
        if depth == 0 and t.kind == "name":
            own.add(t.text)
    return own


def _text(found: Sequence[Token], at: int, end: int) -> str:
    first, last = found[at].spot, found[end - 1].spot
    if first.line == last.line:
        return first.source_line[first.column - 1 : last.end_column - 1]
    lines = dict.fromkeys((t.spot.line, t.spot.source_line) for t in found[at:end])
    texts = [text for _, text in lines]
    return "\n".join([texts[0][first.column - 1 :], *texts[1:-1], texts[-1][: last.end_column - 1]])


def _group(found: Sequence[Token], at: int, depth: int) -> tuple[Group, int]:
    opening = found[at]
    closing = {"(": ")", "[": "]"}[opening.text]
    parts: list[tuple[Item, ...]] = []
    items: list[Item] = []
    at += 1
    while at < len(found):
        token = found[at]
        if token.kind == "mark" and token.text == closing:
            parts.append(tuple(items))
            return Group(opening.text, tuple(parts), opening.spot), at + 1
        if token.kind == "mark" and token.text == ";" and closing == "]":
            parts.append(tuple(items))
            items = []
            at += 1
        elif token.kind == "end":
            break
        else:
            item, at = _item(found, at, depth + 1)
            items.append(item)
    raise syntax(f"{opening.text} is not closed", opening.spot, f"a {closing} on the same line")


def _spot(item: Item) -> Spot:
    return item.spot


# Parsing ------------------------------------------------------------------------------------------------------


def parse(items: Sequence[Item], class_of: Classes) -> Unit:
    """Parse a statement to a tree, for names of these classes.

    Raises:
        AplError: [E801] the statement is not an expression.
    """
    return _phrase(_bind(items, class_of))


def _bind(items: Sequence[Item], class_of: Classes) -> list[Unit]:
    """Bind strands, indices and operators, which bind more strongly than verbs."""
    units = _strands(_primaries(items, class_of))
    bound: list[Unit] = []
    at = 0
    while at < len(units):
        unit = units[at]
        at += 1
        if at < len(units) and units[at].kind == "arrow" and isinstance(unit.node, Name):
            bound.append(unit)  # a name that is assigned
        elif at == len(units) and unit.kind.endswith("operator") and (not bound or bound[-1].kind == "arrow"):
            bound.append(unit)  # a lone operator, to be assigned to a name
        elif unit.kind == "monadic operator" or _is_hybrid(unit):
            left = bound[-1] if bound else None
            if left is not None and left.kind == "verb" and not (_is_hybrid(left) and _is_hybrid(unit)):
                bound[-1] = Unit("verb", Derived(unit.node, left.node, None, unit.spot), unit.spot)
            elif _is_hybrid(unit):
                bound.append(Unit("verb", unit.node, unit.spot))
            elif left is not None and left.kind == "value" and _takes_value(unit):
                bound[-1] = Unit("verb", Derived(unit.node, left.node, None, unit.spot), unit.spot)
            else:
                raise syntax("the operator has no verb to its left", unit.spot)
        elif unit.kind == "dyadic operator":
            operand = at < len(units) and (units[at].kind in ("value", "verb") or _is_hybrid(units[at]))
            if operand and _is_outer(unit):
                left = Unit("verb", unit.node, unit.spot)
            elif operand and bound:
                left = bound.pop()
            else:
                side = "left" if at < len(units) else "right"
                raise syntax(f"the operator has no operand to its {side}", unit.spot)
            if left.kind not in ("value", "verb"):
                raise syntax("the operator has no operand to its left", unit.spot)
            right = units[at]
            at += 1
            bound.append(Unit("verb", Derived(unit.node, left.node, right.node, unit.spot), unit.spot))
        else:
            bound.append(unit)
    return bound


def _is_hybrid(unit: Unit) -> bool:
    r"""Whether a unit is one of / ⌿ \ ⍀, which are verbs if there is no verb to their left."""
    node = unit.node.verb if isinstance(unit.node, OnAxis) else unit.node
    return isinstance(node, Glyph) and node.glyph in HYBRIDS


def _is_outer(unit: Unit) -> bool:
    return isinstance(unit.node, Glyph) and unit.node.glyph == "∘."


def _takes_value(unit: Unit) -> bool:
    """Whether a value may be the operand: true for ⍨ and user-defined operators."""
    return not isinstance(unit.node, Glyph) or unit.node.glyph == "⍨"


def _primaries(items: Sequence[Item], class_of: Classes) -> list[Unit]:
    """Join each item with the index brackets that follow it."""
    made: list[Unit] = []
    at = 0
    while at < len(items):
        item = items[at]
        at += 1
        assigned = isinstance(item, Group) and at < len(items) and _is_arrow(items[at])
        if assigned and (names := _only_names(item, class_of)):  # type: ignore[arg-type]
            made.append(Unit("value", names, item.spot))  # (a b)←…, whatever a and b were before
            continue
        if isinstance(item, Group) and item.opening == "[":
            if not made or made[-1].kind == "arrow":
                raise syntax("[ ] stands behind nothing", item.spot)
            made[-1] = _bracketed(made[-1], item, class_of)
            continue
        if isinstance(item, Token) and item.text == "∘" and at < len(items) and _is_dot(items[at]):
            made.append(Unit("dyadic operator", Glyph("∘.", item.spot), item.spot))
            at += 1
            continue
        made.append(_primary(item, class_of))
    return made


def _is_arrow(item: Item) -> bool:
    return isinstance(item, Token) and item.kind == "mark"


def _only_names(group: Group, class_of: Classes) -> Strand | None:
    """Return the names of `(a (b c))` as a strand; None if there are other items, or verbs of this scope."""
    if group.opening != "(" or not group.items[0]:
        return None
    found: list[Node] = []
    for item in group.items[0]:
        node: Node | None = _only_names(item, class_of) if isinstance(item, Group) else None
        if isinstance(item, Token) and item.kind == "name" and item.text not in ("⍬", "⍵", "∇"):
            node = Name(item.text, item.spot) if class_of(item.text, own=True) == "value" else None
        if node is None:
            return None
        found.append(node)
    return Strand(tuple(found), group.spot)


def _is_dot(item: Item) -> bool:
    return isinstance(item, Token) and item.kind == "glyph" and item.text == "."


def _primary(item: Item, class_of: Classes) -> Unit:
    if isinstance(item, Definition):
        return Unit("verb", item, item.spot)
    if isinstance(item, Dfn):
        kinds: list[Class] = ["verb", "monadic operator", "dyadic operator"]
        return Unit(kinds[item.operands], item, item.spot)
    if isinstance(item, Group):
        (part,) = item.items
        if not part:
            raise syntax("nothing stands in the brackets", item.spot)
        inner = parse(part, class_of)
        node = inner.node
        if isinstance(node, Name) or (isinstance(node, Strand) and inner.kind == "value"):
            node = Strand((node,), item.spot) if isinstance(node, Name) and inner.kind == "value" else node
            return Unit(inner.kind, Strand(node.items, item.spot) if isinstance(node, Strand) else node, item.spot)
        return Unit(inner.kind, node, item.spot)
    match item.kind:
        case "number" | "characters":
            return Unit("value", Literal(np.array(item.value), item.spot), item.spot)
        case "name" if item.text == "⍬":
            return Unit("value", Literal(np.zeros(0, np.int64), item.spot), item.spot)
        case "name":
            found = class_of(item.text)
            if found is None:
                remedy = "docs/howto/apl.md lists what there is"
                raise errors.AplError("VALUE ERROR", f"there is no {item.text}", position=item.spot, remedy=remedy)
            return Unit(found, Name(item.text, item.spot), item.spot)
        case "mark":
            return Unit("arrow", Name("←", item.spot), item.spot)
        case _:
            glyph = Glyph(item.text, item.spot)
            if item.text in VERBS:
                return Unit("verb", glyph, item.spot)
            kind: Class = "monadic operator" if item.text in MONADIC_OPERATORS else "dyadic operator"
            return Unit(kind, glyph, item.spot)


def _bracketed(unit: Unit, group: Group, class_of: Classes) -> Unit:
    parts = [parse(part, class_of) if part else None for part in group.items]
    for part in parts:
        if part is not None and part.kind != "value":
            raise syntax("an index is a value", group.spot)
    nodes = tuple(None if part is None else part.node for part in parts)
    if unit.kind == "value":
        return Unit("value", Indexed(unit.node, nodes, group.spot), group.spot)
    if len(nodes) != 1 or nodes[0] is None:
        raise syntax("an axis is one value", group.spot)
    return Unit(unit.kind, OnAxis(unit.node, nodes[0], unit.spot), unit.spot)


def _strands(units: Sequence[Unit]) -> list[Unit]:
    """Join adjacent values to one strand."""
    made: list[Unit] = []
    run: list[Unit] = []
    for unit in [*units, None]:
        if unit is not None and unit.kind == "value":
            run.append(unit)
            continue
        if run:
            made.append(_strand(run))
        run = []
        if unit is not None:
            made.append(unit)
    return made


def _strand(run: Sequence[Unit]) -> Unit:
    if len(run) == 1:
        return run[0]
    first, last = run[0].spot, run[-1].spot
    spot = Spot(
        first.file,
        first.line,
        first.column,
        last.end_column if last.line == first.line else first.end_column,
        first.source_line,
    )
    nodes = [u.node for u in run]
    if all(isinstance(n, Literal) for n in nodes):
        values = [n.value for n in nodes if isinstance(n, Literal)]
        return Unit("value", Literal(literal_vector(values), spot), spot)
    return Unit("value", Strand(tuple(nodes), spot), spot)


def _phrase(units: list[Unit]) -> Unit:
    """Apply verbs to their arguments, from right to left."""
    if not units:
        raise AssertionError("a statement has items")
    for unit in units:
        if unit.kind.endswith("operator") and len(units) > 1 and not _defines_operator(units):
            raise syntax("the operator has no operand", unit.spot)
    right = units[-1]
    if right.kind == "arrow":
        raise syntax("nothing stands to the right of ←", right.spot)
    if right.kind != "value":
        return _verb_phrase(units)
    made, at = right, len(units) - 2
    while at >= 0:
        unit = units[at]
        if unit.kind == "arrow":
            made, at = _assigned(units, at, made)
        elif unit.kind == "verb":
            if at and units[at - 1].kind == "value":
                left = units[at - 1]
                made = Unit("value", Dyadic(unit.node, left.node, made.node, unit.spot), unit.spot)
                at -= 2
            else:
                made = Unit("value", Monadic(unit.node, made.node, unit.spot), unit.spot)
                at -= 1
        else:
            raise syntax("two values stand side by side, and no verb between them", unit.spot)
    return made


def _defines_operator(units: Sequence[Unit]) -> bool:
    return len(units) >= 3 and units[-2].kind == "arrow"


def _verb_phrase(units: list[Unit]) -> Unit:
    """Parse a train, with its assignment if an arrow is to its left."""
    start = next((k + 1 for k in range(len(units) - 1, -1, -1) if units[k].kind == "arrow"), 0)
    parts = units[start:]
    made = parts[0] if len(parts) == 1 else _train(parts)
    at = start - 1
    while at >= 0:
        if units[at].kind != "arrow":
            raise syntax("a verb is no argument", units[at].spot)
        if not at or not isinstance(units[at - 1].node, Name):
            raise syntax("a name stands to the left of ←", units[at].spot)
        made = Unit(made.kind, Assign(units[at - 1].node, made.node, None, units[at].spot), units[at].spot)
        at -= 2
    return made


def _train(parts: Sequence[Unit]) -> Unit:
    for p in parts:
        if p.kind not in ("verb", "value"):
            raise syntax("the operator has no operand", p.spot)
    made, rest = parts[-1], list(parts[:-1])
    while rest:
        middle = rest.pop()
        if middle.kind == "value":
            raise syntax(
                "a value in a train has a verb to its right" if rest else "the verb has no argument to its right",
                middle.spot,
                None if rest else "a value there, or a verb to the left of the value for a train",
            )
        if rest:
            left = rest.pop()
            node = Train(left.node, middle.node, made.node, middle.spot, left.kind == "value")
        else:
            node = Train(None, middle.node, made.node, middle.spot)
        made = Unit("verb", node, middle.spot)
    return made


def _assigned(units: Sequence[Unit], arrow: int, value: Unit) -> tuple[Unit, int]:
    """Parse the assignment at an arrow; also return the position to continue at, to its left."""
    spot = units[arrow].spot
    if not arrow:
        raise syntax("nothing stands to the left of ←", spot)
    target, modify, at = units[arrow - 1], None, arrow - 2
    if target.kind == "verb" and at >= 0 and units[at].kind == "value" and _is_target(units[at].node):
        modify, target, at = target.node, units[at], at - 1
    if not _is_target(target.node):
        raise syntax(
            "what stands to the left of ← is no name",
            target.spot,
            "`name←value`, `(a b)←values`, `a[i]←value` or `(2↑a)←value`",
        )
    other = not_selecting(target.node)
    if other is not None:
        remedy = "the verbs ↑ ↓ , ⍪ ⌽ ⊖ ⍴ ⊃ ⍉ / ⌿ \\ ⍀ ⌷ ∊ by their glyphs, also with ¨, and [ ]"
        raise syntax("to the left of ← stands a verb that selects no elements", other.spot, remedy)
    return Unit("value", Assign(target.node, value.node, modify, spot), spot), at


def _is_target(node: Node) -> bool:
    match node:
        case Name():
            return node.name not in ("⍵", "⍬", "∇")
        case Strand(items=items):
            return all(_is_target(i) for i in items)
        case Literal():
            return False
        case _:
            name = rightmost(node)
            return name is not None and _is_target(name)
