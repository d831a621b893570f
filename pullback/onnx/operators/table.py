"""The table of operators: a row is a Python function whose signature is the operator's.

    @operator("Gemm")
    def gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0): ...

Inputs are positional, attributes are keywords with defaults. An attribute that later became an input is one parameter:
the version determines which of the two sets it. An input annotated `Known` is a NumPy array, because it determines
shapes. Three names are not ONNX's: `version`, of the operator set; `outputs`, the number of the node's results; and
`narrow`. It has the element type's code for each input that arrays hold in a wider type, else 0.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pullback.state import IMPORTED, registered

__all__ = ["Known", "Operator", "Row", "WrongNode", "find", "operator"]

Known = NDArray[Any]
Row = Callable[..., Any]
OWN: Final = ("version", "outputs", "narrow")
SILENT: Final = ("consumed_inputs",)  # attributes of the first versions, without meaning


class WrongNode(Exception):
    """The error for invalid attributes or inputs of a node; the reader adds the node's name."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.remedy = remedy


@dataclass(frozen=True)
class Operator:
    """A row of the table: an operator's name, domain, versions and function."""

    name: str
    domain: str
    since: int
    until: int | None
    compute: Row

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the operator's function."""
        return inspect.signature(self.compute).parameters

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The names of positional inputs."""
        return tuple(p.name for p in self.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD)

    @cached_property
    def rest(self) -> bool:
        """Whether the operator takes any number of inputs."""
        return any(p.kind is p.VAR_POSITIONAL for p in self.parameters.values())

    def knows(self, position: int) -> bool:
        """Whether the operator needs the input at this position as a NumPy array."""
        return position < len(self.inputs) and "Known" in str(self.parameters[self.inputs[position]].annotation)

    def settings(self, attributes: Mapping[str, Any], inputs: int, version: int, outputs: int,
                 narrow: tuple[int, ...] = ()) -> dict[str, Any]:  # fmt: skip
        """The keyword arguments for the operator's function.

        Raises:
            WrongNode: the attribute is unknown, or inputs are missing or surplus.
        """
        if inputs > len(self.inputs) and not self.rest:
            raise WrongNode(f"{inputs} inputs, of which {self.name} takes {len(self.inputs)}")
        own: dict[str, Any] = {"version": version, "outputs": outputs, "narrow": narrow}
        given: dict[str, Any] = {name: own[name] for name in OWN if name in self.parameters}
        for name, value in attributes.items():
            if name in SILENT:
                continue
            if name not in self.parameters or name in OWN or name in self.inputs[:inputs]:
                raise WrongNode(f"{self.name} of version {version} has no attribute {name}")
            known = name in self.inputs and self.knows(self.inputs.index(name))
            given[name] = np.asarray(value) if known else value
        for k, name in enumerate(self.inputs):
            if k >= inputs and name not in given and self.parameters[name].default is inspect.Parameter.empty:
                raise WrongNode(f"its input {name} is missing")
        wanted = [p.name for p in self.parameters.values() if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
        missing = [name for name in wanted if name not in given]
        if missing:
            raise WrongNode(f"its attribute {missing[0]} is missing")
        return given


_TABLE: dict[tuple[str, str], list[Operator]] = registered({}, "one for each operator", stays=IMPORTED)


def operator(name: str, *, domain: str = "", since: int = 1, until: int | None = None) -> Callable[[Row], Row]:
    """Register a function as an operator's implementation for a range of operator set versions."""

    def enter(compute: Row) -> Row:
        _TABLE.setdefault((domain, name), []).append(Operator(name, domain, since, until, compute))
        return compute

    return enter


def find(domain: str, name: str, version: int) -> Operator | None:
    """The row of an operator, or None."""
    rows: Sequence[Operator] = _TABLE.get((domain, name), ())
    return next((r for r in rows if r.since <= version and (r.until is None or version <= r.until)), None)
