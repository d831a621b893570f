"""The one evaluator: it walks the tree and applies verbs, on values in a session and on arrays while tracing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback.apl import errors
from pullback.apl.errors import AplError, Spot, syntax
from pullback.apl.functions import Atop, Constant, Fork, Primitive, Verb, placed
from pullback.apl.numbers import truth
from pullback.apl.operators import Reduce, derive, flattened
from pullback.apl.parser import Class, Unit, parse, statements
from pullback.apl.reader import tokens
from pullback.apl.table import Settings
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
    Statement,
    Strand,
    Train,
)
from pullback.apl.values import (
    Value,
    count_of,
    element,
    elements,
    is_characters,
    is_nested,
    is_traced,
    lifted,
    objects,
    rank_of,
    scalar,
    settled,
    shape_of,
    simplified,
    vector,
    whole,
)
from pullback.apl.verbs import arrange, indexing, nesting
from pullback.lang.trace import is_tracing

DEEPEST: Final = 1500  # calls inside one another
DEEPEST_TRACED: Final = 200
SYSTEM: Final = {"⎕IO": "io", "⎕CT": "ct", "⎕ML": "ml", "⎕PP": "pp", "⎕FR": "fr"}


@dataclass
class Operator:
    """An operator of the user: a dfn with ⍺⍺, or with ⍺⍺ and ⍵⍵."""

    dfn: Dfn
    scope: Scope

    @property
    def kind(self) -> Class:
        """Its class for the parser."""
        return "monadic operator" if self.dfn.operands == 1 else "dyadic operator"


@dataclass
class NativeOperator:
    """An operator of the system with one operand, as ⎕GRAD."""

    make: Callable[[Verb, Settings], Verb]
    kind: Class = "monadic operator"


class Scope:
    """Names and what they stand for; what is not here is looked for in the scope around, by the text."""

    def __init__(self, parent: Scope | None = None, settings: Settings | None = None, host: Any = None) -> None:
        self.parent = parent
        self.names: dict[str, Any] = {}
        self.own_settings = settings
        self.depth: int = parent.depth if parent else 0
        self.host: Any = host if host is not None or parent is None else parent.host

    @property
    def settings(self) -> Settings:
        """What the system variables are here."""
        scope: Scope | None = self
        while scope is not None:
            if scope.own_settings is not None:
                return scope.own_settings
            scope = scope.parent
        return Settings()

    def find(self, name: str) -> Any:
        """What a name stands for, None where there is nothing."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def class_of(self, name: str) -> Class | None:
        """The class that the parser needs."""
        found = self.find(name)
        if found is None and self.host is not None and name.startswith("⎕"):
            found = self.host.system(name, self)
        if isinstance(found, Operator | NativeOperator):
            return found.kind
        return "verb" if isinstance(found, Verb) else "value"


