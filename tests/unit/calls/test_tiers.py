"""`PULLBACK_TIERS=on`: the first call runs in NumPy, the second waits for C, and all later ones run it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.calls import tiers
from pullback.errors import CompilerError, UsageError
from pullback.ir import contracting
from pullback.runtime import executor
from pullback.runtime.compile import compiler_command

pytestmark = [pytest.mark.usefixtures("on"), pytest.mark.skipif(compiler_command() is None, reason="no C compiler")]
X = np.linspace(-1.0, 1.0, 6).reshape(2, 3)
W = np.linspace(-1.0, 1.2, 12).reshape(3, 4)


@pytest.fixture
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First calls are interpreted, and the cache is empty."""
    monkeypatch.setenv("PULLBACK_TIERS", "on")
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that compile, as they do so."""
    return _counted(monkeypatch, lambda *args: None)


def _counted(monkeypatch: pytest.MonkeyPatch, before: Any) -> list[str]:
    made: list[str] = []
    compile_program = executor.compile_program

    def counted(*args: Any) -> Any:
        made.append(threading.current_thread().name)
        before(*args)
        return compile_program(*args)

    monkeypatch.setattr(executor, "compile_program", counted)
    return made


def layer() -> Any:
    return pb.value_and_grad(pb.function(lambda x, w: pb.sum(pb.tanh(x @ w) ** 2)), wrt="w")


def test_the_first_call_needs_no_compiler(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    starts = threading.Event()
    compile_now = tiers.Interim._compile

    def compile_later(interim: tiers.Interim) -> None:
        assert starts.wait(60)
        compile_now(interim)

    monkeypatch.setattr(tiers.Interim, "_compile", compile_later)
    f = layer()
    value, gradient = f(X, W)  # the compiler has not begun
    assert compiled == []
    y = np.tanh(X @ W)
    np.testing.assert_allclose(value, (y**2).sum(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gradient, X.T @ (2 * y * (1 - y**2)), rtol=1e-12, atol=1e-12)
    starts.set()
    second = f(X, W)
    assert compiled == ["pullback compiler"]
    np.testing.assert_allclose(second[1], gradient, rtol=1e-12, atol=1e-12)


def test_all_calls_but_the_first_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    f = layer()
    results = [f(X, W)[1].tobytes() for _ in range(4)]
    monkeypatch.setenv("PULLBACK_TIERS", "off")
    assert set(results[1:]) == {layer()(X, W)[1].tobytes()}


def test_code_in_the_cache_is_used_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    f = layer()
    f(X, W)
    second = f(X, W)[1].tobytes()
    interpreted: list[int] = []
    monkeypatch.setattr(tiers, "_run", lambda *args: interpreted.append(1))
    assert layer()(X, W)[1].tobytes() == second
    assert interpreted == []


def test_off_is_the_default(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULLBACK_TIERS")
    layer()(X, W)
    assert compiled == ["MainThread"]


def test_what_takes_too_long_is_compiled(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate was wrong: the call is given up, and waits for the compiler."""
    monkeypatch.setattr(tiers, "PATIENCE", 0.0)
    f = layer()
    first = f(X, W)[1].tobytes()
    assert compiled == ["pullback compiler"]
    assert f(X, W)[1].tobytes() == first


@pytest.mark.parametrize("options", [{"memory_limit": 10**6}, {"workspace_limit": 10**6}, {"debug": True}])
def test_limits_and_traps_need_c(options: dict[str, Any], compiled: list[str]) -> None:
    pb.function(lambda x: pb.sum(x * x), **options)(X)
    assert compiled == ["MainThread"]


def test_work_above_the_bound_is_compiled(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "SPEED", 1.0)
    layer()(X, W)
    assert compiled == ["MainThread"]


def test_long_loops_are_compiled(compiled: list[str]) -> None:
    f = pb.function(lambda x: pb.fold(10**6, x, lambda s, t: s * 0.5 + x))
    np.testing.assert_allclose(f(X), 2 * X)
    assert compiled == ["MainThread"]


