"""The passes from an elaborated program to one that is ready to be lowered, in order.

Each is a value that states its purpose, its requirements, its results, and the programs it applies to. `explain` prints
the program after each and the rules that fired. With PULLBACK_VERIFY=1, as in tests, the program is verified after each
pass, with the facts that passes gave. With "equivalence" its meaning is compared too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from pullback.passes.alternatives import choose_alternatives
from pullback.passes.columns import transpose_operands
from pullback.passes.commute import commute
from pullback.passes.extremes import read_extremes
from pullback.passes.facts import IN_ORDER, NEEDED, NO_CALLS, NO_RULES, NORMAL, SORTED_ARRAYS, STORED, Fact, check_fact
from pullback.passes.fuse import fuse
from pullback.passes.gather import gather_neighbors
from pullback.passes.halves import store_halves
from pullback.passes.hoist import hoist_small
from pullback.passes.lookups import multiply_rows
from pullback.passes.narrow import narrow_positions
from pullback.passes.operands import separate_operands
from pullback.passes.order import order_arrays
from pullback.passes.pad import pad_operands
from pullback.passes.radix import sum_blocks
from pullback.passes.recompute import recompute_rows
from pullback.passes.roots import share_reciprocals
from pullback.passes.rows import recompute_cheap_rows, recompute_function_rows
from pullback.passes.shifts import shift_products
from pullback.passes.speculate import speculate_guards
from pullback.passes.starts import separate_starts
from pullback.passes.steps import join_steps
from pullback.passes.stretches import separate_stretches
from pullback.passes.strips import strip_for_caches, strip_mine
from pullback.passes.sums import rearrange_sums
from pullback.passes.thin import separate_thin_terms
from pullback.passes.windows import narrow_windows
from pullback.records import dataclass
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
    Pass("halves", "convert 16-bit arrays where they are read and written", store_halves, gives=STORED),
    Pass("rules", "inline functions with custom rules, which only derivatives need", inline_rules,
         gives=NO_RULES),
    Pass("alternatives", "take the form of a part that suits the target", choose_alternatives, after=("rules",),
         asks=True),
    Pass("loops", "remove loops with zero or one step, and states that never change", simplify_loops, after=("rules",)),
    Pass("algebra", "simplify integer arithmetic, and use a test inside its branches", simplify_algebra),
    Pass("deltas", "replace a sum with one nonzero term by that term", solve_deltas, after=("algebra",)),
    Pass("normalize", "give each reduction and each transcendental function its own statement", normalize,
         after=("loops", "deltas"), gives=NORMAL),
    Pass("sums", "turn sums by an index table into scatters; split sums of products", rearrange_sums,
         after=("normalize",)),
    Pass("lookups", "multiply the rows of a table before they are looked up", multiply_rows, after=("normalize",)),
    Pass("stretches", "keep the part of an axis where the sums of an array are nonzero", separate_stretches,
         after=("normalize",)),
    Pass("commute", "order factors, so that equal work looks equal", commute, gives=IN_ORDER),
    Pass("common", "compute equal statements once", eliminate_common, after=("commute",)),
    Pass("dead", "drop statements that no result needs", eliminate_dead, after=("common",), gives=NEEDED),
    Pass("sort", "store the operands of sorts as arrays; move elements with their keys", order_arrays, after=("dead",),
         gives=SORTED_ARRAYS),
    Pass("rows", "recompute rows of a loop that follow cheaply from its other rows", recompute_cheap_rows,
         after=("common", "dead")),
    Pass("functions", "recompute rows that are functions of other rows, to save memory", recompute_function_rows,
         after=("rows",), modes=("less", "least")),
    Pass("fuse", "fuse statements into their readers where that pays", fuse, after=("common", "dead")),
    Pass("checkpoints", "inline checkpoints; later passes do not merge recomputed statements", inline_checkpoints,
         after=("common", "rows", "fuse"), gives=NO_CALLS),
    Pass("steps", "compute products that no step waits for outside the loop, for all steps at once", join_steps,
         after=("fuse", "checkpoints"), gives=NEEDED, modes=("fastest", "less")),
    Pass("strips", "process long axes in strips, so that less memory is live", strip_mine,
         after=("fuse", "checkpoints"), exact=False, modes=("least",)),
    Pass("near", "process arrays larger than the cache in strips that fit", strip_for_caches,
         after=("fuse", "checkpoints", "strips"), exact=False, asks=True),
    Pass("extremes", "read a maximum at its position if that is known", read_extremes, after=("fuse",)),
    Pass("radix", "sum over blocks instead of elements where data select one element per block", sum_blocks,
         after=("fuse",), exact=False),
    Pass("speculate", "drop guards in contractions if a run-time test finds the operands finite", speculate_guards,
         after=("fuse",)),
    Pass("operands", "store guarded operands of contractions as arrays", separate_operands,
         after=("fuse", "speculate"), exact=False),
    Pass("columns", "store operands transposed that vectors would gather from columns", transpose_operands,
         after=("fuse", "operands"), exact=False, modes=("fastest", "less"), asks=True),
    Pass("shared", "compute equal operands once", eliminate_common, after=("operands", "columns")),
    Pass("starts", "give each loop its own copy of a constant initial array", separate_starts,
         after=("shared",)),
    Pass("again", "recompute elementwise results for late readers, to save memory", compute_again,
         after=("shared",), modes=("least",)),
    Pass("windows", "narrow sums to the few steps that their conditions leave", narrow_windows,
         after=("fuse",)),
    Pass("thin", "sum terms apart that hold at one place of an axis", separate_thin_terms, after=("windows",),
         exact=False),
    Pass("shifts", "multiply before shifting where conditions on a shifted axis exclude much", shift_products,
         after=("windows",), exact=False, modes=("fastest", "less")),
    Pass("pad", "replace conditions on contraction operands by zero borders", pad_operands, after=("windows", "shifts"),
         exact=False),
    Pass("order", "order the factors that the passes before have added", commute, after=("windows", "pad"),
         gives=IN_ORDER),
    Pass("roots", "multiply by the reciprocal of a root that divides several times", share_reciprocals,
         after=("order",), exact=False),
    Pass("narrow", "store positions in as few bytes as their range needs", narrow_positions, after=("extremes",)),
    Pass("hoist", "move loop-invariant small statements and conversions out of loops", hoist_small,
         after=("speculate",)),
    Pass("gather", "move small statements up, so that statements with one shape are neighbors", gather_neighbors,
         after=("hoist",)),
)

# Statements stay as written.
DEBUG_PASSES = tuple(p for p in PASSES if p.name in ("halves", "rules", "checkpoints", "dead", "sort"))


def chosen(settings: Settings, mode: MemoryMode) -> tuple[Pass, ...]:
    """The passes that a program with these settings goes through in a memory mode."""
    return tuple(p for p in PASSES if mode in p.modes and (p.exact or not settings.exact))


def optimize(program: ir.Program, dims: Mapping[str, int], levels: int = 1, mode: MemoryMode = "fastest",
             machine: Machine = GENERIC) -> ir.Program:
    """Return the program for the given dims after every pass. Time is linear in its size.

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

These passes rewrite a program between its definition and its loops, in this order. `pullback explain --passes` prints
this table, and `f.explain()` shows the program after each pass.

* *After* lists the passes that a pass builds on, if they run.
* *Guarantees* are checked after the pass if `PULLBACK_VERIFY` is 1. All later passes keep them and are checked too,
  except for forms that fusion undoes.
* *Left out* lists programs that skip the pass: those under `pb.exact()`, or with a memory mode.

"""


def as_markdown() -> str:
    """The page of passes."""
    head = [PAGE + "| pass | purpose | after | guarantees | left out |", "|---|---|---|---|---|"]
    rows = [f"| {p.name} | {p.purpose} | {', '.join(p.after)} | {p.gives.text if p.gives else ''} | {_left_out(p)} |"
            for p in PASSES]
    return "\n".join([*head, *rows]) + "\n"


def _left_out(p: Pass) -> str:
    modes = [f"memory {m}" for m in MODES if m not in p.modes]
    return ", ".join([*([] if p.exact else ["exact"]), *modes])
