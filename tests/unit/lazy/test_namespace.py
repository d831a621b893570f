"""The namespace: every function of the array API standard on lazy arrays, and functions of SciPy and scikit-learn."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import pullback as pb
from pullback import TraceError, UnknownNameError, lazy
from tests.support.versions import ARRAY_API
from tests.table.rows import Row
from tests.table.standard import CONSTANTS, DTYPES, INSPECTED, REFUSED, SHAPES, STANDARD, numbers

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
UNSET = {"empty", "empty_like"}  # their elements are any


def leaves(x: Any) -> list[Any]:
    return [z for y in x for z in leaves(y)] if isinstance(x, tuple | list) else [x]


@ARRAY_API
def test_every_function_of_the_standard() -> None:
    """One call of each, of the first element type that it takes and of complex numbers."""
    for name, entry in STANDARD.items():
        if name in UNSET:
            continue
        for kind in dict.fromkeys((entry.kinds[-1], entry.kinds[0])):
            dtype = DTYPES[kind][0]
            calls = next(c for shape in SHAPES if (c := list(entry.calls(numbers(shape, dtype)))))
            for label, call, args in calls[:1]:
                wanted = leaves(Row(label, call, args).wanted)
                found = leaves(call(lazy, *map(lazy.asarray, args)))
                for w, f in zip(wanted, found, strict=True):
                    assert isinstance(f, lazy.Array)
                    assert f.shape == np.shape(w)
                    np.testing.assert_allclose(f, w, rtol=1e-6, atol=1e-8, err_msg=label)


def test_the_names_are_there() -> None:
    for name in (*CONSTANTS, *INSPECTED, *REFUSED, *STANDARD, *UNSET):
        found: Any = lazy
        for part in name.split("."):
            found = getattr(found, part)
    assert lazy.empty((2, 3), dtype=lazy.int8).dtype == lazy.int8
    assert lazy.result_type(lazy.ones(2), lazy.float32) == lazy.float64
    assert lazy.isdtype(lazy.ones(2).dtype, "real floating")
    assert lazy.__array_namespace_info__().default_device() == "cpu"
    x = lazy.ones((2, 3))
    assert x.__array_namespace__() is lazy
    assert isinstance(lazy, types.ModuleType)
    assert x.to_device("cpu") is x


def test_values_go_in_and_out() -> None:
    x = lazy.asarray(np.arange(6.0).reshape(2, 3))
    assert np.from_dlpack(x).tolist() == x.tolist()
    assert lazy.from_dlpack(np.ones(3)).tolist() == [1.0] * 3
    assert (float(x[1, 2]), int(x[0, 1]), bool(x[0, 0]), [10, 20, 30][lazy.asarray(2)]) == (5.0, 1, False, 30)
    assert complex(lazy.asarray(1 + 2j)) == 1 + 2j
    assert repr(lazy.asarray([1, 2])) == "lazy([1, 2])"
    assert [row.tolist() for row in x] == x.tolist()
    assert isinstance(np.ones((2, 3)) * x, lazy.Array)
    assert isinstance(np.exp(x), lazy.Array)
    assert f"{lazy.sum(x):.1f}" == "15.0"


def test_shapes_that_depend_on_values() -> None:
    x = np.array([[1.0, -2.0], [3.0, -4.0]])
    np.testing.assert_array_equal(lazy.asarray(x)[x > 0], x[x > 0])
    np.testing.assert_array_equal(lazy.asarray(x)[:, lazy.asarray([True, False])], x[:, :1])
    for ours, theirs in zip(lazy.nonzero(lazy.asarray(x) > 0), np.nonzero(x > 0), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(
        lazy.unique_all(np.array([3.0, 1.0, 3.0])), ([1, 3], [1, 0], [1, 0, 1], [1, 2]), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert lazy.grad(lambda v: lazy.sum(v[v > 0] ** 2))(x).tolist() == [[2.0, 0.0], [6.0, 0.0]]
    assert lazy.grad(lambda v: lazy.sum(lazy.unique_values(v) ** 2))(np.array([1.0, 3.0, 1.0])).tolist() == [2, 6, 0]


def test_what_is_no_array_is_refused() -> None:
    x = lazy.ones((2,))
    with pytest.raises(TraceError, match="E701"):
        lazy.add(x, object())
    with pytest.raises(TraceError, match="E147"):
        del x[0]
    with pytest.raises(TraceError, match="E705"):
        x.predict().send(None)


SCIENCE = """
import numpy as np
from pullback import lazy
import sklearn
from scipy import fft, integrate, optimize, special, stats
from sklearn import metrics
from sklearn.metrics import pairwise

