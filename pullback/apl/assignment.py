"""Assignment to one or several names, to indexed elements, and to elements that an expression selects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from pullback.apl import changes, errors
from pullback.apl.dfns import Function
from pullback.apl.errors import AplError, syntax
from pullback.apl.functions import Verb, placed
from pullback.apl.operators.cells import Each
from pullback.apl.reader import DYADIC_OPERATORS, MONADIC_OPERATORS
from pullback.apl.scopes import GlyphOperator, Operator, Scope
from pullback.apl.system import VARIABLES
from pullback.apl.table import migrated
from pullback.apl.tree import Assign, Derived, Dyadic, Glyph, Indexed, Monadic, Name, Node, Strand, rightmost
from pullback.apl.values import Value, element, is_traced, rank_of, settled, shape_of
from pullback.apl.verbs import indexing, nesting

Step = Callable[[Value], Value]


def assign(node: Assign, scope: Scope) -> Any:
    """Evaluate an assignment, bind its targets, and return its value."""
    alone = isinstance(node.value, Glyph) and node.value.glyph in MONADIC_OPERATORS + DYADIC_OPERATORS
    value = GlyphOperator(node.value.glyph) if alone else scope.evaluate(node.value)  # type: ignore[union-attr]
    if isinstance(node.target, Name) and node.modify is None:
        _name(node.target, value, scope)
        return value
    if isinstance(value, Verb | Operator):
        raise syntax("a verb is given one name", node.spot)
    modify = None if node.modify is None else scope.verb(node.modify)
    with placed(node.spot):
        _bind(node.target, value, scope, modify)
    return value


def _name(target: Name, value: Any, scope: Scope) -> None:
    """Bind a name to a value, verb or operator; ⎕ prints the value, and system variables check it."""
    name = target.name
    if name == "⎕":
        if scope.host is not None:
            with placed(target.spot):
                scope.host.show(value)
    elif name in VARIABLES:
        with placed(target.spot):
            scope.set(VARIABLES[name], name, value)
    elif name.startswith("⎕") or name == "⍞":
        raise syntax(f"{name} takes no value", target.spot)
    else:
        if isinstance(value, Function):
            value = value.named(name)
        with placed(target.spot):
            scope.bind(name, value)


def _bind(target: Node, value: Value, scope: Scope, modify: Verb | None) -> None:
    """Bind the left of an arrow to a value, or to the result of `modify` on both."""
    match target:
        case Name(name=name) if modify is not None:
            made = modify(value, _current(target, scope))
            if name in VARIABLES:
                _name(target, made, scope)
            else:
                scope.change(name, made)
        case Name():
            _name(target, value, scope)
        case Strand(items=items):
            for item, part in zip(items, _for_each(items, value, scope)):
                _bind(item, part, scope, modify)
        case _:
            found = rightmost(target)
            assert found is not None, "the parser takes no other targets"
            if found.name.startswith(("⎕", "⍞")):
                raise syntax(f"{found.name} takes no value for a part of it", found.spot)
            scope.change(found.name, _with_changes(target, found, value, scope, modify))


def _for_each(items: Sequence[Node], value: Value, scope: Scope) -> list[Value]:
    """Split a value into the values for several names."""
    if rank_of(value) == 0:
        return [nesting.first(scope.settings, value)] * len(items)
    if rank_of(value) != 1:
        raise errors.rank("values for several names are a vector")
    if shape_of(value)[0] != len(items):
        raise errors.length(f"{len(items)} names take as many values, not {shape_of(value)[0]}")
    return [element(value, (k,)) for k in range(len(items))]


def _current(name: Name, scope: Scope) -> Value:
    found = scope.evaluate(name) if name.name in VARIABLES else scope.find(name.name)
    if found is None or isinstance(found, Verb | Operator):
        raise AplError("VALUE ERROR", f"{name.name} has no value", position=name.spot)
    return found


# Elements -----------------------------------------------------------------------------------------------------


def _with_changes(target: Node, name: Name, value: Value, scope: Scope, modify: Verb | None) -> Value:
    """Return the array with new elements at the places that a selecting expression selects.

    The other operands are evaluated once. The selection is applied to the array, for `modify`, and to its numbers.
    """
    y = settled(_current(name, scope))
    steps = _steps(target, scope)
    if modify is not None:
        value = modify(value, _selected(steps, y))
    match steps:
        case [partial(func=indexing.chosen, keywords={"indices": indices})] if is_traced(y) or is_traced(value):
            if all(i is None or rank_of(i) == 0 for i in indices) and len(indices) == rank_of(y):
                return changes.at_indices(y, value, indices, scope.settings)
    numbers = changes.numbered(y)
    return changes.changed(y, numbers, _selected(steps, numbers), value, _picks(target))


def _selected(steps: Sequence[Step], y: Value) -> Value:
    for step in steps:
        y = step(y)
    return y


def _steps(node: Node, scope: Scope) -> list[Step]:
    """Return the selecting steps, from the name outwards, with their left arguments and indices."""
    match node:
        case Strand(items=(item,)):
            return _steps(item, scope)
        case Indexed():
            indices = [None if i is None else scope.value(i) for i in reversed(node.indices)][::-1]
            return [*_steps(node.array, scope), partial(indexing.chosen, indices=indices, s=scope.settings)]
        case Monadic():
            return [*_steps(node.omega, scope), _selector(node.verb, scope, False)]
        case Dyadic():
            inner = _steps(node.omega, scope)
            verb = _selector(node.verb, scope, True)
            return [*inner, partial(verb, x=scope.value(node.alpha))]
        case _:
            return []


def _selector(verb: Node, scope: Scope, both: bool) -> Verb:
    if isinstance(verb, Derived):
        return Each(_Apart(_selector(verb.left, scope, both)))
    if isinstance(verb, Glyph) and migrated(verb.glyph, both, scope.settings) != verb.glyph:
        raise syntax(f"{verb.glyph} selects no elements to the left of ← while ⎕ML is {scope.settings.ml}", verb.spot,
                     "⎕ML←1")  # fmt: skip
    return scope.verb(verb)


class _Apart(Verb):
    """A verb whose result is a separate array, so that selections apply inside it, not to the whole."""

    def __init__(self, verb: Verb) -> None:
        self.verb = verb

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """The verb's result, or a copy."""
        made = self.verb(y, x)
        return made.copy() if made is y and isinstance(made, np.ndarray) else made


def _picks(target: Node) -> bool:
    """Whether the target ends with ⊃, which selects one element as a whole."""
    match target:
        case Strand(items=(item,)):
            return _picks(item)
        case Monadic() | Dyadic():
            return isinstance(target.verb, Glyph) and target.verb.glyph == "⊃"
        case _:
            return False


__all__ = ["assign"]
