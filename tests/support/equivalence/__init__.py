"""Translation validation: compiled code equals the source for all inputs of given small sizes.

Where this module is imported, `PULLBACK_VERIFY=equivalence` compares every program that is compiled with what each pass
makes of it, and with its loops:

    PULLBACK_VERIFY=equivalence python -m pytest -p tests.support.equivalence tests/laws

Both sides are evaluated over a finite field (`field`), where an input is an unknown: agreement there is equality as
functions over the reals, but for a chance below 2^-300. Where the program compares unknowns, each point is one case of
these comparisons. The evaluators (`statements`, `loops`) use the nodes of the two languages, and nothing that compiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

import numpy as np

from pullback.errors import VerifyError
from pullback.ir.equivalence import Equivalence, install
from pullback.ir.index import Cond
from pullback.ir.program import Program
from pullback.loops.program.nodes import Function, kernels_of
from tests.support.equivalence import loops
from tests.support.equivalence.field import Array, Field, Unreachable, of_field
from tests.support.equivalence.statements import Meaning

__all__ = ["FOUND", "Found", "Written", "check_loops", "small_dims"]

Outcome = Literal["proven", "cases", "out of reach"]
SIZES: Final = (3, 4, 2, 5, 1, 6)  # of dims that are arguments, in the order in which they are tried
POINTS: Final = 12


@dataclass(frozen=True)
class Found:
    """The result of one comparison.

    Attributes:
        program: its name.   what: the pass, or the loops.
        outcome: "proven" for all inputs; "cases" where comparisons of data were taken as the points have them; or
            "out of reach", and `reason` says why.
    """

    program: str
    what: str
    outcome: Outcome
    reason: str = ""


FOUND: Final[list[Found]] = []
"""All comparisons of this process."""


class Written:
    """A program as it was written, evaluated once, with which others are compared.

    Args:
        program: the program.   dims: the dims that have numbers; others get small ones.
    """

    def __init__(self, program: Program, dims: Mapping[str, int], seed: int = 0) -> None:
        self.program = program
        self.dims = small_dims(program, dims)
        self.seed = seed
        self.reason = ""
        self.cases = False
        self.inputs: list[Array] = []
        self.results: list[Array] = []
        self.trapped = np.zeros(POINTS, bool)
        try:
            self.inputs, self.results, self.trapped = self._evaluated(program)
        except Unreachable as unreachable:
            self.reason = str(unreachable)

    def _field(self) -> tuple[Field, list[Array]]:
        """The field as it is before anything is evaluated, and the inputs."""
        field = Field(POINTS, self.seed)
        meaning = Meaning(field, self.dims)
        captured = self.program.settings.captured
        inputs = []
        for k, r in enumerate(self.program.inputs):
            known = k - len(self.program.inputs) + len(captured)
            shape = meaning.shape(r)
            if np.prod(shape, initial=1) > 100_000:
                raise Unreachable("too large")
            low, high = (0, 2) if r.bounds is None else map(meaning.extent, r.bounds)
            if known >= 0 and not of_field(r.dtype):
                made = np.repeat(np.asarray(captured[known], r.dtype.numpy)[..., None], POINTS, -1)
            else:
                made = field.symbols(r.dtype, shape, low, high)
            inputs.append(made)
        return field, inputs

    def _evaluated(self, program: Program) -> tuple[list[Array], list[Array], Array]:
        field, inputs = self._field()
        meaning = Meaning(field, self.dims)
        with np.errstate(all="ignore"):
            results = meaning.run(program, inputs)
        self.cases |= field.chosen
        return inputs, [np.broadcast_to(a, (*a.shape[:-1], POINTS)) for a in results], meaning.trapped

    def compare(self, what: str, program: Program) -> None:
        """Compare what a pass has made of it.

        Raises:
            VerifyError: [E317] it differs.
        """
        try:
            self._reachable()
            _, results, trapped = self._evaluated(program)
        except Unreachable as unreachable:
            return self._note(what, "out of reach", str(unreachable))
        return self._agree(what, results, trapped)

    def loops(self, function: Function, what: str = "loops", portable: bool = False) -> None:
        """Compare loops.

        Raises:
            VerifyError: [E317] they differ, or leave their arrays.
        """
        try:
            self._reachable()
            field, inputs = self._field()
            rows = [a.reshape(-1, POINTS) for a in inputs]
            with np.errstate(all="ignore"):
                found, trapped = loops.run(field, function, rows, self.dims, portable=portable,
                                           in_place=bool(function.in_place))
        except Unreachable as unreachable:
            return self._note(what, "out of reach", str(unreachable))
        except VerifyError as error:
            error.add_note(f"{what} of {self.program.name}, for {dict(self.dims)}")
            raise
        self.cases |= field.chosen
        shaped = [a.reshape(b.shape) for a, b in zip(found, self.results, strict=False)]
        return self._agree(what, shaped, trapped)

    def _reachable(self) -> None:
        if self.reason:
            raise Unreachable(self.reason)

    def _agree(self, what: str, results: Sequence[Array], trapped: Array) -> None:
        use = ~(self.trapped | trapped)
        if not use.any():
            return self._note(what, "out of reach", "every case ends with an error")
        for k, (a, b) in enumerate(zip(self.results, results, strict=True)):
            differ = (a != b)[..., use].any(-1)
            if differ.any():
                self._raise(what, k, differ, float((a != b)[..., use][differ].mean()))
        return self._note(what, "cases" if self.cases else "proven")

    def _raise(self, what: str, k: int, differ: Array, share: float) -> None:
        places = np.argwhere(differ)
        first = ", ".join(map(str, places[0]))
        raise VerifyError(
            "E317", f"{self.program.name} computes something else after {_after(what)}",
            facts=(f"result {k}, {self.program.outputs[k].name}, differs in {len(places)} of {differ.size} elements, "
                   f"the first [{first}]", f"in {share:.0%} of these elements' cases",
                   *(f"{name} = {n}" for name, n in self.dims.items())),
        )

    def _note(self, what: str, outcome: Outcome, reason: str = "") -> None:
        FOUND.append(Found(self.program.name, what, outcome, reason))


def _after(what: str) -> str:
    return f"it was lowered to {what}" if what.startswith("loops") else f"the pass {what!r}"


def check_loops(program: Program, dims: Mapping[str, int], function: Function) -> None:
    """Compare a loop program with the program that it was made of, in both forms of its kernels.

    Raises:
        VerifyError: [E317] it differs.
    """
    written = Written(program, dims)
    written.loops(function)
    if any(k.portable is not None for k in kernels_of(function.body)):
        written.loops(function, "loops in plain C", portable=True)


def small_dims(program: Program, dims: Mapping[str, int]) -> dict[str, int]:
    """Numbers for all dims: small ones, which the program's requirements allow, for those that have none."""
    found = dict(dims)
    open_ = [s.name for r in program.inputs for d in r.shape for s in d.symbols if s.name not in found]
    names = list(dict.fromkeys((*open_, *(n for n in program.sizes if n not in found))))
    if not names:
        return found
    for numbers in product(SIZES, repeat=min(len(names), 5)):
        tried = found | dict(zip(names, (*numbers, *(3,) * len(names)), strict=False))
        if all(_holds(c, tried) for c in program.requires):
            return tried
    return found | dict.fromkeys(names, 3)


def _holds(c: Cond, dims: Mapping[str, int]) -> bool:
    value = Meaning(Field(1), dims).extent(c.index)
    return value >= 0 if c.op == ">=" else value == 0 if c.op == "==" else value != 0


install(Equivalence(Written, check_loops))
