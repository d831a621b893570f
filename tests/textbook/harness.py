"""Algorithms written twice: in Pullback as a user would, and in plain NumPy, which knows nothing of the other.

Values, tangents and cotangents of the first are compared with those of the second, whose derivatives are central
differences in NumPy's longest floating-point type. Several algorithms are one function, to compile less often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import pullback as pb

Array = np.ndarray[Any, Any]
STEP = 1e-6
LONG = np.longdouble
EXACT = float(np.finfo(LONG).eps) < 1e-18


@dataclass(frozen=True)
class Algorithm:
    """One algorithm.

    Attributes:
        written: in Pullback; gives an array or a tuple of arrays.   plain: the same in NumPy.
        inputs: the arguments, of which the floating-point ones are differentiated.
    """

    written: Callable[..., Any]
    plain: Callable[..., Any]
    inputs: tuple[Any, ...]

    @property
    def name(self) -> str:
        return self.written.__name__

    def long(self, step: float = 0.0, tangents: Sequence[Any] = ()) -> list[Array]:
        """What the plain version gives at the inputs, or a step from them."""
        moved = [LONG(x) if is_float(x) else x for x in self.inputs]
        if tangents:
            moved = [x if t is None else x + LONG(step) * t for x, t in zip(moved, tangents, strict=True)]
        return parts(self.plain(*moved))


def is_float(x: Any) -> bool:
    return np.asarray(x).dtype.kind == "f"


def parts(out: Any) -> list[Any]:
    return list(out) if isinstance(out, tuple) else [out]


def check(*algorithms: Algorithm) -> None:
    """Values, interpreted and in C, and derivatives in both modes."""
    rng = np.random.default_rng(len(algorithms))
    together = pb.function(lambda arguments: [parts(a.written(*x)) for a, x in zip(algorithms, arguments)])
    arguments = [list(a.inputs) for a in algorithms]
    direction = [[rng.uniform(-1, 1, np.shape(x)) if is_float(x) else None for x in a.inputs] for a in algorithms]
    expected = [a.long() for a in algorithms]
    slopes = [differences(a, t) for a, t in zip(algorithms, direction, strict=True)]
    weights = [[rng.uniform(-1, 1, np.shape(y)) if is_float(y) else None for y in ys] for ys in expected]

    values = together(arguments)
    interpreted = together.interpret(arguments)
    again, tangents = pb.jvp(together)((arguments,), (direction,))
    last, cotangents = pb.vjp(together)(arguments, cotangent=weights)
    for k, a in enumerate(algorithms):
        for found in (values[k], interpreted[k], again[k], last[k]):
            compare(f"{a.name}: value", found, expected[k], 1e-9)
        compare(f"{a.name}: tangent", [t for t in tangents[k] if t is not None], slopes[k], 1e-7)
        forward = sum(np.sum(w * d) for w, d in zip([w for w in weights[k] if w is not None], slopes[k], strict=True))
        pairs = [(t, c) for t, c in zip(direction[k], cotangents[0][k], strict=True) if t is not None]
        size = sum(np.sum(np.abs(t * c)) for t, c in pairs)
        found = sum(np.sum(t * c) for t, c in pairs)
        assert abs(found - forward) <= 1e-7 * max(size, 1e-3), f"{a.name}: cotangents: {found}, not {forward}"


def compare(what: str, found: Sequence[Any], expected: Sequence[Any], tolerance: float) -> None:
    assert len(found) == len(expected), what
    for f, e in zip(found, expected, strict=True):
        assert np.shape(f) == np.shape(e), f"{what}: {np.shape(f)}, not {np.shape(e)}"
        scale = float(np.max(np.abs(e), initial=1e-3))
        f, e = np.asarray(f, LONG), np.asarray(e, LONG)
        np.testing.assert_allclose(f, e, rtol=0, atol=tolerance * scale, err_msg=what)


def differences(a: Algorithm, tangents: Sequence[Any]) -> list[Array]:
    """The derivative of the floating-point results in a direction."""
    step = STEP if EXACT else 1e-5
    above, below = a.long(step, tangents), a.long(-step, tangents)
    return [(x - y) / LONG(2 * step) for x, y in zip(above, below, strict=True) if is_float(x)]
