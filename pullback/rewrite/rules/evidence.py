"""The evidence for rules, made by `python -m tests.proofs.rules`; a rule that is not here is assumed.

Proven rules fired in random applications that an SMT solver found equal for all values. Tested ones fired in programs
that were compared, before and after, for all inputs of small sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

Evidence = Literal["proven", "tested", "assumed"]

EVIDENCE: Final[Mapping[str, Evidence]] = {
    "call.inline": "tested",
    "cse": "tested",
    "deepdsl.19": "proven",
    "deepdsl.22": "proven",
    "deepdsl.4": "proven",
    "deepdsl.ssa.builtin": "tested",
    "deepdsl.ssa.scaled": "tested",
    "deepdsl.ssa.sum": "tested",
    "extremes.read": "tested",
    "fuse": "tested",
    "gather.result": "tested",
    "gather.small": "tested",
    "hoist.conversion": "tested",
    "hoist.small": "tested",
    "loops.reduction": "tested",
    "narrow.position": "tested",
    "operand.array": "tested",
    "order.values": "tested",
    "pad.border": "tested",
    "radix.delta": "tested",
    "roots.reciprocal": "tested",
    "shifts.product": "tested",
    "smooth.a4": "proven",
    "smooth.a5": "tested",
    "smooth.b2": "tested",
    "smooth.b3": "tested",
    "smooth.c1": "tested",
    "smooth.e3": "tested",
    "smooth.e4": "proven",
    "smooth.f5": "tested",
    "smooth.g1": "tested",
    "solve.divided": "proven",
    "solve.mixed_radix": "proven",
    "solve.quotient": "proven",
    "solve.remainder": "proven",
    "speculate.guard": "tested",
    "speculate.outside": "tested",
    "starts.own": "tested",
    "steps.after": "tested",
    "stretches.part": "tested",
    "sums.band": "tested",
    "sums.scatter": "tested",
    "sums.split": "tested",
    "window.floor": "tested",
}
