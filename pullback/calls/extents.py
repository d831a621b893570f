"""Dims of annotations: parsing, and the check that a call can determine them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from pullback.errors import PullbackError, ShapeError, TraceError
from pullback.ir.dims import linear_in
from pullback.ir.index import DimSymbol, Index, as_index, symbol

Token = str | Index


def parse_dim(token: Token, owner: str) -> Index:
    """A dim of an annotation: a name, a number, or + - * // % on these."""
    if isinstance(token, Index):
        return token
    try:
        return _dim(ast.parse(token, mode="eval").body)
    except (SyntaxError, ValueError):
        raise TraceError(
            "E107",
            f"{owner}: {token!r} is not a dim",
            remedy='a name, a number, or arithmetic on names without spaces, e.g. "N+1"',
        ) from None


def _dim(node: ast.expr) -> Index:
    match node:
        case ast.Name(id=name):
            return symbol(name)
        case ast.Constant(value=int(value)):
            return as_index(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_dim(operand)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _dim(left), _dim(right)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv():
                    return a // b
                case ast.Mod():
                    return a % b
    raise ValueError


def check_solvable(inputs: Sequence[tuple[str, tuple[Index, ...]]], sizes: Sequence[str]) -> PullbackError | None:
    """The error for dims that no call could determine; None if every dim follows from the shapes.

    Each size must follow from earlier ones, or be linear in one dim that it determines.
    """
    known = {DimSymbol(n) for n in sizes}
    pending = [(name, e) for name, extents in inputs for e in extents]
    while True:
        left = []
        for name, e in pending:
            unknown = [s for s in e.symbols if s not in known]
            if len(unknown) == 1 and linear_in(e, unknown[0]) is not None:
                known.add(unknown[0])
            elif unknown:
                left.append((name, e))
        if not left:
            return None
        if len(left) == len(pending):
            name, e = left[0]
            names = [s.name for s in e.symbols if s not in known]
            return ShapeError(
                "E106",
                f"{name}: the size {e} does not determine {' and '.join(names)}",
                facts=[f"{n} : {x}" for n, x in left[1:]],
                remedy=f"let an argument have {names[0]} as a size, or add a parameter "
                f'`{names[0].lower()}: pb.Size["{names[0]}"]`',
            )
        pending = left
