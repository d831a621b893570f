"""Agreement of a program's results with the oracle's.

A program is source text that speaks of `pb`, and a query an expression that calls what it defines, such as
`pb.grad(f)(x)`.

The tolerance follows from the program. An element that the oracle gives as a value with an error and a size may be 4
error + n u size away, with n the number of operations of the run. The error bounds the rounding of a run in the order
of the program, and twice that covers the oracle's own. No other order of its sums, and no direction of a derivative,
rounds values as large as the size more often than there are operations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final

import jaxtyping
import numpy as np

import pullback
from pullback.errors import PullbackError
from tests.support import oracle
from tests.support.oracle import numbers, trees

# What a well-formed program may be refused for: a sparse derivative that is dense, extents that a proof assumes, and
# in debug builds an infinity.
REFUSALS: Final = ("E204", "E114", "E403")
OUTSIDE: Final = "E401"  # an element that is not there, which the oracle must miss, too
BASES: Final[tuple[numbers.Arithmetic, ...]] = ("bounded", "precise")
NAMES: Final = {name: getattr(jaxtyping, name) for name in ("Float", "Float32", "Float64", "Int32", "Int64", "Bool")}


@dataclass
class Verdict:
    """The result of a comparison.

    Attributes:
        faults: a line for each array that differs.
        compared: elements that agree or not.
        open: elements that rounding may change entirely, which are not compared.
        undecided: why the oracle cannot say anything, where it cannot.
        refused: what the language refuses, where it does.
    """

    faults: list[str] = field(default_factory=list)
    compared: int = 0
    open: int = 0
    undecided: str = ""
    refused: str = ""


class Program:
    r"""Source text over `pb`, with arguments, in both meanings.

    >>> program = Program("def f(x):\n    return pb.sum(x * x)", {"x": np.ones(3)})
    >>> program.judge("pb.grad(f)(x)").faults
    []
    """

    def __init__(self, source: str, arguments: Mapping[str, Any]) -> None:
        self.source, self.arguments = source, arguments
        self._names: dict[ModuleType, dict[str, Any]] = {}

    def ask(self, pb: ModuleType, query: str) -> Any:
        """Evaluate an expression over the program's definitions and arguments, with `pb` for the language."""
        if pb not in self._names:
            self._names[pb] = {"pb": pb, "np": np, **NAMES}
            exec(compile(self.source, "<program>", "exec"), self._names[pb])
        return eval(query, {**self._names[pb], **self.arguments})

    def judge(self, query: str) -> Verdict:
        """Judge a query in the current backend: by float bounds, or with 40 digits where those differ."""
        found: Any = None
        raised = refused = ""
        try:
            found = self.ask(pullback, query)
        except PullbackError as error:
            if error.code in REFUSALS:
                return Verdict(refused=f"{error.code}: {error.what}")
            refused = f"{error.code}: {error.what}" if error.code == OUTSIDE else ""
            raised = f"{type(error).__name__} [{error.code}] {error.what}"
        except Exception as error:  # whatever it is, it is a finding
            raised = f"{type(error).__name__}: {error}"
        verdict = Verdict()
        for kind in BASES:
            try:
                with oracle.arithmetic(kind):
                    before = numbers.operations[0], numbers.overflows[0]
                    expected = self.ask(oracle, query)
            except Exception as error:  # it is undecided, or no sensible program
                if refused and not isinstance(error, numbers.Undecided):
                    return Verdict(refused=refused)
                return Verdict(undecided=f"{type(error).__name__}: {error}")
            verdict = Verdict([raised])
            if not raised:
                operations, overflows = (b[0] - a for a, b in zip(before, (numbers.operations, numbers.overflows)))
                verdict = compare(found, expected, operations, overflows > 0)
            if raised or not verdict.faults:
                break
        return verdict


def compare(found: Any, expected: Any, operations: int, overflows: bool = False) -> Verdict:
    """The verdict on a tree of NumPy arrays beside one of the oracle's.

    Args:
        found: what a program gave.
        expected: what it should have given.
        operations: how many the oracle needed.
        overflows: whether some number may have been infinite on the way; then infinities and NaN say nothing.
    """
    verdict = Verdict()
    theirs, ours = trees.leaves(_dense(found)), trees.leaves(expected)
    if len(theirs) != len(ours):
        verdict.faults.append(f"{len(theirs)} arrays instead of {len(ours)}")
        return verdict
    for k, (a, b) in enumerate(zip(theirs, ours, strict=True)):
        _compare_array(verdict, f"result {k}", np.asarray(a), b, operations, overflows)
    return verdict


def _dense(found: Any) -> Any:
    return trees.mapped(lambda a: a.to_dense() if hasattr(a, "to_dense") else a, found)


def _compare_array(verdict: Verdict, name: str, found: np.ndarray[Any, Any], expected: oracle.Array,
                   operations: int, overflows: bool) -> None:
    if found.dtype.name != expected.dtype.name:
        verdict.faults.append(f"{name} is {found.dtype}, not {expected.dtype}")
        return
    if found.shape != expected.shape and (found.ndim != 2 or found.size != expected.size):  # sparse ones are matrices
        verdict.faults.append(f"{name} has shape {found.shape}, not {expected.shape}")
        return
    worst = ""
    for at, (a, e) in enumerate(zip(found.ravel().tolist(), expected.data, strict=True)):
        if not expected.dtype.floating:
            wrong = a != e
        else:
            e = numbers.plain(e)
            value = float(e.value)
            if a == value or (math.isnan(a) and math.isnan(value)):
                verdict.compared += 1
                continue
            tolerance = 4 * e.error + operations * e.unit * e.size
            endless = not math.isfinite(value) or (overflows and not math.isfinite(a))
            if endless or not tolerance <= 0.01 * max(abs(value), e.size, 1e-300):
                verdict.open += 1
                continue
            wrong = not abs(a - value) <= tolerance
        verdict.compared += 1
        if wrong and not worst:
            position = [int(i) for i in np.unravel_index(at, expected.shape)]
            worst = f"{name}{position if position else ''} is {a!r} and should be {e!r}"
    if worst:
        verdict.faults.append(worst)
