"""Colorings: of what they promise for random patterns, and how many colors known ones take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullback.ad.coloring import Coloring, colored, compressed, star_colored
from pullback.ad.pattern import Pattern, pattern_of
from pullback.ir.index import as_index
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program


def random_pattern(seed: int, height: int, width: int, symmetric: bool) -> Pattern:
    rng = np.random.default_rng(seed)
    mask = rng.random((height, width)) < rng.random() * 0.5
    if symmetric:
        mask |= mask.T
    rows, columns = np.nonzero(mask)
    return pattern_of(rows, columns, (height, width))


def recovered(found: Coloring, matrix: np.ndarray) -> np.ndarray:
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
    np.testing.assert_array_equal(recovered(colored(pattern), matrix), matrix)


@given(st.integers(0, 2**32 - 1), st.integers(0, 9))
def test_any_symmetric_matrix_comes_back(seed: int, size: int) -> None:
    pattern = random_pattern(seed, size, size, symmetric=True)
    matrix = np.zeros((size, size))
    matrix[pattern.rows, pattern.columns] = np.random.default_rng(seed).integers(1, 100, len(pattern.rows))
    matrix += matrix.T
    found = star_colored(pattern)
    np.testing.assert_array_equal(recovered(found, matrix), matrix)
    assert found.count <= colored(pattern).count


def band(size: int, diagonals: range) -> Pattern:
    i, j = np.indices((size, size)).reshape(2, -1)
    kept = np.isin(j - i, list(diagonals))
    return pattern_of(i[kept], j[kept], (size, size))


@pytest.mark.parametrize("width", [0, 1, 2, 3])
def test_a_band_takes_as_many_colors_as_it_has_diagonals(width: int) -> None:
    assert colored(band(40, range(-width, width + 1))).count == 2 * width + 1
    assert star_colored(band(40, range(-width, width + 1))).count <= 2 * width + 1


def test_a_block_takes_as_many_colors_as_it_is_wide() -> None:
    i, j = np.indices((24, 24)).reshape(2, -1)
    kept = i // 4 == j // 4
    assert colored(pattern_of(i[kept], j[kept], (24, 24))).count == 4


def test_nothing_takes_no_more_than_one_color() -> None:
    none = np.zeros(0, np.int64)
    assert colored(Pattern(none, none, (3, 4))).count == 1
    assert colored(Pattern(none, none, (3, 0))).count == 0


def test_how_many_colors_symmetric_patterns_take() -> None:
    """Half of a symmetric pattern is the whole of it."""
    i, first = np.arange(1, 9), np.zeros(8, np.int64)
    arrow = pattern_of(np.concatenate([first, i]), np.concatenate([i, i]), (9, 9))
    found = star_colored(arrow)
    assert (found.count, len(found.pattern.rows)) == (2, 24)
    one, next_to = np.eye(6, dtype=int), np.eye(6, k=1, dtype=int) + np.eye(6, k=-1, dtype=int)
    grid = pattern_of(*np.nonzero(np.kron(one, next_to) + np.kron(next_to, one) + np.eye(36, dtype=int)), (36, 36))
    assert (star_colored(grid).count, colored(grid).count) == (6, 7)
    triangles = pattern_of(*np.nonzero(np.kron(np.eye(3, dtype=int), np.ones((3, 3), int))), (9, 9))
    assert star_colored(triangles).count == 3


TWO = """f(x: f64[3], k: f64[3]) {
  y = build i < 3 { x[i] * x[i] * k[i] }
  z = build i < 3 { 5.0 * x[i] }
  return y, z }"""


def test_several_seeds_at_once() -> None:
    """Those of one array leave the others where they are."""
    program = parse_program(TWO)
    x, k = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 2.0])
    two, one = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), np.array([[1.0, 2.0, 4.0]])
    forward = compressed(program, [0, 1], "forward", [as_index(2), as_index(1)])
    assert forward.output_names == ("y_by_x", "z_by_x", "y_by_k", "z_by_k")
    expected = (2 * x * k * two, 5 * two, x * x * one, 0 * one)
    for found, wanted in zip(interpret(forward, [x, k, two, one]), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    backward = compressed(program, [0, 1], "reverse", [as_index(2), as_index(1)])
    assert backward.output_names == ("x_by_y", "k_by_y", "x_by_z", "k_by_z")
    expected = (2 * x * k * two, x * x * two, 5 * one, 0 * one)
    for found, wanted in zip(interpret(backward, [x, k, two, one]), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
