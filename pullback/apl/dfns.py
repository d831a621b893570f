"""Dfns: `{…}` as verbs, with guards and recursion.

A tail call takes no stack: it returns to the call that it ends, which continues with the new arguments.
In a compiled function, if a guard depends on data, a dfn that ends with a tail call becomes a loop:

    {⍺←1 ⋄ ⍵≤1:⍺ ⋄ (⍺×⍵)∇⍵-1}      state ← (⍺ ⍵); while no guard leads to a value: state ← the arguments of ∇

The loop's value is that of the guard that ends it. Other recursive calls are unrolled, as static values determine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import pullback as pb
from pullback.apl import errors
from pullback.apl.errors import AplError, Spot
from pullback.apl.functions import Shy, Verb, placed, plain
from pullback.apl.numbers import as_numbers, kind_of, truth
from pullback.apl.operators import flattened, like
from pullback.apl.parser import Class
from pullback.apl.scopes import Operator, Scope
from pullback.apl.table import Settings
from pullback.apl.tree import Assign, Dfn, Dyadic, Monadic, Name, Node, Statement
from pullback.apl.values import Value, count_of, is_nested, is_traced, lifted, rank_of
from pullback.apl.watch import held, passed, refuse, tests, watching
from pullback.state import PerThread
from pullback.tracing.active import is_tracing
from pullback.tracing.branches import promoted_cond

DEEPEST: Final = 1500  # nested calls
DEEPEST_TRACED: Final = 200
TAIL_CALLS: Final = 1_000_000  # successive tail calls
WAYS: Final = 30  # nested guards that depend on data


@dataclass
class TailCall:
    """A tail call of a dfn; the current call continues with its arguments."""

    f: Function
    y: Value
    x: Value | None
    spot: Spot | None = None

    def finished(self) -> Value:
        """Return the result of the call."""
        return self.f(self.y, self.x)


def settled_call(made: Any) -> Value:
    """Return the value of a body, after completing a tail call."""
    return made.finished() if isinstance(made, TailCall) else plain(made)


@dataclass
class Function(Verb):
    """A dfn with the scope it was written in."""

    dfn: Dfn
    scope: Scope
    operands: tuple[Any, ...] = ()
    called: str = ""
    operator: UserOperator | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name it was first given."""
        return self.called or "{…}"

    @property
    def takes_left(self) -> bool:
        """Whether ⍺ occurs in the dfn."""
        return any("⍺" in s.names for s in self.dfn.body)

    def named(self, name: str) -> Function:
        """Return the function with a name; its first name is kept."""
        return self if self.called else replace(self, called=name)

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return the value of the first statement that is not an assignment, or else of the last one."""
        return plain(self.result(y, x))

    def result(self, y: Value, x: Value | None = None) -> Value | Shy:
        """The value, marked where the statement is an assignment."""
        hot = self.hot
        if hot is None:
            return self.evaluated(y, x)
        found: Value | Shy = hot.result(self, y, x, self.evaluated)
        return found

    @property
    def hot(self) -> Any:
        """The compiler of a session's dfns that take long; None if there is none."""
        return None if self.scope.host is None or is_tracing() else self.scope.host.hot

    def evaluated(self, y: Value, x: Value | None = None) -> Value | Shy:
        """The result, computed verb by verb."""
        most, how = (DEEPEST_TRACED, " while it is compiled") if is_tracing() else (DEEPEST, "")
        with CALLS.deeper(most, self, f"inside one another{how}"):
            made: Any = TailCall(self, y, x)
            for _ in range(DEEPEST_TRACED if is_tracing() else TAIL_CALLS):
                f, hot = made.f, made.f.hot
                if f is self or hot is None:
                    made = f.ended(made.y, made.x)
                else:  # a tail call of another dfn
                    made = hot.result(f, made.y, made.x, f.ended)
                if not isinstance(made, TailCall):
                    return made
            if is_tracing():  # counting by static values is a loop, too, once it has been unrolled long enough
                return _Loop(self).value(_Body(self, self.entered(y, x), x is not None))
            raise _too_deep(self, TAIL_CALLS, "one after another").at(made.spot)

    def ended(self, y: Value, x: Value | None) -> Value | TailCall | Shy:
        """The value, or the tail call that the body ends with."""
        scope = self.entered(y, x)
        return _Body(self, scope, x is not None).ended(self.dfn.body)

    def entered(self, y: Value, x: Value | None) -> Scope:
        """The scope of one call."""
        inner = Scope(self.scope)
        inner.names["⍵"] = y
        if x is not None:
            inner.names["⍺"] = x
        inner.names["∇"] = self
        if self.operator is not None:
            inner.names["∇∇"] = self.operator
        for name, operand in zip(("⍺⍺", "⍵⍵"), self.operands):
            inner.names[name] = operand
        return inner


