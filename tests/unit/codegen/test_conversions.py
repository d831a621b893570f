"""Integers and bools of one width in lanes of another: every pair of types, against NumPy."""

import numpy as np
import pytest

import pullback as pb
from pullback import Array

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
TYPES = ("bool", *INTEGERS, "float32", "float64")
SIZES = (3, 37)  # with and without vectors


def converted(name: str, n: int, step: int):
    """What NumPy and we make of every `step`-th of n elements of a type, in all types."""
    rng = np.random.default_rng(n)
    x = rng.integers(0, 2, n).astype(bool) if name == "bool" else _numbers(name, rng, n)
    targets = [t for t in TYPES if t != "bool"]

    @pb.function
    def f(x: Array):
        return tuple(pb.build(x.shape[0] // step, lambda i, t=t: x[step * i].astype(t)) for t in targets)

    return [x[: n // step * step : step].astype(t) for t in targets], f(x)


def _numbers(name: str, rng: np.random.Generator, n: int) -> np.ndarray:
    x = rng.integers(np.iinfo(name).min, np.iinfo(name).max, n, dtype=name, endpoint=True)
    x[:2] = np.iinfo(name).min, np.iinfo(name).max
    return x


@pytest.mark.parametrize("step", (1, 2), ids=("neighbors", "every other"))
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", ("bool", *INTEGERS))
def test_elements_are_what_numpy_makes_of_them(name: str, n: int, step: int) -> None:
    for wanted, got in zip(*converted(name, n, step), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", ("float32", "float64", "int8", "int16", "int64"))
@pytest.mark.parametrize("n", (5, 8, 37, 130))
def test_tests_of_bools_choose(n: int, dtype: str) -> None:
    """Bools of several places, joined as bytes, choose among elements of every width."""
    rng = np.random.default_rng(n)
    a, b = rng.integers(0, 2, (2, n)).astype(bool)
    x = rng.integers(-100, 100, n).astype(dtype)

    @pb.function
    def f(a: Array, b: Array, x: Array):
        n = a.shape[0]
        test = pb.build(n, lambda i: a[i] | b.at(i + 1, fill=False) & ~a.at(i - 1, fill=True))
        return (
            pb.build(n, lambda i: pb.where(a[i] | b.at(i + 1, fill=False) & ~a.at(i - 1, fill=True), x[i], 0)),
            pb.build(n, lambda i: pb.where(x[i] > 3, a[i] ^ b[i], a[i])),
            test,
        )

    after, before = np.append(b[1:], False), np.append(True, a[:-1])
    test = a | after & ~before
    for wanted, got in zip((np.where(test, x, 0), np.where(x > 3, a ^ b, a), test), f(a, b, x), strict=True):
        np.testing.assert_array_equal(got, wanted)
