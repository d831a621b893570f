"""The operator class of a graph edge: a matrix map if its indices show one, else a gather.

T are the axes of the result, U the summed variables. The class depends on the source and the weight's variables:

    x[T]                          a number: a multiple of I     d(t0): Diagonal     else: Hadamard
    x[U], a result of rank 0      InnerProduct
    x[], of rank 0                Multiples
    x[u, t1]   w(t0, u)           LeftMultiply
    x[t0, u]   w(u, t1)           RightMultiply
    x[u, v]    a(t0, u) b(t1, v)  Kronecker
    x[U]       any                Dense
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.ad.algebra import stored
from pullback.ad.edges import Edge
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import Var
from pullback.operators.maps import (
    Diagonal,
    Hadamard,
    InnerProduct,
    Kronecker,
    LeftMultiply,
    Multiples,
    RightMultiply,
)
from pullback.operators.operator import I, Operator
from pullback.operators.tensors import Dense, Indexed
from pullback.rewrite.normal_form import peel_guards, under_guards

Numbers = Sequence[np.ndarray[Any, Any]]


class Wanted:
    """The arrays of operators: the statements that compute them, and their result positions."""

    def __init__(self) -> None:
        self.statements: list[ir.Statement] = []
        self.refs: list[ir.Ref] = []

    def array(self, value: ir.Scalar, variables: Sequence[Var]) -> Callable[[Numbers], np.ndarray[Any, Any]]:
        """Register a value over variables; return a function that selects its array from all wanted arrays."""
        element = stored("weight", value, variables, self.statements, every=True)
        self.refs += element.refs
        at = len(self.refs) - 1
        return lambda numbers: numbers[at]


def operator_of(e: Edge, wanted: Wanted) -> Callable[[Numbers], Operator]:
    """A function that makes an edge's operator from the wanted arrays."""
    rows = e.variables[: e.result.rank]
    summed = e.variables[e.result.rank :]
    source = tuple(
        i.single if isinstance(i.single, Var) and i.single.extent is d else None  # partial axes are gathered
        for i, d in zip(e.source, e.operand.shape, strict=True)
    )
    weight, free = e.weight, e.weight.free
    name = _name(weight) or f"{e.result.name}/{e.operand.name}"

    def mapped(kind: Callable[[Any, str], Operator], *variables: Var) -> Callable[[Numbers], Operator]:
        array = wanted.array(weight, variables)
        return lambda numbers: kind(array(numbers), name)

    if source == rows:
        if isinstance(weight, ir.Const):
            factor = float(weight.value)
            return lambda numbers: I if factor == 1.0 else factor * I
        if len(rows) == 2 and free <= {rows[0]}:
            return mapped(Diagonal, rows[0])
        return mapped(Hadamard, *rows)
    if not rows and source == summed:
        return mapped(InnerProduct, *summed)
    if not source and not summed:
        return mapped(Multiples, *rows)
    if len(summed) == 1 and len(rows) in (1, 2):
        if source == (*summed, *rows[1:]) and free <= {rows[0], *summed}:
            return mapped(LeftMultiply, rows[0], *summed)
        if len(rows) == 2 and source == (rows[0], *summed) and free <= {*summed, rows[1]}:
            return mapped(RightMultiply, *summed, rows[1])
    if len(rows) == 2 and source == summed and len(summed) == 2:
        factors = _partition(weight, {rows[0], summed[0]}, {rows[1], summed[1]})
        if factors is not None:
            left = wanted.array(factors[0], (rows[0], summed[0]))
            right = wanted.array(factors[1], (rows[1], summed[1]))
            names = (_name(factors[1]), _name(factors[0]))
            return lambda numbers: Kronecker(right(numbers), left(numbers), names)
    array = wanted.array(weight, e.variables)
    domain = tuple(d.constant or 0 for d in e.operand.shape)
    if source == summed:
        return lambda numbers: Dense(array(numbers), domain, name)
    guards, _ = peel_guards(weight)
    at = [wanted.array(under_guards(expr.from_index(i, types.i64), guards), e.variables) for i in e.source]
    rank = len(rows)
    return lambda numbers: Indexed(array(numbers), [a(numbers) for a in at], domain, rank, name)


def _name(weight: ir.Scalar) -> str:
    """The name of the array that is the weight, or the value of a constant weight; else empty."""
    refs = list(weight.refs)
    if isinstance(weight, ir.Const):
        return f"{weight.value:g}" if not isinstance(weight.value, bool) else ""
    return refs[0].name if len(refs) == 1 and isinstance(weight, expr.Get) else ""


def _partition(weight: ir.Scalar, one: set[Var], other: set[Var]) -> tuple[ir.Scalar, ir.Scalar] | None:
    """The weight as a product of a factor over one set of variables and a factor over another."""
    left: list[ir.Scalar] = []
    right: list[ir.Scalar] = []
    for factor in weight.args if isinstance(weight, ir.Mul) else (weight,):
        if factor.free <= one:
            left.append(factor)
        elif factor.free <= other:
            right.append(factor)
        else:
            return None
    number = expr.const(1, weight.dtype)
    return expr.mul(number, *left), expr.mul(number, *right)


__all__ = ["Wanted", "operator_of"]
