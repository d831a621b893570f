"""Sparse Jacobians for callers: the entries compiled, the matrix assembled from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.api import direction
from pullback.api.direction import Wrt
from pullback.api.modes import Derived, as_function, made_once
from pullback.api.signature import Signature
from pullback.api.traced import Traced
from pullback.errors import DerivativeError
from pullback.ir import expr, types
from pullback.ir.expr import Ref
from pullback.ir.index import as_index
from pullback.ir.program import Block, Build, Statement
from pullback.ir.traverse import instantiate
from pullback.lang.tree import LEAF, Structure
from pullback.source import Position, user_position

if TYPE_CHECKING:
    from pullback.ad.jacobian import Mode

NDArray = np.ndarray[Any, Any]


@dataclass(frozen=True)
class SparseMatrix:
    """A matrix by its entries: values[k] at (rows[k], columns[k]); equal positions add up.

    Attributes:
        values: floating, one for each entry.   rows, columns: int64, row-major positions in the result and in the
            parameter.   shape: elements of the result, elements of the parameter.
    """

    values: NDArray
    rows: NDArray
    columns: NDArray
    shape: tuple[int, int]

    def to_dense(self) -> NDArray:
        """The matrix as an array."""
        out = np.zeros(self.shape, self.values.dtype)
        np.add.at(out, (self.rows, self.columns), self.values)
        return out

    def to_scipy(self) -> Any:
        """The matrix as `scipy.sparse.csr_array`; ImportError without SciPy (extra `[sparse]`)."""
        return (
            import_module("scipy.sparse").coo_array((self.values, (self.rows, self.columns)), shape=self.shape).tocsr()
        )


class Entries(Derived):
    """The entries of a sparse Jacobian as a traced function: for each term values, rows, columns, inside."""

    def __init__(self, base: Any, wrt: Wrt | None, mode: Mode, position: Position | None) -> None:
        super().__init__(base, "sparse_jacobian", position)
        self.wrt = wrt
        self.mode = mode

    def _trace(self, signature: Signature) -> Traced:
        from pullback.ad.sparse import sparse_jacobian

        parameters, several = direction.chosen(self.what, self.base, self.wrt, self.position)
        positions, _ = direction.sources(self.what, signature, parameters, several, self.position)
        base = self.base.traced(signature)
        program = base.program
        if len(positions) != 1 or len(program.outputs) != 1:
            raise DerivativeError(
                "E225",
                f"{self.what}: {len(program.outputs)} results by {len(positions)} arrays, and a sparse Jacobian is "
                "that of one array by one",
                position=self.position,
                remedy="one call for each pair",
            )
        (at,) = positions
        sparse = sparse_jacobian(program, at, self.mode)
        derived = sparse.program
        block = instantiate(derived, dict(zip(derived.inputs, program.inputs, strict=True)))
        statements = list(block.statements)
        counts = [_count(n, r, statements) for n, r in (("height", program.outputs[0]), ("width", program.inputs[at]))]
        body = Block(tuple(statements), (*block.results, *counts))
        four = Structure("tuple", None, tuple(range(4)), (LEAF,) * 4)
        parts = (four,) * len(sparse.terms) + (LEAF, LEAF)
        structure = Structure("tuple", None, tuple(range(len(parts))), parts)
        return self._result(base, (), body, structure, (), (*derived.output_names, "height", "width"))


def _count(name: str, r: Ref, statements: list[Statement]) -> Ref:
    """The number of elements of an array, as an array of rank 0."""
    total = as_index(1)
    for d in r.shape:
        total = total * d
    statements.append(Build((Ref(name, types.i64, ()),), (), (expr.from_index(total, types.i64),)))
    return statements[-1].outs[0]


class SparseJacobian:
    """`f(*args) -> SparseMatrix`; `entries` is the traced function behind it, with `.ir` and `.c_source`."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries

    def __call__(self, *args: Any, **keywords: Any) -> SparseMatrix:
        """The matrix at these arguments."""
        *terms, height, width = self.entries(*args, **keywords)
        kept = [[part[inside] for part in (values, rows, columns)] for values, rows, columns, inside in terms]
        values, rows, columns = (np.concatenate([np.ravel(row[k]) for row in kept]) for k in range(3))
        return SparseMatrix(values, rows, columns, (int(height), int(width)))


def sparse_jacobian(f: Callable[..., Any], wrt: Wrt | None, mode: Any) -> SparseJacobian:
    """The sparse Jacobian of a function of arrays, for `pb.jacobian(..., sparse=True)`."""
    base = as_function(f)
    entries = made_once(base, ("sparse_jacobian", wrt, mode), lambda: Entries(base, wrt, mode, user_position()))
    assert isinstance(entries, Entries)
    return SparseJacobian(entries)
