"""Sparse derivatives: compiled entries, assembled to matrices at the call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from pullback.calls.carried import Recipe, reduced
from pullback.calls.function import Function
from pullback.calls.shown import ShownSignature, function_html, made_of
from pullback.calls.signature import Parameter, Signature
from pullback.calls.traced import Traced
from pullback.calls.typetext import TypeText, arrow
from pullback.derivatives import direction
from pullback.derivatives.colored import Colored
from pullback.derivatives.derivative import grad
from pullback.derivatives.derived import Derived, as_function
from pullback.derivatives.direction import Wrt
from pullback.derivatives.sparse_matrix import SparseMatrix
from pullback.errors import DerivativeError
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import Index, as_index
from pullback.ir.traverse import instantiate
from pullback.notebook import Displayed
from pullback.source import Position, user_position
from pullback.tracing import tree
from pullback.tracing.public import presented
from pullback.tracing.tree import LEAF, Structure

if TYPE_CHECKING:
    from pullback.ad.jacobian import Mode

NDArray = np.ndarray[Any, Any]
How = Literal[True, "colored"]


class _Entries(NamedTuple):
    """The entries of one matrix: terms (values, rows, columns, inside), and the matrix's sizes."""

    height: Any
    width: Any
    terms: tuple[tuple[NDArray, NDArray, NDArray, NDArray], ...]

    def matrix(self) -> SparseMatrix:
        """Assemble the matrix from the entries that are inside."""
        kept = [[np.asarray(part)[np.asarray(inside)] for part in term] for *term, inside in self.terms]
        values, rows, columns = (np.concatenate([term[k] for term in kept]) for k in range(3))
        return SparseMatrix(values, rows, columns, (int(self.height), int(self.width)))


def _structure(terms: int) -> Structure:
    term = direction.tuple_of([LEAF] * 4)
    parts = (LEAF, LEAF, direction.tuple_of([term] * terms))
    return Structure("namedtuple", _Entries, _Entries._fields, parts)


def entries_of(x: Any) -> Iterator[_Entries]:
    """The matrices in the result of `Entries`, in order."""
    if isinstance(x, _Entries):
        yield x
        return
    node = tree.open_node(x)
    for child in () if node is None else node[1]:
        yield from entries_of(child)


def _matrices(x: Any) -> Any:
    """Replace the entries in a tree by matrices."""
    if isinstance(x, _Entries):
        return x.matrix()
    node = tree.open_node(x)
    assert node is not None, "a derivative is a tree of entries"
    structure, children = node
    if structure.kind == "none":
        return None
    return tree.unflatten(replace(structure, children=(LEAF,) * len(children)), [_matrices(c) for c in children])


class Entries(Derived):
    """The entries of sparse derivatives as a traced function: the terms for each result and parameter."""

    def __init__(self, base: Function, wrt: Wrt | None, mode: Mode, name: str, position: Position | None) -> None:
        super().__init__(base, name, position, "The entries of a sparse derivative of {f} with respect to {x}.", wrt)
        self.mode = mode

    def _trace(self, signature: Signature) -> Traced:
        from pullback.ad.sparse import sparse_jacobian

        positions, wanted = self.sources(signature)
        base = self.base.traced(signature)
        program = base.program
        slots = direction.jacobian_slots(self.what, base.structure, program.outputs, wanted, self.position)
        sparse = sparse_jacobian(program, positions, self.mode)
        block = instantiate(sparse.program, dict(zip(sparse.program.inputs, program.inputs, strict=True)))
        statements = list(block.statements)
        entries, matrices = iter(block.results), []
        results: list[ir.Ref] = []
        floating = [r for r in program.outputs if r.dtype.is_floating]
        for row, r in enumerate(floating):
            for k in positions:
                terms = sparse.terms.count((row, k))
                results += [_count("height", r, statements), _count("width", program.inputs[k], statements)]
                results += [next(entries) for _ in range(4 * terms)]
                matrices.append(_structure(terms))
        body = ir.Block(tuple(statements), tuple(results))
        structure = direction.with_pairs(base.structure, slots, wanted, matrices)
        return self._result(base, (), body, structure, (), [r.name for r in results])


def _elements(r: ir.Ref) -> Index:
    """The number of elements of an array."""
    return prod(r.shape, start=as_index(1))


