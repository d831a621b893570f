"""Interleaved results: a build that reads by quotients and remainders, one period at a time.

    y = build i < 3 n { [i % 3 == 0] g[i // 3] + [(i + 2) % 3 == 0] x[i + 1] * g[i // 3] + .. }
    -->  for q < n: y[3 q] = g[q];  y[3 q + 1] = x[3 q + 2] * g[q];  y[3 q + 2] = ..

The adjoint of a rule that reads a few neighbors of each block is such a build. Within a period each remainder is a
number, which decides the conditions. One loop over periods, a group (`vectors/group.py`) with the remainder as an
unrolled axis, then has vectors and no tests. Elements after the last period take a plain loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var, as_index
from pullback.ir.traverse import Substitution
from pullback.loops.analysis.estimates import statement_cycles
from pullback.loops.analysis.joined import SMALL
from pullback.loops.plain.builder import KernelBuilder, Work, flat_position
from pullback.loops.plain.candidates import Candidate
from pullback.loops.plain.lower import bring_plain, element_loops, without_units
from pullback.loops.product.residues import Part, period
from pullback.loops.program.nodes import Kernel
from pullback.loops.vectors.fused import nest_cycles, nest_loops, nest_schedule
from pullback.loops.vectors.group import groups_of_all
from pullback.loops.vectors.nest import Nest
from pullback.machine import Machine


def periods(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for builds that repeat along an axis."""
    s = work.statement
    found = _periods(without_units(s)) if isinstance(s, ir.Build) else None
    if found is None:
        return
    whole, rest = found
    out, address = frozenset(whole.build.outs), whole.address(work)
    nests = (Nest.of_group(group, address, out) for group in groups_of_all([whole.build]))
    nest = next((n for n in nests if n is not None), None)
    if nest is None:
        return

    def build(builder: KernelBuilder) -> Kernel:
        assert isinstance(s, ir.Build)
        builder.take(nest.buffers.values())
        body = list(nest_loops(nest, machine, builder.rows()))
        for part in rest:
            body += element_loops(part.build, part.address(builder), builder)
        return bring_plain(s, body, builder, machine)

    cycles = nest_cycles(nest, machine) + sum(statement_cycles(part.build, machine) for part in rest)
    yield Candidate("interleaved", cycles, build, nest_schedule(nest, machine))


def _periods(s: ir.Build) -> tuple[Part, list[Part]] | None:
    """The build with an axis split into periods and places, and the remainder."""
    if any(v.extent.constant is None for v in s.vars):
        return None
    v, steps = next(((v, p) for v in reversed(s.vars) if 1 < (p := period(s, v)) <= SMALL), (None, 0))
    if v is None:
        return None
    trips, left = divmod(v.extent.constant or 0, steps)
    if trips < 2:
        return None
    number, place = Var(v.name, trips), Var(f"{v.name}_place", steps)
    whole = _with(s, v, (number, place), as_index(number) * steps + as_index(place))
    last = Var(v.name, left)
    return whole, [_with(s, v, (last,), as_index(last) + trips * steps)] if left else []


def _with(s: ir.Build, v: Var, variables: tuple[Var, ...], index: Index) -> Part:
    """The build with v replaced by an index of other variables."""
    m, at = Substitution(variables={v: index}), s.vars.index(v)
    made = replace(s, vars=(*s.vars[:at], *variables, *s.vars[at + 1 :]), values=tuple(map(m.scalar, s.values)))
    return Part(made, m.index(flat_position(s.vars)))
