"""pb.random from its definition: the words of Threefry in Python's integers, and what each function makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special as sp
from scipy import stats

import pullback as pb
from pullback import random

SEED = 2**63 + 12345
MASK = 2**32 - 1
N = 24


def threefry(key: tuple[int, int], count: int) -> tuple[int, int]:
    """Threefry-2x32 with 20 rounds, from the paper."""
    schedule = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    a, b = (count >> 32) + key[0] & MASK, count + key[1] & MASK
    for step in range(20):
        a = a + b & MASK
        by = (13, 15, 26, 6, 17, 29, 16, 24)[step % 8]
        b = (b << by | b >> 32 - by) & MASK ^ a
        if step % 4 == 3:
            k = step // 4 + 1
            a, b = a + schedule[k % 3] & MASK, b + schedule[(k + 1) % 3] + k & MASK
    return a, b


OWN = (SEED >> 32, SEED & MASK)
PAIRS = [threefry(OWN, k) for k in range(N)]
WIDE = np.array([a << 32 | b for a, b in PAIRS], np.uint64)
NARROW = np.array([a ^ b for a, b in PAIRS], np.uint32)
SHARES = ((WIDE >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53  # in (0, 1)
SINGLE = ((NARROW >> np.uint32(8)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-24)


def drawn(f: Any, *given: Any) -> Any:
    return pb.function(f).interpret(random.key(SEED), *given)


def given(f: Any, *fixed: Any, **keywords: Any) -> Any:
    """A draw whose other arguments are known while it is traced."""
    return drawn(lambda key: f(key, *fixed, **keywords))


def test_keys_and_words() -> None:
    assert random.key(SEED).tolist() == list(OWN)
    assert random.key(SEED).dtype == np.uint32
    assert random.key(-1).tolist() == [MASK, MASK]
    assert random.key(np.int64(7)).tolist() == random.key(2**64 + 7).tolist() == [0, 7]
    assert pb.function(lambda seed: random.key(seed)).interpret(np.int64(-2)).tolist() == [MASK, MASK - 1]
    assert drawn(lambda key: random.bits(key, N)).tolist() == NARROW.tolist()
    wide = drawn(lambda key: random.bits(key, (N // 6, 3, 2), dtype="uint64"))
    assert wide.tolist() == WIDE.reshape(-1, 3, 2).tolist()
    assert drawn(lambda key: random.bits(key, [2, 3])).tolist() == NARROW[:6].reshape(2, 3).tolist()
    assert drawn(lambda key: random.bits(key)) == NARROW[0]
    assert drawn(lambda key: random.split(key)).tolist() == [list(p) for p in PAIRS[:2]]
    for keys in (drawn(lambda key: random.split(key)), given(random.fold_in, 3), drawn(lambda key: random.bits(key))):
        assert keys.dtype == np.uint32
    assert drawn(lambda key: random.split(key, 5)).tolist() == [list(p) for p in PAIRS[:5]]
    for data in (0, 3, MASK, 2**32 + 3, -1, -(2**31), 2**64 + 5):
        word = list(threefry(OWN, data & MASK))
        assert given(random.fold_in, data).tolist() == word
        if data < 2**63:
            assert drawn(lambda key, data: random.fold_in(key, data), np.int64(data)).tolist() == word


def uniform_between(low: Any, high: Any) -> tuple[Any, Any]:
    """A draw in which only the end that is an array is data."""
    if isinstance(low, float):
        return lambda key, high: random.uniform(key, N, low=low, high=high), high
    return lambda key, low: random.uniform(key, N, low=low, high=high), low


def test_uniform_numbers_are_multiples() -> None:
    exact = (WIDE >> np.uint64(11)).astype(float) * 2.0**-53
    narrow = (NARROW >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    assert drawn(lambda key: random.uniform(key, N)).tolist() == exact.tolist()
    found = drawn(lambda key: random.uniform(key, N, dtype="float32"))
    assert found.dtype == np.float32 and found.tolist() == narrow.tolist()
    for low, high in ((2.0, 5.0), (0.0, 3.0), (-1.0, 1.0), (-1e308, 1e308)):
        wanted = low * (1 - exact) + high * exact
        between = given(random.uniform, N, low=low, high=high)
        np.testing.assert_allclose(between, wanted, rtol=1e-13, atol=1e-15 * abs(high))
        of_data = drawn(lambda key, low, high: random.uniform(key, N, low=low, high=high), low, high)
        np.testing.assert_allclose(of_data, wanted, rtol=1e-13, atol=1e-15 * abs(high))
    for low, high in ((0.0, np.array([2.0])), (np.array([-1.0]), 1.0), (0.0, np.array([1.0]))):  # one is data
        wanted = low + exact * (high - low)
        np.testing.assert_allclose(drawn(*uniform_between(low, high)), wanted, rtol=1e-15)
    assert drawn(lambda key, x: random.uniform(key, N) + x, np.float32(1.0)).dtype == np.float32


def test_words_of_whole_numbers() -> None:
    """The ends and dtypes have tests of their own, in `test_random_ends.py`."""
    wanted = [-3 + (int(w) * 14 >> 64) for w in WIDE]
    assert drawn(lambda key: random.integers(key, N, low=-3, high=11)).tolist() == wanted
    assert drawn(lambda key, low, high: random.integers(key, N, low=low, high=high), -3, 11).tolist() == wanted
    large = [int(w) * (2**62 + 5) >> 64 for w in WIDE]
    assert drawn(lambda key: random.integers(key, N, high=2**62 + 5)).tolist() == large
    assert drawn(lambda key: random.bernoulli(key, N, p=0.3)).tolist() == (SHARES < 0.3).tolist()
    single = np.float32(0.3)
    assert drawn(lambda key, p: random.bernoulli(key, N, p=p), single).tolist() == (single > SINGLE).tolist()
    exact = float(WIDE[0] >> np.uint64(11)) * 2.0**-53
    assert [given(random.bernoulli, p=p).item() for p in (exact, np.nextafter(exact, 1))] == [False, True]
    assert given(random.bernoulli, 5, p=1).tolist() == [True] * 5
    assert drawn(lambda key: random.permutation(key, N)).tolist() == np.argsort(WIDE, kind="stable").tolist()
    x = np.arange(3.0 * 5).reshape(3, 5)
    for axis, count in ((0, 3), (1, 5), (-1, 5)):
        moved = given(random.permutation, x, axis=axis)
        assert moved.tolist() == np.take(x, np.argsort(WIDE[:count], kind="stable"), axis).tolist()


DRAWS = {
    "normal": (random.normal, sp.ndtri),
    "exponential": (random.exponential, lambda u: -np.log1p(-u)),
    "gumbel": (random.gumbel, lambda u: -np.log(-np.log(u))),
    "laplace": (random.laplace, lambda u: np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))),
}


@pytest.mark.parametrize("name", DRAWS)
def test_quantiles_of_shares(name: str) -> None:
    draw, quantile = DRAWS[name]
    np.testing.assert_allclose(drawn(lambda key: draw(key, N)), quantile(SHARES), rtol=1e-13)
    found = drawn(lambda key: draw(key, (N,), dtype="float32"))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, quantile(SINGLE.astype(float)), rtol=2e-6)
    assert drawn(lambda key: draw(key)) == pytest.approx(quantile(SHARES[0]), rel=1e-13)


ENDS = [(-1.0, 0.5), (0.5, 2.0), (-np.inf, -1.0), (3.0, np.inf), (-40.0, -31.0), (9.0, 10.0), (29.0, 29.5),
        (31.0, 31.5), (-33.0, -30.5), (50.0, 50.001), (0.0, 0.0)]  # fmt: skip


def truncated(low: float, high: float, u: Any) -> Any:
    """By the side that has more digits; `truncnorm` counts shares from the lower end."""
    if low > 0:
        return -stats.truncnorm.ppf(u, -high, -low)
    return stats.truncnorm.ppf(u, low, high) if low < high else np.full(len(u), low)


@pytest.mark.slow
def test_truncated_normal_numbers() -> None:
    for low, high in ENDS:
        wanted = truncated(low, high, SHARES)
        found = given(random.truncated_normal, low, high, N)
        np.testing.assert_allclose(found, wanted, rtol=2e-10, atol=1e-12, err_msg=f"{low} {high}")
        assert (low <= found).all() and (found <= high).all()
    low, high = -11.0, -10.1  # not so far that its share vanishes: to the last digits
    share = sp.ndtr(low) + SHARES * (sp.ndtr(high) - sp.ndtr(low))
    np.testing.assert_allclose(given(random.truncated_normal, low, high, N), sp.ndtri(share), rtol=1e-14)
    for low, high in ((-9.0, -8.5), (-11.0, -10.5), (-20.0, -19.5), (14.0, 14.5)):
        found = given(random.truncated_normal, low, high, N, dtype="float32")
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, truncated(low, high, SINGLE.astype(float)), rtol=1e-6)
    low, high = np.array([[1.0], [2.0]]), np.array([[2.0], [1.0]])
    both = drawn(lambda key, low, high: random.truncated_normal(key, low, high, (2, N // 2)), low, high)
    np.testing.assert_allclose(both[0], truncated(1.0, 2.0, SHARES[: N // 2]), rtol=1e-12)
    assert np.isnan(both[1]).all()


def test_categories_have_the_largest_sum() -> None:
    gumbel = -np.log(-np.log(SHARES))
    logits = np.log(np.array([[0.1, 0.6, 0.3], [0.5, 0.25, 0.25]]))
    one = drawn(lambda key, l: random.categorical(key, l), logits)
    assert one.tolist() == np.argmax(logits + gumbel[:6].reshape(2, 3), 1).tolist()
    assert drawn(lambda key, l: random.categorical(key, l, 2), logits).tolist() == one.tolist()
    many = drawn(lambda key, l: random.categorical(key, l, (4, 2)), logits)
    assert many.tolist() == np.argmax(logits + gumbel.reshape(4, 2, 3), 2).tolist()
    columns = drawn(lambda key, l: random.categorical(key, l, [4, 2], axis=0), logits.T)
    assert columns.tolist() == np.argmax(logits.T + gumbel.reshape(4, 3, 2), 1).tolist()
    assert drawn(lambda key, l: random.categorical(key, l, axis=0), logits.T).shape == (2,)


ERRORS = {
    "random.key(np.zeros(2, np.int64))": "a seed is one integer, not i64[2]",
    "random.bits(np.zeros(2, np.int32))": "bits: a key is u32[2], not i32[2]",
    "random.split(np.zeros((2, 2), np.uint32))": "split: a key is u32[2], not u32[2, 2]",
    "random.fold_in(key, 1.5)": "fold_in takes one integer, not a Python float",
    "random.fold_in(key, np.zeros(2, np.int64))": "fold_in takes one integer, not i64[2]",
    **{f"random.{n}(key, dtype='int32')": f"{n} gives floating-point numbers, not i32"
       for n in ("uniform", "normal", "exponential", "gumbel", "laplace")},
    "random.truncated_normal(key, 0.0, 1.0, dtype='int8')": "truncated_normal gives floating-point numbers, not i8",
    "random.integers(key, 2, high=3, dtype='float32')": "integers gives integers, not f32",
    "random.integers(key, 2, low=5, high=3)": "integers: there is none from 5 up to, not including, 3",
    "random.categorical(key, np.zeros(3, np.int64))": "categorical takes floating-point logits, not i64[3]",
    "random.categorical(key, 1.0)": "categorical takes floating-point logits, not a Python float",
}  # fmt: skip


@pytest.mark.parametrize("call", ERRORS)
def test_errors(call: str) -> None:
    space: dict[str, Any] = {"random": random, "np": np}
    exec(f"def f(key):\n    return {call}", space)
    with pytest.raises(pb.PullbackError) as caught:
        pb.function(space["f"]).interpret(random.key(0))
    assert caught.value.what == ERRORS[call]
