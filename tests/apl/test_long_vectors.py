"""Verbs that take NumPy for long arrays, against plain Python, and their time."""

from __future__ import annotations

import itertools
import math
import operator
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pullback.apl import Workspace

NUMBERS = [random.Random(3).randrange(1, 90) for _ in range(97)]


def folded(f: Callable[[Any, Any], Any], x: list[Any]) -> list[Any]:
    """The results of f between the first one, two, … elements."""
    return list(itertools.accumulate(x, f))


def taken(n: int, x: list[Any]) -> list[Any]:
    """The first n elements, or the last ones for a negative n, with zeros in place of those that lack."""
    if n >= 0:
        return [x[k] if k < len(x) else 0 for k in range(n)]
    return [x[len(x) + k] if len(x) + k >= 0 else 0 for k in range(n, 0)]


VERBS: dict[str, Callable[[list[int]], Any]] = {
    r"+\x": lambda x: folded(operator.add, x),
    r"×\x": lambda x: folded(lambda a, b: float(a) * b, x),
    r"⌈\x": lambda x: folded(max, x),
    r"⌊\x": lambda x: folded(min, x),
    "⍋x": lambda x: [k + 1 for k in sorted(range(len(x)), key=lambda k: (x[k], k))],
    "⍒x": lambda x: [k + 1 for k in sorted(range(len(x)), key=lambda k: (-x[k], k))],
    "x[x]": lambda x: [x[k - 1] for k in x],
    "(2|x)/x": lambda x: [e for e in x if e % 2],
    "(3|x)/x": lambda x: [e for e in x for _ in range(e % 3)],
    "x,x": lambda x: x + x,
    "x,0.5": lambda x: [*x, 0.5],
    "3↑x": lambda x: taken(3, x), "¯3↑x": lambda x: taken(-3, x),
    "99↑x": lambda x: taken(99, x), "¯99↑x": lambda x: taken(-99, x), "0↑x": lambda x: [],
    "3↓x": lambda x: x[3:], "¯3↓x": lambda x: x[:-3], "99↓x": lambda x: [], "¯99↓x": lambda x: [],
    "5⌽x": lambda x: x[5:] + x[:5], "¯5⌽x": lambda x: x[-5:] + x[:-5],
    "7 3⍴x": lambda x: [[x[3 * i + j] for j in range(3)] for i in range(7)],
    "20 6⍴x": lambda x: [[x[(6 * i + j) % len(x)] for j in range(6)] for i in range(20)],
    "⍉7 3⍴x": lambda x: [[x[3 * i + j] for i in range(7)] for j in range(3)],
    "¯2 5↑4 3⍴x": lambda x: [[x[3 * i + j] if j < 3 else 0 for j in range(5)] for i in (2, 3)],
    "6 ¯4↑4 3⍴x": lambda x: [[0 if i > 3 or j < 0 else x[3 * i + j] for j in range(-1, 3)] for i in range(6)],
    "1 ¯1↓4 3⍴x": lambda x: [[x[3 * i + j] for j in range(2)] for i in range(1, 4)],
    "(4 3⍴x)[3 1;2 2]": lambda x: [[x[7], x[7]], [x[1], x[1]]],
    "(4 3⍴x)⍪9": lambda x: [[x[3 * i + j] if i < 4 else 9 for j in range(3)] for i in range(5)],
    "x÷7": lambda x: [e / 7 for e in x],
}  # fmt: skip


@pytest.mark.parametrize("text", VERBS)
def test_they_have_the_values_of_plain_python(text: str) -> None:
    work = Workspace()
    work["x"] = np.array(NUMBERS)
    expected = np.array(VERBS[text](NUMBERS), float)
    found = np.asarray(work.evaluate(text), float)
    assert found.shape == expected.shape or not expected.size
    np.testing.assert_allclose(found, expected.reshape(found.shape), rtol=1e-13)


def test_long_products_of_integers_do_not_wrap() -> None:
    found = np.asarray(Workspace().evaluate(r"×\60⍴4"), float)
    assert [math.log2(e) for e in found] == [2.0 * (k + 1) for k in range(60)]


def test_fills_of_characters_are_blanks() -> None:
    assert "".join(Workspace().evaluate("¯5↑'abc'").tolist()) == "  abc"


def test_a_million_numbers_take_no_minutes() -> None:
    work = Workspace()
    work["x"] = np.random.default_rng(0).random(10**6)
    begun = time.process_time()
    for text in (r"+\x", "⍋x", "x[⍋x]", "(x>0.5)/x", "x,x", "5↓x", "¯2000000↑x", "⍉1000 1000⍴x", "x÷1+x", "⌈/x"):
        work.evaluate(f"y←{text}")
    assert time.process_time() - begun < 20
