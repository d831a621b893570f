"""Lazy arrays: building, forcing, and derivatives through Python's control flow."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback import DerivativeError, ShapeError, lazy

ROOT = Path(__file__).resolve().parents[3]


def test_nothing_runs_until_a_value_is_wanted() -> None:
    before = lazy.stats()
    x = lazy.asarray([[1.0, 2.0], [3.0, 4.0]])
    y = lazy.sum(lazy.exp(x * 2.0 - 1.0) @ x, axis=0)
    assert (lazy.stats() - before).kernels == 0
    np.testing.assert_allclose(y, (np.exp(2 * np.array(x) - 1) @ np.array(x)).sum(0), rtol=1e-14)
    assert (lazy.stats() - before).kernels == 1


def test_what_nobody_holds_is_not_stored_and_what_is_held_is_computed_once() -> None:
    x = lazy.asarray([1.0, 2.0])
    held = lazy.exp(x + 1.0)
    wanted = held * lazy.tanh(x)
    wanted.numpy()
    assert held.value is not None
    before = lazy.stats()
    held.numpy()
    assert (lazy.stats() - before).kernels == 0


def test_shapes_that_disagree_are_refused_when_the_node_is_built() -> None:
    x = lazy.ones((2, 3))
    with pytest.raises(ShapeError, match=r"E102.*\n.*test_lazy"):
        x @ x


def test_grad_follows_control_flow() -> None:
    def f(x: Any) -> Any:
        while x < 100.0:
            x = x * x if x > 1.5 else x + 1.0
        return x

    assert float(lazy.grad(f)(3.0)) == 8 * 3.0**7
    assert float(lazy.grad(f)(1.0)) == 8 * 2.0**7


@pytest.mark.slow
@pytest.mark.usefixtures("few_objects")
def test_a_chain_and_diamonds_take_linear_time() -> None:
    gc.collect()  # of other tests
    before = lazy.stats()
    x = lazy.Weight(np.array(0.5))
    h = x * 1.0
    for _ in range(100_000):
        h = h * 0.9999 + 0.00001
    lazy.backward(h)
    assert x.grad == pytest.approx(0.9999**100_000, rel=1e-9)
    x.grad = None
    h = x * 1.0
    for _ in range(60):
        h = h * 0.5 + h * 0.5
    lazy.backward(h)
    assert x.grad == 1.0
    del h
    assert (lazy.stats() - before).live_bytes == 0


def test_a_network_that_looks_at_its_values_has_the_derivative_of_what_ran() -> None:
    r = np.random.default_rng(0)

    def net(w: Any) -> Any:
        h = lazy.ones((4,))
        for _ in range(5):
            h = lazy.tanh(w @ h)
            h = h * 2.0 if h[0] > 0 else -h
        return lazy.sum(h * h)

    w, direction = r.normal(size=(4, 4)), r.normal(size=(4, 4))
    own = float(np.sum(lazy.grad(net)(w).numpy() * direction))
    above, below = (float(net(lazy.asarray(w + s * 1e-6 * direction))) for s in (1, -1))
    assert own == pytest.approx((above - below) / 2e-6, rel=1e-7)


def test_what_has_run_backward_is_released() -> None:
    w = lazy.Weight(np.array([1.0, 2.0]))
    h = w * w
    loss = lazy.sum(h)
    h.numpy()
    lazy.backward(loss)
    with pytest.raises(DerivativeError, match="E702"):
        lazy.backward(lazy.sum(h * 2.0))


def test_a_weight_that_changed_is_refused() -> None:
    w = lazy.Weight(np.array([1.0, 2.0]), name="w")
    loss = lazy.sum(w * w)
    w.set_value(np.array([3.0, 4.0]))
    with pytest.raises(DerivativeError, match=r"E703.*w was changed"):
        lazy.backward(loss)


def test_an_operation_in_python_with_several_results() -> None:
    class Split(lazy.Foreign):
        def result(self, x: Any) -> Any:
            return [(x.shape, x.dtype), ((), x.dtype)]

        def forward(self, x: Any) -> Any:
            return [x * 3.0, x.sum()], x.shape

        def backward(self, saved: Any, gradients: Any) -> Any:
            a, b = gradients
            return ((0.0 if a is None else 3.0 * a) + (0.0 if b is None else b * np.ones(saved)),)

    x = np.array([1.0, 2.0])

    def f(x: Any) -> Any:
        a, b = Split()(x * 1.0)
        return lazy.sum(a * b)

    np.testing.assert_allclose(lazy.grad(f)(x), 6 * x.sum() * np.ones(2))
    assert lazy.grad(lambda x: Split()(x)[1])(x).tolist() == [1.0, 1.0]


def test_an_expert_with_weights_of_its_own_gets_its_delta() -> None:
    class Expert(lazy.Foreign):
        trained = True
        seen: Any = None

        def result(self, x: Any) -> Any:
            return x.shape, x.dtype

        def forward(self, x: Any) -> Any:
            return 2.0 * x, x

        def backward(self, saved: Any, gradient: Any) -> Any:
            self.seen = saved * gradient
            return (2.0 * gradient,)

    expert = Expert()
    lazy.backward(lazy.sum(expert(np.array([1.0, 2.0])) * 5.0))
    assert expert.seen.tolist() == [5.0, 10.0]


LEAVING = """
import threading
import numpy as np
from pullback import lazy

x = np.ones(8)
for n in range(4):
    for _ in range(3):
        y = lazy.asarray(x)
        for _ in range(n + 1):
            y = lazy.sin(y) * y
        np.asarray(y)
print([t.name for t in threading.enumerate() if t.daemon])
"""


@pytest.mark.slow
def test_a_program_ends_while_kernels_are_compiled(tmp_path: Path) -> None:
    """The thread that compiles is not left where it may hold a lock that the end of the process needs."""
    environment = {**os.environ, "PULLBACK_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", LEAVING]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "['pullback lazy compiler']\n", "")


LATE = """
import threading
from concurrent.futures import ThreadPoolExecutor
from pullback.lazy import kernel

class Late:
    def compile(self):
        threading.main_thread().join()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(abs, (1, 2)))

kernel._COMPILER.put(Late())
"""


def test_a_kernel_that_comes_too_late_to_be_compiled_is_left_in_silence() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", LATE], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_constant_made_of_a_gradient_inside_of_another() -> None:
    """The closure of the second gradient reads an expression that was made around it."""

    def f(x: Any, y: Any) -> Any:
        first = lazy.grad(lambda t: lazy.sin(t) * x)(y)
        return first + lazy.grad(lambda t: lazy.sin(t) * y + t * lazy.stop_gradient(first))(y)

    np.testing.assert_allclose(lazy.grad(f)(0.5, 0.7), np.cos(0.7), rtol=1e-14)
    np.testing.assert_allclose(lazy.grad(f, 1)(0.5, 0.7), np.cos(0.7) - (0.5 + 0.7) * np.sin(0.7), rtol=1e-14)
