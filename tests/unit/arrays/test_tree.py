"""Trees at the surface."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from pullback.tracing import tree


class Pair(NamedTuple):
    left: object
    right: object


@dataclass(frozen=True)
class Box:
    inside: object
    label: object


TREES = [
    1,
    (),
    [],
    {},
    None,
    (1, 2),
    [1, [2, (3,)]],
    {"b": 1, "a": {"z": 2}},
    Pair(1, {"x": 2}),
    Box([1, 2], None),
    {1: Box(1, 2), 2: Pair(3, None)},
]


@pytest.mark.parametrize("x", TREES, ids=repr)
def test_unflatten_undoes_flatten(x):
    leaves, structure = tree.flatten(x)
    assert tree.unflatten(structure, leaves) == x
    assert len(tree.leaf_paths(structure, "x")) == len(leaves) == len(tree.leaf_names(structure))
    assert hash(structure) == hash(tree.flatten(x)[1])


def test_dicts_are_ordered_by_key():
    a, b = tree.flatten({"a": 1, "b": 2}), tree.flatten({"b": 2, "a": 1})
    assert a == b == ([1, 2], a[1])


def test_structures_differ_by_kind_and_type():
    different = [tree.flatten(x)[1] for x in ((1, 2), [1, 2], Pair(1, 2), Box(1, 2), {"left": 1, "right": 2})]
    assert len(set(different)) == len(different)


def test_paths_and_names():
    structure = tree.flatten({"net": Pair([1, 2], Box(3, 4))})[1]
    assert tree.leaf_paths(structure, "p") == [
        "p['net'].left[0]",
        "p['net'].left[1]",
        "p['net'].right.inside",
        "p['net'].right.label",
    ]
    assert tree.leaf_names(structure, "p") == ["left_0", "left_1", "inside", "label"]
    assert str(structure) == "{'net': Pair(left=[*, *], right=Box(inside=*, label=*))}"


def test_map_leaves():
    assert tree.map_leaves(lambda a, b: a + b, Pair(1, [2]), Pair(10, [20])) == Pair(11, [22])
    with pytest.raises(ValueError, match="different structure"):
        tree.map_leaves(lambda a, b: a, (1,), [1])


def test_an_ordered_dict_is_its_own_kind():
    assert tree.flatten(OrderedDict(a=1))[1] != tree.flatten({"a": 1})[1]
