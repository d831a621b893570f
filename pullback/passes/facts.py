"""Facts about a program after a pass, on which later passes and lowering rely, with their checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Final

from pullback.errors import VerifyError
from pullback.ir import nodes as ir
from pullback.ir.index import as_index
from pullback.ir.printer import print_statement
from pullback.ir.program import walk_statements
from pullback.ir.traverse import walk
from pullback.passes.commute import commute
from pullback.passes.halves import stored_apart
from pullback.records import dataclass
from pullback.rewrite.cse import eliminate_dead
from pullback.rewrite.normal_form import peel_guards


@dataclass(frozen=True)
class Fact:
    """A property of a program.

    Attributes:
        text: the fact, in one line.
        against: returns counterexamples: arrays or statements.
        lasting: whether all later passes preserve it.
    """

    text: str
    against: Callable[[ir.Program], Iterable[ir.Ref | ir.Statement]]
    lasting: bool = True


def check_fact(fact: Fact, program: ir.Program) -> None:
    """Check that a fact holds of a program.

    Raises:
        VerifyError: [E316] it does not hold.
    """
    found = next(iter(fact.against(program)), None)
    if found is not None:
        what = found.name if isinstance(found, ir.Ref) else print_statement(found).splitlines()[0].strip()
        raise VerifyError("E316", f"{program.name}: it should hold that {fact.text}", facts=[what])


def _ruled(program: ir.Program) -> Iterator[ir.Statement]:
    return (s for s in walk_statements(program.body) if isinstance(s, ir.Call) and s.rules)


def _calls(program: ir.Program) -> Iterator[ir.Statement]:
    return (s for s in walk_statements(program.body) if isinstance(s, ir.Call))


def _nested(program: ir.Program) -> Iterator[ir.Statement]:
    for s in walk_statements(program.body):
        if isinstance(s, ir.Build) and any(map(_holds_reduction, s.values)):
            yield s


def _holds_reduction(value: ir.Scalar) -> bool:
    """Whether there is a reduction below the top other than under guards, index guards included."""
    core = peel_guards(value)[1]
    inner = core.arg if isinstance(core, ir.Reduce) else core
    return any(isinstance(n, ir.Reduce) for n in walk(inner, into_indices=False))


def _unsorted(program: ir.Program) -> Iterator[ir.Statement]:
    for s in walk_statements(program.body):
        if isinstance(s, ir.Sort) and not (
            isinstance(s.value, ir.Get) and s.value.indices == tuple(map(as_index, s.vars))
        ):
            yield s


def _not_same(program: ir.Program, run: Callable[[ir.Program], ir.Program]) -> Iterator[ir.Statement]:
    """The statements that the function changes."""
    pairs = zip_longest(walk_statements(program.body), walk_statements(run(program).body))
    return (a for a, b in pairs if a is not None and (b is None or a.outs != b.outs or _values(a) != _values(b)))


def _values(s: ir.Statement) -> tuple[ir.Scalar, ...]:
    return s.values if isinstance(s, ir.Build) else ()


STORED: Final = Fact("inputs and results have their storage types, other arrays that of their elements", stored_apart)
NO_RULES: Final = Fact("no call has rules", _ruled)
NO_CALLS: Final = Fact("there are no calls", _calls)
NORMAL: Final = Fact("each reduction is the whole of its statement", _nested, lasting=False)
IN_ORDER: Final = Fact("factors are in canonical order", lambda p: _not_same(p, commute), lasting=False)
NEEDED: Final = Fact("every statement is needed", lambda p: _not_same(p, eliminate_dead), lasting=False)
SORTED_ARRAYS: Final = Fact("the operand of each sort is a stored array", _unsorted)
