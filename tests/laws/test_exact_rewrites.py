"""The law of rewrites that say so: they change no bit of what random programs give."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.ir.verify import verify
from pullback.rewrite.algebra import simplify_algebra
from pullback.rewrite.copies import absorb_copied, inline_copies, tidy
from pullback.rewrite.loops import simplify_loops
from tests.support.programs import random_program

COPIES = """copied(w: f64[N, M]) {
  t = build k < M, i < N { exp(w[i, k]) }
  d = build k < M, i < N { t[k, i] * w[i, k] }
  j = build i < N, k < M { d[k, i] }
  return j }"""
REWRITES = (simplify_algebra, inline_copies, absorb_copied, tidy, simplify_loops)


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda f: f.__name__)
def test_a_rewrite_changes_no_bit(rewrite: Callable[[Program], Program]) -> None:
    drawn = [random_program(np.random.default_rng((seed, 5))) for seed in range(60)]
    cases = [(c.program, c.inputs, c.sizes) for c in drawn]
    cases.append((parse_program(COPIES), [np.random.default_rng(5).normal(size=(3, 4))], {}))
    changed = 0
    for program, inputs, sizes in cases:
        after = rewrite(program)
        verify(after)
        changed += after != program
        with np.errstate(all="ignore"):
            wanted, found = interpret(program, inputs, sizes), interpret(after, inputs, sizes)
        assert [a.tobytes() for a in found] == [a.tobytes() for a in wanted], str(program)
    assert changed, "none of these programs has anything to rewrite"
