"""C against the interpreter on random programs: integers and bools equal, floats within a bound from the program."""

import numpy as np
import pytest

from pullback.runtime.compile import compiler_command
from pullback.runtime.executor import compile_program
from tests.support.bounds import interpret_with_bounds
from tests.support.programs import random_program
from tests.widths import WIDTHS, run_all_at

pytestmark = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    """A cache folder of the session's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULLBACK_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("seed", range(60))
def test_c_agrees_with_the_interpreter(seed):
    case = random_program(np.random.default_rng(seed))
    assert_within_bounds(case, compile_program(case.program, case.dims).run(list(case.inputs)))


@pytest.mark.slow
@pytest.mark.parametrize(("vector_bytes", "flags"), WIDTHS, ids=["16", "32", "64", "portable"])
def test_every_width_agrees_with_the_interpreter(vector_bytes, flags):
    cases = [random_program(np.random.default_rng(seed)) for seed in range(100, 120)]
    found = run_all_at([(c.program, c.dims, c.inputs) for c in cases], vector_bytes, flags)
    for case, outs in zip(cases, found, strict=True):
        assert_within_bounds(case, outs)


def assert_within_bounds(case, outs):
    """Integers and bools are equal, floats as near as their program allows."""
    values, bounds = interpret_with_bounds(case.program, case.inputs, case.sizes)
    for ref, out, value, bound in zip(case.program.outputs, outs, values, bounds, strict=True):
        if ref.dtype.is_floating:
            known = np.isfinite(bound)
            assert (np.abs(out - value)[known] <= 2 * bound[known]).all(), (ref.name, out, value, bound)
        else:
            np.testing.assert_array_equal(out, value, err_msg=ref.name)
