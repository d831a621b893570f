"""Jagged arrays: every method beside loops in Python, derivatives beside differences, C, types and errors."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array, IndexRangeError, ShapeError

Rows = list[np.ndarray]


def random_rows(seed: int) -> Rows:
    """Rows of numbers or of vectors, some of them empty."""
    r = np.random.default_rng(seed)
    rest = [(), (3,), (2, 2)][seed % 3]
    return [r.normal(size=(int(r.choice([0, 0, 1, 2, 5])), *rest)) for _ in range(int(r.integers(1, 7)))]


def largest(row: np.ndarray, sign: float = 1.0) -> Any:
    return sign * np.max(sign * row, axis=0, initial=-math.inf)


def softmax(row: np.ndarray) -> np.ndarray:
    e = np.exp(row - (row.max(axis=0) if len(row) else 0.0))
    return e / e.sum(axis=0)


def padded(row: np.ndarray, n: int) -> np.ndarray:
    return np.concatenate([row[:n], np.full((max(0, n - len(row)), *row.shape[1:]), -7.0)])


BY_ROW: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "sum": (lambda x: x.sum(), lambda row: row.sum(axis=0)),
    "mean": (lambda x: x.mean(), lambda row: row.sum(axis=0) / np.float64(len(row))),
    "max": (lambda x: x.max(), largest),
    "min": (lambda x: x.min(), lambda row: largest(row, -1.0)),
    "lengths": (lambda x: x.lengths, len),
    "padded": (lambda x: x.padded(3, fill=-7.0), lambda row: padded(row, 3)),
    "mask": (lambda x: x.mask(3), lambda row: np.arange(3) < len(row)),
}
OF_VALUES: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "softmax": (lambda x: x.softmax(), softmax),
    "map": (lambda x: x.map(pb.tanh), np.tanh),
    "operators": (
        lambda x: (2.0 * x - x / (x * x + 1) + (3 - x) ** 2) * 0.5,
        lambda v: (2 * v - v / (v * v + 1) + (3 - v) ** 2) / 2,
    ),
    "repeat": (lambda x: x - x.with_values(x.repeat(x.sum())), lambda v: v - v.sum(axis=0)),
}


@pytest.mark.parametrize("seed", range(12))
def test_methods_are_those_of_rows(seed: int) -> None:
    rows = random_rows(seed)
    x = pb.jagged(rows)
    assert len(x) == len(rows) and [r.tolist() for r in rows] == x.tolist()
    assert all(np.array_equal(x.row(k - len(rows)), row) for k, row in enumerate(rows))
    with np.errstate(invalid="ignore"):
        for name, (method, wanted) in BY_ROW.items():
            np.testing.assert_allclose(pb.function(method)(x), [wanted(row) for row in rows], rtol=1e-13, err_msg=name)
        for name, (method, wanted) in OF_VALUES.items():
            found = pb.function(method)(x)
            assert np.array_equal(found.offsets, x.offsets), name
            for k, row in enumerate(rows):
                np.testing.assert_allclose(found.row(k), wanted(row), rtol=1e-12, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("seed", range(12))
def test_padding_outside_of_traced_functions(seed: int) -> None:
    x = pb.jagged(random_rows(seed))
    words = pb.Jagged((x.values * 10).astype(np.int32), x.offsets)
    for own, fill in ((x, -7.0), (x, 2), (words, -1), (pb.Jagged(x.values.astype(np.float32), x.offsets), 0.5)):
        for length in (0, 1, 3, 6):
            found = own.padded(length, fill=fill)
            wanted = pb.function(lambda x: x.padded(length, fill=fill)).interpret(own)
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
            np.testing.assert_array_equal(own.mask(length), pb.function(lambda x: x.mask(length)).interpret(own))
    assert x.padded(2).flags.writeable
    captured = pb.function(lambda y: y + pb.sum(x.padded(2))).interpret(1.0)
    np.testing.assert_allclose(captured, 1.0 + x.padded(2).sum(), rtol=1e-12, atol=1e-12)


def loss_of(x: Any, w: Any) -> Any:
    """A number that depends on every differentiable method."""
    sizes = pb.where(x.lengths > 0, x.max() - x.min() * 0.5, 0.0)
    attended = (x.softmax() * x.map(pb.sin)).sum()
    return pb.sum((attended + sizes + pb.sum(x.padded(2), axis=1) ** 2 + x.sum() / 3.0) * w)


def loss_by_rows(values: np.ndarray, offsets: np.ndarray, w: np.ndarray) -> float:
    total = 0.0
    for k, weight in enumerate(w):
        row = values[offsets[k] : offsets[k + 1]]
        if len(row):
            own = (softmax(row) * np.sin(row)).sum() + row.max() - row.min() * 0.5
            total += weight * (own + row[:2].sum() ** 2 + row.sum() / 3.0)
    return total


@pytest.mark.parametrize("seed", range(0, 18, 3))
def test_derivatives(seed: int) -> None:
    x = pb.jagged(random_rows(seed))
    w = np.arange(1.0, len(x) + 1)
    derived = pb.value_and_grad(lambda values, x, w: loss_of(x.with_values(values), w), wrt="values")
    value, found = derived(x.values, x, w)
    assert value == pytest.approx(loss_by_rows(x.values, x.offsets, w), rel=1e-12)
    steps = np.eye(len(x.values)) * 1e-6
    wanted = [
        (loss_by_rows(x.values + e, x.offsets, w) - loss_by_rows(x.values - e, x.offsets, w)) / 2e-6 for e in steps
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)


@pb.function
def attention(x: pb.Jagged[Float64[Array, "V"], Int64[Array, "R+1"]], w: Float64[Array, "R"]):
    """A typed function of jagged arrays."""
    return (x.softmax() * x).sum() * w


def test_types() -> None:
    assert str(attention.type) == "(x: Jagged(values: f64[V], offsets: i64[R + 1]), w: f64[R]) -> f64[R]"
    x = pb.jagged([[1.0, 2.0], [], [4.0]])
    with pytest.raises(ShapeError, match=r"E111. attention: axis 0 of w has size 2, but R = 3"):
        attention(x, np.ones(2))
    with pytest.raises(pb.DTypeError):
        attention(pb.jagged([[1, 2]]), np.ones(1))


@pytest.mark.slow
def test_c_without_loops_over_all_pairs(tmp_path: Path) -> None:
    """No loop stands in another one but the steps of a bisection, also in the gradient."""
    x = pb.jagged([[1.0, 2.0], [], [4.0]])
    wanted = attention(x, np.ones(3))
    (tmp_path / "attention.c").write_text(attention.c_source())
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-c", "attention.c"]
    subprocess.run(["cc", *flags], cwd=tmp_path, check=True)
    np.testing.assert_allclose(attention.interpret(x, np.ones(3)), wanted)
    large = pb.jagged([np.ones(k % 3) for k in range(30_000)])
    np.testing.assert_allclose(attention(large, np.ones(30_000)), [float(k % 3 > 0) for k in range(30_000)])
    values = pb.function(lambda v, x, w: pb.sum((x.with_values(v).softmax() * x).sum() * w))
    for f in (values, pb.grad(values, wrt="v")):
        f(large.values, large, np.ones(30_000))
        loops = [len(n) - len(n.lstrip()) for n in f.c_source().splitlines() if n.lstrip().startswith("for (int64_t")]
        assert len(loops) > 10 and set(loops) == {4}  # each stands alone in its function


@pytest.mark.parametrize("offsets", [[0, 3, 2, 4], [1, 2, 4], [0, 2, 3], [0, 2, 6], [0, -1, 4]])
@pytest.mark.parametrize("method", ["sum", "mean", "max", "softmax", "padded", "mask"])
def test_offsets_from_a_program_are_checked(offsets: list[int], method: str) -> None:
    def program(values: Any, offsets: Any) -> Any:
        x = pb.Jagged(values, offsets)
        return getattr(x, method)(*[2] * (method in ("padded", "mask")))

    for run in (pb.function(program), pb.function(program).interpret):
        with pytest.raises(IndexRangeError, match="E401"):
            run(np.ones(4), np.array(offsets))


ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "offsets": (
        lambda: pb.Jagged(np.ones(4), np.array([0, 3, 2, 4])),
        """\
