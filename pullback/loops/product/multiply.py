"""The register tiles of packed products: a kernel per element type, row count and vector count."""

from __future__ import annotations

from pullback.ir.index import ZERO_INDEX, Index, Var, as_index, cond, floor_divide
from pullback.ir.types import DType, i64
from pullback.loops.plain.builder import free_variables
from pullback.loops.program import values
from pullback.loops.program.nodes import Assign, For, Kernel, Let, LetIndex, Stmt, Store, either
from pullback.loops.program.values import (
    Binary,
    Broadcast,
    Buffer,
    Literal,
    Load,
    Read,
    Temp,
    Type,
    Value,
    loaded_index,
)
from pullback.records import dataclass
from pullback.state import cached


@dataclass(frozen=True)
class Walk:
    """The way a tile reads A in place.

    Attributes:
        places: of its rows, relative to each other.
        loops: of the sum.
        part: whether they may be parts of those of the panel.
    """

    places: tuple[int, ...]
    loops: int
    part: bool = False


@dataclass(frozen=True)
class Listed:
    """The steps of a tile are in a list, made by `listed.list_steps`; A is a panel or in place."""

    in_place: bool


Form = bool | Walk | Listed
"""The way a tile takes the steps of A: whether it is in place, or one of the above."""


@cached(64)
def multiply(dtype: DType, lanes: int, rows: int, vectors: int, in_place: Form, by: tuple[float, bool],
             panels: tuple[int, int] | None = None) -> Kernel:
    """The register tile c[i, j] (+)= sum over k of a[k, i] * b[k, j], for panels of `rows` and `vectors`.

    The sum is multiplied `by` a number; if `by` is true, by the single number of a third operand.

    Index parameters: `steps` of the sum, `stride`, the distance of two rows of c, and `begun`, 0 to overwrite c. With
    `in_place`, a is not a panel but a[i, k] in memory; `row` is the distance of its rows. In place by a `Walk`, the sum
    is several loops, from the innermost on: loop n has `steps<n>` steps, `step<n>` apart in a; if these are a part,
    the panel has `whole<n>`. At an edge, `panels` of a and b are wider than the tile. In place, the last of the rows
    `present` stands for missing ones. If they are `Listed`, the third operand has the steps to take (`list_steps`).
    """
    columns = lanes * vectors
    down, across = panels or (rows, columns)
    steps, stride, begun, row_step = (Var(name, 1 << 40) for name in ("steps", "stride", "begun", "row"))
    a, b, c = (Buffer(name, dtype, (steps.extent, as_index(n)), "parameter", steps.extent * n, name == "c")
               for name, n in (("a", rows), ("b", columns), ("c", rows)))
    wide, one = Type(dtype, lanes), Type(dtype)
    sums = [[Temp(f"c{i}_{j}", wide) for j in range(vectors)] for i in range(rows)]
    zeros: list[Stmt] = [Let(t, Literal(0.0, wide), mutable=True) for row in sums for t in row]
    order = _order(in_place, steps)
    in_place = in_place.in_place if isinstance(in_place, Listed) else in_place
    place, address, step = order.place, order.address, list(order.inside)
    right = [Temp(f"b{j}", wide) for j in range(vectors)]
    for j, t in enumerate(right):
        step.append(Let(t, Load(b, place * across + j * lanes, wide), held=True))
    last = [Var(f"row{i}", rows) for i in range(rows)] if panels and in_place is True else []
    ends = as_index(Var("present", 1 << 40)) - 1
    lets = [LetIndex(v, values.smallest(as_index(i), ends)) for i, v in enumerate(last)]
    for i, row in enumerate(sums):
        left = Temp(f"a{i}", one)
        if isinstance(in_place, Walk):
            at = address + in_place.places[i]
        else:
            number = as_index(last[i]) if last else as_index(i)
            at = as_index(row_step) * number + address if in_place else place * down + i
        step.append(Let(left, Load(a, at, one)))
        for t, other in zip(row, right, strict=True):
            product = Binary("*", Broadcast(Read(left), wide), Read(other), wide)
            step.append(Assign(t, Binary("+", Read(t), product, wide)))
    for v, trips in order.loops:
        step = [For(v, ZERO_INDEX, trips, tuple(step))]
    places = [(as_index(stride) * i + j * lanes, t) for i, row in enumerate(sums) for j, t in enumerate(row)]
    scale, finish, head = _finish(c, places, begun, by)
    body = (*order.before, *lets, *zeros, *step, *finish)
    index = "places[i] + k" if isinstance(in_place, Walk) else "i, k" if in_place else "k, i"
    comment = (f"c[i, j] (+)= {head}sum over k of a[{index}] * b[k, j] for i < {rows}, j < {columns}",)
    lying = "_walked" + "_in_part" * in_place.part if isinstance(in_place, Walk) else "_in_place" * bool(in_place)
    name = f"multiply_{dtype.name}_{rows}x{columns}{lying}" + "_scaled" * bool(head) + "_edge" * bool(panels)
    name += "_listed" * bool(order.taken)
    walked = isinstance(in_place, Walk)
    return Kernel(name, (a, b, *order.taken, *scale, c), free_variables(body), body, comment, apart=walked)


