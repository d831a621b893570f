"""Tracebacks hold the user's own frames, and of the package's three at most."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array

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


def test_all_frames_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_TRACEBACK", "full")
    with pytest.raises(TypeError) as caught:
        picked(X)
    assert sum(f.filename.startswith(PACKAGE) for f in traceback.extract_tb(caught.value.__traceback__)) > 1
