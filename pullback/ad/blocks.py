"""Statements with blocks in reverse: fold, scan, while and cond.

A fold is one edge whose operator is itself a chain: its transpose runs the steps backwards. The forward fold also
stacks the incoming states and what else of the body the backward one reads; step t of the backward fold is that part of
the body's own vjp that depends on cotangents:

    forward    s_{t+1}, r_t = f(s_t, x[t], w)                            s_t and r_t are stacked
    backward   (s_bar, x_bar[t], dw) = vjp f (s_t, r_t, x[t], w)(s_bar)   for t = T - 1 .. 0,  w_bar += dw

What takes one operation is computed again instead.

An array read only in rows x[t, ..], x[t + 1, ..] or x[T - 1 - t, ..] has its cotangent written row by row, which is a
scan; any other captured array accumulates. Where cotangents are zero by structure (`ad.guards`), an array of bools
goes with them, as a state where they are one. What the backward pass does not read is not stacked (dead code). A while
loop with a bound on its trips is the fold that stops changing its states; a cond is transposed branch by branch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pullback.ir import expr, types
from pullback.ir.expr import Add, Apply, Get, Mul, Reduce, Ref, Scalar, Select
from pullback.ir.index import Index, Var, as_index, cond, prove_nonnegative
from pullback.ir.program import (
    Block,
    Build,
    Choose,
    Elementwise,
    Fold,
    Program,
    Statement,
    While,
    block_reads,
    scalars_of,
    statement_reads,
)
from pullback.ir.traverse import Substitution, walk
from pullback.rewrite.brackets import solve

Vjp = Callable[[Program, Sequence[int]], Program]
GuardedVjp = Callable[[Program, Sequence[int], Collection[int]], tuple[Program, dict[int, bool]]]
Test = Callable[[Sequence[Var]], Scalar]  # says at indices whether an element may be other than a structural zero
Cotangents = Mapping[Ref, Ref]
Row = tuple[Ref, Index]  # an array, and where along its first axis a step reads it

FEW_ROWS = 4  # rows of one array that a step may read for their cotangents to be written row by row


@dataclass
class Transposed:
    """What takes the place of a statement, what runs backwards, and the cotangents of what the statement read."""

    primal: tuple[Statement, ...]
    backward: list[Statement]
    cotangents: list[tuple[Ref, Ref, Test | None]]


def element_of(where: Ref) -> Test:
    """The test that an array of bools holds."""
    return lambda indices: expr.get(where, *indices)


def element_copy(name: str, source: Ref, leading: tuple[Index, ...]) -> Build:
    """name[i..] = source[leading.., i..]: a row of an array as an array of its own, zeros where there is none."""
    shape = source.shape[len(leading) :]
    variables = tuple(Var(f"i{k}", d) for k, d in enumerate(shape))
    return Build((Ref(name, source.dtype, shape),), variables, (_in_row(source, (*leading, *variables)),))


def _in_row(source: Ref, indices: Sequence[Index | Var]) -> Scalar:
    """An element of a row: exactly zero where the row's place, which guards that are gone kept in range, is outside."""
    first, last = as_index(indices[0]), source.shape[0] - 1 - as_index(indices[0])
    inside = [cond(">=", i) for i in (first, last) if not prove_nonnegative(i)]
    return expr.bracket(inside, expr.get(source, *indices))


def zeros(name: str, like: Ref) -> Build:
    """An array of zeros shaped like another."""
    variables = tuple(Var(f"i{k}", d) for k, d in enumerate(like.shape))
    return Build((Ref(name, like.dtype, like.shape),), variables, (expr.zero(like.dtype),))


def active_in(block: Block, sources: set[Ref]) -> set[Ref]:
    """The floating arrays of a block that depend on a source; loops included, to a fixed point."""
    active = set(sources)
    for s in block.statements:
        if isinstance(s, Fold | While):
            inner = loop_active(s, active)
            active.update(
                o
                for k, o in enumerate(s.outs)
                if s.body.results[k] in inner or (k < len(s.states) and s.states[k] in inner)
            )
        elif any(r in active for r in statement_reads(s)):
            active.update(o for o in s.outs if o.dtype.is_floating)
    return active