@dataclass
class Function(Verb):
    """A dfn with the scope it was written in."""

    dfn: Dfn
    scope: Scope
    operands: tuple[Any, ...] = ()
    called: str = ""

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name it was first given."""
        return self.called or "{…}"

    @property
    def takes_left(self) -> bool:
        """Whether ⍺ stands in it."""
        return any("⍺" in s.names for s in self.dfn.body)

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """The value of the first statement that is no assignment."""
        inner = Scope(self.scope)
        inner.depth = _DEPTH.enter(self)
        inner.names["⍵"] = y
        if x is not None:
            inner.names["⍺"] = x
        inner.names["∇"] = self
        for name, operand in zip(("⍺⍺", "⍵⍵"), self.operands):
            inner.names[name] = operand
        try:
            return run_body(self.dfn.body, inner, self.dfn.spot)
        finally:
            _DEPTH.leave()


class _Depth:
    """How many calls are under way."""

    def __init__(self) -> None:
        self.now = 0

    def enter(self, f: Function) -> int:
        self.now += 1
        most = DEEPEST_TRACED if is_tracing() else DEEPEST
        if self.now > most:
            self.now -= 1
            raise AplError(
                "LIMIT ERROR",
                f"{f.name} calls itself more than {most} times inside one another",
                remedy="a guard that ends the recursion, or ⍣",
            )
        return self.now

    def leave(self) -> None:
        self.now -= 1


_DEPTH = _Depth()


def run_body(body: Sequence[Statement], scope: Scope, spot: Spot) -> Value:
    """The statements of a dfn, one after another, to the first that is no assignment."""
    last: Any = None
    for k, statement in enumerate(body):
        if statement.guard is not None:
            held = _guard(statement, scope)
            if held is None:
                return _chosen(statement, body[k + 1 :], scope, spot)
            if not held:
                continue
        unit = parsed(statement, scope)
        if statement.guard is None and isinstance(unit.node, Assign):
            node = unit.node
            if isinstance(node.target, Name) and node.target.name == "⍺" and scope.names.get("⍺") is not None:
                continue
            last = evaluate(node, scope)
            continue
        return evaluate(unit.node, scope)
    if last is None:
        raise AplError("VALUE ERROR", "the function gives no value", position=spot)
    return last


def _guard(statement: Statement, scope: Scope) -> bool | None:
    """Whether a guard holds; None where only the compiled function will know."""
    assert statement.guard is not None
    key = ("guard", *(scope.class_of(n) for n in statement.names))
    unit = statement.parsed.get(key)
    if unit is None:
        unit = statement.parsed[key] = parse(statement.guard, scope.class_of)
    if unit.kind != "value":
        raise syntax("a guard is a value", unit.spot)
    value = evaluate(unit.node, scope)
    with placed(unit.spot):
        if is_traced(value):
            return None
        if count_of(value) != 1 or is_nested(value) or value.dtype.kind not in "biuf" or value.item() not in (0, 1):
            raise errors.domain("a guard is 0 or 1")
    return bool(value.item())


def _chosen(statement: Statement, rest: Sequence[Statement], scope: Scope, spot: Spot) -> Value:
    """Both ways of a guard that only the compiled function knows."""
    assert statement.guard is not None
    test = evaluate(statement.parsed[("guard", *(scope.class_of(n) for n in statement.names))].node, scope)
    shapes: list[Callable[[list[Any]], Value]] = []

    def way(run: Callable[[], Value]) -> Callable[[], Any]:
        def traced() -> Any:
            parts, rebuild = flattened(run())
            shapes.append(rebuild)
            return tuple(parts)

        return traced

    own = Scope(scope)
    with placed(statement.spot):
        then = way(lambda: evaluate(parsed(statement, own).node, own))
        otherwise = way(lambda: run_body(rest, Scope(scope), spot))
        found = pb.cond(truth(lifted(test)), _floats(then), _floats(otherwise))
    return shapes[0](list(found))


def _floats(way: Callable[[], Any]) -> Callable[[], Any]:
    """The results of one way as floating numbers, so that both ways have one type."""
    from pullback.apl.numbers import converted

    def traced() -> Any:
        return tuple(lifted(converted([lifted(p)], "float")[0][0]) * 1.0 for p in way())

    return traced


def parsed(statement: Statement, scope: Scope) -> Unit:
    """The tree of a statement for what its names stand for now."""
    key = tuple(scope.class_of(n) for n in statement.names)
    found = statement.parsed.get(key)
    if found is None:
        found = statement.parsed[key] = parse(statement.items, scope.class_of)
    return found


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
                vector([_value(i, scope) for i in reversed(node.items)][::-1])
                if len(node.items) > 1
                else evaluate(node.items[0], scope)
            )
        case Dyadic():
            y = _value(node.omega, scope)
            f = _verb(node.verb, scope)
            x = _value(node.alpha, scope)
            with placed(node.spot):
                return _checked(f(y, x), node.spot)
        case Monadic():
            ravelled = isinstance(node.omega, Monadic) and _is_ravel(node.omega.verb)
            y = _value(node.omega.omega if ravelled and isinstance(node.omega, Monadic) else node.omega, scope)
            f = _verb(node.verb, scope)
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
            right, middle = _verb(node.right, scope), _verb(node.middle, scope)
            if node.left is None:
                return Atop(middle, right)
            left = Constant(_value(node.left, scope)) if node.left_is_value else _verb(node.left, scope)
            return Fork(left, middle, right)
        case Assign():
            return _assign(node, scope)
        case Dfn():
            return Operator(node, scope) if node.operands else Function(node, scope)
    raise AssertionError(node)


def _is_ravel(verb: Node) -> bool:
    return isinstance(verb, Glyph) and verb.glyph == ","


def _checked(value: Value, spot: Spot) -> Value:
    if value is None:
        raise AplError("VALUE ERROR", "the function gives no value", position=spot)
    return value


def _value(node: Node, scope: Scope) -> Value:
    found = evaluate(node, scope)
    if isinstance(found, Verb | Operator):
        raise syntax("a value is needed here, and this is a verb", node.spot)
    return found


def _verb(node: Node, scope: Scope) -> Verb:
    found = evaluate(node, scope)
    if not isinstance(found, Verb):
        raise syntax("a verb is needed here", node.spot)
    return found


def _named(node: Name, scope: Scope) -> Any:
    found = scope.find(node.name)
    if found is None and node.name.startswith(("⎕", "⍞")):
        if node.name in SYSTEM:
            return scalar(getattr(scope.settings, SYSTEM[node.name]))
        with placed(node.spot):
            found = scope.host.system(node.name, scope) if scope.host is not None else None
    if found is None:
        what = {"⍵": "⍵ stands outside of a function", "⍺": "the function is called without a left argument"}
        raise AplError("VALUE ERROR", what.get(node.name, f"{node.name} has no value"), position=node.spot)
    return found


def _indexed(node: Indexed, scope: Scope) -> Value:
    indices = [None if i is None else _value(i, scope) for i in reversed(node.indices)][::-1]
    y = _value(node.array, scope)
    with placed(node.spot):
        return indexing.chosen(y, indices, scope.settings)


def _derived(node: Derived, scope: Scope) -> Verb:
    operator = node.operator
    axis = None
    if isinstance(operator, OnAxis):
        axis, operator = _value(operator.axis, scope), operator.verb
    right = None if node.right is None else evaluate(node.right, scope)
    if isinstance(operator, Glyph):
        left = None if operator.glyph == "∘." else evaluate(node.left, scope)
        with placed(node.spot):
            return Placed(derive(operator.glyph, left, right, scope.settings, axis), node.spot)
    left = evaluate(node.left, scope)
    found = evaluate(operator, scope)
    if isinstance(found, NativeOperator):
        if not isinstance(left, Verb):
            raise syntax("the operator takes a verb", node.spot)
        return found.make(left, scope.settings)
    if not isinstance(found, Operator):
        raise syntax("an operator is needed here", node.spot)
    return Function(found.dfn, found.scope, (left,) if right is None else (left, right))


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
            value = evaluate(parsed(statement, self.scope).node, self.scope)
        if value is None or isinstance(value, Verb | Operator):
            raise AplError("VALUE ERROR", "the text gives no value")
        return value


@dataclass
class Placed(Verb):
    """A derived verb whose errors are those of its operator's glyph."""

    verb: Verb
    spot: Spot

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """The verb's result."""
        return self.verb(y, x)

    def identity(self) -> Any:
        """That of the verb."""
        return self.verb.identity()


