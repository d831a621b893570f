"""Indices and conditions stated to an SMT solver, by their definition and by nothing that the package computes.

Every dim symbol is an integer of at least 1, a variable lies in its extent, and a quotient by d >= 1 is the q with
n = d q + r, 0 <= r < d. Integers are unbounded: indices of arrays that fit into memory stay below 2^63.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, Literal

import z3

from pullback.ir.index import Atom, Cond, Data, DimSymbol, Floor, Index, Mod, Var

Verdict = Literal["proven", "small dims", "open"]
SMALL: Final = (1, 2, 5)  # dims that are tried where the solver does not decide for all


class Refuted(AssertionError):
    """A claim with a counterexample."""


@dataclass
class Domain:
    """Atoms as integers of the solver, with what holds of them.

    Attributes:
        facts: ranges, and the definitions of quotients.   dims: the symbols, which may be given numbers.
    """

    facts: list[Any] = field(default_factory=list)
    dims: dict[str, Any] = field(default_factory=dict)
    atoms: dict[Atom, Any] = field(default_factory=dict)
    quotients: dict[tuple[str, str], tuple[Any, Any]] = field(default_factory=dict)

    def index(self, i: Index) -> Any:
        """An index as a term."""
        total = z3.IntVal(0)
        for monomial, coefficient in i.terms:
            term = z3.IntVal(coefficient)
            for a in monomial:
                term = term * self.atom(a)
            total = total + term
        return z3.simplify(total)

    def atom(self, a: Atom) -> Any:
        """An atom as a term; what holds of it becomes a fact."""
        if a not in self.atoms:
            self.atoms[a] = self._atom(a)
        return self.atoms[a]

    def _atom(self, a: Atom) -> Any:
        match a:
            case DimSymbol():
                return self.dim(a.name)
            case Floor():
                return self.divided(self.index(a.numerator), self.index(a.denominator))[0]
            case Mod():
                return self.divided(self.index(a.numerator), self.index(a.denominator))[1]
            case Var() | Data():
                made = z3.FreshInt("v")
                if a.extent is not None:
                    self.facts += [made >= 0, made < self.index(a.extent)]
                return made

    def dim(self, name: str) -> Any:
        """A dim by its name."""
        if name not in self.dims:
            self.dims[name] = z3.Int(name)
            self.facts.append(self.dims[name] >= 1)
        return self.dims[name]

    def divided(self, n: Any, d: Any) -> tuple[Any, Any]:
        """Quotient and remainder, where d >= 1."""
        d = z3.simplify(d)
        if z3.is_int_value(d) and d.as_long() >= 1:
            return n / d, n % d  # of integers: rounded down, as d is positive
        key = str(n), str(d)
        if key not in self.quotients:
            q, r = z3.FreshInt("q"), z3.FreshInt("r")
            self.quotients[key] = q, r
            self.facts.append(z3.Implies(d >= 1, z3.And(n == d * q + r, r >= 0, r < d)))
        return self.quotients[key]

    def again(self, variables: Iterable[Var]) -> Domain:
        """The same dims and facts, and other values of the variables."""
        kept = {a: t for a, t in self.atoms.items() if a.free.isdisjoint(variables)}
        return Domain(self.facts, self.dims, kept, self.quotients)

    def condition(self, c: Cond | bool) -> Any:
        """A condition as a formula."""
        return z3.BoolVal(c) if isinstance(c, bool) else relation(c.op, self.index(c.index))

    def conditions(self, conds: Iterable[Cond | bool]) -> list[Any]:
        """Several."""
        return [self.condition(c) for c in conds]


def relation(op: str, e: Any) -> Any:
    """The formula `e op 0`."""
    return {">=": e >= 0, "==": e == 0, "!=": e != 0}[op]


COUNTS: Final[Counter[str]] = Counter()


def check(domain: Domain, claim: Any, given: Iterable[Any] = (), what: object = "", milliseconds: int = 200) -> Verdict:
    """Whether a claim holds for all values in the domain.

    Returns:
        "proven"; "small dims" where the solver does not decide it for all dims but for all values where dims are small;
        "open" where it does not decide that.
    Raises:
        Refuted: with the counterexample.
    """
    facts = [*domain.facts, *given, z3.Not(claim)]
    verdict = _decided(facts, what, milliseconds)
    if not verdict and domain.dims:  # products of dims: there the solver is not complete
        numbers = product(SMALL, repeat=len(domain.dims))
        fixed = ([z3.substitute(f, *zip(domain.dims.values(), map(z3.IntVal, n), strict=True)) for f in facts]
                 for n in numbers)
        found: Verdict = "small dims" if all(_decided(f, what, 5 * milliseconds) for f in fixed) else "open"
    else:
        found = "proven" if verdict else "open"
    COUNTS[found] += 1
    return found


def least(domain: Domain, e: Any, given: Iterable[Any] = (), milliseconds: int = 1000) -> int | None:
    """The smallest value of a term; None where there is none or the solver does not find it."""
    solver = z3.Optimize()
    solver.set("timeout", milliseconds)
    solver.add(*domain.facts, *given)
    end = solver.minimize(e)
    if solver.check() != z3.sat:
        return None
    found = solver.lower(end)
    return int(found.as_long()) if z3.is_int_value(found) else None


def _decided(facts: Iterable[Any], what: object, milliseconds: int) -> bool:
    solver = z3.Solver()
    solver.set("timeout", milliseconds)
    solver.add(*facts)
    answer = solver.check()
    if answer == z3.sat:
        raise Refuted(f"{what}: not for {solver.model()}")
    return bool(answer == z3.unsat)