ShapeError [E153] Jagged: the offsets are not those of rows
   | offsets : int64[4], [0 3 2 4]      values : float64[4]
  try: integers from 0 to the number of values that do not decrease; `pb.jagged(rows)` finds them      \
See `pullback explain-error E153`""",
    ),
    "numbers": (
        lambda: pb.jagged([1.0, 2.0]),
        """\
ShapeError [E153] jagged: the rows differ in more than their length
   | row 0 : float64[]      row 1 : float64[]
  try: a list of rows, which are lists or arrays with a first axis      See `pullback explain-error E153`""",
    ),
    "others": (
        lambda: pb.function(lambda x, y: x + y)(pb.jagged([[1.0], [2.0]]), pb.jagged([[1.0, 2.0]])),
        """\
ShapeError [E153] an operator combines jagged arrays of different offsets
  try: `x.with_values(y.values)` says that the rows of y are as long as those of x      \
See `pullback explain-error E153`""",
    ),
    "arrays": (
        lambda: pb.function(lambda x, w: x * w)(pb.jagged([[1.0], [2.0]]), np.ones(2)),
        """\
ShapeError [E153] an operator combines a jagged array with an array
  try: `x.with_values(x.repeat(y))` has one element of y for each row; `x.map(f)` takes all values      \
See `pullback explain-error E153`""",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    call, message = ERRORS[name]
    with pytest.raises(ShapeError) as error:
        call()
    told = [n for n in str(error.value).splitlines() if "-->" not in n and not n.startswith("   |  ")]
    assert "\n".join(told) == message


def test_networks_of_sequences() -> None:
    """A batch of sequences of different lengths: each is as alone."""
    from pullback import nn

    rows = [np.random.default_rng(k).normal(size=(n, 3)).astype(np.float32) for k, n in enumerate((4, 1, 3))]
    net = nn.sequential(nn.dense(2), nn.tanh).on("N T 3")
    parameters, _ = net.init(seed=0)

    @pb.function
    def last(parameters: Any, x: Any) -> Any:
        y = net.apply(parameters, {}, x.padded(4))[0]
        return pb.sum(pb.where(x.mask(4)[:, :, None], y, 0.0), axis=1)

    for found, row in zip(last(parameters, pb.jagged(rows)), rows, strict=True):
        np.testing.assert_allclose(found, net(parameters, row[None])[0].sum(axis=0), rtol=1e-5, atol=1e-6)
