"""Evaluation of dims, and solving for a program's dims from the shapes of its arguments.

Codes: E110 rank, E111 sizes that disagree, E112 no whole number solves a size, E113 negative size,
E114 a requirement of the program fails, E115 a dim that nothing determines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from pullback.errors import ShapeError
from pullback.ir import nodes as ir
from pullback.ir.index import Cond, DimSymbol, Floor, Index, Mod, as_index, prove_nonnegative, symbol
from pullback.ir.intern import intern
from pullback.ir.program import scalars_of, walk_statements
from pullback.ir.traverse import walk


def evaluate(dim: Index, dims: Mapping[str, int]) -> int:
    """The value of a dim where every symbol in it is known; division by zero gives 0.

    Raises:
        KeyError: a symbol is not in `dims`.
    """
    total = 0
    for monomial, coefficient in dim.terms:
        term = coefficient
        for atom in monomial:
            match atom:
                case DimSymbol():
                    term *= dims[atom.name]
                case Floor() | Mod():
                    n, d = evaluate(atom.numerator, dims), evaluate(atom.denominator, dims)
                    term *= 0 if d == 0 else n // d if isinstance(atom, Floor) else n % d
                case _:
                    raise TypeError(f"{dim} is not a dim: {atom} is known only when the program runs")
        total += term
    return total


def holds(condition: Cond, dims: Mapping[str, int]) -> bool:
    """Whether a condition on dims holds for these values."""
    value = evaluate(condition.index, dims)
    return {">=": value >= 0, "==": value == 0, "!=": value != 0}[condition.op]


def solve_dims(program: ir.Known, shapes: Sequence[tuple[int, ...]], sizes: Mapping[str, int] | None = None
               ) -> dict[str, int]:
    """Solve the dims of a call: each argument size is an equation, linear in one dim.

    Args:
        program: its inputs give the equations, its `sizes` the dims that no shape binds, `requires` the conditions.
        shapes: the arguments' shapes, in order.
        sizes: values for `program.sizes`.
    Returns:
        Every dim symbol of the inputs and sizes, with its value.
    Raises:
        ShapeError: ranks or sizes disagree, or a requirement fails (checked where every dim is at least 1).
    """
    dims = {name: int(value) for name, value in (sizes or {}).items()}
    for name in program.sizes:
        if name not in dims:
            raise ShapeError("E115", f"{program.name}: the size {name} is not given", remedy=f"pass {name}=…")
    for name, value in dims.items():
        if value < 0:
            raise ShapeError("E113", f"{program.name}: the size {name} = {value} is negative")
    if len(shapes) != len(program.inputs):
        raise ShapeError("E110", f"{program.name} takes {len(program.inputs)} arrays, got {len(shapes)}")
    sources = dict.fromkeys(dims, "its argument")
    pending: list[tuple[ir.Ref, int, int]] = []
    for ref, shape in zip(program.inputs, shapes, strict=True):
        if len(shape) != ref.rank:
            what = f"{program.name}: {ref.name} has rank {ref.rank}, got an array of rank {len(shape)}"
            raise ShapeError("E110", what, facts=(f"declared {_shape(ref)}", f"got {list(shape)}"))
        pending.extend((ref, axis, int(extent)) for axis, extent in enumerate(shape))
    while pending:
        left = [p for p in pending if not _solve_one(program, *p, dims, sources)]
        if len(left) == len(pending):
            ref, axis, extent = left[0]
            what = f"{ref.shape[axis]} = {extent} (axis {axis} of {ref.name}) does not determine its dims"
            raise ShapeError("E115", f"{program.name}: {what}", facts=_known(dims))
        pending = left
    check_requirements(program, dims)
    check_bytes(program, dims)
    return dims


LARGEST = (1 << 63) - 1  # the largest index and number of bytes


def check_bytes(program: ir.Known, dims: Mapping[str, int]) -> None:
    """Raise ShapeError where an array of the program has more bytes than a 64-bit integer counts.

    All index arithmetic in range then stays below that. Arrays with unknown dims pass.
    """
    for name, value in dims.items():
        if value > LARGEST:
            raise ShapeError("E116", f"{program.name}: {name} = {value} is no 64-bit integer", remedy="a smaller size")
    seen: set[tuple[int | Index, ...]] = set()
    statements = walk_statements(program.body) if isinstance(program, ir.Program) else ()
    made = (o for s in statements for o in s.outs)
    for r in (*program.inputs, *made):
        if (r.dtype.size, *r.shape) in seen or any(a.name not in dims for d in r.shape for a in d.symbols):
            continue
        seen.add((r.dtype.size, *r.shape))
        count = prod(evaluate(d, dims) for d in r.shape)
        if count * r.dtype.size > LARGEST:
            raise ShapeError(
                "E116", f"{program.name}: {r.name} would have {count:,} elements, more than memory has addresses",
                facts=(f"{r.name} : {_shape(r)}", *_known(dims)), remedy="smaller sizes")


def check_requirements(program: ir.Known, dims: Mapping[str, int]) -> None:
    """Raise ShapeError where `requires` fails, as far as the dims are known.

    Skipped if a size is 0: the program then makes no such assumption.
    """
    if any(value < 1 for value in dims.values()):
        return
    for c in program.requires:
        if all(s.name in dims for s in c.index.symbols) and not holds(c, dims):
            facts = _known({s.name: dims[s.name] for s in c.index.symbols})
            raise ShapeError("E114", f"{program.name} requires {c}", facts=facts)


def determined_dims(program: ir.Known) -> dict[str, None]:
    """The dims that shapes and sizes of a call determine, in solving order."""
    known = dict.fromkeys(program.sizes)
    pending = [entry for r in program.inputs for entry in r.shape]
    while pending:
        left = []
        for entry in pending:
            unknown = [s for s in entry.symbols if s.name not in known]
            if len(unknown) == 1 and linear_in(entry, unknown[0]) is not None:
                known[unknown[0].name] = None
            elif unknown:
                left.append(entry)
        if len(left) == len(pending):
            break
        pending = left
    return known


def linear_in(entry: Index, symbol: DimSymbol) -> tuple[Index, Index] | None:
    """The pair (factor, rest) with entry = factor * symbol + rest, free of the symbol; None if impossible."""
    factor = entry.coefficient(symbol)
    if factor is None or symbol in factor.symbols:
        return None
    rest = entry - factor * as_index(symbol)
    return None if symbol in rest.symbols else (factor, rest)


def _solve_one(program: ir.Known, ref: ir.Ref, axis: int, extent: int, dims: dict[str, int],
               sources: dict[str, str]) -> bool:
    """Use one equation `shape entry = extent`; False if it still has several unknowns."""
    entry = ref.shape[axis]
    unknown = [s for s in entry.symbols if s.name not in dims]
    here = f"axis {axis} of {ref.name}"
    if not unknown:
        expected = evaluate(entry, dims)
        if expected != extent:
            facts = [f"{s.name} = {dims[s.name]} from {sources[s.name]}" for s in entry.symbols]
            contrast = f"but {entry} = {expected}" if entry.constant is None else f"not {expected}"
            raise ShapeError("E111", f"{program.name}: {here} has size {extent}, {contrast}", facts=facts,
                             remedy="pass arrays whose sizes agree, or give different dims different names")
        return True
    if len(unknown) > 1:
        return False
    symbol = unknown[0]
    form = linear_in(entry, symbol)
    if form is None:
        return False
    factor, rest = form
    slope, target = evaluate(factor, dims), extent - evaluate(rest, dims)
    if slope == 0 or target % slope:
        raise ShapeError("E112", f"{program.name}: {here} has size {extent}, and no whole {symbol.name} gives "
                                 f"{entry} = {extent}", facts=_known(dims),
                         remedy=f"pass an array that has size {entry} there for some {symbol.name}")
    value = target // slope
    if value < 0:
        what = f"{program.name}: {here} has size {extent}, which makes {symbol.name} = {value} negative"
        raise ShapeError("E113", what, facts=(f"{entry} = {extent}", *_known(dims)))
    dims[symbol.name] = value
    sources[symbol.name] = here
    return True


def _known(dims: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(f"{name} = {value}" for name, value in dims.items())


def _shape(ref: ir.Ref) -> str:
    return f"{ref.dtype}[{', '.join(map(str, ref.shape))}]"


def has_empty_extent(program: ir.Program, dims: Mapping[str, int]) -> bool:
    """Whether some loop of the program is empty for these dims.

    Proofs take every size to be at least one. For empty loops the interpreter defines the result: empty sums are 0,
    and an empty maximum or an index into an empty array is an error.
    """
    return any(evaluate(d, dims) < 1 for d in extents_of(program))


def extents_of(program: ir.Program) -> dict[Index, None]:
    """The sizes of the inputs and of all loops, in order."""
    extents = {d: None for r in program.inputs for d in r.shape}
    for s in walk_statements(program.body):
        match s:
            case ir.Build() | ir.Scatter() | ir.Sort():
                extents |= dict.fromkeys(v.extent for v in s.vars)
                for value in scalars_of(s):
                    extents |= dict.fromkeys(v.extent for n in walk(value) if isinstance(n, ir.Reduce) for v in n.vars)
            case ir.Fold():
                extents[s.var.extent] = None
            case ir.External():
                extents |= dict.fromkeys((*s.sizes, *(d for r in s.outs for d in r.shape)))
            case _:
                pass
    return extents


def needed_conditions(program: ir.Program) -> tuple[Cond, ...]:
    """The assumptions of open-size code: dims and sizes of at least 1, and the program's requirements."""
    dims = tuple(intern(Cond, ">=", symbol(name) - 1) for name in determined_dims(program))
    known = (*dims, *program.requires)
    extents = [d - 1 for d in extents_of(program) if d.constant is None]
    derived = tuple(intern(Cond, ">=", d) for d in extents if not prove_nonnegative(d, known))
    return tuple(dict.fromkeys((*known, *derived)))
