"""The program verifier: types, scope, ranks and shapes, dims, and in-range reads.

Run after every pass where PULLBACK_VERIFY is 1 or "equivalence". Codes: E310 scope, E311 dtypes, E312 ranks and shapes,
E313 ranges, E314 binders, E315 dims. Linear in the program, except for elements that are in range only under guards:
these are checked once per set of guards.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NoReturn, assert_never, cast

from pullback.errors import VerifyError
from pullback.ir import nodes as ir
from pullback.ir import types
from pullback.ir.dims import determined_dims
from pullback.ir.expr import POSITIONS, const, read_by
from pullback.ir.index import Cond, Data, Index, Var, cond, prove, prove_nonnegative
from pullback.ir.printer import print_scalar, print_statement
from pullback.ir.reduction import REDUCTIONS
from pullback.ir.traverse import children, indices_of, walk
from pullback.records import dataclass, field

Known = tuple[Cond, ...]


def verifying() -> bool:
    """Whether programs are verified after every pass, and their loops and memory after lowering."""
    return os.environ.get("PULLBACK_VERIFY") in ("1", "equivalence")


def verify(program: ir.Program, known: Verified | None = None) -> None:
    """Check a program.

    Args:
        known: expressions verified before, in the programs that this one was made from.

    Raises:
        VerifyError: the first broken rule, with the statement and the fact.
    """
    _Verifier(program, Verified() if known is None else known).program()


@dataclass(eq=False)
class _Checked:
    """Verified expressions under some requirements and dims.

    Attributes:
        values: whole expressions that are valid under their binders, with all reads in range.
        nodes: expressions whose operands have the right types.   indices: those of dims that a call determines.
        binders: the variables bound inside.   unsafe: whether some element is in range only under guards.
    """

    values: set[tuple[ir.Scalar, frozenset[Var]]] = field(default_factory=set)
    nodes: set[ir.Scalar] = field(default_factory=set)
    indices: set[Index] = field(default_factory=set)
    binders: dict[ir.Scalar, frozenset[Var]] = field(default_factory=dict)
    unsafe: dict[ir.Scalar, bool] = field(default_factory=dict)


class Verified:
    """Verified expressions of a program across passes, most of which change little.

    Expressions are immutable. A verified one is valid wherever the same dims and requirements are known.
    """

    def __init__(self) -> None:
        self._checked: dict[tuple[Known, frozenset[str]], _Checked] = {}

    def under(self, known: Known, dims: Iterable[str]) -> _Checked:
        """The verified expressions under these requirements and dims."""
        return self._checked.setdefault((known, frozenset(dims)), _Checked())


class _Verifier:
    def __init__(self, program: ir.Program, before: Verified) -> None:
        self.source = program
        self.known: Known = tuple(program.requires)
        self.dims = determined_dims(program)
        self.scope: set[ir.Ref] = set()
        self.calls: dict[str, ir.Call] = {}
        self.defined: set[ir.Ref] = set()
        self.statement: ir.Statement | None = None
        self.loops: frozenset[Var] = frozenset()
        self.checked = before.under(self.known, self.dims)

    def fail(self, code: str, fact: str) -> NoReturn:
        """Raise an error that names the statement."""
        s = self.statement
        where, facts = self.source.name, []
        if s is not None:
            where = f"{where}: {', '.join(r.name for r in s.outs)}"
            facts = [print_statement(s).splitlines()[0].strip()]
        position = s.positions[0] if s is not None and s.positions else None
        raise VerifyError(code, f"{where}: {fact}", position=position, facts=facts)

    def program(self) -> None:
        p = self.source
        for r in p.inputs:
            self.define(r)
        for name in p.sizes:
            if name not in self.dims:
                self.fail("E315", f"the size {name} is not a dim")
        for c in p.requires:
            self.dim(c.index, f"the requirement {c}")
        if p.output_names and len(p.output_names) != len(p.outputs):
            self.fail("E312", f"{len(p.outputs)} outputs have {len(p.output_names)} names")
        self.block(p.body)

    # Scope and dims -----------------------------------------------------------------------------------------

    def define(self, r: ir.Ref) -> None:
        if r in self.defined:
            self.fail("E310", f"{r.name} is defined twice")
        self.defined.add(r)
        self.scope.add(r)
        for d in r.shape:
            self.dim(d, f"the shape of {r.name}")
        if r.bounds is not None:
            if not r.dtype.is_integer:
                self.fail("E311", f"{r.name} is {r.dtype} and has bounds; only integers do")
            for b in r.bounds:
                self.dim(b, f"the bounds of {r.name}")

    def dim(self, d: Index, what: str) -> None:
        """Check a dim of the program: symbols that a call determines, and nothing that varies."""
        if not d.is_dim:
            self.fail("E315", f"{what}: {d} is not a dim")
        self.symbols(d, what)

    def symbols(self, i: Index, what: str | ir.Scalar) -> None:
        if i in self.checked.indices:
            return
        for s in i.symbols:
            if s.name not in self.dims:
                self.fail("E315", f"{what}: no input or size determines the dim {s.name}")
        self.checked.indices.add(i)

    def visible(self, refs: Iterable[ir.Ref]) -> None:
        for r in refs:
            if r not in self.scope:
                later = "is defined later or in another block" if r in self.defined else "is not defined"
                self.fail("E310", f"{r.name} is read and {later}")

    def same_shape(self, found: Sequence[Index], expected: Sequence[Index], what: str) -> None:
        same = len(found) == len(expected) and all(
            a is b or prove(cond("==", a - b), self.known) for a, b in zip(found, expected, strict=True))
        if not same:
            self.fail("E312", f"{what} has shape {list(found)}, not {list(expected)}")

    def same_type(self, found: ir.Ref, expected: ir.Ref, what: str) -> None:
        if found.dtype is not expected.dtype:
            self.fail("E311", f"{what} {found.name} is {found.dtype}, not {expected.dtype}")
        self.same_shape(found.shape, expected.shape, f"{what} {found.name}")

    def bind(self, variables: Sequence[Var]) -> None:
        if len(set(variables)) < len(variables) or not self.loops.isdisjoint(variables):
            self.fail("E314", f"an index is bound twice among {', '.join(v.name for v in variables)}")
        for v in variables:
            self.dim(v.extent, f"the size of {v.name}")

    # Statements ---------------------------------------------------------------------------------------------

    def block(self, b: ir.Block) -> None:
        """Check a block; its definitions go out of scope after it."""
        outer = self.statement
        for s in b.statements:
            self.statement = s
            self.check(s)
        self.statement = outer
        self.visible(b.results)
        for s in b.statements:
            self.scope.difference_update(s.outs)

    def check(self, s: ir.Statement) -> None:
        match s:
            case ir.Build():
                if len(s.values) != len(s.outs) or not s.outs:
                    self.fail("E312", f"{len(s.outs)} arrays are built from {len(s.values)} values")
                self.bind(s.vars)
                for r, v in zip(s.outs, s.values, strict=True):
                    self.value(v, r.dtype, s.vars)
                    self.same_shape(r.shape, [v.extent for v in s.vars], r.name)
            case ir.Scatter():
                self.scatter(s)
            case ir.Sort():
                self.bind(s.vars)
                if not s.vars:
                    self.fail("E312", f"{s.out.name} is sorted along no variable")
                self.value(s.value, s.out.dtype if s.what == "values" else s.value.dtype, s.vars)
                if s.what == "positions" and s.out.dtype is not types.i64:
                    self.fail("E311", f"{s.out.name} is {s.out.dtype}, positions are i64")
                self.same_shape(s.out.shape, [v.extent for v in s.vars], s.out.name)
            case ir.Fold():
                self.bind((s.var,))
                self.states(s)
                before = self.loops
                self.loops |= {s.var}
                self.block(s.body)
                self.loops = before
                self.results(s.body.results, s)
            case ir.While():
                self.states(s)
                self.block(s.test)
                if len(s.test.results) != 1 or s.test.results[0].dtype is not types.bool_ or s.test.results[0].rank:
                    self.fail("E311", "the test of a while loop gives one bool")
                self.block(s.body)
                self.results(s.body.results, s)
                if s.max_trips is not None:
                    self.dim(s.max_trips, "the most trips")
            case ir.Choose():
                self.visible((s.test,))
                if s.test.dtype is not types.bool_ or s.test.rank:
                    self.fail("E311", f"the test {s.test.name} is {s.test.dtype} of rank {s.test.rank}, not one bool")
                for b in (s.then, s.otherwise):
                    self.block(b)
                    if len(b.results) != len(s.outs):
                        self.fail("E312", f"a branch gives {len(b.results)} arrays, not {len(s.outs)}")
                    for found, out in zip(b.results, s.outs, strict=True):
                        self.same_type(found, out, "the result")
            case ir.Call():
                self.call(s)
            case ir.External():
                self.external(s)
            case _:
                assert_never(s)
        for r in s.outs:
            self.define(r)

    def external(self, s: ir.External) -> None:
        """Check that arrays have the element types that the C function takes."""
        self.visible(s.operands)
        found = ([r.dtype for r in s.operands], [r.dtype for r in s.outs])
        if found != (list(s.foreign.inputs), list(s.foreign.outputs)) or len(s.sizes) != s.foreign.sizes:
            self.fail("E311", f"the arrays and sizes do not fit {s.foreign}")
        for d in (*s.sizes, *(d for r in s.outs for d in r.shape)):
            self.dim(d, f"a size of {s.foreign.name}")

    def call(self, s: ir.Call) -> None:
        """Check the body of a call over its params, and the inputs and outputs of its rules."""
        self.visible(s.operands)
        self.all_same(s.operands, s.params, "the operand")
        around = self.calls.get(s.name)
        if s.again:
            if around is None:
                self.fail("E312", f"no call around has the name {s.name} and rules")
            self.all_same(s.operands, around.operands, "the operand")
            self.all_same(s.outs, around.outs, "the result")
        for p in s.params:
            self.define(p)
        self.block(s.body)
        self.all_same(s.body.results, s.outs, "the result")
        moving = [p for p in s.params if p.dtype.is_floating]
        given = [o for o in s.outs if o.dtype.is_floating]
        self.calls[s.name] = s
        for rule, params, results in ((s.forward, moving, given), (s.backward, given, moving)):
            if rule is not None:
                self.all_same(rule.params, (*s.outs, *params), "the rule's parameter")
                for p in rule.params:
                    self.define(p)
                self.block(rule.block)
                self.all_same(rule.block.results, results, "the rule's result")
                self.scope.difference_update(rule.params)
        if around is None:
            del self.calls[s.name]
        else:
            self.calls[s.name] = around
        self.scope.difference_update(s.params)

    def all_same(self, found: Sequence[ir.Ref], expected: Sequence[ir.Ref], what: str) -> None:
        if len(found) != len(expected):
            self.fail("E312", f"{what}: {len(found)} arrays for {len(expected)}")
        for a, b in zip(found, expected, strict=True):
            self.same_type(a, b, what)

    def states(self, s: ir.Fold | ir.While) -> None:
        if len(s.states) != len(s.inits):
            self.fail("E312", f"{len(s.states)} states have {len(s.inits)} initial values")
        self.visible(s.inits)
        for state, init in zip(s.states, s.inits, strict=True):
            self.same_type(init, state, "the initial value")
            self.define(state)

    def results(self, results: Sequence[ir.Ref], s: ir.Fold | ir.While) -> None:
        """Check results against states and outs, and end the scope of the states."""
        count = len(s.states)
        if len(results) != len(s.outs) or len(results) < count or (isinstance(s, ir.While) and len(results) > count):
            self.fail("E312", f"the body gives {len(results)} arrays for {count} states and {len(s.outs)} results")
        for found, state, out in zip(results, s.states, s.outs, strict=False):
            self.same_type(found, state, "the new state")
            self.same_type(out, state, "the result")
        if isinstance(s, ir.Fold):
            for row, out in zip(results[count:], s.outs[count:], strict=True):
                if row.dtype is not out.dtype:
                    self.fail("E311", f"rows {row.name} are {row.dtype}, {out.name} is {out.dtype}")
                self.same_shape(out.shape, (s.var.extent, *row.shape), out.name)
        self.scope.difference_update(s.states)

    def scatter(self, s: ir.Scatter) -> None:
        self.bind(s.vars)
        for d in s.out.shape:
            self.dim(d, f"the shape of {s.out.name}")
        if len(s.indices) != s.out.rank:
            self.fail("E312", f"{s.out.name} has rank {s.out.rank}, got {len(s.indices)} indices")
        self.value(s.value, s.out.dtype, s.vars)
        known, value = self.known, s.value
        while True:
            if isinstance(value, ir.Bracket):
                known, value = _with(known, value.conds), value.arg
            elif isinstance(value, ir.Select) and isinstance(value.otherwise, ir.Zero):
                known, value = _with(known, implied(value.test, True)), value.then
            else:
                break
        for i, extent in zip(s.indices, s.out.shape, strict=True):
            if not i.free <= self.loops | set(s.vars):
                self.fail("E310", f"the index {i} has an unbound variable")
            self.symbols(i, f"the index {i}")
            for a in i.every_atom:
                if isinstance(a, Data):
                    self.value(read_by(a), read_by(a).dtype, s.vars)
            if not isinstance(value, ir.Zero):
                self.in_range(i, extent, known, s.out.name)

    # Scalars ------------------------------------------------------------------------------------------------

    def value(self, e: ir.Scalar, dtype: types.DType, variables: Sequence[Var]) -> None:
        """Check the value that a statement computes for each element."""
        if e.dtype is not dtype:
            self.fail("E311", f"the value is {e.dtype}, the array {dtype}")
        bound = self.loops | frozenset(variables)
        unbound = e.free - bound
        if unbound:
            self.fail("E310", f"no binder for {', '.join(sorted(v.name for v in unbound))} in {print_scalar(e)}")
        self.visible(e.refs)
        if (e, bound) in self.checked.values:
            return
        for node in walk(e):
            if node not in self.checked.nodes:
                self.node(cast(ir.Node, node))
                self.checked.nodes.add(node)
        twice = self.checked.binders[e] & bound
        if twice:
            self.fail("E314", f"{', '.join(sorted(v.name for v in twice))} is bound again inside its own scope")
        self.ranges(e)
        self.checked.values.add((e, bound))

    def node(self, e: ir.Node) -> None:
        """Check the types of a node whose operands are checked; note its binders and safety."""
        indices = indices_of(e)
        parts = [*children(e), *(read_by(a) for i in indices for a in i.data)]
        for i in indices:
            self.symbols(i, e)
            for a in i.every_atom:
                if isinstance(a, Data) and not read_by(a).dtype.is_integer:
                    self.fail("E311", f"{print_scalar(read_by(a))} is {read_by(a).dtype} and used as an index")
        self.dtypes(e)
        inside = frozenset[Var]().union(*(self.checked.binders[p] for p in parts))
        if isinstance(e, ir.Reduce):
            for v in e.vars:
                self.dim(v.extent, f"the size of {v.name}")
            if len(set(e.vars)) < len(e.vars) or not inside.isdisjoint(e.vars):
                self.fail("E314", f"an index is bound twice in {print_scalar(e)}")
            inside |= frozenset(e.vars)
        self.checked.binders[e] = inside
        safe = all(not self.checked.unsafe[p] for p in parts)
        if isinstance(e, ir.Get) and safe:
            safe = all(prove_nonnegative(i, self.known) and prove_nonnegative(n - 1 - i, self.known)
                       for i, n in zip(e.indices, e.ref.shape, strict=True))
        self.checked.unsafe[e] = not safe

    def dtypes(self, e: ir.Node) -> None:
        """Check the dtypes and the rank of one node."""
        match e:
            case ir.Const():
                good = isinstance(e.value, bool) == e.dtype.is_bool and const(e.value, e.dtype) is e
                good = good and isinstance(e.value, float) == e.dtype.computed.is_floating
            case ir.Zero():
                good = True
            case ir.FromIndex():
                good = not e.dtype.is_bool
            case ir.Get():
                if len(e.indices) != e.ref.rank:
                    self.fail("E312", f"{e.ref.name} has rank {e.ref.rank}, got {len(e.indices)} indices")
                good = e.dtype is e.ref.dtype
            case ir.Apply():
                row = e.primitive
                result = types.bool_ if row.result == "bool" else e.args[0].dtype
                good = len(e.args) == row.arity and all(a.dtype is e.args[0].dtype for a in e.args)
                good = good and e.args[0].dtype.kind in row.kinds and e.dtype is result
            case ir.Cast():
                good = e.dtype is not e.arg.dtype
            case ir.Add() | ir.Mul():
                good = len(e.args) > 1 and all(a.dtype is e.dtype for a in e.args)
                good = good and not e.dtype.is_bool and not e.dtype.is_half
            case ir.Bracket():
                good = bool(e.conds) and e.arg.dtype is e.dtype
            case ir.Select():
                good = e.test.dtype is types.bool_ and e.then.dtype is e.dtype and e.otherwise.dtype is e.dtype
            case ir.Reduce():
                if e.op == "search":
                    good = e.dtype is types.i64 and e.arg.dtype.is_bool and len(e.vars) == 1
                elif e.op in POSITIONS:
                    good = e.dtype is types.i64 and not e.arg.dtype.is_bool
                else:
                    good = e.dtype is e.arg.dtype and e.dtype.is_bool == REDUCTIONS[e.op].of_bools
                good = good and not e.arg.dtype.is_half
            case _:
                assert_never(e)
        if not good:
            operands = ", ".join(str(c.dtype) for c in children(e))
            self.fail("E311", f"{print_scalar(e)} is {e.dtype} over operands of dtypes ({operands})")

    def ranges(self, root: ir.Scalar) -> None:
        """Check that each element under `root` is in range, by itself or under the guards around it."""
        seen: set[tuple[ir.Scalar, Known]] = set()
        stack: list[tuple[ir.Scalar, Known]] = [(root, self.known)]
        while stack:
            e, known = stack.pop()
            if not self.checked.unsafe[e] or (e, known) in seen:
                continue
            seen.add((e, known))
            if isinstance(e, ir.Get):
                for i, extent in zip(e.indices, e.ref.shape, strict=True):
                    self.in_range(i, extent, known, e)
            elif isinstance(e, ir.Bracket):
                stack.append((e.arg, _with(known, e.conds)))
            elif isinstance(e, ir.Select):
                stack.append((e.test, known))
                stack.append((e.then, _with(known, implied(e.test, True))))
                stack.append((e.otherwise, _with(known, implied(e.test, False))))
            else:
                stack.extend((c, known) for c in children(e))
            stack.extend((read_by(a), known) for i in indices_of(e) for a in i.data)

    def in_range(self, i: Index, extent: Index, known: Known, what: str | ir.Scalar) -> None:
        """Check that 0 <= i < extent wherever the known conditions hold."""
        low, high = prove_nonnegative(i, known), prove_nonnegative(extent - 1 - i, known)
        if not (low and high):
            fact = f"{i} < {extent}" if low else f"{i} >= 0"
            guards = f" under {', '.join(map(str, known))}" if known else ""
            self.fail("E313", f"{what}: {fact} is not provable{guards}")


def _with(known: Known, conds: Iterable[Cond]) -> Known:
    return tuple(dict.fromkeys((*known, *conds)))


def implied(test: ir.Scalar, outcome: bool) -> tuple[Cond, ...]:
    """The index conditions that hold where a bool scalar has this value."""
    match test:
        case ir.Bracket():
            inner = test.arg
            if outcome:
                return (*test.conds, *implied(inner, True))
            if isinstance(inner, ir.Const) and inner.value and len(test.conds) == 1:
                negated = test.conds[0].negate()
                return () if isinstance(negated, bool) else (negated,)
        case ir.Apply() if test.primitive.name == "logical_not":
            return implied(test.args[0], not outcome)
        case ir.Apply() if test.primitive.name == ("logical_and" if outcome else "logical_or"):
            return (*implied(test.args[0], outcome), *implied(test.args[1], outcome))
        case ir.Apply() if test.primitive.name == ("logical_or" if outcome else "logical_and"):
            one, other = (implied(a, outcome) for a in test.args)
            return (*(c for c in one if prove(c, other)), *(c for c in other if prove(c, one)))
        case ir.Select() if outcome and isinstance(test.otherwise, ir.Zero):
            return (*implied(test.test, True), *implied(test.then, True))
        case _:
            pass
    return ()
