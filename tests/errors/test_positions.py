"""Errors in arguments point at the call, wherever and whenever the function was made."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array

SQUARES = pb.function(lambda x: pb.sum(x * x))


@pb.function
def annotated(x: Float64[Array, "N"]):
    """A function whose arguments are checked against an annotation."""
    return pb.sum(x * x)


MADE = {
    "grad": pb.grad,
    "value_and_grad": pb.value_and_grad,
    "jacobian": pb.jacobian,
    "jacfwd": pb.jacfwd,
    "jacrev": pb.jacrev,
    "hessian": pb.hessian,
    "sparse": lambda f: pb.jacobian(f, sparse=True),
    "colored": lambda f: pb.jacobian(f, sparse="colored"),
    "sparse hessian": lambda f: pb.hessian(f, sparse=True),
    "vmap": pb.vmap,
    "checkpoint": pb.checkpoint,
    "interpret": lambda f: f.interpret,
}
MADE_EARLY = {(name, f): make(f) for name, make in MADE.items() for f in (SQUARES, annotated)}
WRONG = {
    "a list of integers": ([1, 2, 3], SQUARES),
    "integers": (np.arange(3), SQUARES),
    "a number": (3, SQUARES),
    "an object": (object(), SQUARES),
    "strings": (["a"], annotated),
    "integers for floats": (np.arange(3), annotated),
    "None": (None, annotated),
    "a complex array": (np.ones(3, complex), annotated),
    "ragged": ([[1.0], [1.0, 2.0]], annotated),
    "three axes": (np.ones((2, 2, 2)), annotated),
}


def called(f, x):
    """The call at which errors point."""
    return f(x)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", MADE)
def test_the_call_is_shown(name, wrong):
    x, f = WRONG[wrong]
    try:
        called(MADE_EARLY[name, f], x)
    except pb.errors.PullbackError as error:
        assert error.position is not None
        place = str(error).partition("--> ")[2].partition("\n")[0]
        assert place.endswith(f"test_positions.py:{inspect.getsourcelines(called)[1] + 2}:12")
    except TypeError as error:
        assert "operand" in str(error) or "sequence" in str(error)  # of Python, in the user's function
    else:
        assert f is SQUARES and name in ("vmap", "checkpoint", "interpret")


SIZES = {
    "c_source": lambda n: annotated.c_source(N=n),
    "memory": lambda n: annotated.memory(N=n),
    "explain": lambda n: annotated.explain(N=n),
    "export": lambda n: annotated.export("nowhere", N=n),
    "export_microcontroller": lambda n: annotated.export_microcontroller("nowhere", N=n),
}


@pytest.mark.parametrize("size", [-1, 1.5, "a", True])
@pytest.mark.parametrize("name", SIZES)
def test_a_dim_is_a_whole_number(name, size):
    with pytest.raises(pb.errors.ShapeError) as raised:
        SIZES[name](size)
    assert raised.value.what == f"annotated: N={size!r} is no size"
    assert (raised.value.code, raised.value.remedy) == ("E105", "an int from 0 up")


def test_vmap_takes_lists_where_arrays_are_annotated():
    assert pb.vmap(annotated)([[1, 2], [3, 4]]).tolist() == [5.0, 25.0]
    with pytest.raises(pb.errors.ShapeError, match="x has 0 axes, its annotation"):
        pb.vmap(annotated)([1.0, 2.0])
