"""Bounds on the distance of two correct floating-point runs, computed from the program.

Running error analysis as a program: `with_bounds` adds to each floating array another of the same shape. It bounds
the distance of every result that rounds each operation to its dtype, in whatever order sums and products are taken,
fused or not. Run in f64, it gives values and bounds:

    values, bounds = interpret_with_bounds(program, inputs)
    |result - values| <= 2 * bounds       floating outputs, where the bound is finite; all others are equal

Rules, with u the unit roundoff of the dtype, t its smallest number above 0 and b(x) the bound of x:

    x1 + ... + xn      Σ b + n u Σ (|x| + b); the same for sum and scatter
    x1 * ... * xn      Π (|x| + b) - Π |x| + 4 n u Π (|x| + b) + 4 n t Π max(1, |x| + b); the same for prod
    f(x)               the largest change of f over x ± 4 b, which has room for rounding x itself, + 8 u |f(x)| + 8 t
    max, min           the largest b
    casts              b + u |x| + t

A part of a product that falls below the normal numbers is off by up to t, which the factors after it multiply; sums are
exact there.

What is compared, rounded to an integer or used as an index is taken as exact; `random_program` sees to that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce as fold_left
from itertools import product
from typing import Any, Final, assert_never, cast

import numpy as np

from pullback.ir import expr
from pullback.ir.expr import (
    Add,
    Apply,
    Bracket,
    Cast,
    Const,
    FromIndex,
    Get,
    Mul,
    Node,
    Reduce,
    Ref,
    Scalar,
    Select,
    Zero,
)
from pullback.ir.index import ONE_INDEX, Index, Var, as_index
from pullback.ir.interpret import interpret
from pullback.ir.program import Block, Build, Call, Choose, External, Fold, Program, Scatter, Sort, Statement, While
from pullback.ir.traverse import walk
from pullback.ir.types import DType
from pullback.rewrite.calls import inline_checkpoints

NDArray = np.ndarray[Any, Any]

_UNIT: Final = {"f32": 2.0**-24, "f64": 2.0**-53}
_TINY: Final = {"f32": 2.0**-149, "f64": 2.0**-1074}
_LARGEST: Final = {"f32": float(np.finfo(np.float32).max), "f64": float(np.finfo(np.float64).max)}


def interpret_with_bounds(program: Program, inputs: Sequence[NDArray], sizes: Mapping[str, int] | None = None
                          ) -> tuple[list[NDArray], list[NDArray]]:
    """The outputs computed in f64, and for each a bound on the error of a run in the program's own dtypes.

    Args:
        program: well formed.
        inputs: as for `interpret`.
        sizes: as for `interpret`.
    Returns:
        values, floating ones in f64; bounds of the same shapes, 0 for integers and bools.
    """
    out = interpret(with_bounds(program), inputs, sizes, float64=True)
    count = len(program.outputs)
    rest = iter(out[count:])
    bounds = [next(rest) if r.dtype.is_floating else np.zeros(v.shape)
              for r, v in zip(program.outputs, out, strict=False)]
    return out[:count], bounds


def with_bounds(program: Program) -> Program:
    """The program with, after its outputs, an error bound for each floating output."""
    program = inline_checkpoints(program)
    bounds = _Bounds()
    body = bounds.block(program.body, program.outputs)
    return replace(program, body=body, output_names=())


class _Bounds:
    def __init__(self) -> None:
        self.errors: dict[Ref, Ref] = {}  # arrays without an entry are exact
        self.known: dict[Scalar, Scalar] = {}

    # Statements ---------------------------------------------------------------------------------------------

    def block(self, b: Block, results: Sequence[Ref]) -> Block:
        """The block with bounds; it gives its results and then the bounds of the floating ones of `results`."""
        out: list[Statement] = []
        for s in b.statements:
            out.extend(self.statement(s))
        errors = [self.error(r, out) for r in results if r.dtype.is_floating]
        return Block(tuple(out), (*b.results, *errors))

    def error(self, r: Ref, out: list[Statement]) -> Ref:
        """The array of bounds of `r`; zeros, built in `out`, where it is exact."""
        found = self.errors.get(r)
        if found is None:
            found = self.beside(r)
            variables = tuple(Var("i", d) for d in r.shape)
            out.append(Build((found,), variables, (expr.zero(r.dtype),)))
        return found

    def beside(self, r: Ref) -> Ref:
        """A new array for the bounds of `r`."""
        return Ref(f"{r.name}_error", r.dtype, r.shape)

    def define(self, refs: Sequence[Ref]) -> tuple[Ref, ...]:
        """Arrays for the bounds of the floating ones of `refs`, from here on theirs."""
        pairs = {r: self.beside(r) for r in refs if r.dtype.is_floating}
        self.errors.update(pairs)
        return tuple(pairs.values())

    def statement(self, s: Statement) -> list[Statement]:
        """The statement, with what computes the bounds of its outs."""
        match s:
            case Build():
                errors = {r: self.bound(v) for r, v in zip(s.outs, s.values, strict=True) if r.dtype.is_floating}
                errors = {r: e for r, e in errors.items() if not isinstance(e, Zero)}
                new = tuple(self.beside(r) for r in errors)
                self.errors.update(zip(errors, new, strict=True))
                return [replace(s, outs=(*s.outs, *new), values=(*s.values, *errors.values()))]
            case Scatter():
                if not s.out.dtype.is_floating:
                    return [s]
                count = fold_left(lambda a, b: a * b, (v.extent for v in s.vars), ONE_INDEX)
                value = self.contribution(s.value, count)
                if isinstance(value, Zero):
                    return [s]
                return [s, replace(s, out=self.define((s.out,))[0], value=value)]
            case Sort():
                return [s]
            case Fold() | While():
                return self.loop(s)
            case Choose():
                then, otherwise = (self.block(b, b.results) for b in (s.then, s.otherwise))
                return [replace(s, then=then, otherwise=otherwise, outs=(*s.outs, *self.define(s.outs)))]
            case External():
                raise AssertionError(f"nothing is known of the errors of {s.foreign.name}")
            case Call():
                raise AssertionError("calls are inlined before errors are bounded")
            case _:
                assert_never(s)

    def loop(self, s: Fold | While) -> list[Statement]:
        """A loop that carries the bounds of its states: states, their bounds, then rows, theirs."""
        before: list[Statement] = []
        inits = (*s.inits, *(self.error(init, before) for init in s.inits if init.dtype.is_floating))
        errors = self.define(s.states)
        states, split, given = (*s.states, *errors), len(s.states), len(s.body.results)
        test = self.block(s.test, ()) if isinstance(s, While) else None
        inner = self.block(s.body, s.body.results)

        def arranged(plain: Sequence[Ref], bounds: Sequence[Ref]) -> tuple[Ref, ...]:
            return (*plain[:split], *bounds[:len(errors)], *plain[split:], *bounds[len(errors):])

        body = replace(inner, results=arranged(inner.results[:given], inner.results[given:]))
        outs = arranged(s.outs, self.define(s.outs))
        if isinstance(s, While):
            assert test is not None
            return [*before, replace(s, outs=outs, states=states, inits=inits, test=test, body=body)]
        return [*before, replace(s, outs=outs, states=states, inits=inits, body=body)]

    def contribution(self, value: Scalar, count: Index) -> Scalar:
        """The bound of a term of a sum of `count` terms, under the same outermost guards."""
        if isinstance(value, Bracket):
            return expr.bracket(value.conds, self.contribution(value.arg, count))
        if isinstance(value, Select) and isinstance(value.otherwise, Zero):
            return expr.select(value.test, self.contribution(value.then, count), value.otherwise)
        return self.term(value, self.bound(value), count)

    def term(self, value: Scalar, error: Scalar, count: Index) -> Scalar:
        """The contribution b + n u (|x| + b) of one of `count` terms to the bound of a sum."""
        if count is ONE_INDEX:
            return error
        return error + expr.from_index(count, value.dtype) * _UNIT[value.dtype.name] * (_size(value) + error)

    # Scalars ------------------------------------------------------------------------------------------------

    def bound(self, e: Scalar) -> Scalar:
        """The bound of a scalar; structural zero where it is exact."""
        for node in walk(e, into_indices=False):
            if node not in self.known:
                self.known[node] = self.rule(cast(Node, node))
        return self.known[e]

    def rule(self, e: Node) -> Scalar:
        """The bound of a node from those of its operands."""
        if not e.dtype.is_floating:
            return expr.zero(e.dtype)
        match e:
            case Const() | Zero() | FromIndex():
                return expr.zero(e.dtype)
            case Get():
                error = self.errors.get(e.ref)
                return expr.zero(e.dtype) if error is None else expr.get(error, *e.indices)
            case Cast():
                return self.cast(e)
            case Add():
                count = as_index(len(e.args))
                return _finite(e, expr.add(*(self.term(a, self.known[a], count) for a in e.args)))
            case Mul():
                wide = expr.mul(*(_size(a) + self.known[a] for a in e.args))
                exact = expr.mul(*map(_size, e.args))
                grown = expr.mul(*(_at_least_one(_size(a) + self.known[a]) for a in e.args))
                return _finite(e, _excess(wide, exact, grown, as_index(len(e.args))))
            case Apply():
                return _finite(e, self.apply(e))
            case Bracket():
                return expr.bracket(e.conds, self.known[e.arg])
            case Select():
                return expr.select(e.test, self.known[e.then], self.known[e.otherwise])
            case Reduce():
                return _finite(e, self.reduce(e))
            case _:
                assert_never(e)

    def cast(self, e: Cast) -> Scalar:
        """Rounding to the narrower type."""
        inner = self.known[e.arg]
        error = expr.cast(inner, e.dtype) if e.arg.dtype.is_floating else expr.zero(e.dtype)
        narrower = not e.arg.dtype.is_floating or e.arg.dtype.bits > e.dtype.bits
        return _finite(e, error + _rounding(e, 1)) if narrower else error

    def apply(self, e: Apply) -> Scalar:
        """The change of a primitive over the operands' bounds, and its own rounding."""
        row, errors = e.primitive, [self.known[a] for a in e.args]
        if row.partials is None:
            return expr.zero(e.dtype)
        if row.name == "abs":
            return errors[0]
        if row.name in ("maximum", "minimum"):
            return fold_left(_larger, errors)
        out = _rounding(e, 8)
        if all(isinstance(b, Zero) for b in errors):
            return out
        change: Scalar = expr.zero(e.dtype)
        for signs in product((4, -4), repeat=len(errors)):
            corner = expr.apply(row, *(a + b * s for a, b, s in zip(e.args, errors, signs, strict=True)))
            change = _larger(change, _size(corner - e))
        return fold_left(_unless_unbounded, errors, change + out)

    def reduce(self, e: Reduce) -> Scalar:
        """Sums and products as Add and Mul; extremes by the largest bound."""
        error = self.known[e.arg]
        count = fold_left(lambda a, b: a * b, (v.extent for v in e.vars), ONE_INDEX)
        if e.op == "sum":
            return expr.reduce("sum", e.vars, self.term(e.arg, error, count))
        if e.op == "prod":
            wide = _size(e.arg) + error
            factors = (wide, _size(e.arg), _at_least_one(wide))
            wide, exact, grown = (expr.reduce("prod", e.vars, f) for f in factors)
            return _excess(wide, exact, grown, count)
        return error if isinstance(error, Zero) else expr.reduce("max", e.vars, error)