@dataclass
class UserOperator(Operator):
    """A user-defined operator: a dfn with ⍺⍺, or with ⍺⍺ and ⍵⍵."""

    dfn: Dfn
    scope: Scope

    def __post_init__(self) -> None:
        self.kind: Class = "monadic operator" if self.dfn.operands == 1 else "dyadic operator"

    def derived(self, left: Any, right: Any, settings: Settings, axis: Value | None, spot: Spot) -> Verb:
        """Bind the dfn to its operands."""
        return Function(self.dfn, self.scope, (left,) if right is None else (left, right), operator=self)


class _Depth(PerThread):
    """The current nesting depth."""

    now = 0

    @contextmanager
    def deeper(self, most: int, f: Any, how: str) -> Iterator[None]:
        """Enter one more level, up to a limit."""
        if self.now >= most:
            raise _too_deep(f, most, how)
        self.now += 1
        try:
            yield
        finally:
            self.now -= 1


CALLS, _CHOICES = _Depth(), _Depth()


def _too_deep(f: Any, most: int, how: str) -> AplError:
    return AplError(
        "LIMIT ERROR",
        f"{f.name} calls itself more than {most} times {how}",
        remedy="a guard that ends the recursion, with ∇ as the last verb of the line, as in (⍺×⍵)∇⍵-1; or ⍣",
    )


