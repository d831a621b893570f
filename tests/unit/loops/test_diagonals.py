"""`loops.strategies.diagonals`: sums along diagonals, in the order of the array."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32, Float64

import pullback as pb
from pullback.loops.program.nodes import kernels_of
from pullback.machine import AVX512
from pullback.runtime.emit import lower_program

R, C = 20, 37
# Where element r, c of a matrix is added up, and how many sums there are.
PLACES: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "rising": (lambda r, c: r + c, R + C),
    "falling": (lambda r, c: r - c + C, R + C),
    "falling_back": (lambda r, c: c - r + R, R + C),
    "turned": (lambda r, c: R + C - r - c, R + C + 1),
    "steep": (lambda r, c: 2 * r + c, 2 * R + C),
    "flat": (lambda r, c: r + 2 * c, R + 2 * C),
}


def sums(g: Any, place: Callable[[Any, Any], Any], n: int) -> Any:
    """The sums along diagonals of the last two axes."""
    out = np.zeros((*g.shape[:-2], n))
    r, c = np.indices(g.shape[-2:])
    np.add.at(out, (..., place(r, c)), g)
    return out


def is_by_rows(f: Any, *arguments: Any) -> bool:
    """Whether there is such a kernel."""
    function = lower_program(f.program(*arguments), {}, machine=AVX512).function
    return any(k.choice is not None and k.choice.name == "diagonals" for k in kernels_of(function.body))


@pytest.mark.parametrize("kind", [Float64, Float32])
@pytest.mark.parametrize("name", PLACES)
def test_adjoints_of_matrices_with_equal_diagonals(name: str, kind: Any) -> None:
    place, n = PLACES[name]

    @pb.function
    def matrix(x: kind[pb.Array, f"{n}"]) -> Any:  # type: ignore[valid-type]
        return pb.build((R, C), lambda r, c: x[place(r, c)])

    adjoint = pb.vjp(matrix, wrt=0)
    random = np.random.default_rng(0)
    x, g = (random.normal(size=s).astype("f4" if kind is Float32 else "f8") for s in (n, (R, C)))
    eps = 40 * np.finfo(x.dtype).eps
    np.testing.assert_allclose(adjoint(x, g)[1], sums(g, place, n), rtol=eps, atol=eps)
    assert is_by_rows(adjoint, x, g) is (name != "flat")  # whose terms are a window of few rows


def test_stacks_with_other_arrays_and_a_condition() -> None:
    """Every element is one term; what else a term reads, and where it is zero, follows it."""

    @pb.function
    def f(g: Float64[pb.Array, "3 20 37"], h: Float64[pb.Array, "37"], u: Float64[pb.Array, "57"]) -> Any:
        def term(b: Any, i: Any, j: Any) -> Any:
            inside = (i >= j) & (i - j < R) & (j < 30)
            return pb.where(inside, g.at(b, i - j, j) * h[j] * u[i], 0.0)

        return pb.build((3, 57), lambda b, i: pb.sum_over(C, lambda j: term(b, i, j)))

    random = np.random.default_rng(0)
    g, h, u = (random.normal(size=s) for s in ((3, R, C), (C,), (57,)))
    wanted = sums(g * np.where(np.arange(C) < 30, h, 0), lambda r, c: r + c, R + C) * u
    np.testing.assert_allclose(f(g, h, u), wanted, rtol=1e-12, atol=1e-13)
    assert is_by_rows(f, g, h, u)


@pytest.mark.parametrize("n", [16, 21, 40, 55])
def test_fewer_results_than_diagonals(n: int) -> None:
    """Elements of the other diagonals are in no result, and are written nowhere."""

    @pb.function
    def f(g: Float64[pb.Array, "20 37"]) -> Any:
        term = lambda i, j: pb.where((i >= j) & (i - j < R), g.at(i - j, j), 0.0)
        return pb.build(n, lambda i: pb.sum_over(C, lambda j: term(i, j)))

    g, memory = np.random.default_rng(0).normal(size=(R, C)), np.full(n + 80, 7.0)
    f(g, out=memory[:n])
    np.testing.assert_allclose(memory[:n], sums(g, lambda r, c: r + c, R + C)[:n], rtol=1e-12, atol=1e-13)
    assert (memory[n:] == 7.0).all()
    assert is_by_rows(f, g)


def test_open_sizes() -> None:
    @pb.function(specialize="never")
    def hankel(x: Float64[pb.Array, "N"]) -> Any:
        n = x.shape[0] // 2
        return pb.build((n, n), lambda i, j: x[i + j])

    adjoint = pb.vjp(hankel, wrt=0)
    for n in (2, 7, 40, 601):
        g = np.random.default_rng(n).normal(size=(n // 2, n // 2))
        wanted = sums(g, lambda r, c: r + c, n)
        np.testing.assert_allclose(adjoint(np.zeros(n), g)[1], wanted, rtol=1e-12, atol=1e-13)


def test_results_in_the_place_of_an_operand() -> None:
    """An array that is overwritten is not filled with zeros while its old elements are terms."""

    @pb.function
    def f(g: Float64[pb.Array, "20 37"], u: Float64[pb.Array, "57"]) -> Any:
        u = pb.sin(u)
        term = lambda i, j: pb.where((i >= j) & (i - j < R), g.at(i - j, j), 0.0) * u[i]
        return pb.build(57, lambda i: pb.sum_over(C, lambda j: term(i, j)))

    random = np.random.default_rng(0)
    g, u = random.normal(size=(R, C)), random.normal(size=57)
    np.testing.assert_allclose(f(g, u), sums(g, lambda r, c: r + c, R + C) * np.sin(u), rtol=1e-12, atol=1e-13)