@cached(64)
def dots(dtype: DType, lanes: int, rows: int, by: tuple[float, bool]) -> Kernel:
    """The column kernel c[i] (+)= sum over k of a[i, k] * b[k], lanes along k; parameters as `multiply`."""
    steps, stride, begun, row = (Var(name, 1 << 40) for name in ("steps", "stride", "begun", "row"))
    a, b, c = (
        Buffer(name, dtype, (n,), "parameter", n, name == "c")
        for name, n in (("a", steps.extent * rows), ("b", steps.extent), ("c", stride.extent * rows))
    )
    k, rest = Var("k", steps.extent), Var("k", steps.extent)
    wide, one = Type(dtype, lanes), Type(dtype)
    sums = [Temp(f"v{i}", wide) for i in range(rows)]
    totals = [Temp(f"c{i}", one) for i in range(rows)]
    right = Temp("b0", wide)
    step: list[Stmt] = [Let(right, Load(b, as_index(k), wide), held=True)]
    last: list[Stmt] = []
    for i, (v, t) in enumerate(zip(sums, totals, strict=True)):
        product = Binary("*", Load(a, as_index(row) * i + as_index(k), wide), Read(right), wide)
        step.append(Assign(v, Binary("+", Read(v), product, wide)))
        single = Binary("*", Load(a, as_index(row) * i + as_index(rest), one), Load(b, as_index(rest), one), one)
        last.append(Assign(t, Binary("+", Read(t), single, one)))
    whole = floor_divide(as_index(steps), as_index(lanes)) * lanes
    body: tuple[Stmt, ...] = (
        *(Let(v, Literal(0.0, wide), mutable=True) for v in sums),
        For(k, ZERO_INDEX, whole, tuple(step), lanes),
        *(Let(t, values.Across("+", Read(v)), mutable=True) for v, t in zip(sums, totals, strict=True)),
        For(rest, whole, as_index(steps), tuple(last)),
    )
    scale, finish, head = _finish(c, [(as_index(stride) * i, t) for i, t in enumerate(totals)], begun, by)
    body += finish
    comment = (f"c[i] (+)= {head}sum over k of a[i, k] * b[k] for i < {rows}",)
    name = f"dots_{dtype.name}_{rows}" + "_scaled" * bool(head)
    return Kernel(name, (a, b, *scale, c), free_variables(body), body, comment)


def _finish(
    c: Buffer, places: list[tuple[Index, Temp]], begun: Var, by: tuple[float, bool]
) -> tuple[tuple[Buffer, ...], tuple[Stmt, ...], str]:
    """The operand that scales the sum, the stores of sums, and the text of the factor."""
    (factor, scaled), one = by, Type(c.dtype)
    scale = Buffer("scale", c.dtype, (), "parameter", as_index(1), False)
    times = Temp("factor", one)
    number: Value = Literal(factor, one)
    if scaled:
        number = Binary("*", number, Load(scale, ZERO_INDEX, one), one) if factor != 1 else Load(scale, ZERO_INDEX, one)
    plain = factor == 1 and not scaled

    def value(t: Temp) -> Value:
        if plain:
            return Read(t)
        both: Value = Read(times) if t.type.lanes == 1 else Broadcast(Read(times), t.type)
        return Binary("*", both, Read(t), t.type)

    added, stored = ([Store(c, at, value(t), accumulate=more) for at, t in places] for more in (True, False))
    head = f"{factor:g} * " * (factor != 1) + "scale * " * scaled
    stores = either(cond(">=", as_index(begun) - 1), added, stored)
    return (scale,) * scaled, (*(() if plain else (Let(times, number),)), *stores), head


@dataclass(frozen=True)
class _Order:
    """The way a tile takes the steps of its sum.

    Attributes:
        place: the position of a step in panels.   address: its offset in A in place.
        loops: variables and trips, innermost first.
        taken: the list of steps, if any.   before, inside: what is read from it.
    """

    place: Index
    address: Index
    loops: tuple[tuple[Var, Index], ...]
    taken: tuple[Buffer, ...] = ()
    before: tuple[Stmt, ...] = ()
    inside: tuple[Stmt, ...] = ()


def _order(form: Form, steps: Var) -> _Order:
    k = Var("k", steps.extent)
    if isinstance(form, Listed):
        taken = Buffer("list", i64, (steps.extent,), "parameter", steps.extent, False)
        count, step = (loaded_index(name, steps.extent) for name in ("count", "step"))
        before, inside = (LetIndex(v, Load(taken, as_index(i), Type(i64))) for v, i in ((count, steps), (step, k)))
        return _Order(as_index(step), as_index(step), ((k, as_index(count)),), (taken,), (before,), (inside,))
    if not isinstance(form, Walk):
        return _Order(as_index(k), as_index(k), ((k, as_index(steps)),))
    pairs = [(Var(f"k{n}", 1 << 40), Var(f"steps{n}", 1 << 40)) for n in range(form.loops)]
    place = address = ZERO_INDEX
    for n, (v, trips) in reversed(list(enumerate(pairs))):
        whole = Var(f"whole{n}", trips.extent) if form.part else trips
        place = place * as_index(whole) + as_index(v)
        address = address + as_index(v) * as_index(Var(f"step{n}", 1 << 40))
    return _Order(place, address, tuple((v, as_index(trips)) for v, trips in pairs))
