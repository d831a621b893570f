"""Reads that may leave their array, of every dtype and around every width of a vector: C and interpreter agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.ir.types import DTYPES, DType
from pullback.runtime.compile import compiler_command

SIZES = ((1, 16, 33), (7, 33, 70))  # of bools and signed integers, and of others: each width has both
pytestmark = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")


def numbers(dtype: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Random numbers, of integers from their whole range; of quarters, whose sums are exact, some NaN and infinite."""
    rng = np.random.default_rng(sum(shape))
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        return rng.integers(dtype.minimum, dtype.maximum, shape, dtype.numpy, endpoint=True)
    out = rng.integers(-80, 81, shape) / 4
    out[rng.random(shape) < 0.1] = np.nan
    out[rng.random(shape) < 0.1] = np.inf
    return out.astype(dtype.numpy)


def of_all(b: Any, m: Any, one: Any) -> dict[str, Any]:
    """Reads that every dtype has, of a vector and of a matrix with as many columns."""
    n, (rows, columns) = b.shape[0], m.shape

    def each(f: Any) -> Any:
        return pb.build(n, f)

    return {
        "next": each(lambda i: b.at(i + 1)),
        "before": each(lambda i: b.at(i - 5, fill=one)),
        "strided": each(lambda i: b.at(2 * i)),
        "stretched": each(lambda i: b.at(i // 2 + 1)),
        "reversed": each(lambda i: b.at(n - 2 - i)),
        "grid": pb.build((rows, columns), lambda i, j: m.at(i - 1, j + 1, fill=one)),
        "transposed": pb.build((columns, rows), lambda i, j: m.at(j, i + 1)),
        "where": each(lambda i: pb.where(i % 3 == 0, b.at(i + 1), b.at(i - 1))),
        "where data": each(lambda i: pb.where(b[i] != b.at(i + 1), b.at(i + 1, fill=one), b[i])),
        "where both": pb.build((rows, columns), lambda i, j: pb.where(j >= i, m.at(i, j + 2), b.at(j - i))),
        "equal": each(lambda i: b.at(i + 1) == b[i]),
        "any": each(lambda i: pb.any_over(3, lambda q: b.at(i + q - 1) != b[i])),
        "count": pb.sum_over(n, lambda i: (b.at(i + 1) == b[i]).astype(pb.int64)),
        **{f"as {d.name}": each(lambda i, d=d: b.at(i + 1).astype(d.numpy.name)) for d in DTYPES},
        "sum of casts": each(lambda i: pb.sum_over(2, lambda q: b.at(i + q).astype(pb.float32))),
    }


def of_bools(b: Any, m: Any) -> dict[str, Any]:
    """Reads of bools."""
    n, (rows, columns) = b.shape[0], m.shape
    return {
        "all": pb.build(n, lambda i: pb.all_over(3, lambda q: b.at(i + q - 1, fill=True))),
        "not": pb.build(n, lambda i: ~b.at(i + 1)),
        "logic": pb.build(n, lambda i: b.at(i + 1) ^ b.at(i - 1) | b[i]),
        "any of a row": pb.build(rows, lambda i: pb.any_over(columns, lambda j: m.at(i, j + 1))),
    }


def of_numbers(b: Any, m: Any) -> dict[str, Any]:
    """Reads of numbers."""
    n = b.shape[0]

    def windows(reduction: Any) -> Any:
        return pb.build(n, lambda i: reduction(3, lambda q: b.at(i + q - 1)))

    return {
        "sum": windows(pb.sum_over), "max": windows(pb.max_over), "min": windows(pb.min_over),
        "argmax": windows(pb.argmax_over), "product": windows(pb.prod_over),
        "linear": pb.build(n, lambda i: b.at(i + 1) * 3 + b[i]),
        "less": pb.build(n, lambda i: b.at(i + 1) < b.at(i - 1)),
        "larger": pb.build(n, lambda i: pb.maximum(b.at(i + 1), b[i])),
        "running": pb.build(n, lambda i: pb.sum_over(n, lambda q: pb.where(q <= i, b[q], 0))),
    }  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reads_that_may_leave_their_array(dtype: DType) -> None:
    @pb.function
    def reads(vectors: list[Any], matrices: list[Any]) -> list[Any]:
        more, one = (of_bools, True) if dtype.is_bool else (of_numbers, 1)
        return [of_all(b, m, one) | more(b, m) for b, m in zip(vectors, matrices, strict=True)]

    sizes = SIZES[dtype.kind in ("unsigned", "floating")]
    given = [numbers(dtype, (n,)) for n in sizes], [numbers(dtype, (3, n)) for n in sizes]
    for n, got, wanted in zip(sizes, reads(*given), reads.interpret(*given), strict=True):
        for name in wanted:
            np.testing.assert_array_equal(got[name], wanted[name], err_msg=f"{name} of {n}")
