"""Writes in place to lazy arrays: single behaviors, and random programs compared with NumPy."""

from __future__ import annotations

import copy
import gc
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import DTypeError, TraceError, lazy
from pullback.lazy.memory import Memory
from tests.support.versions import ARRAY_API
from tests.unit.lazy.programs import Complex, Generator, loss, run

ROWS, EACH = 80, 25  # 2,000 programs; an ordinary run takes a part of some rows
STEP = 1e-30


def each() -> int:
    """The programs of a row."""
    return 15 if os.environ.get("PULLBACK_TESTS_TURN") else EACH


def same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    for name, wanted in theirs.items():
        assert np.shape(ours[name]) == np.shape(wanted), name
        np.testing.assert_allclose(ours[name], wanted, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("row", range(ROWS))
def test_random_programs(row: int) -> None:
    for seed in range(row * EACH, row * EACH + each()):
        program = Generator(seed).source
        same(run(program, lazy), run(program, np))
        if seed % EACH == 0:  # the same pieces compiled
            same(run(program, lazy), run(program, np))
            lazy.finish_compiling()
            same(run(program, lazy), run(program, np))


@pytest.mark.parametrize("row", range(ROWS))
def test_derivatives_and_traced_functions(row: int) -> None:
    """The derivative by a scale of all arrays, against a complex step in NumPy; and the same program traced."""
    program = Generator(10_000 + row, steps=10, smooth=True).source
    slope = np.imag(loss(program, Complex(), 0.7 + STEP * 1j)) / STEP
    found = lazy.grad(lambda t: loss(program, lazy, t))(0.7)
    np.testing.assert_allclose(float(found), slope, rtol=1e-9, atol=1e-9)
    wanted = run(program, np, 0.7)
    try:
        made = pb.function(lambda t: tuple(run(program, pb, t).values())).interpret(0.7)
    except TraceError as error:
        assert "reshape" in error.what  # by name: whether NumPy would give a view depends on strides
        return
    same(dict(zip(wanted, made, strict=True)), wanted)
    if row % 8 == 0:
        found = pb.grad(pb.function(lambda t: loss(program, pb, t)))(0.7)
        np.testing.assert_allclose(float(found), slope, rtol=1e-9, atol=1e-9)


# Values and names ---------------------------------------------------------------------------------------------------


def test_what_was_built_before_keeps_the_old_elements() -> None:
    x = lazy.zeros((3,))
    before = x + 1.0
    alias, other = x, +x
    x[1] = 5.0
    after = x + 1.0
    assert (before.tolist(), after.tolist()) == ([1, 1, 1], [1, 6, 1])
    assert alias.tolist() == [0, 5, 0] and other.tolist() == [0, 0, 0]
    x += 1.0
    x *= x
    assert alias.tolist() == [1, 36, 1]


def test_arrays_of_numpy_do_not_change() -> None:
    a = np.zeros(3)
    x = lazy.asarray(a)
    x[0] = 1.0
    assert a.tolist() == [0, 0, 0] and x.tolist() == [1, 0, 0]
    y = lazy.asarray(x)
    y[1] = 2.0
    assert x is y and x.tolist() == [1, 2, 0]
    value = x.numpy()
    x[2] = 3.0
    assert value.tolist() == [1, 2, 0] and not value.flags.writeable


def test_copies_are_independent() -> None:
    x = lazy.zeros((2,))
    copies = [copy.copy(x), copy.deepcopy(x), lazy.asarray(x, copy=True), x.astype("float64"), x[[0, 1]]]
    x[0] = 1.0
    copies += [copy.copy(x), copy.deepcopy(x), lazy.asarray(x, copy=True)]
    x[1] = 2.0
    assert [c.tolist() for c in copies] == [[0, 0]] * 5 + [[1, 0]] * 3


def test_numbers_do_not_change() -> None:
    x = lazy.asarray([1.0, 2.0])
    total = lazy.sum(x)
    kept = total
    total += 1.0
    assert (float(kept), float(total)) == (3.0, 4.0)
    element, last = x[0], x[..., -1]
    last += 1.0  # a view without axes
    assert x.tolist() == [1.0, 3.0]
    one, dots = lazy.reshape(element, (1,)), element[...]
    x[0] = 9.0
    one[0] = 5.0
    dots[...] += 3.0
    assert (float(element), one.tolist(), float(dots)) == (1.0, [5.0], 4.0)


@ARRAY_API
@pytest.mark.parametrize("first", [False, True])
def test_views_of_all_kinds_follow(first: bool) -> None:
    """Views that were computed before the first write do, too."""

    def program(xp: Any) -> list[Any]:
        x = xp.reshape(xp.arange(24.0), (2, 3, 4))
        views = [
            x[0], x[1, 2], x[..., 1], x[:, ::-1, 1:3], x[None], x.mT if xp is lazy else x.swapaxes(-1, -2),
            np.transpose(x, (2, 0, 1)), xp.reshape(x, (-1,)), xp.reshape(x[1], (2, 6)), xp.expand_dims(x, axis=1),
            xp.squeeze(xp.expand_dims(x, axis=0), axis=0), xp.flip(x, axis=1), xp.moveaxis(x, 0, 2),
            xp.broadcast_to(x, (2, 2, 3, 4)), xp.linalg.diagonal(x), *xp.unstack(x), *xp.split(x, 3, axis=1), *x,
        ]  # fmt: skip
        if first:
            for v in views:
                np.asarray(v)
        x[0, 1] = -1.0
        for k, v in enumerate(views[:8]):
            v *= 1.0 + k
        x[1, 0, 0] = 77.0
        return [x, *views]

    for ours, theirs in zip(program(lazy), program(np), strict=True):
        np.testing.assert_array_equal(np.asarray(ours), theirs)


def test_a_reshape_that_numpy_copies_is_a_copy() -> None:
    x = lazy.reshape(lazy.arange(6.0), (2, 3))
    flat, copied = lazy.reshape(x.T, (-1,)), lazy.reshape(x, (-1,), copy=True)
    part = flat[1:3]
    x[0, 0] = 9.0
    flat[1] = 7.0
    assert flat.tolist() == [0, 7, 1, 4, 2, 5] and copied.tolist() == [0, 1, 2, 3, 4, 5]
    assert part.tolist() == [7, 1] and x.tolist() == [[9, 1, 2], [3, 4, 5]]


@pytest.mark.slow
def test_views_of_an_array_that_is_gone_share_its_elements() -> None:
    x = lazy.arange(5.0)
    a, b = x[:3], x[1:]
    np.asarray(a), np.asarray(b)
    del x
    gc.collect()
    a[1:] = 8.0
    assert a.tolist() == [0, 8, 8] and b.tolist() == [8, 8, 3, 4]


def test_views_that_the_collector_was_told_to_leave_alone_follow() -> None:
    """The first write of a process finds the views that exist, those that `gc.freeze` has set aside too."""
    code = "import gc; from pullback import lazy; x = lazy.zeros(4); v = x[1:3]; gc.freeze(); x[1] = 5.0; print(v)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[5. 0.]\n"


def test_parts_of_complex_arrays() -> None:
    z = lazy.asarray(np.array([1.0 + 2.0j, 3.0 - 1.0j, 0.5j]))
    real, imag = z.real, z.imag
    real[0] = 7.0
    imag[1:] = [5.0, 6.0]
    z[2] = 1.0
    assert z.tolist() == [7 + 2j, 3 + 5j, 1] and real.tolist() == [7, 3, 1] and imag.tolist() == [2, 5, 0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "int64", "bool", "complex64"])
