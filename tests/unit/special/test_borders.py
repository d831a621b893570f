"""Special functions on both sides of each border between two formulas: values held to SciPy, in the interpreter.

First derivatives are held to differences of SciPy's values, second ones to differences of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.special as sp

import pullback as pb
from pullback import special
from pullback.special import elements
from pullback.special.moving import Moving

INF, NAN = np.inf, np.nan
SHARES = [1e-3, 0.02425, 0.3, 0.4999, 0.5, 0.5001, 0.93, 0.999]
WAVES = [0.01, 1.5, 2.404, 4.99, 5.0, 5.01, 11.3, 40.0]
GROWING = [0.01, 1.4, 1.99, 2.0, 2.01, 7.99, 8.0, 8.01, 31.0]
GAMMA = [0.02, 0.4, 0.99, 1.0, 1.01, 1.4616, 1.9, 2.0, 2.7, 3.0, 4.4, 5.5, 6.7, 7.4, 7.99, 8.0, 8.3, 40.0, 1e4]
NEGATIVE = [-0.02, -0.5, -0.99, -1.3, -2.6, -7.5, -9.25]
TAILS = [-30.0, -6.0, -1.01, -1.0, -0.99, -0.1, 0.1, 1.0, 3.0, 5.5]
SMALL = [(0.3, 0.1), (0.3, 1.29), (0.3, 1.31), (0.3, 1.99), (0.3, 2.01), (0.9, 0.4), (1.5, 2.4), (1.5, 2.6),
         (12.0, 9.0), (12.0, 13.5), (24.5, 22.0), (24.5, 31.0), (1e-6, 0.3), (0.5, 60.0)]  # fmt: skip
LARGE = [(25.5, 20.0), (25.5, 26.6), (25.5, 60.0), (300.0, 210.0), (300.0, 299.0), (300.0, 310.0), (1e6, 1.001e6)]
BETA = [(0.5, 2.0, 0.1), (0.5, 2.0, 0.4), (3.0, 4.0, 0.44), (3.0, 4.0, 0.45), (20.0, 5.0, 0.7), (20.0, 500.0, 0.02),
        (0.02, 0.3, 0.9), (30.0, 26.0, 0.5), (30.0, 26.0, 0.6), (400.0, 40.0, 0.9), (40.0, 400.0, 0.05),
        (26.0, 3e4, 1.1e-3)]  # fmt: skip
BOTH = [(0.2, 0.3), (1.0, 9.0), (7.9, 7.9), (7.9, 8.1), (8.1, 7.9), (8.1, 8.3), (40.0, 3.0), (500.0, 1000.0)]
LOGS = [(0.5, 2.0), (-3.0, 0.1), (0.0, 0.7)]

# the function, SciPy's, and where
Case = tuple[Callable[..., Any], Callable[..., Any], list[Any]]
CASES: dict[str, Case] = {
    "erfc": (special.erfc, sp.erfc, TAILS),
    "erfcx": (special.erfcx, sp.erfcx, [-5.0, -0.5, -1e-3, 1e-3, 0.5, 4.0, 9.0, 60.0, 1e5]),
    "erfinv": (special.erfinv, sp.erfinv, [-0.9999, -0.9965, -0.9964, -0.2, 1e-3, 0.99, 0.9965, 0.999999]),
    "ndtr": (special.ndtr, sp.ndtr, TAILS),
    "ndtri": (special.ndtri, sp.ndtri, [*SHARES, 1e-30, 1e-8, 1e-6, 1e-4]),
    "log_ndtr": (special.log_ndtr, sp.log_ndtr, TAILS),
    "lgamma": (special.lgamma, sp.gammaln, [*GAMMA, *NEGATIVE]),
    "digamma": (special.digamma, sp.digamma, [*GAMMA, *NEGATIVE]),
    "polygamma 0": (lambda x: special.polygamma(0, x), sp.digamma, GAMMA),
    "polygamma 1": (lambda x: special.polygamma(1, x), lambda x: polygamma(1, x), [*GAMMA, *NEGATIVE]),
    "polygamma 2": (lambda x: special.polygamma(2, x), lambda x: polygamma(2, x), [0.4, 3.0, 12.9, 13.1, 90.0]),
    "polygamma 3": (lambda x: special.polygamma(3, x), lambda x: polygamma(3, x), [0.4, 3.0, 17.9, 18.1, 90.0]),
    "polygamma 7": (lambda x: special.polygamma(7, x), lambda x: polygamma(7, x), [0.4, 3.0, 37.9, 38.1, 90.0]),
    "betaln": (special.betaln, sp.betaln, BOTH),
    "beta": (special.beta, sp.beta, BOTH[:4]),
    "zeta": (special.zeta, sp.zeta, [(1.1, 1.0), (2.0, 0.3), (7.5, 4.0), (3.0, 25.0)]),
    "riemann": (special.zeta, sp.zeta, [1.1, 2.0, 30.0]),
    "gammainc": (special.gammainc, sp.gammainc, [*SMALL, *LARGE]),
    "gammaincc": (special.gammaincc, sp.gammaincc, [*SMALL, *LARGE]),
    "betainc": (special.betainc, sp.betainc, BETA),
    "j0": (special.j0, sp.j0, [-3.0, -11.0, *WAVES]),
    "j1": (special.j1, sp.j1, [-3.0, -11.0, *WAVES]),
    "y0": (special.y0, sp.y0, WAVES),
    "y1": (special.y1, sp.y1, WAVES),
    "i0": (special.i0, sp.i0, [-3.0, -9.0, *GROWING]),
    "i1": (special.i1, sp.i1, [-3.0, -9.0, *GROWING]),
    "i0e": (special.i0e, sp.i0e, [-3.0, -9.0, *GROWING]),
    "i1e": (special.i1e, sp.i1e, [-3.0, -9.0, *GROWING]),
    "k0": (special.k0, sp.k0, GROWING),
    "k1": (special.k1, sp.k1, GROWING),
    "expit": (special.expit, sp.expit, [-30.0, -1.0, 0.7, 40.0]),
    "logit": (special.logit, sp.logit, SHARES),
    "entr": (special.entr, sp.entr, [1e-3, 0.5, 1.0, 4.0]),
    "sinc": (special.sinc, np.sinc, [-2.3, -0.06, -0.04, 0.02, 0.0499, 0.0501, 0.7, 1.0, 3.4]),
    "xlogy": (special.xlogy, sp.xlogy, LOGS),
    "xlog1py": (special.xlog1py, sp.xlog1py, LOGS),
}


# at ends of domains: operands, and the derivative by each
SLOPES: dict[str, list[tuple[Any, Any]]] = {
    "gammainc": [((2.0, 0.0), (0, 0)), ((1.0, 0.0), (0, 1)), ((0.5, 0.0), (0, INF)), ((2.0, INF), (0, 0)),
                 ((1.0, INF), (0, 0)), ((0.5, INF), (0, 0)),
                        ((-0.5, 1.0), (NAN, NAN)), ((0.0, 1.0), (NAN, NAN)), ((INF, 1.0), (NAN, NAN)),
                        ((2.0, -0.5), (NAN, NAN)), ((NAN, 1.0), (NAN, NAN)), ((1.0, NAN), (NAN, NAN))],
    "betainc": [((2.0, 3.0, 0.0), (0, 0, 0)), ((1.0, 3.0, 0.0), (0, 0, 3)), ((0.5, 3.0, 0.0), (0, 0, INF)),
                       ((2.0, 3.0, 1.0), (0, 0, 0)), ((2.0, 1.0, 1.0), (0, 0, 2)), ((2.0, 0.5, 1.0), (0, 0, INF)),
                       ((0.0, 3.0, 0.5), (NAN,) * 3), ((2.0, 0.0, 0.5), (NAN,) * 3), ((INF, 3.0, 0.5), (NAN,) * 3),
                       ((2.0, INF, 0.5), (NAN,) * 3), ((2.0, 3.0, -0.1), (NAN,) * 3), ((2.0, 3.0, 1.1), (NAN,) * 3),
                       ((-0.5, 3.0, 0.5), (NAN,) * 3), ((2.0, -0.5, 0.5), (NAN,) * 3)],
    "xlogy": [((0.0, 2.0), (np.log(2), 0)), ((0.0, 0.0), (0, 0)), ((3.0, 2.0), (np.log(2), 1.5))],
    "xlog1py": [((0.0, 1.0), (np.log(2), 0)), ((0.0, -1.0), (0, 0)), ((3.0, 1.0), (np.log(2), 1.5))],
    "expit": [((40.0,), (np.exp(-40.0),)), ((-700.0,), (np.exp(-700.0),)), ((INF,), (0,)), ((-INF,), (0,))],
    "log_ndtr": [((-1e10,), (1e10,)), ((-1e8,), (1e8,)), ((0.0,), (np.sqrt(2 / np.pi),)), ((40.0,), (0,))],
    "entr": [((0.0,), (INF,)), ((1.0,), (-1,))],
    "j0": [((0.0,), (0,))],
    "j1": [((0.0,), (0.5,))],
    "i0": [((0.0,), (0,))],
    "i1": [((0.0,), (0.5,))],
    "sinc": [((0.0,), (0,))],
}  # fmt: skip


def polygamma(n: int, x: Any) -> Any:
    """SciPy's, and that of DLMF 5.15.6 below 0, where SciPy has none."""
    with np.errstate(all="ignore"):
        mirrored = (np.pi / np.sin(np.pi * x)) ** 2 - sp.polygamma(1, 1 - x)
    return np.where(x > 0, sp.polygamma(n, np.abs(x)), mirrored)


