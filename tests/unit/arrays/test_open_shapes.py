"""Shapes that depend on data are refused, with what to write instead; and what is written instead works."""

import numpy as np
import pytest

import pullback as pb

X = np.array([3.0, 0.0, 3.0, 5.0])


@pytest.mark.parametrize("name", ["nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"])
def test_refused(name: str) -> None:
    with pytest.raises(pb.ShapeError, match=r"\[E106\] " + name + ": how many .* depends on the elements") as caught:
        pb.function(lambda x: getattr(pb, name)(x))(X)
    assert "try: `pb." in str(caught.value) or "try: `s = pb." in str(caught.value)


def test_what_the_messages_say() -> None:
    places = pb.function(lambda x: (pb.argsort(x == 0), pb.count_nonzero(x)))(X)
    assert places[0][: places[1]].tolist() == np.nonzero(X)[0].tolist()
    numbers = pb.function(lambda x: pb.searchsorted(pb.sort(x), x))(X)
    assert numbers.tolist() == [1, 0, 1, 3]

    def begins(x):
        s = pb.sort(x)
        return s[1:] != s[:-1]

    assert pb.function(begins)(X).tolist() == [True, False, True]


def test_next_to_a_number() -> None:
    x, y = np.array([0.0, 1.0, -1.0, np.inf, 2.0]), np.array([1.0, 0.0, -2.0, 0.0, 2.0])
    f = pb.function(lambda x, y: pb.nextafter(x, y))
    for call in (f, f.interpret):
        np.testing.assert_array_equal(call(x, y), np.nextafter(x, y))
        single = x.astype("f4"), y.astype("f4")
        np.testing.assert_array_equal(call(*single), np.nextafter(*single))
    assert pb.grad(pb.function(lambda x, y: pb.sum(f(x, y))))(x, y).tolist() == [1, 1, 1, 1, 1]
    assert pb.function(lambda x: pb.empty_like(x))(x).tolist() == pb.function(lambda: pb.empty(5))().tolist()
