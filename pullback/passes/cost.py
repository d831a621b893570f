"""What an expression costs, and what kind it is: the facts fusion and scheduling decide by."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.ir.expr import Add, Apply, Bracket, Get, Mul, Reduce, Scalar, Select
from pullback.ir.index import Cond, Data, Index, prove_nonnegative
from pullback.ir.traverse import indices_of, walk


def operations(e: Scalar) -> int:
    """Rough operations to evaluate e once, reductions not multiplied by their trips; loads count one."""
    total = 0
    for node in walk(e):
        match node:
            case Add() | Mul():
                total += len(node.args) - 1
            case Apply():
                total += node.primitive.cost
            case Get() | Select():
                total += 1
            case _:
                pass
    return total


def is_inside(e: Scalar, known: Sequence[Cond]) -> bool:
    """Whether conditions prove that an element is one of its array; true of anything else."""
    return not isinstance(e, Get) or all(
        prove_nonnegative(i, tuple(known)) and prove_nonnegative(d - 1 - i, tuple(known))
        for i, d in zip(e.indices, e.ref.shape, strict=True)
    )


def has_reduction(e: Scalar) -> bool:
    """Whether a reduction occurs."""
    return any(isinstance(n, Reduce) for n in walk(e))


def has_transcendental(e: Scalar) -> bool:
    """Whether exp, log, tanh and the like occur."""
    return any(isinstance(n, Apply) and n.primitive.transcendental for n in walk(e))


def has_guard(e: Scalar) -> bool:
    """Whether a bracket or a choice occurs."""
    return any(isinstance(n, Bracket | Select) for n in walk(e))


def has_data_index(e: Scalar) -> bool:
    """Whether an index depends on data."""
    return any(isinstance(a, Data) for n in walk(e) for i in indices_of(n) for a in i.every_atom)


def is_movement(e: Scalar) -> bool:
    """A single element of another array, affine: a transpose, slice or broadcast."""
    return isinstance(e, Get) and not has_data_index(e)


def size(extents: tuple[Index, ...]) -> int | None:
    """Number of elements, None while a dim is symbolic."""
    total = 1
    for d in extents:
        if d.constant is None:
            return None
        total *= d.constant
    return total
