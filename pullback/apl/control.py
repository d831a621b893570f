"""Control structures of ∇-definitions: the lines as a small tree.

:If a ⋄ :AndIf b ⋄ … :ElseIf c ⋄ … :Else ⋄ … :EndIf       Choice, whose tests are Conditions
:While a ⋄ … :EndWhile, or :Until b                       Loop; also :Repeat ⋄ … :EndRepeat, or :Until b
:For i j :In x ⋄ … :EndFor, and :InEach             ForLoop
:Select x ⋄ :Case 1 ⋄ … :CaseList 2 3 ⋄ … :EndSelect      Selection
→line, :GoTo line, :Return, :Leave, :Continue             Leap
anything else                                             Line
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pullback.apl.errors import AplError, Spot, syntax
from pullback.apl.reader import Token
from pullback.apl.tree import Dfn, Group, Statement


@dataclass(frozen=True, eq=False)
class Line:
    """A statement, or a place that a label marks if it is None."""

    statement: Statement | None
    spot: Spot


@dataclass(frozen=True, eq=False)
class Condition:
    """A test, with the tests that :AndIf and :OrIf add to it in order."""

    first: Statement
    more: tuple[tuple[str, Statement], ...]


@dataclass(frozen=True, eq=False)
class Choice:
    """`:If`: the first block whose condition holds, or else the last one."""

    ways: tuple[tuple[Condition, Block], ...]
    otherwise: Block
    spot: Spot


@dataclass(frozen=True, eq=False)
class Loop:
    """`:While` and `:Repeat`: a block while a condition holds before it, until one holds after it."""

    before: Condition | None
    after: Condition | None
    block: Block
    spot: Spot


@dataclass(frozen=True, eq=False)
class ForLoop:
    """`:For`: a block for each element.

    Several names take the values of each element, or with `:InEach` one element of each list.
    """

    names: tuple[str, ...]
    in_each: bool
    items: Statement
    block: Block
    spot: Spot


@dataclass(frozen=True, eq=False)
class Selection:
    """`:Select`: the block of the first case that matches a value; a list matches by each of its elements."""

    value: Statement
    ways: tuple[tuple[Statement, Block], ...]
    otherwise: Block
    spot: Spot


@dataclass(frozen=True, eq=False)
class Leap:
    """A leap: "Return", "Leave" or "Continue", or "→" to the line that a statement gives."""

    kind: str
    statement: Statement
    spot: Spot


Step = Line | Choice | Loop | ForLoop | Selection | Leap
Block = tuple[Step, ...]
ENDS: Final = {"If": "EndIf", "While": "EndWhile", "Repeat": "EndRepeat", "For": "EndFor", "ForEach": "EndFor",
               "Select": "EndSelect"}  # fmt: skip


def block_of(lines: Sequence[Statement]) -> Block:
    """Return the tree of the lines of a definition.

    Raises:
        AplError: [E801] a structure is not closed, or a control word stands where it has no meaning.
    """
    reader = _Reader(lines)
    made = reader.block(())
    if reader.at < len(lines):
        raise _misplaced(lines[reader.at])
    return made


def labels_of(lines: Sequence[Statement], header: Spot) -> dict[str, int]:
    """Return the numbers of the labelled lines."""
    return {s.label: s.spot.line - header.line for s in lines if s.label}


def _misplaced(statement: Statement) -> AplError:
    word = statement.word
    opened = {end: word for word, end in ENDS.items()} | {"ElseIf": "If", "Else": "If", "Until": "Repeat"}
    opened |= {"Case": "Select", "CaseList": "Select", "AndIf": "If", "OrIf": "If"}
    return syntax(f":{word} stands outside of :{opened.get(word, 'If')}", statement.spot)


@dataclass
class _Reader:
    """A reader of the lines, with the words of the structures around the present place."""

    lines: Sequence[Statement]
    at: int = 0
    around: list[str] = field(default_factory=list)

    def block(self, ends: Sequence[str]) -> Block:
        """Read lines up to one of the words that end the block."""
        made: list[Step] = []
        while self.at < len(self.lines):
            statement = self.lines[self.at]
            if statement.word in ends:
                if statement.label:
                    made.append(Line(None, statement.spot))
                break
            made.append(self._step(statement))
        return tuple(made)

    def _step(self, statement: Statement) -> Step:
        self.at += 1
        read: dict[str, Callable[[Statement], Step]] = {
            "If": self._choice, "While": self._while, "Repeat": self._repeat, "For": self._each, "ForEach": self._each,
            "Select": self._selection,
        }  # fmt: skip
        match statement.word:
            case "":
                return Line(statement if statement.items else None, statement.spot)
            case "→" | "GoTo":
                return Leap("→", _with_items(statement), statement.spot)
            case "Return":
                return Leap("Return", _alone(statement), statement.spot)
            case "Leave" | "Continue" as word:
                if not any(w in ("While", "Repeat", "For", "ForEach") for w in self.around):
                    raise syntax(f":{word} stands outside of a loop", statement.spot)
                return Leap(word, _alone(statement), statement.spot)
            case word if word in read:
                self.around.append(word)
                made = read[word](statement)
                self.around.pop()
                return made
            case _:
                raise _misplaced(statement)

    def _next(self, begun: Statement) -> Statement:
        """Return the word that ends a block."""
        if self.at == len(self.lines):
            raise syntax(f":{begun.word.removesuffix('Each')} is not closed", begun.spot, f":{ENDS[begun.word]}")
        self.at += 1
        return self.lines[self.at - 1]

    def _condition(self, first: Statement) -> Condition:
        more: list[tuple[str, Statement]] = []
        while self.at < len(self.lines) and self.lines[self.at].word in ("AndIf", "OrIf"):
            more.append((self.lines[self.at].word, _with_items(self.lines[self.at])))
            self.at += 1
        return Condition(_with_items(first), tuple(more))

    def _choice(self, begun: Statement) -> Choice:
        ways: list[tuple[Condition, Block]] = []
        otherwise: Block = ()
        word = begun
        while word.word in ("If", "ElseIf"):
            condition = self._condition(word)
            ways.append((condition, self.block(("ElseIf", "Else", "EndIf", "End"))))
            word = self._next(begun)
        if word.word == "Else":
            _alone(word)
            otherwise = self.block(("EndIf", "End"))
            word = self._next(begun)
        _alone(word)
        return Choice(tuple(ways), otherwise, begun.spot)

    def _while(self, begun: Statement) -> Loop:
        before = self._condition(begun)
        block = self.block(("EndWhile", "Until", "End"))
        return Loop(before, self._until(begun), block, begun.spot)

    def _repeat(self, begun: Statement) -> Loop:
        _alone(begun)
        block = self.block(("EndRepeat", "Until", "End"))
        return Loop(None, self._until(begun), block, begun.spot)

    def _until(self, begun: Statement) -> Condition | None:
        word = self._next(begun)
        if word.word == "Until":
            return self._condition(word)
        _alone(word)
        return None

    def _each(self, begun: Statement) -> ForLoop:
        names = _only_names(begun.guard or ())
        if not names:
            raise syntax(":For takes names, :In, and a value", begun.spot, ":For i :In ⍳n")
        block = self.block(("EndFor", "End"))
        _alone(self._next(begun))
        return ForLoop(names, begun.word == "ForEach", _with_items(begun), block, begun.spot)

    def _selection(self, begun: Statement) -> Selection:
        ends = ("Case", "CaseList", "Else", "EndSelect", "End")
        if any(not isinstance(s, Line) or s.statement is not None for s in self.block(ends)):
            raise syntax("a line stands before the first :Case", begun.spot)
        ways: list[tuple[Statement, Block]] = []
        otherwise: Block = ()
        word = self._next(begun)
        while word.word in ("Case", "CaseList"):
            ways.append((_with_items(word), self.block(ends)))
            word = self._next(begun)
        if word.word == "Else":
            otherwise = self.block(("EndSelect", "End"))
            word = self._next(begun)
        _alone(word)
        return Selection(_with_items(begun), tuple(ways), otherwise, begun.spot)


def _alone(statement: Statement) -> Statement:
    if statement.items:
        raise syntax(f":{statement.word} stands alone", statement.spot)
    return statement


def _with_items(statement: Statement) -> Statement:
    if not statement.items:
        word = statement.word if statement.word == "→" else f":{statement.word}"
        raise syntax(f"nothing stands behind {word}", statement.spot)
    return statement


def _only_names(items: Sequence[Any]) -> tuple[str, ...]:
    if len(items) == 1 and isinstance(items[0], Group) and items[0].opening == "(":
        return _only_names(items[0].items[0])
    return tuple(i.text for i in items) if all(isinstance(i, Token) and i.kind == "name" for i in items) else ()


# Names that a block assigns -----------------------------------------------------------------------------------


def assigned_names(block: Block) -> set[str]:
    """Return the names that stand to the left of ← in a block, at any depth, and those of :For."""
    found: set[str] = set()
    for step in block:
        match step:
            case Line(statement=Statement() as s) | Leap(statement=s):
                found |= _assigned(s.items)
            case Choice() | Selection():
                found |= tested_names(step) | assigned_names(step.otherwise)
                found |= set().union(*(assigned_names(b) for _, b in step.ways))
            case Loop():
                found |= tested_names(step) | assigned_names(step.block)
            case ForLoop():
                found |= {*step.names} | _assigned(step.items.items) | assigned_names(step.block)
    return found


def tested_names(step: Choice | Selection | Loop) -> set[str]:
    """Return the names that the tests of a structure assign."""
    match step:
        case Choice():
            conditions = [condition for condition, _ in step.ways]
        case Loop():
            conditions = [c for c in (step.before, step.after) if c is not None]
        case Selection():
            return set().union(*(_assigned(s.items) for s in (step.value, *(s for s, _ in step.ways))))
    return set().union(*(_assigned(s.items) for c in conditions for s in (c.first, *(s for _, s in c.more))))


def _assigned(items: Sequence[Any]) -> set[str]:
    """Return the names whose values the arrows of a statement may change."""
    found: set[str] = set()
    for k, item in enumerate(items):
        if isinstance(item, Token) and item.text == "←" and k:
            found |= _targets(items[:k])
        elif isinstance(item, Group):
            found |= set().union(*(_assigned(part) for part in item.items))
        elif isinstance(item, Dfn):
            found |= set().union(*(_assigned(s.items) for s in item.body))
    return found


def _targets(before: Sequence[Any]) -> set[str]:
    """Return the names that an arrow behind these items assigns: `x`, `x y`, `x[i]`, `(x y)`, and `x+`."""
    at = len(before)
    while at and isinstance(before[at - 1], Token) and before[at - 1].kind == "glyph":
        at -= 1
    while at and isinstance(before[at - 1], Group) and before[at - 1].opening == "[":
        at -= 1
    if at and isinstance(before[at - 1], Group):
        return _names(before[at - 1 : at])
    start = at
    while start and isinstance(before[start - 1], Token) and before[start - 1].kind == "name":
        start -= 1
    return _names(before[start:at])


def _names(items: Sequence[Any]) -> set[str]:
    found: set[str] = set()
    for item in items:
        if isinstance(item, Token) and item.kind == "name":
            found.add(item.text)
        elif isinstance(item, Group):
            found |= set().union(*(_names(part) for part in item.items))
    return found


__all__ = ["Block", "Choice", "Condition", "ForLoop", "Leap", "Line", "Loop", "Selection", "Step", "assigned_names",
           "block_of", "labels_of", "tested_names"]  # fmt: skip
