"""Vector mathematics: functions of vectors as C text for f32 and f64 and any number of lanes.

Each is within 1.5 units of the last place (power 2) and gives NaN, infinities, signed zeros and subnormals as libm
does; derivations and measured errors stand at the top of each file. With one lane the libm function is used.

Names are pb_<primitive>_<element>x<lanes>. Polynomials are minimax fits by Remez's exchange in 40 digits, weighted by
the function's own size; each coefficient is rounded in turn, the lowest power first, and the others are fitted again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pullback.codegen.c.vectors.functions.circular import CIRCULAR
from pullback.codegen.c.vectors.functions.elementary import ELEMENTARY
from pullback.codegen.c.vectors.functions.error_function import ERROR_FUNCTION
from pullback.codegen.c.vectors.functions.exponentials import EXPONENTIALS
from pullback.codegen.c.vectors.functions.logarithms import LOGARITHMS
from pullback.codegen.c.vectors.functions.power import POWER
from pullback.codegen.c.vectors.functions.vector import HAS, SMALL, VectorFunction
from pullback.ir.types import DType

ALL: Final[Mapping[str, VectorFunction]] = {
    **SMALL, **ELEMENTARY, **EXPONENTIALS, **LOGARITHMS, **CIRCULAR, **POWER, **ERROR_FUNCTION,
}


def vector_source(name: str, dtype: DType, lanes: int) -> tuple[tuple[str, str], ...]:
    """The definitions of pb_<name>_<dtype>x<lanes> and its callees, each as (name, text), in order.

    They use the vector type, its mask type and pb_choose of the same width. The first is a macro that they may use.
    """
    out: dict[str, str] = {"PB_HAS": HAS}
    for needed in ALL[name].needs:
        out |= vector_source(needed, dtype, lanes)
    out[f"pb_{name}_{dtype.name}x{lanes}"] = ALL[name].source(name, dtype, lanes)
    return tuple(out.items())