def _excess(wide: Scalar, exact: Scalar, grown: Scalar, count: Index) -> Scalar:
    """The bound Π (|x| + b) - Π |x| + 4 n (u Π (|x| + b) + t Π max(1, |x| + b)) of a product.

    The last term covers the cancellation of the first two.
    """
    name = wide.dtype.name
    rounding = expr.from_index(count, wide.dtype) * 4 * (wide * _UNIT[name] + grown * _TINY[name])
    return rounding if wide is exact else (wide - exact) + rounding


def _rounding(e: Scalar, times: int) -> Scalar:
    """The largest change from rounding a value this many times."""
    return _size(e) * (times * _UNIT[e.dtype.name]) + expr.const(times * _TINY[e.dtype.name], e.dtype)


def _at_least_one(e: Scalar) -> Scalar:
    return expr.apply("maximum", e, expr.const(1.0, e.dtype))


def _size(e: Scalar) -> Scalar:
    return e if isinstance(e, Zero) else expr.apply("abs", e)


def _larger(a: Scalar, b: Scalar) -> Scalar:
    if isinstance(a, Zero) or isinstance(b, Zero):
        return b if isinstance(a, Zero) else a
    return expr.apply("maximum", a, b)


def _unless_unbounded(error: Scalar, operand: Scalar) -> Scalar:
    """An infinite bound if the operand's bound is infinite: an overflow may be NaN, with any reciprocal."""
    if isinstance(operand, Zero):
        return error
    unbounded = expr.const(float("inf"), operand.dtype)
    return expr.select(expr.apply("less", operand, unbounded), error, expr.const(float("inf"), error.dtype))


def _finite(e: Scalar, error: Scalar) -> Scalar:
    """No bound where the dtype may overflow."""
    if isinstance(error, Zero):
        return error
    dtype: DType = e.dtype
    largest = expr.const(_LARGEST[dtype.name], dtype)
    return expr.select(expr.apply("less", _size(e) + error, largest), error, expr.const(float("inf"), dtype))