@dataclass
class _Body:
    """The statements of a dfn in the scope of one call."""

    f: Function
    scope: Scope
    has_left: bool = False  # whether the caller gives ⍺, rather than ⍺←

    def inside(self) -> _Body:
        """Return a copy of the body for one branch, with its own names."""
        return _Body(self.f, Scope(self.scope, is_way=True), self.has_left)

    def ended(self, body: Sequence[Statement]) -> Value | TailCall | Shy:
        """Return the value of the first statement that is not an assignment, or its tail call."""
        last: Any = None
        for k, statement in enumerate(body):
            if statement.guard is not None:
                test = self.guard(statement)
                if is_traced(test):
                    if any(map(self.goes_on, body[k:])):
                        return _Loop(self.f).value(self)
                    return self._either(statement, test, body[k + 1 :])
                if not bool(test.item()):
                    continue
            node = self.scope.parsed(statement).node
            if not isinstance(node, Assign):
                return self.ending(node)
            last = self.assigned(node, last)
            if statement.guard is not None:
                break
        if last is None:
            raise AplError("VALUE ERROR", "the function gives no value", position=self.f.dfn.spot)
        if isinstance(last, Verb | Operator):
            raise errors.syntax("the function gives a verb, where a value is needed", self.f.dfn.spot)
        return Shy(last)

    def assigned(self, node: Assign, last: Any = None) -> Any:
        """Evaluate an assignment; one to ⍺ only takes effect in calls without a left argument."""
        if isinstance(node.target, Name) and node.target.name == "⍺" and self.scope.names.get("⍺") is not None:
            return last
        return self.scope.evaluate(node)

    def guard(self, statement: Statement) -> Value:
        """Evaluate the condition of a guard.

        Raises:
            AplError: [E804] the value is not 0 or 1.
        """
        unit = self.scope.parsed_guard(statement)
        value = self.scope.evaluate(unit.node)
        with placed(unit.spot):
            if is_traced(value):
                if rank_of(value):
                    value = pb.reshape(value, ())
                if (watch := watching()) is not None:
                    watch.truths(value)
                return value
            if count_of(value) != 1 or is_nested(value) or value.dtype.kind not in "biuf" or value.item() not in (0, 1):
                raise errors.domain("a guard is 0 or 1")
        return value

    def ending(self, node: Node) -> Value | TailCall:
        """Return the value of the last statement, or its tail call."""
        if isinstance(node, Monadic | Dyadic) and isinstance(node.verb, Name | Dfn):
            found = self.scope.evaluate(node.verb)
            if isinstance(found, Function):
                y = self.scope.value(node.omega)
                x = self.scope.value(node.alpha) if isinstance(node, Dyadic) else None
                return TailCall(found, y, x, node.spot)
        return self.scope.value(node)

    def call(self, statement: Statement) -> Monadic | Dyadic | None:
        """Return the recursive call that a statement consists of; None for other statements."""
        node = self.scope.parsed(statement).node
        named = isinstance(node, Monadic | Dyadic) and isinstance(node.verb, Name)
        return node if named and self.scope.find(node.verb.name) is self.f else None  # type: ignore[union-attr, return-value]

    def goes_on(self, statement: Statement) -> bool:
        """Whether a statement is a recursive call."""
        return self.call(statement) is not None

    def _either(self, statement: Statement, test: Any, rest: Sequence[Statement]) -> Value:
        """Trace both branches of a guard whose test depends on data."""
        shapes: list[Callable[[list[Any]], Value]] = []
        kinds: list[str] = []

        def way(run: Callable[[_Body], Value | TailCall | Shy]) -> Callable[[], Any]:
            def traced() -> Any:
                with tests():
                    made = run(self.inside())
                    if isinstance(made, TailCall) and watching() is not None:
                        made = made.f.result(made.y, made.x)
                    if isinstance(made, Shy):
                        refuse("a value that a session does not print, or prints")
                    parts, rebuild = flattened(settled_call(made))
                    shapes.append(rebuild)
                    numbers = _numbers(parts)
                    kinds.append("".join(map(kind_of, numbers)))
                    return (*numbers, *held(numbers))

            return traced

        how = "inside one another, and whether it ends follows from data that is not known when it is compiled"
        with placed(statement.spot), _CHOICES.deeper(WAYS, self.f, how):
            then = way(lambda b: b.ending(b.scope.parsed(statement).node))
            found = promoted_cond(truth(lifted(test)), then, way(lambda b: b.ended(rest)))
        if len(set(kinds)) > 1:
            refuse("numbers of two kinds")
        count = len(kinds[0])
        passed(*found[count:])
        return shapes[0](list(found[:count]))


