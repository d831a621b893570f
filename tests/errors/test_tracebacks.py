"""Tracebacks hold the user's own frames, and of the package's three at most."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array, data, nn
from pullback.names import found

PACKAGE = str(Path(pb.__file__).parent)


def frames(act: Callable[[], Any], kind: type[BaseException] = Exception) -> list[str]:
    """The names of the functions in the traceback, those of the package in brackets."""
    with pytest.raises(kind) as caught:
        act()
    found = traceback.extract_tb(caught.value.__traceback__)[1:]  # without this function
    names = [f"({f.name})" if f.filename.startswith(PACKAGE) else f.name for f in found]
    assert sum(n.startswith("(") for n in names) <= 3, names
    return [n for n in names if not n.startswith("(")]


X = np.zeros(3)


def test_a_definition() -> None:
    def define() -> None:
        @pb.function
        def f(x: Float64[Array, "N"], y: Float64[Array, "M"]) -> Any:
            return helper(x, y)

    def helper(x: Any, y: Any) -> Any:
        return pb.build(3, lambda i: x + y)

    assert frames(define) == ["define", "f", "helper", "<lambda>"]


@pb.function
def picked(x: Float64[Array, "N"], i: Int64[Array, ""]) -> Any:
    return x[i]


@pb.function
def unchecked(x: Any) -> Any:
    return pb.sin(x) + raising(x)


def raising(x: Any) -> Any:
    raise KeyError("mine")


@pytest.mark.parametrize("act", [
    lambda: picked(X),
    lambda: picked(X, X),
    lambda: picked(X, np.array(7)),
    lambda: picked(X, np.array(7), out=np.zeros(())),
    lambda: pb.grad(picked, wrt="i")(X, np.array(0)),
    lambda: pb.grad(picked, wrt=0.5),
    lambda: pb.vmap(picked)(X, np.zeros((2, 3))),
    lambda: pb.jacobian(picked, mode="none")(X, np.array(0)),
    lambda: pb.jvp(picked)(X, X),
    lambda: pb.hessian(picked, argnums=1),
    lambda: picked.program(X),
])  # fmt: skip
def test_calls(act: Callable[[], Any]) -> None:
    assert frames(act) == ["<lambda>"]


def test_what_the_user_raises_is_his() -> None:
    with pytest.raises(KeyError, match="mine"):
        unchecked(X)
    assert frames(lambda: unchecked(X)) == ["<lambda>", "unchecked", "raising"]


@pytest.mark.parametrize("act", [
    lambda: nn.sequential(nn.flatten(), nn.conv(4, 3)).on("N 1 8 8"),
    lambda: nn.adam(lr=0.1),
    lambda: data.load("there is none"),
    lambda: nn.fit(nn.dense(1), nn.mse_loss, (X, X), optimizer=nn.sgd(0.1), epochs=1, seed=-1),
    lambda: pb.sum(X, dim=0),
])  # fmt: skip
def test_networks_and_data(act: Callable[[], Any]) -> None:
    assert frames(act) == ["<lambda>"]


def test_the_class_is_named_once() -> None:
    """Callers that print the class before the message, such as tracebacks, get a message without it."""
    with pytest.raises(pb.ShapeError) as caught:
        picked.program(X, np.zeros((2, 2), np.int64))
    assert str(caught.value).startswith("ShapeError [E")
    assert traceback.format_exception_only(caught.value)[0].startswith("pullback.errors.ShapeError: [E")
    code = "import pullback as pb; pb.sine"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pullback.errors.UnknownNameError: [E146] pullback has no 'sine'" in ended.stderr


def test_guarded_functions_and_classes_stay_what_they_were() -> None:
    """Guards keep signatures, kinds and names, and what they guard can be pickled."""
    assert list(inspect.signature(nn.adam).parameters) == ["learning_rate", "betas", "eps"]
    assert list(inspect.signature(nn.mse_loss).parameters) == ["input", "target", "reduction"]
    assert isinstance(nn.adam(0.1), nn.Optimizer)
    assert pickle.loads(pickle.dumps(nn.adam(0.1))) == nn.adam(0.1)
    for f in (nn.mse_loss, pb.sin, pb.random.normal, data.load, nn.models.lenet, pb.linalg.solve):
        assert pickle.loads(pickle.dumps(f)) is f
    assert found("sin") is pb.sin, "asking again for a name gives the same function"


def test_an_error_inside_of_a_property_is_not_hidden() -> None:
    """A name that is unknown in a layer is the error, not the property that ran the layer."""
    with pytest.raises(pb.UnknownNameError, match="pullback has no 'sine'"):
        _ = nn.sequential(lambda x: pb.sine(x), nn.dense(3)).on("N 4").type


def test_all_frames_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_TRACEBACK", "full")
    with pytest.raises(TypeError) as caught:
        picked(X)
    assert sum(f.filename.startswith(PACKAGE) for f in traceback.extract_tb(caught.value.__traceback__)) > 1
