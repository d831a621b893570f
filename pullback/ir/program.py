"""Statements, blocks and programs.

A program is a list of statements in let-normal form over arrays (`Ref`s); scalars live inside statements.

    Build    outs[i..] = value(i..)   one or more arrays over one index space
    Scatter  out[index(i..)] += value(i..), from zero; the one statement for data-dependent targets
    Sort     the elements value(i.., k) along their last axis in order, or the positions k in that order
    Fold     states carried through `trips` steps, and per-step results stacked along a new leading axis (scan)
    While    states carried while a test holds, at most `max_trips` steps where that is given
    Choose   one of two blocks, chosen by a bool array of rank 0
    Call     a block that derivatives take as a whole: by rules of its own, or by running it again
    External the results of a user's C function on whole arrays; derivatives need the rules of a Call around it

There are no local arrays: array operations nested in a `build` are lifted to statements with more axes. So every
derivative and pass sees flat statements, and fusion joins them again. Blocks of Fold, While, Choose and Call may read
any array defined before the statement. Source locations take no part in equality and text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pullback.ir.expr import Ref, Scalar, index_refs
from pullback.ir.foreign import Foreign
from pullback.ir.index import Cond, Dim, Index, Var
from pullback.ir.settings import DEFAULT, Settings
from pullback.records import dataclass, replace
from pullback.source import Position

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Part = TypeVar("Part", bound="DataclassInstance")


@dataclass(frozen=True, eq=False)
class Build:
    """Arrays `outs[k][vars] = values[k]` over the variables, of shape (v.extent for v in vars)."""

    outs: tuple[Ref, ...]
    vars: tuple[Var, ...]
    values: tuple[Scalar, ...]
    positions: tuple[Position, ...] = ()


@dataclass(frozen=True, eq=False)
class Scatter:
    """An accumulation: out = zeros; in row-major order over the variables, out[indices] += value.

    The indices are in range wherever the value's guards hold; Data atoms are in the range they declare.
    """

    out: Ref
    vars: tuple[Var, ...]
    indices: tuple[Index, ...]
    value: Scalar
    positions: tuple[Position, ...] = ()

    @property
    def outs(self) -> tuple[Ref, ...]:
        """The defined arrays, as for other statements."""
        return (self.out,)


@dataclass(frozen=True, eq=False)
class Sort:
    """A sort along the last variable: ascending and stable, NaN last.

    With `what` "values", out holds the sorted elements. With "positions", out[.., r] is the original place of the r-th.
    """

    out: Ref
    vars: tuple[Var, ...]
    value: Scalar
    what: Literal["values", "positions"] = "positions"
    positions: tuple[Position, ...] = ()

    @property
    def outs(self) -> tuple[Ref, ...]:
        """The defined arrays, as for other statements."""
        return (self.out,)


@dataclass(frozen=True, eq=False)
class Block:
    """Statements, and the arrays that they return to the enclosing statement."""

    statements: tuple[Statement, ...]
    results: tuple[Ref, ...]


@dataclass(frozen=True, eq=False)
class Fold:
    """A loop with state.

    for var in 0 .. trips - 1: states, stacked rows = body(states, var). `var.extent` is the trip count.
    body.results are the new states, then the rows; outs are the final states, then the stacked arrays, whose
    leading dim is the trip count. With no trips the states are the inits.
    """

    outs: tuple[Ref, ...]
    var: Var
    states: tuple[Ref, ...]
    inits: tuple[Ref, ...]
    body: Block
    positions: tuple[Position, ...] = ()


@dataclass(frozen=True, eq=False)
class While:
    """A loop: while test(states), at most max_trips times, states = body(states). test gives one bool."""

    outs: tuple[Ref, ...]
    states: tuple[Ref, ...]
    inits: tuple[Ref, ...]
    test: Block
    body: Block
    max_trips: Dim | None = None
    positions: tuple[Position, ...] = ()


@dataclass(frozen=True, eq=False)
class Choose:
    """The results of `then` if the rank-0 bool `test` holds, else of `otherwise`; only one block runs."""

    outs: tuple[Ref, ...]
    test: Ref
    then: Block
    otherwise: Block
    positions: tuple[Position, ...] = ()


@dataclass(frozen=True, eq=False)
class Alternatives(Choose):
    """Two blocks with the same results up to rounding; the compiler may take either.

    `test` is true, so `then` is the meaning: the interpreter runs it, and it stays if a walker makes a plain Choose.
    """


@dataclass(frozen=True, eq=False)
class Rule:
    """One derivative of a Call, given by the user: a block over the call's params and these params.

    forward    params: the outs, the tangents of the floating operands; results: the tangents of the floating outs
    backward   params: the outs, the cotangents of the floating outs; results: the cotangents of the floating operands
    """

    params: tuple[Ref, ...]
    block: Block
    name: str = "rule"  # for errors


@dataclass(frozen=True, eq=False)
class Call:
    """A block that derivatives keep together: outs = body(params = operands).

    With a rule, the rule gives the derivatives by the operands, and its transpose gives the other direction. Without
    one the call is a checkpoint: reverse mode stores nothing of it and runs it again. Optimization inlines both, a call
    with a rule before the passes, a checkpoint after them.

    A rule may call its own function. An inner call with the `name` of the enclosing call and no rules of its own takes
    the enclosing call's rules, over its own params. So recursive rules are finite.
    """

    outs: tuple[Ref, ...]
    operands: tuple[Ref, ...]
    params: tuple[Ref, ...]
    body: Block
    forward: Rule | None = None
    backward: Rule | None = None
    positions: tuple[Position, ...] = ()
    name: str = ""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that the call has."""
        return tuple(r for r in (self.forward, self.backward) if r is not None)

    @property
    def again(self) -> bool:
        """Whether it takes the rules of the enclosing call of its name."""
        return bool(self.name) and not self.rules


