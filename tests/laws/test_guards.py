"""What `where` leaves out: reverse mode takes as little from it as forward mode, which never meets it.

Random programs of logarithms, roots and quotients at points where some of them are not finite, under conditions on data
and on indices, alone, in sums, gathers, loops and branches. Forward mode reads no element that a guard excludes, so
where its derivative is finite, that of reverse mode is the same number.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import pullback as pb

X, P = np.array([0.0, -1.0, 0.5, 2.0]), np.array([2, 3, 0, 2])
GUARDS = ("x[i] > 0", "x[i] > 0.7", "i > 1", "(i == 2) | (i == 3)", "i % 2 == 0", "(x[i] > 0) & (i > 2)",
          "x[3 - i] < 0", "x[2] > 0", "x[0] > 0", "p[i] > 2")  # fmt: skip
FORMS = (
    "pb.log({a})", "pb.sqrt({a})", "1.0 / {a}",
    "pb.build(4, lambda i: pb.where({g}, {a}[i], {b}[i]))",
    "pb.build(4, lambda i: pb.where({g}, {a}[i], 0.0) + pb.where({h}, {a}[i] * {b}[i], 0.0))",
    "pb.build(4, lambda i: pb.where({g}, pb.sum_over(4, lambda j: {a}[j] * (1.0 + j)), {b}[i]))",
    "pb.build(4, lambda j: pb.sum_over(4, lambda i: pb.where({g}, {a}[i] * (j + 1.0), 0.0)))",
    "pb.fold(2, {a}, lambda s, t: pb.build(4, lambda i: pb.where({g}, pb.sqrt(s[i]), {b}[i])))",
    "pb.build(4, lambda i: pb.where({g}, pb.fold(2, {a}, lambda s, t: pb.log(s + 1.0) + {b} * 0.5)[i], 0.0))",
    "pb.build(4, lambda i: pb.where({g}, {a}[p[i]], {b}[i]))",
    "pb.build(4, lambda i: {a}.at(i + 1) + pb.where({g}, {a}[3 - i], 0.0))",
    "pb.cond(x[2] > 0.2, lambda v: pb.sqrt(v), lambda v: v * 0.5, {a})",
    "pb.cond(x[1] > 0.2, lambda v: pb.sqrt(v), lambda v: v * 0.5, {a})",
)  # fmt: skip


def source(seed: int) -> str:
    """A random program of these forms, whose result leaves some elements out."""
    rng = random.Random(seed)
    arrays, lines = ["x"], ["def f(x, p):"]

    def filled(form: str) -> str:
        return form.format(a=rng.choice(arrays), b=rng.choice(arrays), g=rng.choice(GUARDS), h=rng.choice(GUARDS))

    for k in range(rng.randint(2, 6)):
        lines.append(f"    v{k} = {filled(rng.choice(FORMS))}")
        arrays.append(f"v{k}")
    result = f"pb.where({{g}}, {arrays[-1]}[i] + {{a}}[i], 0.0)"
    return "\n".join([*lines, f"    return pb.sum(pb.build(4, lambda i: {filled(result)}))", ""])


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_reverse_takes_what_forward_takes(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    compared = 0
    for seed in range(first, first + 10):
        names: dict[str, Any] = {"pb": pb}
        exec(source(seed), names)
        f = pb.function(names["f"])
        forward, reverse = pb.jacobian(f, mode="forward")(X, P), pb.grad(f)(X, P)
        known = np.isfinite(forward)
        compared += known.sum()
        np.testing.assert_allclose(reverse[known], forward[known], rtol=1e-9, atol=1e-12, err_msg=source(seed))
    assert compared > 20
