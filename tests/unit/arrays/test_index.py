"""Index notation: build, reductions, ranges, lifting."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float32, Float64, Int64, UInt8

import pullback as pb
from pullback import Array

X = np.arange(12.0).reshape(3, 4)


def test_dense_layer(check):
    @pb.function
    def dense(x: Float64[Array, "N M"], w: Float64[Array, "K M"], b: Float64[Array, "K"]):
        (N, M), K = x.shape, b.shape[0]
        return pb.build((N, K), lambda n, k: pb.sum_over(M, lambda m: x[n, m] * w[k, m]) + b[k])

    assert dense.type == "(x: f64[N, M], w: f64[K, M], b: f64[K]) -> f64[N, K]"
    w, b = np.ones((2, 4)), np.array([1.0, -1.0])
    check(dense, X, w, b, expected=X @ w.T + b)


def test_names_of_the_user_reach_the_program():
    @pb.function
    def f(image: Float64[Array, "H W"]):
        smooth = pb.build(image.shape, lambda row, column: 2 * image[row, column])
        return pb.build(image.shape, lambda a, b: smooth[a, b] + 1)

    assert "smooth = build row < H, column < W { 2.0 * image[row, column] }" in f.ir


def test_an_extent_that_is_assumed_stands_in_the_type(check):
    @pb.function
    def valid(x: Float64[Array, "N"], w: Float64[Array, "K"]):
        N, K = x.shape[0], w.shape[0]
        return pb.build(N - K + 1, lambda i: pb.sum_over(K, lambda k: x[i + k] * w[k]))

    assert valid.type == "(x: f64[N], w: f64[K]) -> f64[N - K + 1] where N >= K"
    x, w = np.arange(5.0), np.array([1.0, 2.0])
    check(valid, x, w, expected=np.convolve(x, w[::-1], "valid"))


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_padded_strided_convolution(check, stride, padding):
    @pb.function
    def conv(x: Float64[Array, "N"], w: Float64[Array, "K"]):
        N, K = x.shape[0], w.shape[0]
        return pb.build(
            (N + 2 * padding - K) // stride + 1,
            lambda i: pb.sum_over(K, lambda k: x.at(i * stride + k - padding, fill=0) * w[k]),
        )

    x, w = np.arange(1.0, 8.0), np.array([1.0, -2.0, 0.5])
    padded = np.pad(x, padding)
    count = (len(padded) - 3) // stride + 1
    check(conv, x, w, expected=[padded[i * stride : i * stride + 3] @ w for i in range(count)])


def test_where_over_conditions_on_indices_proves_a_read(check):
    @pb.function
    def difference(x: Float64[Array, "N"]):
        return pb.build(x.shape[0], lambda i: pb.where(i > 0, x[i] - x[i - 1], x[i]))

    check(difference, np.array([3.0, 4.0, 9.0]), expected=[3.0, 1.0, 5.0])


def test_and_or_not_of_conditions_prove_reads(check):
    @pb.function
    def inner(x: Float64[Array, "N"]):
        N = x.shape[0]
        return pb.build(
            N,
            lambda i: (
                pb.where((i > 0) & (i + 1 < N), x[i - 1] + x[i + 1], 0)
                + pb.where((i < 1) | (i + 1 >= N), 0, x[i - 1] - x[i + 1])
                + pb.where(~(i > 0), 0, x[i - 1])
            ),
        )

    x = np.array([1.0, 2.0, 4.0])
    check(inner, x, expected=[0.0, 5.0 - 3.0 + 1.0, 2.0])


def test_a_condition_on_data_proves_a_read(check):
    @pb.function
    def pick(x: Float64[Array, "N"], i: Int64[Array, "K"]):
        N = x.shape[0]
        return pb.build(i.shape[0], lambda k: pb.where((i[k] >= 0) & (i[k] < N), x[i[k]], -1.0))

    assert "check" not in pick.ir
    check(pick, np.array([5.0, 6.0]), np.array([1, -1, 2, 0]), expected=[6.0, -1.0, -1.0, 5.0])


def test_at_with_another_fill_and_partial_indices(check):
    @pb.function
    def shifted(x: Float64[Array, "N M"]):
        N, M = x.shape
        return (pb.build((N, M), lambda n, m: x.at(n, m + 1, fill=7.0)), pb.build(N, lambda n: pb.sum(x.at(n - 1))))

    check(shifted, X, expected=(np.pad(X, ((0, 0), (0, 1)), constant_values=7.0)[:, 1:], [0.0, *X.sum(1)[:-1]]))


def test_reductions(check):
    @pb.function
    def all_of_them(x: Float64[Array, "N M"]):
        N, M = x.shape
        return {
            "sum": pb.sum_over((N, M), lambda n, m: x[n, m]),
            "prod": pb.build(N, lambda n: pb.prod_over(M, lambda m: x[n, m] + 1)),
            "max": pb.build(N, lambda n: pb.max_over(M, lambda m: x[n, m])),
            "min": pb.min_over((N, M), lambda n, m: x[n, m]),
            "argmax": pb.build(N, lambda n: pb.argmax_over(M, lambda m: -x[n, m])),
            "argmin": pb.argmin_over((N, M), lambda n, m: pb.abs(x[n, m] - 6)),
            "any": pb.any_over((N, M), lambda n, m: x[n, m] > 10),
            "all": pb.build(N, lambda n: pb.all_over(M, lambda m: x[n, m] > 3)),
        }

    check(
        all_of_them,
        X,
        expected={
            "sum": X.sum(),
            "prod": (X + 1).prod(1),
            "max": X.max(1),
            "min": 0.0,
            "argmax": [0, 0, 0],
            "argmin": 6,
            "any": True,
            "all": [False, True, True],
        },
    )


def test_an_extent_may_depend_on_an_index(check):
    @pb.function
    def triangle(x: Float64[Array, "N"]):
        N = x.shape[0]
        return (
            pb.build(N, lambda i: pb.sum_over(i + 1, lambda j: x[j])),
            pb.build(N, lambda i: pb.sum_over(i, lambda j: x[j])),
            pb.build(N, lambda i: pb.max_over(i + 1, lambda j: x[j])),
            pb.build(N, lambda i: pb.fold(i, 0.0, lambda total, j: total + x[j])),
        )

    x = np.array([2.0, 1.0, 3.0])
    check(triangle, x, expected=(np.cumsum(x), [0.0, 2.0, 3.0], [2.0, 2.0, 3.0], [0.0, 2.0, 3.0]))


def test_a_reduction_of_arrays_is_elementwise(check):
    @pb.function
    def weighted(x: Float64[Array, "N M"], w: Float64[Array, "N"]):
        return pb.sum_over(x.shape[0], lambda n: {"row": w[n] * x[n], "weight": w[n]})

    w = np.array([1.0, 2.0, 3.0])
    check(weighted, X, w, expected={"row": w @ X, "weight": 6.0})


def test_arrays_inside_a_build_are_lifted_over_its_indices(check):
    @pb.function
    def softmax(x: Float64[Array, "N M"]):
        def row(n):
            e = pb.exp(x[n] - pb.max(x[n]))
            return e / pb.sum(e)

        return pb.build(x.shape[0], row)

    e = np.exp(X - X.max(1, keepdims=True))
    check(softmax, X, expected=e / e.sum(1, keepdims=True))
    assert "e = build n < N, m < M" in softmax.ir


def test_a_lifted_statement_has_only_the_axes_it_needs():
    @pb.function
    def f(x: Float64[Array, "N"], w: Float64[Array, "M"]):
        return pb.build((x.shape[0], x.shape[0]), lambda i, j: x[i] * pb.sum(pb.exp(w)) + pb.sum(pb.exp(w * x[j])))

    assert "build m < M { exp(w[m]) }" in f.ir
    assert "build j < N, m < M { w[m] * x[j] }" in f.ir


def test_the_guard_around_a_lifted_statement_counts_where_it_is_used(check):
    @pb.function
    def previous(x: Float64[Array, "N M"]):
        return pb.build(x.shape[0], lambda n: pb.where(n > 0, pb.sum(pb.exp(x[n - 1])), 0.0))

    check(previous, X / 10, expected=[0.0, *np.exp(X / 10).sum(1)[:-1]])


def test_folds_inside_a_build_carry_its_indices(check):
    @pb.function
    def horner(x: Float64[Array, "N"], c: Float64[Array, "K"]):
        return pb.build(x.shape[0], lambda n: pb.fold(c.shape[0], 0.0, lambda a, k: a * x[n] + c[k]))

    x, c = np.array([0.5, 2.0]), np.array([1.0, 2.0, 3.0])
    check(horner, x, c, expected=np.polyval(c, x))


def test_folds_and_scans_nested_in_builds(check):
    @pb.function
    def tables(x: Float64[Array, "N M"]):
        N, M = x.shape

        def row(n):
            def step(state, m):
                total, seen = state
                inner = pb.fold(2, total, lambda a, k: a + k * x[n, m])
                return (inner, seen + pb.sum(x[n]) * inner), total

            return pb.scan(M, (x[n, 0], x[n]), step)

        return pb.build(N, row)

    def reference(x):
        outs = []
        for r in x:
            total, seen, rows = r[0], r.copy(), []
            for v in r:
                rows.append(total)
                total = total + v
                seen = seen + r.sum() * total
            outs.append(((total, seen), np.array(rows)))
        return ((np.array([o[0][0] for o in outs]), np.array([o[0][1] for o in outs])), np.array([o[1] for o in outs]))

    check(tables, X, expected=reference(X))


def test_cond_inside_a_build_chooses_for_each_element(check):
    @pb.function
    def f(x: Float64[Array, "N"]):
        return pb.build(x.shape[0], lambda n: pb.cond(x[n] > 1, lambda v: v * 2, lambda v: -v, x[n]))

    check(f, np.array([0.5, 1.5]), expected=[-0.5, 3.0])


def test_data_dependent_indices_are_checked_unless_declared(check):
    @pb.function
    def checked(x: Float64[Array, "N"], i: Int64[Array, "K"]):
        return pb.build(i.shape[0], lambda k: x[i[k]])

    @pb.function
    def declared(x: Float64[Array, "N"], i: UInt8[Array, "K"]):
        i = pb.in_range(i, x.shape[0])
        return pb.build(i.shape[0], lambda k: x[i[k]])

    assert "check(i[k], N)" in checked.ir and "check" not in declared.ir
    x, i = np.array([5.0, 6.0]), np.array([1, 0, 1])
    check(checked, x, i, expected=x[i])
    check(declared, x, i.astype(np.uint8), expected=x[i])
    for f, bad in ((checked, np.array([2])), (declared, np.array([2], np.uint8)), (checked, np.array([-1]))):
        with pytest.raises(IndexError):
            f.interpret(x, bad)


def test_argmax_and_clip_know_their_range(check):
    @pb.function
    def best(x: Float64[Array, "N M"], y: Float64[Array, "M"], i: Int64[Array, "N"]):
        N, M = x.shape
        place = pb.argmax(x, axis=1)
        return (
            pb.build(N, lambda n: y[place[n]]),
            pb.build(N, lambda n: y[pb.argmax(x[n])]),
            pb.build(N, lambda n: y[pb.clip(i[n], 0, M - 1)]),
        )

    assert "check" not in best.ir
    y, i = np.arange(4.0) * 10, np.array([-5, 2, 9])
    check(best, -X, y, i, expected=([0.0] * 3, [0.0] * 3, y[np.clip(i, 0, 3)]))


def test_index_values_take_the_dtype_they_meet():
    @pb.function
    def f(x: Float32[Array, "N"], k: Int64[Array, "N"], small: UInt8[Array, "N"]):
        N = x.shape[0]
        return (
            pb.build(N, lambda n: x[n] * n / N),
            pb.build(N, lambda n: k[n] + n),
            pb.build(N, lambda n: n),
            pb.build(N, lambda n: small[n] + n),
            pb.build(N, lambda n: n / N),
        )

    types = [r.dtype.name for r in f.program().outputs]
    assert types == ["f32", "i64", "i64", "u8", "f32"]


def test_builds_of_trees_share_one_statement():
    @pb.function
    def f(x: Float64[Array, "N"]):
        return pb.build(x.shape[0], lambda n: {"a": x[n], "b": 2 * x[n]})

    assert len(f.program().body.statements) == 1


def test_captured_arrays_and_numbers(check):
    table, factor = np.array([1.0, 2.0, 3.0]), 3.0

    @pb.function
    def f(x: Float64[Array, "3"]):
        return x * table * factor + np.float64(1.0)

    check(f, np.ones(3), expected=table * 3 + 1)
    assert f.type == "(x: f64[3]) -> f64[3]"


def test_an_array_rebuilt_in_its_own_order_is_itself():
    @pb.function
    def f(x: Float64[Array, "N M"]):
        N, M = x.shape
        same = pb.build((N, M), lambda n, m: x[n, m])
        return pb.build(N, lambda n: pb.build(M, lambda m: pb.build(2, lambda k: k * same[n, m])))

    assert len(f.program().body.statements) == 1


def test_a_part_of_an_array_is_not_the_array(check):
    @pb.function
    def f(x: Float64[Array, "5"], y: Float64[Array, "N N"]):
        return (
            pb.build(3, lambda i: x[i]),
            pb.build(y.shape, lambda i, j: y[j, i]),
            pb.build(y.shape[0], lambda i: y[i, i]),
        )

    x, y = np.arange(5.0), np.arange(4.0).reshape(2, 2)
    check(f, x, y, expected=(x[:3], y.T, np.diag(y)))


class _Model:
    def __init__(self):
        self.w = np.ones(3)

    def __getattr__(self, name):
        raise RuntimeError(name)


def test_captured_arrays_keep_their_names():
    w, model, parts = np.ones(3), _Model(), {"bias": np.ones(3), "a b": np.ones(3)}

    def outer(x):
        return x * w

    @pb.function
    def f(w: Float64[Array, "3"]):
        result = outer(w) + model.w + pb.asarray(parts["bias"]) + pb.asarray(parts["a b"])
        return result, w

    assert [r.name for r in f.program().inputs] == ["w", "w", "model_w", "parts_bias", "captured_3"]
    assert f.program().output_names == ("result", "out_1")


def test_captured_integers_are_indices_in_range(check):
    table = np.array([3, 0, 1])

    @pb.function
    def f(x: Float64[Array, "4"]):
        return pb.build(3, lambda i: x[pb.asarray(table)[i]])

    check(f, np.arange(4.0), expected=np.array([3.0, 0.0, 1.0]))
    (read,) = [r for r in f.program().inputs if r.name == "table"]
    assert read.bounds is not None
    assert [b.constant for b in read.bounds] == [0, 4]
    table[1] = 4
    with pytest.raises(IndexError):
        f(np.arange(4.0))