r = np.random.default_rng(0)
x, y = np.abs(r.normal(size=20)) + 0.1, np.abs(r.normal(size=20)) + 0.1
a, b = r.integers(0, 3, 20), r.integers(0, 3, 20)
m, n = r.normal(size=(6, 3)), r.normal(size=(5, 3))
one = [special.softmax, special.erf, special.gamma, special.gammaln]
one += [stats.gmean, stats.circmean, integrate.trapezoid, fft.rfft, optimize.rosen]
two = [metrics.mean_absolute_error, metrics.mean_squared_error, metrics.max_error, metrics.mean_tweedie_deviance]
pairs = [pairwise.euclidean_distances, pairwise.linear_kernel, pairwise.rbf_kernel, pairwise.polynomial_kernel]
calls = [(f, (x,)) for f in one] + [(f, (x, y)) for f in two] + [(metrics.accuracy_score, (a, b))]
calls += [(f, (m, n)) for f in pairs]
with sklearn.config_context(array_api_dispatch=True):
    for f, args in calls:
        found = f(*map(lazy.asarray, args))
        assert isinstance(found, (lazy.Array, float)), (f.__name__, type(found))
        np.testing.assert_allclose(np.asarray(found), f(*args), rtol=1e-9, err_msg=f.__name__)
print(len(calls))
"""


def test_scipy_and_scikit_learn_run_on_it() -> None:
    pytest.importorskip("sklearn.externals.array_api_compat", reason="scikit-learn has no namespaces of its own yet")
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", SCIENCE], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "18"


@pytest.mark.parametrize("name", ["linalg", "fft", "special", "random", "verbs"])
def test_modules_of_the_namespace_have_functions_alone(name: str) -> None:
    """Not the modules that they are made of, nor what these import: SciPy asks for functions by name."""
    ours, module = getattr(pb, name), getattr(lazy, name)
    given = {n: getattr(module, n) for n in dir(ours) if not n.startswith("_") and hasattr(module, n)}
    assert {n for n, f in given.items() if isinstance(f, types.ModuleType)} == set()
    assert set(given) == set(ours.__all__) == set(dir(module))
    with pytest.raises(UnknownNameError, match=rf"E146\] lazy.{name} has no 'gamma'"):
        module.gamma  # noqa: B018


def test_functions_of_other_libraries_are_no_modules_here() -> None:
    """A module of the package may be called like a function of NumPy or SciPy, such as gamma; the name is not given."""
    for name, others in (("linalg", (np.linalg, scipy.linalg)), ("special", (scipy.special,)), ("fft", (np.fft,))):
        for f in {n for other in others for n, f in vars(other).items() if callable(f)}:
            assert not isinstance(getattr(getattr(pb, name), f, None), types.ModuleType), f"pb.{name}.{f}"


@pytest.mark.parametrize(("name", "remedy"), [("solve", "`pb.linalg.solve`"), ("lgamma", "`pb.special.lgamma`")])
def test_functions_of_modules_are_named(name: str, remedy: str) -> None:
    """Whatever has been imported before: `pb.solve` was a module after `pb.odeint`."""
    assert pb.odeint
    with pytest.raises(UnknownNameError) as raised:
        getattr(pb, name)
    assert (raised.value.what, raised.value.remedy) == (f"pullback has no {name!r}", remedy)