def test_results_go_to_out_and_keep_their_tree() -> None:
    f = pb.function(lambda p: {"a": p["x"] + 1, "b": (pb.sum(p["x"]), p["n"] * 2)})
    for _ in range(2):  # interpreted, then C
        found = f({"x": X, "n": 3})
        np.testing.assert_array_equal(found["a"], X + 1)
        assert found["b"][1] == 6
        assert isinstance(found["b"][0], np.floating)
    g, out = pb.function(lambda x: x * 2), np.empty_like(X)
    for _ in range(2):
        out[...] = 0
        assert g(X, out=out) is out
        np.testing.assert_array_equal(out, 2 * X)


def test_a_function_of_a_donated_array() -> None:
    f, x = pb.function(lambda x: x + 1, donate="x"), X.copy()
    for k in range(1, 4):
        f(x, out=x)
        np.testing.assert_array_equal(x, X + k)


def test_complex_numbers_and_captured_arrays() -> None:
    f = pb.function(lambda z: z * pb.asarray(W[:2, :3]) + 1j)
    for _ in range(2):
        np.testing.assert_allclose(f(X + 2j), (X + 2j) * W[:2, :3] + 1j)


def test_an_index_out_of_range_is_an_error_each_time() -> None:
    f = pb.function(lambda x, i: x[i])
    for _ in range(3):
        with pytest.raises(pb.errors.IndexRangeError, match=r"\[E401\]"):
            f(np.ones(3), 5)
    assert f(np.ones(3), 2) == 1


def test_threads_may_call_at_once(compiled: list[str]) -> None:
    f, found = layer(), []
    threads = [threading.Thread(target=lambda: found.append(f(X, W)[1])) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 6
    for a in found:
        np.testing.assert_allclose(a, found[0], rtol=1e-12, atol=1e-12)
    assert len(compiled) == 1


@pytest.mark.parametrize("what", ["the C compiler was killed by signal 9", "no folder can be written"])
def test_a_compiler_that_fails_leaves_calls_interpreted(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise CompilerError("E411", what, remedy="")

    _counted(monkeypatch, fail)
    f = pb.function(lambda x: x + 1)
    np.testing.assert_array_equal(f(X), X + 1)
    with pytest.warns(RuntimeWarning, match=f"calls run in the interpreter, which is slow: {what}"):
        np.testing.assert_array_equal(f(X), X + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            np.testing.assert_array_equal(f(X), X + 1)


def test_without_threads_the_second_call_compiles(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    f = pb.function(lambda x: x + 1)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(3):
            np.testing.assert_array_equal(f(X), X + 1)
    assert compiled == ["MainThread"]


def test_other_errors_of_the_compiler_are_raised_where_code_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise UsageError("E601", "a setting", remedy="")

    _counted(monkeypatch, fail)
    f = pb.function(lambda x: x + 1)
    np.testing.assert_array_equal(f(X), X + 1)
    with pytest.raises(UsageError, match="a setting"):
        f(X)


def test_without_a_compiler_products_are_those_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/no/such/compiler")
    products: list[int] = []
    contracted = contracting.contracted
    monkeypatch.setattr(contracting, "contracted", lambda *a: (products.append(1), contracted(*a))[1])
    x = np.random.default_rng(0).normal(size=(40, 30))
    f = pb.function(lambda x: x @ x.T)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            np.testing.assert_allclose(f(x), x @ x.T)
    assert products


def test_a_wrong_value_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_TIERS", "yes")
    with pytest.raises(UsageError) as caught:
        pb.function(lambda x: x + 1)(X)
    assert str(caught.value) == ("UsageError [E602] PULLBACK_TIERS=yes is neither on nor off\n"
                                 "  try: off or on      See `pullback explain-error E602`")


@pytest.mark.slow
def test_a_program_that_ends_after_its_first_call(tmp_path: Path) -> None:
    """The process is silent, and leaves its code in the cache."""
    text = "import numpy as np, pullback as pb\nprint(pb.function(lambda x: pb.sum(x * x))(np.ones(5)))\n"
    environment = {**os.environ, "PULLBACK_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-W", "error", "-c", text], env=environment, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "5.0\n", "")
    assert list((tmp_path / "cache").rglob("*.so"))
