"""Vector kernels: a build lowered to register tiles of explicit vectors.

Before    y = build o < 12, i < 8, j < 8 { f(sum c < 6, u < 5, v < 5 { k[o, c, u, v] * x[c, i + u, j + v] }) }
After     for o in steps of 3, i in steps of 4:
              12 accumulators of 8 lanes (3 of o, 4 of i, one vector of j)
              for c, u, v: 3 scalars of k, 4 vectors of x, 12 multiply-adds
              f of each accumulator, 12 stores

The steps:

1. Addresses become one linear index per element; axes that every address sees as one are merged.
2. A vector axis is chosen: an output axis that is contiguous where it is stored, or an axis of the one sum,
   whose lanes are added up at the end. The rest of its extent takes narrower vectors, then single elements.
3. Output axes are tiled so that loads are shared: a tile is scored by the cycles that one step of the inner loop
   needs for loads and multiply-adds on a machine with two ports for each, and by the latency of a chain.
4. The body is expanded for each element of the tile by substitution; hash-consing makes equal loads one node.

It does not block for the cache, does not pack, and leaves to the scalar lowering what it cannot take: conditions
that depend on the vector axis, data-dependent indices, functions without a vector form, integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from math import prod

from pullback.codegen.vector_math import VECTOR_FUNCTIONS, vector_source
from pullback.ir import expr
from pullback.ir.expr import (
    Add, Bracket, Const, FromIndex, Get, Mul, Reduce, Ref, Scalar, Zero,
)
from pullback.ir.index import Cond, Data, Floor, Index, Mod, Var, ZERO_INDEX, as_index
from pullback.ir.program import Build, Statement
from pullback.ir.traverse import Substitution, indices_of, walk
from pullback.ir.types import DType
from pullback.loops.lower import KernelBuilder, plain_build
from pullback.loops.nodes import (
    Across, Apply, Assign, Binary, Broadcast, Buffer, For, Gather, Holds, If, IndexValue, Invoke, Kernel, Let, Literal, Load,
    Read, Stmt, Store, Temp, Type, Value,
)

REGISTERS = 16
ACCUMULATORS = 12
LATENCY = 4  # cycles of a multiply-add
FUNCTION = 12  # cycles of a transcendental, a vector or a single element
ACROSS = 3  # cycles to add the lanes of one accumulator, others in flight

Address = Callable[[Ref, tuple[Index, ...]], tuple[Buffer, Index]]
_FOLD: Mapping[str, tuple[str, float]] = {"sum": ("+", 0.0), "max": ("max", -float("inf")), "min": ("min", float("inf"))}


def tile(s: Build, address: Address, vector_bytes: int = 32) -> tuple[Stmt, ...] | None:
    """The statements of a vector kernel for a build, or None where the scalar lowering must do it.

    Args:
        s: a build with known extents.
        address: where an element lies: its buffer and flat index.
        vector_bytes: size of a vector register: 16, 32 or 64.
    """
    nest = _Nest.of(s, address)
    if nest is None or nest.elements * nest.trips < 8:
        return None
    widest = vector_bytes // nest.dtype.size
    plans = [p for axis in nest.vector_axes(widest) for p in nest.plans(axis, widest)]
    if not plans:
        return None
    best = min(plans, key=lambda p: p.cycles)
    if best.lanes == 1:
        return None
    return tuple(_Emitter(nest, best).outer())


@dataclass(frozen=True)
class _Plan:
    """A choice: the vector axis, its lanes, whether it is one of the sum's, vectors side by side, and tile sizes."""

    axis: Var
    lanes: int
    reduced: bool
    vectors: int
    tiles: tuple[tuple[Var, int], ...]
    cycles: float


