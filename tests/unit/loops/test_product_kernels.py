"""The kernels of products: each computes what it says, in every form, run step by step on whole numbers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np
import pytest

from pullback.ir.index import as_index
from pullback.ir.types import f32, f64
from pullback.loops.product.edge import edge
from pullback.loops.product.listed import list_steps
from pullback.loops.product.multiply import Listed, Walk, dots, multiply
from pullback.loops.product.sweep import add_rows
from pullback.loops.product.turn import square, store_across, turn
from pullback.loops.program.nodes import Call, Copy, Function, Kernel, kernels_of
from pullback.loops.program.values import Buffer, View
from tests.support.equivalence.field import Array, Field
from tests.support.equivalence.loops import run

RNG = np.random.default_rng(0)
SCALINGS = [(1.0, False), (3.0, False), (1.0, True), (3.0, True)]
SCALE = 7


def numbers(*shape: int) -> Array:
    """Whole numbers so small that their sums are those of the field."""
    return RNG.integers(1, 100, shape)


def called(kernel: Kernel, given: Mapping[str, Array], begin: Array, counts: Mapping[str, int]) -> Array:
    """The last parameter of a kernel after a call: it began as `begin`, the others are given by name."""
    inputs = [Buffer(p.name, p.dtype, (), "input", as_index(max(1, np.size(given.get(p.name, 0)))))
              for p in kernel.params[:-1]]  # fmt: skip
    before, after = (Buffer("c", kernel.params[-1].dtype, (), s, as_index(begin.size)) for s in ("input", "output"))
    copy = Copy(View(after), View(before), as_index(begin.size))
    call = Call.by_name(kernel, (*map(View, inputs), View(after)), counts)
    function = Function("f", (*inputs, before), (after,), (copy, call))
    rows = [np.asarray(given.get(p.name, 0), np.uint64).reshape(-1, 1) for p in kernel.params[:-1]]
    (found,), _ = run(Field(1), function, [*rows, begin.astype(np.uint64).reshape(-1, 1)], {})
    return found[:, 0].astype(np.int64).reshape(begin.shape)


def scaled(by: tuple[float, bool]) -> int:
    return int(by[0]) * (SCALE if by[1] else 1)


def assert_tile(found: Array, before: Array, sums: Array, begun: int) -> None:
    """The sums, added to what was there once they have begun; what is beside the tile stays."""
    wanted = before.copy()
    rows, columns = sums.shape
    wanted[:rows, :columns] = sums + (before[:rows, :columns] if begun else 0)
    np.testing.assert_array_equal(found, wanted)


# Tiles ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("by", "begun"), [*product(SCALINGS[1:], (0, 1)), (SCALINGS[0], 0), (SCALINGS[0], 2)])
@pytest.mark.parametrize(("rows", "vectors"), [(1, 1), (3, 2), (2, 3)])
def test_a_tile_of_panels(rows: int, vectors: int, by: tuple[float, bool], begun: int) -> None:
    columns = 4 * vectors
    a, b, c = numbers(5, rows), numbers(5, columns), numbers(rows, columns + 3)
    kernel = multiply(f64, 4, rows, vectors, False, by)
    counts = {"steps": 5, "stride": columns + 3, "begun": begun, "row": 99}
    assert_tile(called(kernel, {"a": a, "b": b, "scale": SCALE}, c, counts), c, scaled(by) * (a.T @ b), begun)
    assert [p.name for p in kernel.params] == ["a", "b", *["scale"] * by[1], "c"]
    assert [p.written for p in kernel.params] == [False] * (len(kernel.params) - 1) + [True]


@pytest.mark.parametrize("begun", [0, 1])
def test_a_tile_that_reads_one_operand_in_place(begun: int) -> None:
    a, b, c = numbers(3, 9), numbers(5, 8), numbers(3, 10)
    counts = {"steps": 5, "stride": 10, "begun": begun, "row": 9}
    found = called(multiply(f32, 4, 3, 2, True, (1.0, False)), {"a": a, "b": b}, c, counts)
    assert_tile(found, c, a[:, :5] @ b, begun)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("taken", [[], [4], [0, 2, 3], [0, 1, 2, 3, 4]])
def test_a_tile_that_takes_the_steps_in_a_list(taken: list[int], in_place: bool) -> None:
    a, b, c = numbers(3, 9) if in_place else numbers(5, 3), numbers(5, 8), numbers(3, 10)
    counts = {"steps": 5, "stride": 10, "begun": 0, "row": 9}
    listed = np.array([*taken, *[99] * (5 - len(taken)), len(taken)])
    kernel = multiply(f64, 4, 3, 2, Listed(in_place), (1.0, False))
    found = called(kernel, {"a": a, "b": b, "list": listed}, c, counts)
    assert_tile(found, c, (a[:, :5] if in_place else a.T)[:, taken] @ b[taken], 0)


@pytest.mark.parametrize(("lanes", "width"), [(4, 1), (4, 8), (8, 13), (2, 3)])
def test_the_steps_at_which_a_panel_has_nonzeros(lanes: int, width: int) -> None:
    panel = numbers(6, width)
    panel[[1, 4]] = 0
    panel[2, : width - 1] = panel[5, 1:] = 0
    found = called(list_steps(f64, lanes, width), {"panel": panel}, np.full(7, 99), {"steps": 6})
    assert (found[:4].tolist(), found[6]) == ([0, 2, 3, 5], 4)


def test_a_tile_that_walks_over_one_operand() -> None:
    """The sum is three loops over a[i, u, v, w], which has more elements along each axis than the loops."""
    a, b, c = numbers(2, 3, 4, 6), numbers(2, 3, 5, 4), numbers(2, 4)
    counts = {"steps2": 2, "steps1": 3, "steps0": 5, "step2": 24, "step1": 6, "step0": 1, "stride": 4, "begun": 0}
    kernel = multiply(f64, 4, 2, 1, Walk((0, 72), 3), (1.0, False))
    found = called(kernel, {"a": a, "b": b}, c, counts)
    assert_tile(found, c, np.einsum("iuvw,uvwj->ij", a[:, :2, :3, :5], b), 0)
    assert kernel.apart and not multiply(f64, 4, 2, 1, True, (1.0, False)).apart


@pytest.mark.parametrize("in_place", [False, True])
def test_a_tile_at_an_edge_reads_wider_panels(in_place: bool) -> None:
    """In place, the last row that is present stands for those that are not."""
    a, b, c = numbers(3, 5) if in_place else numbers(5, 6), numbers(5, 12), numbers(4, 8)
    counts = {"steps": 5, "stride": 8, "begun": 0, "row": 5, "present": 3}
    found = called(multiply(f64, 4, 4, 2, in_place, (1.0, False), (6, 12)), {"a": a, "b": b}, c, counts)
    assert_tile(found, c, (a[[0, 1, 2, 2]] if in_place else a[:, :4].T) @ b[:, :8], 0)


@pytest.mark.parametrize(("by", "begun"), list(product(SCALINGS, (0, 1))))
@pytest.mark.parametrize("steps", [0, 3, 4, 9])
def test_a_column_is_summed_along_the_lanes(steps: int, by: tuple[float, bool], begun: int) -> None:
    a, b, c = numbers(3, 10), numbers(max(1, steps), 1), numbers(3, 5)
    counts = {"steps": steps, "stride": 5, "begun": begun, "row": 10}
    found = called(dots(f32, 4, 3, by), {"a": a, "b": b, "scale": SCALE}, c, counts)
    assert_tile(found, c, scaled(by) * (a[:, :steps] @ b[:steps]), begun)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(("present", "used"), list(product((1, 2, 3, 4), (1, 4, 5, 8, 9, 15, 16))))
def test_the_part_of_a_tile_that_exists(present: int, used: int, in_place: bool) -> None:
    """It reads what there is of A alone in place, and writes no more than there is of C."""
    by, begun = SCALINGS[(present + used) % 4], used % 2
    a, b, c = numbers(present, 3) if in_place else numbers(3, 4), numbers(3, 16), numbers(5, 18)
    counts = {"steps": 3, "stride": 18, "begun": begun, "row": 3, "present": present, "used": used}
    given = {"a": a, "b": b, "scale": SCALE, "line": np.full(64, 12345)}
    found = called(edge(f64, 4, (4, 4), in_place, by), given, c, counts)
    sums = (a if in_place else a[:, :present].T) @ b[:, :used]
    assert_tile(found, c, scaled(by) * sums, begun)


def test_half_a_tile_is_taken_where_it_is_enough() -> None:
    calls = {k.name for k in kernels_of(edge(f64, 4, (4, 4), False, (1.0, False)).body)}
    assert calls == {f"multiply_f64_{rows}x{columns}_edge" for rows in (2, 4) for columns in (8, 16)}
    assert edge(f64, 4, (4, 4), False, (1.0, False)).name == "edge_f64_4x16"
    assert edge(f64, 4, (4, 4), True, (1.0, False)).name == "edge_f64_4x16_in_place"


@pytest.mark.parametrize(("kernel", "name", "comment"), [
    (multiply(f64, 4, 3, 2, False, (1.0, False)), "multiply_f64_3x8",
     "c[i, j] (+)= sum over k of a[k, i] * b[k, j] for i < 3, j < 8"),
    (multiply(f32, 4, 3, 2, True, (-0.5, True)), "multiply_f32_3x8_in_place_scaled",
     "c[i, j] (+)= -0.5 * scale * sum over k of a[i, k] * b[k, j] for i < 3, j < 8"),
    (multiply(f32, 4, 2, 1, Walk((0, 9), 2), (1.0, True)), "multiply_f32_2x4_walked_scaled",
     "c[i, j] (+)= scale * sum over k of a[places[i] + k] * b[k, j] for i < 2, j < 4"),
    (multiply(f32, 4, 2, 1, False, (2.0, False), (4, 8)), "multiply_f32_2x4_scaled_edge",
     "c[i, j] (+)= 2 * sum over k of a[k, i] * b[k, j] for i < 2, j < 4"),
    (dots(f32, 4, 3, (1.0, False)), "dots_f32_3", "c[i] (+)= sum over k of a[i, k] * b[k] for i < 3"),
    (dots(f32, 4, 3, (2.0, False)), "dots_f32_3_scaled", "c[i] (+)= 2 * sum over k of a[i, k] * b[k] for i < 3"),
])  # fmt: skip
def test_what_is_read_in_the_c(kernel: Kernel, name: str, comment: str) -> None:
    assert (kernel.name, kernel.comment) == (name, (comment,))


# Sweeps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [0, 3])
@pytest.mark.parametrize(("rows", "together", "width", "rest", "known"), [
    (1, 1, 4, 0, False), (1, 8, 8, 3, True), (3, 2, 4, 2, False), (2, 1, 0, 3, True), (2, 2, 8, 0, True),
])  # fmt: skip
def test_rows_that_are_added(rows: int, together: int, width: int, rest: int, known: bool, begun: int) -> None:
    n = width + rest
    x, y, z = numbers(rows, 2, together + 1), numbers(together, n + 2), numbers(rows + 1, n + 5)
    counts = {"width": width, "rest": rest, "x_step": 1, "x_row": 2 * (together + 1), "y_row": n + 2, "z_row": n + 5,
              "begun": begun}  # fmt: skip
    kernel = add_rows(f64, 4, rows, together, rest if known else None)
    assert_tile(called(kernel, {"x": x, "y": y}, z, counts), z, x[:, 0, :together] @ y[:, :n], begun)
    assert [p.written for p in kernel.params] == [False, False, True]


# Turned squares ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "steps"), [(2, 4), (4, 8), (8, 8)])
def test_runs_are_written_across(n: int, steps: int) -> None:
    source, to = numbers(n, steps + 3), numbers(steps, n + 1)
    counts = {f"at{j}": j * (steps + 3) for j in range(n)} | {"steps": steps, "width": n + 1}
    kernel = turn(f32, n)
    assert_tile(called(kernel, {"source": source}, to, counts), to, source[:, :steps].T, 0)
    assert (kernel.name, kernel.comment) == (f"turn_f32_{n}", (f"to[k, j] = source[at_j + k] for k < steps, j < {n}",))


@pytest.mark.parametrize("begun", [0, 1])
@pytest.mark.parametrize(("rows", "apart", "lanes", "n"), [
    (4, 1, 4, 4), (6, 1, 4, 4), (9, 1, 8, 4), (3, 1, 4, 2), (4, 2, 4, 1), (2, 3, 1, 1), (5, 1, 4, 4),
])  # fmt: skip
def test_a_tile_is_stored_across(rows: int, apart: int, lanes: int, n: int, begun: int) -> None:
    """Squares that lie over each other add to what was there before both."""
    columns, width = 2 * n, 2 * n + 1
    assert square(f64, rows, apart, lanes) == n
    tile, to = numbers(rows, width), numbers(columns, rows * apart + 2)
    counts = {"columns": columns, "width": width, "stride": rows * apart + 2, "begun": begun}
    kernel = store_across(f64, rows, apart, lanes)
    found = called(kernel, {"tile": tile}, to, counts)
    wanted = to.copy()
    wanted[:, : rows * apart : apart] = tile[:, :columns].T + begun * wanted[:, : rows * apart : apart]
    np.testing.assert_array_equal(found, wanted)
    assert kernel.name == f"store_across_f64_{rows}" + f"_by_{apart}" * (apart > 1) + "_each" * (n == 1)


@pytest.mark.parametrize(("size", "rows", "apart", "lanes", "n"), [
    (8, 8, 1, 4, 4), (8, 4, 1, 8, 4), (8, 3, 1, 8, 2), (8, 2, 1, 8, 2), (8, 1, 1, 8, 1), (8, 4, 1, 2, 2),
    (8, 4, 1, 1, 1), (4, 8, 1, 16, 8), (4, 7, 1, 16, 4), (4, 4, 1, 4, 4), (4, 3, 1, 8, 1), (4, 8, 2, 8, 1),
    (4, 8, -1, 8, 1),
])  # fmt: skip
def test_squares_are_as_wide_as_vectors_and_rows_allow(size: int, rows: int, apart: int, lanes: int, n: int) -> None:
    assert square(f64 if size == 8 else f32, rows, apart, lanes) == n

