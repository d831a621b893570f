"""The parameters of a function, and the arguments of a call as leaves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pullback.errors import TraceError
from pullback.ir import types
from pullback.ir.types import DType
from pullback.lang.annotations import MISSING, ArraySpec, Leaf, Spec, function_annotations, spec_of
from pullback.lang.arguments import wrong_dtype
from pullback.lang.handle import Handle
from pullback.lang.tree import Structure


@dataclass
class Parameter:
    """One parameter of a function."""

    name: str
    spec: Spec
    default: Any = MISSING


@dataclass(frozen=True)
class Signature:
    """What a function is traced for: the structure of each argument and its leaves. Hashable."""

    structures: tuple[Structure, ...]
    leaves: tuple[tuple[Leaf, ...], ...]

    @property
    def flat(self) -> list[Leaf]:
        """All leaves in order."""
        return [leaf for group in self.leaves for leaf in group]


def parameters_of(f: Callable[..., Any]) -> list[Parameter]:
    """The parameters of f. NameError where an annotation names what is not there yet."""
    annotations = function_annotations(f)
    out = []
    for p in inspect.signature(f).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise TraceError(
                "E107",
                f"{f.__name__}: a parameter `{p}` of unknown length cannot be traced",
                remedy="pass one tuple or dict",
            )
        default = MISSING if p.default is p.empty else p.default
        out.append(Parameter(p.name, spec_of(annotations.get(p.name, p.empty), p.name), default))
    return out


def bind(name: str, parameters: Sequence[Parameter], args: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
    """One argument per parameter."""
    if len(args) > len(parameters):
        raise TypeError(f"{name}() takes {len(parameters)} arguments but {len(args)} were given")
    values = list(args)
    rest = dict(keywords)
    for p in parameters[len(args) :]:
        if p.name in rest:
            values.append(rest.pop(p.name))
        elif p.default is not MISSING:
            values.append(p.default)
        else:
            raise TypeError(f"{name}() is missing the argument {p.name!r}")
    if rest:
        repeated = next(iter(rest))
        known = any(p.name == repeated for p in parameters)
        raise TypeError(f"{name}() got {'two values for' if known else 'an unexpected'} argument {repeated!r}")
    return values


def signature_of(parameters: Sequence[Parameter], values: Sequence[Any] | None) -> tuple[Signature, list[Any]]:
    """The signature of a call and its leaves; for None what the annotations alone say (Undetermined otherwise)."""
    structures, groups, flat = [], [], []
    for k, p in enumerate(parameters):
        structure, leaves, found = p.spec.leaves(MISSING if values is None else values[k], p.name)
        structures.append(structure)
        groups.append(tuple(leaves))
        flat += found
    if values is not None:
        _same_floating(parameters, groups, flat)
    return Signature(tuple(structures), tuple(groups)), flat


def _same_floating(parameters: Sequence[Parameter], groups: Sequence[tuple[Leaf, ...]], flat: Sequence[Any]) -> None:
    """`Float` is one dtype throughout a call."""
    chosen: tuple[str, DType] | None = None
    for p, group in zip(parameters, groups):
        if isinstance(p.spec, ArraySpec) and set(p.spec.dtypes) == {types.f32, types.f64}:
            for leaf in group:
                assert leaf.dtype is not None
                if chosen is None:
                    chosen = (leaf.path, leaf.dtype)
                elif leaf.dtype is not chosen[1]:
                    raise wrong_dtype(leaf.path, [chosen[1]], leaf.dtype, None)


def is_traced(values: Sequence[Any]) -> bool:
    """Whether a traced value is among the leaves."""
    return any(isinstance(v, Handle) for v in values)
