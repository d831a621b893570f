"""Colourings: of what they promise for random patterns, and how many colours known ones take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullback.ad.colouring import Colouring, coloured, star_coloured
from pullback.ad.pattern import Pattern, pattern_of


def random_pattern(seed: int, height: int, width: int, symmetric: bool) -> Pattern:
    rng = np.random.default_rng(seed)
    mask = rng.random((height, width)) < rng.random() * 0.5
    if symmetric:
        mask |= mask.T
    rows, columns = np.nonzero(mask)
    return pattern_of(rows, columns, (height, width))


def recovered(found: Colouring, matrix: np.ndarray) -> np.ndarray:
    """The matrix again, from its products with the seeds."""
    compressed = found.seeds(np.float64) @ matrix.T
    out = np.zeros_like(matrix)
    out[found.pattern.rows, found.pattern.columns] = compressed[found.groups, found.lines]
    return out


@given(st.integers(0, 2**32 - 1), st.integers(0, 9), st.integers(0, 9))
def test_any_matrix_of_the_pattern_comes_back(seed: int, height: int, width: int) -> None:
    pattern = random_pattern(seed, height, width, symmetric=False)
    matrix = np.zeros((height, width))
    matrix[pattern.rows, pattern.columns] = np.random.default_rng(seed).integers(1, 100, len(pattern.rows))
    np.testing.assert_array_equal(recovered(coloured(pattern), matrix), matrix)


@given(st.integers(0, 2**32 - 1), st.integers(0, 9))
def test_any_symmetric_matrix_comes_back(seed: int, size: int) -> None:
    pattern = random_pattern(seed, size, size, symmetric=True)
    matrix = np.zeros((size, size))
    matrix[pattern.rows, pattern.columns] = np.random.default_rng(seed).integers(1, 100, len(pattern.rows))
    matrix += matrix.T
    found = star_coloured(pattern)
    np.testing.assert_array_equal(recovered(found, matrix), matrix)
    assert found.count <= coloured(pattern).count


def band(size: int, diagonals: range) -> Pattern:
    i, j = np.indices((size, size)).reshape(2, -1)
    kept = np.isin(j - i, list(diagonals))
    return pattern_of(i[kept], j[kept], (size, size))


@pytest.mark.parametrize("width", [0, 1, 2, 3])
def test_a_band_takes_as_many_colours_as_it_has_diagonals(width: int) -> None:
    assert coloured(band(40, range(-width, width + 1))).count == 2 * width + 1
    assert star_coloured(band(40, range(-width, width + 1))).count <= 2 * width + 1


def test_a_block_takes_as_many_colours_as_it_is_wide() -> None:
    i, j = np.indices((24, 24)).reshape(2, -1)
    kept = i // 4 == j // 4
    assert coloured(pattern_of(i[kept], j[kept], (24, 24))).count == 4


def test_nothing_takes_no_more_than_one_colour() -> None:
    none = np.zeros(0, np.int64)
    assert coloured(Pattern(none, none, (3, 4))).count == 1
    assert coloured(Pattern(none, none, (3, 0))).count == 0
