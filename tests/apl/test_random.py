"""A few of the random texts and expressions that `python -m tests.support.apl` runs many of."""

import numpy as np
import pytest

from tests.support.apl import expression_failure, random_expression, random_text, text_failure


def test_no_string_of_glyphs_breaks_the_evaluator() -> None:
    texts = [random_text(np.random.default_rng((7, n))) for n in range(500)]
    assert not [failure for text in texts if (failure := text_failure(text, seconds=1.0))]


def test_expressions_are_what_numpy_says() -> None:
    drawn = [random_expression(np.random.default_rng((7, n, 1))) for n in range(400)]
    assert not [failure for term, at in drawn if (failure := expression_failure(term, at, compiled=False))]


@pytest.mark.parametrize("seed", range(8))
def test_compiled_expressions_are_what_numpy_says(seed: int) -> None:
    term, argument = random_expression(np.random.default_rng((8, seed, 1)))
    assert expression_failure(term, argument) is None
