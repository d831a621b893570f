"""Derivatives as traced functions: grad and value_and_grad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.calls.function import Function
from pullback.calls.mistakes import public
from pullback.calls.signature import Signature
from pullback.calls.traced import Traced
from pullback.derivatives import direction
from pullback.derivatives.derived import Derived, as_function
from pullback.derivatives.direction import Wrt
from pullback.errors import DerivativeError
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.source import Position, user_position
from pullback.tracing import tree
from pullback.tracing.array import shape_text
from pullback.tracing.tree import Structure


class Gradient(Derived):
    """The gradient of a function whose result is one floating-point number."""

    donates = True

    def __init__(
        self, base: Function, wrt: Wrt | None, has_aux: bool, with_value: bool, position: Position | None
    ) -> None:
        about = "{f} and its gradient with respect to {x}." if with_value else _GRAD
        super().__init__(base, "value_and_grad" if with_value else "grad", position, about, wrt)
        self.what = f"grad({base.name})"
        self.has_aux = has_aux
        self.with_value = with_value

    def _trace(self, signature: Signature) -> Traced:
        positions, wanted = self.sources(signature)
        base = self.base.traced(signature)
        known = base.known
        aux = self._auxiliary(base)
        # the vector-Jacobian product gives the outputs of the function, then the cotangents
        count = len(known.outputs)
        outputs, cotangents = range(count), range(count, count + len(positions))
        if self.with_value:
            places, structure = [*outputs, *cotangents], direction.pair(base.structure, wanted)
        elif self.has_aux:
            places, structure = [*cotangents, *outputs[1:]], direction.pair(wanted, aux)
        else:
            places, structure = [*cotangents], wanted
        bars = [ir.Ref(f"{known.inputs[k].name}_bar", known.inputs[k].dtype, known.inputs[k].shape) for k in positions]
        refs = [*known.outputs, *bars]
        names = [*direction.result_names(known), *(r.name for r in bars)]
        return self._in_outline(
            base,
            lambda program: _body(program, positions, places),
            [refs[k] for k in places],
            [names[k] for k in places],
            structure,
            (positions, places),
        )

    def _auxiliary(self, base: Traced) -> Structure:
        """The structure of the auxiliary results. The first result must be one floating-point number.

        Raises:
            DerivativeError: [E201] the result is not such a number, or not a pair of it and auxiliary results.
        """
        structure, aux, value = base.structure, tree.NONE, base.known.outputs[0]
        shape = shape_text(value.shape) if value.rank else ""
        if self.has_aux:
            if structure.kind != "tuple" or len(structure.children) != 2 or structure.children[0] != tree.LEAF:
                raise self._refused(f"{structure}, not a pair (value, aux)", "return `value, aux`", ", has_aux=True")
            aux = structure.children[1]
        elif structure != tree.LEAF:
            remedy = "`has_aux=True` for results besides the first"
            remedy = "`pb.real`, `pb.imag` or `pb.abs` of it" if structure.kind == "complex" else remedy
            raise self._refused(f"{structure}, and a gradient is that of one number", remedy)
        if value.rank or not value.dtype.is_floating:
            remedy = "reduce it, e.g. with `pb.sum`" if value.rank else "return a floating-point value"
            raise self._refused(f"{value.dtype}{shape}, and a gradient is that of one floating-point number", remedy)
        return aux

    def _refused(self, found: str, remedy: str, option: str = "") -> DerivativeError:
        what = f"grad({self.base.name}{option}): the result is {found}"
        return DerivativeError("E201", what, position=self.position, remedy=remedy)


_GRAD = "The gradient of {f} with respect to {x}, shaped like {x}."


def _body(program: ir.Program, positions: Sequence[int], places: Sequence[int]) -> ir.Block:
    """The results of the vector-Jacobian product at these positions, for cotangent 1 of the first result."""
    from pullback.ad.reverse import vjp

    made = vjp(program, positions)
    given = made.inputs[len(program.inputs) :]
    floating = [k for k, r in enumerate(program.outputs) if r.dtype.is_floating]
    seeds = {r: expr.const(1.0, r.dtype) if k == 0 else expr.zero(r.dtype) for k, r in zip(floating, given)}
    statements, results = direction.substituted(made, {}, seeds)
    return ir.Block(statements, tuple(results[k] for k in places))


def _gradient(f: Callable[..., Any], wrt: Wrt | None, has_aux: bool, with_value: bool) -> Function:
    base, wrt = as_function(f), direction.selection(wrt)
    key = ("grad", wrt, has_aux, with_value)
    return base.once(key, lambda: Gradient(base, wrt, has_aux, with_value, user_position()))


@public
def grad(f: Callable[..., Any], wrt: Wrt | None = None, has_aux: bool = False) -> Function:
    """The gradient of a function whose result is one number, as a traced function of the same arguments.

    Args:
        f: the function.
        wrt: name or position of the parameter to differentiate by, or a tuple or list of these; the first by default.
        has_aux: f gives `(value, aux)`; the result is then `(gradient, aux)`.
    Returns:
        A function whose result is shaped like the parameter: a tree for a tree, a tuple for several parameters.
    Raises:
        DerivativeError: [E201] the result of f is not one floating-point number. [E202] a parameter is not floating.
    Cost:
        A small multiple of that of f for any number of elements, and memory for the backward pass.

    >>> import numpy as np, pullback as pb
    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> @pb.function
    ... def energy(x: Float64[Array, "N"]):
    ...     return pb.sum_over(x.shape[0], lambda n: x[n] ** 2)
    >>> pb.grad(energy)(np.array([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    return _gradient(f, wrt, has_aux, False)


@public
def value_and_grad(f: Callable[..., Any], wrt: Wrt | None = None, has_aux: bool = False) -> Function:
    """Value and gradient of a function together: `(value, gradient)`, or `((value, aux), gradient)`.

    Args:
        f: the function; its result is one number, or `(value, aux)` with `has_aux`.
        wrt: name or position of the parameter to differentiate by, or a tuple or list of these; the first by default.
        has_aux: whether f gives auxiliary results.
    Raises:
        DerivativeError: [E201] the result of f is not one floating-point number. [E202] a parameter is not floating.
    Cost:
        The same as `grad`, which computes the value on its way.

    >>> energy = pb.function(lambda x: pb.sum(x * x))
    >>> value, gradient = pb.value_and_grad(energy)(np.array([1.0, 3.0]))
    >>> float(value), gradient.tolist()
    (10.0, [2.0, 6.0])
    """
    return _gradient(f, wrt, has_aux, True)
