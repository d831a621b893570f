"""The evaluator of the lines and control structures of ∇-definitions.

In a session a test is a number. In a function being compiled it may be traced: then :If becomes a `cond`, :While,
:Repeat and a long :For become loops, over the values of the names that their blocks assign.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback.apl import errors
from pullback.apl.control import (
    Block,
    Choice,
    Condition,
    ForLoop,
    Leap,
    Line,
    Loop,
    Selection,
    Step,
    assigned_names,
    tested_names,
)
from pullback.apl.errors import Spot
from pullback.apl.functions import Primitive, Shy, Verb, placed
from pullback.apl.numbers import as_numbers, kind_of, truth
from pullback.apl.operators import flattened, like
from pullback.apl.scopes import Operator, Scope
from pullback.apl.tree import Definition, Statement
from pullback.apl.values import (
    Value,
    count_of,
    elements,
    is_nested,
    is_traced,
    lifted,
    rank_of,
    settled,
    whole_list,
)
from pullback.tracing.active import is_tracing
from pullback.tracing.branches import promoted_cond
from pullback.tracing.tracer import current

UNROLLED: Final = 200  # trips of a loop that is written out while it is compiled


def run(block: Block, node: Definition, scope: Scope) -> None:
    """Run the lines of a definition in the scope of a call."""
    _Run(scope, node).all(block)


@dataclass(frozen=True)
class _Leaving:
    """The early end of a block: "Return", "Leave", "Continue", or "→" to a line."""

    kind: str
    line: int = 0


_Way = tuple[Callable[["_Run"], Value], Block]


@dataclass
class _Run:
    """The evaluation of one call."""

    scope: Scope
    node: Definition

    def all(self, block: Block) -> None:
        """Run all lines; a leap to a line outside of them ends the call."""
        at = 0
        while True:
            left = self.block(block[at:])
            if left is None or left.kind == "Return":
                return
            later = [k for k, step in enumerate(block) if self._line(step) >= left.line]
            if left.line <= 0 or left.line > self._last_line():
                return
            at = later[0] if later else len(block)
            before = block[at - 1] if at else None
            if not isinstance(before, Line | Leap | None) and (at == len(block) or self._line(block[at]) > left.line):
                raise errors.domain(
                    f"→ leaps to line {left.line}, inside of a control structure that begins at line "
                    f"{self._line(before)}",
                    remedy=":Continue, :Leave, or a label outside of it",
                )

    def _line(self, step: Step) -> int:
        return step.spot.line - self.node.spot.line

    def _last_line(self) -> int:
        return self.node.text.count("\n") - 1

    def block(self, block: Block) -> _Leaving | None:
        """Run a block; return how it ends early, or None."""
        at = 0
        while at < len(block):
            left = self.step(block[at])
            at += 1
            if left is not None:
                here = [k for k, step in enumerate(block) if left.kind == "→" and self._line(step) == left.line]
                if not here:
                    return left
                at = here[0]
        return None

    def step(self, step: Step) -> _Leaving | None:
        """Run one step of a block."""
        match step:
            case Line(statement=None):
                return None
            case Line(statement=statement):
                assert statement is not None
                self._stated(statement)
                return None
            case Leap():
                return self._leap(step)
            case Choice():
                return self._choice([(partial(_Run._holds, condition=c), b) for c, b in step.ways], step)
            case Selection():
                value = self._value(step.value)
                return self._choice([(partial(_Run._matches, value=value, case=s), b) for s, b in step.ways], step)
            case Loop():
                return self._loop(step)
            case ForLoop():
                return self._each(step)

    def _stated(self, statement: Statement) -> None:
        made = self.scope.stated(self.scope.parsed(statement).node)
        if not isinstance(made, Shy) and not isinstance(made, Verb | Operator) and self.scope.host is not None:
            with placed(statement.spot):
                self.scope.host.show(made)

    def _value(self, statement: Statement) -> Value:
        return self.scope.value(self.scope.parsed(statement).node)

    def _leap(self, step: Leap) -> _Leaving | None:
        if step.kind != "→":
            return _Leaving(step.kind)
        with placed(step.spot):
            value = self._value(step.statement)
            if is_traced(value) or (rank_of(value) and count_of(value) is None):
                raise errors.of_data("→", "the line", ":If … :EndIf, which is compiled")
            lines = whole_list(value, "→")
        return _Leaving("→", lines[0]) if lines else None

    # Tests

    def _holds(self, condition: Condition) -> Value:
        """Return the test of a condition: 0 or 1, or a traced truth value."""
        test = self._test(condition.first)
        for word, statement in condition.more:
            if is_traced(test):
                other = self._test(statement)
                join = pb.logical_and if word == "AndIf" else pb.logical_or
                test = join(_truth(test), _truth(other))
            elif bool(test.item()) == (word == "AndIf"):
                test = self._test(statement)
        return test

    def _test(self, statement: Statement) -> Value:
        value = settled(self._value(statement))
        with placed(statement.spot):
            if is_traced(value):
                return pb.reshape(value, ()) if rank_of(value) else value
            if count_of(value) != 1 or is_nested(value) or value.dtype.kind not in "biuf" or value.item() not in (0, 1):
                raise errors.domain(f":{statement.word} takes 0 or 1")
        return value

    def _matches(self, value: Value, case: Statement) -> Value:
        of = self._value(case)
        same = Primitive("≡", self.scope.settings)
        with placed(case.spot):
            if case.word == "Case":
                return same(value, of)
            tests = [same(value, e) for e in elements(settled(of))]
            if any(map(is_traced, tests)):
                made = _truth(tests[0])
                for test in tests[1:]:
                    made = pb.logical_or(made, _truth(test))
                return made
            return np.array(any(bool(t.item()) for t in tests))

    # Structures

    def _choice(self, ways: Sequence[_Way], step: Choice | Selection) -> _Leaving | None:
        """Run the block of the first test that holds."""
        for k, (test, block) in enumerate(ways):
            held = test(self)
            if is_traced(held):
                self._traced_choice(held, block, ways[k + 1 :], step)
                return None
            if bool(held.item()):
                return self.block(block)
        return self.block(step.otherwise)

    def _loop(self, step: Loop) -> _Leaving | None:
        trips = 0
        while True:
            if step.before is not None:
                test = self._holds(step.before)
                if is_traced(test) or (is_tracing() and trips >= UNROLLED):
                    self._traced_loop(step, partial(_Run._holds, condition=step.before))
                    return None
                if not bool(test.item()):
                    return None
            left = self.block(step.block)
            trips += 1
            if left is not None and left.kind != "Continue":
                return None if left.kind == "Leave" else left
            if step.after is not None:
                test = self._holds(step.after)
                if is_traced(test) or (is_tracing() and trips >= UNROLLED):
                    until = step.after
                    self._traced_loop(step, lambda run: pb.logical_not(_truth(run._holds(until))))
                    return None
                if bool(test.item()):
                    return None
            elif step.before is None and is_tracing() and trips >= UNROLLED:
                raise errors.domain(":Repeat without :Until is not compiled", remedy=":Until").at(step.spot)

    def _each(self, step: ForLoop) -> _Leaving | None:
        with placed(step.spot):
            items = settled(self._value(step.items))
        if is_tracing() and (count_of(items) is None or count_of(items) > UNROLLED):  # type: ignore[operator]
            self._traced_each(step, items)
            return None
        for values in _rows(step, items):
            for name, value in zip(step.names, values):
                self.scope.bind(name, value)
            left = self.block(step.block)
            if left is not None and left.kind != "Continue":
                return None if left.kind == "Leave" else left
        return None

    # Compiled structures

    def _inside(self) -> _Run:
        """Return a run of one branch, whose names stay in it."""
        return _Run(Scope(self.scope, is_way=True), self.node)

    def _state(self, block: Block, spot: Spot, always: set[str] | None = None) -> list[str]:
        """Return the names that a compiled block changes, with values before it or `always` after it."""
        changed = assigned_names(block) - {"⎕"}
        if any(name.startswith(("⎕", "⍞")) for name in changed):
            raise errors.domain("a system variable changes in a block whose test is not known when it is compiled").at(
                spot
            )
        return sorted(name for name in changed if self.scope.find(name) is not None or name in (always or ()))

    def _parts(self, names: Sequence[str], spot: Spot) -> tuple[list[Any], list[Callable[[list[Any]], Value]]]:
        """Return the arrays of the values of names, and for each name what rebuilds its value."""
        parts: list[Any] = []
        rebuilds: list[Any] = []
        for name in names:
            value = self.scope.find(name)
            if value is None:
                raise errors.domain(f"{name} has a value after one branch only").at(spot)
            if isinstance(value, Verb | Operator):
                raise errors.domain(f"{name} is a verb in a block whose test is not known when it is compiled").at(spot)
            with placed(spot):
                own, again = flattened(settled(value))
            rebuilds.append((len(own), again))
            parts += own
        return parts, rebuilds

    def _rebound(self, names: Sequence[str], parts: Sequence[Any], rebuilds: Sequence[Any]) -> None:
        rest = list(parts)
        for name, (count, again) in zip(names, rebuilds):
            self.scope.bind(name, again([rest.pop(0) for _ in range(count)]))

    def _traced_choice(self, held: Any, block: Block, rest: Sequence[_Way], step: Choice | Selection) -> None:
        """Trace both ways of a test that depends on data; later tests are part of the second."""
        spot = step.spot
        if rest:
            _refuse_assignments(tested_names(step), spot)
        blocks = [block, *(b for _, b in rest), step.otherwise]
        always = set.intersection(*map(assigned_names, blocks))
        names = self._state(tuple(s for b in blocks for s in b), spot, always)
        made: list[Any] = []

        def way(run: Callable[[_Run], _Leaving | None]) -> Callable[[], Any]:
            def traced() -> Any:
                inner = self._inside()
                _refuse_leaving(run(inner), spot)
                parts, rebuilds = inner._parts(names, spot)
                made.append(rebuilds)
                return _numbers(parts)

            return traced

        then, other = way(lambda run: run.block(block)), way(lambda run: run._choice(rest, step))
        with placed(spot):
            if names:
                self._rebound(names, list(promoted_cond(_truth(held), then, other)), made[0])
                return
            with current().block() as trial:  # nothing changes, and each branch is still looked at
                trial.prints = []
                then(), other()

    def _traced_loop(self, step: Loop, test: Callable[[_Run], Any]) -> None:
        """Trace a loop whose test depends on data; its state are the names that it changes."""
        if step.before is not None and step.after is not None:
            raise errors.domain(":While with :Until is evaluated, and not compiled", remedy=":AndIf").at(step.spot)
        _refuse_assignments(tested_names(step), step.spot)
        names = self._state(step.block, step.spot)
        parts, rebuilds = self._parts(names, step.spot)

        def inside(state: Sequence[Any]) -> _Run:
            run = self._inside()
            run._rebound(names, list(state), rebuilds)
            return run

        def after(state: Sequence[Any]) -> list[Any]:
            run = inside(state)
            _refuse_leaving(run.block(step.block), step.spot)
            return run._parts(names, step.spot)[0]

        with placed(step.spot):
            start = _settled_start(parts, after)
            last = pb.while_loop(
                lambda state: _truth(test(inside(state))),
                lambda state: tuple(map(like, after(state), start)),
                tuple(start),
            )
        self._rebound(names, list(last), rebuilds)

    def _traced_each(self, step: ForLoop, items: Value) -> None:
        """Trace a loop over the elements of a long array."""
        if len(step.names) > 1 or is_nested(items):
            raise errors.domain(":For over a long nested array is evaluated, and not compiled").at(step.spot)
        if step.names[0] in assigned_names(step.block):
            raise errors.domain(f"the block of :For changes {step.names[0]}, and is not compiled").at(step.spot)
        flat = pb.reshape(lifted(items), (-1,))
        names = [n for n in self._state(step.block, step.spot) if n not in step.names]
        parts, rebuilds = self._parts(names, step.spot)

        def after(state: Sequence[Any], i: Any = 0) -> list[Any]:
            run = self._inside()
            run._rebound(names, list(state), rebuilds)
            run.scope.bind(step.names[0], flat[i])
            _refuse_leaving(run.block(step.block), step.spot)
            return run._parts(names, step.spot)[0]

        with placed(step.spot):
            start = _settled_start(parts, after)
            last = pb.fold(flat.shape[0], tuple(start), lambda state, i: tuple(map(like, after(state, i), start)))
        self._rebound(names, list(last), rebuilds)
        self.scope.bind(step.names[0], flat[flat.shape[0] - 1])


def _rows(step: ForLoop, value: Value) -> Sequence[Sequence[Value]]:
    """Return the values of the names for each trip."""
    with placed(step.spot):
        items = elements(value)
        if step.in_each:
            lists = [elements(settled(item)) for item in items]
            if len(lists) != len(step.names) or len({len(own) for own in lists}) > 1:
                raise errors.length(f":InEach takes {len(step.names)} lists of one length")
            return list(zip(*lists))
        if len(step.names) == 1:
            return [(item,) for item in items]
        rows = [elements(settled(item)) for item in items]
        rows = [row * len(step.names) if rank_of(item) == 0 else row for row, item in zip(rows, items)]
        if any(len(row) != len(step.names) for row in rows):
            raise errors.length(f":For takes {len(step.names)} values for as many names")
        return rows


def _settled_start(parts: Sequence[Any], after: Callable[[Sequence[Any]], list[Any]]) -> list[Any]:
    """Return the initial arrays of a loop in the types that a trip gives them."""
    start = list(parts)
    for _ in range(2):
        with current().block() as trial:  # to learn the types; it has no effects
            trial.prints = []
            made = after(start)
        start = [like(a, b) if b.settled.is_floating else like(a, a) for a, b in zip(start, made)]
    return start


def _refuse_leaving(left: _Leaving | None, spot: Spot) -> None:
    if left is not None:
        raise errors.domain(
            f"{left.kind if left.kind == '→' else f':{left.kind}'} leaves a block whose test is not known when the "
            "function is compiled",
            remedy="a name that holds the result, and a test around the lines that follow",
        ).at(spot)


def _refuse_assignments(names: set[str], spot: Spot) -> None:
    if names:
        raise errors.domain(
            f"a test assigns {', '.join(sorted(names))}, and is not known when the function is compiled",
            remedy="the assignment on a line of its own",
        ).at(spot)


def _truth(test: Value) -> Any:
    return truth(lifted(test)) if is_traced(test) else bool(test.item())


def _numbers(parts: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(as_numbers(p) if kind_of(p) == "b" else p for p in map(lifted, parts))