def points(name: str) -> list[Any]:
    """The operands of a case as columns."""
    rows = [p if isinstance(p, tuple) else (p,) for p in CASES[name][2]]
    return [np.array(c) for c in zip(*rows, strict=True)]


def around(columns: list[Any], k: int) -> tuple[Any, list[list[Any]]]:
    """Steps of operand k that no pole is near, and the columns from two steps below it to two above."""
    x = columns[k]
    size = np.abs(x)
    room = np.where(size < 1, np.minimum(size, 1 - size), np.where(x < 0, np.abs(x - np.round(x)), size))
    step = 1e-3 * np.where(room == 0, 1.0, np.minimum(room, 1.0))
    return step, [[*columns[:k], x + s * step, *columns[k + 1 :]] for s in (-2, -1, 1, 2)]


def hold_slopes(f: Callable[..., Any], columns: list[Any], found: Sequence[Any]) -> None:
    """Compare derivatives by each operand to differences of the fourth order."""
    for k, slope in enumerate(found):
        step, sides = around(columns, k)
        a, b, c, d = (f(*s) for s in sides)
        wanted = (a - 8 * b + 8 * c - d) / (12 * step)
        noise = 3e-14 * np.abs(f(*columns)) / step
        assert (np.abs(slope - wanted) <= 1e-6 * np.abs(wanted) + noise).all(), (k, columns, slope, wanted)


