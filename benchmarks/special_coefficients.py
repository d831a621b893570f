"""Coefficients of `pullback/special/tables.py`, by mpmath with 50 digits.

Each row is a smooth function on an interval, expanded in Chebyshev polynomials by its values at their nodes. It is
cut where the rest is below 2^-56 of the largest. It is written in powers of t, which runs from -1 to 1 over the
interval: the lowest power first. Singularities lie so far outside of each interval that powers of t are as well
conditioned as the polynomials. Run it as `python -m benchmarks.special_coefficients`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp

mp.mp.dps = 50
Function = Callable[[Any], Any]
TARGET = Path(__file__).parents[1] / "pullback" / "special" / "tables.py"


def chebyshev(f: Function, low: Any, high: Any, nodes: int = 64) -> list[Any]:
    """The coefficients of the Chebyshev polynomials."""
    angles = [mp.pi * (k + mp.mpf(1) / 2) / nodes for k in range(nodes)]
    middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
    values = [f(middle + half * mp.cos(a)) for a in angles]
    out = [2 * sum(v * mp.cos(j * a) for v, a in zip(values, angles)) / nodes for j in range(nodes)]
    out[0] /= 2
    return out


def powers(f: Function, low: Any, high: Any, accuracy: Any = None) -> list[float]:
    """The coefficients of powers of t."""
    series = chebyshev(f, low, high)
    bound = (mp.mpf(2) ** -56 if accuracy is None else accuracy) * max(map(abs, series))
    last = max(k for k, c in enumerate(series) if abs(c) > bound)
    total = [mp.mpf(0)] * (last + 1)
    before, current = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    for k in range(last + 1):
        polynomial = before if k == 0 else current
        for j, c in enumerate(polynomial):
            total[j] += series[k] * c
        if k:
            following = [mp.mpf(0), *(2 * c for c in current)]
            for j, c in enumerate(before):
                following[j] -= c
            before, current = current, following
    return [float(c) for c in total]


def erfcx(x: Any) -> Any:
    """Return exp(x²) erfc(x)."""
    return mp.exp(x * x) * mp.erfc(x)


def from_t(t: Any, scale: Any) -> Any:
    """Return x >= 0 with t = (x - scale) / (x + scale)."""
    return scale * (1 + t) / (1 - t)


def scaled_erfcx(t: Any) -> Any:
    """(1 + 2 x) erfcx(x), which goes to 2 / sqrt(pi)."""
    x = from_t(t, 4)
    return (1 + 2 * x) * erfcx(x)


def scaled_integral(n: int) -> Function:
    """(1 + 2 x)^(n + 1) exp(x²) iⁿerfc(x), of which erfcx is the one for n = 0 (DLMF 7.18.2)."""

    def at(t: Any) -> Any:
        x = from_t(t, 4) if t < 1 else mp.inf
        if x > 60:  # DLMF 7.18.14
            terms = [(-1) ** k * mp.gamma(n + 2 * k + 1) / (mp.factorial(n) * mp.factorial(k) * (2 * x) ** (2 * k))
                     for k in range(12)]
            return 2 / mp.sqrt(mp.pi) * (1 + 1 / (2 * x)) ** (n + 1) * sum(terms)
        values = [2 / mp.sqrt(mp.pi), erfcx(x)]
        for k in range(1, n + 1):
            values.append((values[-2] - 2 * x * values[-1]) / (2 * k))
        return (1 + 2 * x) ** (n + 1) * values[-1]

    return at


def erfc_inverse(w: Any) -> Any:
    """The x >= 0 for which -log((1 - y)(1 + y)) = w, y = erf x, over y."""
    if w < mp.mpf(10) ** -30:
        return mp.sqrt(mp.pi) / 2
    tail = mp.exp(-w) / (1 + mp.sqrt(1 - mp.exp(-w)))  # 1 - y, exactly for large w
    x = mp.sqrt(w) if w > 3 else mp.sqrt(mp.pi) / 2 * (1 - tail)
    for _ in range(60):
        step = (mp.erfc(x) - tail) * mp.sqrt(mp.pi) / 2 * mp.exp(x * x)
        x += step / (1 - x * step)
        if abs(step) < mp.mpf(10) ** -42 * x:
            break
    return x / (1 - tail)


def asymptotic(order: int, kind: str) -> Function:
    """Hankel's P and Q in J = sqrt(2 / (pi x)) (P cos - Q sin), Y with + and functions exchanged."""

    def at(s: Any) -> Any:
        if s < mp.mpf(10) ** -20:
            return mp.mpf(1) if kind == "p" else mp.mpf(4 * order * order - 1) / 8
        x = 5 / mp.sqrt(s)
        turn = x - order * mp.pi / 2 - mp.pi / 4
        j, y, scale = mp.besselj(order, x), mp.bessely(order, x), mp.sqrt(mp.pi * x / 2)
        if kind == "p":
            return scale * (j * mp.cos(turn) + y * mp.sin(turn))
        return scale * (y * mp.cos(turn) - j * mp.sin(turn)) * x

    return at