def _numbers(parts: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results of one branch, with truth values converted to numbers."""
    return tuple(as_numbers(p) if kind_of(p) == "b" else p for p in map(lifted, parts))


@dataclass
class _Loop:
    """A tail-recursive dfn as a loop over its arguments.

    The body is traced three times: for the loop condition, for the next arguments, and for the value. Branches with
    another kind of ending are omitted, so a single call or value needs no conditional.
    """

    f: Function

    def value(self, first: _Body) -> Value:
        """Return the result of the last iteration; the first body has been entered."""
        refuse("a loop that may not end")
        calls = [call for s in self.f.dfn.body if (call := first.call(s)) is not None]
        both = [c for c in calls if isinstance(c, Dyadic)]
        if len(both) not in (0, len(calls)) or (not both and first.has_left):
            raise errors.domain("∇ at the end takes ⍺ in every call or in none, in a compiled function")
        same = {"⍵": all(_is(c.omega, "⍵") for c in calls)} | (
            {"⍺": all(_is(c.alpha, "⍺") for c in both)} if both else {}
        )
        given = {name: first.scope.names[name] for name in same}
        forms = {name: flattened(given[name]) for name in same if not same[name]}

        def arguments(parts: Sequence[Any]) -> dict[str, Value]:
            rest = list(parts)
            own = {name: again([rest.pop(0) for _ in old]) for name, (old, again) in forms.items()}
            return given | own

        def step(state: Sequence[Any]) -> list[Any]:
            found = self._walked(arguments(state), True, lambda call: [p for n in forms for p in _parts(call, n)])
            if [p.rank for p in found] != [p.rank for p in state]:
                raise errors.domain("∇ at the end takes arguments of one structure, in a compiled function")
            return found

        start = [part for old, _ in forms.values() for part in old]
        for _ in range(2):  # arguments whose type changes get the final type from the start
            start = [like(a, b) if b.settled.is_floating else like(a, a) for a, b in zip(start, step(start))]
        last = pb.while_loop(
            lambda state: self._goes_on(self._entered(arguments(state)), 0),
            lambda state: tuple(map(like, step(state), start)),
            tuple(start),
        )
        rebuilds: list[Callable[[list[Any]], Value]] = []

        def parts_of(value: Value | TailCall) -> list[Any]:
            parts, rebuild = flattened(settled_call(value))
            rebuilds.append(rebuild)
            return parts

        found = self._walked(arguments(last), False, parts_of)
        return rebuilds[0](found)

    def _entered(self, arguments: dict[str, Value]) -> _Body:
        return _Body(self.f, self.f.entered(arguments["⍵"], arguments.get("⍺")))

    def _ends(self, body: _Body, at: int) -> Iterator[tuple[int, Statement, Any]]:
        """Yield the statements that may end the body, with their guards' tests; None for the last."""
        statements = self.f.dfn.body
        for k in range(at, len(statements)):
            statement = statements[k]
            if statement.guard is None:
                node = body.scope.parsed(statement).node
                if isinstance(node, Assign) and k < len(statements) - 1:
                    body.assigned(node)
                    continue
                yield k, statement, None
                return
            test = body.guard(statement)
            if is_traced(test):
                yield k, statement, truth(lifted(test))
            elif bool(test.item()):
                yield k, statement, None
                return

    def _after(self, body: _Body, at: int) -> list[bool]:
        """Whether each later statement that may end the body continues the loop."""
        rest = self.f.dfn.body[at + 1 :]
        return [body.goes_on(s) for k, s in enumerate(rest, 1) if s.guard is not None or k == len(rest)]

    def _goes_on(self, body: _Body, at: int) -> Any:
        """Whether the body ends with a call of itself."""
        for k, statement, test in self._ends(body, at):
            own, after = body.goes_on(statement), self._after(body, k)
            if test is None or set(after) == {own}:
                return own
            if len(set(after)) == 1:
                return test if own else pb.logical_not(test)
            return promoted_cond(test, lambda own=own: own, lambda k=k: self._goes_on(body.inside(), k + 1))
        return False

    def _walked(self, arguments: dict[str, Value], going: bool, leaf: Callable[[Any], list[Any]]) -> list[Any]:
        """Combine, by the guards, the results of `leaf` for tail calls (`going`) or for final values."""

        def ways(body: _Body, at: int) -> list[Any]:
            for k, statement, test in self._ends(body, at):
                node = body.scope.parsed(statement).node
                if test is None or going not in self._after(body, k):
                    return leaf(body.ending(node))
                if body.goes_on(statement) is going:
                    then, rest = body.inside(), body.inside()
                    one = lambda: _numbers(leaf(then.ending(node)))
                    other = lambda: _numbers(ways(rest, k + 1))
                    with placed(statement.spot):
                        return list(promoted_cond(test, one, other))
            raise errors.domain("the function gives no value")

        return ways(self._entered(arguments), 0)


def _is(node: Node, name: str) -> bool:
    return isinstance(node, Name) and node.name == name


def _parts(call: Any, name: str) -> list[Any]:
    """Flatten an argument of a call to arrays."""
    if not isinstance(call, TailCall):
        raise errors.domain("a guard that holds from the beginning ends the recursion in a value")
    return flattened(call.y if name == "⍵" else call.x)[0]
