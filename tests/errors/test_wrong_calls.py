"""The messages of Python about wrong calls, as different versions write them."""

from __future__ import annotations

import pytest

from pullback.tracing.public import WRONG_CALL


@pytest.mark.parametrize("end", ["", ". Did you mean 'axis'?"])  # Python 3.13 adds a suggestion
@pytest.mark.parametrize("owner", ["", "Spline."])
def test_unexpected_keywords(owner: str, end: str) -> None:
    problem = "got an unexpected keyword argument 'dim'"
    found = WRONG_CALL.fullmatch(f"{owner}fit() {problem}{end}")
    assert found is not None and found.groups() == ("fit", problem, "dim")
