"""Reverse mode as two traced functions with residuals between them: forward_backward."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from keyword import iskeyword
from typing import Any

from pullback.calls.arguments import MISSING, Leaf, Leaves
from pullback.calls.function import Function
from pullback.calls.mistakes import public
from pullback.calls.signature import Parameter, Signature, signature_of
from pullback.calls.specs import Spec
from pullback.calls.traced import Traced, identifier
from pullback.derivatives import direction
from pullback.derivatives.derived import Derived, as_function
from pullback.derivatives.direction import DirectionSpec, Slot, Wrt, selection
from pullback.derivatives.modes import VectorJacobian
from pullback.errors import DerivativeError
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.records import dataclass, replace
from pullback.source import Position, user_position
from pullback.tracing import tree
from pullback.tracing.tree import LEAF, Structure


def _field(name: str) -> str:
    """An array's name as a field name; results of lambdas are named after them."""
    plain = name.strip("_") or "r"
    return f"{plain}_" if iskeyword(plain) else plain


@dataclass
class _Made:
    """A trace split in two parts: the base, both programs, and the structures around them."""

    base: Traced
    forward: Traced
    backward: Traced
    residuals: Structure
    slots: list[Slot]
    wanted: Structure


class _Parts:
    """Both parts for each signature. The type of residuals identifies their signature."""

    def __init__(self, base: Function, wrt: Wrt | None, position: Position | None) -> None:
        self.base = base
        self.what = f"forward_backward({base.name})"
        self.wanted = VectorJacobian(base, wrt, position)
        self.made: dict[Signature, _Made] = {}
        self.by_type: dict[type, _Made] = {}

    def of(self, signature: Signature) -> _Made:
        """The parts for a signature of the base."""
        from pullback.ad.split import split
        from pullback.rewrite.copies import tidy

        base = self.base.traced(signature)
        found = self.made.get(signature)
        if found is not None and found.base is base:
            return found
        program, count = base.program, len(base.leaves)
        positions, wanted = self.wanted.wanted(signature)
        parts = split(program, positions, program.inputs[count:])
        kind = namedtuple("Residuals", direction.unique([_field(r.name) for r in parts.residuals]))  # type: ignore[misc]
        fields = tuple(LEAF for _ in parts.residuals)
        residuals = Structure("namedtuple", kind, kind._fields, fields)
        slots = direction.result_slots(base.structure, program.outputs, "the result")
        settings = replace(program.settings, donate=())
        forward = replace(parts.forward, output_names=direction.unique(parts.forward.output_names), settings=settings)
        backward = replace(parts.backward, settings=settings)
        made = _Made(
            base,
            replace(base, known=tidy(forward), structure=direction.pair(base.structure, residuals)),
            replace(base, known=tidy(backward), structure=wanted, leaves=()),
            residuals,
            slots,
            wanted,
        )
        self.made[signature] = self.by_type[kind] = made
        return made

    def determined(self) -> _Made:
        """The parts that the annotations determine."""
        return self.of(signature_of(self.base.parameters, None)[0])


class Forward(Derived):
    """`(*args) -> (out, residuals)`."""

    def __init__(self, parts: _Parts, position: Position | None) -> None:
        super().__init__(parts.base, "forward", position, "{f}, and what its backward part needs.")
        self.parts = parts

    def _trace(self, signature: Signature) -> Traced:
        return self.parts.of(signature).forward


@dataclass
class ResidualsSpec(Spec):
    """The residuals of the forward part, as an argument."""

    parts: _Parts

    def leaves(self, value: Any, path: str) -> Leaves:
        made = self.parts.determined() if value is MISSING else self.parts.by_type.get(type(value))
        if made is None:
            raise DerivativeError(
                "E261",
                f"{self.parts.what}: the residuals are {type(value).__name__}, and not what its forward part gave",
                remedy="`out, residuals = forward(...)`, then `backward(residuals, cotangent)`",
            )
        paths = tree.leaf_paths(made.residuals, path)
        count = len(paths)
        leaves = [
            Leaf(p, "array", r.dtype, tuple(f"{identifier(p)}_{k}" for k in range(r.rank)))
            for p, r in zip(paths, made.backward.program.inputs[:count], strict=True)
        ]
        return made.residuals, leaves, [MISSING] * count if value is MISSING else list(value)


