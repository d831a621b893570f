"""Error bounds: they hold for f32 runs of random programs, and are not idle."""

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.verify import verify
from tests.support.bounds import interpret_with_bounds, with_bounds
from tests.support.programs import random_program


@pytest.mark.parametrize("seed", range(60))
def test_bounds_hold_for_the_programs_own_dtypes(seed):
    case = random_program(np.random.default_rng(seed))
    verify(with_bounds(case.program))
    values, bounds = interpret_with_bounds(case.program, case.inputs, case.sizes)
    for out, value, bound, ref in zip(interpret(case.program, case.inputs, case.sizes), values, bounds,
                                      case.program.outputs, strict=True):
        if ref.dtype.is_floating:
            known = np.isfinite(bound)
            assert (np.abs(out - value)[known] <= 2 * bound[known]).all()
        else:
            np.testing.assert_array_equal(out, value)


def test_a_sum_is_bounded_by_its_length_and_size():
    p = parse_program("f(x: f32[N]) { s = build { sum n < N { x[n] } } return s }")
    x = np.full(1000, 0.1, np.float32)
    (value,), (bound,) = interpret_with_bounds(p, [x])
    assert bound == pytest.approx(1000 * 2**-24 * 100, rel=1e-5)
    assert abs(np.float32(np.cumsum(x)[-1]) - value) <= bound


def test_inputs_and_integers_are_exact():
    p = parse_program("f(x: f32[N]) { a, b = build n < N { maximum(x[n], 0.0); i32(x[n]) } return a, b, x }")
    _, bounds = interpret_with_bounds(p, [np.array([1.5], np.float32)])
    assert [b.tolist() for b in bounds] == [[0], [0], [0]]


def test_there_is_no_bound_where_the_dtype_overflows():
    p = parse_program("f(x: f32[N]) { a = build n < N { x[n] * x[n] } return a }")
    _, (bound,) = interpret_with_bounds(p, [np.array([1e30, 1.0], np.float32)])
    assert bound[0] == np.inf and bound[1] < 1e-5


def test_there_is_none_of_a_function_of_what_overflows():
    p = parse_program("f(x: f32[N]) { y = build i < N { 1.0 / (1.0 + x[i] * x[i] * x[i] * x[i]) } return y }")
    _, (bound,) = interpret_with_bounds(p, [np.array([1e30, 1e3], np.float32)])
    assert bound[0] == np.inf and bound[1] < 1e-5


def test_what_falls_below_the_normal_numbers_is_off_by_a_step_that_later_factors_multiply():
    p = parse_program("f(x: f32[N]) { a = build n < N { x[n] * x[n] * 1000.0 } b = build n < N { exp(x[n] * -3.2e24) } "
                      "return a, b }")
    x = np.array([3e-23, 1e-23], np.float32)
    values, bounds = interpret_with_bounds(p, [x])
    owns = (x * x * np.float32(1000), np.exp(x * np.float32(-3.2e24)))
    for value, bound, own in zip(values, bounds, owns, strict=True):
        assert np.isfinite(bound).all()
        assert (np.abs(own - value) <= 2 * bound).all()
    assert 1e-42 < bounds[0][0] < 1e-40
