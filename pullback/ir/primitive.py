"""The record of an elementwise operation: all that the compiler knows of it.

One primitive is one row in `ir.primitives`: its meaning in NumPy, its dtype rule, its derivative or the stated reason
for none, and sample inputs for the table tests. Everything else in the compiler reads the row. If a target's library
has no function of the same name, the target's table has its text (`codegen/c/primitives.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from pullback.ir.index.polynomial import Datum
from pullback.records import dataclass

Partials = Callable[..., Sequence[Datum | None]]


@dataclass(frozen=True, eq=False)
class Primitive:
    """An elementwise function of scalars.

    Attributes:
        name: the name in the text form and of the public function.
        doc: one sentence for users.
        arity: number of operands; all have one dtype.
        evaluate: NumPy meaning, on arrays of the operand dtype; must give the result dtype.
        kinds: the dtype kinds it accepts.
        result: "same" as the operands or "bool".
        partials: `partials(*args, out=out)` gives dout/darg for each operand as Scalars over the operands and the
            result `out` (so that exp, tanh and logistic reuse it); None for an operand on which the result does not
            depend smoothly. The whole field is None, and `no_derivative` set, if there is no derivative.
        no_derivative: the reason, as a clause for error messages; the derivative through it is then zero.
        transcendental: whether it gets a statement of its own in normal form, and so is evaluated once per element.
        cost: rough cost in multiply-adds.
        domain: the interval from which samples of all operands are drawn.
        infix: the operator of the text form, where there is one.
    """

    name: str
    doc: str
    arity: int
    evaluate: Callable[..., np.ndarray[Any, Any]]
    kinds: tuple[str, ...] = ("floating",)
    result: str = "same"
    partials: Partials | None = None
    no_derivative: str | None = None
    transcendental: bool = False
    cost: int = 1
    domain: tuple[float, float] = (-2.0, 2.0)
    infix: str | None = None

    def __repr__(self) -> str:
        return self.name


class PrimitiveTable:
    """All primitives by name, in definition order."""

    def __init__(self) -> None:
        self._rows: dict[str, Primitive] = {}

    def add(self, row: Primitive) -> Primitive:
        """Register a row; a second row of the same name is a bug."""
        if row.name in self._rows:
            raise ValueError(f"primitive {row.name} is defined twice")
        self._rows[row.name] = row
        return row

    def __getitem__(self, name: str) -> Primitive:
        return self._rows[name]

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[Primitive]:
        return iter(self._rows.values())


PRIMITIVES: Final = PrimitiveTable()
"""The table of all primitives, which `ir.primitives` fills."""