def _on_axis(node: OnAxis, scope: Scope) -> Verb:
    axis = _value(node.axis, scope)
    found = _verb(node.verb, scope)
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
    value = evaluate(node.value, scope)
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
    if node.modify is not None:
        return _modified(node, value, scope)
    with placed(spot):
        _bind(node.target, value, scope)
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


def _bind(target: Node, value: Value, scope: Scope) -> None:
    match target:
        case Name():
            scope.names[target.name] = value
        case Strand(items=items):
            if rank_of(value) == 0:
                parts = [nesting.first(scope.settings, value)] * len(items)
            else:
                if rank_of(value) != 1:
                    raise errors.rank("values for several names are a vector")
                if shape_of(value)[0] != len(items):
                    raise errors.length(f"{len(items)} names take as many values, not {shape_of(value)[0]}")
                parts = [element(value, (k,)) for k in range(len(items))]
            for item, part in zip(items, parts):
                _bind(item, part, scope)
        case Indexed(array=Name(name=name)):
            scope.names[name] = _replaced(target, value, scope)
        case _:
            raise syntax("what stands to the left of ← is no name", target.spot)


def _current(name: Name, scope: Scope) -> Value:
    found = scope.find(name.name)
    if found is None or isinstance(found, Verb | Operator):
        raise AplError("VALUE ERROR", f"{name.name} has no value", position=name.spot)
    return found


