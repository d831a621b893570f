"""Random typed programs with inputs, for tests of C, text round trips and the verifier.

    case = random_program(np.random.default_rng(seed))
    verify(case.program)
    interpret(case.program, case.inputs, case.sizes)

Programs are well conditioned on purpose: branches on a floating-point number, its rounding, or its position use
elements of the inputs alone. So two ways to run a program may round differently and still take the same path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pullback.ir import expr, types
from pullback.ir.dims import evaluate
from pullback.ir.expr import ReduceOp, Ref, Scalar
from pullback.ir.index import Cond, Data, Index, Var, as_index, cond, prove_nonnegative, symbol
from pullback.ir.primitives import PRIMITIVES
from pullback.ir.program import Block, Build, Choose, Fold, Program, Scatter, Sort, Statement, While
from pullback.ir.types import DType

NDArray = np.ndarray[Any, Any]

FLOATS: Final = (types.f64, types.f32)
INTEGERS: Final = tuple(d for d in types.DTYPES if d.is_integer)
_SMOOTH: Final = ("tanh", "sin", "cos", "logistic", "erf", "atan", "abs")
_INTEGER: Final = ("floor_divide", "remainder", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor",
                   "bitwise_left_shift", "bitwise_right_shift", "power")
_COMPARE: Final = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


@dataclass(frozen=True)
class Case:
    """A program and arguments it accepts."""

    program: Program
    inputs: tuple[NDArray, ...]
    sizes: dict[str, int]
    dims: dict[str, int]


def random_program(rng: np.random.Generator, *, statements: int = 4, depth: int = 3,
                   dtypes: Sequence[DType] = types.DTYPES) -> Case:
    """A random well-formed program with inputs.

    Args:
        rng: where all choices come from; the same state gives the same program.
        statements: how many at the outermost level.
        depth: how deep expressions nest.
        dtypes: element types that occur, besides i64 (which argmax gives) and bool.
    """
    return _Generator(rng, depth, tuple(dtypes)).case(statements)


class _Generator:
    def __init__(self, rng: np.random.Generator, depth: int, dtypes: tuple[DType, ...]) -> None:
        self.rng = rng
        self.depth = depth
        self.dtypes = dtypes
        self.floats = tuple(d for d in FLOATS if d in dtypes)
        self.integers = tuple(d for d in INTEGERS if d in dtypes) or (types.i64,)
        self.dims: dict[str, int] = {}
        self.extents: list[Index] = []
        self.scope: list[Ref] = []
        self.inputs: list[Ref] = []
        self.loops: list[Var] = []
        self.level = 0
        self.serial = 0

    # Choices ------------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def name(self, stem: str) -> str:
        self.serial += 1
        return f"{stem}{self.serial}"

    def dtype(self) -> DType:
        """Floating point half of the time."""
        if self.floats and self.chance(0.5):
            return self.pick(self.floats)  # type: ignore[no-any-return]
        return self.pick(self.dtypes)  # type: ignore[no-any-return]

    # Programs -----------------------------------------------------------------------------------------------

    def case(self, statements: int) -> Case:
        names = ["N", "M", "K"]
        self.dims = {name: int(self.rng.integers(1, 6)) for name in names}
        self.extents = [*map(symbol, names), as_index(int(self.rng.integers(1, 4)))]
        sizes = {}
        if self.chance(0.3):
            sizes = {"S": int(self.rng.integers(1, 5))}
            self.dims |= sizes
            self.extents.append(symbol("S"))
        for name in names:  # each dim is determined by an input of its own
            self.input(self.dtype(), (symbol(name),))
        for _ in range(int(self.rng.integers(1, 4))):
            self.input(self.dtype(), self.shape(3))
        if self.chance(0.6):
            extent = self.pick(self.extents)
            self.input(self.pick(self.integers), self.shape(1, 1), (as_index(0), extent))
        self.scope = list(self.inputs)
        body: list[Statement] = []
        for _ in range(statements):
            body.extend(self.statement())
        made = [r for s in body for r in s.outs]
        results = [made[-1], *(r for r in made[:-1] if self.chance(0.4))]
        if self.chance(0.1):
            results.append(self.pick(self.inputs))
        program = Program("random", tuple(self.inputs), Block(tuple(body), tuple(results)),
                          tuple(f"out{k}" for k in range(len(results))), (), tuple(sizes))
        return Case(program, tuple(map(self.values, self.inputs)), sizes, self.dims)

    def shape(self, most: int, least: int = 0) -> tuple[Index, ...]:
        return tuple(self.pick(self.extents) for _ in range(int(self.rng.integers(least, most + 1))))

    def input(self, dtype: DType, shape: tuple[Index, ...], bounds: tuple[Index, Index] | None = None) -> None:
        self.inputs.append(Ref(self.name("x"), dtype, shape, bounds))

    def values(self, r: Ref) -> NDArray:
        """Elements for an input: tame, with ties and zeros among them."""
        shape = tuple(evaluate(d, self.dims) for d in r.shape)
        if r.bounds is not None:
            low, high = (evaluate(b, self.dims) for b in r.bounds)
            return self.rng.integers(low, high, shape).astype(r.dtype.numpy)
        if r.dtype.is_bool:
            return np.asarray(self.rng.integers(0, 2, shape).astype(bool))
        if r.dtype.is_integer:
            wide = self.rng.integers(max(-9, r.dtype.minimum), 10, shape)
            extreme = self.pick((r.dtype.minimum, r.dtype.maximum))
            return np.asarray(np.where(self.rng.random(shape) < 0.05, np.array(extreme, r.dtype.numpy),
                                       wide.astype(r.dtype.numpy)))
        tame = self.rng.uniform(-2, 2, shape)
        special = self.rng.choice([0.0, 1.0, -1.0, 0.5], shape)
        return np.asarray(np.where(self.rng.random(shape) < 0.2, special, tame).astype(r.dtype.numpy))

    # Statements ---------------------------------------------------------------------------------------------

    def statement(self) -> list[Statement]:
        kinds: list[tuple[float, Callable[[], list[Statement]]]]
        kinds = [(6, self.build), (1, self.scatter), (0.5, self.sort)]
        if self.level < 2:
            kinds += [(1, self.fold), (0.5, self.loop), (0.7, self.choose)]
        weights = np.array([w for w, _ in kinds])
        made = kinds[int(self.rng.choice(len(kinds), p=weights / weights.sum()))][1]()
        self.scope.extend(r for s in made for r in s.outs)
        return made

    def variables(self, shape: Sequence[Index]) -> tuple[Var, ...]:
        return tuple(Var("ijkl"[n], d) for n, d in enumerate(shape))

    def build(self) -> list[Statement]:
        shape = self.shape(3)
        return [self.build_of([(self.dtype(), self.name("t")) for _ in range(1 + self.chance(0.2))], shape)]

    def build_of(self, outs: Sequence[tuple[DType, str]], shape: Sequence[Index]) -> Build:
        variables = self.variables(shape)
        values = tuple(self.scalar(d, variables, self.depth) for d, _ in outs)
        return Build(tuple(Ref(n, d, shape) for d, n in outs), variables, values)

    def scatter(self) -> list[Statement]:
        dtype = self.pick([d for d in self.dtypes if not d.is_bool] or [types.i64])
        shape, variables = self.shape(2, 1), self.variables(self.shape(2))
        conds: list[Cond] = []
        indices = tuple(self.index(d, variables, conds) for d in shape)
        value = expr.bracket(conds, self.scalar(dtype, variables, self.depth - 1))
        if isinstance(value, expr.Zero):
            return self.build()
        return [Scatter(Ref(self.name("s"), dtype, shape), variables, indices, value)]

    def sort(self) -> list[Statement]:
        """Positions that sort rows, and perhaps the sorted rows, of exact numbers."""
        sources = [r for r in self.inputs if r.rank and not r.dtype.is_bool]
        if not sources or self.chance(0.5):
            shape = self.shape(3, 1)
            variables = self.variables(shape)
            dtype = self.pick([d for d in self.dtypes if not d.is_bool] or [types.i64])
            value = self.exact(dtype, variables) if dtype.is_floating else self.scalar(dtype, variables, self.depth - 1)
            return [Sort(self.positions(shape), variables, value)]
        source = self.pick(sources)
        variables = self.variables(source.shape)
        places = tuple(map(as_index, variables))
        order = Sort(self.positions(source.shape), variables, expr.get(source, *places))
        at = as_index(Data(expr.get(order.out, *places), source.shape[-1]))
        value = expr.get(source, *places[:-1], at)
        return [order, Build((Ref(self.name("v"), source.dtype, source.shape),), variables, (value,))]

    def positions(self, shape: tuple[Index, ...]) -> Ref:
        """An array of positions along its last axis."""
        return Ref(self.name("o"), types.i64, shape, (as_index(0), shape[-1]))

    def block(self, results: Callable[[], list[tuple[DType, tuple[Index, ...]]]]) -> Block:
        """Some statements and the results asked for, each built at the end."""
        self.level += 1
        before = len(self.scope)
        body: list[Statement] = []
        if self.chance(0.5):
            body.extend(self.statement())
        for dtype, shape in results():
            body.append(self.build_of([(dtype, self.name("r"))], shape))
        self.level -= 1
        del self.scope[before:]
        count = len(results())
        return Block(tuple(body), tuple(s.outs[0] for s in body[len(body) - count:]))

    def states(self) -> tuple[tuple[Ref, ...], tuple[Ref, ...]]:
        inits = tuple(self.pick(self.scope) for _ in range(int(self.rng.integers(1, 3))))
        return tuple(Ref(self.name("c"), r.dtype, r.shape) for r in inits), inits

    def fold(self) -> list[Statement]:
        states, inits = self.states()
        var = Var("t", self.pick(self.extents))
        rows = [(self.dtype(), self.shape(1)) for _ in range(int(self.rng.integers(0, 2)))]
        self.scope.extend(states)
        self.loops.append(var)
        body = self.block(lambda: [*((r.dtype, r.shape) for r in states), *rows])
        self.loops.pop()
        del self.scope[len(self.scope) - len(states):]
        outs = tuple(Ref(self.name("f"), r.dtype, r.shape) for r in states)
        stacked = tuple(Ref(self.name("y"), d, (var.extent, *shape)) for d, shape in rows)
        return [Fold((*outs, *stacked), var, states, inits, body)]

    def loop(self) -> list[Statement]:
        """A counter runs to a number known only at run time; another state may be carried along."""
        zero = Build((Ref(self.name("z"), types.i32, ()),), (), (expr.const(0, types.i32),))
        states, inits = self.states()
        counter = Ref(self.name("n"), types.i32, ())
        limit = int(self.rng.integers(0, 5))
        going = Ref(self.name("go"), types.bool_, ())
        test = Build((going,), (), (expr.apply("less", expr.get(counter), expr.const(limit, types.i32)),))
        self.scope.extend((counter, *states))
        body = self.block(lambda: [(r.dtype, r.shape) for r in states])
        del self.scope[len(self.scope) - len(states) - 1:]
        step = Build((Ref(self.name("m"), types.i32, ()),), (), (expr.get(counter) + 1,))
        body = Block((step, *body.statements), (step.outs[0], *body.results))
        outs = tuple(Ref(self.name("w"), r.dtype, r.shape) for r in (counter, *states))
        trips = as_index(int(self.rng.integers(1, 6))) if self.chance(0.5) else None
        return [zero, While(outs, (counter, *states), (zero.outs[0], *inits), Block((test,), (going,)), body, trips)]

    def choose(self) -> list[Statement]:
        test = Build((Ref(self.name("b"), types.bool_, ()),), (), (self.scalar(types.bool_, (), 2),))
        kinds = [(self.dtype(), self.shape(2)) for _ in range(int(self.rng.integers(1, 3)))]
        then, otherwise = self.block(lambda: kinds), self.block(lambda: kinds)
        outs = tuple(Ref(self.name("e"), d, shape) for d, shape in kinds)
        return [test, Choose(outs, test.outs[0], then, otherwise)]

    # Indices ------------------------------------------------------------------------------------------------

    def index(self, extent: Index, variables: Sequence[Var], conds: list[Cond]) -> Index:
        """An index below `extent`: provably, or under conditions added to `conds`."""
        bound = [*variables, *self.loops]
        choice = self.rng.random()
        if choice < 0.15:
            return self.data(extent, variables)
        fitting = [v for v in bound if prove_nonnegative(extent - v.extent)]
        if choice < 0.7 and fitting:
            v = as_index(self.pick(fitting))
            if self.chance(0.2):
                return v // int(self.rng.integers(2, 4))
            return extent - 1 - v if self.chance(0.2) else v
        if choice < 0.75 or not bound:
            return as_index(0) if self.chance(0.7) else extent - 1
        i = as_index(int(self.rng.integers(-2, 3)))
        for _ in range(int(self.rng.integers(1, 3))):
            v = as_index(self.pick(bound))
            i = i + (v // 2 if self.chance(0.1) else v % 3 if self.chance(0.1) else v * int(self.rng.integers(1, 3)))
        for c in (cond(">=", i), cond(">=", extent - 1 - i)):
            if c is False:
                return as_index(0)
            if c is not True:
                conds.append(c)
        return i

    def data(self, extent: Index, variables: Sequence[Var]) -> Index:
        """A data-dependent index: an element of an input with bounds, or an integer reduced modulo the extent."""
        bounded = [r for r in self.inputs if r.bounds is not None and r.bounds[1] is extent]
        if bounded and self.chance(0.6):
            element = self.element(self.pick(bounded), variables)
            if not isinstance(element, expr.Bracket | expr.Zero):
                return as_index(Data(element, extent))
        dividend = self.scalar(types.i64, variables, 1)
        remainder = expr.apply("remainder", dividend, expr.from_index(extent, types.i64))
        return expr.data_index(remainder, extent, checked=self.chance(0.5))

    # Scalars ------------------------------------------------------------------------------------------------

    def element(self, r: Ref, variables: Sequence[Var]) -> Scalar:
        conds: list[Cond] = []
        indices = [self.index(d, variables, conds) for d in r.shape]
        return expr.bracket(conds, expr.get(r, *indices))

    def leaf(self, dtype: DType, variables: Sequence[Var], refs: Sequence[Ref]) -> Scalar:
        """An element of an array of this dtype, an index, or a number."""
        fitting = [r for r in refs if r.dtype is dtype]
        bound = [*variables, *self.loops]
        if fitting and self.chance(0.8):
            return self.element(self.pick(fitting), variables)
        if bound and not dtype.is_bool and self.chance(0.3):
            return expr.from_index(as_index(self.pick(bound)) + int(self.rng.integers(-1, 3)), dtype)
        if dtype.is_bool:
            return expr.const(self.chance(0.5), dtype)
        if dtype.is_integer:
            return expr.const(int(self.rng.integers(max(dtype.minimum, -3), 4)), dtype)
        return expr.const(self.pick((0.5, 2.0, -1.5, float(np.round(self.rng.uniform(-2, 2), 3)))), dtype)

    def exact(self, dtype: DType, variables: Sequence[Var]) -> Scalar:
        """A floating-point scalar that everybody computes to the same bits."""
        x = self.leaf(dtype, variables, self.inputs)
        if self.chance(0.3):
            return expr.apply(self.pick(("minimum", "maximum")), x, self.leaf(dtype, variables, self.inputs))
        return expr.negative(x) if self.chance(0.2) else x

    def scalar(self, dtype: DType, variables: Sequence[Var], depth: int) -> Scalar:
        """A scalar of a dtype over index variables."""
        if depth <= 0 or self.chance(0.1):
            return self.leaf(dtype, variables, self.scope)
        choice = self.rng.random()
        if choice < 0.08:
            test = self.scalar(types.bool_, variables, depth - 1)
            return expr.select(test, *(self.scalar(dtype, variables, depth - 1) for _ in range(2)))
        if choice < 0.14:
            conds: list[Cond] = []
            self.index(self.pick(self.extents), variables, conds)
            return expr.bracket(conds, self.scalar(dtype, variables, depth - 1))
        if choice < 0.26:
            return self.reduction(dtype, variables, depth)
        if choice < 0.32:
            return self.cast(dtype, variables, depth)
        if dtype.is_bool:
            return self.logic(variables, depth)
        if choice < 0.55:
            return expr.add(*(self.scalar(dtype, variables, depth - 1) for _ in range(int(self.rng.integers(2, 4)))))
        if choice < 0.75:
            return expr.mul(*(self.scalar(dtype, variables, depth - 1) for _ in range(int(self.rng.integers(2, 4)))))
        if choice < 0.8:
            return expr.negative(self.scalar(dtype, variables, depth - 1))
        return self.integer(dtype, variables, depth) if dtype.is_integer else self.smooth(dtype, variables, depth)

    def integer(self, dtype: DType, variables: Sequence[Var], depth: int) -> Scalar:
        if self.chance(0.2):
            name = self.pick(("abs", "sign", "bitwise_invert"))
            return expr.apply(name, self.scalar(dtype, variables, depth - 1))
        return expr.apply(self.pick(_INTEGER), *(self.scalar(dtype, variables, depth - 1) for _ in range(2)))

    def smooth(self, dtype: DType, variables: Sequence[Var], depth: int) -> Scalar:
        """Functions whose value changes little when their operand does."""
        x = self.scalar(dtype, variables, depth - 1)
        choice = self.rng.random()
        if choice < 0.2:
            y = self.scalar(dtype, variables, depth - 1)
            return x / (1 + y * y)
        if choice < 0.3:
            return expr.apply("sqrt", 1 + x * x)
        if choice < 0.4:
            return expr.apply("exp", expr.apply("tanh", x))
        if choice < 0.5:
            return expr.apply("log", 1.5 + x * x)
        if choice < 0.65:
            return expr.apply(self.pick(("minimum", "maximum")), x, self.scalar(dtype, variables, depth - 1))
        if choice < 0.75:
            return expr.apply(self.pick(("floor", "ceil", "round", "trunc", "sign")), self.exact(dtype, variables))
        return expr.apply(self.pick(_SMOOTH), x)

    def logic(self, variables: Sequence[Var], depth: int) -> Scalar:
        choice = self.rng.random()
        if choice < 0.3:
            names = ("logical_and", "logical_or", "logical_xor")
            return expr.apply(self.pick(names), *(self.scalar(types.bool_, variables, depth - 1) for _ in range(2)))
        if choice < 0.4:
            return expr.apply("logical_not", self.scalar(types.bool_, variables, depth - 1))
        if self.floats and choice < 0.7:
            dtype = self.pick(self.floats)
            return expr.apply(self.pick(_COMPARE), self.exact(dtype, variables), self.exact(dtype, variables))
        dtype = self.pick(self.integers)
        return expr.apply(self.pick(_COMPARE), *(self.scalar(dtype, variables, depth - 1) for _ in range(2)))

    def cast(self, dtype: DType, variables: Sequence[Var], depth: int) -> Scalar:
        source = self.dtype()
        if source.is_floating and not dtype.is_floating:
            return expr.cast(self.exact(source, variables), dtype)
        return expr.cast(self.scalar(source, variables, depth - 1), dtype)

    def reduction(self, dtype: DType, variables: Sequence[Var], depth: int) -> Scalar:
        shape = self.shape(2, 1)
        own = tuple(Var("mpqr"[n], d) for n, d in enumerate(shape))
        inside = (*variables, *own)
        if dtype is types.i64 and self.chance(0.5):
            op: ReduceOp = self.pick(("argmax", "argmin"))
            source = self.pick((*self.floats, *self.integers))
            arg = self.exact(source, inside) if source.is_floating else self.scalar(source, inside, depth - 1)
            return expr.reduce(op, own, arg)
        ops = ("any", "all") if dtype.is_bool else ("sum", "sum", "sum", "max", "min", "prod")
        return expr.reduce(self.pick(ops), own, self.scalar(dtype, inside, depth - 1))


__all__ = ["Case", "random_program"]

assert all(name in PRIMITIVES for name in (*_SMOOTH, *_INTEGER, *_COMPARE))