@dataclass(frozen=True, eq=False)
class External:
    """The outs of a user's C function, outs = foreign(operands, sizes), of given types."""

    outs: tuple[Ref, ...]
    foreign: Foreign
    operands: tuple[Ref, ...]
    sizes: tuple[Dim, ...]
    positions: tuple[Position, ...] = ()


Elementwise = Build | Scatter | Sort  # statements of scalars over their variables, without blocks
Statement = Elementwise | Fold | While | Choose | Call | External


@dataclass(frozen=True, eq=False)
class Program:
    """A whole function: arrays in, statements, arrays out.

    Attributes:
        name: the user's name for it.
        inputs: arrays in call order. The dims of a call are solved from their shapes.
        body: statements; `body.results` are the outputs, in order (an input may be an output).
        output_names: a name for each output, for the text form and C.
        requires: conditions on dims checked at each call (`N - K >= 0`); proofs used them.
        sizes: dim symbols bound by integer arguments (`pb.Size`) and not by a shape.
        doc: the user's docstring.
        settings: the settings apart from its statements.
    """

    name: str
    inputs: tuple[Ref, ...]
    body: Block
    output_names: tuple[str, ...] = ()
    requires: tuple[Cond, ...] = ()
    sizes: tuple[str, ...] = ()
    doc: str = ""
    settings: Settings = DEFAULT

    def with_body(self, body: Block) -> Program:
        """The program with other statements."""
        return with_fields(self, body=body)

    @property
    def outputs(self) -> tuple[Ref, ...]:
        """The output arrays, in order."""
        return self.body.results


@dataclass(frozen=True, eq=False)
class Outline:
    """A program without its statements: enough for a call whose machine code is cached.

    Attributes:
        outputs: arrays like the outputs of the program.
        identity: a digest of everything that determines the statements; outlines of one identity have equal programs.
        make: a function that takes the derivatives and returns the program; see `program`.
        name, inputs, output_names, requires, sizes, doc, settings: as in `Program`.
    """

    name: str
    inputs: tuple[Ref, ...]
    outputs: tuple[Ref, ...]
    identity: str
    make: Callable[[], Program]
    output_names: tuple[str, ...] = ()
    requires: tuple[Cond, ...] = ()
    sizes: tuple[str, ...] = ()
    doc: str = ""
    settings: Settings = DEFAULT

    @cached_property
    def program(self) -> Program:
        """The program, made once."""
        return self.make()

    def with_body(self, body: Block) -> Program:
        """The program with these statements."""
        return Program(self.name, self.inputs, body, self.output_names, self.requires, self.sizes, self.doc,
                       self.settings)


Known = Program | Outline


def program_of(known: Known) -> Program:
    """The program itself, made from an outline if necessary."""
    return known.program if isinstance(known, Outline) else known


