"""Programs of the benchmarks' kinds for all sizes: what C gives, at sizes around those of vectors, tiles and blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from benchmarks.sizes import CASES
from pullback.ir.dims import solve_dims
from pullback.ir.interpret import interpret
from pullback.runtime.compile import compiler_command
from pullback.runtime.executor import compile_general

pytestmark = pytest.mark.slow

FUNCTIONS = {c.name: c.function for c in CASES}
PRODUCT = [(1, 1, 1), (2, 7, 15), (8, 8, 16), (9, 17, 33), (40, 129, 31), (53, 61, 67), (33, 513, 32), (129, 3, 521)]
LAYER = [(1, 1, 1, 1, 1), (2, 1, 5, 3, 3), (1, 2, 1, 3, 19), (1, 3, 7, 2, 3), (3, 2, 16, 9, 1), (2, 3, 31, 33, 5)]
ROWS = [(1, 1), (2, 2), (3, 15), (5, 16), (12, 17), (13, 10), (31, 127), (2, 523)]

# what a function takes, in terms of a tuple of sizes
SHAPES: dict[str, tuple[Any, Any]] = {
    "product-512-f32": (PRODUCT, lambda n, k, m: ((n, k), (k, m))),
    "turned-512": (PRODUCT, lambda n, k, m: ((n, k), (m, k))),
    **{f"{layer}-{kind}": (LAYER, lambda b, c, h, o, w, more=more, kind=kind: (
        (b, c, h + w, h + w + 1), (o, c, w, w), *(() if kind == "forward" else ((b, o, h + more, h + more + 1),))))
        for layer, more in (("lenet2", 1), ("resnet-56", 3)) for kind in ("forward", "data", "weights")},
    "softmax-rows": (ROWS, lambda n, m: ((n, m),)),
    "log-sum-exp-rows": (ROWS, lambda n, m: ((n, m),)),
    "log-sum-exp": (ROWS, lambda n, m: ((n * m,),)),
    "mixture": (ROWS, lambda n, m: ((n,), (n, 3), (n, 3), (m, 3))),
}  # fmt: skip


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
@pytest.mark.parametrize("name", SHAPES)
def test_values(name: str) -> None:
    rng = np.random.default_rng(3)
    sizes, shapes = SHAPES[name]
    function, general = FUNCTIONS[name](), None
    for size in sizes:
        arrays = [rng.normal(size=s).astype(np.float32) for s in shapes(*size)]
        program = function.program(*arrays)
        general = general or compile_general(program)
        executable = general.at(solve_dims(program, [a.shape for a in arrays], {}))
        outputs, peak, stray = executable.run_poisoned(arrays)
        assert peak <= executable.arena_bytes
        assert not stray
        for found, wanted in zip(outputs, interpret(program, [a.astype(np.float32) for a in arrays]), strict=True):
            scale = max(1.0, float(np.abs(wanted).max()))
            np.testing.assert_allclose(found / scale, wanted / scale, atol=2e-5, err_msg=f"{size}")


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_no_size_at_all() -> None:
    def rows(x: Any) -> Any:
        return pb.softmax(x, axis=1)

    function = pb.function(rows, specialize="never")
    assert function(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert function(np.ones((4, 3), np.float32)).shape == (4, 3)
