"""Sparse derivatives for callers: the entries compiled, the matrices assembled from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pullback.api import direction
from pullback.api.derivative import grad
from pullback.api.direction import Wrt
from pullback.api.function import Function
from pullback.api.modes import Derived, as_function, made_once
from pullback.api.signature import Signature
from pullback.api.traced import Traced
from pullback.ir import expr, types
from pullback.ir.expr import Ref
from pullback.ir.index import as_index
from pullback.ir.program import Block, Build, Statement
from pullback.ir.traverse import instantiate
from pullback.lang import tree
from pullback.lang.tree import LEAF, NONE, Structure
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

    def summed(self) -> SparseMatrix:
        """The same matrix with one entry for each position, in row-major order.

        >>> import numpy as np
        >>> twice = SparseMatrix(np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 0]), (2, 1))
        >>> twice.summed().values.tolist()
        [3.0]
        """
        places, entry = np.unique(self.rows * max(self.shape[1], 1) + self.columns, return_inverse=True)
        values = np.zeros(len(places), self.values.dtype)
        np.add.at(values, entry, self.values)
        return SparseMatrix(values, places // max(self.shape[1], 1), places % max(self.shape[1], 1), self.shape)

    def to_csr(self) -> tuple[NDArray, NDArray, NDArray]:
        """Compressed rows, one entry for each position: values, columns, and the rows' first entries and their end."""
        once = self.summed()
        starts = np.zeros(self.shape[0] + 1, np.int64)
        np.cumsum(np.bincount(once.rows, minlength=self.shape[0]), out=starts[1:])
        return once.values, once.columns, starts

    def to_scipy(self) -> Any:
        """The matrix as `scipy.sparse.csr_array`; ImportError without SciPy (extra `[sparse]`)."""
        return import_module("scipy.sparse").csr_array(self.to_csr(), shape=self.shape)


class _Entries(NamedTuple):
    """The entries of one matrix: its terms, each values, rows, columns, inside, and the matrix's extents."""

    height: Any
    width: Any
    terms: tuple[tuple[NDArray, NDArray, NDArray, NDArray], ...]

    def matrix(self) -> SparseMatrix:
        """The matrix of the entries that are inside."""
        kept = [[np.asarray(part)[np.asarray(inside)] for part in term] for *term, inside in self.terms]
        values, rows, columns = (np.concatenate([term[k] for term in kept]) for k in range(3))
        return SparseMatrix(values, rows, columns, (int(self.height), int(self.width)))


def _structure(terms: int) -> Structure:
    term = direction.tuple_of([LEAF] * 4)
    parts = (LEAF, LEAF, direction.tuple_of([term] * terms))
    return Structure("namedtuple", _Entries, _Entries._fields, parts)


def _matrices(x: Any) -> Any:
    """The tree with a matrix in the place of its entries."""
    if isinstance(x, _Entries):
        return x.matrix()
    node = tree.open_node(x)
    assert node is not None, "a derivative is a tree of entries"
    structure, children = node
    if structure.kind == "none":
        return None
    return tree.unflatten(replace(structure, children=(LEAF,) * len(children)), [_matrices(c) for c in children])


class Entries(Derived):
    """The entries of sparse derivatives as a traced function: for each result and parameter the terms."""

    def __init__(self, base: Function, wrt: Wrt | None, mode: Mode, name: str, position: Position | None) -> None:
        super().__init__(base, name, position)
        self.wrt = wrt
        self.mode = mode

    def _trace(self, signature: Signature) -> Traced:
        from pullback.ad.sparse import sparse_jacobian

        parameters, several = direction.chosen(self.what, self.base, self.wrt, self.position)
        positions, wanted = direction.sources(self.what, signature, parameters, several, self.position)
        base = self.base.traced(signature)
        program = base.program
        slots = direction.result_slots(base.structure, program.outputs, "the result")
        direction.some_floating(self.what, slots, self.position)
        sparse = sparse_jacobian(program, positions, self.mode)
        block = instantiate(sparse.program, dict(zip(sparse.program.inputs, program.inputs, strict=True)))
        statements = list(block.statements)
        entries, matrices = iter(block.results), []
        results: list[Ref] = []
        floating = [r for r in program.outputs if r.dtype.is_floating]
        for row, r in enumerate(floating):
            for k in positions:
                terms = sparse.terms.count((row, k))
                results += [_count("height", r, statements), _count("width", program.inputs[k], statements)]
                results += [next(entries) for _ in range(4 * terms)]
                matrices.append(_structure(terms))
        rest = iter(matrices)
        leaves = [
            direction.with_leaves(wanted, [next(rest) for _ in positions]) if s.is_floating else NONE for s in slots
        ]
        body = Block(tuple(statements), tuple(results))
        structure = direction.with_leaves(base.structure, leaves)
        return self._result(base, (), body, structure, (), [r.name for r in results])


def _count(name: str, r: Ref, statements: list[Statement]) -> Ref:
    """The number of elements of an array, as an array of rank 0."""
    total = as_index(1)
    for d in r.shape:
        total = total * d
    statements.append(Build((Ref(name, types.i64, ()),), (), (expr.from_index(total, types.i64),)))
    return statements[-1].outs[0]


class SparseDerivative:
    """`f(*args)` gives matrices; `entries` is the traced function behind it, with `.ir` and `.c_source`."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """The matrices at these arguments: for one result and one parameter a matrix, else trees of them."""
        return _matrices(self.entries(*args, **keywords))


def sparse_jacobian(f: Callable[..., Any], wrt: Wrt | None, mode: Any) -> SparseDerivative:
    """The sparse Jacobian, for `pb.jacobian(..., sparse=True)`."""
    base = as_function(f)
    made = made_once(
        base, ("sparse_jacobian", wrt, mode), lambda: Entries(base, wrt, mode, "jacobian", user_position())
    )
    assert isinstance(made, Entries)
    return SparseDerivative(made)


def sparse_hessian(f: Callable[..., Any], wrt: Wrt | None) -> SparseDerivative:
    """The sparse Hessian, for `pb.hessian(..., sparse=True)`: the sparse Jacobian of the gradient."""
    base = as_function(f)

    def make() -> Function:
        made = Entries(grad(base, wrt), wrt, "auto", "jacobian", user_position())
        made.name, made.what = f"{base.name}_hessian", f"hessian({base.name})"
        return made

    made = made_once(base, ("sparse_hessian", wrt), make)
    assert isinstance(made, Entries)
    return SparseDerivative(made)
