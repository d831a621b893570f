"""Estimates for kernels that exist as loops: the steps of a thread, and launches."""

from __future__ import annotations

from typing import Final

from pullback.ir.index import Index
from pullback.loops.analysis.intervals import interval
from pullback.loops.program.nodes import Call, Copy, Fill, For, If, Loop, Multiply, Stmt
from pullback.loops.program.values import Extreme

SEARCH: Final = 64  # the assumed iterations of a loop that ends at a `Break`
UNKNOWN: Final = 10_000  # the assumed iterations of a loop without a known end


def steps(s: Stmt) -> float:
    """The number of statements that one thread runs; group and thread loops count once."""
    match s:
        case For(kind="group" | "thread"):
            return sum(map(steps, s.body))
        case For():
            return trips(s) * sum(map(steps, s.body))
        case Loop():
            return SEARCH * sum(map(steps, s.body))
        case If():
            return 1 + max(sum(map(steps, s.then)), sum(map(steps, s.otherwise)))
        case Fill():
            return s.count.constant or UNKNOWN
        case Multiply():
            return sum(map(steps, s.body))
        case _:
            return 1


def trips(s: For | Loop) -> float:
    """The largest number of iterations of a loop."""
    if isinstance(s, Loop):
        return SEARCH
    ends = s.upper.args if isinstance(s.upper, Extreme) else (s.upper,)
    spans = [interval(i - s.lower, {}) for i in ends if isinstance(i, Index) and isinstance(s.lower, Index)]
    n = min((found[1] for found in spans if found is not None), default=s.var.extent.constant or UNKNOWN)
    return max(-(-n // s.step), 0)


def launches(body: tuple[Stmt, ...]) -> float:
    """Count the launches of a call, with copies.

    The longer side of a branch counts, and one iteration of a loop without a known end.
    """
    total = 0.0
    for s in body:
        match s:
            case Call():
                total += sum(isinstance(x, For) for x in s.kernel.body)
            case Copy() | Fill():
                total += 1
            case For():
                total += trips(s) * launches(s.body)
            case Loop():
                total += launches(s.body)
            case If():
                total += max(launches(s.then), launches(s.otherwise))
            case _:
                pass
    return total
