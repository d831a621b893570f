"""The oracle by itself: what it imports, which names it has, its derivatives against mpmath's, its bounds."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

import pullback
from pullback.ir import types
from pullback.ir.primitives import PRIMITIVES
from tests.support import oracle
from tests.support.agreement import Program, Verdict, compare
from tests.support.oracle import numbers

FOLDER = Path(oracle.__file__).parent
# What the oracle leaves out: kinds of objects, settings, and functions that other tests hold to definitions.
ABSENT = {
    *(name for name in pullback.__all__ if name.endswith("Error")),
    "errors", "exact", "debug", "threads", "graph", "float16", "bfloat16", "complex64", "complex128", "from_dlpack",
    "Jagged", "jagged", "DeviceArray", "device_put", "devices",
    # held to NumPy in tests/unit/arrays
    "broadcast_arrays", "broadcast_shapes", "can_cast", "convolve", "cumulative_max", "cumulative_min", "diag",
    "einsum", "finfo", "gradient", "iinfo", "interp", "isdtype", "isin", "kron", "meshgrid", "nan_to_num", "pad",
    "result_type", "signbit", "split", "swapaxes", "vander", "special",
    "bincount", "histogram", "median", "quantile",
    "distributions", "linalg", "verbs", "apl", "lazy", "empty", "empty_like",
    "nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values",
    "odeint", "root", "root_scalar", "minimize",
    "least_squares", "tree_map", "tree_dot", "ravel", "external", "jacfwd", "jacrev",
}  # fmt: skip


def test_it_imports_nothing_of_the_package() -> None:
    for file in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not getattr(node, "level", 0), file
            for name in names:
                foreign = name.startswith(("pullback", "tests", "benchmarks"))
                assert not foreign or name.startswith("tests.support.oracle"), (file, name)


def test_it_has_the_public_names() -> None:
    missing = {name for name in pullback.__all__ if not hasattr(oracle, name)} - ABSENT
    assert not missing


def test_it_has_every_primitive() -> None:
    assert {row.name for row in PRIMITIVES} <= set(dir(oracle))
    smooth = {row.name for row in PRIMITIVES if row.partials is not None}
    assert smooth <= {*numbers.PARTIALS, "abs", "maximum", "minimum"}


@pytest.mark.parametrize("name", [name for name in numbers.PARTIALS if name in PRIMITIVES])
def test_derivatives_of_numbers(name: str) -> None:
    row = PRIMITIVES[name]
    low, high = row.domain
    points = [[low + (high - low) * s for s in shares] for shares in ((0.3, 0.37), (0.8, 0.9), (0.45, 0.62))]
    with oracle.arithmetic("precise"):
        value = numbers.precise()[name]
        for point in points:
            given = [numbers.number(p, 2.0**-53) for p in point[: row.arity]]
            for k in range(row.arity):
                duals = [numbers.Dual(0, a, {0: numbers.lift(1.0, a)}) if j == k else a for j, a in enumerate(given)]
                found = numbers.apply(name, *duals).partials[0]
                with mpmath.workdps(40):  # the constants in some rules are doubles
                    at = [mpmath.mpf(str(a.value)) for a in given]
                    moved = lambda t: mpmath.mpf(str(value(*at[:k], t, *at[k + 1 :])))
                    step = mpmath.mpf(10) ** -12
                    slope = (moved(at[k] + step) - moved(at[k] - step)) / (2 * step)
                    assert abs(mpmath.mpf(str(found.value)) - slope) < 1e-15 * max(1, abs(slope))


def test_nested_derivatives_have_perturbations_of_their_own() -> None:
    assert oracle.grad(lambda x: x * oracle.grad(lambda y: x + y)(x))(np.float64(3.0)).data == [1.0]
    third = oracle.grad(oracle.grad(oracle.grad(lambda x: x * x * x * x)))
    assert third(np.float64(2.0)).data == [48.0]
    out, tangent = oracle.jvp(oracle.grad(lambda x: x * x * x))((np.float64(2.0),), (np.float64(0.5),))
    assert (out.data, tangent.data) == ([12.0], [6.0])


def test_order_and_writes_are_numpys() -> None:
    x = np.array([[3.0, 1.0, np.nan, 1.0], [2.0, 2.0, 0.0, -1.0]])
    for axis in (0, 1, -1):
        places = np.argsort(x, axis=axis, kind="stable")
        assert oracle.argsort(x, axis=axis).data == places.ravel().tolist()
        assert oracle.top_k(x, 1, axis=axis, largest=False)[1].data == places.take([0], axis).ravel().tolist()
    assert oracle.sort(x[1], descending=True).data == [2.0, 2.0, 0.0, -1.0]
    assert oracle.argsort(x[0], descending=True).data == [0, 1, 3, 2]
    row = np.array([1.0, 2.0, 2.0, 5.0])
    for side in ("left", "right"):
        assert oracle.searchsorted(row, x[1], side=side).data == np.searchsorted(row, x[1], side).tolist()
    assert oracle.search_over(4, lambda i: oracle.asarray(row)[i] < 2.0).data == [1]
    written: Any = oracle.asarray(x[1])
    assert written.set(slice(None, None, 2), 7.0).add(np.array([0, 0]), 1.0).data == [9.0, 2.0, 7.0, -1.0]
    assert written.set(np.array([1, 1]), np.array([4.0, 5.0])).data == [2.0, 5.0, 0.0, -1.0]
    by_row = oracle.grad(lambda x: oracle.sum(oracle.sort(x) * np.array([1.0, 2.0, 4.0])))(np.array([2.0, 2.0, 1.0]))
    assert by_row.data == [2.0, 4.0, 1.0]


@pytest.mark.parametrize(("name", "by_numpy"), [
    ("floor", np.floor), ("ceil", np.ceil), ("round", np.rint), ("trunc", np.trunc),
])  # fmt: skip
def test_whole_numbers_keep_the_sign_of_zero(name: str, by_numpy: Any) -> None:
    x = np.array([-0.0, 0.0, -0.3, 0.3, -0.5, 0.5, -1.5])
    found = getattr(oracle, name)(oracle.asarray(x)).data
    assert np.array(found).tobytes() == by_numpy(x).tobytes()


def test_kinks_and_ties() -> None:
    x = np.array([2.0, 2.0, 1.0])
    assert oracle.grad(lambda x: oracle.max(x))(x).data == [1.0, 0.0, 0.0]
    assert oracle.grad(lambda x: oracle.sum(oracle.relu(x - 2.0)))(x).data == [0.0, 0.0, 0.0]
    assert oracle.grad(lambda x: oracle.sum(oracle.abs(x - 2.0)))(x).data == [0.0, 0.0, -1.0]
    assert oracle.grad(lambda x: oracle.prod(x - 2.0))(x).data == [0.0, 0.0, 0.0]
    assert oracle.grad(lambda x: oracle.sum(oracle.where(x > 1.0, oracle.log(x - 1.0), 0.0)))(x).data == [1.0, 1.0, 0.0]


def test_integers_are_those_of_the_language() -> None:
    a, b = np.array([7, -7, 5, -128], np.int8), np.array([2, 2, 0, -1], np.int8)
    assert oracle.floor_divide(a, b).data == [3, -4, 0, -128]
    assert oracle.remainder(a, b).data == [1, 1, 0, 0]
    assert (oracle.asarray(a) * oracle.asarray(a)).data == [49, 49, 25, 0]
    assert oracle.astype(np.array([np.nan, 1e9, -1e9, 2.9]), oracle.int8).data == [0, 127, -128, 2]


def test_a_rule_of_ones_own_in_both_directions() -> None:
    forward = oracle.custom_derivative(lambda x, y: x * y, jvp=lambda p, out, t: 10.0 * t[0] * p[1] + t[1] * p[0])
    backward = oracle.custom_derivative(lambda x, y: x * y, vjp=lambda p, out, c: (10.0 * c * p[1], c * p[0]))
    for f in (forward, backward):
        assert [a.data for a in oracle.grad(f, wrt=(0, 1))(2.0, 3.0)] == [[30.0], [2.0]]
        assert oracle.grad(lambda y: oracle.grad(f)(2.0, y))(3.0).data == [10.0]


def test_bounds_hold_for_numpy_in_single_precision() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        x = rng.normal(size=5).astype(np.float32)
        with oracle.arithmetic("bounded"):
            found = oracle.function(lambda x: oracle.exp(x) / (1.0 + x * x) - oracle.sum(x))(x)
        rounded = np.exp(x) / (1 + x * x) - x.sum()
        for a, e in zip(rounded.tolist(), found.data):
            assert abs(a - e.value) <= e.error < 1e-4


def test_what_bounds_leave_open_is_undecided() -> None:
    with oracle.arithmetic("bounded"), pytest.raises(oracle.Undecided):
        oracle.function(lambda x: oracle.where(x * 3.0 > 0.1 * 3.0, x, 0.0))(np.array([0.1]))
    with oracle.arithmetic("bounded"):  # ties of exact numbers are no question
        assert oracle.function(lambda x: oracle.argmax(x * 2.0))(np.array([0.5, 0.5])).data == [0]


def verdict_of(found: Any, expected: Any) -> Verdict:
    with oracle.arithmetic("bounded"):
        return compare(found, oracle.asarray(expected), 1)


def test_a_verdict_names_what_differs() -> None:
    x = np.array([1.0, 2.0])
    assert not verdict_of(x, x).faults
    assert verdict_of(np.array([1.0, 2.5]), x).faults == ["result 0[1] is 2.5 and should be 2.0 ± 0.0e+00"]
    assert verdict_of(x.astype(np.float32), x).faults == ["result 0 is float32, not float64"]
    assert verdict_of(x[:1], x).faults == ["result 0 has shape (1,), not (2,)"]
    assert verdict_of((x, x), x).faults == ["2 arrays instead of 1"]
    assert verdict_of(np.array([1.0, np.nan]), x).faults == ["result 0[1] is nan and should be 2.0 ± 0.0e+00"]


def test_programs_are_asked_in_both_meanings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    program = Program("def f(x):\n    return pb.sum_over(x.shape[0], lambda i: pb.exp(x[i]))", {"x": np.ones(2)})
    assert program.judge("pb.grad(f)(x)") == Verdict(compared=2)
    assert program.judge("pb.grad(lambda x: f(x + 1.0))(x)").faults == []
    assert program.judge("pb.function(lambda x: x @ x[:1])(x)").undecided.startswith("OracleError")
    assert program.judge("pb.jacobian(lambda x: x + pb.sum(x), sparse=True)(x)").refused.startswith("E204")


def test_dtypes_are_those_of_the_language() -> None:
    assert all(getattr(oracle, str(d.numpy)).kind == d.kind for d in types.DTYPES)


def test_what_overflows_on_the_way_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    program = Program("f = pb.function(lambda x: x * 1e30 * 1e30 * 1e-30)", {"x": np.array([1.0], np.float32)})
    assert program.judge("f(x)") == Verdict(open=1)
    guarded = Program("f = pb.function(lambda x: pb.sum(pb.where(x > 0, pb.log(x), 0.0)))", {"x": np.array([0.0, 1.0])})
    assert guarded.judge("pb.grad(f)(x)") == Verdict(compared=2)
