"""NumPy's functions on traced values: those of the package where there is one of the same arguments."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.errors import TraceError

X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])


@pytest.mark.parametrize("f", [
    lambda x: np.sum(x),
    lambda x: np.sum(x, axis=1),
    lambda x: np.mean(x, axis=0, keepdims=True),
    lambda x: np.concatenate([x, x], axis=1),
    lambda x: np.stack([x, x]),
    lambda x: np.where(x > 0, x, 0.0),
    lambda x: np.cumsum(x, axis=1),
    lambda x: np.clip(x, 0.0, 1.0),
    lambda x: np.reshape(x, (3, 2)),
    lambda x: np.add.reduce(x, axis=0),
    lambda x: np.maximum.reduce(x, axis=1),
    lambda x: np.sin(x) + np.arctan2(x, 2.0) * np.absolute(x),
    lambda x: np.float_power(np.absolute(x), 0.5),
    lambda x: np.matmul(x, np.swapaxes(X, 0, 1)),
    lambda x: divmod(x, 2.0)[0] + divmod(x, 2.0)[1],
    lambda x: np.linalg.inv(x[:, :2]),
    lambda x: round(x[0, 0]) + np.rint(x[1]),
])  # fmt: skip
def test_they_give_what_numpy_gives(f: object) -> None:
    assert callable(f)
    wanted = f(X)
    np.testing.assert_allclose(pb.function(lambda x: f(x))(X), wanted, rtol=1e-14)


def test_arguments_that_only_numpy_takes_are_named() -> None:
    with pytest.raises(TraceError, match=r"numpy.sum is `pb.sum` here, which takes other arguments: .*'where'"):
        pb.function(lambda x: np.sum(x, where=x > 0))(X)
