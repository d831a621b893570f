"""The linear map of each kind of statement."""

from __future__ import annotations

from typing import Any

from pullback.ad.branches import BranchMap
from pullback.ad.calls import CheckpointMap, ForeignMap, RuleMap
from pullback.ad.elements import ElementMap
from pullback.ad.linear import LinearMap
from pullback.ad.loops import LoopMap
from pullback.ir.expr import Ref
from pullback.ir.program import Build, Call, Choose, External, Fold, Scatter, Sort, Statement, While


def linear_map(s: Statement, active: set[Ref]) -> LinearMap[Any]:
    """The linear map of a statement's results by the active arrays that it reads."""
    match s:
        case Build() | Scatter():
            return ElementMap(s, active)
        case Fold() | While():
            return LoopMap(s, active)
        case Choose():
            return BranchMap(s, active)
        case Call():
            return RuleMap(s, active) if s.rules else CheckpointMap(s, active)
        case External():
            return ForeignMap(s, active)
        case Sort():
            raise AssertionError("positions are integers, and values are put in order after derivatives")
