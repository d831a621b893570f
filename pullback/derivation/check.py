"""Numeric checks of a derivation: claimed equalities hold at random points.

    Separated     a statement and its replacements compute the same arrays
    Local         the local derivatives applied to a direction equal the statement's central difference along it
    Transposed    the cotangent of an operand times a direction equals the result's cotangent times its change along it
    Solved        each line of a chain of deltas has the values of the line before; the same holds for a scatter
    Seeded        the derivative with its directions substituted gives the same results as with them as arguments
    Rewritten     programs before and after a pass give the same results

The arrays that a formula reads are random, because a step's claim holds for all arrays. Derived values, such as the
position of a maximum, are computed. Numbers are 64-bit, dims small and distinct. The interpreter evaluates formulas as
expressions. Central differences share no code with the rules that they check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, product
from typing import Any, Final

import numpy as np

from pullback.errors import DerivativeError
from pullback.ir import dims as dims_
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.grid import Arrays, Machine, NDArray
from pullback.ir.index import Var
from pullback.ir.interpret import run_block, run_statement
from pullback.ir.printer import print_scalar, print_statement
from pullback.ir.program import block_reads, blocks_of, statement_reads
from pullback.ir.traverse import walk
from pullback.rewrite.fired import Step
from pullback.rewrite.steps import Local, Rewritten, Scattered, Seeded, Separated, Solved, Transposed

SMALL: Final = (3, 4, 5, 2, 6, 7, 1, 8, 9)  # sizes to try for dims
LARGER: Final = (*SMALL, *range(10, 65))  # sizes to try if none of these fit
MOST: Final = 20_000  # most combinations of sizes to try
STEP: Final = 1e-6  # step of central differences; their error is about 1e-10 for moderate numbers
TOLERANCE: Final = {"difference": 1e-5, "equality": 1e-9}


@dataclass(frozen=True)
class Checked:
    """The number of checked steps of a derivation, and of steps that claim nothing numeric."""

    steps: int
    others: int


def check(program: ir.Program, steps: Sequence[Step], seed: int = 0) -> Checked:
    """Check the steps that led to a program.

    Raises:
        DerivativeError: [E227] the values before and after a step differ.
    """
    checker = _Checker(_dims(program), np.random.default_rng(seed))
    done = sum(checker.step(s) for s in steps)
    return Checked(done, len(steps) - done)


def _dims(program: ir.Program) -> dict[str, int]:
    """Choose small sizes for the program's dims: accepted by the program, and distinct if possible."""
    names = list(dims_.determined_dims(program))
    turned = ([(*sizes[k % 3 :], *sizes[: k % 3]) for k in range(len(names))] for sizes in (SMALL, LARGER))
    for values in chain.from_iterable(islice(product(*sizes), MOST) for sizes in turned):
        found = dict(zip(names, values, strict=True))
        if all(dims_.holds(c, found) for c in program.requires):
            return found
    raise DerivativeError("E227", f"{program.name}: no small dims were found at which its derivation can be checked",
                          remedy="`derivation(check=False)`, which shows it as it is")


@dataclass(frozen=True)
class _Line:
    """A formula's values over its variables, and the numbers they were computed with."""

    variables: tuple[Var, ...]
    values: NDArray
    machine: Machine