@dataclass
class _Nest:
    """A build over flat addresses."""

    dtype: DType
    variables: tuple[Var, ...]
    outs: tuple[tuple[Buffer, Index], ...]
    values: tuple[Scalar, ...]
    buffers: dict[Ref, Buffer]
    reductions: tuple[Reduce, ...]

    @staticmethod
    def of(s: Build, address: Address) -> _Nest | None:
        """The nest of a build, axes merged; None where it has what vectors cannot do."""
        if any(v.extent.constant is None for v in s.vars):
            return None
        buffers: dict[Ref, Buffer] = {}
        flat: dict[Buffer, Ref] = {}

        def element(ref: Ref, indices: tuple[Index, ...]) -> Scalar:
            buffer, offset = address(ref, indices)
            if buffer not in flat:
                flat[buffer] = Ref(buffer.name, ref.dtype, (buffer.elements,))
                buffers[flat[buffer]] = buffer
            return expr.get(flat[buffer], offset)

        single = {v: ZERO_INDEX for v in s.vars if v.extent.constant == 1}
        m = Substitution(variables=single, get=element)
        values = tuple(m.scalar(v) for v in s.values)
        indices = tuple(single.get(v, as_index(v)) for v in s.vars)
        outs = tuple(address(o, indices) for o in s.outs)
        dtypes = {o.dtype for o in s.outs}
        if len(dtypes) != 1 or not (dtype := dtypes.pop()).is_floating:
            return None
        reductions = tuple(dict.fromkeys(n for v in values for n in walk(v) if isinstance(n, Reduce)))
        nest = _Nest(dtype, tuple(v for v in s.vars if v not in single), outs, values, buffers, reductions)
        if not nest.possible():
            return None
        nest.merge()
        return nest

    def possible(self) -> bool:
        """Whether all nodes have a vector form and all sizes are known."""
        summed = {r.arg for r in self.reductions if r.op == "sum"}
        for v in self.values:
            for n in walk(v):
                for i in indices_of(n):
                    if any(isinstance(a, Data) for a in i.every_atom):
                        return False
                match n:
                    case Reduce():
                        if n.op not in _FOLD or any(w.extent.constant is None for w in n.vars):
                            return False
                        if any(isinstance(x, Reduce) for x in walk(n.arg)):
                            return False
                    case expr.Apply():
                        if n.primitive.name not in (*VECTOR_FUNCTIONS, "divide", "maximum", "minimum"):
                            return False
                    case Bracket() if n in summed:
                        pass  # around the whole argument of a sum: a test around its step
                    case Get() | Const() | Zero() | Add() | Mul() | FromIndex():
                        pass
                    case _:
                        return False
                if n.dtype is not self.dtype:
                    return False
        return True

    def merge(self) -> None:
        """Merge axes that every address sees as one: a step of the outer is a full run of the inner."""
        while (pair := self._mergeable()) is not None:
            outer, inner = pair
            joint = Var(inner.name, outer.extent * inner.extent)
            m = Substitution(variables={outer: ZERO_INDEX, inner: as_index(joint)})
            self.outs = tuple((b, m.index(i)) for b, i in self.outs)
            if inner in self.variables:
                self.variables = tuple(joint if v is inner else v for v in self.variables if v is not outer)
                self.values = tuple(m.scalar(v) for v in self.values)
            else:
                self.values = tuple(_merge_reduction(v, outer, inner, joint) for v in self.values)
            self.reductions = tuple(dict.fromkeys(n for v in self.values for n in walk(v) if isinstance(n, Reduce)))

    def _mergeable(self) -> tuple[Var, Var] | None:
        addresses = [*(i for _, i in self.outs), *self.gets_indices()]
        fixed = self._fixed()
        groups = [self.variables, *(r.vars for r in self.reductions)]
        for group in groups:
            for a, b in combinations([v for v in group if v not in fixed], 2):
                for outer, inner in ((a, b), (b, a)):
                    if all(_spans(i, outer, inner) for i in addresses):
                        return outer, inner
        return None

    def _fixed(self) -> set[Var]:
        """Variables seen by more than addresses: in conditions, as numbers, under div and mod."""
        out: set[Var] = set()
        for v in self.values:
            for n in walk(v):
                if isinstance(n, Bracket | FromIndex):
                    for i in indices_of(n):
                        out |= i.free
        for i in self.gets_indices():
            for a in i.atoms:
                if isinstance(a, Floor | Mod):
                    out |= a.free
        return out

    def gets(self) -> Iterator[Get]:
        seen: set[Get] = set()
        for v in self.values:
            for n in walk(v):
                if isinstance(n, Get) and n not in seen:
                    seen.add(n)
                    yield n

    def gets_indices(self) -> list[Index]:
        return [g.indices[0] for g in self.gets()]

    @property
    def elements(self) -> int:
        return prod(v.extent.constant or 1 for v in self.variables)

    @property
    def trips(self) -> int:
        return max((prod(v.extent.constant or 1 for v in r.vars) for r in self.reductions), default=1)

    def vector_axes(self, widest: int) -> list[tuple[Var, bool]]:
        """Axes that may be the vector axis: (variable, whether it is one of the sum's)."""
        tested: set[Var] = set()
        for v in self.values:
            for n in walk(v):
                if isinstance(n, Bracket | FromIndex):
                    for i in indices_of(n):
                        tested |= i.free
        out = [(v, False) for v in self.variables
               if v not in tested and all(_stride(i, v) == 1 for _, i in self.outs)
               and all(_stride(i, v) is not None or _patterned(i, v) for i in self.gets_indices())]
        if len(self.reductions) == 1:
            r = self.reductions[0]
            out += [(v, True) for v in r.vars if v not in tested
                    and all(_stride(i, v) in (0, 1) for i in self.gets_indices())]
        return [(v, reduced) for v, reduced in out if (v.extent.constant or 0) >= 2 and widest > 1]

    def plans(self, choice: tuple[Var, bool], widest: int) -> Iterator[_Plan]:
        """Tilings for a vector axis, each with its estimated cycles for the whole nest."""
        axis, reduced = choice
        extent = axis.extent.constant or 1
        lanes = widest
        while lanes > extent:
            lanes //= 2
        if lanes < 2:
            return
        tested = self._tested()
        others = [v for v in self.variables if v is not axis and v not in tested]
        whole = extent // lanes
        for vectors in (1, 2, 3, 4) if not reduced and self.reductions else (1,):
            if vectors > whole:
                continue
            for tiles in _tilings(others, vectors) if self.reductions else [()]:
                yield self._score(axis, lanes, reduced, vectors, tiles)

    def _tested(self) -> set[Var]:
        return {v for e in self.values for n in walk(e) if isinstance(n, Bracket) for c in n.conds for v in c.free}

    def _score(self, axis: Var, lanes: int, reduced: bool, vectors: int, tiles: tuple[tuple[Var, int], ...]) -> _Plan:
        count = vectors * prod(t for _, t in tiles)
        extent = axis.extent.constant or 1
        cycles = 0.0
        blocks = 1.0
        for v in self.variables:
            if v is axis and not reduced:
                full, rest = divmod(extent, lanes * vectors)
                blocks *= full + sum(1 for _ in _narrower(rest, lanes))
            else:
                t = dict(tiles).get(v, 1)
                blocks *= (v.extent.constant or 1) / t
        for r in self.reductions:
            trips = prod(v.extent.constant or 1 for v in r.vars)
            if reduced:
                trips = trips // extent * (extent // lanes + sum(1 for _ in _narrower(extent % lanes, lanes)))
            loads = 0.0
            terms = 0
            for g in dict.fromkeys(n for n in walk(r.arg) if isinstance(n, Get)):
                terms += 1
                i = g.indices[0]
                distinct = prod(t for v, t in tiles if v in i.free) * (vectors if axis in i.free else 1)
                stride = _stride(i, axis)
                loads += distinct * (1.0 if stride in (0, 1) else 1.5 * lanes)
            multiplies = count * max(1, terms - 1)
            cycles += trips * max(loads / 2, multiplies / 2, LATENCY if not reduced or trips > 1 else 0.0)
        width = 1 if reduced else lanes
        epilogue = sum(1.0 if reduced or _stride(g.indices[0], axis) in (0, 1) else 1.5 * lanes for g in self.gets())
        epilogue += 2.0 + sum(FUNCTION * (1 if width > 1 else 2) for v in self.values for n in walk(v)
                              if isinstance(n, expr.Apply) and n.primitive.transcendental)
        epilogue = (epilogue + ACROSS * reduced) * count
        return _Plan(axis, lanes, reduced, vectors, tiles, blocks * (cycles + epilogue + 4.0))


