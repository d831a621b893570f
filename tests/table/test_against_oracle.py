"""Every primitive under every reduction, at every place of a body, in every mode and order, against the oracle.

Complete by construction: the rows are those of the primitive table, and a primitive that this table or the oracle does
not know fails by its name.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pullback.ir.primitives import PRIMITIVES
from tests.support.agreement import Program, Verdict

ROWS = {row.name: row for row in PRIMITIVES}
BY_PLACE = ("argmax", "argmin", "any", "all")  # of these the derivatives know what was chosen, not how
LOOPS = ("fold", "scan")
REDUCTIONS = ("none", "sum", "prod", "max", "min", "argmax", "argmin", "any", "all", "fold", "scan")


WEIGHTS = np.random.default_rng(5).uniform(0.5, 1.5, (5, 2))


def body(name: str, first: str, second: str) -> str:
    """The primitive of two operands as a floating-point expression."""
    row = ROWS[name]
    operands = (first, second)[: row.arity]
    if row.kinds == ("bool",):
        operands = tuple(f"({o} > 1.0)" for o in operands)
    elif "floating" not in row.kinds:
        operands = tuple(f"pb.astype(7.0 * {o}, pb.int32)" for o in operands)
    called = f"pb.{name}({', '.join(operands)})"
    if name in ("bitwise_left_shift", "bitwise_right_shift"):
        called = called.replace(", pb.astype(7.0", ", pb.astype(1.0")
    if row.result == "bool":
        return f"pb.where({called}, {first} * {second}, {second})"
    return called if "floating" in row.kinds else f"(pb.astype({called}, x.dtype) * {first})"


def places(name: str, first: str, second: str) -> dict[str, str]:
    """The body at each place of an element of a reduction."""
    b = body(name, first, second)
    return {
        "top": b,
        "product": f"(x[i] + {b}) * y[i]",
        "index": f"pb.where(i > 0, {b}, 0.5 * y[i])",
        "condition": f"pb.where(x[i] > y[i], {b}, y[i] * {b})",
        "denominator": f"y[i] / (1.5 + {b} * {b})",
    }


def reduced(reduction: str, element: str) -> str:
    """A floating-point number from elements over i."""
    over = f"{reduction}_over(x.shape[0], lambda i: {element})"
    match reduction:
        case "none":
            return f"pb.build(x.shape[0], lambda i: {element})"
        case "sum" | "prod" | "max" | "min":
            return f"pb.{over}"
        case "argmax" | "argmin":
            return f"x[pb.{over}] * y[0]"
        case "any" | "all":
            return f"pb.where(pb.{reduction}_over(x.shape[0], lambda i: {element} > 0.9), x[0] * y[1], y[0])"
        case "fold":
            return f"pb.fold(2, 1.0 * x, lambda s, t: pb.build(x.shape[0], lambda i: {element}))"
        case _:
            return f"pb.scan(2, 1.0 * x[0], lambda s, i: ({element}, s * {element}))[1]"


def source(name: str, reduction: str) -> str:
    """A function with one result for each place."""
    low, high = ROWS[name].domain
    if ROWS[name].kinds == ("bool",) or "floating" not in ROWS[name].kinds:
        low, high = 0.0, 2.0
    old = {"fold": "s[i]", "scan": "s"}.get(reduction)
    first = f"({low} + {0.9 * (high - low)} * pb.logistic({old} + 0.1))" if old else "x[i]"  # in the domain
    results = [f'        "{place}": {reduced(reduction, e)},' for place, e in places(name, first, "y[i]").items()]
    return "\n".join(["@pb.function", "def f(x, y):", "    return {", *results, "    }", ""])


def arguments(name: str) -> dict[str, Any]:
    """Points in the row's domain, away from kinks."""
    row = ROWS[name]
    low, high = row.domain if "floating" in row.kinds else (0.0, 2.0)
    at = lambda *shares: low + (high - low) * np.array(shares)
    return {"x": at(0.31, 0.83), "y": at(0.36, 0.62), "d": np.array([0.7, -1.1]),
            "e": np.array([-0.3, 0.8]), "weights": dict(zip(places(name, "", ""), WEIGHTS))}


TOTAL = """
@pb.function
def total(x, y):
    return sum(pb.sum(pb.sin(v)) for v in f(x, y).values())
def turned(x, y):
    by_x, by_y = pb.grad(total, wrt=(0, 1))(x, y)
    return pb.sum(pb.sin(by_x)) + pb.sum(by_y * by_y)
"""
FIRST = {
    "forward": "pb.jvp(f)((x, y), (d, e))",
    "reverse": 'pb.jacobian(f, wrt=(0, 1), mode="reverse")(x, y)',
}
# The transpose of a loop for each result apart costs five times as much and shows the same of a primitive.
OF_LOOPS = {"reverse": "pb.vjp(f)(x, y, cotangent=weights)"}
MORE = {
    "mixed": 'pb.jacobian(f, wrt=(0, 1), mode="mixed")(x, y)',
    "forward over reverse": "pb.jvp(pb.grad(total, wrt=(0, 1)))((x, y), (d, e))",
    "reverse over reverse": "pb.grad(turned, wrt=(0, 1))(x, y)",
}


def wrong(program: Program, queries: dict[str, str]) -> dict[str, Verdict]:
    """The verdicts that are not a plain yes."""
    verdicts = {mode: program.judge(query) for mode, query in queries.items()}
    return {m: v for m, v in verdicts.items() if v.faults or v.undecided or v.refused or v.open > v.compared / 20}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", [name for name in ROWS if name != "stop_gradient"])
def test_interpreter(name: str, reduction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    more = list(MORE.items())
    if reduction in BY_PLACE or ROWS[name].partials is None:
        more = []
    elif reduction in LOOPS:  # what a loop does for second derivatives is the same for all primitives: they share it
        more = [more[list(ROWS).index(name) % len(more)]]
    queries = FIRST | (OF_LOOPS if reduction in LOOPS else {}) | dict(more)
    program = Program(source(name, reduction) + TOTAL, arguments(name))
    assert not wrong(program, queries), f"{program.source}\n{program.arguments}\n{wrong(program, queries)}"


@pytest.mark.parametrize("place", ["top", "product"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_c(reduction: str, place: str) -> None:
    """All smooth primitives in one function, over lanes and what they leave."""
    lines, given = ["@pb.function", "def f(arguments):", "    results = {}"], {}
    rng = np.random.default_rng(3)
    single = reduction in ("none", "sum", "max", "fold")
    for name in [n for n, row in ROWS.items() if row.partials is not None]:
        low, high = ROWS[name].domain
        points = low + (high - low) * rng.uniform(0.3, 0.7, (2, 19))
        given[name] = tuple(points.astype(np.float32) if single else points)
        text = source(name, reduction).split(f'"{place}": ')[1].split(",\n")[0]
        lines += [f"    x, y = arguments[{name!r}]", f"    results[{name!r}] = {text}"]
    weight = np.float32(0.7) if single else 0.7
    weights = {name: np.full({"none": 19, "fold": 19, "scan": 2}.get(reduction, ()), weight) for name in given}
    program = Program("\n".join([*lines, "    return results", ""]), {"arguments": given, "weights": weights})
    found = wrong(program, {"gradient": "pb.vjp(f)(arguments, cotangent=weights)"})
    assert not found, f"{program.source}\n{found}"
