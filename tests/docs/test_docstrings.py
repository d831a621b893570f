"""The examples in docstrings run; `np` and `pb` are there, as in a session."""

from __future__ import annotations

import doctest
import importlib
import inspect
from pathlib import Path

import numpy as np
import pytest

import pullback as pb

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for folder in ("pullback", "tests/support", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(importlib.import_module(name), extraglobs={"np": np, "pb": pb})
    assert found.attempted
    assert not found.failed


def test_public_functions_have_examples() -> None:
    """All but the elementwise functions of the standard, which say what they are."""
    names = {name: getattr(pb, name) for name in pb.__all__}
    public = {name: value for name, value in names.items() if inspect.isfunction(value)}
    shown = ("type", "ir", "program", "interpret", "memory", "c_source", "export", "explain", "derivation")
    public |= {f"Function.{name}": inspect.getattr_static(pb.Function, name) for name in shown}
    texts = {name: inspect.getdoc(value) or "" for name, value in public.items()}
    assert len(texts) > 150
    silent = [n for n, t in texts.items() if ">>>" not in t and not t.endswith("Elementwise; operands broadcast.")]
    assert not silent