class _Checker:
    def __init__(self, dims: dict[str, int], rng: np.random.Generator) -> None:
        self.dims = dims
        self.rng = rng
        self.chain: _Line | None = None
        self.local: tuple[Local, Machine] | None = None
        self.taken: Counter[tuple[ir.Ref, ir.Ref]] = Counter()

    def step(self, s: Step) -> bool:
        """Check a step; return whether there was anything to check."""
        chain, self.chain = self.chain, None
        f = s.formula
        with np.errstate(all="ignore"):
            match f:
                case Separated():
                    self._same(s, (f.statement,), f.into, f.statement.outs, print_statement(f.statement))
                case Local():
                    self._local(s, f)
                case Transposed():
                    return self._transposed(s, f)
                case Solved() if chain is not None:
                    after = _values(chain.machine, chain.variables, f.value)
                    self._equal(s, chain.values, after, print_scalar(f.value))
                    self.chain = replace(chain, values=after)
                case Scattered() if chain is not None:
                    run_statement(chain.machine, f.statement)
                    found = chain.machine.arrays[f.statement.outs[0]]
                    self._equal(s, chain.values, found, print_statement(f.statement))
                case Seeded():
                    self._seeded(s, f)
                case Rewritten():
                    self._rewritten(s, f)
                case _:
                    return False
        return True

    # Numbers ------------------------------------------------------------------------------------------------

    def _machine(self, reads: Iterable[ir.Ref], free: Iterable[Var] = ()) -> Machine:
        """An interpreter with random arrays for `reads` and random values of enclosing loop variables."""
        machine = Machine(dict(self.dims), float64=True)
        for v in free:
            machine.loops[v] = int(self.rng.integers(max(1, dims_.evaluate(v.extent, self.dims))))
        for r in reads:
            if r not in machine.arrays:
                machine.arrays[r] = self._random(r)
        return machine

    def _random(self, r: ir.Ref) -> NDArray:
        shape = tuple(dims_.evaluate(d, self.dims) for d in r.shape)
        if r.dtype.is_floating:
            return self.rng.uniform(0.3, 0.9, shape)
        if r.dtype is types.bool_:
            return self.rng.integers(0, 2, shape).astype(bool)
        low, high = (0, 3) if r.bounds is None else (dims_.evaluate(b, self.dims) for b in r.bounds)
        return self.rng.integers(low, max(high, low + 1), shape).astype(r.dtype.numpy)

    def _direction(self, r: ir.Ref) -> NDArray:
        return np.asarray(self.rng.uniform(-1, 1, tuple(dims_.evaluate(d, self.dims) for d in r.shape)))

    def _equal(self, s: Step, before: NDArray, after: NDArray, formula: str, kind: str = "equality") -> None:
        tolerance = TOLERANCE[kind]
        if np.allclose(before, after, rtol=tolerance, atol=tolerance, equal_nan=True):
            return
        worst = float(np.nanmax(np.abs(np.asarray(before, float) - np.asarray(after, float))))
        raise DerivativeError(
            "E227", f"a step of the derivation changes a value by {worst:.3g}",
            facts=[formula, f"by {', '.join(s.rules) or 'no rule'}", f"before : {_text(before)}",
                   f"after  : {_text(after)}"],
            remedy="report it: this is a fault of Pullback, or of a rule of a custom derivative")

    # Steps --------------------------------------------------------------------------------------------------

    def _same(self, s: Step, before: Sequence[ir.Statement], after: Sequence[ir.Statement], outs: Sequence[ir.Ref],
              formula: str) -> None:
        """Check that both lists of statements compute the same arrays."""
        made = {o for t in (*before, *after) for o in t.outs}
        reads = [r for t in (*before, *after) for r in statement_reads(t) if r not in made]
        machine = self._machine(reads, _free((*before, *after)))
        found = []
        for statements in (before, after):
            for t in statements:
                run_statement(machine, t)
            found.append([np.array(machine.arrays[o]) for o in outs])
        for a, b in zip(*found, strict=True):
            self._equal(s, a, b, formula)

    def _local(self, s: Step, f: Local) -> None:
        """Check that the derivatives applied to a direction equal the central difference along it."""
        statement = f.statement
        reads = [r for t in (*f.needs, statement) for r in statement_reads(t)]
        made = {o for t in f.needs for o in t.outs} | set(statement.outs)
        machine = self._machine([r for r in reads if r not in made], _free((*f.needs, statement)))
        for t in (statement, *f.needs):
            run_statement(machine, t)
        self.local, self.taken = (f, machine), Counter()
        for operand in dict.fromkeys(d.operand for d in f.derivatives):
            direction = ir.Ref(f"{operand.name}_direction", operand.dtype, operand.shape)
            machine.arrays[direction] = self._direction(operand)
            for out in statement.outs:
                edges = [d for d in f.derivatives if d.operand is operand and d.result is out]
                tangent = _applied(statement, out, [(d.weight, d.source) for d in edges], direction)
                run_statement(machine, tangent)
                slope = machine.arrays[tangent.outs[0]]
                found = self._difference(machine, statement, out, operand, direction)
                found = np.where(np.isnan(machine.arrays[out]), slope, found)  # undefined, so nothing to compare
                self._equal(s, found, slope, print_statement(statement), "difference")

    @staticmethod
    def _difference(machine: Machine, s: ir.Statement, out: ir.Ref, operand: ir.Ref, direction: ir.Ref) -> NDArray:
        """The central difference of a statement along a direction."""
        ends = []
        for step in (STEP, -STEP):
            there = machine.arrays[operand] + step * machine.arrays[direction]
            moved = Machine(machine.dims, True, arrays=Arrays({**machine.arrays, operand: there}), loops=machine.loops)
            run_statement(moved, s)
            ends.append(moved.arrays[out])
        return np.asarray((ends[0] - ends[1]) / (2 * STEP))

    def _transposed(self, s: Step, f: Transposed) -> bool:
        """Check a chain's first line by its local derivative, unless guards replace zero cotangents."""
        local, known = self.local or (None, Machine({}))
        machine = self._machine(f.value.refs - known.arrays.keys(), f.value.free.difference(f.variables, known.loops))
        given = [r for r in machine.arrays if r.shape == f.result.shape]
        machine.arrays |= known.arrays
        machine.loops |= known.loops
        values = _values(machine, f.variables, f.value)
        self.chain = _Line(f.variables, values, machine)
        pair = f.result, f.operand
        number, self.taken[pair] = self.taken[pair], self.taken[pair] + 1
        derivatives = [d for d in local.derivatives if (d.result, d.operand) == pair] if local is not None else []
        guarded = any(isinstance(n, ir.Select) for n in walk(f.value))
        if local is None or guarded or len(given) != 1 or number >= len(derivatives):
            return False
        d = derivatives[number]
        direction = ir.Ref(f"{f.operand.name}_direction", f.operand.dtype, f.operand.shape)
        machine.arrays[direction] = self._direction(f.operand)
        tangent = _applied(local.statement, f.result, [(d.weight, d.source)], direction)
        run_statement(machine, tangent)
        before = np.asarray(np.vdot(machine.arrays[given[0]], machine.arrays[tangent.outs[0]]))
        self._equal(s, before, np.asarray(np.vdot(values, machine.arrays[direction])), print_scalar(f.value))
        return True

    def _seeded(self, s: Step, f: Seeded) -> None:
        """Check that the seeded derivative gives the same results for these directions."""
        seeds = dict(f.seeds)
        back = {new: old for old, new in f.renamed.items()}
        reads = dict.fromkeys([*block_reads(f.before), *f.before.results, *block_reads(f.after), *f.after.results])
        free = _free((*f.before.statements, *f.after.statements))
        machine = self._machine([r for r in reads if r not in _made(f.before) | _made(f.after)], free)
        for r, value in seeds.items():
            machine.arrays[r] = _values(machine, tuple(Var("i", e) for e in r.shape), value)
        for new, old in back.items():
            if new in machine.arrays and old in machine.arrays and old not in seeds:
                machine.arrays[new] = machine.arrays[old]
        before, after = run_block(machine, f.before), run_block(machine, f.after)
        for a, b in zip(before, after, strict=True):
            self._equal(s, a, b, "the directions put in")

    def _rewritten(self, s: Step, f: Rewritten) -> None:
        reads = dict.fromkeys([*f.before.inputs, *block_reads(f.before.body), *block_reads(f.after.body)])
        free = _free((*f.before.body.statements, *f.after.body.statements))
        machine = self._machine([r for r in reads if r not in _made(f.before.body) | _made(f.after.body)], free)
        before = [np.array(a) for a in run_block(machine, f.before.body)]
        for name, a, b in zip(f.before.output_names or map(str, f.before.outputs), before,
                              run_block(machine, f.after.body), strict=True):
            self._equal(s, a, b, f"{name} of {f.before.name} after {f.name}")