def test_values_convert_within_their_kind(dtype: str) -> None:
    ours, theirs = lazy.zeros((4,), dtype=dtype), np.zeros(4, dtype)
    for x in (ours, theirs):
        x[0] = True
        x[1:3] = np.array([True, False])
        if dtype != "bool":
            x[3] = 3
    np.testing.assert_array_equal(np.asarray(ours), theirs)
    assert np.asarray(ours).dtype == dtype


def test_writes_of_single_elements_are_applied_together(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    applied = Memory.applied

    def counted(*args: Any) -> Any:
        calls.append(1)
        return applied(*args)

    monkeypatch.setattr(Memory, "applied", staticmethod(counted))
    n = 300
    x, s = lazy.zeros((n,)), lazy.asarray(0.5)
    x[0] = 1.0
    for k in range(1, n):
        x[k] = x[k - 1] * s + 1.0  # reads what is written and not applied yet
    rows = lazy.zeros((3, 2))
    for k in range(3):
        rows[k] = lazy.asarray([1.0, 2.0]) * float(k)
    row = rows[1]
    row[0] += 5.0
    wanted = [1.0]
    for _ in range(n - 1):
        wanted.append(wanted[-1] * 0.5 + 1.0)
    np.testing.assert_allclose(x, wanted)
    assert rows.tolist() == [[0, 0], [6, 2], [2, 4]] and len(calls) <= 3


def test_jax_form() -> None:
    x = lazy.asarray([1.0, 2.0, 3.0])
    twice = np.array([0, 0])
    found = [
        x.at[0].set(9.0), x.at[1:].add(1.0), x.at[twice].add(1.0), x.at[twice].multiply(3.0), x.at[x > 1.5].min(0.5),
        x.at[..., 2].max(7.0), x.at[1].subtract(1.0), x.at[1].divide(4.0), x.at[1].power(3.0), x.at[1:].get(),
    ]  # fmt: skip
    assert [f.tolist() for f in found] == [
        [9, 2, 3], [1, 3, 4], [3, 2, 3], [9, 2, 3], [1, 0.5, 0.5], [1, 2, 7], [1, 1, 3], [1, 0.5, 3], [1, 8, 3], [2, 3],
    ]  # fmt: skip
    assert x.tolist() == [1, 2, 3] and float(x.at(5, fill=4.0)) == 4.0


def test_second_derivatives_pass_through_writes() -> None:
    def f(x: Any) -> Any:
        y = lazy.zeros((3,))
        y[0] = x[0] ** 3
        view = y[1:]
        view += x[1] * y[0]
        return lazy.sum(y * y)

    # x0⁶ + 2 x0⁶ x1²: the derivative by x0 is 6 x0⁵ + 12 x0⁵ x1², and by x0 again 30 x0⁴ + 60 x0⁴ x1²
    x = np.array([1.5, 0.5])
    first = lazy.grad(lambda x: lazy.grad(f)(x)[0])(x)
    np.testing.assert_allclose(first, [(30 + 60 * 0.25) * 1.5**4, 24 * 1.5**5 * 0.5], rtol=1e-12)


def test_an_array_from_outside_takes_values_of_a_gradient() -> None:
    seen = lazy.zeros((2,))

    def f(x: Any) -> Any:
        seen[0] = lazy.stop_gradient(x[0])
        return lazy.sum(x * x)

    lazy.grad(f)(np.array([3.0, 4.0]))
    assert seen.tolist() == [3, 0]


def test_a_value_computed_before_the_backward_pass_keeps_its_derivative() -> None:
    def f(x: Any) -> Any:
        y = +x
        return lazy.sum(y * y) if float(lazy.stop_gradient(lazy.sum(y))) > 0 else lazy.sum(y)

    assert lazy.grad(f)(np.ones(2)).tolist() == [2, 2]


def test_a_view_of_a_number_is_a_number() -> None:
    for xp in (np, lazy):
        number = xp.asarray([1.0, 2.0])[1]
        for view in (xp.reshape(number, ()), xp.squeeze(number, axis=())):
            same = view
            same *= 3.0
            assert (float(view), float(same)) == (2.0, 6.0)
        array = xp.asarray([1.0, 2.0])[..., 1]
        same = view = xp.reshape(array, ())
        same *= 3.0
        assert (float(view), float(same), float(array)) == (6.0, 6.0, 6.0)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_numbers_up_to_the_ends_of_a_type_are_written(dtype: str) -> None:
    """NumPy 1 wraps larger numbers around."""
    ends = np.iinfo(dtype)
    for number in (int(ends.min), int(ends.max)):
        x = lazy.zeros(3, dtype=np.dtype(dtype))
        x[1] = number
        assert x.tolist() == [0, number, 0]
    for number in (int(ends.min) - 1, int(ends.max) + 1):
        x = lazy.zeros(3, dtype=np.dtype(dtype))
        with pytest.raises(DTypeError, match=f"E124.*{number} does not fit"):
            x[1] = number
