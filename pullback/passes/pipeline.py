"""The passes from an elaborated program to one that is ready to be lowered, in order.

Each is a value that states its purpose, its requirements, its results, and the programs it applies to. `explain` prints
the program after each and the rules that fired. With PULLBACK_VERIFY=1, as in tests, the program is verified after each
pass, with the facts that passes gave. With "equivalence" its meaning is compared too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pullback.clock import stage
from pullback.errors import VerifyError
from pullback.ir import nodes as ir
from pullback.ir.equivalence import equivalence
from pullback.ir.settings import MODES, MemoryMode, Settings
from pullback.ir.traverse import specialize
from pullback.ir.verify import Verified, verify, verifying
from pullback.machine import GENERIC, Machine
from pullback.passes.again import compute_again
from pullback.passes.commute import commute
from pullback.passes.extremes import read_extremes
from pullback.passes.facts import IN_ORDER, NEEDED, NO_CALLS, NO_RULES, NORMAL, SORTED_ARRAYS, STORED, Fact, check_fact
from pullback.passes.fuse import fuse
from pullback.passes.gather import gather_neighbors
from pullback.passes.halves import store_halves
from pullback.passes.hoist import hoist_small
from pullback.passes.narrow import narrow_positions
from pullback.passes.operands import separate_operands
from pullback.passes.order import order_arrays
from pullback.passes.pad import pad_operands
from pullback.passes.radix import sum_blocks
from pullback.passes.recompute import recompute_rows
from pullback.passes.rows import recompute_cheap_rows, recompute_function_rows
from pullback.passes.shifts import shift_products
from pullback.passes.speculate import speculate_guards
from pullback.passes.starts import separate_starts
from pullback.passes.steps import join_steps
from pullback.passes.stretches import separate_stretches
from pullback.passes.strips import strip_for_caches, strip_mine
from pullback.passes.sums import rearrange_sums
from pullback.passes.windows import narrow_windows
from pullback.rewrite.algebra import simplify_algebra
from pullback.rewrite.calls import inline_checkpoints, inline_rules
from pullback.rewrite.cse import eliminate_common, eliminate_dead
from pullback.rewrite.fired import record_rules
from pullback.rewrite.kronecker import solve_deltas
from pullback.rewrite.loops import simplify_loops
from pullback.rewrite.normal_form import normalize


@dataclass(frozen=True)
class Pass:
    """A pass and its contract.

    Attributes:
        name, purpose: its name, and its purpose in one line.
        run: the function from program to program; it also takes the machine if `asks` is set.
        after: passes that must come before it, if they run at all, because it builds on their results.
        gives: facts that hold of the program afterwards; `Fact.lasting` says for how long.
        exact: whether exact programs go through it.
        modes: the memory modes in which it runs.
        asks: whether it takes the machine.
    """

    name: str
    purpose: str
    run: Callable[..., ir.Program]
    after: tuple[str, ...] = ()
    gives: Fact | None = None
    exact: bool = True
    modes: tuple[MemoryMode, ...] = MODES
    asks: bool = False

    def __call__(self, program: ir.Program, machine: Machine) -> ir.Program:
        """The program after the pass."""
        return self.run(program, machine) if self.asks else self.run(program)


@dataclass(frozen=True)
class Stage:
    """A program after a pass, with the rules that fired in it and how often."""

    name: str
    purpose: str
    program: ir.Program
    rules: dict[str, int]


PASSES: Final = (
    Pass("halves", "arrays of 16 bits are converted where they are read and written", store_halves, gives=STORED),
    Pass("rules", "derivatives are taken: functions with rules of their own are like others", inline_rules,
         gives=NO_RULES),
    Pass("loops", "loops of no step, of one, or with states that stay are none", simplify_loops, after=("rules",)),
    Pass("algebra", "integers' ring rules, and what a test says in its branches", simplify_algebra),
    Pass("deltas", "a sum over what is elsewhere zero is the term where it is not", solve_deltas, after=("algebra",)),
    Pass("normalize", "one reduction per statement, transcendentals apart", normalize, after=("loops", "deltas"),
         gives=NORMAL),
    Pass("sums", "sums by table are scattered, sums of products taken apart", rearrange_sums, after=("normalize",)),
    Pass("stretches", "sums that count on a part of an axis are arrays of that part", separate_stretches,
         after=("normalize",)),
    Pass("commute", "factors in one order: equal work looks equal", commute, gives=IN_ORDER),
    Pass("common", "equal statements are computed once", eliminate_common, after=("commute",)),
    Pass("dead", "what no result needs is dropped", eliminate_dead, after=("common",), gives=NEEDED),
    Pass("sort", "what is put in order is an array, and elements move with their keys", order_arrays, after=("dead",),
         gives=SORTED_ARRAYS),
    Pass("rows", "rows of a loop that follow from its others are computed again", recompute_cheap_rows,
         after=("common", "dead")),
    Pass("functions", "so are rows that are functions of others, where memory is to be small", recompute_function_rows,
         after=("rows",), modes=("less", "least")),
    Pass("fuse", "statements go into their readers where that pays", fuse, after=("common", "dead")),
    Pass("checkpoints", "nothing merges any more: what is computed again stays so", inline_checkpoints,
         after=("common", "rows", "fuse"), gives=NO_CALLS),
    Pass("steps", "products that no step of a loop waits for are done for all steps at once", join_steps,
         after=("fuse", "checkpoints"), gives=NEEDED, modes=("fastest", "less")),
    Pass("strips", "long axes a stretch at a time, so that less is alive at once", strip_mine,
         after=("fuse", "checkpoints"), exact=False, modes=("least",)),
    Pass("near", "arrays that would wait for memory, a stretch at a time in the cache", strip_for_caches,
         after=("fuse", "checkpoints", "strips"), exact=False, asks=True),
    Pass("extremes", "a maximum whose position is known is read there", read_extremes, after=("fuse",)),
    Pass("radix", "sums over all elements of blocks of which a datum names one are over blocks", sum_blocks,
         after=("fuse",), exact=False),
    Pass("speculate", "guards leave contractions whose operands turn out finite", speculate_guards, after=("fuse",)),
    Pass("operands", "guarded operands of contractions are arrays of their own", separate_operands,
         after=("fuse", "speculate"), exact=False),
    Pass("shared", "operands that are equal are computed once", eliminate_common, after=("operands",)),
    Pass("starts", "a constant array that a loop begins with is made for this loop alone", separate_starts,
         after=("shared",)),
    Pass("again", "what is elementwise of arrays that wait for the same statements is computed again", compute_again,
         after=("shared",), modes=("least",)),
    Pass("windows", "sums over whole axes of which conditions leave a few steps are over these", narrow_windows,
         after=("fuse",)),
    Pass("shifts", "products of which a shifted axis' conditions leave a part come before the shifts", shift_products,
         after=("windows",), exact=False, modes=("fastest", "less")),
    Pass("pad", "conditions on contraction operands become zero borders", pad_operands, after=("windows", "shifts"),
         exact=False),
    Pass("order", "factors that windows and borders brought are in one order too", commute, after=("windows", "pad"),
         gives=IN_ORDER),
    Pass("narrow", "positions take as few bytes as their range needs", narrow_positions, after=("extremes",)),
    Pass("hoist", "small statements and conversions that are the same in every trip leave their loop", hoist_small,
         after=("speculate",)),
    Pass("gather", "small statements are early, so that those over one space are neighbors", gather_neighbors,
         after=("hoist",)),
)

# Statements stay as written.
DEBUG_PASSES = tuple(p for p in PASSES if p.name in ("halves", "rules", "checkpoints", "dead", "sort"))


def chosen(settings: Settings, mode: MemoryMode) -> tuple[Pass, ...]:
    """The passes that a program with these settings goes through in a memory mode."""
    return tuple(p for p in PASSES if mode in p.modes and (p.exact or not settings.exact))


def optimize(program: ir.Program, dims: Mapping[str, int], levels: int = 1, mode: MemoryMode = "fastest",
             machine: Machine = GENERIC) -> ir.Program:
    """The program for the given dims after every pass. Time is linear in its size.

    Args:
        levels: the levels of blocks for rows that forward loops store for backward loops; 1 stores all rows.
        mode: the target memory mode.
        machine: the target processor.
    """
    compare = equivalence()
    written = None if compare is None else compare.written(program, dims)
    with stage("specialize"):
        program = recompute_rows(specialize(program, dims), levels)
    checked = _Checked()
    for p in chosen(program.settings, mode):
        with stage(f"pass {p.name}"):
            program = p(program, machine)
        if verifying():
            before = checked.before
            checked.after(p, program)
            if written is not None and program is not before:
                written.compare(p.name, program)
    return program


class _Checked:
    """The checks after each pass: the program is well-formed, and the facts given by passes hold."""

    def __init__(self) -> None:
        self.verified = Verified()
        self.lasting: dict[Fact, None] = {}
        self.before: ir.Program | None = None

    def after(self, p: Pass, program: ir.Program) -> None:
        """Raise a VerifyError that names the pass; for an unchanged program, check new facts only."""
        facts = {} if p.gives is None else {p.gives: None}
        if p.gives is not None and p.gives.lasting:
            self.lasting |= facts
        try:
            if program is not self.before:
                verify(program, self.verified)
                facts |= self.lasting
            for fact in facts:
                check_fact(fact, program)
        except VerifyError as error:
            error.add_note(f"after the pass {p.name!r}: {p.purpose}")
            raise
        self.before = program


def stages(program: ir.Program, dims: Mapping[str, int], machine: Machine = GENERIC) -> list[Stage]:
    """The program as written, specialized, and after each pass."""
    out = [Stage("elaborated", "as traced and checked", program, {})]
    if dims:
        program = specialize(program, dims)
        out.append(Stage("specialized", "dims given are numbers", program, {}))
    for p in chosen(program.settings, program.settings.memory):
        with record_rules() as rules:
            program = p(program, machine)
        out.append(Stage(p.name, p.purpose, program, dict(rules)))
    return out


PAGE: Final = """# Passes

What the compiler does with a program between its definition and its loops, in order. `pullback explain --passes` prints
this table, and `f.explain()` shows the program after each. *After* are passes that a pass builds on, where they run;
what it *gives* is looked at after it, and, but for the forms that fusion ends, after all behind it, wherever
`PULLBACK_VERIFY` is 1. *Left out* says which programs do not go through it: those under `pb.exact()`, or a memory mode.

"""


def as_markdown() -> str:
    """The page of passes."""
    head = [PAGE + "| pass | what it is for | after | gives | left out |", "|---|---|---|---|---|"]
    rows = [f"| {p.name} | {p.purpose} | {', '.join(p.after)} | {p.gives.text if p.gives else ''} | {_left_out(p)} |"
            for p in PASSES]
    return "\n".join([*head, *rows]) + "\n"


def _left_out(p: Pass) -> str:
    modes = [f"memory {m}" for m in MODES if m not in p.modes]
    return ", ".join([*([] if p.exact else ["exact"]), *modes])
