"""Reverse mode: back substitution in the triangular system of a program's linear maps.

Statements in order make the operator matrix L strictly lower triangular; the cotangents solve (I - L)^T x = g. They are
found from the last statement to the first. Each cotangent is the sum of contributions of transposed maps (backslash,
eq. 1; DeepDSL's z_j). The result is a program again: it nests, prints and compiles like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from pullback.ad.cotangents import Cotangents, element_of
from pullback.ad.linear import active_in
from pullback.ad.loops import while_as_fold
from pullback.ad.maps import linear_map
from pullback.ir import nodes as ir
from pullback.ir import types
from pullback.rewrite.cse import eliminate_common, eliminate_dead
from pullback.rewrite.fired import in_steps, step
from pullback.rewrite.kronecker import solve_deltas
from pullback.rewrite.normal_form import normalize
from pullback.rewrite.steps import Given


def vjp(program: ir.Program, wrt: Sequence[int]) -> ir.Program:
    """The program together with its vector-Jacobian product.

    Args:
        program: any program; it is brought to normal form first.
        wrt: positions of floating inputs.
    Returns:
        A program with inputs `program.inputs` and one cotangent for each floating output, in order; its outputs
        are those of `program`, then the cotangent of each input of `wrt`, shaped like that input.
    Raises:
        DerivativeError: [E203] a while loop without `max_trips` lies on the path from `wrt` to an output.
    """
    return _swept(program, wrt, None)[0]


def guarded_vjp(
    program: ir.Program, wrt: Sequence[int], guarded: Collection[int]
) -> tuple[ir.Program, dict[int, bool]]:
    """The vjp with structural zeros of cotangents, for the blocks of loops and conds.

    Args:
        guarded: positions of floating outputs whose cotangent is zero where a bool array, a further input, is False.
    Returns:
        The program, whose inputs for `guarded` follow those for cotangents, in the order of the outputs. And, for
        each position in `wrt` whose cotangent may be structurally zero: True if a further output says where it is
        nonzero, False if it is zero everywhere.
    """
    return _swept(program, wrt, guarded)


def _swept(
    program: ir.Program, wrt: Sequence[int], guarded: Collection[int] | None
) -> tuple[ir.Program, dict[int, bool]]:
    """The program of `vjp`, from a walk backward over the statements, and the zeros if `guarded` is given."""
    primal = eliminate_common(normalize(solve_deltas(program)))
    sources = [primal.inputs[k] for k in wrt]
    p = primal.with_body(_bounded_loops(primal.body, active_in(primal.body, set(sources))))
    active = active_in(p.body, set(sources))
    cotangents = Cotangents(p.body, sources, active, vjp, guarded_vjp)
    seeds = _seeded(p, cotangents, guarded or ())
    place: dict[ir.Statement, tuple[ir.Statement, ...]] = {}
    for s in reversed(p.body.statements):
        if any(o in cotangents.pending for o in s.outs):
            place[s] = linear_map(s, active).transpose(cotangents)
    results = [cotangents.of(r) or cotangents.zeros(r) for r in sources]
    guards = [] if guarded is None else [cotangents.guards.get(r) for r in results]
    told = {k: bool(g.ways) for k, g in enumerate(guards) if g is not None}
    said = [cotangents.where(results[k]) for k, somewhere in told.items() if somewhere]
    forward = [t for s in p.body.statements for t in place.get(s, (s,))]
    names = (*_names(p), *(f"{r.name}_bar" for r in sources), *(r.name for r in said))
    body = ir.Block((*forward, *cotangents.backward), (*p.outputs, *results, *said))
    made = replace(p, name=f"{p.name}_vjp", inputs=(*p.inputs, *seeds), body=body, output_names=names)
    return in_steps(made, normalize, eliminate_common, eliminate_dead), told


def _seeded(p: ir.Program, cotangents: Cotangents, guarded: Collection[int]) -> list[ir.Ref]:
    """The inputs for cotangents of floating outputs, then those for where they are nonzero."""
    seeds: list[ir.Ref] = []
    wheres: list[ir.Ref] = []
    for k, (name, r) in enumerate(zip(_names(p), p.outputs, strict=True)):
        if r.dtype.is_floating:
            seed = ir.Ref(f"{name}_bar", r.dtype, r.shape)
            seeds.append(seed)
            step(lambda seed=seed, name=name: Given(seed, name))  # type: ignore[misc]
            where = ir.Ref(f"{name}_bar_where", types.bool_, r.shape) if k in guarded else None
            wheres += () if where is None else (where,)
            if r in cotangents.active:
                cotangents.give(r, seed, None if where is None else element_of(where))
    return [*seeds, *wheres]


def _names(p: ir.Program) -> tuple[str, ...]:
    return p.output_names or tuple(r.name for r in p.outputs)


def _bounded_loops(block: ir.Block, active: set[ir.Ref]) -> ir.Block:
    """Write bounded while loops on the path as folds."""
    statements: list[ir.Statement] = []
    for s in block.statements:
        on_path = isinstance(s, ir.While) and s.max_trips is not None and any(o in active for o in s.outs)
        statements += while_as_fold(s) if on_path else (s,)  # type: ignore[arg-type]
    return replace(block, statements=tuple(statements))
