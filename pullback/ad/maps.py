"""The linear map of each kind of statement."""

from __future__ import annotations

from typing import Any

from pullback.ad.branches import BranchMap
from pullback.ad.calls import CheckpointMap, ForeignMap, RuleMap
from pullback.ad.elements import ElementMap
from pullback.ad.linear import LinearMap
from pullback.ad.loops import LoopMap
from pullback.ir import nodes as ir


def linear_map(s: ir.Statement, active: set[ir.Ref]) -> LinearMap[Any]:
    """The linear map of a statement's results by the active arrays that it reads."""
    match s:
        case ir.Build() | ir.Scatter():
            return ElementMap(s, active)
        case ir.Fold() | ir.While():
            return LoopMap(s, active)
        case ir.Choose():
            return BranchMap(s, active)
        case ir.Call():
            return RuleMap(s, active) if s.rules else CheckpointMap(s, active)
        case ir.External():
            return ForeignMap(s, active)
        case ir.Sort():
            raise AssertionError("positions are integers, and values are put in order after derivatives")
