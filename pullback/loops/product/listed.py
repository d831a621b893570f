"""Products that take only the steps of a sum at which a panel has nonzeros.

    for k in steps with a nonzero in b[k, ..]:    c[i, j] += a[i, k] * b[k, j]

Each panel of an operand that began at unit vectors (`loops/analysis/seeds.py`) gets a list of these steps after it is
packed: [first, second, .., count] with the count at place `steps`. The tests pay if many tiles read the panel. If no
step is left out, a tile with a list takes at most some percent longer. The other factor of a zero is ignored, even if
it is infinite or NaN.
"""

from __future__ import annotations

from typing import Final

from pullback.ir.index import ZERO_INDEX, Var, as_index
from pullback.ir.primitive import PRIMITIVES
from pullback.ir.types import DType, bool_, i64
from pullback.loops.plain.builder import free_variables
from pullback.loops.program.cover import narrower
from pullback.loops.program.nodes import Assign, For, Kernel, Let, LetIndex, Stmt, Store
from pullback.loops.program.values import (
    Across,
    Apply,
    Binary,
    Buffer,
    Convert,
    IndexValue,
    Literal,
    Load,
    Read,
    Temp,
    Type,
    Value,
    loaded_index,
)
from pullback.state import cached

MANY: Final = 8  # tiles that read a panel, from which on a list pays


@cached(64)
def list_steps(dtype: DType, lanes: int, width: int) -> Kernel:
    """The kernel that lists the steps at which a panel of this width has an element that is not zero."""
    k, steps = Var("k", 1 << 40), Var("steps", 1 << 40)
    panel = Buffer("panel", dtype, (steps.extent, as_index(width)), "parameter", steps.extent * width, False)
    taken = Buffer("list", i64, (steps.extent,), "parameter", steps.extent)
    number, count, end = Type(i64), Temp("count", Type(i64)), loaded_index("end", steps.extent)
    size: Value | None = None  # a NaN stays one, and magnitudes do not cancel
    at = 0
    for n in narrower(width, lanes):
        part = Apply(PRIMITIVES["abs"], (Load(panel, as_index(k) * width + at, Type(dtype, n)),), Type(dtype, n))
        one = Across("+", part) if n > 1 else part
        size, at = one if size is None else Binary("+", size, one, Type(dtype)), at + n
    assert size is not None
    some = Convert(Binary("!=", size, Literal(0.0, Type(dtype)), Type(bool_)), number)
    step: tuple[Stmt, ...] = (
        LetIndex(end, Read(count)),
        Store(taken, as_index(end), IndexValue(as_index(k), number)),
        Assign(count, Binary("+", Read(count), some, number)),
    )
    body = (
        Let(count, Literal(0, number), mutable=True),
        For(k, ZERO_INDEX, as_index(steps), step),
        Store(taken, as_index(steps), Read(count)),
    )
    comment = (f"list[i] = the i-th k < steps with a nonzero in panel[k, j], j < {width}; list[steps] = their number",)
    return Kernel(f"list_steps_{dtype.name}_{width}", (panel, taken), free_variables(body), body, comment)
