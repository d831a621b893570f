"""Results keep their structure: every kind of tree, from the first call on, new or written into `out`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.errors import ShapeError
from pullback.tracing import tree


class Pair(NamedTuple):
    left: Any
    right: Any


class Single(NamedTuple):
    only: Any


@dataclass
class Box:
    inside: Any


TREES: dict[str, Callable[[Any, Any], Any]] = {
    "array": lambda u, v: u,
    "tuple of one": lambda u, v: (u,),
    "list of one": lambda u, v: [u],
    "dict of one": lambda u, v: {"a": u},
    "NamedTuple of one": lambda u, v: Single(u),
    "dataclass": lambda u, v: Box(u),
    "tuple": lambda u, v: (u, v),
    "list": lambda u, v: [u, v],
    "dict": lambda u, v: {"b": u, "a": v},
    "ordered dict": lambda u, v: OrderedDict(b=u, a=v),
    "NamedTuple": lambda u, v: Pair(u, v),
    "tuple in tuple": lambda u, v: ((u,),),
    "nested": lambda u, v: (u, [{"a": v}]),
    "None": lambda u, v: (None, u),
    "empty tuple": lambda u, v: ((), u),
}


@pytest.mark.parametrize("shape", [(), (3,)], ids=["numbers", "arrays"])
@pytest.mark.parametrize("name", TREES)
def test_structure_from_the_first_call_on(name: str, shape: tuple[int, ...]) -> None:
    make = TREES[name]
    f = pb.function(lambda x, y: make(2 * x, y + 1))
    x, y = np.full(shape, 1.5), np.full(shape, 4.0)
    leaves, structure = tree.flatten(make(2 * x, y + 1))
    for _ in range(3):
        found, own = tree.flatten(f(x, y))
        assert own == structure
        assert [a.tolist() for a in found] == [a.tolist() for a in leaves]
    for _ in range(3):
        places = [np.zeros(shape) for _ in leaves]
        out = tree.unflatten(structure, places)
        assert f(x, y, out=out) is out
        assert [a.tolist() for a in places] == [a.tolist() for a in leaves]


@pytest.mark.parametrize("name", [name for name in TREES if name != "array"])
def test_out_of_another_structure_is_refused_each_time(name: str) -> None:
    f = pb.function(lambda x, y: TREES[name](2 * x, y + 1))
    x = np.ones(3)
    for _ in range(3):
        with pytest.raises(ShapeError, match="E139"):
            f(x, x, out=np.zeros(3))


def test_a_gradient_of_one_of_several_is_a_tuple() -> None:
    def energy(w: Float64[Array, "N"], x: Float64[Array, "N"]) -> Any:
        return pb.sum(w * x)

    gradient = pb.grad(energy, wrt=("w",))
    for _ in range(3):
        (g,) = gradient(np.ones(2), np.array([3.0, 4.0]))
        assert g.tolist() == [3.0, 4.0]


def test_a_gradient_is_shaped_like_its_parameter() -> None:
    given = OrderedDict(w=np.ones(2), b=np.ones(2))
    gradient = pb.grad(lambda p: pb.sum(p["w"] * p["b"]))
    for _ in range(3):
        found = gradient(given)
        assert type(found) is OrderedDict
        assert list(found) == ["w", "b"]
