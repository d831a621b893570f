"""NumPy's functions on traced values: those of the package where there is one of the same arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.errors import TraceError
from tests.unit.lazy.test_numpy_calls import arrays, calls, leaves

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


REFUSED = """
np.argpartition(x, 2).shape   np.around(x, 1)   np.bincount(k)   np.bincount(k, y[:5])   np.bincount(k, y[:5], 7)
np.bincount(k, minlength=9)   np.concatenate([k, x])   np.max(x, initial=9.0)   np.mean(A, 0, np.float32)
np.meshgrid(x, y, sparse=True)   np.nonzero(A > 0)   np.ravel(A)   np.quantile(x, 0.3, method="lower")
np.repeat(A, [1, 0, 2], 0)   np.reshape(A, (4, 3), order="F")   np.round(x, 1)   np.sum(A, where=A > 0)   np.sum(m)
np.unique_all(k)   np.unique_counts(k)   np.unique_inverse(k)   np.sort(np.unique_values(k))   np.where(m)
np.result_type(k, x)   np.linalg.eigvalsh(S + np.tril(A[:, :3]), "U")   np.linalg.lstsq(A.T, x[:4])[0]
np.linalg.svd(A, compute_uv=False)   np.fabs(k - 2)   np.float_power(k, 2)   np.fmod(x, 1.5)   np.heaviside(x, 0.5)
np.maximum.accumulate(x)   np.logical_and(k, m)   np.subtract.outer(x, y)   np.sqrt(k)   np.divide(k, 2)
np.true_divide(k, 2)   np.cbrt(x)   np.log1p(k)   np.dot(x, [1, 2, 3, 4, 5, 6])
"""


@pytest.mark.slow
@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="older versions lack some of the functions")
def test_each_call_gives_what_numpy_gives_or_is_refused() -> None:
    """A call of every function that has a counterpart, parameters by position included."""
    values, refused = arrays(np.asarray), []
    for call in calls():
        wanted = list(leaves(eval(call, {"np": np, **values})))

        def f(*given: Any, call: str = call) -> Any:
            return eval(call, {"np": np, **dict(zip(values, given, strict=True))})

        try:
            found = list(leaves(pb.function(f).interpret(*values.values())))
        except pb.PullbackError:
            refused.append(call)
            continue
        assert len(found) == len(wanted), call
        for a, b in zip(found, wanted, strict=True):
            if not isinstance(b, np.dtype):
                assert np.shape(a) == np.shape(b), call
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-12, err_msg=call)
    assert refused == calls(REFUSED)
