"""Functions that need numeric sizes, such as FFT lengths; they are traced for each call's sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from pullback.calls.arguments import Leaf, Undetermined
from pullback.calls.signature import Parameter, Signature, signature_of
from pullback.calls.traced import identifier
from pullback.errors import PullbackError
from pullback.ir import nodes as ir
from pullback.ir.dims import solve_dims
from pullback.ir.index import Index, as_index
from pullback.ir.traverse import Substitution
from pullback.tracing.array import Array

_NEEDS_NUMBER: Final = "E117"


def needs_numbers(error: PullbackError) -> bool:
    """Whether a function is refused only because a size is not a number."""
    return all(e.code == _NEEDS_NUMBER for e in (error, *error.also))


def of_call(name: str, signature: Signature, values: Sequence[Any]) -> Signature | None:
    """The signature of a call with numeric sizes, ignoring annotations; None if some are open.

    Raises:
        ShapeError: the sizes do not fit the annotations.
    """
    extents = [_extents(leaf, v) for leaf, v in zip(signature.flat, values, strict=True)]
    if any(e is None for e in extents):
        return None
    known = {leaf: e for leaf, e in zip(signature.flat, extents, strict=True) if e is not None}
    inputs = [leaf for leaf in signature.flat if leaf.is_input]
    refs = tuple(ir.Ref(identifier(leaf.path), leaf.dtype, leaf.extents) for leaf in inputs if leaf.dtype is not None)
    sizes = {leaf.size: known[leaf][0] for leaf in signature.flat if leaf.kind == "size"}
    solve_dims(ir.Program(name, refs, ir.Block((), ()), sizes=tuple(sizes)), [known[leaf] for leaf in inputs], sizes)
    return _with(signature, {leaf: tuple(map(as_index, e)) for leaf, e in known.items()})


def of_dims(signature: Signature, dims: Mapping[str, int]) -> Signature:
    """The signature with numbers for these dims."""
    s = Substitution(
        dims={
            symbol: as_index(dims[symbol.name])
            for leaf in signature.flat
            for e in leaf.own_dims
            for symbol in e.symbols
            if symbol.name in dims
        }
    )
    return _with(signature, {leaf: tuple(map(s.index, _own(leaf))) for leaf in signature.flat})


def dims_of(parameters: Sequence[Parameter]) -> set[str]:
    """The names of the dims in the annotations, if these leave nothing else open."""
    try:
        signature, _ = signature_of(parameters, None)
    except Undetermined:
        return set()
    return {symbol.name for leaf in signature.flat for d in leaf.own_dims for symbol in d.symbols}


def _own(leaf: Leaf) -> Sequence[Index]:
    return leaf.own_dims if leaf.kind == "size" else leaf.extents


def _with(signature: Signature, extents: Mapping[Leaf, Sequence[Index]]) -> Signature:
    def sized(leaf: Leaf) -> Leaf:
        if leaf.kind == "size":
            return leaf.with_size(extents[leaf][0]) if extents[leaf][0].constant is not None else leaf
        return leaf.with_dims(extents[leaf]) if leaf.dims else leaf

    return Signature(signature.structures, tuple(tuple(map(sized, group)) for group in signature.leaves))


def _extents(leaf: Leaf, value: Any) -> tuple[int, ...] | None:
    """The sizes of an argument, or its value if it is a size; None if some are open."""
    if leaf.kind == "size":
        return _numbers([value.index]) if isinstance(value, Array) and value.index is not None else (int(value),)
    if not leaf.is_input:
        return ()
    return _numbers(value.extents) if isinstance(value, Array) else np.shape(value)


def _numbers(extents: Sequence[Index]) -> tuple[int, ...] | None:
    numbers = [e.constant for e in extents]
    return None if any(n is None for n in numbers) else tuple(n for n in numbers if n is not None)


__all__ = ["dims_of", "needs_numbers", "of_call", "of_dims"]