def _tilings(others: list[Var], vectors: int) -> list[tuple[tuple[Var, int], ...]]:
    """Choices of at most two tiled axes and their sizes, within the accumulators there are."""
    room = ACCUMULATORS // vectors
    out: list[tuple[tuple[Var, int], ...]] = [()]
    sizes = {v: [t for t in range(2, 13) if t <= (v.extent.constant or 1) and (
        (v.extent.constant or 1) % t == 0 or (v.extent.constant or 1) >= 4 * t)] for v in others}
    out += [((v, t),) for v in others for t in sizes[v] if t <= room]
    out += [((a, s), (b, t)) for a, b in combinations(others, 2) for s in sizes[a] for t in sizes[b] if s * t <= room]
    return out


def _merge_reduction(e: Scalar, outer: Var, inner: Var, joint: Var) -> Scalar:
    def merged(r: Reduce) -> Scalar:
        if inner not in r.vars:
            return r
        m = Substitution(variables={outer: ZERO_INDEX, inner: as_index(joint)})
        return expr.reduce(r.op, [joint if v is inner else v for v in r.vars if v is not outer], m.scalar(r.arg))

    return _map_reductions(e, merged)


def _map_reductions(e: Scalar, rule: Callable[[Reduce], Scalar]) -> Scalar:
    """e with each reduction replaced; reductions are not nested."""
    memo: dict[Scalar, Scalar] = {}
    for n in walk(e, into_indices=False):
        match n:
            case Reduce():
                memo[n] = rule(n)
            case Add():
                memo[n] = expr.add(*(memo.get(a, a) for a in n.args))
            case Mul():
                memo[n] = expr.mul(*(memo.get(a, a) for a in n.args))
            case expr.Apply():
                memo[n] = expr.apply(n.primitive, *(memo.get(a, a) for a in n.args))
            case Bracket():
                memo[n] = expr.bracket(n.conds, memo.get(n.arg, n.arg))
            case _:
                memo[n] = n
    return memo[e]


