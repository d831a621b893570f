"""Jacobians and Hessians as traced functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Literal, get_args, overload

from pullback.calls.function import Function
from pullback.calls.mistakes import public
from pullback.calls.shown import made_of
from pullback.calls.signature import Signature
from pullback.calls.traced import Traced
from pullback.derivatives import direction
from pullback.derivatives.derivative import grad
from pullback.derivatives.derived import Derived, as_function
from pullback.derivatives.direction import Wrt, selection
from pullback.derivatives.sparse import SparseDerivative, sparse_hessian, sparse_jacobian
from pullback.errors import DerivativeError
from pullback.ir import nodes as ir
from pullback.ir.dims import evaluate
from pullback.ir.identity import digest
from pullback.source import Position, user_position
from pullback.tracing.tree import NONE

LONG = 400
"""The number of statements above which "auto" compares sweeps instead of operations."""

Mode = Literal["auto", "forward", "reverse", "mixed"]
MODES = get_args(Mode)


class Jacobian(Derived):
    """The derivatives of all results, with the axes of the result first."""

    def __init__(
        self, base: Function, wrt: Wrt | None, mode: Mode, position: Position | None, dims: dict[str, int] | None = None
    ) -> None:
        about = "The Jacobian of {f} with respect to {x}: axes of the result, then of {x}."
        super().__init__(base, "jacobian", position, about, wrt)
        self.mode = mode
        self.dims = dims or {}  # dims for comparing elimination orders

    def _trace(self, signature: Signature) -> Traced:
        if self.mode not in MODES:
            raise DerivativeError(
                "E221",
                f"{self.what}: mode={self.mode!r} is not available",
                position=self.position,
                remedy=", ".join(f'"{m}"' for m in MODES),
            )
        positions, wanted = self.sources(signature)
        base = self.base.traced(signature)
        known = base.known
        slots = direction.jacobian_slots(self.what, base.structure, known.outputs, wanted, self.position)
        floating = [k for k, s in enumerate(slots) if s.is_floating]

        def body(program: ir.Program) -> ir.Block:
            from pullback.ad.jacobian import jacobians
            from pullback.ir.traverse import instantiate

            statements: list[ir.Statement] = []
            columns: list[Sequence[ir.Ref]] = []
            count = len(floating)
            for made in jacobians(program, positions, self.mode, self.dims):
                block = instantiate(made, dict(zip(made.inputs, program.inputs, strict=True)))
                statements += block.statements
                columns += [block.results[at : at + count] for at in range(0, len(block.results), count)]
            return ir.Block(tuple(statements), tuple(r for row in zip(*columns, strict=True) for r in row))

        sources = [known.inputs[k] for k in positions]
        suffixes = ["jacobian"] if len(sources) == 1 else [f"by_{r.name}" for r in sources]
        outputs, names = [], []
        for k in floating:
            out, name = known.outputs[k], direction.result_names(known)[k]
            outputs += [ir.Ref(out.name, out.dtype, (*out.shape, *r.shape)) for r in sources]
            names += [f"{name}_{suffix}" for suffix in suffixes]
        structure = direction.with_leaves(base.structure, [wanted if s.is_floating else NONE for s in slots])
        return self._in_outline(base, body, outputs, names, structure, (positions, self.mode, *self.dims.items()))

    def _specialized(self, traced: Traced, dims: dict[str, int]) -> Traced:
        """The trace in the mode ("auto") or order ("mixed") with the fewest operations for these dims."""
        known = traced.known
        if self.mode not in ("auto", "mixed"):
            return traced
        signature = traced.signature
        if not isinstance(known, ir.Outline):
            return self._fastest(signature, traced, dims)
        identity = digest("fewest operations", known.identity, str(sorted(dims.items())))
        fastest = replace(known, identity=identity, make=lambda: self._fastest(signature, traced, dims).program)
        return replace(traced, known=fastest)

    def _fastest(self, signature: Signature, traced: Traced, dims: dict[str, int]) -> Traced:
        """The mode whose program takes the fewest operations for these dims."""
        from pullback.passes.operations import operation_count

        mixed = Jacobian(self.base, self.wrt, "mixed", self.position, dims)
        if self.mode == "mixed":
            return mixed.traced(signature)
        best, least = traced, operation_count(traced.program, dims)
        for mode in self._worth_trying(signature, dims):
            try:
                other = (mixed if mode == "mixed" else jacobian(self.base, self.wrt, mode)).traced(signature)
            except DerivativeError:  # a mode that cannot differentiate a loop
                continue
            count = operation_count(other.program, dims)
            if count < least:
                best, least = other, count
        return best

    def _worth_trying(self, signature: Signature, dims: dict[str, int]) -> tuple[Mode, ...]:
        """The modes to compare: only reverse for one row, only forward for one column."""
        program = self.base.traced(signature).program
        positions, _ = self.sources(signature)

        def elements(refs: Sequence[ir.Ref]) -> int:
            return sum(prod(evaluate(d, dims) for d in r.shape) for r in refs)

        rows = elements([r for r in program.outputs if r.dtype.is_floating])
        columns = elements([program.inputs[k] for k in positions])
        if rows == 1 or columns == 1 or len(program.body.statements) > LONG:
            return ("reverse",) if rows < columns else ("forward",)
        return ("forward", "reverse", "mixed") if len(program.body.statements) > 1 else ()


@overload
def jacobian(
    f: Callable[..., Any], wrt: Wrt | None = ..., mode: Mode = ..., sparse: Literal[False] = ...
) -> Function: ...


@overload
def jacobian(
    f: Callable[..., Any], wrt: Wrt | None = ..., mode: Mode = ..., *, sparse: Literal[True, "colored"]
) -> SparseDerivative: ...


@public
def jacobian(
    f: Callable[..., Any], wrt: Wrt | None = None, mode: Mode = "auto", sparse: bool | Literal["colored"] = False
) -> Function | SparseDerivative:
    """The Jacobian as a traced function of the same arguments; the axes of the result come first.

    Args:
        f: the function.
        wrt: name or position of the parameter to differentiate by, or a tuple or list of these; the first by default.
        mode: "forward" sweeps once for each element of the parameter, "reverse" once for each element of the result.
            All sweeps run together; those of structural zeros are skipped. "mixed" eliminates the intermediate arrays
            one by one, in a cheap order, and passes through loops by their edges. It pays off when the program has a
            bottleneck,
            or when parts of a loop's state are independent. "auto" picks the mode with the fewest operations for the
            dims of a call. For `.ir` and inside other functions, where dims are unknown, it is forward unless the
            result is smaller for all sizes.
        sparse: return each array as a `SparseMatrix` of the entries that the index structure allows. If loops hide the
            structure, or for "colored", the pattern is found at the call. One sweep then serves all columns (or rows)
            without common entries. The pattern is found again only when integers or shapes change, or if it depends on
            values.
    Returns:
        A function that returns, for each array of f's result, the derivative by each array of `wrt`. These are trees of
        `wrt` in the tree of the result, with None for arrays that are not floating-point.
    Raises:
        DerivativeError: [E202] a parameter is not floating. [E221] the mode is not available. [E222] no result is
            floating. [E225] results and parameters are complex. [E204] sparse, and a result depends on every element.
    Cost:
        Forward: as many `jvp` as the parameter has elements. Reverse: as many `vjp` as the result has. Sparse: the
        entries, or one sweep per color.

    >>> import numpy as np, pullback as pb
    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> @pb.function
    ... def polar(p: Float64[Array, "2"]):
    ...     return pb.stack([p[0] * pb.cos(p[1]), p[0] * pb.sin(p[1])])
    >>> pb.jacobian(polar)(np.array([2.0, 0.0])).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    >>> @pb.function
    ... def squares(x: Float64[Array, "N"]):
    ...     return x * x
    >>> entries = pb.jacobian(squares, sparse=True)(np.array([1.0, 2.0]))
    >>> entries.rows.tolist(), entries.columns.tolist(), entries.values.tolist()
    ([0, 1], [0, 1], [2.0, 4.0])
    """
    wrt = selection(wrt)
    if sparse:
        return sparse_jacobian(f, wrt, mode, sparse)
    base = as_function(f)
    return base.once(("jacobian", wrt, mode), lambda: Jacobian(base, wrt, mode, user_position()))


@overload
def hessian(f: Callable[..., Any], wrt: Wrt | None = ..., sparse: Literal[False] = ...) -> Function: ...


@overload
def hessian(f: Callable[..., Any], wrt: Wrt | None = ..., *, sparse: Literal[True, "colored"]) -> SparseDerivative: ...


@public
def hessian(
    f: Callable[..., Any], wrt: Wrt | None = None, sparse: bool | Literal["colored"] = False
) -> Function | SparseDerivative:
    """All second derivatives of a function whose result is one number: the Jacobian of its gradient.

    Args:
        f: the function.
        wrt: as in `grad`; the first parameter by default.
        sparse: return each array as a `SparseMatrix`, as in `jacobian`.
    Returns:
        A function that gives an array shaped (*parameter, *parameter); trees of `wrt` in a tree of `wrt`.
    Raises:
        DerivativeError: [E201] the result of f is not one floating-point number. [E202] a parameter is not floating.
            [E225] a parameter is complex. [E204] sparse, and a derivative depends on every element.
    Cost:
        As many `hvp` as the parameter has elements.

    >>> import numpy as np, pullback as pb
    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> @pb.function
    ... def energy(x: Float64[Array, "N"]):
    ...     return pb.sum(x) ** 2 + pb.sum(x**2)
    >>> pb.hessian(energy)(np.array([1.0, 2.0])).tolist()
    [[4.0, 2.0], [2.0, 4.0]]
    >>> @pb.function
    ... def string(x: Float64[Array, "N"]):
    ...     return pb.sum((x[1:] - x[:-1]) ** 2)
    >>> pb.hessian(string, sparse=True)(np.zeros(3)).to_dense().tolist()
    [[2.0, -2.0, 0.0], [-2.0, 4.0, -2.0], [0.0, -2.0, 2.0]]
    """
    wrt = selection(wrt)
    if sparse:
        return sparse_hessian(f, wrt, sparse)
    base = as_function(f)

    def make() -> Function:
        made = Jacobian(grad(base, wrt), wrt, "forward", user_position())
        about = "The Hessian of {f} with respect to {x}: second derivatives, dense."
        made_of(made, base, f"{base.name}_hessian", about, wrt)
        made.what = f"hessian({base.name})"
        return made

    return base.once(("hessian", wrt), make)


@public
def jacfwd(f: Callable[..., Any], wrt: Wrt | None = None) -> Function:
    """`jacobian` in forward mode.

    >>> @pb.function
    ... def squares(x):
    ...     return x * x
    >>> pb.jacfwd(squares)(np.array([1.0, 3.0])).tolist()
    [[2.0, 0.0], [0.0, 6.0]]
    """
    return jacobian(f, wrt, "forward")


@public
def jacrev(f: Callable[..., Any], wrt: Wrt | None = None) -> Function:
    """`jacobian` in reverse mode.

    >>> @pb.function
    ... def squares(x):
    ...     return x * x
    >>> pb.jacrev(squares)(np.array([1.0, 3.0])).tolist()
    [[2.0, 0.0], [0.0, 6.0]]
    """
    return jacobian(f, wrt, "reverse")
