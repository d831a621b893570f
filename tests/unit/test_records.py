"""The package's own `dataclass` behaves like that of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from pullback.records import dataclass


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 2
    seen: list[int] = dataclasses.field(default_factory=list, compare=False, repr=False)


@dataclass(frozen=True)
class Named(Point):
    name: str = dataclasses.field(kw_only=True)


@dataclass(frozen=True, eq=False, slots=True)
class Slot:
    value: Any
    more: tuple[int, ...] = ()


@dataclass
class Counter:
    start: int
    total: int = dataclasses.field(init=False)
    log: list[str] = dataclasses.field(default_factory=list, init=False)
    step: int = dataclasses.field(default=5, init=False)

    def __post_init__(self) -> None:
        self.total = self.start + 1


def test_arguments_defaults_and_keyword_only_fields() -> None:
    assert (Point(1).y, Point(1, 3).y, Point(y=5, x=4).x) == (2, 3, 4)
    assert Point(1).seen is not Point(1).seen
    named = Named(1, name="a")
    assert (named.x, named.y, named.name) == (1, 2, "a")
    with pytest.raises(TypeError, match=r"Point.__init__\(\) missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional argument"):
        Named(1, 2, [], "a")  # type: ignore[misc]


def test_a_class_with_its_own_equality_has_a_hash_if_it_is_frozen() -> None:
    for decorator in (dataclass, dataclasses.dataclass):

        @decorator(frozen=True)
        class Own:
            x: int

            def __eq__(self, other: object) -> bool:
                return True

        assert Own(1) == Own(2) and hash(Own(1)) == hash(Own(1)) != hash(Own(2))


def test_equality_and_hash_compare_the_fields_of_one_class() -> None:
    assert Point(1, seen=[1]) == Point(1, 2)
    assert Point(1) != Point(2)
    assert Point(1) != Named(1, name="a")
    assert {Point(1): "a"}[Point(1, seen=[3])] == "a"
    assert Slot(1) != Slot(1)
    assert Counter(1) == Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter(1))


def test_frozen_fields_stay() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        Point(1).x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'value'"):
        del Slot(1).value
    with pytest.raises(dataclasses.FrozenInstanceError):
        Named(1, name="a").y = 3  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        Point(1).other = 2  # type: ignore[attr-defined]

    class Further(Point):
        """A class that is no dataclass may have further attributes, and does not change fields either."""

    further: Any = Further(1)
    further.other = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        further.x = 2


def test_classes_of_both_kinds_derive_from_each_other() -> None:
    @dataclasses.dataclass(frozen=True)
    class Standard(Point):
        z: int = 5

    @dataclass(frozen=True)
    class Last(Standard):
        t: int = 6

    assert (Last(1).x, Last(1).z, Last(1, t=8).t) == (1, 5, 8)
    assert Last(1) == Last(1, seen=[2]) != Standard(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Last(1).x = 2  # type: ignore[misc]
    with pytest.raises(TypeError, match="cannot inherit"):

        @dataclass
        class Changing(Point):
            z: int = 5


def test_fields_are_those_of_the_standard_library() -> None:
    assert [f.name for f in dataclasses.fields(Named)] == ["x", "y", "seen", "name"]
    assert dataclasses.replace(Point(1), y=7) == Point(1, 7)
    assert dataclasses.replace(Slot(1), more=(2,)).more == (2,)
    assert repr(Named(1, name="a")) == "Named(x=1, y=2, name='a')"
    assert Point.__match_args__ == ("x", "y", "seen")  # type: ignore[attr-defined]
    assert (Counter(3).total, Counter(3).log, Counter(3).__dict__["step"]) == (4, [], 5)


def test_methods_of_the_class_itself_stay() -> None:
    @dataclass(frozen=True)
    class Own(Point):
        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return False

        def __hash__(self) -> int:
            return 7

    assert (repr(Own(1)), Own(1) == Own(1), hash(Own(1))) == ("own", False, 7)


def test_copies_and_pickles() -> None:
    assert copy.copy(Point(1, 4)) == Point(1, 4)
    assert pickle.loads(pickle.dumps(Named(1, name="b"))) == Named(1, name="b")
    assert copy.deepcopy(Slot([1], (2,))).more == (2,)
