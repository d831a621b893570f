"""The interpreter: blocks of large grids, guards, errors, dtypes, and results of their own."""

import numpy as np
import pytest

from pullback.errors import DTypeError, IndexRangeError, ShapeError
from pullback.ir import grid
from pullback.ir.grid import blocks
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from tests.support.programs import random_program


def run(text, *inputs, **sizes):
    return interpret(parse_program(text), [np.asarray(x) for x in inputs], sizes)


def test_blocks_are_row_major_runs():
    cut = list(blocks((3, 4), 5))
    assert cut == [((0, 1), (0, 4)), ((1, 1), (0, 4)), ((2, 1), (0, 4))]
    assert list(blocks((2, 5), 3)) == [((0, 1), (0, 3)), ((0, 1), (3, 2)), ((1, 1), (0, 3)), ((1, 1), (3, 2))]
    assert list(blocks((), 1)) == [()]


@pytest.mark.parametrize("seed", range(25))
def test_small_blocks_give_the_same_values(seed, monkeypatch):
    case = random_program(np.random.default_rng(seed))
    whole = interpret(case.program, case.inputs, case.sizes)
    monkeypatch.setattr(grid, "LIMIT", 3)
    for a, b, ref in zip(whole, interpret(case.program, case.inputs, case.sizes), case.program.outputs, strict=True):
        if ref.dtype.is_floating:  # sums are taken in another order
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
        else:
            np.testing.assert_array_equal(a, b)


def test_argmax_over_blocks_takes_the_first(monkeypatch):
    monkeypatch.setattr(grid, "LIMIT", 2)
    text = "f(x: f64[N]) { a = build { argmax n < N { x[n] } } b = build { argmin n < N { x[n] } } return a, b }"
    assert [int(v) for v in run(text, [1.0, 5, 0, 5, 0, 5])] == [1, 2]
    assert [int(v) for v in run(text, [1.0, 5, np.nan, 9, np.nan])] == [2, 2]


def test_an_element_read_under_a_guard_and_elsewhere_without_is_checked_there():
    text = """f(x: f64[N], j: i64[M]) {
      y = build m < M { [N >= data(j[m]) + 1] x[check(j[m], N)] }
      return y }"""
    assert run(text, [1.0, 2], [0, 7])[0].tolist() == [1, 0]
    with pytest.raises(IndexRangeError):
        run(text.replace("y = ", "y, z = ").replace(" }\n", "; x[check(j[m], N)] }\n"), [1.0, 2], [0, 7])


def test_an_index_error_names_statement_value_and_extent():
    with pytest.raises(IndexRangeError) as caught:
        run("f(x: f64[N], j: i64[M]) { picked = build m < M { x[check(j[m], N)] } return picked }", [1.0, 2], [0, -3])
    text = str(caught.value)
    assert caught.value.code == "E401" and "picked" in text and "-3" in text and "size 2" in text


def test_unsigned_indices_beyond_the_signed_range_are_outside():
    with pytest.raises(IndexRangeError):
        text = "f(x: f64[N], j: u64[M]) { y = build m < M { x[check(j[m], N)] } return y }"
        run(text, [1.0], np.array([2**63], "u8"))


def test_bounds_are_checked_at_entry():
    with pytest.raises(IndexRangeError, match=r"j\[1\] = 3 is outside 0 … 2"):
        run("f(x: f64[N], j in [0, N): i64[M]) { y = build m < M { x[data(j[m], N)] } return y }", [1.0, 2, 3], [0, 3])


def test_a_wrong_dtype_is_an_error():
    with pytest.raises(DTypeError, match="x is f32, got an array of float64"):
        run("f(x: f32[N]) { return x }", [1.0])


def test_empty_extents():
    text = "f(x: f64[N, M]) { s = build n < N { sum m < M { x[n, m] } } return s }"
    assert run(text, np.empty((2, 0)))[0].tolist() == [0, 0]
    assert run(text, np.empty((0, 3)))[0].shape == (0,)
    with pytest.raises(ShapeError, match="max over no elements"):
        run(text.replace("sum", "max"), np.empty((2, 0)))


def test_an_empty_maximum_under_a_guard_that_fails_is_not_taken():
    text = "f(x: f64[N], y: f64[M]) { s = build m < M { [0 >= m + 1] max n < N { x[n] } } return s }"
    guarded = "f(x: f64[N], c: bool[M]) { s = build m < M { c[m] ? max n < N { x[n] } : 7.0 } return s }"
    assert run(text, [], [1.0])[0].tolist() == [0]
    assert run(guarded, np.empty(0), [False, False])[0].tolist() == [7, 7]


def test_negative_extents_are_shape_errors():
    with pytest.raises(ShapeError, match="negative"):
        run("f(x: f64[N], w: f64[K]) { y = build i < N - K + 1 { x[i] } return y }", np.empty(0), [1.0, 2.0])


def test_no_warning_leaks():
    text = "f(x: f64[N]) { y = build n < N { log(x[n]) / x[n] } z = build n < N { i8(x[n]) + 127 } return y, z }"
    out = run(text, [0.0, -1.0, np.inf])
    assert out[0][0] == -np.inf and np.isnan(out[0][1]) and out[1].dtype == np.int8


def test_outputs_are_arrays_of_their_own():
    x = np.array([1.0, 2.0])
    a, b = run("f(x: f64[N]) { return x, x }", x)
    a[0] = 9
    assert x[0] == 1 and b[0] == 1


def test_strided_and_fortran_inputs():
    x = np.arange(24.0).reshape(4, 6)[::2, ::-3].T
    assert run("f(x: f64[N, M]) { y = build m < M, n < N { x[n, m] } return y }", x)[0].tolist() == x.T.tolist()


def test_reversed_diagonal_and_window_views():
    x = np.arange(16.0).reshape(4, 4)
    text = """f(x: f64[4, 4]) {
      d = build n < 4 { x[n, 3 - n] }
      w = build n < 3, k < 2 { x[n + k, n] }
      return d, w }"""
    d, w = run(text, x)
    assert d.tolist() == [3, 6, 9, 12]
    assert w.tolist() == [[x[n + k, n] for k in range(2)] for n in range(3)]


def test_tall_expressions():
    body = "x[n]"
    lines = []
    for k in range(3000):
        lines.append(f"let a{k} = sin({body});")
        body = f"a{k}"
    text = f"f(x: f64[N]) {{ y = build n < N {{ {' '.join(lines)} {body} }} return y }}"
    expected = np.array([0.5])
    for _ in range(3000):
        expected = np.sin(expected)
    assert run(text, [0.5])[0] == expected


def test_f32_stays_f32_unless_asked():
    p = parse_program("f(x: f32[N]) { y = build n < N { x[n] / 3.0 } return y }")
    x = np.array([1], np.float32)
    assert interpret(p, [x])[0].dtype == np.float32
    assert interpret(p, [x], float64=True)[0].tolist() == [1 / 3]


def test_fold_with_no_trips_and_rows():
    text = """f(x: f64[T, N], s0: f64[N]) {
      s, ys = fold t < T (c = s0) { r = build n < N { c[n] + x[t, n] } yield r, r }
      return s, ys }"""
    s, ys = run(text, np.empty((0, 2)), [1.0, 2.0])
    assert s.tolist() == [1, 2] and ys.shape == (0, 2)
