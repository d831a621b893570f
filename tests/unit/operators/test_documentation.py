"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from pullback import operators

MODULES = [
    "pullback.operators",
    *(f"pullback.operators.{module.name}" for module in pkgutil.iter_modules(operators.__path__)),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_every_public_name_is_listed_and_documented() -> None:
    assert len(operators.__all__) == len(set(operators.__all__))
    assert all(getattr(operators, name).__doc__ for name in operators.__all__)
