"""`Derived`, the class of functions made from another function's program, such as derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pullback.calls.arguments import Leaf
from pullback.calls.function import Function, function
from pullback.calls.shown import ShownSignature, made_of
from pullback.calls.signature import Parameter, Signature
from pullback.calls.traced import Traced, derived
from pullback.derivatives import direction
from pullback.derivatives.direction import Wrt
from pullback.ir import nodes as ir
from pullback.rewrite.copies import tidy
from pullback.source import Position
from pullback.tracing.tree import Structure

__all__ = ["Derived", "as_function"]


class Derived(Function):
    """A function made from another function's program.

    It is a `Function`: it nests, prints, compiles, and may be called inside another traced function.

    Attributes:
        base: the original function.
        wrt: the differentiated parameters.
        what: the function's name in messages.
    """

    is_derivative = True
    __signature__ = ShownSignature()
    donates = False  # whether results may overwrite donated arguments, as in the base

    def __init__(
        self, base: Function, mode: str, position: Position | None, about: str, wrt: Wrt | None = None
    ) -> None:
        super().__init__(base.python)
        self.base = base
        self.wrt = wrt
        made_of(self, base, f"{base.name}_{mode}", about, wrt)
        self.what = f"{mode}({base.name})"
        self.position = position

    def _find_parameters(self) -> list[Parameter]:
        return self.base.parameters

    def sources(self, signature: Signature) -> tuple[list[int], Structure]:
        """The positions of the differentiated inputs, and the structure of a derivative."""
        return direction.sources(self.what, self.base, self.wrt, signature, self.position)

    def _result(
        self,
        base: Traced,
        extra: Sequence[ir.Ref],
        body: ir.Block,
        structure: Structure,
        leaves: Sequence[Leaf],
        names: Sequence[str],
    ) -> Traced:
        """The traced function: the inputs of the base with `extra` after its arguments, and another body."""
        program = base.program
        made = replace(
            program,
            name=self.name,
            inputs=direction.inputs_with(base, extra),
            body=body,
            output_names=direction.unique(names),
            settings=replace(program.settings, donate=()),  # the results differ
        )
        return replace(base, known=tidy(made), structure=structure, leaves=(*base.leaves, *leaves))

    def _in_outline(
        self,
        base: Traced,
        body: Callable[[ir.Program], ir.Block],
        outputs: Sequence[ir.Ref],
        names: Sequence[str],
        structure: Structure,
        what: object,
        extra: Sequence[ir.Ref] = (),
        leaves: Sequence[Leaf] = (),
        inputs: Sequence[ir.Ref] | None = None,
    ) -> Traced:
        """The derived function in outline, its body made on demand (`derived`); `inputs` default as above."""
        settings = base.known.settings if self.donates else replace(base.known.settings, donate=())
        what = (type(self).__name__, what)
        if inputs is None:
            inputs = direction.inputs_with(base, extra)
        names = direction.unique(names)
        return derived(base, self.name, body, what, inputs, outputs, names, structure, leaves, settings)


def as_function(f: Callable[..., Any]) -> Function:
    """Return f as a traced function."""
    return f if isinstance(f, Function) else function(f)