def loop_active(s: Fold | While, outside: set[Ref]) -> set[Ref]:
    """The arrays active inside a loop's body, its states included."""
    states = {r for r, init in zip(s.states, s.inits, strict=True) if init in outside and r.dtype.is_floating}
    while True:
        inner = active_in(s.body, outside | states)
        more = {r for r, new in zip(s.states, s.body.results, strict=False) if new in inner and r.dtype.is_floating}
        if more <= states:
            return inner
        states |= more


def transpose_fold(
    s: Fold, cotangents: Cotangents, wheres: Cotangents, active: set[Ref], vjp: GuardedVjp
) -> Transposed:
    """The backward fold of a fold; see the module's header. `wheres` say where cotangents are not zero by structure.

    Where one is, or where a step gives one to a state, the backward fold carries such an array for each state.
    """
    count = len(s.states)
    inside = loop_active(s, active)
    captured = [r for r in block_reads(s.body) if r in active and r not in s.states]
    slices = {r: firsts for r in captured if (firsts := _rows_read(s, r))}
    shared = [r for r in captured if r not in slices]
    moving = [k for k in range(count) if s.states[k] in inside]
    rows = {(r, at): Ref(f"{r.name}_row", r.dtype, r.shape[1:]) for r, firsts in slices.items() for at in firsts}

    def element(ref: Ref, indices: tuple[Index, ...]) -> Scalar:
        return expr.get(rows[ref, indices[0]], *indices[1:]) if ref in slices else expr.get(ref, *indices)

    body = Substitution(get=element).block(s.body) if rows else s.body
    wrt = [*(s.states[k] for k in moving), *rows.values(), *shared]
    step = Program("step", (*s.states, *rows.values(), *shared), body, tuple(r.name for r in body.results))
    sources = [step.inputs.index(r) for r in wrt]
    derived, told = vjp(step, sources, ())
    guarded: list[int] = []
    if wheres or any(k < len(moving) for k in told):
        guarded = [k for k, r in enumerate(body.results) if r.dtype.is_floating and (
            k in moving if k < count else s.outs[k] in wheres)]
        derived, told = vjp(step, sources, guarded)

    # the forward fold, with incoming states stacked, and what of the body the backward one would compute again
    trips = s.var.extent
    given_in = derived.inputs[len(step.inputs) :]
    seeds, tests = given_in[: len(given_in) - len(guarded)], given_in[len(given_in) - len(guarded) :]
    ahead, behind = _independent(derived.body.statements, set(given_in))
    stored = _stored(ahead, behind, derived.outputs)
    own = dict(zip(derived.outputs[count : len(body.results)], s.outs[count:], strict=True))  # rows that are there
    stacks = {
        r: own.get(r) or Ref(f"{r.name}_steps", r.dtype, (trips, *r.shape), r.bounds) for r in (*s.states, *stored)
    }
    more = [r for r in stacks if r not in own]
    forward = _forward(
        s, Block(tuple(ahead), derived.outputs[: len(body.results)]), rows, more, [stacks[r] for r in more]
    )

    # the backward fold
    var = Var(f"{s.var.name}_back", trips)
    now = trips - 1 - as_index(var)
    before: list[Statement] = []
    inner: list[Statement] = []
    refs: dict[Ref, Ref] = {r: r for r in shared}
    for r, stack in stacks.items():
        refs[r] = emit(inner, element_copy(r.name, stack, (now,)))
    at_now = Substitution(variables={s.var: now})
    for (r, at), row in rows.items():
        refs[row] = emit(inner, element_copy(row.name, r, (at_now.index(at),)))

    states: list[Ref] = []
    inits: list[Ref] = []
    for k in moving:
        given = cotangents.get(s.outs[k])
        inits.append(given if given is not None else emit(before, zeros(f"{s.states[k].name}_bar0", s.states[k])))
        states.append(Ref(f"{s.states[k].name}_bar", s.states[k].dtype, s.states[k].shape))
    for r in shared:
        inits.append(emit(before, zeros(f"{r.name}_bar0", r)))
        states.append(Ref(f"{r.name}_bar", r.dtype, r.shape))

    carried = {k: Ref(f"{s.states[k].name}_where", types.bool_, s.states[k].shape) for k in guarded if k < count}
    for k, where in carried.items():
        is_given = s.outs[k] in cotangents
        states.append(where)
        inits.append(wheres[s.outs[k]] if s.outs[k] in wheres else emit(before, _filled(where, is_given)))
    gathered = {r: Ref(f"{r.name}_where", types.bool_, r.shape) for k, r in enumerate(wrt) if r in shared and k in told}
    for where in gathered.values():
        states.append(where)
        inits.append(emit(before, _filled(where, False)))
    for k, r in zip(guarded, tests, strict=True):
        refs[r] = carried[k] if k < count else emit(inner, element_copy(r.name, wheres[s.outs[k]], (now,)))

    floating = ((k, r) for k, r in enumerate(body.results) if r.dtype.is_floating)
    for (k, result), seed in zip(floating, seeds, strict=True):
        given = cotangents.get(s.outs[k])
        if k < count:
            known = states[moving.index(k)] if k in moving else None
        else:
            known = None if given is None else emit(inner, element_copy(f"{result.name}_bar", given, (now,)))
        refs[seed] = known if known is not None else emit(inner, zeros(f"{result.name}_bar", result))

    again = _needed(ahead, {*derived.outputs[len(body.results) :], *_reads(behind)}, stored)
    rest = Block((*again, *behind), derived.outputs[len(body.results) :])
    block = Substitution(variables={s.var: now}, refs=refs).block(rest)
    inner += block.statements
    found = dict(zip(wrt, block.results, strict=False))
    said = iter(block.results[len(wrt) :])
    open_at = {wrt[k]: next(said) if some else emit(inner, _filled(wrt[k], False)) for k, some in sorted(told.items())}
    results = [found[s.states[k]] for k in moving]
    for r, total in zip(shared, states[len(moving) :], strict=False):
        results.append(emit(inner, _combined("add", total, found[r])))
    results += [open_at.get(s.states[k]) or emit(inner, _filled(where, True)) for k, where in carried.items()]
    results += [emit(inner, _combined("logical_or", where, open_at[r])) for r, where in gathered.items()]
    results += [found[row] for row in rows.values()]
    told_rows = {place: row for place, row in rows.items() if row in open_at}
    results += [open_at[row] for row in told_rows.values()]
    outs = [Ref(x.name, x.dtype, x.shape) for x in states]
    outs += [Ref(f"{r.name}_bar_rows", r.dtype, (trips, *row.shape)) for (r, _), row in rows.items()]
    outs += [Ref(f"{r.name}_where_rows", types.bool_, (trips, *row.shape)) for (r, _), row in told_rows.items()]
    before.append(Fold(tuple(outs), var, tuple(states), tuple(inits), Block(tuple(inner), tuple(results)), s.positions))

    out_of = dict(zip(states, outs, strict=False))
    row_outs, row_wheres = outs[len(states) : len(states) + len(rows)], outs[len(states) + len(rows) :]
    given_to: list[tuple[Ref, Ref, Test | None]] = []
    for j, k in enumerate(moving):
        if s.inits[k] in active:
            given_to.append((s.inits[k], outs[j], element_of(out_of[carried[k]]) if k in carried else None))
    for j, r in enumerate(shared):
        given_to.append((r, outs[len(moving) + j], element_of(out_of[gathered[r]]) if r in gathered else None))
    said_rows = dict(zip(told_rows, row_wheres, strict=True))
    for place, out in zip(rows, row_outs, strict=True):
        said_here = said_rows.get(place)
        test = None if said_here is None else element_of(emit(before, _rows_in_place(*place, s.var, said_here)))
        given_to.append((place[0], emit(before, _rows_in_place(*place, s.var, out)), test))
    return Transposed((forward,), before, given_to)


