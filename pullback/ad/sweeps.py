"""Jacobians by sweeps over all unit vectors at once, which are Kronecker deltas.

    forward    J[i.., k..] = jvp(x, e_k)[i..]        the tangent e_k[m..] = [k == m], batched over k
    reverse    J[i.., k..] = vjp(x, e_i)[k..]        the cotangent e_i[n..] = [i == n], batched over i

Both are the ordinary programs of `ad.forward` and `ad.reverse` under `rewrite.batch`; `rewrite.kronecker` then sums
the deltas away, so a structural zero of the Jacobian costs a comparison of indices and no arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pullback.ad.forward import jvp
from pullback.ad.linear import zeros
from pullback.ad.reverse import vjp
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Var, as_index, cond
from pullback.ir.traverse import instantiate
from pullback.rewrite.batch import batch


def sweep(program: ir.Program, wrt: int, mode: Literal["forward", "reverse"]) -> ir.Program:
    """The Jacobian of every floating output by one input, with deltas still in place.

    Args:
        program: any program.
        wrt: position of a floating input.
        mode: "forward" costs a sweep for each element of the input, "reverse" one for each element of the outputs.
    Returns:
        A program with the same inputs; one output for each floating output, shaped (*output, *input).
    """
    return _forward(program, wrt) if mode == "forward" else _reverse(program, wrt)


def _identity(r: ir.Ref, axes: Sequence[Var]) -> ir.Build:
    """e[k.., m..] = [k == m], the unit vectors of r's space."""
    lead = tuple(Var(v.name, v.extent) for v in axes)
    own = tuple(Var(f"m{k}", d) for k, d in enumerate(r.shape))
    out = ir.Ref(f"{r.name}_unit", r.dtype, (*(v.extent for v in lead), *r.shape))
    equal = [cond("==", as_index(a) - as_index(b)) for a, b in zip(lead, own, strict=True)]
    return ir.Build((out,), (*lead, *own), (expr.bracket(equal, expr.const(1, r.dtype)),))


def _axes(r: ir.Ref, letter: str) -> list[Var]:
    return [Var(f"{letter}{k}" if r.rank > 1 else letter, d) for k, d in enumerate(r.shape)]


def _forward(program: ir.Program, wrt: int) -> ir.Program:
    source = program.inputs[wrt]
    axes = _axes(source, "k")
    derived = jvp(program, [wrt])
    tangent = derived.inputs[-1]
    batched = batch(derived, [tangent], axes)
    unit = _identity(source, axes)
    inputs = dict(zip(batched.inputs, (*program.inputs, unit.outs[0]), strict=True))
    block = instantiate(batched, inputs)
    statements: list[ir.Statement] = [unit, *block.statements]
    results = []
    floating = [k for k, r in enumerate(program.outputs) if r.dtype.is_floating]
    for k, dot in zip(floating, block.results[len(program.outputs) :], strict=True):
        r = program.outputs[k]
        lead, own = _axes(source, "k"), tuple(Var(f"i{j}", d) for j, d in enumerate(r.shape))
        out = ir.Ref(f"{r.name}_jacobian", r.dtype, (*r.shape, *source.shape))
        statements.append(ir.Build((out,), (*own, *lead), (expr.get(dot, *lead, *own),)))
        results.append(out)
    return _program(program, statements, results)


def _reverse(program: ir.Program, wrt: int) -> ir.Program:
    derived = vjp(program, [wrt])
    seeds = derived.inputs[len(program.inputs) :]
    floating = [r for r in program.outputs if r.dtype.is_floating]
    statements: list[ir.Statement] = []
    results = []
    for r, seed in zip(floating, seeds, strict=True):
        axes = _axes(r, "i")
        batched = batch(derived, [seed], axes)
        unit = _identity(r, axes)
        statements.append(unit)
        given = list(program.inputs)
        for other in seeds:
            blank = unit if other is seed else zeros(other.name, other)
            if blank is not unit:
                statements.append(blank)
            given.append(blank.outs[0])
        block = instantiate(batched, dict(zip(batched.inputs, given, strict=True)))
        statements += block.statements
        results.append(block.results[-1])
    return _program(program, statements, results)


def _program(program: ir.Program, statements: list[ir.Statement], results: list[ir.Ref]) -> ir.Program:
    names = program.output_names or tuple(r.name for r in program.outputs)
    kept = tuple(f"{n}_jacobian" for n, r in zip(names, program.outputs, strict=True) if r.dtype.is_floating)
    body = ir.Block(tuple(statements), tuple(results))
    return replace(program, name=f"{program.name}_jacobian", body=body, output_names=kept)