def _modified(node: Assign, value: Value, scope: Scope) -> Value:
    """`x f←value`, and with indices."""
    assert node.modify is not None
    f = _verb(node.modify, scope)
    with placed(node.spot):
        match node.target:
            case Name():
                scope.names[node.target.name] = f(value, _current(node.target, scope))
            case Indexed(array=Name(name=name)):
                scope.names[name] = _replaced(node.target, f(value, _indexed(node.target, scope)), scope)
            case Strand(items=items):
                for k, item in enumerate(items):
                    part = element(value, (k,)) if rank_of(value) else value
                    if not isinstance(item, Name):
                        raise syntax("names stand to the left of ←", node.spot)
                    scope.names[item.name] = f(part, _current(item, scope))
    return value


def _replaced(target: Indexed, value: Value, scope: Scope) -> Value:
    """The array with other elements at the indices."""
    assert isinstance(target.array, Name)
    y = settled(_current(target.array, scope))
    s = scope.settings
    indices = [None if i is None else _value(i, scope) for i in target.indices]
    if is_traced(y) or is_traced(value):
        return _replaced_traced(y, value, indices, s)
    places = np.arange(count_of(y) or 0).reshape(y.shape)
    chosen = settled(indexing.chosen(places, indices, s))
    value = settled(value)
    if rank_of(value) and shape_of(value) != shape_of(chosen) and count_of(value) != 1:
        own, other = ([n for n in v.shape if n != 1] for v in (value, chosen))
        if own != other:
            wrong = errors.length if rank_of(value) == rank_of(chosen) else errors.rank
            raise wrong("as many values as places")
    flat = [int(k) for k in chosen.reshape(-1)]
    new = elements(value) if count_of(value) != 1 else [element(value, (0,) * rank_of(value))] * len(flat)
    made = elements(y)
    for k, v in zip(flat, new):
        made[k] = v
    return simplified(objects(made, y.shape)) if made else y


def _replaced_traced(y: Value, value: Value, indices: Sequence[Any], s: Settings) -> Value:
    """In a compiled function: a choice for every element, by its indices."""
    from pullback.apl.numbers import converted

    used = [k for k, i in enumerate(indices) if i is not None]
    if len(indices) != rank_of(y) or any(rank_of(indices[k]) for k in used):
        raise errors.domain("a[i]←v takes single indices in a compiled function", remedy="@ changes several elements")
    (own, new), _ = converted([lifted(y), lifted(value)], "number")
    h = lifted(own)
    here: Any = None
    for k in used:
        i = indices[k]
        at = pb.reshape(pb.arange(h.shape[k]), tuple(h.shape[a] if a == k else 1 for a in range(h.rank)))
        test = at == (lifted(i) - s.io if is_traced(i) else whole(i, "[ ]") - s.io)
        here = test if here is None else pb.logical_and(here, test)
    return lifted(new) if here is None else pb.where(here, new, h)
