"""The steps of a derivation. Each holds the pass's own objects and is printed later.

    Given           a direction from the caller
    Separated       a statement, and its statements in normal form               y <- t; ...
    Local           a local derivative                                           d y[..] / d x[i'..]
    Transposed      the product of a cotangent with it                           z_y . dy/dx
    Solved          the same with one delta fewer
    Scattered       the same where no delta could be solved
    Accumulated     a cotangent, from all readers of its array                   z_x = sum of z_y . dy/dx
    Tangent         a tangent, from all operands of its array
    Looped          a statement with blocks, before its blocks are differentiated
    Seeded          a derivative with known cotangents of the results: 1 for a gradient
    Rewritten       a whole program before and after a pass

`rewrite.fired` records them, `derivation` prints them.
"""

from __future__ import annotations

from collections.abc import Mapping

from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var
from pullback.records import dataclass


@dataclass(frozen=True, eq=False)
class Given:
    """The cotangent of a result, or the tangent of an argument, that the caller gives."""

    direction: ir.Ref
    array: str
    is_tangent: bool = False


@dataclass(frozen=True, eq=False)
class Separated:
    """A statement that was not in normal form, and the statements it became."""

    statement: ir.Statement
    into: tuple[ir.Statement, ...]


@dataclass(frozen=True, eq=False)
class Local:
    """A statement with its local derivatives, and the statements that these need."""

    statement: ir.Statement
    derivatives: tuple[LocalDerivative, ...]
    needs: tuple[ir.Statement, ...] = ()


@dataclass(frozen=True, eq=False)
class LocalDerivative:
    """The derivative `d result / d operand[i'..]`: the weight under deltas [i'.. = source], summed."""

    result: ir.Ref
    operand: ir.Ref
    source: tuple[Index, ...]
    weight: ir.Scalar


@dataclass(frozen=True, eq=False)
class Transposed:
    """The part of the operand's cotangent at `variables` contributed by one local derivative.

    `summed` are the statement's variables and those it sums over.
    """

    result: ir.Ref
    operand: ir.Ref
    variables: tuple[Var, ...]
    summed: tuple[Var, ...]
    value: ir.Scalar


@dataclass(frozen=True, eq=False)
class Solved:
    """A sum over deltas after one more rule was applied."""

    value: ir.Scalar


@dataclass(frozen=True, eq=False)
class Scattered:
    """An unsolvable sum over deltas, as a scatter."""

    statement: ir.Statement


@dataclass(frozen=True, eq=False)
class Accumulated:
    """The cotangent of an array, complete."""

    array: ir.Ref
    cotangent: ir.Ref
    variables: tuple[Var, ...]
    value: ir.Scalar


@dataclass(frozen=True, eq=False)
class Tangent:
    """The tangent of an array, from those of its statement's operands."""

    array: ir.Ref
    tangent: ir.Ref
    statement: ir.Statement


@dataclass(frozen=True, eq=False)
class Looped:
    """A statement with blocks; the next steps differentiate the blocks."""

    statement: ir.Statement


@dataclass(frozen=True, eq=False)
class Seeded:
    """A derivative with directions inserted: constant values, and renamed arrays."""

    seeds: tuple[tuple[ir.Ref, ir.Scalar], ...]
    renamed: Mapping[ir.Ref, ir.Ref]
    before: ir.Block
    after: ir.Block


@dataclass(frozen=True, eq=False)
class Rewritten:
    """A program before and after a pass."""

    name: str
    before: ir.Program
    after: ir.Program


Reached = Local | Transposed | Solved | Scattered | Accumulated | Tangent  # by a step inside a sweep
Formula = Given | Separated | Reached | Looped | Seeded | Rewritten
