"""The table of rules claims no evidence that there is not."""

from __future__ import annotations

import os

import pytest

from pullback.rewrite.rules import RULES
from pullback.rewrite.rules.evidence import EVIDENCE
from tests.proofs.rules import rules_compared, rules_proven


def test_rules_that_are_called_proven_fire_where_the_solver_is_asked() -> None:
    claimed = {i for i, evidence in EVIDENCE.items() if evidence == "proven"}
    assert claimed <= rules_proven() and claimed
    assert EVIDENCE.keys() <= {r.id for r in RULES}


@pytest.mark.skipif(not os.environ.get("PULLBACK_NIGHTLY"), reason="half a minute: PULLBACK_NIGHTLY=1")
def test_rules_that_are_called_tested_fire_in_programs_that_are_compared() -> None:
    assert {i for i, evidence in EVIDENCE.items() if evidence == "tested"} <= rules_compared()