def _spans(i: Index, outer: Var, inner: Var) -> bool:
    a, b = i.coefficient(outer), i.coefficient(inner)
    return a is not None and b is not None and a is b * inner.extent


def _stride(i: Index, v: Var) -> int | None:
    """The constant step of an address in v; None where it has none."""
    c = i.coefficient(v)
    return None if c is None else c.constant


def _patterned(i: Index, v: Var) -> bool:
    """Whether v occurs under div and mod by numbers only, so that lanes of a full vector have known offsets."""
    return all(isinstance(a, Floor | Mod) and a.denominator.constant is not None and v in a.free
               for a in i.atoms if v in a.free and a is not v)


def _narrower(rest: int, lanes: int) -> Iterator[int]:
    """Lanes of the vectors that cover `rest` elements: halves, down to single elements."""
    while rest:
        while lanes > rest:
            lanes //= 2
        yield lanes
        rest -= lanes


@dataclass(frozen=True)
class _Element:
    """One element of a tile: what its variables are, and its number of lanes."""

    at: Mapping[Var, Index]
    lanes: int


class _Emitter:
    """Writes the loops of a nest under a plan."""

    def __init__(self, nest: _Nest, plan: _Plan) -> None:
        self.nest = nest
        self.plan = plan

    def outer(self) -> list[Stmt]:
        """Loops over output axes, outermost first; tiled axes step, with a narrower tile for what is left."""
        order = [v for v in self.nest.variables if v is not self.plan.axis or self.plan.reduced]
        return self._loops(order, {})

    def _loops(self, order: list[Var], sizes: dict[Var, tuple[Index, int]]) -> list[Stmt]:
        if not order:
            return self._vector_loop(sizes)
        v, *rest = order
        extent = v.extent.constant or 1
        t = dict(self.plan.tiles).get(v, 1)
        full = extent - extent % t
        out: list[Stmt] = []
        if full == t:
            out += self._loops(rest, {**sizes, v: (ZERO_INDEX, t)})
        elif full:
            loop = Var(v.name, v.extent)
            body = self._loops(rest, {**sizes, v: (as_index(loop), t)})
            out.append(For(loop, ZERO_INDEX, as_index(full), tuple(body), t))
        if extent > full:
            out += self._loops(rest, {**sizes, v: (as_index(full), extent - full)})
        return out

    def _vector_loop(self, sizes: dict[Var, tuple[Index, int]]) -> list[Stmt]:
        if self.plan.reduced:
            return self._block(sizes, None)
        axis, lanes, vectors = self.plan.axis, self.plan.lanes, self.plan.vectors
        extent = axis.extent.constant or 1
        out: list[Stmt] = []
        done = 0
        for count in (vectors, 1) if vectors > 1 else (1,):
            step = lanes * count
            trips = (extent - done) // step
            if trips == 1:
                out += self._block(sizes, (as_index(done), lanes, count))
            elif trips > 1:
                patterned = any(not isinstance(a, Var) for i in self.nest.gets_indices() for a in i.atoms if axis in a.free)
                loop = Var(axis.name, as_index(trips) if patterned else axis.extent)
                start = as_index(loop) * step + done if patterned else as_index(loop)
                body = tuple(self._block(sizes, (start, lanes, count)))
                low, high, by = (0, trips, 1) if patterned else (done, done + trips * step, step)
                out.append(For(loop, as_index(low), as_index(high), body, by, "vector"))
            done += trips * step
        for narrow in _narrower(extent - done, lanes):
            out += self._block(sizes, (as_index(done), narrow, 1))
            done += narrow
        return out

    def _elements(self, sizes: dict[Var, tuple[Index, int]], vector: tuple[Index, int, int] | None) -> list[_Element]:
        axes = list(sizes)
        out = []
        for offsets in product(*(range(sizes[v][1]) for v in axes)):
            at = {v: sizes[v][0] + k for v, k in zip(axes, offsets, strict=True)}
            if vector is None:
                out.append(_Element(at, 1))
            else:
                start, lanes, count = vector
                out += [_Element({**at, self.plan.axis: start + k * lanes}, lanes) for k in range(count)]
        return out

    def _block(self, sizes: dict[Var, tuple[Index, int]], vector: tuple[Index, int, int] | None) -> list[Stmt]:
        """One tile: accumulators, the loops of each reduction, then values and stores."""
        elements = self._elements(sizes, vector)
        out: list[Stmt] = []
        results: list[dict[Scalar, Value]] = [{} for _ in elements]
        for r in self.nest.reductions:
            for k, value in enumerate(self._reduction(r, elements, out)):
                results[k][r] = value
        writer = _Writer(self.nest, self.plan.axis)
        stores: list[Stmt] = []
        for e, known in zip(elements, results, strict=True):
            for (buffer, offset), value in zip(self.nest.outs, self.nest.values, strict=True):
                at = Substitution(variables=e.at).index(offset)
                got = writer.value(value, e, known, stores)
                stores.append(Store(buffer, at, writer.widen(got, e.lanes)))
        return out + stores

    def _reduction(self, r: Reduce, elements: list[_Element], out: list[Stmt]) -> list[Value]:
        """Statements that compute the reduction for each element; the values it has then."""
        dtype = self.nest.dtype
        sign, start = _FOLD[r.op]
        reduced = self.plan.reduced
        axis = self.plan.axis
        extent = axis.extent.constant or 1
        widths = [self.plan.lanes] if extent >= self.plan.lanes else []
        if reduced:
            widths += [w for w in dict.fromkeys(_narrower(extent % self.plan.lanes, self.plan.lanes)) if w not in widths]
        totals: list[Value | None] = [None] * len(elements)
        temps: dict[int, list[Temp]] = {}
        for lanes in widths if reduced else [elements[0].lanes]:
            type_ = Type(dtype, lanes)
            temps[lanes] = [Temp("sum" if r.op == "sum" else r.op, type_) for _ in elements]
            zero: Value = Literal(start, Type(dtype, lanes))
            out += [Let(t, zero, mutable=True) for t in temps[lanes]]
        loops = [v for v in r.vars if not (reduced and v is axis)]
        inner: list[Stmt] = []
        if reduced:
            full = extent - extent % self.plan.lanes
            if full == self.plan.lanes:
                inner += self._accumulate(r, elements, temps[self.plan.lanes], sign, (axis, ZERO_INDEX, self.plan.lanes))
            elif full:
                loop = Var(axis.name, axis.extent)
                body = self._accumulate(r, elements, temps[self.plan.lanes], sign, (axis, as_index(loop), self.plan.lanes))
                inner.append(For(loop, ZERO_INDEX, as_index(full), tuple(body), self.plan.lanes, "vector"))
            at = full
            for lanes in _narrower(extent - full, self.plan.lanes):
                inner += self._accumulate(r, elements, temps[lanes], sign, (axis, as_index(at), lanes))
                at += lanes
        else:
            inner = self._accumulate(r, elements, temps[elements[0].lanes], sign, None)
        for v in reversed(loops):
            inner = [For(v, ZERO_INDEX, v.extent, tuple(inner))]
        out += inner
        for lanes, row in temps.items():
            for k, t in enumerate(row):
                value: Value = Read(t)
                if reduced and lanes > 1:
                    value = Across("+" if sign == "+" else sign, value)  # type: ignore[arg-type]
                before = totals[k]
                totals[k] = value if before is None else Binary(sign, before, value, Type(dtype))  # type: ignore[arg-type]
        final: list[Value] = []
        for total in totals:
            assert total is not None
            if reduced:
                t = Temp("total", Type(dtype))
                out.append(Let(t, total))
                total = Read(t)
            final.append(total)
        return final

    def _accumulate(self, r: Reduce, elements: list[_Element], temps: list[Temp], sign: str,
                    chunk: tuple[Var, Index, int] | None) -> list[Stmt]:
        """acc = acc op body, for each element; conditions that hold for all of them alike go around."""
        conds: tuple[Cond, ...] = ()
        body = r.arg
        if isinstance(body, Bracket) and r.op == "sum":
            conds, body = body.conds, body.arg
        writer = _Writer(self.nest, self.plan.axis)
        out: list[Stmt] = []
        for e, t in zip(elements, temps, strict=True):
            if chunk is not None:
                e = _Element({**e.at, chunk[0]: chunk[1]}, chunk[2])
            value = writer.widen(writer.value(body, e, {}, out), e.lanes)
            out.append(Assign(t, Binary(sign, Read(t), value, t.type)))  # type: ignore[arg-type]
        if not conds:
            return out
        m = Substitution(variables=elements[0].at)
        held = [m.condition(c) for c in conds]
        if False in held:
            return []
        tests = tuple(c for c in held if isinstance(c, Cond))
        return [If(Holds(tests), tuple(out))] if tests else out


