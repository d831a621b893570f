"""The reference interpreter of programs, in NumPy; every other backend is compared with it.

Semantics: integers wrap, `//` and `%` floor and give 0 on division by zero, NaN passes through max and min, argmax
takes the first, an empty sum is 0 and an empty max an error. Sums are NumPy's pairwise sums in the array's own dtype.
An exact program adds one term after another, the last variable fastest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import assert_never

import numpy as np

from pullback.errors import DTypeError, IndexRangeError, ShapeError
from pullback.ir import dims as dims_
from pullback.ir import nodes as ir
from pullback.ir.grid import Grid, Guards, Machine, NDArray, plan_of
from pullback.ir.halves import from_half, to_half
from pullback.ir.program import walk_statements
from pullback.single_flight import deep_recursion


def interpret(program: ir.Program, inputs: Sequence[NDArray], sizes: Mapping[str, int] | None = None, *,
              float64: bool = False, contracts: bool = False) -> list[NDArray]:
    """Run a program.

    Args:
        program: a program that passes `verify`.
        inputs: one array per input, of its dtype.
        sizes: the dims in `program.sizes`.
        float64: compute all f32 values in f64, as an oracle for rounding errors; the results are then f64.
        contracts: compute sums of products by matrix products, for speed (`contracting.py`); the last bits differ.
    Returns:
        The outputs, in order, as arrays of their own.
    Raises:
        ShapeError: shapes do not fit the program, or an extreme is taken over nothing.
        DTypeError: an input has another dtype.
        IndexRangeError: an index checked at run time leaves its range, or an input its declared bounds.
    """
    with entered(program, inputs, sizes, float64=float64, contracts=contracts) as machine:
        run_block(machine, program.body)
    return [stored(machine.arrays[r], r) for r in program.outputs]


def stored(a: NDArray, ref: ir.Ref) -> NDArray:
    """A result as a fresh array of its storage type."""
    if not ref.storage.is_half:
        return np.array(a)
    bits = np.array(a) if ref.dtype.is_half else to_half(a, ref.storage)
    return bits.view(ref.storage.numpy)


@contextmanager
def entered(program: ir.Program, inputs: Sequence[NDArray], sizes: Mapping[str, int] | None = None, *,
            float64: bool = False, contracts: bool = False) -> Iterator[Machine]:
    """A machine with a program's checked inputs, for running its statements."""
    arrays = [np.ascontiguousarray(a).reshape(np.shape(a)) for a in inputs]
    dims = dims_.solve_dims(program, [a.shape for a in arrays], sizes)
    empty = 0 in dims.values() or any(a.size == 0 for a in arrays)
    machine = Machine(dims, float64, empty, program.settings.exact, contracts)
    for ref, a in zip(program.inputs, arrays, strict=True):
        if a.dtype != ref.storage.numpy:
            raise DTypeError("E122", f"{program.name}: {ref.name} is {ref.storage}, got an array of {a.dtype}",
                             remedy=f"`.astype(\"{ref.storage.numpy}\")`")
        _check_bounds(program, machine, ref, a)
        if ref.storage.is_half:
            a = a.view(np.uint16)
            a = a if ref.dtype.is_half else from_half(a, ref.storage)
        machine.arrays[ref] = a.astype(machine.dtype(ref.dtype).numpy, copy=False)
    height = max((_height(machine, s) for s in walk_statements(program.body)), default=0)
    with np.errstate(all="ignore"), deep_recursion(1000 + 6 * height):  # calls of Python functions take no C stack
        yield machine


def _height(machine: Machine, statement: ir.Statement) -> int:
    if not isinstance(statement, ir.Elementwise):
        return 0
    return plan_of(statement, machine.empty).height


def _check_bounds(program: ir.Program, machine: Machine, ref: ir.Ref, a: NDArray) -> None:
    if ref.bounds is None or a.size == 0:
        return
    low, high = (dims_.evaluate(b, machine.dims) for b in ref.bounds)
    bad = (a < low) | (a >= high)
    if bad.any():
        where = np.unravel_index(int(np.argmax(bad)), a.shape)
        place = ", ".join(str(int(i)) for i in where)
        raise IndexRangeError("E402", f"{program.name}: {ref.name}[{place}] = {a[where]} is outside {low} … {high - 1}",
                              facts=(f"{ref.name} is declared in range({ref.bounds[0]}, {ref.bounds[1]})",))


def run_block(machine: Machine, block: ir.Block) -> list[NDArray]:
    """Run the statements of a block; returns its results."""
    for s in block.statements:
        run_statement(machine, s)
    return [machine.arrays[r] for r in block.results]


def run_statement(machine: Machine, s: ir.Statement) -> None:
    """Run one statement: define its outs in the machine."""
    try:
        _run(machine, s)
    except IndexRangeError as error:
        if not machine.empty:
            raise
        machine.arrays.put_off(s.outs, error)
    if machine.watch is not None:
        machine.watch(machine, s)


def _run(machine: Machine, s: ir.Statement) -> None:
    match s:
        case ir.Build():
            _build(machine, s)
        case ir.Scatter():
            _scatter(machine, s)
        case ir.Sort():
            _sort(machine, s)
        case ir.Fold():
            _fold(machine, s)
        case ir.While():
            states = [machine.arrays[r] for r in s.inits]
            trips = None if s.max_trips is None else machine.extent(s.max_trips, f"the trips of {s.outs[0].name}")
            done = 0
            while trips is None or done < trips:
                machine.arrays.update(zip(s.states, states, strict=True))
                if not run_block(machine, s.test)[0]:
                    break
                states = run_block(machine, s.body)
                done += 1
            machine.arrays.update(zip(s.outs, states, strict=True))
        case ir.Choose():
            taken = s.then if machine.arrays[s.test] else s.otherwise
            machine.arrays.update(zip(s.outs, run_block(machine, taken), strict=True))
        case ir.Call():
            machine.arrays.update((p, machine.arrays[r]) for p, r in zip(s.params, s.operands, strict=True))
            machine.arrays.update(zip(s.outs, run_block(machine, s.body), strict=True))
        case ir.External():
            _external(machine, s)
        case _:
            assert_never(s)


