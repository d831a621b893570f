"""Verbs that NumPy computes directly, beside a model of single numbers in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pullback.apl import AplError, Workspace
from pullback.apl.verbs import direct
from pullback.apl.verbs.scalar import DYADIC, MONADIC, pervade
from pullback.apl.verbs.search import places_in

CT = 1e-14
Numbers = list[Any]


class DomainError(Exception):
    """The model raises this where a session has a DOMAIN ERROR."""


def close(a: float, b: float, ct: float = CT) -> bool:
    """Whether two numbers are equal within the tolerance."""
    if not (isinstance(a, float) or isinstance(b, float)):
        return a == b
    a, b = float(a), float(b)
    return a == b or (math.isfinite(a - b) and abs(a - b) <= ct * max(abs(a), abs(b)))


def finite(made: Numbers, *given: Numbers) -> Numbers:
    if all(math.isfinite(x) for own in given for x in own) and not all(math.isfinite(x) for x in made):
        raise DomainError
    return made


def arithmetic(f: Callable[[Any, Any], Any]) -> Callable[[Numbers, Numbers], Numbers]:
    def model(a: Numbers, b: Numbers) -> Numbers:
        if any(isinstance(x, float) for x in (*a, *b)):
            return finite([f(float(p), float(q)) for p, q in zip(a, b)], a, b)
        made = [f(int(p), int(q)) for p, q in zip(a, b)]
        return made if all(abs(n) < 2**63 for n in made) else [f(float(p), float(q)) for p, q in zip(a, b)]

    return model


def quotient(a: Numbers, b: Numbers) -> Numbers:
    if any(q == 0 and p != 0 for p, q in zip(a, b)):
        raise DomainError
    return finite([float(p) / float(q) if q else 1.0 for p, q in zip(a, b)], a, b)


def comparison(f: Callable[[Any, Any], bool], when_close: bool) -> Callable[[Numbers, Numbers], Numbers]:
    def one(p: Any, q: Any) -> bool:
        if isinstance(p, float) or isinstance(q, float):
            p, q = float(p), float(q)
        return when_close if close(p, q) else f(p, q)

    return lambda a, b: [one(p, q) for p, q in zip(a, b)]


def extreme(f: Callable[[Any, Any], Any]) -> Callable[[Numbers, Numbers], Numbers]:
    def model(a: Numbers, b: Numbers) -> Numbers:
        one = float if any(isinstance(x, float) for x in (*a, *b)) else int
        return [f(one(p), one(q)) for p, q in zip(a, b)]

    return model


def residue(a: Numbers, b: Numbers) -> Numbers:
    return [int(q) % int(p) if p else int(q) for p, q in zip(a, b)]


def rounded(to: Callable[[float], int], sign: int) -> Callable[[Numbers], Numbers]:
    def one(x: Any) -> Any:
        if not isinstance(x, float):
            return int(x)
        if abs(x) >= 2.0**52:
            return int(x)
        return round(x) if (round(x) - x) * sign <= CT * max(1.0, abs(x)) else to(x)

    def model(a: Numbers) -> Numbers:
        made = [one(x) for x in a]
        return made if not isinstance(a[0], float) or all(abs(n) < 2**63 for n in made) else [float(n) for n in made]

    return model


def unary(f: Callable[[Any], Any]) -> Callable[[Numbers], Numbers]:
    def model(a: Numbers) -> Numbers:
        made = [f(x if isinstance(x, float) else int(x)) for x in a]
        return made if all(isinstance(n, float) or abs(n) < 2**63 for n in made) else [float(n) for n in made]

    return model


TWO: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "+": arithmetic(lambda p, q: p + q), "-": arithmetic(lambda p, q: p - q), "×": arithmetic(lambda p, q: p * q),
    "÷": quotient, "=": comparison(lambda p, q: p == q, True), "≠": comparison(lambda p, q: p != q, False),
    "<": comparison(lambda p, q: p < q, False), "≤": comparison(lambda p, q: p <= q, True),
    ">": comparison(lambda p, q: p > q, False), "≥": comparison(lambda p, q: p >= q, True),
    "⌈": extreme(max), "⌊": extreme(min),
}  # fmt: skip
WHOLE: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "|": residue, "∨": lambda a, b: [math.gcd(int(p), int(q)) for p, q in zip(a, b)],
    "∧": lambda a, b: [math.lcm(int(p), int(q)) for p, q in zip(a, b)],
    "*": lambda a, b: [int(p) ** int(q) for p, q in zip(a, b)],
}  # fmt: skip
TRUTH: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "∧": lambda a, b: [p and q for p, q in zip(a, b)], "∨": lambda a, b: [p or q for p, q in zip(a, b)],
    "⍲": lambda a, b: [not (p and q) for p, q in zip(a, b)], "⍱": lambda a, b: [not (p or q) for p, q in zip(a, b)],
}  # fmt: skip
ONE: dict[str, Callable[[Numbers], Numbers]] = {
    "⌊": rounded(math.floor, 1), "⌈": rounded(math.ceil, -1), "-": unary(lambda x: -x), "|": unary(abs),
    "×": unary(lambda x: (x > 0) - (x < 0) if not isinstance(x, float) else math.copysign(1.0, x) if x else x),
}  # fmt: skip


def near(r: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Numbers equal to those of x, within the tolerance, at its very end, or a little beyond it."""
    steps = r.choice([0, 0, 1, -1, 30, 44, 45, 46, 89, 90, 91, 92, -44, -45, -46, -89, -90, -91, 200, -200], x.size)
    return (x.view(np.int64) + np.where(np.abs(x) < 1e-300, 0, steps)).view(np.float64)