def traced(call: Callable[..., Any], count: int) -> tuple[Any, Any]:
    """The function of so many columns, and its derivatives by each."""
    names = ", ".join(f"x{k}" for k in range(count))
    space: dict[str, Any] = {"call": call, "pb": pb}
    exec(f"def value({names}):\n    return call({names})\ndef whole({names}):\n    return pb.sum(call({names}))", space)
    return pb.function(space["value"]), pb.grad(space["whole"], wrt=tuple(f"x{k}" for k in range(count)))


@pytest.mark.parametrize("name", CASES)
def test_values_and_slopes(name: str) -> None:
    """Beside them the slopes at the ends of the domain, which are data."""
    call, theirs, _ = CASES[name]
    columns, ends = points(name), SLOPES.get(name, [])
    value, slopes = traced(call, len(columns))
    found, wanted = value.interpret(*columns), theirs(*columns)
    near = 0.1 if name[0] in "jy" else 1.0 if "gamma" in name or name == "betaln" else 0.0
    np.testing.assert_allclose(found, wanted, rtol=3e-13, atol=3e-15 * near)
    count = len(columns[0])
    given = [np.append(c, [x[k] for x, _ in ends]) for k, c in enumerate(columns)]
    with np.errstate(all="ignore"):
        every = slopes.interpret(*given)
    hold_slopes(theirs, columns, [v[:count] for v in every])
    for k, slope in enumerate(every):
        np.testing.assert_allclose(slope[count:], [w[k] for _, w in ends], rtol=1e-13, atol=1e-300, err_msg=f"{k}")


