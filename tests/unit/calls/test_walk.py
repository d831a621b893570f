"""The walk of a call: each room is entered once, a program has one key, and a call seen before computes nothing."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import lazy

pytestmark = pytest.mark.usefixtures("own_cache")
X = np.linspace(0.0, 1.0, 5)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache."""
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))


def walked(call: Callable[[], Any]) -> Counter[str]:
    """Count how often each function of the package is entered."""
    found: Counter[str] = Counter()

    def enter(frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("pullback."):
            found[f"{module.removeprefix('pullback.')}.{frame.f_code.co_qualname}"] += 1

    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def energy() -> Any:
    return pb.function(lambda x, p: pb.sum(pb.tanh(x * p["a"]) + p["b"][0]))


P = {"a": X, "b": [X, 2.0]}
CALL = ("calls.function.Function._call_slowly", "calls.signature.bind", "calls.signature.signature_of",
        "calls.definition.Definition.traced_for", "calls.arguments.prepare", "ir.dims.solve_dims",
        "calls.table.Table.find")  # fmt: skip
CODE = ("calls.table.Table._made", "calls.compiled.Compiled.__init__", "calls.table._look_of",
        "runtime.executor.compile_program", "runtime.record.CacheEntry.__init__", "runtime.record.record_key",
        "runtime.record.Record.load", "runtime.executor.Executable.entry", "runtime.entry.fast_entry")  # fmt: skip
PYTHON_ENTRY = ("runtime.shim.", "runtime.entry.", "runtime.buffer.", "runtime.arena.")  # without the extension
MADE = ("runtime.executor._made", "runtime.emit.lower_program", "runtime.record.CacheEntry.keep")


def test_a_cold_call_goes_once_through_each_room() -> None:
    f = energy()
    f(X, P)  # modules are imported
    f = energy()
    found = walked(lambda: f(X[1:], {"a": X[1:], "b": [X[1:], 2.0]}))
    once = (*CALL, *CODE, *MADE, "calls.traced.trace", "ir.identity.identity", "ir.printer.print_program")
    assert {name: found[name] for name in once} == dict.fromkeys(once, 1)


def test_a_call_from_the_disk_lowers_nothing() -> None:
    energy()(X, P)
    f = energy()
    found = walked(lambda: f(X, P))
    once = (*CALL, *CODE, "calls.traced.trace", "ir.identity.identity")
    assert {name: found[name] for name in once} == dict.fromkeys(once, 1)
    assert not any(name in found for name in MADE)


@pytest.mark.parametrize("derive", [lambda f: f, pb.grad, lambda f: pb.vmap(f, in_axes=(0, None))])
def test_a_call_that_was_seen_before_enters_nothing_but_its_entry(derive: Callable[[Any], Any], entries: str) -> None:
    f = derive(energy())
    x = np.stack([X, X]) if f.name.endswith("vmap") else X
    assert isinstance(f, pb.Function)
    f(x, P)
    for call in (lambda: f(x, P), lambda: f(p=P, x=x)):
        found = walked(call)
        others = {name: n for name, n in found.items() if not name.startswith(PYTHON_ENTRY)}
        if entries == "extension":
            assert found == {}
        else:
            assert others == {"calls.function.Function.__call__": 1, "tracing.active.is_tracing": 1}


def test_what_no_entry_knows_has_a_key_and_no_digest() -> None:
    f = pb.function(lambda x: x * 2.0)
    f(X)
    found = walked(lambda: f(memoryview(X)))
    assert {name: found[name] for name in CALL if name != "ir.dims.solve_dims"} == {
        name: 1 for name in CALL if name != "ir.dims.solve_dims"}  # fmt: skip
    assert not any(name in found for name in (*CODE, *MADE, "ir.dims.solve_dims", "ir.identity.digest"))


def test_a_cold_gradient_is_traced_derived_and_compiled_once() -> None:
    pb.grad(energy())(X, P)
    f = pb.grad(energy())
    found = walked(lambda: f(X[1:], {"a": X[1:], "b": [X[1:], 3.0]}))
    once = (*CODE, *MADE, "calls.traced.trace", "calls.traced.derived", "runtime.record.was_derived",
            "ir.printer.print_program")  # fmt: skip
    assert {name: found[name] for name in once} == dict.fromkeys(once, 1)


def test_a_lazy_piece_has_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_LAZY", "wait")  # else another thread finds it

    def piece() -> Any:
        x = lazy.asarray(X)
        return np.asarray(lazy.sum(lazy.tanh(x) * x))

    def twice() -> None:
        for _ in range(3):
            piece()
        lazy.finish_compiling()

    found = walked(twice)
    assert found["runtime.record.record_key"] == found["lazy.kernel.Kernel.__init__"]