def _filled(like: Ref, value: bool) -> Build:
    """An array of one bool, shaped like another."""
    variables = tuple(Var(f"i{k}", d) for k, d in enumerate(like.shape))
    return Build((Ref(like.name, types.bool_, like.shape),), variables, (expr.const(value, types.bool_),))


def _combined(name: Literal["add", "logical_or"], a: Ref, b: Ref) -> Build:
    """Two arrays, element by element."""
    variables = tuple(Var(f"i{k}", d) for k, d in enumerate(a.shape))
    x, y = expr.get(a, *variables), expr.get(b, *variables)
    value = expr.add(x, y) if name == "add" else expr.apply(name, x, y)
    return Build((Ref(a.name, a.dtype, a.shape),), variables, (value,))


def _independent(statements: Sequence[Statement], seeds: set[Ref]) -> tuple[list[Statement], list[Statement]]:
    """The statements that do not depend on the seeds, and those that do."""
    dependent = set(seeds)
    ahead: list[Statement] = []
    behind: list[Statement] = []
    for s in statements:
        if dependent.isdisjoint(statement_reads(s)):
            ahead.append(s)
        else:
            behind.append(s)
            dependent.update(s.outs)
    return ahead, behind


def _reads(statements: Sequence[Statement]) -> set[Ref]:
    return {r for s in statements for r in statement_reads(s)}