CURVED = ["erfcx", "erfinv", "ndtri", "log_ndtr", "lgamma", "j0", "i0", "expit", "sinc"]


@pytest.mark.parametrize("name", CURVED)
def test_second_derivatives(name: str) -> None:
    """Along a column, against differences of the first."""
    (column,) = points(name)
    _, slopes = traced(CASES[name][0], 1)
    curved = pb.grad(pb.function(lambda x0: pb.sum(slopes(x0)[0])), wrt="x0")
    hold_slopes(lambda x: slopes.interpret(x)[0], [column], [curved.interpret(column)])


# Ends ---------------------------------------------------------------------------------------------------------------

NEAR_0 = np.log(2) - np.euler_gamma  # and -log(x) more is K0 near 0
ROOT = np.exp(713 / 2)
P2 = lambda x: special.polygamma(2, x)
ENDS: list[tuple[Callable[..., Any], list[Any], list[float]]] = [
    (special.erfc, [INF, -INF, 27.5, NAN], [0, 2, 0, NAN]),
    (special.erfcx, [INF, 0.0, 1e300, -30.0, NAN], [0, 1, 1e-300 / np.sqrt(np.pi), INF, NAN]),
    (special.erfinv, [1.0, -1.0, 0.0, 1.1, -1.1, NAN], [INF, -INF, 0, NAN, NAN, NAN]),
    (special.ndtr, [-INF, INF, 0.0, -39.0, NAN], [0, 1, 0.5, 0, NAN]),
    (special.ndtri, [0.0, 1.0, 0.5, -0.1, 1.1, NAN], [-INF, INF, 0, NAN, NAN, NAN]),
    (special.log_ndtr, [INF, -INF, -1e10, NAN], [0, -INF, -5e19, NAN]),
    (special.lgamma, [0.0, -3.0, INF, 1.0, 2.0, 5e-324, 1e300, NAN],
     [INF, INF, INF, 0, 0, -np.log(5e-324), sp.gammaln(1e300), NAN]),
    (special.digamma, [INF, 1.4616321449683622, 1e-300, 1e300, NAN],
     [INF, sp.digamma(1.4616321449683622), -1e300, sp.digamma(1e300), NAN]),
    (P2, [INF, 1e-100, NAN], [0, -2e300, NAN]),
    (special.zeta, [1.0, 0.5, 61.0, NAN], [INF, NAN, 1, NAN]),
    (special.j0, [0.0, INF, -INF, 1e301, NAN], [1, 0, 0, 0, NAN]),
    (special.j1, [0.0, INF, -INF, 1e301, NAN], [0, 0, 0, 0, NAN]),
    (special.y0, [0.0, INF, 1e301, -1.0, NAN], [-INF, 0, 0, NAN, NAN]),
    (special.y1, [0.0, INF, 1e301, 1e-300, -1.0, NAN], [-INF, 0, 0, -2e300 / np.pi, NAN, NAN]),
    (special.i0, [0.0, INF, -INF, 709.0, 713.0, NAN], [1, INF, INF, sp.i0(709.0), sp.i0e(713.0) * ROOT * ROOT, NAN]),
    (special.i1, [0.0, INF, -INF, 709.0, -713.0, NAN],
     [0, INF, -INF, sp.i1(709.0), sp.i1e(-713.0) * ROOT * ROOT, NAN]),
    (special.i0e, [0.0, INF, -INF, 1e100, NAN], [1, 0, 0, sp.i0e(1e100), NAN]),
    (special.i1e, [0.0, INF, -INF, -1e100, NAN], [0, 0, 0, sp.i1e(-1e100), NAN]),
    (special.k0, [0.0, INF, 1e-310, 5e-324, -1.0, NAN],
     [INF, 0, NEAR_0 - np.log(1e-310), NEAR_0 - np.log(5e-324), NAN, NAN]),
    (special.k1, [0.0, INF, 1e-300, 705.0, -1.0, NAN], [INF, 0, 1e300, sp.k1(705.0), NAN, NAN]),
    (special.expit, [-INF, INF, -700.0, NAN], [0, 1, np.exp(-700.0), NAN]),
    (special.logit, [0.0, 1.0, 1e-300, 1.1, NAN], [-INF, INF, np.log(1e-300), NAN, NAN]),
    (special.entr, [0.0, -1e-300, -INF, INF, NAN], [0, -INF, -INF, -INF, NAN]),
    (special.sinc, [0.0, 1e15, 1e15 + 0.5, NAN], [1, 0, 1 / ((1e15 + 0.5) * np.pi), NAN]),
    (special.xlogy, [(0.0, 0.0), (0.0, INF), (0.0, -1.0), (2.0, 0.0), (0.0, NAN), (NAN, 0.0), (INF, 2.0)],
     [0, 0, 0, -INF, NAN, NAN, INF]),
    (special.xlog1py, [(0.0, -1.0), (0.0, INF), (0.0, -2.0), (2.0, -1.0), (0.0, NAN), (NAN, 0.0)],
     [0, 0, 0, -INF, NAN, NAN]),
    (special.gammainc, [(0.0, 1.0), (2.0, 0.0), (2.0, INF), (INF, 2.0), (0.0, 0.0), (INF, INF), (-0.5, 2.0),
                        (2.0, -0.5), (1e-320, 2.0), (NAN, 1.0), (1.0, NAN)],
     [1, 0, 1, 0, NAN, NAN, NAN, NAN, 1, NAN, NAN]),
    (special.gammaincc, [(0.0, 1.0), (2.0, 0.0), (2.0, INF), (INF, 2.0), (0.0, 0.0), (INF, INF), (-0.5, 2.0),
                         (2.0, -0.5), (2.0, 700.0)], [0, 1, 0, 1, NAN, NAN, NAN, NAN, sp.gammaincc(2.0, 700.0)]),
    (special.betainc, [(2.0, 3.0, 0.0), (2.0, 3.0, 1.0), (0.0, 3.0, 0.5), (2.0, INF, 0.5), (2.0, 0.0, 0.5),
                       (INF, 3.0, 0.5), (0.0, 0.0, 0.5), (0.0, INF, 0.5), (INF, 0.0, 0.5), (INF, INF, 0.5),
                       (-0.5, 2.0, 0.5), (2.0, -0.5, 0.5), (2.0, 3.0, -0.1), (2.0, 3.0, 1.1),
                       (NAN, 3.0, 0.5), (2.0, NAN, 0.5), (2.0, 3.0, NAN),
                       (0.0, 3.0, 0.0), (2.0, 0.0, 1.0)],
     [0, 1, 1, 1, 0, 0, NAN, 1, 0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 0, 1]),
]  # fmt: skip


