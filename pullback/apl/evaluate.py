"""The one evaluator: it walks the tree and applies verbs, on values in a session and on arrays while tracing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pullback.apl import changes, errors
from pullback.apl.dfns import Function, UserOperator
from pullback.apl.errors import AplError, Spot, syntax
from pullback.apl.functions import Atop, Constant, Fork, Placed, Primitive, Verb, placed
from pullback.apl.operators import Reduce
from pullback.apl.parser import statements
from pullback.apl.reader import DYADIC_OPERATORS, MONADIC_OPERATORS, tokens
from pullback.apl.scopes import GlyphOperator, Operator, Scope
from pullback.apl.tree import (
    Assign,
    Derived,
    Dfn,
    Dyadic,
    Glyph,
    Indexed,
    Literal,
    Monadic,
    Name,
    Node,
    OnAxis,
    Strand,
    Train,
    reaches_leaves,
    rightmost,
    with_name_as,
)
from pullback.apl.values import (
    Value,
    count_of,
    element,
    is_characters,
    is_nested,
    is_traced,
    rank_of,
    scalar,
    settled,
    shape_of,
    vector,
)
from pullback.apl.verbs import arrange, indexing, nesting

SYSTEM: Final = {"⎕IO": "io", "⎕CT": "ct", "⎕ML": "ml", "⎕PP": "pp", "⎕FR": "fr"}


def evaluate(node: Node, scope: Scope) -> Any:
    """The value, verb or operator that a tree stands for."""
    match node:
        case Literal():
            return node.value
        case Name():
            return _named(node, scope)
        case Glyph(glyph="⍎"):
            return Execute(scope)
        case Glyph():
            return Primitive(node.glyph, scope.settings)
        case Strand():
            return (
                vector([scope.value(i) for i in reversed(node.items)][::-1])
                if len(node.items) > 1
                else evaluate(node.items[0], scope)
            )
        case Dyadic():
            y = scope.value(node.omega)
            f = scope.verb(node.verb)
            x = scope.value(node.alpha)
            with placed(node.spot):
                return _checked(f(y, x), node.spot)
        case Monadic():
            ravelled = isinstance(node.omega, Monadic) and _is_ravel(node.omega.verb)
            y = scope.value(node.omega.omega if ravelled and isinstance(node.omega, Monadic) else node.omega)
            f = scope.verb(node.verb)
            with placed(node.spot):
                if ravelled:  # f,y is worked out together: a reduction of a ravel is one over all axes
                    inner = f.verb if isinstance(f, Placed) else f
                    if isinstance(inner, Reduce) and inner.goes_over_all(y):
                        return inner.of_all(y)
                    y = arrange.ravel(scope.settings, y)
                return _checked(f(y), node.spot)
        case Indexed():
            return _indexed(node, scope)
        case Derived():
            return _derived(node, scope)
        case OnAxis():
            return _on_axis(node, scope)
        case Train():
            right, middle = scope.verb(node.right), scope.verb(node.middle)
            if node.left is None:
                return Atop(middle, right)
            left = Constant(scope.value(node.left)) if node.left_is_value else scope.verb(node.left)
            return Fork(left, middle, right)
        case Assign():
            return _assign(node, scope)
        case Dfn():
            return UserOperator(node, scope) if node.operands else Function(node, scope)
    raise AssertionError(node)


def _is_ravel(verb: Node) -> bool:
    return isinstance(verb, Glyph) and verb.glyph == ","


def _checked(value: Value, spot: Spot) -> Value:
    if value is None:
        raise AplError("VALUE ERROR", "the function gives no value", position=spot)
    return value


def _named(node: Name, scope: Scope) -> Any:
    found = scope.find(node.name)
    if found is None and node.name.startswith(("⎕", "⍞")):
        if node.name in SYSTEM:
            return scalar(getattr(scope.settings, SYSTEM[node.name]))
        with placed(node.spot):
            found = scope.host.system(node.name, scope) if scope.host is not None else None
    if found is None:
        if node.name.startswith("⎕"):
            raise AplError(
                "VALUE ERROR",
                f"there is no {node.name}",
                position=node.spot,
                remedy="docs/howto/apl.md lists what there is",
            )
        what = {"⍵": "⍵ stands outside of a function", "⍺": "the function is called without a left argument"}
        raise AplError("VALUE ERROR", what.get(node.name, f"{node.name} has no value"), position=node.spot)
    return found


def _indexed(node: Indexed, scope: Scope) -> Value:
    indices = [None if i is None else scope.value(i) for i in reversed(node.indices)][::-1]
    y = scope.value(node.array)
    with placed(node.spot):
        return indexing.chosen(y, indices, scope.settings)


def _derived(node: Derived, scope: Scope) -> Verb:
    operator = node.operator
    axis = None
    if isinstance(operator, OnAxis):
        axis, operator = scope.value(operator.axis), operator.verb
    right = None if node.right is None else evaluate(node.right, scope)
    found = GlyphOperator(operator.glyph) if isinstance(operator, Glyph) else evaluate(operator, scope)
    if not isinstance(found, Operator):
        raise syntax("an operator is needed here", node.spot)
    left = None if isinstance(operator, Glyph) and operator.glyph == "∘." else evaluate(node.left, scope)
    return found.derived(left, right, scope.settings, axis, node.spot)


@dataclass
class Execute(Verb):
    """`⍎`: the value of a text, with the names of its place."""

    scope: Scope

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """The value of the last statement."""
        if x is not None:
            raise syntax("⍎ takes one argument")
        if is_traced(y) or (y.size and not is_characters(y)) or rank_of(y) > 1:
            raise errors.domain("⍎ takes characters")
        value = None
        for statement in statements(tokens("".join(y.reshape(-1).tolist()) if y.size else "", "⍎")):
            value = evaluate(self.scope.parsed(statement).node, self.scope)
        if value is None or isinstance(value, Verb | Operator):
            raise AplError("VALUE ERROR", "the text gives no value")
        return value


def _on_axis(node: OnAxis, scope: Scope) -> Verb:
    axis = scope.value(node.axis)
    found = scope.verb(node.verb)
    with placed(node.spot):
        if isinstance(found, Primitive):
            return replace(found, axis=axis)
        inner: Any = found.verb if isinstance(found, Placed) else found
        if hasattr(inner, "axis") and inner.axis is None:
            changed: Verb = replace(inner, axis=axis)
            return changed
        raise syntax("this verb takes no axis", node.spot)


# Assignment ---------------------------------------------------------------------------------------------------


def _assign(node: Assign, scope: Scope) -> Any:
    alone = isinstance(node.value, Glyph) and node.value.glyph in MONADIC_OPERATORS + DYADIC_OPERATORS
    value = GlyphOperator(node.value.glyph) if alone else evaluate(node.value, scope)  # type: ignore[union-attr]
    spot = node.spot
    if isinstance(node.target, Name) and node.modify is None:
        name = node.target.name
        if name == "⎕":
            if scope.host is not None:
                scope.host.show(value)
        elif name in SYSTEM:
            _set_system(name, value, scope, spot)
        elif name.startswith("⎕") or name == "⍞":
            raise syntax(f"{name} takes no value", spot)
        else:
            if isinstance(value, Function) and not value.called:
                value = replace(value, called=name)
            scope.names[name] = value
        return value
    if isinstance(value, Verb | Operator):
        raise syntax("a verb is given one name", spot)
    modify = None if node.modify is None else scope.verb(node.modify)
    with placed(spot):
        _bind(node.target, value, scope, modify)
    return value


def _set_system(name: str, value: Value, scope: Scope, spot: Spot) -> None:
    with placed(spot):
        if is_traced(value) or count_of(value) != 1:
            raise errors.domain(f"{name} is one number")
        number = settled(value).reshape(()).item()
        allowed = {"⎕IO": (0, 1), "⎕FR": (645, 325)}.get(name)
        if isinstance(number, str | complex) or number < 0 or (allowed is not None and number not in allowed):
            raise errors.domain(f"{name} is {' or '.join(map(str, allowed))}" if allowed else f"{name} is a number")
        field = SYSTEM[name]
        changes: dict[str, Any] = {field: float(number) if field == "ct" else int(number)}
        scope.own_settings = replace(scope.settings, **changes)


def _bind(target: Node, value: Value, scope: Scope, modify: Verb | None) -> None:
    """Give what stands to the left of an arrow its value, or what `modify` makes of both."""
    match target:
        case Name():
            if modify is None:
                scope.names[target.name] = value
            else:
                scope.change(target.name, modify(value, _current(target, scope)))
        case Strand(items=items):
            for item, part in zip(items, _for_each(items, value, scope)):
                _bind(item, part, scope, modify)
        case _:
            name = rightmost(target)
            assert name is not None, "the parser takes no other targets"
            scope.change(name.name, _with_changes(target, name, value, scope, modify))


def _for_each(items: Sequence[Node], value: Value, scope: Scope) -> list[Value]:
    """The values for several names."""
    if rank_of(value) == 0:
        return [nesting.first(scope.settings, value)] * len(items)
    if rank_of(value) != 1:
        raise errors.rank("values for several names are a vector")
    if shape_of(value)[0] != len(items):
        raise errors.length(f"{len(items)} names take as many values, not {shape_of(value)[0]}")
    return [element(value, (k,)) for k in range(len(items))]


def _current(name: Name, scope: Scope) -> Value:
    found = scope.find(name.name)
    if found is None or isinstance(found, Verb | Operator):
        raise AplError("VALUE ERROR", f"{name.name} has no value", position=name.spot)
    return found


def _with_changes(target: Node, name: Name, value: Value, scope: Scope, modify: Verb | None) -> Value:
    """An array with other elements where an expression of it selects some."""
    y = settled(_current(name, scope))
    if modify is not None:
        value = modify(value, scope.value(target))
    if isinstance(target, Indexed) and (is_traced(y) or is_traced(value)):
        indices = [None if i is None else scope.value(i) for i in target.indices]
        if all(i is None or rank_of(i) == 0 for i in indices) and len(indices) == rank_of(y):
            return changes.at_indices(y, value, indices, scope.settings)
    if isinstance(target, Monadic | Dyadic) and isinstance(target.verb, Glyph) and target.verb.glyph == "⊃":
        path = None if isinstance(target, Monadic) else scope.value(target.alpha)
        if target.omega is name or (isinstance(target.omega, Strand) and len(target.omega.items) == 1):
            return changes.at_path(y, path, value, scope.settings)
    deep = is_nested(y) and reaches_leaves(target)
    places = changes.numbered(y, deep)
    return changes.at_places(y, scope.value(with_name_as(target, places)), value, deep)
