"""Environment variables changed within a process: whatever is compiled afterwards obeys them."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback.calls import table
from pullback.machine import AVX2, SCALAR
from pullback.runtime.executor import GeneralExecutable
from pullback.wasm.compilers import zig


def code_of(f: pb.Function) -> list[object]:
    """The compiled code of a function, latest last."""
    return [compiled.executable for _, compiled in f._table.kept.items()]


@pytest.mark.parametrize("specialize", ["always", "never"])
def test_new_sizes_run_code_for_the_machine_that_is_named_then(specialize, monkeypatch):
    f = pb.function(specialize=specialize)(lambda x: pb.tanh(x) * 2.0)
    monkeypatch.setenv("PULLBACK_MACHINE", "scalar")
    first = f(np.ones(40))
    monkeypatch.setenv("PULLBACK_MACHINE", "avx2")
    second = f(np.ones(41))
    np.testing.assert_allclose(first, second[:40], rtol=1e-14)
    scalar, vectors = code_of(f)
    assert scalar is not vectors
    keys = [key for key, _ in f._table.kept.items()]
    assert [k[-2] for k in keys] == [SCALAR, AVX2]


def test_open_size_code_is_kept_for_each_machine(monkeypatch):
    made = []
    known = table._general
    monkeypatch.setattr(table, "_general", lambda traced: made.append(known(traced)) or made[-1])

    @pb.function(specialize="never")
    def f(x: Float64[pb.Array, "N"]):
        return x + 1.0

    for machine, count in [("scalar", 5), ("scalar", 6), ("avx2", 7), ("scalar", 8)]:
        monkeypatch.setenv("PULLBACK_MACHINE", machine)
        assert f(np.ones(count)).tolist() == [2.0] * count
    assert all(isinstance(m, GeneralExecutable) for m in made)
    assert [m is made[0] for m in made] == [True, True, False, True]


def test_a_machine_that_is_none_is_refused_at_the_next_new_size(monkeypatch):
    f = pb.function(specialize="never")(lambda x: x + 1.0)
    assert f(np.ones(3)).tolist() == [2.0] * 3
    monkeypatch.setenv("PULLBACK_MACHINE", "cray")
    assert f(np.ones(3)).tolist() == [2.0] * 3  # as documented: calls with these arguments keep their code
    with pytest.raises(pb.errors.UsageError, match="PULLBACK_MACHINE=cray is no machine"):
        f(np.ones(4))


def test_zig_is_looked_up_where_the_environment_says_now(monkeypatch):
    monkeypatch.setenv("PULLBACK_ZIG", "/first/python")
    assert zig() == ("/first/python", "-m", "ziglang")
    monkeypatch.setenv("PULLBACK_ZIG", "/second/python")
    assert zig() == ("/second/python", "-m", "ziglang")