def _made(block: ir.Block) -> set[ir.Ref]:
    return {o for s in block.statements for o in s.outs}


def _free(statements: Iterable[ir.Statement]) -> set[Var]:
    """The variables of enclosing loops."""
    found: set[Var] = set()
    for s in statements:
        if isinstance(s, ir.Build):
            found |= frozenset().union(*(v.free for v in s.values)) - set(s.vars)
        elif isinstance(s, ir.Sort):
            found |= s.value.free - set(s.vars)
        elif isinstance(s, ir.Scatter):
            found |= frozenset().union(s.value.free, *(i.free for i in s.indices)) - set(s.vars)
        else:
            inner = set().union(*(_free(b.statements) for b in blocks_of(s)))
            found |= inner - {s.var} if isinstance(s, ir.Fold) else inner
    return found


def _values(machine: Machine, variables: tuple[Var, ...], value: ir.Scalar) -> NDArray:
    """Evaluate a formula at all values of its variables."""
    out = ir.Ref("formula", value.dtype, [v.extent for v in variables])
    run_statement(machine, ir.Build((out,), variables, (value,)))
    return machine.arrays[out]


def _applied(
    s: ir.Statement, out: ir.Ref, edges: Sequence[tuple[ir.Scalar, Any]], direction: ir.Ref
) -> ir.Build | ir.Scatter:
    """The statement's tangent: weights times the direction at the sources, summed as in the statement."""
    terms = [expr.mul(w, expr.get(direction, *source)) for w, source in edges]
    value = expr.add(*terms) if terms else expr.zero(out.dtype)
    tangent = ir.Ref(f"{out.name}_tangent", out.dtype, out.shape)
    if isinstance(s, ir.Scatter):
        return ir.Scatter(tangent, s.vars, s.indices, value)
    assert isinstance(s, ir.Build)
    own = s.values[s.outs.index(out)]
    summed = expr.reduce("sum", own.vars, value) if isinstance(own, ir.Reduce) else value
    return ir.Build((tangent,), s.vars, (summed,))


def _text(a: NDArray) -> str:
    return np.array2string(np.asarray(a).ravel()[:4], precision=6)
