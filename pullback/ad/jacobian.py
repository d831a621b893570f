"""Jacobians in every mode: by sweeps over all unit vectors (`ad.sweeps`), or by elimination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from pullback.ad.eliminate import eliminate
from pullback.ad.sweeps import sweep
from pullback.ir import nodes as ir
from pullback.ir.index import Index, as_index, prove_nonnegative
from pullback.rewrite.cse import eliminate_common, eliminate_dead
from pullback.rewrite.fired import in_steps
from pullback.rewrite.kronecker import eliminate_deltas
from pullback.rewrite.normal_form import normalize

Mode = Literal["auto", "forward", "reverse", "mixed"]
MODES = ("auto", "forward", "reverse", "mixed")


def jacobian(program: ir.Program, wrt: int, mode: Mode = "auto") -> ir.Program:
    """The Jacobian of every floating output with respect to one input.

    Args:
        program: any program.
        wrt: position of a floating input.
        mode: "forward" costs a sweep for each element of the input, "reverse" one for each element of the outputs;
            "mixed" eliminates the cheapest array next; "auto" takes forward unless the outputs are certainly smaller.
    Returns:
        A program with the same inputs; one output for each floating output, shaped (*output, *input).
    """
    return eliminate_dead(eliminate_common(normalize(eliminate_dead(elaborated(program, wrt, mode)))))


def jacobians(
    program: ir.Program, wrt: Sequence[int], mode: Mode = "auto", dims: Mapping[str, int] | None = None
) -> list[ir.Program]:
    """The Jacobians by several inputs, as programs; the outputs are grouped by input.

    Elimination takes all inputs at once, because their paths share later parts; sweeps are one program for each input.
    """
    return [eliminate(program, wrt, dims=dims)] if mode == "mixed" else [jacobian(program, k, mode) for k in wrt]


def elaborated(program: ir.Program, wrt: int, mode: Mode = "auto", sums: bool = False) -> ir.Program:
    """The Jacobian with its deltas unsolved, from which `ad.sparse` reads the pattern."""
    if mode == "auto":
        mode = _cheaper(program, wrt)
    made = eliminate(program, [wrt]) if mode == "mixed" else sweep(program, wrt, mode)
    return in_steps(made, partial(eliminate_deltas, sums=sums))


def _cheaper(program: ir.Program, wrt: int) -> Literal["forward", "reverse"]:
    """The mode with fewer sweeps, if symbolic sizes decide; else forward mode."""
    rows = as_index(0)
    for r in program.outputs:
        if r.dtype.is_floating:
            rows = rows + _size(r.shape)
    columns = _size(program.inputs[wrt].shape)
    return "reverse" if rows is not columns and prove_nonnegative(columns - rows) else "forward"


def _size(shape: Sequence[Index]) -> Index:
    total = as_index(1)
    for d in shape:
        total = total * d
    return total
