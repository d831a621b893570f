"""Derivative products as traced functions, jvp, vjp and hvp; and stop_gradient.

Each is a `Function`: it nests, prints, compiles, and may be called inside another traced function. `direction` has the
common parts: all arguments as one tuple, and checked trees of tangents or cotangents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pullback.arrays.elementwise import elementwise
from pullback.calls.arguments import MISSING, Leaf
from pullback.calls.function import Function
from pullback.calls.mistakes import public
from pullback.calls.signature import Parameter, Signature, signature_of
from pullback.calls.traced import Traced
from pullback.derivatives import direction
from pullback.derivatives.derivative import grad
from pullback.derivatives.derived import Derived, as_function
from pullback.derivatives.direction import ArgumentsSpec, DirectionSpec, Slot, Wrt, selection
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.source import Position, user_position
from pullback.tracing import tree
from pullback.tracing.array import Array, twin
from pullback.tracing.making import as_array
from pullback.tracing.tree import NONE, Structure

_JVP = "{f}, and its derivative at `primals`, all arguments as a tuple, in the direction `tangents`."


class JacobianVector(Derived):
    """`(primals, tangents) -> (out, tangent)`."""

    def _find_parameters(self) -> list[Parameter]:
        return [
            Parameter("primals", ArgumentsSpec(self.base)),
            Parameter("tangents", DirectionSpec(self._expected)),
        ]

    def _expected(self) -> tuple[Structure, list[Slot]]:
        structure, leaves, _ = ArgumentsSpec(self.base).leaves(MISSING, "primals")
        return structure, direction.argument_slots(leaves)

    def _trace(self, signature: Signature) -> Traced:
        (arguments, given), (leaves, tangents) = signature.structures, signature.leaves
        slots = direction.argument_slots(leaves)
        missing = len(arguments.children) - len(given.children)
        if given.kind == "tuple" and missing > 0:  # for arguments with default values
            given = direction.tuple_of([*given.children, *[NONE] * missing])
        matched = direction.match(self.what, arguments, slots, given, tangents, "tangents")
        base = self.base.traced(direction.split(arguments, leaves))
        known = base.known
        at = _inputs(leaves)
        positions = [at[k] for k in matched]
        extra, first, entered = direction.enter(tangents, _like(known.inputs, positions, "dot"))

        def body(program: ir.Program) -> ir.Block:
            return _pushed(program, positions, first, entered)

        outs = direction.result_slots(base.structure, known.outputs, "out")
        structure = direction.pair(base.structure, direction.floating_only(base.structure, outs))
        names = direction.result_names(known)
        floating = [k for k, s in enumerate(outs) if s.is_floating]
        names = [*names, *(f"{names[k]}_dot" for k in floating)]
        outputs = [*known.outputs, *_like(known.outputs, floating, "dot")]
        return self._in_outline(base, body, outputs, names, structure, positions, extra, tangents)


class VectorJacobian(Derived):
    """`(*args, cotangent) -> (out, cotangents)`."""

    def __init__(self, base: Function, wrt: Wrt | None, position: Position | None) -> None:
        super().__init__(base, "vjp", position, "{f}, and a cotangent of its result times its derivatives.", wrt)

    def _find_parameters(self) -> list[Parameter]:
        return [*self.base.parameters, Parameter("cotangent", DirectionSpec(self._expected))]

    def _expected(self) -> tuple[Structure, list[Slot]]:
        base = self.base.traced(signature_of(self.base.parameters, None)[0])
        return base.structure, direction.result_slots(base.structure, base.known.outputs, "out")

    def _trace(self, signature: Signature) -> Traced:
        own = Signature(signature.structures[:-1], signature.leaves[:-1])
        base = self.base.traced(own)
        known = base.known
        slots = direction.result_slots(base.structure, known.outputs, "the result")
        given, cotangents = signature.structures[-1], signature.leaves[-1]
        matched = direction.match(self.what, base.structure, slots, given, cotangents, "cotangent")
        positions, wanted = self.wanted(own)
        floating = [k for k, s in enumerate(slots) if s.is_floating]
        names = direction.result_names(known)
        extra, first, entered = direction.enter(cotangents, _like(known.outputs, matched, "bar", names))

        def body(program: ir.Program) -> ir.Block:
            from pullback.ad.reverse import vjp

            made = vjp(program, positions)
            seeds = dict(zip(floating, made.inputs[len(program.inputs) :], strict=True))
            refs = {seeds.pop(k): r for k, r in zip(matched, entered.values(), strict=True)}
            nothing: dict[ir.Ref, ir.Scalar] = {r: expr.zero(r.dtype) for r in seeds.values()}
            statements, results = direction.substituted(made, refs, nothing)
            return ir.Block((*first, *statements), results)

        cotangent = _like(known.inputs, positions, "bar")
        outputs, names = [*known.outputs, *cotangent], [*names, *(r.name for r in cotangent)]
        structure, what = direction.pair(base.structure, wanted), (positions, matched)
        return self._in_outline(base, body, outputs, names, structure, what, extra, cotangents)

    def wanted(self, signature: Signature) -> tuple[list[int], Structure]:
        """The positions of the inputs whose cotangents are requested, and their structure."""
        if self.wrt is not None:
            return self.sources(signature)
        slots = direction.argument_slots(signature.flat)
        at = _inputs(signature.flat)
        structure = direction.tuple_of(signature.structures)
        return [at[k] for k, s in enumerate(slots) if s.is_floating], direction.floating_only(structure, slots)


class HessianVector(Derived):
    """`(args, v) -> H v`, forward over reverse."""

    def __init__(self, base: Function, wrt: Wrt | None, position: Position | None) -> None:
        super().__init__(base, "hvp", position, "The Hessian of {f} with respect to {x} times a direction `v`.", wrt)
        self.gradient = grad(base, wrt)

    def _find_parameters(self) -> list[Parameter]:
        return [Parameter("args", ArgumentsSpec(self.base)), Parameter("v", DirectionSpec(self._expected))]

    def _expected(self) -> tuple[Structure, list[Slot]]:
        return self._chosen(signature_of(self.base.parameters, None)[0])[1:]

    def _chosen(self, signature: Signature) -> tuple[list[int], Structure, list[Slot]]:
        positions, structure = self.sources(signature)
        parameters, _ = direction.chosen(self.what, self.base, self.wrt, self.position)
        leaves = [leaf for k in parameters for leaf in signature.leaves[k]]
        return positions, structure, direction.argument_slots(leaves)

    def _trace(self, signature: Signature) -> Traced:
        (arguments, given), (leaves, tangents) = signature.structures, signature.leaves
        own = direction.split(arguments, leaves)
        positions, structure, slots = self._chosen(own)
        matched = direction.match(self.what, structure, slots, given, tangents, "v")
        gradient = self.gradient.traced(own)
        known = gradient.known
        moved = [positions[k] for k in matched]
        extra, first, entered = direction.enter(tangents, _like(known.inputs, moved, "dot"))

        def body(program: ir.Program) -> ir.Block:
            pushed = _pushed(program, moved, first, entered)
            return replace(pushed, results=pushed.results[len(program.outputs) :])

        names = [f"{n}_dot" for n in direction.result_names(known)]
        outputs = _like(known.outputs, range(len(known.outputs)), "dot")
        return self._in_outline(gradient, body, outputs, names, structure, moved, extra, tangents)


def _pushed(
    program: ir.Program, positions: Sequence[int], first: Sequence[ir.Statement], entered: Mapping[ir.Ref, ir.Ref]
) -> ir.Block:
    """The results of a program and their tangents, along directions entered at input `positions`."""
    from pullback.ad.forward import jvp

    made = jvp(program, positions)
    refs = dict(zip(made.inputs[len(program.inputs) :], entered.values(), strict=True))
    statements, results = direction.substituted(made, refs, {})
    return ir.Block((*first, *statements), results)


def _inputs(leaves: Sequence[Leaf]) -> list[int]:
    """The input position of each leaf; meaningless for leaves that are not inputs."""
    out, at = [], 0
    for leaf in leaves:
        out.append(at)
        at += leaf.is_input
    return out


def _like(refs: Sequence[ir.Ref], positions: Iterable[int], suffix: str, names: Sequence[str] = ()) -> list[ir.Ref]:
    """Tangents or cotangents of the arrays at these positions, named after `names` or after the arrays."""
    chosen = ((names[k] if names else refs[k].name, refs[k]) for k in positions)
    return [ir.Ref(f"{name}_{suffix}", r.dtype, r.shape) for name, r in chosen]


@public
def jvp(f: Callable[..., Any]) -> Function:
    """Return the function with its Jacobian-vector product: `jvp(f)(primals, tangents) -> (out, tangent)`.

    `primals` is the tuple of all arguments, `tangents` a tuple of the same structure. A tangent of None is zero, for an
    array or a whole tree. It is required for arrays that are not floating-point. The same holds for the result.

    Args:
        f: the function.
    Returns:
        A traced function of `(primals, tangents)`.
    Raises:
        DerivativeError: [E220] the tangents do not fit the arguments.
    Cost:
        The tangent costs about as much as f, and no memory beyond the tangents.

    >>> import numpy as np, pullback as pb
    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> @pb.function
    ... def area(w: Float64[Array, ""], h: Float64[Array, ""]):
    ...     return w * h
    >>> out, tangent = pb.jvp(area)((2.0, 3.0), (1.0, None))
    >>> float(out), float(tangent)
    (6.0, 3.0)
    """
    base = as_function(f)
    return base.once(("jvp",), lambda: JacobianVector(base, "jvp", user_position(), _JVP))


@public
def vjp(f: Callable[..., Any], wrt: Wrt | None = None) -> Function:
    """The function with its vector-Jacobian product: `vjp(f)(*args, cotangent=c) -> (out, cotangents)`.

    Args:
        f: the function.
        wrt: name or position of the parameter whose cotangent to return, or a tuple or list of these. By default all
            cotangents are given as a tuple, with None for parameters that are not floating-point.
    Returns:
        A traced function of the arguments of f and `cotangent`, a tree like the result; None in it is zero.
    Raises:
        DerivativeError: [E220] the cotangent does not fit the result. [E202] a parameter of `wrt` is not floating.
            [E203] the computation contains a while loop without `max_trips`.
    Cost:
        A small multiple of that of f, and memory for the backward pass.

    >>> import numpy as np, pullback as pb
    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> @pb.function
    ... def scaled(s: Float64[Array, ""], x: Float64[Array, "N"]):
    ...     return s * x
    >>> out, (s_bar, x_bar) = pb.vjp(scaled)(2.0, np.array([1.0, 3.0]), cotangent=np.array([1.0, 1.0]))
    >>> float(s_bar), x_bar.tolist()
    (4.0, [2.0, 2.0])
    """
    base, wrt = as_function(f), selection(wrt)
    return base.once(("vjp", wrt), lambda: VectorJacobian(base, wrt, user_position()))


@public
def hvp(f: Callable[..., Any], wrt: Wrt | None = None) -> Function:
    """The product of the Hessian with a vector: `hvp(f)(args, v)`, shaped like the gradient.

    Args:
        f: a function whose result is one floating-point number.
        wrt: as in `grad`; the first parameter by default.
    Returns:
        A traced function of the tuple of all arguments, and of `v`, shaped like the gradient; None in it is zero.
    Raises:
        DerivativeError: [E201] the result of f is not one floating-point number. [E202] a parameter is not floating.
            [E220] v does not fit the parameter.
    Cost:
        About twice a gradient: forward over reverse.

    >>> import numpy as np, pullback as pb
    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> @pb.function
    ... def energy(x: Float64[Array, "N"]):
    ...     return pb.sum(x**3)
    >>> pb.hvp(energy)((np.array([1.0, 2.0]),), np.array([1.0, 10.0])).tolist()
    [6.0, 120.0]
    """
    base, wrt = as_function(f), selection(wrt)
    return base.once(("hvp", wrt), lambda: HessianVector(base, wrt, user_position()))


def stop_gradient(x: Any, /) -> Any:
    """Return `x` as a constant for derivatives. Trees are mapped leaf by leaf.

    >>> import numpy as np, pullback as pb
    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> @pb.function
    ... def f(x: Float64[Array, ""]):
    ...     return x * pb.stop_gradient(x)
    >>> float(pb.grad(f)(3.0))
    3.0
    """

    def stop(leaf: Any) -> Array:
        h = as_array(leaf, "stop_gradient")
        return elementwise("stop_gradient", h) if h.literal is None and h.settled.is_floating else twin(h)

    return tree.map_leaves(stop, x)


__all__ = ["hvp", "jvp", "stop_gradient", "vjp"]
