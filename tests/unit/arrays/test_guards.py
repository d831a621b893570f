"""Guards around lifted statements: what is read under a `where`, `cond` or call counts where its value is used."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array

X = np.arange(12.0).reshape(4, 3) / 10
E = np.exp(X).sum(1)
INSIDE, OUTSIDE = np.array([3, 1]), np.array([3, -1, 7])


@pb.function
def row_sum(r: Float64[Array, "M"]):
    return pb.sum(pb.exp(r))


@pb.function
def loop_sum(r: Float64[Array, "M"]):
    return pb.fold(r.shape[0], 0.0, lambda s, m: s + pb.exp(r[m]))


def guarded(i, x):
    return (i >= 0) & (i < x.shape[0])


# Reads at an index ----------------------------------------------------------------------------------------------


def sum_of_a_guarded_row(x, n):
    return pb.where(n > 0, pb.sum(pb.exp(x[n - 1])), 0.0)


def start_of_a_fold(x, n):
    return pb.where(n > 0, pb.sum(pb.fold(3, pb.exp(x[n - 1]), lambda s, i: s * 1)), 0.0)


def inside_a_fold(x, n):
    return pb.where(n > 0, pb.fold(2, 0.0, lambda s, t: s + pb.sum(pb.exp(x[n - 1])) / 2), 0.0)


def guard_inside_a_fold(x, n):
    return pb.fold(2, 0.0, lambda s, t: s + pb.where(n > 0, pb.sum(pb.exp(x[n - 1])), 0.0) / 2)


def guard_of_cond(x, n):
    return pb.cond(n > 0, lambda: pb.sum(pb.exp(x[n - 1])), lambda: 0.0)


def through_a_build(x, n):
    e = pb.exp(x[n - 1])
    return pb.where(n > 0, pb.sum(pb.build(x.shape[1], lambda m: pb.sum_over(2, lambda k: e[m] * k))), 0.0)


def through_a_call(x, n):
    return pb.where(n > 0, row_sum(x[n - 1]), 0.0)


def through_a_call_with_a_loop(x, n):
    return pb.where(n > 0, loop_sum(x[n - 1]), 0.0)


def through_a_gradient(x, n):
    return pb.where(n > 0, pb.sum(pb.grad(row_sum)(x[n - 1])), 0.0)


ROWS = [
    sum_of_a_guarded_row,
    start_of_a_fold,
    inside_a_fold,
    guard_inside_a_fold,
    guard_of_cond,
    through_a_build,
    through_a_call,
    through_a_call_with_a_loop,
    through_a_gradient,
]


@pytest.mark.parametrize("row", ROWS, ids=lambda f: f.__name__)
def test_in_a_build(check, row):
    @pb.function
    def f(x: Float64[Array, "N M"]):
        return pb.build(x.shape[0], lambda n: row(x, n))

    check(f, X, expected=[0.0, *E[:-1]])


@pytest.mark.parametrize("row", ROWS, ids=lambda f: f.__name__)
def test_in_a_fold(check, row):
    @pb.function
    def f(x: Float64[Array, "N M"]):
        return pb.fold(x.shape[0], 0.0, lambda s, t: s + row(x, t))

    check(f, X, expected=E[:-1].sum())


@pytest.mark.parametrize(
    "row",
    [
        lambda x, n: pb.sum(pb.exp(x[n + 1])),
        lambda x, n: pb.where(n > 0, pb.sum(pb.exp(x[n - 2])), 0.0),
        lambda x, n: pb.sum_over(3, lambda k: pb.sum(pb.exp(x[n + k]))),
        lambda x, n: pb.fold(2, 0.0, lambda s, t: s + pb.sum(pb.exp(x[n - 1] * t))),
        lambda x, n: pb.sum(pb.concat([x[n], x[n - 1]])),
        lambda x, n: row_sum(x[n - 1]),
        lambda x, n: loop_sum(x[n - 1]),
    ],
)
def test_what_no_guard_covers_is_an_error(row):
    with pytest.raises(pb.ShapeError, match="E103"):

        @pb.function
        def f(x: Float64[Array, "N M"]):
            return pb.build(x.shape[0], lambda n: row(x, n))

    with pytest.raises(pb.ShapeError, match="E103"):

        @pb.function
        def g(x: Float64[Array, "N M"]):
            return pb.fold(x.shape[0], 0.0, lambda s, t: s + row(x, t))


def test_the_guard_may_differ_from_use_to_use(check):
    @pb.function
    def f(x: Float64[Array, "N M"]):
        N = x.shape[0]
        return pb.build(
            N,
            lambda n: (
                pb.where(n > 1, pb.sum(pb.exp(x[n - 1])), 0.0) + pb.where(n + 1 < N, pb.sum(pb.exp(x[n + 1])), 0.0)
            ),
        )

    check(f, X, expected=[E[1], E[2], E[1] + E[3], E[2]])


# Reads where data says ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        lambda x, i: pb.sum(pb.exp(x[i])),
        lambda x, i: row_sum(x[i]),
        lambda x, i: pb.sum(pb.exp(x[i]) * 2) / 2,
    ],
    ids=["row", "call", "two statements"],
)
def test_a_condition_on_data_guards_a_row(check, row):
    @pb.function
    def f(x: Float64[Array, "N M"], i: Int64[Array, "K"]):
        return pb.build(i.shape[0], lambda k: pb.where(guarded(i[k], x), row(x, i[k]), 0.0))

    assert "check" not in f.ir
    check(f, X, OUTSIDE, expected=[E[3], 0.0, 0.0])


@pytest.mark.parametrize(
    "row",
    [
        lambda x, i: pb.sum(pb.exp(x[i])),
        lambda x, i: pb.sum(pb.exp(x[i]) * 2) / 2,
        lambda x, i: pb.sum(pb.fold(2, pb.exp(x[i]), lambda s, t: s * 1)),
        lambda x, i: row_sum(x[i]),
        lambda x, i: loop_sum(x[i]),
    ],
    ids=["row", "two statements", "fold", "call", "call with a loop"],
)
def test_without_a_guard_data_is_checked_when_the_program_runs(check, row):
    @pb.function
    def f(x: Float64[Array, "N M"], i: Int64[Array, "K"]):
        return pb.build(i.shape[0], lambda k: row(x, i[k]))

    @pb.function
    def g(x: Float64[Array, "N M"], i: Int64[Array, "K"]):
        return pb.fold(i.shape[0], 0.0, lambda s, k: s + row(x, i[k]))

    check(f, X, INSIDE, expected=E[INSIDE])
    check(g, X, INSIDE, expected=E[INSIDE].sum())
    for h in (f, g, f.interpret, g.interpret):
        with pytest.raises(IndexError):
            h(X, OUTSIDE)


def test_one_use_with_a_guard_and_one_without(check):
    @pb.function
    def f(x: Float64[Array, "N M"], i: Int64[Array, "K"]):
        def row(k):
            e = pb.exp(x[i[k]])
            return pb.where(guarded(i[k], x), pb.sum(e), 0.0), pb.sum(e * 2)

        return pb.build(i.shape[0], row)

    check(f, X, INSIDE, expected=(E[INSIDE], 2 * E[INSIDE]))
    with pytest.raises(IndexError):
        f.interpret(X, OUTSIDE)


def test_at_with_data_reads_the_fill_outside(check):
    @pb.function
    def f(x: Float64[Array, "N M"], i: Int64[Array, "K"]):
        return pb.build(i.shape[0], lambda k: pb.sum(x.at(i[k])))

    check(f, X, OUTSIDE, expected=[X[3].sum(), 0.0, 0.0])


def test_an_index_that_comes_to_a_negative_number_is_outside(check):
    """Only numbers that are written count from the end; `i // 2 - 2` with i < 2 is -2, which is no place."""
    x = np.array([7.0, 0.5])
    cases = [
        (lambda x: pb.build(2, lambda i: x.at(i // 2 - 2, fill=0.5)), np.array([0.5, 0.5])),
        (lambda x: pb.build(2, lambda i: pb.where(i > 1, x[i // 2 - 1], 3.0)), np.array([3.0, 3.0])),
        (lambda x: pb.stack([x[-1], x[np.int64(-2)]]), np.array([0.5, 7.0])),
    ]
    for f, expected in cases:
        check(pb.function(f), x, expected=expected)


LOOPS = {
    "start": lambda x, p, j: pb.fold(3, x[p[j]], lambda s, t: s * 0.5),
    "body": lambda x, p, j: pb.fold(3, 1.0, lambda s, t: s * x[p[j]]),
    "sum in the body": lambda x, p, j: pb.fold(3, 1.0, lambda s, t: s + pb.sum(x[p[j]] * x)),
    "rows": lambda x, p, j: pb.sum(pb.scan(3, x[p[j]], lambda s, t: (s * 0.5, s))[1]),
    "branches": lambda x, p, j: pb.cond(x[p[j]] > 9.0, lambda v: v * 2, lambda v: v, x[p[j]]),
    "nested": lambda x, p, j: pb.fold(2, pb.fold(3, x[p[j]], lambda s, t: s * 0.5), lambda s, t: s + x[p[j]]),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_inside_build_check_what_they_read(name):
    f = pb.function(lambda x, p: pb.build(p.shape[0], lambda j: LOOPS[name](x, p, j)))
    x, inside = np.array([8.0, 16.0]), np.array([1, 0, 1])
    np.testing.assert_allclose(f(x, inside), f.interpret(x, inside))
    for call in (f, f.interpret):
        with pytest.raises(IndexError, match="index 2"):
            call(x, np.array([0, 2, 0]))


def test_rows_chosen_by_data_in_a_reduction_are_checked():
    """The sum of rows depends on no index around it: there is no guard to wait for."""
    u = np.arange(6.0).reshape(3, 2)
    for f in (
        lambda u, p: pb.sum_over(2, lambda i: u[p[i]]),
        lambda u, p: pb.max_over(2, lambda i: u[p[i]]),
        lambda u, p: pb.build(2, lambda j: pb.sum(pb.sum_over(2, lambda i: u[p[i]] * (j + 1.0)))),
    ):
        function = pb.function(f)
        np.testing.assert_allclose(function(u, np.array([1, 0])), function.interpret(u, np.array([1, 0])))
        for call in (function, function.interpret):
            with pytest.raises(IndexError, match="index 5"):
                call(u, np.array([2, 5]))
