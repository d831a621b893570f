"""What is public is listed and documented."""

from __future__ import annotations

from pullback import operators


def test_every_public_name_is_listed_and_documented() -> None:
    assert len(operators.__all__) == len(set(operators.__all__))
    assert all(getattr(operators, name).__doc__ for name in operators.__all__)
