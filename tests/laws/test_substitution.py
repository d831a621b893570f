"""Laws of copying and specializing on random programs."""

from dataclasses import replace

import numpy as np
import pytest

from pullback.ir.index import DimSymbol, symbol
from pullback.ir.interpret import interpret
from pullback.ir.printer import structurally_equal
from pullback.ir.program import Program, walk_statements
from pullback.ir.traverse import Substitution, instantiate, specialize
from pullback.ir.verify import verify
from tests.support.programs import random_program

SEEDS = range(200, 240)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_is_equal_and_shares_no_definition(seed):
    p = random_program(np.random.default_rng(seed)).program
    p = p.with_body(instantiate(p, {}))  # indices of extent 1 are gone
    copy = p.with_body(instantiate(p, {}))
    verify(copy)
    assert structurally_equal(p, copy)
    defined = {r for s in walk_statements(p.body) for r in s.outs}
    assert defined.isdisjoint(r for s in walk_statements(copy.body) for r in s.outs)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_specialized_program_gives_the_same_values(seed):
    case = random_program(np.random.default_rng(seed))
    special = specialize(case.program, case.dims)
    verify(special)
    assert not special.sizes
    same_values(interpret(case.program, case.inputs, case.sizes), interpret(special, case.inputs))


def there_and_back(p: Program) -> Program:
    """The program with N renamed and renamed back: everything is rebuilt."""
    for old, new in (("N", "Other"), ("Other", "N")):
        s = Substitution(dims={DimSymbol(old): symbol(new)})
        inputs = tuple(s.ref(r) for r in p.inputs)
        p = replace(p, inputs=inputs, body=s.block(p.body))
    return p


@pytest.mark.parametrize("seed", SEEDS)
def test_rebuilding_is_idempotent_and_keeps_values(seed):
    case = random_program(np.random.default_rng(seed))
    p = there_and_back(case.program)
    verify(p)
    assert structurally_equal(p, there_and_back(p))
    same_values(interpret(case.program, case.inputs, case.sizes), interpret(p, case.inputs, case.sizes))


def same_values(outs, others) -> None:
    """Integers exactly; floats but for the order of sums, from which indices of size 1 are gone."""
    for a, b in zip(outs, others, strict=True):
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
        else:
            np.testing.assert_array_equal(a, b)