class _Writer:
    """Values of expressions for the elements of a tile; loads and functions become temporaries, once each."""

    def __init__(self, nest: _Nest, axis: Var) -> None:
        self.nest = nest
        self.axis = axis
        self.done: dict[tuple[Scalar, int], Value] = {}

    def value(self, e: Scalar, element: _Element, known: Mapping[Scalar, Value], out: list[Stmt]) -> Value:
        """The value of e at an element: a vector where it varies along the lanes, else a scalar."""
        memo: dict[Scalar, Value] = dict(known)
        return self._value(e, element, Substitution(variables=element.at), memo, out)

    def _value(self, e: Scalar, at: _Element, m: Substitution, memo: dict[Scalar, Value], out: list[Stmt]) -> Value:
        found = memo.get(e)
        if found is None:
            found = memo[e] = self._make(e, at, m, memo, out)
        return found

    def _make(self, e: Scalar, at: _Element, m: Substitution, memo: dict[Scalar, Value], out: list[Stmt]) -> Value:
        dtype = self.nest.dtype
        match e:
            case Const():
                return Literal(e.value, Type(dtype))
            case Zero():
                return Literal(0.0, Type(dtype))
            case FromIndex():
                return IndexValue(m.index(e.index), Type(dtype))
            case Get():
                return self._load(e, at, m, out)
            case Add():
                return self._chain("+", [self._value(a, at, m, memo, out) for a in e.args])
            case Mul():
                return self._chain("*", [self._value(a, at, m, memo, out) for a in e.args])
            case expr.Apply():
                args = [self._value(a, at, m, memo, out) for a in e.args]
                return self._function(e, args, out)
            case _:
                raise AssertionError(f"no vector form: {type(e).__name__}")

    def _function(self, e: expr.Apply, args: list[Value], out: list[Stmt]) -> Value:
        name = e.primitive.name
        if name == "divide":
            return self._chain("/", args)
        if name in ("maximum", "minimum"):
            return self._chain("max" if name == "maximum" else "min", args)
        lanes = max(a.type.lanes for a in args)
        type_ = Type(self.nest.dtype, lanes)
        if lanes == 1:
            made: Value = Apply(e.primitive, tuple(args), type_)
        else:
            made = Invoke(f"pb_{name}_{type_}", tuple(args), type_, vector_source(name, self.nest.dtype, lanes))
        t = Temp(name, type_)
        out.append(Let(t, made))
        return Read(t)

    def _chain(self, op: str, args: list[Value]) -> Value:
        """Scalars first among themselves, then with the vectors, in order."""
        lanes = max(a.type.lanes for a in args)
        type_ = Type(self.nest.dtype, lanes)
        if op in ("+", "*") and lanes > 1:
            args = [*(a for a in args if a.type.lanes == 1), *(a for a in args if a.type.lanes > 1)]
        value = args[0]
        for a in args[1:]:
            wide = max(value.type.lanes, a.type.lanes)
            value = Binary(op, self.widen(value, wide), self.widen(a, wide), Type(self.nest.dtype, wide))  # type: ignore[arg-type]
        assert value.type == type_
        return value

    def _load(self, e: Get, at: _Element, m: Substitution, out: list[Stmt]) -> Value:
        offset = m.index(e.indices[0])
        lanes = at.lanes if self.axis in e.indices[0].free else 1
        key = (expr.get(e.ref, offset), lanes)
        found = self.done.get(key)
        if found is None:
            buffer = self.nest.buffers[e.ref]
            type_ = Type(self.nest.dtype, lanes)
            made: Value = Load(buffer, offset, type_)
            if lanes > 1 and _stride(e.indices[0], self.axis) != 1:
                made = self._gather(e, buffer, at, lanes)
            t = Temp(buffer.name, type_)
            out.append(Let(t, made))
            found = self.done[key] = Read(t)
        return found

    def _gather(self, e: Get, buffer: Buffer, at: _Element, lanes: int) -> Value:
        start = at.at[self.axis]
        offsets = tuple(Substitution(variables={**at.at, self.axis: start + k}).index(e.indices[0]) for k in range(lanes))
        if all(o is offsets[0] for o in offsets):
            return Broadcast(Load(buffer, offsets[0], Type(self.nest.dtype)), Type(self.nest.dtype, lanes))
        if all(o is offsets[0] + k for k, o in enumerate(offsets)):
            return Load(buffer, offsets[0], Type(self.nest.dtype, lanes))
        return Gather(buffer, offsets, Type(self.nest.dtype, lanes))

    @staticmethod
    def widen(value: Value, lanes: int) -> Value:
        """The value in all lanes."""
        if value.type.lanes == lanes:
            return value
        if isinstance(value, Literal):
            return Literal(value.value, Type(value.type.dtype, lanes))
        return Broadcast(value, Type(value.type.dtype, lanes))


def specialist(s: Statement, builder: KernelBuilder) -> Kernel | None:
    """The vector kernel of a statement, for `loops.lower`; None where the plain lowering does it."""
    if not isinstance(s, Build):
        return None

    def address(ref: Ref, indices: tuple[Index, ...]) -> tuple[Buffer, Index]:
        offset = ZERO_INDEX
        for i, d in zip(indices, ref.shape, strict=True):
            offset = offset * d + i
        return builder.parameter(ref), offset

    body = tile(s, address)
    return None if body is None else builder.kernel(body, portable=plain_build(s, builder))
