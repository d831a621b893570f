"""Sums over deltas: what is left of a sum is what it was, one term for each that counted, for all values.

    soundness       what is found for the variables lies in their ranges and fulfils the equations
    completeness    every solution of the equations is found
    uniqueness      once
"""

from __future__ import annotations

from itertools import product

import z3

from pullback.ir import expr, types
from pullback.ir.expr import Zero
from pullback.ir.index import Var, as_index
from pullback.rewrite.brackets import Solution, solve
from tests.proofs.samples import TIMES, Sampler, Term
from tests.proofs.smt import Domain, check

MOST = 64  # values of new variables that are tried one by one


def _equation(s: Sampler, free: Term) -> Term:
    e = s.position() if s.random.random() < 0.6 else s.term(2)
    e = s.remainder(e, s.size()) if s.random.random() < 0.3 else e
    return s.plus(free, s.times(e, s.number(-1, -1)))


def _sound(d: Domain, found: Solution, variables: tuple[Var, ...], equations: list[Term], what: object) -> None:
    """Every value of the variables that are left is a solution, and no two are the same."""
    values = [d.index(found.found.get(v, as_index(v))) for v in variables]
    given = d.conditions(found.conds)
    ranges = [z3.And(x >= 0, x < d.index(v.extent)) for v, x in zip(variables, values, strict=True)]
    own = [(d.atom(v), x) for v, x in zip(variables, values, strict=True)]
    solved = [z3.substitute(e.meant, *own) == 0 for e in equations]
    check(d, z3.And(*ranges, *solved), given, (what, "sound"))
    other = d.again(found.variables)
    again = [other.index(found.found.get(v, as_index(v))) for v in variables]
    differ = z3.Or([d.atom(v) != other.atom(v) for v in found.variables])
    same = [x == y for x, y in zip(values, again, strict=True)]
    check(d, z3.Not(differ), [*given, *other.conditions(found.conds), *same], (what, "unique"))


def _complete(d: Domain, found: Solution, variables: tuple[Var, ...], equations: list[Term], what: object) -> None:
    """Every solution is found, for some value of the variables that are new."""
    new = [v for v in found.variables if v not in variables]
    sizes = [v.extent.constant or MOST + 1 for v in new]
    total = 1
    for n in sizes:
        total *= n
    if total > MOST:
        return
    same = [d.index(x) == d.atom(v) for v, x in found.found.items() if v in variables]
    claim = z3.And(*d.conditions(found.conds), *same)
    numbers = product(*(range(n) for n in sizes))
    cases = [z3.substitute(claim, *((d.atom(v), z3.IntVal(n)) for v, n in zip(new, ns, strict=True))) for ns in numbers]
    check(d, z3.Or(cases), [e.meant == 0 for e in equations], (what, "complete"), 2000)


def test_solved_sums_have_the_terms_that_they_had() -> None:
    solved = 0
    for seed in range(24 * TIMES):
        s = Sampler(seed, True)
        variables = tuple(v.made.single for v in s.variables[: s.random.randint(1, 3)])
        free = [s.variable(name, s.size()) for name in "pq"[: s.random.randint(1, 2)]]
        equations = [_equation(s, p) for p in free]
        term = expr.from_index(as_index(variables[0]) + 1, types.i64)  # type: ignore[arg-type]
        found = solve(variables, [e.made for e in equations], term)  # type: ignore[arg-type]
        what = (seed, [e.made for e in equations], found)
        assert found is not None
        if isinstance(found.term, Zero):
            check(s.domain, z3.BoolVal(False), [e.meant == 0 for e in equations], what)
            continue
        _complete(s.domain, found, variables, equations, what)  # type: ignore[arg-type]
        _sound(s.domain, found, variables, equations, what)  # type: ignore[arg-type]
        solved += bool(found.found)
    assert solved > 12 * TIMES
