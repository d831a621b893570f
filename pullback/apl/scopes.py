"""Nested lexical scopes of names for values, verbs and operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pullback.apl.errors import AplError, Spot, domain, syntax
from pullback.apl.functions import Placed, Shy, Verb, placed
from pullback.apl.operators import derive
from pullback.apl.parser import Class, Unit, parse
from pullback.apl.reader import DYADIC_OPERATORS
from pullback.apl.system import VARIABLES, Variable
from pullback.apl.table import Settings
from pullback.apl.tree import Assign, Definition, Dfn, Dyadic, Glyph, Monadic, Name, Node, Statement
from pullback.apl.values import Value
from pullback.state import PerThread
from pullback.tracing.active import is_tracing


class Operator(ABC):
    """An operator, which derives verbs from operands."""

    kind: Class

    @abstractmethod
    def derived(self, left: Any, right: Any, settings: Settings, axis: Value | None, spot: Spot) -> Verb:
        """Derive a verb from the operands; `right` is None for monadic operators."""


@dataclass
class GlyphOperator(Operator):
    """An operator of the language."""

    glyph: str

    def __post_init__(self) -> None:
        self.kind = "dyadic operator" if self.glyph in DYADIC_OPERATORS else "monadic operator"

    def derived(self, left: Any, right: Any, settings: Settings, axis: Value | None, spot: Spot) -> Verb:
        """Derive a verb from the operands."""
        with placed(spot):
            return Placed(derive(self.glyph, left, right, settings, axis), spot)


@dataclass
class NativeOperator(Operator):
    """A system operator with one operand, such as ⎕GRAD."""

    make: Callable[[Verb, Settings], Verb]
    kind: Class = "monadic operator"

    def derived(self, left: Any, right: Any, settings: Settings, axis: Value | None, spot: Spot) -> Verb:
        """Derive a verb from the operand."""
        if not isinstance(left, Verb):
            raise syntax("the operator takes a verb", spot)
        return self.make(left, settings)


Taken = dict[tuple["Scope", str], Any]
"""The names outside of a function that it depends on, with their values; ⎕ for settings."""


class _Taking(PerThread):
    """For each function being compiled in this thread, what it depends on."""

    def __init__(self) -> None:
        self.now: tuple[Taken, ...] = ()


_TAKING: Final = _Taking()
_CHANGED: Final = object()  # the value of a name that changed while a function was compiled in another thread


@contextmanager
def taking(taken: Taken) -> Iterator[None]:
    """Record what a function that is compiled inside depends on, also for the functions around it."""
    before = _TAKING.now
    _TAKING.now = (*before, taken)
    try:
        yield
    finally:
        _TAKING.now = before
        for around in before:
            around.update(taken)


def still_true(taken: Taken) -> bool:
    """Whether names still have their recorded values."""

    def now(scope: Scope, name: str) -> Any:
        return scope.own_settings if name == "⎕" else scope.names.get(name)

    return all(now(*place) is value for place, value in list(taken.items()))  # another thread may add to them


class Scope:
    """A scope of names; unknown names are looked up in the enclosing one.

    Args:
        parent: the enclosing scope, whose evaluator and host are inherited.
        evaluator: the function that evaluates a tree, for a scope without a parent.
        is_way: whether this is the scope of one branch of a guard.
        host: the workspace, which shows values and knows the system names.
    """

    def __init__(
        self,
        parent: Scope | None = None,
        settings: Settings | None = None,
        host: Any = None,
        evaluator: Callable[[Node, Scope], Any] | None = None,
        is_way: bool = False,
    ) -> None:
        self.is_way = is_way
        self.is_traced = is_tracing()
        self.parent = parent
        self.names: dict[str, Any] = {}
        self.local: frozenset[str] = frozenset()  # names that are looked up here alone, whether they have values or not
        self.own_settings = settings
        self.host: Any = host if host is not None or parent is None else parent.host
        self.evaluator: Callable[[Node, Scope], Any] | None = (
            evaluator if evaluator is not None or parent is None else parent.evaluator
        )

    @property
    def settings(self) -> Settings:
        """The system variables in this scope."""
        scope: Scope | None = self
        while scope is not None:
            if scope.own_settings is not None:
                scope._noted("⎕", scope.own_settings)
                return scope.own_settings
            scope = scope.parent
        return Settings()

    def find(self, name: str) -> Any:
        """Return the object of a name, or None."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                scope._noted(name, scope.names[name])
                return scope.names[name]
            if name in scope.local:
                return None
            if scope.parent is None:
                scope._noted(name, None)
            scope = scope.parent
        return None

    def bind(self, name: str, value: Any) -> None:
        """Give a name a value in this scope."""
        self.names[name] = value

    def set(self, variable: Variable, name: str, value: Any) -> None:
        """Give a system variable a value in this scope."""
        self.own_settings = variable.changed(self.settings, value)

    def _noted(self, name: str, value: Any) -> None:
        """Record that functions being compiled depend on a name outside of them."""
        if not self.is_traced:
            for taken in _TAKING.now:
                before = taken.setdefault((self, name), value)
                if before is not value:
                    taken[self, name] = _CHANGED

    def change(self, name: str, value: Value) -> None:
        """Change an existing name where it is defined; in a branch the change stays local."""
        scope: Scope | None = self
        while scope is not None and name not in scope.names and not scope.is_way and name not in scope.local:
            scope = scope.parent
        found = scope or self
        if is_tracing() and not found.is_traced:
            raise domain(f"a compiled function does not change {name}, which is outside of it", remedy="return it")
        found.names[name] = value

    def name_class(self, name: str) -> int:
        """Return ⎕NC of a name: 0 without a value, 2 for values, 3 for verbs, 4 for operators."""
        found = self.find(name)
        return 0 if found is None else 4 if isinstance(found, Operator) else 3 if isinstance(found, Verb) else 2

    def class_of(self, name: str, own: bool = False) -> Class | None:
        """Return the class of a name, for the parser; None for a system name that does not exist."""
        found = self.names.get(name) if own else self.find(name)
        if found is None and self.host is not None and name[:1] == "⎕" != name and name not in VARIABLES:
            found = self.host.system(name, self)
            if found is None:
                return None
        if isinstance(found, Operator):
            return found.kind
        return "verb" if isinstance(found, Verb) else "value"

    def parsed(self, statement: Statement) -> Unit:
        """Parse a statement by the current classes of its names."""
        key = tuple(self.class_of(n) for n in statement.names)
        found = statement.parsed.get(key)
        if found is None:
            found = statement.parsed[key] = parse(statement.items, self.class_of)
        return found

    def parsed_guard(self, statement: Statement) -> Unit:
        """Parse the part of a statement before the colon."""
        assert statement.guard is not None
        key = ("guard", *(self.class_of(n) for n in statement.names))
        found = statement.parsed.get(key)
        if found is None:
            found = statement.parsed[key] = parse(statement.guard, self.class_of)
        if found.kind != "value":
            raise syntax("a guard is a value", found.spot)
        return found

    def evaluate(self, node: Node) -> Any:
        """Evaluate a tree in this scope to a value, verb or operator."""
        assert self.evaluator is not None
        return self.evaluator(node, self)

    def stated(self, node: Node) -> Any:
        """Evaluate a statement; the value is marked if a session does not print it, and None if there is none."""
        match node:
            case Assign():
                return Shy(self.evaluate(node))
            case Definition():
                return Shy(self.evaluate(node))
            case Name() if (called := getattr(self.find(node.name), "result", None)) and self.class_of(
                node.name
            ) == "value":
                with placed(node.spot):
                    return called()
            case Monadic() | Dyadic() if isinstance(node.verb, Name | Dfn) or _executes(node.verb):
                y, f = self.value(node.omega), self.verb(node.verb)
                x = self.value(node.alpha) if isinstance(node, Dyadic) else None
                with placed(node.spot):
                    made = f.result(y, x)
                    return made if isinstance(made, Shy) else checked(made, node.spot)
            case _:
                return self.evaluate(node)

    def value(self, node: Node) -> Value:
        """Evaluate a tree to a value.

        Raises:
            AplError: [E801] the tree is a verb or an operator.
        """
        found = self.evaluate(node)
        if isinstance(found, Verb | Operator):
            raise syntax("a value is needed here, and this is a verb", node.spot)
        return found

    def verb(self, node: Node) -> Verb:
        """Evaluate a tree to a verb.

        Raises:
            AplError: [E801] the tree is not a verb.
        """
        found = self.evaluate(node)
        if not isinstance(found, Verb):
            raise syntax("a verb is needed here", node.spot)
        return found


def checked(value: Value, spot: Spot) -> Value:
    """Return the value of a call, which must have one."""
    if value is None:
        raise AplError("VALUE ERROR", "the function gives no value", position=spot)
    return value


def _executes(verb: Node) -> bool:
    return isinstance(verb, Glyph) and verb.glyph == "⍎"