def _needed(ahead: Sequence[Statement], wanted: set[Ref], stored: Collection[Ref]) -> list[Statement]:
    """The statements that compute what is wanted and not stored."""
    wanted = set(wanted)
    out: list[Statement] = []
    for s in reversed(ahead):
        if not wanted.isdisjoint(s.outs) and not all(o in stored for o in s.outs if o in wanted):
            out.append(s)
            wanted.update(statement_reads(s))
    return out[::-1]


def _stored(ahead: Sequence[Statement], behind: Sequence[Statement], results: Sequence[Ref]) -> list[Ref]:
    """The arrays of `ahead` that are kept for `behind`: those that cost more to compute again than to load.

    What takes an operation or none is computed again, where that needs no array that is not kept anyway.
    """
    made = {o for s in ahead for o in s.outs}
    wanted = (_reads(behind) | set(results)) & made
    out: list[Ref] = []
    for s in reversed(ahead):
        here = [o for o in s.outs if o in wanted]
        if not here:
            continue
        parts = made & statement_reads(s).keys()
        if isinstance(s, Build) and all(map(_is_cheap, s.values)) and parts <= wanted:
            continue
        out += here
    return out[::-1]


def _is_cheap(e: Scalar) -> bool:
    """Whether an element takes one operation at most."""
    total = 0
    for node in walk(e):
        match node:
            case Add() | Mul():
                total += len(node.args) - 1
            case Apply() if node.primitive.transcendental or node.primitive.name == "divide":
                return False
            case Apply() | Select():
                total += 1
            case Reduce():
                return False
    return total <= 1


def _forward(s: Fold, body: Block, rows: dict[Row, Ref], more: Sequence[Ref], stacks: Sequence[Ref]) -> Fold:
    """The fold with another form of its body, which gives rows of more arrays."""
    source = {row: place for place, row in rows.items()}

    def element(ref: Ref, indices: tuple[Index, ...]) -> Scalar:
        r, *first = source.get(ref, (ref,))
        return _in_row(r, (*first, *indices)) if first else expr.get(ref, *indices)

    block = Substitution(get=element).block(replace(body, results=(*body.results, *more)))
    return replace(s, outs=(*s.outs, *stacks), body=block)


def _rows_in_place(r: Ref, at: Index, var: Var, rows: Ref) -> Build:
    """r_bar[m, ..] = sum over t of [m == at(t)] rows[trips - 1 - t, ..], the sum solved for t."""
    variables = tuple(Var(f"i{k}", d) for k, d in enumerate(r.shape))
    step = Var(var.name, var.extent)
    there = Substitution(variables={var: as_index(step)}).index(at)
    term = expr.get(rows, var.extent - 1 - as_index(step), *variables[1:])
    solution = solve((step,), [as_index(variables[0]) - there], term)
    assert solution is not None, "a row's place reads no data"
    value = expr.reduce("any" if rows.dtype.is_bool else "sum", solution.variables, solution.term)
    return Build((Ref(rows.name.removesuffix("_rows"), rows.dtype, r.shape),), variables, (value,))


def emit(statements: list[Statement], s: Build) -> Ref:
    """Add a statement; the array it defines."""
    statements.append(s)
    return s.outs[0]


def _rows_read(s: Fold, r: Ref) -> tuple[Index, ...]:
    """The first indices of all reads of r, where they are a few functions of the step alone; else none.

    Only the body's own statements may read it, and none may give it as a result.
    """
    if r.rank == 0 or r in s.body.results:
        return ()
    firsts: dict[Index, None] = {}
    for t in s.body.statements:
        if r not in statement_reads(t):
            continue
        if not isinstance(t, Elementwise):
            return ()
        for v in scalars_of(t):
            firsts |= {n.indices[0]: None for n in walk(v) if isinstance(n, Get) and n.ref is r}
    steps = (i.free == {s.var} and not i.data for i in firsts)
    return tuple(firsts) if len(firsts) <= FEW_ROWS and all(steps) else ()