def root(f: Function, x: Any) -> Any:
    """Return f(x), and 0 at 0."""
    return x if x == 0 else f(x)


def near(f: Function, value: Any, at: Any = 0) -> Function:
    """Extend `f` by its limit `value` at one point."""
    return lambda x: value if abs(x - at) < mp.mpf(10) ** -25 else f(x)


ROOT = mp.findroot(lambda x: mp.digamma(x), mp.mpf("1.4616321449683623412626595"))
EULER = mp.euler

ROWS: dict[str, tuple[Function, Any, Any]] = {
    "ERFCX": (scaled_erfcx, -1, 1),
    "ERFCX_1": (scaled_integral(1), -1, 1),
    "ERFCX_2": (scaled_integral(2), -1, 1),
    "ERFCX_3": (scaled_integral(3), -1, 1),
    "ERFINV_NEAR": (erfc_inverse, 0, 5),
    "ERFINV_MIDDLE": (lambda s: erfc_inverse(s * s), mp.sqrt(5), 4),
    "ERFINV_FAR": (lambda s: erfc_inverse(s * s), 4, 7),
    "ERFINV_TAIL": (lambda r: erfc_inverse(1 / (r * r)) * r, mp.mpf(1) / 28, mp.mpf(1) / 7),
    "LGAMMA": (lambda x: mp.loggamma(x) / ((x - 1) * (x - 2)), 1, 2),
    "DIGAMMA": (near(lambda x: mp.digamma(x) / (x - ROOT), mp.polygamma(1, ROOT), ROOT), 1, 2),
    "J0": (lambda s: mp.besselj(0, mp.sqrt(s)), 0, 25),
    "J1": (near(lambda s: mp.besselj(1, mp.sqrt(s)) / mp.sqrt(s), mp.mpf(1) / 2), 0, 25),
    "Y0": (
        near(
            lambda s: mp.bessely(0, mp.sqrt(s)) - 2 / mp.pi * mp.log(mp.sqrt(s)) * mp.besselj(0, mp.sqrt(s)),
            2 / mp.pi * (EULER - mp.log(2)),
        ),
        0,
        25,
    ),
    "Y1": (
        near(
            lambda s: (
                mp.bessely(1, mp.sqrt(s))
                - 2 / mp.pi * (mp.log(mp.sqrt(s)) * mp.besselj(1, mp.sqrt(s)) - 1 / mp.sqrt(s))
            )
            / mp.sqrt(s),
            (2 * EULER - 2 * mp.log(2) - 1) / (2 * mp.pi),
        ),
        0,
        25,
    ),
    "P0": (asymptotic(0, "p"), 0, 1),
    "Q0": (asymptotic(0, "q"), 0, 1),
    "P1": (asymptotic(1, "p"), 0, 1),
    "Q1": (asymptotic(1, "q"), 0, 1),
    "I0E": (lambda x: mp.exp(-x) * mp.besseli(0, x), 0, 8),
    "I1E": (near(lambda x: (1 + x) * mp.exp(-x) * mp.besseli(1, x) / x, mp.mpf(1) / 2), 0, 8),
    "I0E_FAR": (
        near(lambda r: mp.sqrt(8 / r) * mp.exp(-8 / r) * mp.besseli(0, 8 / r), 1 / mp.sqrt(2 * mp.pi)), 0, 1),
    "I1E_FAR": (
        near(lambda r: mp.sqrt(8 / r) * mp.exp(-8 / r) * mp.besseli(1, 8 / r), 1 / mp.sqrt(2 * mp.pi)), 0, 1),
    "I0": (lambda s: mp.besseli(0, mp.sqrt(s)), 0, 4),
    "I1": (near(lambda s: mp.besseli(1, mp.sqrt(s)) / mp.sqrt(s), mp.mpf(1) / 2), 0, 4),
    "K0": (
        near(
            lambda s: mp.besselk(0, mp.sqrt(s)) + mp.log(mp.sqrt(s) / 2) * mp.besseli(0, mp.sqrt(s)), -EULER
        ),
        0,
        4,
    ),
    "K1": (
        near(
            lambda s: (
                mp.besselk(1, mp.sqrt(s))
                - mp.log(mp.sqrt(s) / 2) * mp.besseli(1, mp.sqrt(s))
                - 1 / mp.sqrt(s)
            )
            / mp.sqrt(s),
            (2 * EULER - 1) / 4,
        ),
        0,
        4,
    ),
    "K0_FAR": (
        near(lambda r: mp.sqrt(2 / r) * mp.exp(2 / r) * mp.besselk(0, 2 / r), mp.sqrt(mp.pi / 2)), 0, 1),
    "K1_FAR": (
        near(lambda r: mp.sqrt(2 / r) * mp.exp(2 / r) * mp.besselk(1, 2 / r), mp.sqrt(mp.pi / 2)), 0, 1),
}


