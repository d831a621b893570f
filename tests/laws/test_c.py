"""C against the interpreter on random programs: integers and bools equal, floats within a bound from the program."""

import numpy as np
import pytest

from pullback.runtime.compile import compiler_command
from pullback.runtime.executor import compile_program
from pullback.testing.bounds import interpret_with_bounds
from pullback.testing.programs import random_program

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
    values, bounds = interpret_with_bounds(case.program, case.inputs, case.sizes)
    outs = compile_program(case.program, case.dims).run(list(case.inputs))
    for ref, out, value, bound in zip(case.program.outputs, outs, values, bounds, strict=True):
        if ref.dtype.is_floating:
            known = np.isfinite(bound)
            assert (np.abs(out - value)[known] <= 2 * bound[known]).all(), (ref.name, out, value, bound)
        else:
            np.testing.assert_array_equal(out, value, err_msg=ref.name)
