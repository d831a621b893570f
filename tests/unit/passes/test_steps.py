"""`passes.steps`: products that no step of a loop waits for are done for all steps at once."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.program import Fold
from pullback.ir.verify import verify
from pullback.passes.steps import join_steps


def joined(text: str) -> list[str]:
    program = parse_program(text)
    result = join_steps(program)
    verify(result)
    arrays = [np.random.default_rng(0).normal(size=[e.constant for e in r.shape]) for r in program.inputs]
    for a, b in zip(interpret(program, arrays), interpret(result, arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    return [line.strip() for line in print_program(result).splitlines()[1:-1]]


FORWARD = """f(x: f64[9, 4, 8], u: f64[16, 8]) {
    h0 = build n < 4, k < 16 { f64(0.0) }
    h = fold t < 9 (h1 = h0) {
        p = build n < 4, k < 16 { sum m < 8 { u[k, m] * x[t, n, m] } }
        y = build n < 4, k < 16 { tanh(h1[n, k] + p[n, k]) }
        yield y }
    return h }"""
BACKWARD = """f(x: f64[9, 4, 8], y: f64[9, 4, 16], w0: f64[16, 8]) {
    h0 = build n < 4, k < 16 { f64(0.0) }
    h, w = fold t < 9 (h1 = h0, w1 = w0) {
        z = build n < 4, k < 16 { tanh(h1[n, k] + y[-t + 8, n, k]) }
        v = build k < 16, m < 8 { w1[k, m] + sum n < 4 { z[n, k] * x[-t + 8, n, m] } }
        yield z, v }
    return h, w }"""


def test_products_with_a_matrix_that_does_not_change_stand_before() -> None:
    lines = joined(FORWARD)
    assert lines[1] == "p = build t < 9, n < 4, k < 16 { sum m < 8 { u[k, m] * x[t, n, m] } }"
    assert lines[3] == "y = build n < 4, k < 16 { tanh(h1[n, k] + p[t, n, k]) }"


def test_sums_that_are_only_carried_stand_behind() -> None:
    lines = joined(BACKWARD)
    assert lines[1:] == [
        "h, z_1 = fold t < 9 (h1 = h0) {",
        "z = build n < 4, k < 16 { tanh(h1[n, k] + y[-t + 8, n, k]) }",
        "yield z, z }",
        "w = build k < 16, m < 8 { w0[k, m] + sum t < 9, n < 4 { z_1[t, n, k] * x[-t + 8, n, m] } }",
    ]


def test_rows_that_are_kept_already_are_read() -> None:
    lines = joined(BACKWARD.replace("h, w = fold", "h, w, zs = fold").replace("yield z, v", "yield z, v, z")
                   .replace("return h, w", "return h, w, zs"))
    assert lines[1] == "h, zs = fold t < 9 (h1 = h0) {"
    assert lines[-1].endswith("zs[t, n, k] * x[-t + 8, n, m] } }")


def folds(text: str) -> tuple[int, int]:
    """How many statements there are, and states of the first loop."""
    program = join_steps(parse_program(text))
    (loop,) = (s for s in program.body.statements if isinstance(s, Fold))
    return len(program.body.statements), len(loop.states)


def test_what_stays_in_the_loop() -> None:
    assert folds(FORWARD.replace("x[t, n, m]", "h1[n, m]")) == (2, 1)  # it reads a state
    assert folds(FORWARD.replace("yield y", "yield p")) == (2, 1)  # the new state itself
    assert folds(FORWARD.replace("4, 8]", "64, 8]").replace("n < 4", "n < 64")) == (2, 1)  # a good product by itself
    assert folds(FORWARD.replace("9", "90000")) == (2, 1)  # too much to keep
    assert folds(BACKWARD.replace("h1[n, k] + y", "w1[k, 0] + y")) == (2, 2)  # the sum is read
    assert folds(BACKWARD.replace("w1[k, m] +", "2.0 * w1[k, m] +")) == (2, 2)  # more than added to
    assert folds(BACKWARD.replace("4,", "64,").replace("n < 4", "n < 64")) == (2, 2)


def test_what_stays_before_a_product_is_kept() -> None:
    lines = joined(FORWARD.replace("p = build n", "g = build n < 4, k < 16 { tanh(h1[n, k]) } p = build n")
                   .replace("p[n, k])", "p[n, k]) + g[n, k]"))  # fmt: skip
    assert "g = build n < 4, k < 16 { tanh(h1[n, k]) }" in lines
    assert lines[1].startswith("p = build t < 9")


def test_sums_are_what_their_readers_products_end_with() -> None:
    text = BACKWARD.replace("w0: f64[16, 8]", "b: f64[16, 8]")
    text = text.replace("    h, w =", "    w0 = build k < 16, m < 8 { f64(0.0) }\n    h, w =")
    step = "after = build k < 16, m < 8 { b[k, m] - 0.5 * w[k, m] }"
    *_, last = lines = joined(text.replace("return h, w", f"{step}\n    return h, after"))
    assert last == "after = build k < 16, m < 8 { b[k, m] - 0.5 * sum t < 9, n < 4 { z_1[t, n, k] * x[-t + 8, n, m] } }"
    assert not any(line.startswith("w0") for line in lines)


def test_what_is_added_to_stays_where_another_array_is_of_zeros() -> None:
    text = BACKWARD.replace("    h, w =", "    q = build n < 4, m < 8 { f64(0.0) }\n    h, w =")
    lines = joined(text.replace("x[-t + 8, n, m]", "q[n, m]"))  # the numbers are compared with the loop's
    assert any("w0[k, m]" in line for line in lines)


CONSTANT = {"zeros": "f64(0.0)", "ones": "f64(1.0)"}


@pytest.mark.parametrize("begin", ["w0", *CONSTANT])
@pytest.mark.parametrize("factor", ["x", *CONSTANT])
@pytest.mark.parametrize("other", ["z", *CONSTANT])
def test_what_is_carried_beside_constants(begin: str, factor: str, other: str) -> None:
    """What a sum begins with and multiplies may be zeros or ones, each by itself: the numbers are the loop's."""
    made = "".join(f"    {name} = build k < 16, m < 8 {{ {value} }}\n" for name, value in CONSTANT.items())
    made += "".join(f"    {name}_{size} = build n < 4, k < {size} {{ {value} }}\n"
                    for name, value in CONSTANT.items() for size in (8, 16))  # fmt: skip
    text = BACKWARD.replace("    h, w =", made + "    h, w =").replace("w1 = w0", f"w1 = {begin}")
    text = text if factor == "x" else text.replace("x[-t + 8, n, m]", f"{factor}_8[n, m]")
    text = text if other == "z" else text.replace("{ z[n, k] *", f"{{ {other}_16[n, k] *")
    assert any("sum t < 9" in line for line in joined(text))