def _count(name: str, r: ir.Ref, statements: list[ir.Statement]) -> ir.Ref:
    """The number of elements of an array, as an array of rank 0."""
    statements.append(ir.Build((ir.Ref(name, types.i64, ()),), (), (expr.from_index(_elements(r), types.i64),)))
    return statements[-1].outs[0]


class SparseDerivative(Displayed):
    """A function `f(*args)` that returns sparse matrices; `entries` is its traced function, with `.ir`.

    If loops hide the index structure, or on request, the pattern is found at the call. The entries then come from
    sweeps for groups of columns or rows; see `derivatives.colored`.
    """

    is_derivative = True
    made_by: Recipe | None = None
    __signature__ = ShownSignature()
    name: str

    def __init__(self, entries: Entries, colors: Colored) -> None:
        self.entries = entries
        self.colors = colors
        self.by_colors = False
        self.python = entries.python

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters of the function."""
        return self.entries.parameters

    def __repr__(self) -> str:
        return f"<sparse derivative {self.name}{self.type}>"

    def _repr_html_(self) -> str:
        return function_html(self)

    @presented
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Return the matrices: one matrix for one result and one parameter, otherwise trees."""
        if not self.by_colors:
            try:
                return _matrices(self.entries(*args, **keywords))
            except DerivativeError as error:
                if error.code != "E204" or not _has_loops(self.entries.base.program(*args, **keywords)):
                    raise
                self.by_colors = True
        return self.colors(args, keywords)

    def derivation(self, *args: Any, **keywords: Any) -> Any:
        """The derivation of the entries, as for other derivatives."""
        return self.entries.derivation(*args, **keywords)

    def __reduce__(self) -> Any:
        return reduced(self, self.made_by, (SparseDerivative, (self.entries, self.colors), {}))

    def __deepcopy__(self, memo: Any) -> SparseDerivative:
        return self

    @property
    def type(self) -> TypeText:
        """The type with its dims: `(x: f64[N]) -> sparse f64[N, N]`, with the numbers of elements."""
        of = self.entries
        base = of.base.determined()
        positions, wanted = of.sources(base.signature)
        slots = direction.result_slots(base.structure, base.known.outputs, "the result")
        columns = [_elements(base.known.inputs[k]) for k in positions]
        floating = [r for r in base.known.outputs if r.dtype.is_floating]
        leaves = [f"sparse {r.dtype}[{_elements(r)}, {width}]" for r in floating for width in columns]
        structure = direction.with_pairs(base.structure, slots, wanted, [LEAF] * len(leaves))
        return arrow(of.base.parameters, base.signature, base, structure, leaves)


def _has_loops(program: ir.Program) -> bool:
    return any(not isinstance(s, ir.Elementwise) for s in program.body.statements)


def sparse_jacobian(f: Callable[..., Any], wrt: Wrt | None, mode: Any, how: How) -> SparseDerivative:
    """The sparse Jacobian, for `pb.jacobian(..., sparse=True)`."""
    base = as_function(f)
    return _once(base, ("jacobian", wrt, mode, how), how, lambda: (base, f"jacobian({base.name})", mode, False))


def sparse_hessian(f: Callable[..., Any], wrt: Wrt | None, how: How) -> SparseDerivative:
    """The sparse Hessian, for `pb.hessian(..., sparse=True)`: the sparse Jacobian of the gradient."""
    base = as_function(f)
    return _once(
        base, ("hessian", wrt, "auto", how), how, lambda: (grad(base, wrt), f"hessian({base.name})", "auto", True)
    )


def _once(base: Function, key: tuple[Any, ...], how: How, make: Callable[[], Any]) -> SparseDerivative:
    def both() -> SparseDerivative:
        of, what, mode, symmetric = make()
        position = user_position()
        entries = Entries(of, key[1], mode, key[0], position)
        name = f"{base.name}_{key[0]}"
        entries.name, entries.what = name, what
        found = SparseDerivative(entries, Colored(of, key[1], mode, what, symmetric, position))
        found.by_colors = how == "colored"
        about = f"The {key[0].capitalize()} of {{f}} with respect to {{x}} as a sparse matrix."
        made_of(found, base, name, about, key[1])
        return found

    return base.once(("sparse", *key), both)