def numbers(kind: str, r: np.random.Generator, n: int) -> np.ndarray:
    """Random numbers of a kind."""
    match kind:
        case "truth":
            return r.random(n) < 0.5
        case "whole":
            return r.integers(-9, 10, n)
        case "huge":
            return r.choice([2**62, -(2**62), 2**63 - 1, -(2**63) + 1, 3037000499, 3037000500, -7, 2**63 - 300, 1], n)
        case "least":
            return r.choice([-(2**63), 5, 0], n)
        case "whole floats":
            return r.integers(-4, 5, n).astype(float)
        case "floats":
            return r.standard_normal(n) * 10.0 ** r.integers(-3, 4, n)
        case "near wholes":
            return near(r, r.integers(-50, 50, n).astype(float)) * r.choice([1.0, 0.5, 1e10], n)
        case "extreme":
            return r.choice([1e308, -1e308, 1e-308, 5e-324, -5e-324, 1.5e300, 0.0, -0.0, 2.0**63, 4.6e18, 1e20, 3.0], n)
        case _:
            return r.choice([math.inf, -math.inf, math.nan, 1.0, 1.7976931348623157e308, -2.0], n)


KINDS = ("truth", "whole", "huge", "least", "whole floats", "floats", "near wholes", "extreme", "not finite")