def columns_of(rows: list[Any]) -> list[Any]:
    return [np.array(c) for c in zip(*(r if isinstance(r, tuple) else (r,) for r in rows), strict=True)]


@pytest.mark.slow
def test_ends_of_domains_and_numbers() -> None:
    def every(given: list[Any]) -> Any:
        return [f(*columns) for (f, _, _), columns in zip(ENDS, given, strict=True)]

    with np.errstate(all="ignore"):
        found = pb.function(every).interpret([columns_of(rows) for _, rows, _ in ENDS])
    for k, (values, (_, rows, wanted)) in enumerate(zip(found, ENDS, strict=True)):
        np.testing.assert_allclose(values, wanted, rtol=1e-13, err_msg=f"{k} {rows}")


@pytest.mark.slow
def test_operands_broadcast_and_keep_their_type() -> None:
    a, x = np.array([[0.5], [30.0]]), np.array([0.2, 1.0, 25.0])
    for call, theirs, given in (
        (special.gammainc, sp.gammainc, (a, x)),
        (special.betainc, sp.betainc, (a, 2.0, x / 26)),
        (special.betaln, sp.betaln, (a, x)),
        (special.xlogy, sp.xlogy, (a, x)),
        (special.zeta, sp.zeta, (a + 1, x)),
    ):
        for dtype, rounding in ((np.float64, 1e-13), (np.float32, 2e-7)):
            own = [np.asarray(v, dtype) for v in given]
            names = ", ".join(f"x{k}" for k in range(len(own)))
            f: dict[str, Any] = {"call": call}
            exec(f"def f({names}):\n    return call({names})", f)
            found = pb.function(f["f"]).interpret(*own)
            assert (found.dtype, found.shape) == (dtype, (2, 3))
            np.testing.assert_allclose(found, theirs(*(v.astype(float) for v in own)), rtol=rounding, atol=1e-44)


