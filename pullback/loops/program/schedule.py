"""Schedules: the loop transformations of a kernel, as values that print in one line.

    Schedule((Split("k", 256), Pack("B"), Tile((("n", 6),)), Vector("k", 16, 2)))
    -->  split k 256 | pack B | tile n 6 | vector k 2×16

In the spirit of Halide's schedules (Ragan-Kelley et al. 2013) and Exo's rewrites (Ikarashi et al. 2022): a plan has
one, the kernel's comment shows it, and a `Wish` requests another. A `Chosen` records a kernel's candidate, its
estimate, and the estimates of the others.
"""

from __future__ import annotations

from pullback.records import dataclass, field

__all__ = ["EVERY", "PLAIN", "Block", "Chosen", "Every", "Exchange", "Fuse", "Mask", "Numbered", "Pack", "Schedule",
           "Split", "Step", "Tile", "Vector", "Wish"]  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One step of a schedule. `str` gives it in a few words."""


@dataclass(frozen=True)
class Split(Step):
    """The loop over an axis split into separately written pieces: their size, or where they begin."""

    axis: str
    at: tuple[str, ...]

    def __str__(self) -> str:
        return f"split {self.axis} {' '.join(self.at)}"


@dataclass(frozen=True)
class Block(Step):
    """Blocks of steps of an axis, for a cache."""

    axis: str
    by: int

    def __str__(self) -> str:
        return f"block {self.axis} {self.by}"


@dataclass(frozen=True)
class Tile(Step):
    """A register tile: steps of each axis at a time."""

    axes: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return "tile " + " ".join(f"{axis} {n}" for axis, n in self.axes)


@dataclass(frozen=True)
class Vector(Step):
    """Vectors along an axis, some side by side, and narrower ones for the remainder.

    The remainder follows from the extent, so schedules with the same vectors are equal.
    """

    axis: str
    lanes: int
    together: int = 1
    rest: tuple[int, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        several = f"{self.together}×" if self.together > 1 else ""
        rest = f" rest {' '.join(map(str, self.rest))}" if self.rest else ""
        return f"vector {self.axis} {several}{self.lanes}{rest}"


@dataclass(frozen=True)
class Pack(Step):
    """An operand copied into panels before it is read."""

    operand: str

    def __str__(self) -> str:
        return f"pack {self.operand}"


@dataclass(frozen=True)
class Exchange(Step):
    """An exchange of loops: the loop over `outer` encloses that over `inner`, unlike in the statement."""

    outer: str
    inner: str

    def __str__(self) -> str:
        return f"exchange {self.outer} {self.inner}"


@dataclass(frozen=True)
class Fuse(Step):
    """A fusion of statements in one loop nest."""

    statements: int

    def __str__(self) -> str:
        return f"fuse {self.statements}"


@dataclass(frozen=True)
class Mask(Step):
    """Masks along an axis: lanes that conditions exclude are computed and not used."""

    axis: str

    def __str__(self) -> str:
        return f"mask {self.axis}"


@dataclass(frozen=True)
class Numbered(Step):
    """A marker: the following steps are for one of several parts of the result."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"part {self.number} of {self.of}:"


@dataclass(frozen=True)
class Every(Step):
    """A wish for all schedules that a strategy for devices can build, for tuners."""

    def __str__(self) -> str:
        return "every"


@dataclass(frozen=True)
class Schedule:
    """Steps in order."""

    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        """The steps on one line; "loops as written" if there are none."""
        return " | ".join(map(str, self.steps)).replace(": |", ":") or "loops as written"

    def __add__(self, other: Schedule) -> Schedule:
        return Schedule(self.steps + other.steps)

    def has(self, wish: Schedule) -> bool:
        """Whether it contains all wished steps."""
        return all(step in self.steps for step in wish.steps)


PLAIN = Schedule()
EVERY = Schedule((Every(),))


@dataclass(frozen=True)
class Wish:
    """A candidate to take instead of the cheapest, if it exists; for trials.

    Attributes:
        name: the candidate's name.   schedule: steps that it must have; estimates decide the rest.
    """

    name: str
    schedule: Schedule = PLAIN


@dataclass(frozen=True)
class Chosen:
    """The choice of a kernel's candidate.

    Attributes:
        name: the candidate's name.   cycles: its estimate.   schedule: its steps.
        others: the other candidates with their estimates, the cheapest first.
    """

    name: str
    cycles: float
    schedule: Schedule = PLAIN
    others: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        """The name and the schedule."""
        return f"{self.name}: {self.schedule}"

    @property
    def described(self) -> str:
        """The name and schedule with the estimate, then the other candidates with theirs."""
        others = ", ".join(f"{name} {cycles:,.0f}" for name, cycles in self.others)
        return f"{self}; {self.cycles:,.0f} cycles" + (f"; others: {others}" if others else "")