@pytest.fixture(autouse=True, params=[(4, 16), (4096, 65536)], ids=["as if long", "short"])
def lengths(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take arrays of some dozen numbers for long ones, too."""
    monkeypatch.setattr(direct, "SHORT", request.param[0])
    monkeypatch.setattr(direct, "PIECE", request.param[1])


def agrees(found: Callable[[], Any], model: Callable[[], Numbers], what: str) -> None:
    try:
        expected = model()
    except DomainError:
        with pytest.raises(AplError, match="DOMAIN ERROR"):
            found()
        return
    except OverflowError:  # ∞ is no integer
        return
    made = found()
    assert made.ravel().tolist() == pytest.approx(expected, rel=0, abs=0, nan_ok=True), what
    kinds = {"b" if isinstance(e, bool) else "f" if isinstance(e, float) else "i" for e in expected}
    assert made.dtype.kind in kinds, what


@pytest.mark.parametrize("left", KINDS)
@pytest.mark.parametrize("right", KINDS)
def test_two_numbers(left: str, right: str) -> None:
    r = np.random.default_rng((KINDS.index(left), KINDS.index(right)))
    for _ in range(2):
        a, b = numbers(left, r, 61), numbers(right, r, 61)
        if a.dtype == b.dtype == float:
            b = np.where(r.random(61) < 0.5, b, near(r, a))
        for glyph, model in TWO.items():
            if glyph == "÷":
                b = np.where(b == 0, np.array(3, b.dtype), b)
            if glyph in "⌈⌊" and "not finite" in (left, right):
                continue  # Python's max and min of NaN depend on the order
            pairs = [(a, b), (a, b[0]), (a[0], b), (a[7], b[7])]
            if a.dtype == b.dtype == float:  # a number, and others that are close to it
                pairs += [(near(r, np.full(61, b[0])), b[0]), (a[0], near(r, np.full(61, a[0])))]
            for p, q in pairs:
                x, y = np.asarray(p), np.asarray(q)
                own = [e.ravel().tolist() for e in np.broadcast_arrays(x, y)]
                with np.errstate(all="ignore"):
                    agrees(lambda: pervade(DYADIC[glyph], CT, x, y), lambda: model(*own), f"{own[0]} {glyph} {own[1]}")


@pytest.mark.parametrize("left", ["truth", "whole"])
@pytest.mark.parametrize("right", ["truth", "whole"])
def test_two_integers(left: str, right: str) -> None:
    r = np.random.default_rng(5)
    for _ in range(5):
        a, b = numbers(left, r, 61), numbers(right, r, 61)
        for glyph, model in WHOLE.items():
            if glyph in "∧∨" and left == right == "truth":
                continue
            y = np.abs(b.astype(int)) if glyph == "*" and right == "whole" else b
            agrees(lambda: pervade(DYADIC[glyph], CT, a, y), lambda: model(a.tolist(), y.tolist()), glyph)


@pytest.mark.parametrize("types", [(bool, bool), (bool, int), (int, float), (int, int)])
def test_truth_values(types: tuple[type, type]) -> None:
    r = np.random.default_rng(2)
    a, b = ((r.random(61) < 0.5).astype(t) for t in types)
    for glyph, model in TRUTH.items():
        made = pervade(DYADIC[glyph], CT, a, b)
        assert made.tolist() == model(a.tolist(), b.tolist())
        assert made.dtype == (bool if glyph in "⍲⍱" or types == (bool, bool) else np.int64)
    assert pervade(MONADIC["~"], CT, b).tolist() == [not e for e in b.tolist()]
    for glyph in "⍲⍱":
        with pytest.raises(AplError, match="DOMAIN ERROR"):
            pervade(DYADIC[glyph], CT, a, b + 1)


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_one_number(kind: str) -> None:
    r = np.random.default_rng(KINDS.index(kind))
    for _ in range(5):
        x = numbers(kind, r, 61)
        for glyph, model in ONE.items():
            agrees(lambda: pervade(MONADIC[glyph], CT, x), lambda: model(x.tolist()), f"{glyph} {x.tolist()}")


def test_arrays_that_are_stored_in_another_order() -> None:
    r = np.random.default_rng(0)
    a, b = r.integers(0, 3, (40, 30)).astype(float), r.integers(0, 3, (30, 40)).astype(float).T
    for glyph in "=<≥+÷":
        expected = pervade(DYADIC[glyph], CT, np.ascontiguousarray(a), np.ascontiguousarray(b) + 1)
        assert (pervade(DYADIC[glyph], CT, a[::-1, ::2][::-1, :], (b + 1)[:, ::2]) == expected[:, ::2]).all()
    assert (pervade(MONADIC["⌊"], CT, b * 1.5) == np.floor(b * 1.5)).all()


@pytest.mark.parametrize("glyph", "+-×÷")
def test_one_result_among_many_that_is_not_finite(glyph: str) -> None:
    """The flags of the processor, at every place of a vector register and behind the last full one."""
    for n in (1, 7, 64, 203):
        for at in range(n):
            a, b = np.full(n, 1e308), np.full(n, 1.0)
            a[at], b[at] = (-1e308 if glyph == "-" else 1e308), (0.0 if glyph == "÷" else 1e308)
            with pytest.raises(AplError, match="DOMAIN ERROR"):
                pervade(DYADIC[glyph], CT, a, b)


def test_infinite_numbers_equal_only_themselves() -> None:
    work = Workspace()
    work["x"] = np.array([math.inf, -math.inf, 5.0, 1.7976931348623157e308])
    assert work.evaluate("x∘.=x").tolist() == np.eye(4, dtype=int).tolist()


# Positions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ct", [0.0, CT, 1e-10])
@pytest.mark.parametrize("kind", ["whole floats", "floats", "near wholes", "extreme", "not finite"])
@pytest.mark.parametrize("count", [1, 3, 40])
def test_the_first_position_of_a_number(ct: float, kind: str, count: int) -> None:
    r = np.random.default_rng(count)
    for _ in range(5):
        pool = numbers(kind, r, 70)
        pool = np.where(r.random(70) < 0.3, pool, near(r, r.choice(pool, 70)))
        sought = np.where(r.random(count) < 0.5, near(r, r.choice(pool, count)), r.choice(pool, count))
        expected = [next((k for k, t in enumerate(pool.tolist()) if close(t, s, ct)), 70) for s in sought.tolist()]
        assert places_in(pool, sought, ct).tolist() == expected


def test_the_first_position_of_a_character() -> None:
    r = np.random.default_rng(1)
    pool, sought = r.choice(list("aé⍳x𝄞"), 50), r.choice(list("abé⍳𝄞"), (3, 4))
    expected = [[pool.tolist().index(c) if c in pool else 50 for c in row] for row in sought.tolist()]
    assert places_in(pool, sought, CT).tolist() == expected


def test_distinct_numbers_of_a_long_vector_take_no_minutes() -> None:
    work = Workspace()
    work["x"] = np.random.default_rng(0).random(20_000)
    assert work.evaluate("(≢∪x),(≢x∩x),(≢x~x),+/x∊x").tolist() == [20_000, 20_000, 0, 20_000]