class Backward(Derived):
    """`(residuals, cotangent) -> cotangents`."""

    def __init__(self, parts: _Parts, position: Position | None) -> None:
        about = "The cotangents of the arguments of {f}, by what its forward part kept."
        super().__init__(parts.base, "backward", position, about)
        self.parts = parts

    def _find_parameters(self) -> list[Parameter]:
        return [
            Parameter("residuals", ResidualsSpec(self.parts)),
            Parameter("cotangent", DirectionSpec(self._expected)),
        ]

    def _expected(self) -> tuple[Structure, list[Slot]]:
        made = self.parts.determined()
        return made.base.structure, made.slots

    def _trace(self, signature: Signature) -> Traced:
        kind = signature.structures[0].type
        assert kind is not None
        made = self.parts.by_type[kind]
        given, cotangents = signature.structures[1], signature.leaves[1]
        what, structure = self.parts.what, made.base.structure
        matched = direction.match(what, structure, made.slots, given, cotangents, "cotangent")
        program, count = made.backward.program, len(signature.leaves[0])
        floating = [k for k, s in enumerate(made.slots) if s.is_floating]
        seeds = dict(zip(floating, program.inputs[count : count + len(floating)], strict=True))
        extra, first, refs = direction.enter(cotangents, [seeds.pop(k) for k in matched])
        nothing: dict[ir.Ref, ir.Scalar] = {r: expr.zero(r.dtype) for r in seeds.values()}
        statements, results = direction.substituted(program, refs, nothing)
        rest = program.inputs[count + len(floating) :]
        body = replace(program.body, statements=(*first, *statements), results=results)
        made_program = replace(program, name=self.name, inputs=(*program.inputs[:count], *extra, *rest), body=body)
        leaves = (*signature.leaves[0], *cotangents)
        return replace(made.backward, known=made_program, leaves=leaves)


@public
def forward_backward(f: Callable[..., Any], wrt: Wrt | None = None) -> tuple[Function, Function]:
    """Split reverse mode: `forward(*args) -> (out, residuals)` and `backward(residuals, cotangent)`.

    Use it for code between a function and its backward pass: another library's tape, a server, a pipeline. The
    residuals are a named tuple of the arrays that the backward pass reads. They own their memory, and their types and
    shapes are known before anything runs (`forward.type`). An array `extent_N` of one byte per element represents a dim
    that no other residual has.

    Args:
        f: the function.
        wrt: as in `vjp`: name or position of the parameter whose cotangent is wanted, or a tuple of these. By default
            all cotangents are given as a tuple, with None for parameters that are not floating-point.
    Returns:
        Two traced functions. The cotangent is a tree like the result of f; None in it is zero.
    Raises:
        DerivativeError: [E202] a parameter of `wrt` is not floating. [E203] the computation contains a while loop
            without `max_trips`. [E220] the cotangent does not fit the result. [E261] the residuals are not those of
            `forward`.
    Cost:
        Together that of `vjp`.

    >>> import numpy as np, pullback as pb
    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> @pb.function
    ... def norm(x: Float64[Array, "N"]):
    ...     return pb.sqrt(pb.sum(x * x))
    >>> forward, backward = pb.forward_backward(norm, wrt="x")
    >>> forward.type
    '(x: f64[N]) -> (f64, Residuals(x: f64[N], norm: f64))'
    >>> out, residuals = forward(np.array([3.0, 4.0]))
    >>> backward(residuals, 10.0).tolist()
    [6.0, 8.0]
    """
    base, wrt = as_function(f), selection(wrt)

    def make(kind: Any, position: Position | None) -> Function:
        made: Function = kind(parts, position)
        return made

    position = user_position()
    parts = _Parts(base, wrt, position)
    forward = base.once(("forward", wrt), lambda: make(Forward, position))
    parts = forward.parts  # type: ignore[attr-defined]
    return forward, base.once(("backward", wrt), lambda: make(Backward, position))


__all__ = ["forward_backward"]
