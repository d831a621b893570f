"""The table of reductions: combining two elements, the neutral element, and positions."""

from __future__ import annotations

from typing import Final, Literal

from pullback.ir.expr import REDUCE_OPS, ReduceOp
from pullback.ir.types import DType
from pullback.records import dataclass


@dataclass(frozen=True)
class Reduction:
    """One reduction.

    Attributes:
        name: the name in the text form.
        combines: the elementwise function of two elements; "" where a result is a position.
        start: the neutral element: 0, 1, or an end of the element type's range.
        of_nothing: whether it is defined for zero elements.
        of_bools: whether its elements are bools.
        position: the reduction that gives the first position of its result.
    """

    name: ReduceOp
    combines: str
    start: Literal["zero", "one", "least", "greatest"]
    of_nothing: bool = False
    of_bools: bool = False
    position: ReduceOp | None = None

    def neutral(self, dtype: DType) -> bool | int | float:
        """The neutral element of the reduction."""
        if self.start in ("zero", "one"):
            one = self.start == "one"
            return one if dtype.is_bool else float(one) if dtype.is_floating else int(one)
        least = self.start == "least"
        if dtype.is_bool:
            return not least
        if dtype.is_floating:
            return float("-inf") if least else float("inf")
        return dtype.minimum if least else dtype.maximum


_ROWS: Final = (
    Reduction("sum", "add", "zero", of_nothing=True),
    Reduction("prod", "multiply", "one", of_nothing=True),
    Reduction("max", "maximum", "least", position="argmax"),
    Reduction("min", "minimum", "greatest", position="argmin"),
    Reduction("argmax", "", "least"),
    Reduction("argmin", "", "greatest"),
    Reduction("any", "logical_or", "zero", of_nothing=True, of_bools=True),
    Reduction("all", "logical_and", "one", of_nothing=True, of_bools=True),
    Reduction("search", "", "zero", of_bools=True),
)
REDUCTIONS: Final[dict[ReduceOp, Reduction]] = {r.name: r for r in _ROWS}
COMBINING: Final[dict[str, ReduceOp]] = {r.combines: r.name for r in _ROWS if r.combines}  # by elementwise function
assert REDUCTIONS.keys() == set(REDUCE_OPS)


def neutral(op: ReduceOp, dtype: DType) -> bool | int | float:
    """The neutral element of the reduction of this name."""
    return REDUCTIONS[op].neutral(dtype)
