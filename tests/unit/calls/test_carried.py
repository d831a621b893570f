"""Functions pickle, copy, and run in other processes."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.errors import TraceError

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(Path(__file__).parent))
import carried_functions as held  # noqa: E402

X = np.array([1.0, 2.0, 3.0])

FUNCTIONS: dict[str, tuple[Callable[[], Any], tuple[Any, ...], dict[str, Any]]] = {
    "function": (lambda: held.energy, (X,), {"scale": 2.0}),
    "made of a function": (lambda: held.made, (X,), {}),
    "grad": (lambda: pb.grad(held.energy), (X,), {}),
    "value_and_grad": (lambda: pb.value_and_grad(held.energy, wrt="x"), (X,), {}),
    "grad of grad": (lambda: pb.vjp(pb.grad(held.energy)), (X,), {"cotangent": X}),
    "jvp": (lambda: pb.jvp(held.squares), ((X,), (X,)), {}),
    "jacobian": (lambda: pb.jacobian(held.squares, mode="reverse"), (X,), {}),
    "hessian": (lambda: pb.hessian(held.energy), (X,), {}),
    "hvp": (lambda: pb.hvp(held.energy), ((X, 1.0), X), {}),
    "vmap": (lambda: pb.vmap(held.squares, in_axes=1), (X[:, None],), {}),
    "checkpoint": (lambda: pb.grad(pb.checkpoint(held.energy)), (X,), {}),
    "a method": (lambda: pb.function(held.Model().run), (X,), {}),
    "a function of a class": (lambda: held.Model.traced, (held.Model(), X), {}),
    "forward": (lambda: pb.forward_backward(held.squares)[0], (X,), {}),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_pickled_functions_give_the_same(name: str) -> None:
    make, args, keywords = FUNCTIONS[name]
    f = make()
    g = pickle.loads(pickle.dumps(f))
    a, b = f(*args, **keywords), g(*args, **keywords)
    assert repr(a) == repr(b)
    assert copy.deepcopy(f) is f
    assert copy.copy(f) is f


def test_what_a_module_holds_is_itself() -> None:
    assert pickle.loads(pickle.dumps(held.energy)) is held.energy
    assert b"energy" in pickle.dumps(held.energy)
    assert pickle.loads(pickle.dumps(pb.grad(held.energy))) is pb.grad(held.energy)


def test_options_are_carried() -> None:
    assert pickle.loads(pickle.dumps(held.made)).program().settings.memory == "less"


def test_sparse_derivatives() -> None:
    jacobian = pickle.loads(pickle.dumps(pb.jacobian(held.squares, sparse=True)))
    np.testing.assert_array_equal(jacobian(X).to_dense(), np.diag(2 * X))


def test_a_local_function_says_why_not() -> None:
    f = pb.function(lambda x: x + 1)
    with pytest.raises(TraceError) as caught:
        pickle.dumps({"f": f})
    assert str(caught.value) == (
        "TraceError [E151] lambda cannot be pickled: no module holds it under its name "
        "'test_a_local_function_says_why_not.<locals>.<lambda>'\n"
        "  try: define it at the top of a module; `cloudpickle`, which joblib uses, carries it by value"
        "      See `pullback explain-error E151`"
    )


def test_cloudpickle_carries_local_functions() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    f = pb.function(lambda x: x + 1)
    assert pickle.loads(cloudpickle.dumps(pb.vmap(f)))(X).tolist() == (X + 1).tolist()


def test_spawned_processes() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(pb.grad(held.energy), [X, 2 * X])[1].tolist() == (4 * X).tolist()


SCRIPT = """
import numpy as np, pullback as pb
from jaxtyping import Float64
from pullback import Array

@pb.function
def double(x: Float64[Array, "N"]):
    return 2 * x

if __name__ == "__main__":
    import multiprocessing
    from joblib import Parallel, delayed
    X = np.ones(2)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(double, [X])[0].tolist())
    print(Parallel(n_jobs=2)(delayed(double)(X * k) for k in range(2))[1].tolist())
"""


@pytest.mark.slow
def test_scripts_with_joblib(tmp_path: Path) -> None:
    pytest.importorskip("joblib")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("[2.0, 2.0]\n[2.0, 2.0]\n", 0), done.stderr[-2000:]