def legendre_rule(count: int = 32) -> tuple[list[float], list[float]]:
    """Nodes and weights of the Gauss-Legendre rule on [0, 1]."""
    nodes, weights = [], []
    for k in range(1, count + 1):
        z = mp.cos(mp.pi * (k - mp.mpf(1) / 4) / (count + mp.mpf(1) / 2))
        for _ in range(8):
            before, value = mp.mpf(1), z
            for j in range(2, count + 1):
                before, value = value, ((2 * j - 1) * z * value - (j - 1) * before) / j
            slope = count * (z * value - before) / (z * z - 1)
            z -= value / slope
        nodes.append(float((1 - z) / 2))
        weights.append(float(1 / ((1 - z * z) * slope * slope)))
    return nodes, weights


def wrapped(row: list[float]) -> list[str]:
    """The numbers of a row on lines of at most 120 characters."""
    lines, text = [], ""
    for c in row:
        piece = f"{c!r}, "
        if len(text) + len(piece) > 114:
            lines.append("    " + text.rstrip())
            text = ""
        text += piece
    return [*lines, "    " + text.rstrip()]


def main() -> None:
    """Write the tables."""
    lines = ['"""Coefficients of powers of t in [-1, 1], the lowest first, by benchmarks/special_coefficients.py."""']
    lines += ["", "from typing import Final", "", "# fmt: off"]
    for name, (f, low, high) in ROWS.items():
        row = powers(f, low, high)
        print(name, len(row), flush=True)
        lines.append(f"{name}: Final = (  # {mp.nstr(mp.mpf(low), 6)} to {mp.nstr(mp.mpf(high), 6)}")
        lines += [*wrapped(row), ")"]
    upper = float(ROOT)
    lines += [f"DIGAMMA_ROOT: Final = ({upper!r}, {float(ROOT - upper)!r})  # its upper and lower part"]
    bernoulli = [float(mp.bernoulli(2 * k)) for k in range(1, 16)]
    lines += ["BERNOULLI: Final = (  # of order 2, 4, 6, ...", "    " + ", ".join(map(repr, bernoulli[:5])) + ",",
              "    " + ", ".join(map(repr, bernoulli[5:10])) + ",",
              "    " + ", ".join(map(repr, bernoulli[10:])) + ",", ")"]
    for name, rule in zip(("LEGENDRE_NODES", "LEGENDRE_WEIGHTS"), legendre_rule(), strict=True):
        lines += [f"{name}: Final = (  # of 32 points on [0, 1]", *wrapped(rule), ")"]
    TARGET.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