def with_fields(part: Part, **fields: Any) -> Part:
    """Replace fields of a program, block or statement; itself if nothing changes.

    So a pass without work returns the program itself, and callers can test that by identity.
    """
    if all(getattr(part, name) == value for name, value in fields.items()):
        return part
    return replace(part, **fields)


def scalars_of(statement: Elementwise) -> tuple[Scalar, ...]:
    """The scalars that a statement computes for each element."""
    return statement.values if isinstance(statement, Build) else (statement.value,)


def map_scalars(statement: Statement, scalar: Callable[[Scalar], Scalar],
                index: Callable[[Index], Index] | None = None) -> Statement:
    """The statement with changed scalars and indices; unchanged ones, or those with blocks, as they are."""
    match statement:
        case Build():
            values = tuple(map(scalar, statement.values))
            return with_fields(statement, values=values)
        case Scatter():
            indices = statement.indices if index is None else tuple(map(index, statement.indices))
            value = scalar(statement.value)
            return with_fields(statement, indices=indices, value=value)
        case Sort():
            return with_fields(statement, value=scalar(statement.value))
        case _:
            return statement


def blocks_of(statement: Statement) -> tuple[Block, ...]:
    """The blocks a statement holds."""
    match statement:
        case Fold():
            return (statement.body,)
        case While():
            return (statement.test, statement.body)
        case Choose():
            return (statement.then, statement.otherwise)
        case Call():
            return (statement.body, *(r.block for r in statement.rules))
        case _:
            return ()


def map_blocks(statement: Statement, change: Callable[[Block], Block]) -> Statement:
    """Change each block of a statement; one without blocks stays as it is."""
    match statement:
        case Fold():
            return with_fields(statement, body=change(statement.body))
        case While():
            return with_fields(statement, test=change(statement.test), body=change(statement.body))
        case Choose():
            return with_fields(statement, then=change(statement.then), otherwise=change(statement.otherwise))
        case Call():
            rules = (r and with_fields(r, block=change(r.block)) for r in (statement.forward, statement.backward))
            body = change(statement.body)
            forward, backward = rules
            return with_fields(statement, body=body, forward=forward, backward=backward)
        case _:
            return statement


def bound_refs(statement: Statement) -> tuple[Ref, ...]:
    """The arrays that a statement defines for its own blocks."""
    match statement:
        case Fold() | While():
            return statement.states
        case Call():
            return (*statement.params, *(p for r in statement.rules for p in r.params))
        case _:
            return ()


def whole_reads(statement: Statement) -> tuple[Ref, ...]:
    """The arrays that a statement with blocks reads itself, outside its blocks."""
    match statement:
        case Fold() | While():
            return statement.inits
        case Choose():
            return (statement.test,)
        case Call() | External():
            return statement.operands
        case _:
            return ()


def walk_statements(block: Block) -> Iterator[Statement]:
    """Every statement of a block, nested ones after their holder."""
    for s in block.statements:
        yield s
        for b in blocks_of(s):
            yield from walk_statements(b)


def statement_reads(statement: Statement) -> dict[Ref, None]:
    """The arrays from outside that a statement reads, in a fixed order (by first definition)."""
    return _in_order(_reads(statement))


def _in_order(refs: Iterable[Ref]) -> dict[Ref, None]:
    return dict.fromkeys(sorted(refs, key=lambda r: r.serial))


def _reads(statement: Statement) -> AbstractSet[Ref]:
    found: set[Ref] = set()
    match statement:
        case Build():  # nearly all
            return frozenset().union(*[v.refs for v in statement.values])
        case Scatter():
            found |= statement.value.refs
            for i in statement.indices:
                found |= index_refs(i)
        case Sort():
            found |= statement.value.refs
        case _:
            found.update(whole_reads(statement))
    for b in blocks_of(statement):
        found.update(block_reads(b))
    return found.difference(bound_refs(statement))


def needed_for(statements: Sequence[Statement], results: Iterable[Ref]) -> tuple[Statement, ...]:
    """The statements that the results depend on, in order."""
    live = set(results)
    kept: list[Statement] = []
    for s in reversed(statements):
        if not live.isdisjoint(s.outs):
            kept.append(s)
            live |= _reads(s)
    return tuple(reversed(kept))


def block_reads(block: Block) -> dict[Ref, None]:
    """The arrays from outside that a block reads."""
    found: set[Ref] = set(block.results)
    defined: set[Ref] = set()
    for s in block.statements:
        found |= _reads(s)
        defined.update(s.outs)
    return _in_order(found - defined)
