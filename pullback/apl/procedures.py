"""∇-definitions as verbs, operators and values, and the scopes of their calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from pullback.apl import errors
from pullback.apl.control import (
    Block,
    block_of,
    labels_of,
)
from pullback.apl.dfns import CALLS, DEEPEST, DEEPEST_TRACED
from pullback.apl.errors import Spot, syntax
from pullback.apl.functions import Shy, Verb, plain
from pullback.apl.parser import Class
from pullback.apl.scopes import Operator, Scope
from pullback.apl.structures import run
from pullback.apl.system import Variable
from pullback.apl.table import Settings
from pullback.apl.tree import Definition
from pullback.apl.values import (
    Value,
    element,
    rank_of,
    shape_of,
    vector,
)
from pullback.state import PerThread, setting
from pullback.tracing.active import is_tracing


class Frame(Scope):
    """The scope of one call: names of the header are local, and others belong to the caller."""

    def __init__(self, parent: Scope, local: frozenset[str]) -> None:
        super().__init__(parent)
        self.local = local
        if any(name.startswith("⎕") for name in local):
            self.own_settings = parent.settings

    def bind(self, name: str, value: Any) -> None:
        """Give a name a value, in this call if it is local."""
        if name in self.local:
            self.names[name] = value
            return
        assert self.parent is not None
        self._refuse_outside(name)
        self.parent.bind(name, value)

    def set(self, variable: Variable, name: str, value: Any) -> None:
        """Give a system variable a value, for this call if it is local."""
        if name not in self.local:
            assert self.parent is not None
            self._refuse_outside(name)
            self.parent.set(variable, name, value)
        if self.own_settings is not None:
            self.own_settings = variable.changed(self.own_settings, value)

    def _refuse_outside(self, name: str) -> None:
        if is_tracing() and self.parent is not None and not self.parent.is_traced:
            raise errors.domain(
                f"{name} is not local, and a compiled function changes no names outside of it",
                remedy=f";{name} at the end of the header",
            )


class _Calls(PerThread):
    """The innermost call of a ∇-definition: names that it does not have are those of its caller."""

    innermost: Frame | None = None


_CALLS: Final = _Calls()


def outside_of_calls() -> setting:
    """Begin a text whose calls have the workspace as their caller."""
    return setting(_CALLS, innermost=None)


@dataclass(frozen=True, eq=False)
class Program:
    """A definition with its tree, and the scope that it was made in."""

    node: Definition
    scope: Scope

    @cached_property
    def block(self) -> Block:
        """The tree of its lines."""
        return block_of(self.node.body)

    @cached_property
    def labels(self) -> dict[str, int]:
        """The numbers of its labelled lines."""
        return labels_of(self.node.body, self.node.spot)

    def result(self, y: Value | None, x: Value | None, operands: Sequence[Any] = (), caller: Any = None) -> Shy | Value:
        """Run the lines; the value is marked if a session does not print it, and is None without a result."""
        header = self.node.header
        around = _CALLS.innermost
        parent = around if around is not None and around.host is self.scope.host else self.scope
        frame = Frame(parent, header.local | frozenset(self.labels))
        frame.names.update({name: np.array(line) for name, line in self.labels.items()})
        frame.names.update(zip(header.operands, operands))
        if x is not None:
            frame.names[header.left] = x
        if header.right:
            _bind_all(header.right, y, frame)
        most, how = (DEEPEST_TRACED, " while it is compiled") if is_tracing() else (DEEPEST, "")
        with CALLS.deeper(most, caller or self, f"inside one another{how}"), setting(_CALLS, innermost=frame):
            run(self.block, self.node, frame)
        values = [frame.names.get(name) for name in header.result]
        if not values or any(v is None for v in values):
            return Shy(None)
        made = values[0] if len(values) == 1 else vector(values)
        return Shy(made) if header.shy else made

    @property
    def name(self) -> str:
        """The name in the header."""
        return str(self.node.header.name)


def _bind_all(names: Sequence[str], value: Any, frame: Scope) -> None:
    """Bind one name to a value, or several to its elements."""
    if len(names) == 1:
        frame.bind(names[0], value)
        return
    if rank_of(value) > 1 or (rank_of(value) and shape_of(value)[0] != len(names)):
        raise errors.length(f"{len(names)} names take as many values")
    for k, name in enumerate(names):
        frame.bind(name, element(value, (k,)) if rank_of(value) else value)


@dataclass(frozen=True, eq=False)
class Procedure(Verb):
    """A ∇-definition with arguments, as a verb."""

    program: Program
    operands: tuple[Any, ...] = ()

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name in the header."""
        return self.program.name

    called = name

    @property
    def takes_left(self) -> bool:
        """Whether the header has a left argument."""
        return bool(self.program.node.header.left)

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return the value of the result's name; None without a result."""
        return plain(self.result(y, x))

    def result(self, y: Value, x: Value | None = None) -> Value | Shy:
        """The value, marked if the header has its result in braces."""
        header = self.program.node.header
        if x is not None and not header.left:
            raise syntax(f"{self.name} takes no left argument")
        if x is None and header.left and not header.optional:
            raise syntax(f"{self.name} takes a left argument", remedy=f"{{{header.left}}} in the header if it may lack")
        return self.program.result(y, x, self.operands, self)


@dataclass(frozen=True, eq=False)
class Niladic:
    """A ∇-definition without arguments: its name stands for the value of a call."""

    program: Program

    def result(self) -> Value | Shy:
        """Call it."""
        return self.program.result(None, None)


@dataclass
class ProcedureOperator(Operator):
    """A ∇-definition of an operator."""

    program: Program

    def __post_init__(self) -> None:
        count = len(self.program.node.header.operands)
        self.kind: Class = "monadic operator" if count == 1 else "dyadic operator"

    def derived(self, left: Any, right: Any, settings: Settings, axis: Value | None, spot: Spot) -> Verb:
        """Bind the operands."""
        return Procedure(self.program, (left,) if right is None else (left, right))


def defined(node: Definition, scope: Scope) -> Any:
    """Return what a definition defines, and give it its name.

    Raises:
        AplError: [E801] a control structure is not closed or stands outside of its place.
    """
    program = Program(node, scope)
    _ = program.block
    header = node.header
    made: Any = Procedure(program) if header.right else Niladic(program)
    if header.operands:
        if not header.right:
            raise syntax("an operator of a ∇-definition derives a function with a right argument", node.spot)
        made = ProcedureOperator(program)
    scope.bind(header.name, made)
    return made


__all__ = ["Niladic", "Procedure", "ProcedureOperator", "defined", "outside_of_calls"]
