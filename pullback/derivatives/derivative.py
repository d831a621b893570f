"""grad and value_and_grad: derivatives as traced functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.calls.function import Function, function
from pullback.calls.mistakes import public
from pullback.calls.shown import ShownSignature, made_of
from pullback.calls.signature import Parameter, Signature
from pullback.calls.traced import Traced, derived
from pullback.derivatives.direction import Wrt, chosen, pair, selection, substituted, tuple_of, unique
from pullback.errors import DerivativeError
from pullback.ir import expr
from pullback.ir.expr import Ref
from pullback.ir.program import Block, Program
from pullback.source import Position, user_position
from pullback.tracing import tree
from pullback.tracing.array import shape_text
from pullback.tracing.tree import Structure


class Gradient(Function):
    """The gradient of a function whose result is one floating-point number."""

    is_derivative = True
    __signature__ = ShownSignature()

    def __init__(
        self, base: Function, wrt: Wrt | None, has_aux: bool, with_value: bool, position: Position | None
    ) -> None:
        super().__init__(base.python)
        self.base = base
        if with_value:
            made_of(self, base, f"{base.name}_value_and_grad", "{f} and its gradient with respect to {x}.", wrt)
        else:
            made_of(self, base, f"{base.name}_grad", "The gradient of {f} with respect to {x}, shaped like {x}.", wrt)
        self.wrt = wrt
        self.has_aux = has_aux
        self.with_value = with_value
        self.position = position

    def _find_parameters(self) -> list[Parameter]:
        return self.base.parameters

    def _trace(self, signature: Signature) -> Traced:
        parameters, several = chosen(f"grad({self.base.name})", self.base, self.wrt, self.position)
        positions, structures = self._sources(signature, parameters)
        base = self.base.traced(signature)
        known = base.known
        value, aux = self._value(base)
        wanted = tuple_of(structures) if several else structures[0]
        # the vector-Jacobian product gives the outputs of the function, then the cotangents
        count = len(known.outputs)
        outputs, cotangents = range(count), range(count, count + len(positions))
        if self.with_value:
            places, structure = [*outputs, *cotangents], pair(base.structure, wanted)
        elif self.has_aux:
            places, structure = [*cotangents, *(k for k in outputs if k != value)], pair(wanted, aux)
        else:
            places, structure = [*cotangents], wanted
        sources = [known.inputs[k] for k in positions]
        refs = [*known.outputs, *(Ref(f"{r.name}_bar", r.dtype, r.shape) for r in sources)]
        names = [*(known.output_names or [r.name for r in known.outputs]), *(f"{r.name}_bar" for r in sources)]
        return derived(
            base,
            self.name,
            lambda program: _body(program, positions, value, places),
            ("gradient", positions, value, places),
            known.inputs,
            [refs[k] for k in places],
            unique([names[k] for k in places]),
            structure,
        )

    def _sources(self, signature: Signature, chosen: Sequence[int]) -> tuple[list[int], list[Structure]]:
        """Positions of the inputs to differentiate by; integers are refused."""
        starts, at = [], 0
        for group in signature.leaves:
            starts.append(at)
            at += sum(leaf.is_input for leaf in group)
        positions, structures = [], []
        for k in chosen:
            for offset, leaf in enumerate(signature.leaves[k]):
                if leaf.dtype is None or not leaf.dtype.computed.is_floating:
                    kind = leaf.kind if leaf.dtype is None else str(leaf.dtype)
                    raise DerivativeError(
                        "E202",
                        f"grad({self.base.name}): {leaf.path} is {kind}, and only floating-point "
                        "values have a derivative",
                        position=self.position,
                        remedy="choose other parameters with `wrt=`, or convert the argument",
                    )
                positions.append(starts[k] + offset)
            structures.append(signature.structures[k])
        return positions, structures

    def _value(self, base: Traced) -> tuple[int, Structure]:
        """Which output is differentiated, and the structure of the auxiliary results."""
        name = self.base.name
        structure, aux = base.structure, tree.NONE
        if self.has_aux:
            if structure.kind != "tuple" or len(structure.children) != 2 or structure.children[0] != tree.LEAF:
                raise DerivativeError(
                    "E201",
                    f"grad({name}, has_aux=True): the result is {structure}, not a pair (value, aux)",
                    position=self.position,
                    remedy="return `value, aux`",
                )
            aux = structure.children[1]
        elif structure != tree.LEAF:
            raise DerivativeError(
                "E201",
                f"grad({name}): the result is {structure}, and a gradient is that of one number",
                position=self.position,
                remedy="`has_aux=True` for results besides the first",
            )
        out = base.program.outputs[0]
        if out.rank or not out.dtype.is_floating:
            shape = shape_text(out.shape) if out.rank else ""
            raise DerivativeError(
                "E201",
                f"grad({name}): the result is {out.dtype}{shape}, and a gradient is that of one floating-point number",
                position=self.position,
                remedy="reduce it, e.g. with `pb.sum`" if out.rank else "return a floating-point value",
            )
        return 0, aux


def _body(program: Program, positions: Sequence[int], value: int, places: Sequence[int]) -> Block:
    """The results at these places among those of the vector-Jacobian product, for a cotangent of 1 of the value."""
    from pullback.ad.reverse import vjp

    made = vjp(program, positions)
    given = made.inputs[len(program.inputs) :]
    floating = [k for k, r in enumerate(program.outputs) if r.dtype.is_floating]
    seeds = {r: expr.const(1.0, r.dtype) if k == value else expr.zero(r.dtype) for k, r in zip(floating, given)}
    statements, results = substituted(made, {}, seeds)
    return Block(statements, tuple(results[k] for k in places))


def _as_function(f: Callable[..., Any]) -> Function:
    return f if isinstance(f, Function) else function(f)


def _gradient(f: Callable[..., Any], wrt: Wrt | None, has_aux: bool, with_value: bool) -> Function:
    base, wrt = _as_function(f), selection(wrt)
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
        A small multiple of that of f, however many elements the parameter has, and memory for what is read backwards.

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
        That of `grad`, which computes the value on its way.

    >>> energy = pb.function(lambda x: pb.sum(x * x))
    >>> value, gradient = pb.value_and_grad(energy)(np.array([1.0, 3.0]))
    >>> float(value), gradient.tolist()
    (10.0, [2.0, 6.0])
    """
    return _gradient(f, wrt, has_aux, True)
