"""Writes in place to traced arrays: the same source runs on NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import Array
from pullback.arrays.in_place import At
from tests.support.versions import ARRAY_API

A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def elements(xp: Any, a: Any) -> Any:
    x = xp.zeros((4,))
    before = x * 2.0
    x[0] = a[0, 0]
    x[1:3] += a[1, 1:] * 2.0
    x[-1] = x[1]
    return x, before


def views(xp: Any, a: Any) -> Any:
    x = a * 1.0
    row, turned, flat, back = x[1], x.T, xp.reshape(x, (-1,)), xp.flip(x, axis=1)
    x[0, 0] = 9.0
    row *= 2.0
    turned[2] = 7.0
    flat[1] = -1.0
    back[:, 0] += 0.5
    xp.expand_dims(x, axis=0)[0, 1, 1] = 3.0
    return x, row, turned, flat, back


def copies(xp: Any, a: Any) -> Any:
    """Expressions that are no views in NumPy keep the elements, though no statement has stored them."""
    x = a * 1.0
    found = [xp.take(x, np.array([1, 0]), axis=0), x[np.array([0, 0])], xp.roll(x, 1, axis=1), xp.concat([x, x]),
             xp.tile(x, (1, 2)), xp.repeat(x, 2), +x, x.astype("float64"), xp.clip(x, 2.0, 4.0),
             xp.tril(x)]  # fmt: skip
    follows = [xp.broadcast_to(x, (2, 2, 3)), xp.linalg.diagonal(x), xp.moveaxis(x, 0, 1), *xp.unstack(x)]
    part = found[0][0]
    x[...] = 0.0
    part += 1.0
    return (x, *found, *follows)


def aliases(xp: Any, a: Any) -> Any:
    x = a + 1.0
    y = x
    y -= a
    x[:, 1] = [5.0, 6.0] if xp is np else xp.asarray([5.0, 6.0])
    number = xp.sum(x)
    kept = number
    number += 1.0
    one = xp.reshape(kept, (1,))
    one[0] = 2.0
    return x, y, kept, number, one


def keys(xp: Any, a: Any) -> Any:
    x = xp.zeros((3, 4))
    x[1:, ::2] = a[:, :2]
    x[..., 3] = 2.0
    x[2, ::-1] += np.arange(4.0)
    x[np.array([0, 2]), np.array([1, 3])] = a[0, :2]
    x[x > 4.5] = -1.0
    zero = x[..., 0, 0]
    zero += 8.0
    return x


def complex_numbers(xp: Any, a: Any) -> Any:
    z = a * 1j
    z[0] = 2.0
    conjugate = xp.conj(z)
    z[1:, 1:] *= 2.0
    z.real[1, 0] = 9.0
    part = z.imag
    z += 1.0 - 1.0j
    return z, conjugate, part


COPIES = pytest.param(copies, marks=ARRAY_API)


@pytest.mark.parametrize("program", [elements, views, COPIES, aliases, keys, complex_numbers])
def test_programs(program: Callable[[Any, Any], Any]) -> None:
    wanted = program(np, A.copy())
    given = A.copy()
    found = pb.function(lambda a: program(pb, a))(given)
    for ours, theirs in zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]:
        np.testing.assert_allclose(ours, theirs, rtol=1e-14)
    assert given.tolist() == A.tolist()


@pytest.mark.parametrize("program", [elements, views, aliases, keys])
def test_derivatives(program: Callable[[Any, Any], Any]) -> None:
    """Against central differences in NumPy."""

    def total(xp: Any, a: Any) -> Any:
        found = program(xp, a)
        parts = found if isinstance(found, tuple) else (found,)
        return sum(xp.sum(xp.sin(0.3 * x)) for x in parts)

    slope = pb.grad(pb.function(lambda a: total(pb, a)))(A)
    for place in np.ndindex(A.shape):
        by = np.zeros_like(A)
        by[place] = 1e-6
        wanted = (total(np, A + by) - total(np, A - by)) / 2e-6
        np.testing.assert_allclose(slope[place], wanted, rtol=1e-6, atol=1e-8)


def test_states_of_loops_and_arrays_of_bodies() -> None:
    @pb.function
    def f(a: Any) -> Any:
        def step(s: Any, i: Any) -> Any:
            s[i] = a[i] * 2.0
            return s

        def row(i: Any) -> Any:
            own = pb.zeros(2)
            own[1] = a[i]
            return own

        start = pb.zeros(3)
        return pb.fold(3, start, step), start, pb.build(3, row)

    state, start, rows = f(np.array([1.0, 2.0, 3.0]))
    assert (state.tolist(), start.tolist()) == ([2, 4, 6], [0, 0, 0])
    assert rows.tolist() == [[0, 1], [0, 2], [0, 3]]


def test_sizes_that_are_open() -> None:
    @pb.function
    def f(a: Any) -> Any:
        x = pb.zeros(a.shape[0])
        x[1:] = a[:-1]
        x[0] += a[0] * 10.0
        return x

    for n in (2, 5):
        assert f(np.arange(1.0, n + 1)).tolist() == [10.0, *range(1, n)]


def test_jax_form() -> None:
    twice = np.array([0, 0])

    @pb.function
    def f(x: Any) -> Any:
        return (x.at[0].set(9.0), x.at[1:].add(1.0), x.at[twice].multiply(3.0), x.at[x > 1.5].min(0.5),
                x.at[2].max(7.0), x.at[1].subtract(1.0), x.at[1].divide(4.0), x.at[1].power(3.0), x.at[1:].get(),
                x.at(1), x.at(7, fill=4.0), x)  # fmt: skip

    found = [np.asarray(y).tolist() for y in f(np.array([1.0, 2.0, 3.0]))]
    assert found == [[9, 2, 3], [1, 3, 4], [9, 2, 3], [1, 0.5, 0.5], [1, 2, 7], [1, 1, 3], [1, 0.5, 3], [1, 8, 3],
                     [2, 3], 2, 4, [1, 2, 3]]  # fmt: skip
    z = pb.function(lambda z: z.at[0].multiply(2.0))(np.array([1j, 2.0]))
    assert z.tolist() == [2j, 2]
    assert At.__doc__


def test_halves_stay_halves() -> None:
    @pb.function
    def f(x: Any) -> Any:
        y = x.astype(pb.float16)
        y[0] = 1.0001
        return y

    found = f(np.array([2.0, 3.0], np.float32))
    assert found.dtype == np.float16 and found.tolist() == [1, 3]


def test_types() -> None:
    @pb.function
    def f(x: Array) -> Any:
        y = pb.zeros(3, dtype=pb.int32)
        y[0] = 5
        y[1:] = pb.asarray([1, 2], dtype=pb.int64)
        z = pb.zeros(2, dtype=pb.float32)
        z[0] = x[0]
        return y, z

    y, z = f(np.array([0.1]))
    assert (y.dtype, y.tolist()) == (np.int32, [5, 1, 2]) and (z.dtype, z[0]) == (np.float32, np.float32(0.1))
