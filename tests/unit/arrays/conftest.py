"""What tests of the language share: a traced function must verify, read back from its text, and compute its meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pullback import Function
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.verify import verify
from pullback.tracing import tree

Check = Callable[..., Any]


def _arrays(expected: Any) -> Any:
    """Lists of numbers as arrays."""
    if isinstance(expected, list):
        return np.array(expected)
    if isinstance(expected, dict):
        return {k: _arrays(v) for k, v in expected.items()}
    return tuple(map(_arrays, expected)) if type(expected) is tuple else expected


@pytest.fixture
def check() -> Check:
    """check(f, *args, expected=...): f's program is well formed, and interpreter and C give the expected results."""

    def run(f: Function, *args: Any, expected: Any, tolerance: float = 1e-12) -> None:
        program = f.program(*args)
        verify(program)
        text = print_program(program)
        assert print_program(parse_program(text)) == text
        wanted, structure = tree.flatten(_arrays(expected))
        for route in (f.interpret, f):
            found, own = tree.flatten(route(*args))
            assert own == structure
            for a, b in zip(found, wanted, strict=True):
                assert np.shape(a) == np.shape(b)
                np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)

    return run
