"""The evaluator: walks the tree and applies verbs to session values or traced arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pullback.apl import errors
from pullback.apl.assignment import assign
from pullback.apl.definitions import tokens
from pullback.apl.dfns import Function, UserOperator
from pullback.apl.errors import AplError, syntax
from pullback.apl.functions import Atop, Constant, Fork, Placed, Primitive, Shy, Verb, placed, plain
from pullback.apl.operators import Reduce
from pullback.apl.parser import statements
from pullback.apl.procedures import Niladic, defined
from pullback.apl.scopes import GlyphOperator, Operator, Scope, checked
from pullback.apl.system import OUTSIDE, VARIABLES, characters_of
from pullback.apl.tree import (
    Assign,
    Definition,
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
)
from pullback.apl.values import (
    Value,
    is_characters,
    is_traced,
    rank_of,
    vector,
)
from pullback.apl.verbs import arrange, indexing
from pullback.apl.watch import refuse
from pullback.tracing.active import is_tracing


def evaluate(node: Node, scope: Scope) -> Any:
    """Evaluate a tree to a value, verb or operator."""
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
                return checked(f(y, x), node.spot)
        case Monadic():
            ravelled = isinstance(node.omega, Monadic) and _is(node.omega.verb, ",")
            y = scope.value(node.omega.omega if ravelled and isinstance(node.omega, Monadic) else node.omega)
            f = scope.verb(node.verb)
            with placed(node.spot):
                if ravelled:  # f,y is evaluated as one: the reduction of a ravel is a reduction over all axes
                    inner = f.verb if isinstance(f, Placed) else f
                    if isinstance(inner, Reduce) and inner.goes_over_all(y):
                        return inner.of_all(y)
                    y = arrange.ravel(scope.settings, y)
                return checked(f(y), node.spot)
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
            return assign(node, scope)
        case Dfn():
            return UserOperator(node, scope) if node.operands else Function(node, scope)
        case Definition():
            return defined(node, scope)
    raise AssertionError(node)


def _is(verb: Node, glyph: str) -> bool:
    return isinstance(verb, Glyph) and verb.glyph == glyph


def _named(node: Name, scope: Scope) -> Any:
    found = scope.find(node.name)
    if isinstance(found, Niladic):
        with placed(node.spot):
            return checked(plain(found.result()), node.spot)
    if found is None and node.name.startswith(("⎕", "⍞")):
        if node.name in VARIABLES:
            return VARIABLES[node.name].value(scope.settings)
        with placed(node.spot):
            found = scope.host.system(node.name, scope) if scope.host is not None else None
            if node.name in OUTSIDE and is_tracing():
                raise errors.at_compilation(node.name)
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
    """`⍎`: execute a text with the names in scope."""

    scope: Scope

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return the value of the last statement."""
        return plain(self.result(y, x))

    def result(self, y: Value, x: Value | None = None) -> Value | Shy:
        """Return the value, marked if the last statement is an assignment."""
        refuse("⍎")
        if x is not None:
            raise syntax("⍎ takes one argument")
        if is_traced(y) or (y.size and not is_characters(y)) or rank_of(y) > 1:
            raise errors.domain("⍎ takes characters")
        value = None
        for statement in statements(tokens(characters_of(y), "⍎")):
            value = self.scope.stated(self.scope.parsed(statement).node)
        if plain(value) is None or isinstance(plain(value), Verb | Operator):
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