def while_as_fold(s: While) -> tuple[Statement, ...]:
    """A while loop of at most max_trips steps as a fold whose states stay once the test has failed."""
    assert s.max_trips is not None
    alive0, alive = Ref("alive", types.bool_, ()), Ref("alive", types.bool_, ())
    first = Substitution(refs=dict(zip(s.states, s.inits, strict=True))).block(s.test)
    going = Substitution().block(s.body)
    again = Substitution(refs=dict(zip(s.states, going.results, strict=True))).block(s.test)
    then = Block((*going.statements, *again.statements), (*going.results, again.results[0]))
    outs = tuple(Ref(r.name, r.dtype, r.shape) for r in (*s.states, alive))
    choose = Choose(outs, alive, then, Block((), (*s.states, alive)), s.positions)
    left = Ref("alive", types.bool_, ())
    start = Build((alive0,), (), (expr.get(first.results[0]),))
    fold = Fold(
        (*s.outs, left),
        Var("trip", s.max_trips),
        (*s.states, alive),
        (*s.inits, alive0),
        Block((choose,), outs),
        s.positions,
    )
    return (*first.statements, start, fold)


def transpose_choose(
    s: Choose, cotangents: Cotangents, wheres: Cotangents, active: set[Ref], vjp: GuardedVjp
) -> Transposed:
    """The backward cond: the branch that ran, transposed; both give the cotangents of what either reads.

    What one branch alone reads has a cotangent that is zero by structure where the other one ran.
    """
    captured = [r for r in {**block_reads(s.then), **block_reads(s.otherwise)} if r in active]
    backward: list[Statement] = []
    seeds = {}
    for o in s.outs:
        if o.dtype.is_floating:
            given = cotangents.get(o)
            seeds[o] = given if given is not None else emit(backward, zeros(f"{o.name}_bar", o))
    guarded = [k for k, o in enumerate(s.outs) if o in wheres]
    branches: list[Block] = []
    told: list[dict[int, Ref | None]] = []
    for block in (s.then, s.otherwise):
        program = Program("branch", tuple(captured), block, tuple(r.name for r in block.results))
        derived, open_at = vjp(program, range(len(captured)), guarded)
        refs = {r: r for r in captured}
        given_in = (*seeds.values(), *(wheres[s.outs[k]] for k in guarded))
        refs |= dict(zip(derived.inputs[len(captured) :], given_in, strict=True))
        copy = Substitution(refs=refs).block(derived.body)
        results = copy.results[len(block.results) :]
        said = iter(results[len(captured) :])
        told.append({k: next(said) if some else None for k, some in sorted(open_at.items())})
        branches.append(replace(copy, results=results[: len(captured)]))
    outs = tuple(Ref(f"{r.name}_bar", r.dtype, r.shape) for r in captured)
    tests: dict[int, Test | None] = {}
    extra: list[Ref] = []
    for k, r in enumerate(captured):
        closed = [k in t and t[k] is None for t in told]
        if not any(k in t for t in told) or all(closed):
            tests[k] = None
        elif not any(t.get(k) for t in told):
            tests[k] = _ran(s.test, closed[1])
        else:
            where = Ref(f"{r.name}_where", types.bool_, r.shape)
            extra.append(where)
            tests[k] = element_of(where)
            for j, t in enumerate(told):
                made = list(branches[j].statements)
                said_here = t.get(k) or emit(made, _filled(where, k not in t))
                branches[j] = Block(tuple(made), (*branches[j].results, said_here))
    backward.append(Choose((*outs, *extra), s.test, branches[0], branches[1], s.positions))
    return Transposed((s,), backward, [(r, outs[k], tests[k]) for k, r in enumerate(captured)])


def _ran(test: Ref, then: bool) -> Test:
    """That a cond took its first branch, or its other one."""
    taken = expr.get(test)
    return lambda _: taken if then else expr.apply("logical_not", taken)
