"""Damaged ONNX files end in errors of this package."""

from __future__ import annotations

import random

import pytest

from tests.support.damage import damaged, models, outcome

onnx = pytest.importorskip("onnx")


def test_a_hundred_damaged_files() -> None:
    """`python -m tests.support.damage` tries ten thousand."""
    files, found = models(), set()
    names = list(files)
    for seed in range(100):
        rng = random.Random(seed)
        what = outcome(damaged(files[names[rng.randrange(len(names))]], rng))
        assert not what.startswith("fault"), f"seed {seed}: {what}"
        found.add(what)
    assert {"read", "E520", "E521", "E522"} <= found