def _external(machine: Machine, s: ir.External) -> None:
    taken = zip(s.operands, s.foreign.inputs, strict=True)
    given = [np.ascontiguousarray(machine.arrays[r], t.numpy) for r, t in taken]
    shapes = [[machine.extent(d, f"axis {k} of {r.name}") for k, d in enumerate(r.shape)] for r in s.outs]
    made = [np.empty(shape, t.numpy) for shape, t in zip(shapes, s.foreign.outputs, strict=True)]
    s.foreign.run(given, made, [machine.extent(d, f"a size of {s.foreign.name}") for d in s.sizes])
    for r, a in zip(s.outs, made, strict=True):
        machine.arrays[r] = a.astype(machine.dtype(r.dtype).numpy, copy=False)


def _grid(machine: Machine, s: ir.Elementwise, what: str) -> Grid:
    if not machine.contracts:
        return Grid(machine, s, what)
    from pullback.ir.contracting import ContractingGrid

    return ContractingGrid(machine, s, what)


def _build(machine: Machine, s: ir.Build) -> None:
    grid = _grid(machine, s, s.outs[0].name)
    outs = [np.empty(grid.lengths, machine.dtype(r.dtype).numpy) for r in s.outs]
    for block in grid.blocks():
        for out, value in zip(outs, s.values, strict=True):
            out[block] = grid.shaped(grid.scalar(value, ()))
    machine.arrays.update(zip(s.outs, outs, strict=True))


def _sort(machine: Machine, s: ir.Sort) -> None:
    grid = _grid(machine, s, s.out.name)
    values = np.empty(grid.lengths, machine.dtype(s.value.dtype).numpy)
    for block in grid.blocks():
        values[block] = grid.shaped(grid.scalar(s.value, ()))
    order = np.argsort(values, axis=-1, kind="stable")
    machine.arrays[s.out] = order if s.what == "positions" else np.take_along_axis(values, order, -1)


def _scatter(machine: Machine, s: ir.Scatter) -> None:
    grid = _grid(machine, s, s.out.name)
    shape = tuple(machine.extent(d, f"axis {k} of {s.out.name}") for k, d in enumerate(s.out.shape))
    out = np.zeros(shape, machine.dtype(s.out.dtype).numpy)
    guards = _guards(s.value)
    if guards is None:
        machine.arrays[s.out] = out
        return
    for block in grid.blocks():
        lengths = tuple(b.stop - b.start for b in block)

        def whole(a: object, lengths: tuple[int, ...] = lengths) -> NDArray:
            return np.broadcast_to(grid.shaped(np.asarray(a)), lengths)

        mask = whole(grid.mask(guards))
        value = whole(grid.scalar(s.value, ()))[mask]
        targets = [whole(grid.index(i, guards))[mask] for i in s.indices]
        for i, t, extent in zip(s.indices, targets, shape, strict=True):
            outside = t[(t < 0) | (t >= extent)]
            if outside.size:
                raise IndexRangeError("E401", f"{s.out.name}: the index {i} = {outside[0]} is outside 0 … {extent - 1}",
                                      position=s.positions[0] if s.positions else None,
                                      facts=(f"statement {s.out.name}", f"index {outside[0]}", f"size {extent}"))
        if targets:
            np.add.at(out, tuple(targets), value)
        else:
            np.add.at(out, (), value.ravel()) if machine.in_order else np.add(out, value.sum(dtype=out.dtype), out)
    machine.arrays[s.out] = out


def _guards(value: ir.Scalar) -> Guards | None:
    """The conditions for a value: its outermost brackets and selects; None if there are none."""
    guards: Guards = ()
    while True:
        if isinstance(value, ir.Bracket):
            guards += tuple((c, True) for c in value.conds)
            value = value.arg
        elif isinstance(value, ir.Select) and isinstance(value.otherwise, ir.Zero):
            guards += ((value.test, True),)
            value = value.then
        else:
            return None if isinstance(value, ir.Zero) else guards


def _fold(machine: Machine, s: ir.Fold) -> None:
    trips = machine.extent(s.var.extent, f"the trips of {s.outs[0].name}")
    states = [machine.arrays[r] for r in s.inits]
    rows: list[list[NDArray]] = [[] for _ in s.outs[len(states):]]
    for t in range(trips):
        machine.loops[s.var] = t
        machine.arrays.update(zip(s.states, states, strict=True))
        results = run_block(machine, s.body)
        states = results[:len(states)]
        for row, value in zip(rows, results[len(states):], strict=True):
            row.append(value)
    machine.loops.pop(s.var, None)
    machine.arrays.update(zip(s.outs, states, strict=False))
    for ref, row in zip(s.outs[len(states):], rows, strict=True):
        shape = tuple(machine.extent(d, f"axis {k} of {ref.name}") for k, d in enumerate(ref.shape))
        stacked = np.stack(row) if row else np.empty(shape, machine.dtype(ref.dtype).numpy)
        if stacked.shape != shape:
            raise ShapeError("E111", f"{ref.name} has shape {list(shape)}, its rows make {list(stacked.shape)}")
        machine.arrays[ref] = stacked
