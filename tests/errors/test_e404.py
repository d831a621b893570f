# ruff: noqa: E501
"""E404 and E144: the programs, and the complete messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program

UNFINISHED = """\
UnfinishedError [E404] while_loop: the test still holds after max_trips steps
  --> user.py:3:12
   |     return pb.while_loop(lambda y: y >= 1.0, lambda y: y / 2, x, max_trips=3)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: a larger max_trips, or at_limit="report", which gives the state so far and says that it is      See `pullback explain-error E404`
"""


@pytest.mark.parametrize("call", ["halved", "halved.interpret", "pb.grad(halved)", "pb.jacobian(halved, mode='forward')"])
def test_unfinished(message: Callable[[str], str], call: str) -> None:
    assert (
        message(f"""
@pb.function
def halved(x: Float64[Array, ""]):
    return pb.while_loop(lambda y: y >= 1.0, lambda y: y / 2, x, max_trips=3)

{call}(10.0)
""")
        == UNFINISHED
    )


def test_limit(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def halved(x: Float64[Array, ""]):
    return pb.while_loop(lambda y: y >= 1.0, lambda y: y / 2, x, at_limit="report")
""")
        == """\
TraceError [E144] while_loop: at_limit='report' without max_trips
  --> user.py:3:12
   |     return pb.while_loop(lambda y: y >= 1.0, lambda y: y / 2, x, at_limit="report")
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: "error", or "report" and a limit of trips      See `pullback explain-error E144`
"""
    )


def heron(trips: int) -> Any:
    step = lambda s: (0.5 * (s[0] + s[1] / s[0]), s[1], s[2] + 1, s[3])
    going = lambda s: pb.abs(s[0] * s[0] - s[1]) > 1e-9
    return pb.function(lambda a: pb.while_loop(going, step, (a, a, 0, a > 0), max_trips=trips))


def partial_of(f: Any, k: int) -> Callable[[Any], Any]:
    return lambda a: f(a)[k]


def test_states_of_every_kind_need_the_end() -> None:
    """Numbers, integers and bools, one of them read alone, mapped and differentiated; the limit itself is enough."""
    root, a, steps, positive = heron(20)(2.0)
    assert (round(float(root), 9), float(a), bool(positive)) == (1.414213562, 2.0, True)
    assert heron(int(steps))(2.0)[2] == steps
    short = heron(int(steps) - 1)
    for alone in (pb.function(partial_of(short, k)) for k in range(4)):
        for call in (alone, alone.interpret):
            with pytest.raises(pb.UnfinishedError):
                call(2.0)
    rooted = lambda f: pb.function(partial_of(f, 0))
    assert float(pb.grad(rooted(heron(20)))(2.0)) == pytest.approx(0.5 * 2.0**-0.5)
    assert float(pb.hessian(rooted(heron(20)))(2.0)) == pytest.approx(-0.25 * 2.0**-1.5)
    two = np.array([1.0, 2.0])
    np.testing.assert_allclose(pb.vmap(rooted(heron(20)))(two), two**0.5, rtol=1e-9)
    for f, x in ((pb.grad(rooted(short)), 2.0), (pb.hessian(rooted(short)), 2.0), (pb.vmap(rooted(short)), two)):
        with pytest.raises(pb.UnfinishedError):
            f(x)


def test_a_position_that_was_a_bool_is_no_loop() -> None:
    """It is a place like others, and where it is outside, that is what the error says."""
    f = pb.function(lambda x, c: pb.build(c.shape[0], lambda i: x[c[i].astype("int64")]))
    c = np.array([True, False])
    for call in (f, f.interpret):
        np.testing.assert_array_equal(call(np.array([10.0, 20.0]), c), [20.0, 10.0])
        with pytest.raises(IndexError, match="E401"):
            call(np.array([10.0]), c)


def test_the_claim_is_in_the_text() -> None:
    """A program read from its text stops as the program does."""
    program = heron(2).program(2.0)
    text = print_program(program)
    assert "ends(" in text
    assert print_program(parse_program(text)) == text
    with pytest.raises(pb.UnfinishedError):
        interpret(parse_program(text), [np.array(2.0)])


SOLVERS = [
    ("pb.root(lambda x, a: x * x + a, 1.0, a)", "root: |f| is not within the tolerance after max_steps steps, or is not finite",
     "another x0, a larger max_steps or tolerance"),
    ("pb.root_scalar(lambda x, a: x * x + a, 0.0, 2.0, a)",
     "root_scalar: f does not change its sign continuously between the ends", "ends at which f has different signs"),
    ("pb.minimize(lambda x, a: x * a, 1.0, a)",
     "minimize: the partial derivatives are not within the tolerance, and no step makes f smaller or max_steps are made",
     "another x0, a larger max_steps or tolerance"),
    ("pb.odeint(lambda y, t, a: a * y * y, 1.0, np.array([0.0, 2.0]), a)",
     "odeint: max_steps steps do not reach the next time within the tolerances, or the state is not finite",
     "a larger max_steps or rtol"),
]  # fmt: skip


@pytest.mark.parametrize("call", ["solved", "solved.interpret", "pb.grad(solved)"])
def test_solvers(message: Callable[[str], str], call: str) -> None:
    for text, what, remedy in SOLVERS:
        end = "[-1]" if "odeint" in text else ""
        assert (
            message(f"""
@pb.function
def solved(a: Float64[Array, ""]):
    return {text}{end}

{call}(1.0)
""")
            == f"""\
UnfinishedError [E404] {what}
  --> user.py:3:12
   |     return {text}{end}
   |            {"^" * len(text)}
  try: {remedy}; at_limit="report" gives a bool that says so beside the result      See `pullback explain-error E404`
"""
        )


def test_a_solver_under_another_name(message: Callable[[str], str]) -> None:
    assert (
        message("""
bisect = pb.root_scalar

@pb.function
def solved(a: Float64[Array, ""]):
    return bisect(lambda x, a: x * x + a, 0.0, 2.0, a)

solved(1.0)
""")
        == """\
UnfinishedError [E404] a loop or a solver ended before its condition held
  --> user.py:5:12
   |     return bisect(lambda x, a: x * x + a, 0.0, 2.0, a)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: more steps; at_limit="report" gives a bool that says so beside the result      See `pullback explain-error E404`
"""
    )
