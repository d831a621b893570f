"""Laws of the text form on random programs: what is printed parses, means the same, and prints the same."""

import os
import subprocess
import sys

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program, structurally_equal
from pullback.ir.verify import verify
from tests.support.programs import random_program

SEEDS = range(60)


@pytest.mark.parametrize("seed", SEEDS)
def test_text_round_trips(seed):
    case = random_program(np.random.default_rng(seed))
    verify(case.program)
    text = print_program(case.program)
    again = parse_program(text)
    verify(again)
    assert print_program(again) == text
    assert structurally_equal(case.program, again)
    for a, b in zip(interpret(case.program, case.inputs, case.sizes), interpret(again, case.inputs, case.sizes),
                    strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("seed", range(60, 90))
def test_f64_oracle_agrees_on_what_is_exact(seed):
    """In f64 only roundings differ: integers and bools are the same, floats are near."""
    case = random_program(np.random.default_rng(seed))
    outs = interpret(case.program, case.inputs, case.sizes)
    for a, b, ref in zip(outs, interpret(case.program, case.inputs, case.sizes, float64=True), case.program.outputs,
                         strict=True):
        assert b.dtype == (np.float64 if ref.dtype.is_floating else ref.dtype.numpy)
        if not ref.dtype.is_floating:
            np.testing.assert_array_equal(a, b)


def test_programs_of_one_seed_are_one_program():
    a, b = (random_program(np.random.default_rng(5)) for _ in range(2))
    assert structurally_equal(a.program, b.program) and print_program(a.program) == print_program(b.program)


def test_different_programs_are_not_equal():
    programs = [random_program(np.random.default_rng(s)).program for s in range(10)]
    assert all((p is q) == structurally_equal(p, q) for p in programs for q in programs)


@pytest.mark.slow
def test_text_does_not_depend_on_the_hash_seed():
    script = ("import numpy as np\nfrom tests.support.programs import random_program\n"
              "from pullback.ir.printer import print_program\n"
              "for s in range(8): print(print_program(random_program(np.random.default_rng(s)).program))")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    texts = {subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True,
                            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root}).stdout for seed in "019"}
    assert len(texts) == 1