def test_numbers_with_derivatives() -> None:
    """Arithmetic of `Moving` beside that of dual numbers."""
    x, y = Moving(3.0, (1.0, 0.0)), Moving(4.0, (0.0, 1.0))
    for found, value, slopes in (
        (x + y, 7.0, (1.0, 1.0)), (x + 2.0, 5.0, (1.0, 0.0)), (2.0 + x, 5.0, (1.0, 0.0)),
        (x - y, -1.0, (1.0, -1.0)), (x - 2.0, 1.0, (1.0, 0.0)), (2.0 - x, -1.0, (-1.0, 0.0)), (-y, -4.0, (0.0, -1.0)),
        (x * y, 12.0, (4.0, 3.0)), (x * 2.0, 6.0, (2.0, 0.0)), (2.0 * y, 8.0, (0.0, 2.0)),
        (x / y, 0.75, (0.25, -3 / 16)), (x / 2.0, 1.5, (0.5, 0.0)), (2.0 / y, 0.5, (0.0, -1 / 8)),
        (y.inverse(), 0.25, (0.0, -1 / 16)),
    ):  # fmt: skip
        assert (found.value, found.slopes) == (value, slopes)


@pytest.mark.parametrize("length", range(1, 6))
def test_polynomials_of_all_lengths(length: int) -> None:
    row, x = [3.0, -2.0, 0.5, 7.0, -1.5][:length], np.array([2.0, 2.5, 6.0])
    f = pb.function(lambda x: elements.special("fit", lambda x: elements.fitted(row, x, 2.0, 6.0))(x))
    np.testing.assert_allclose(f.interpret(x), np.polyval(row[::-1], (x - 4) / 2), rtol=1e-14)


def test_choices_by_limits() -> None:
    parts = [elements.number(v) for v in (1.0, 2.0, 3.0)]
    f = pb.function(lambda x: elements.special("choice", lambda x: elements.between(x, [0.0, 5.0], parts))(x))
    assert f.interpret(np.array([-1.0, 0.0, 4.0, 5.0, INF, NAN])).tolist() == [1, 2, 2, 3, 3, 3]


def test_what_is_refused() -> None:
    for call, said in (
        (lambda: special.lgamma(np.arange(3)), "lgamma takes floating-point values, not i64[3]"),
        (lambda: special.betaln(2, np.arange(3)),
         "betaln takes floating-point values, not an index or Python int and i64[3]"),
        (lambda: special.polygamma(8, np.ones(3)), "polygamma: the order 8"),
        (lambda: special.polygamma(-1, np.ones(3)), "polygamma: the order -1"),
    ):  # fmt: skip
        with pytest.raises(pb.PullbackError) as caught:
            pb.function(call).interpret()
        assert caught.value.what == said


def test_single_precision_and_numbers_of_one_element() -> None:
    f = pb.function(lambda x: (special.lgamma(x), special.erfc(0.5), special.digamma(x)))
    for dtype in (np.float32, np.float64):
        found = f.interpret(dtype(4.5))
        assert [v.dtype for v in found] == [dtype, f.interpret(dtype(1))[1].dtype, dtype]
        np.testing.assert_allclose(found, [sp.gammaln(4.5), sp.erfc(0.5), sp.digamma(4.5)], rtol=1e-7)
