"""What C for all sizes has beside C for some: tests of its dims, places of slots, and the bytes of its arena."""

from __future__ import annotations

from typing import Final

from pullback.codegen.expressions import Expressions
from pullback.ir.index import Atom, Cond, Data, DimSymbol, Floor, Index, Mod, polynomial
from pullback.loops.memory import MemoryPlan
from pullback.loops.slots import ALIGNMENT

WRONG_DIMS: Final = -1  # what a function returns for dims that it does not take
TOO_LARGE: Final = -2  # and for those whose arena has no size
_ALIGNED: Final = f"""\
static inline size_t pb_aligned(int64_t bytes) {{
    return ((size_t)bytes + {ALIGNMENT - 1}) / {ALIGNMENT} * {ALIGNMENT};
}}
"""


def fails(needs: tuple[Cond, ...], e: Expressions) -> str:
    """A test that one of the conditions does not hold."""
    opposite = {">=": "<", "==": "!=", "!=": "=="}
    out = []
    for c in needs:
        left = polynomial({m: k for m, k in c.index.terms if k > 0})
        right = polynomial({m: -k for m, k in c.index.terms if k < 0})
        out.append(f"{e.index(left)} {opposite[c.op]} {e.index(right)}")
    return " || ".join(out)


def slot_sizes(plan: MemoryPlan, e: Expressions) -> list[str]:
    """The bytes of each slot."""
    if plan.slots:
        e.helpers.own("pb_aligned", _ALIGNED)
    return [f"pb_aligned({e.bound(s.bytes)})" for s in plan.slots]


def arena_body(plan: MemoryPlan, needs: tuple[Cond, ...], e: Expressions) -> list[str]:
    """The lines of the function that gives the bytes of the arena, SIZE_MAX where there can be none.

    Whether they fit is found in floating point, where nothing wraps.
    """
    lines = [f"if ({fails(needs, e)}) return SIZE_MAX;"] if needs else []
    terms = [str(plan.bytes)] if plan.bytes or not plan.slots else []
    if plan.slots:
        about = " + ".join(_magnitude(n, e) for s in plan.slots for n in s.sizes)
        lines.append(f"if ({about} > (double)(SIZE_MAX / 4)) return SIZE_MAX;")
    return [*lines, f"return {' + '.join([*terms, *slot_sizes(plan, e)])};"]


def _magnitude(i: Index, e: Expressions) -> str:
    """A bound of the magnitude of a dim as a double; `(double)` keeps products from being ones of integers."""
    return " + ".join(" * ".join([f"{abs(c)}.0", *(_atom(a, e) for a in m)]) for m, c in i.terms)


def _atom(a: Atom, e: Expressions) -> str:
    match a:
        case DimSymbol():
            return f"(double){e.names(a, a.name)}"
        case Floor():
            return f"({_magnitude(a.numerator, e)})"
        case Mod():
            return f"({_magnitude(a.denominator, e)})"
        case _:
            assert not isinstance(a, Data)
            raise AssertionError(f"{a} in the size of an array")
