"""The passes from an elaborated program to one that is ready to be lowered, in order.

Each pass is a function from program to program with a one-line reason; `explain` prints the program after each
and the rules that fired, and tests verify the program after each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pullback.clock import stage
from pullback.errors import VerifyError
from pullback.ir.program import Program
from pullback.ir.traverse import specialise
from pullback.ir.verify import Verified, verify, verifying
from pullback.passes.commute import commute
from pullback.passes.extremes import read_extremes
from pullback.passes.fuse import fuse
from pullback.passes.gather import gather_neighbours
from pullback.passes.halves import store_halves
from pullback.passes.hoist import hoist_small
from pullback.passes.narrow import narrow_positions
from pullback.passes.operands import separate_operands
from pullback.passes.order import order_arrays
from pullback.passes.pack import pad_operands
from pullback.passes.radix import sum_blocks
from pullback.passes.recompute import recompute_rows
from pullback.passes.rows import recompute_cheap_rows
from pullback.passes.shifts import shift_products
from pullback.passes.speculate import speculate_guards
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
from pullback.rewrite.normal_form import normalise


@dataclass(frozen=True)
class Pass:
    """A pass: its name, what it is for, the function, and whether it is for programs that are to need least memory."""

    name: str
    purpose: str
    run: Callable[[Program], Program]
    for_memory: bool = False


@dataclass(frozen=True)
class Stage:
    """A program after a pass, with the rules that fired in it and how often."""

    name: str
    purpose: str
    program: Program
    rules: dict[str, int]


PASSES = (
    Pass("halves", "arrays of 16 bits are converted where they are read and written", store_halves),
    Pass("rules", "derivatives are taken: functions with rules of their own are like others", inline_rules),
    Pass("loops", "loops of no step, of one, or with states that stay are none", simplify_loops),
    Pass("algebra", "integers' ring rules, and what a test says in its branches", simplify_algebra),
    Pass("deltas", "a sum over what is elsewhere zero is the term where it is not", solve_deltas),
    Pass("normalise", "one reduction per statement, transcendentals apart", normalise),
    Pass("sums", "sums by table are scattered, sums of products taken apart", rearrange_sums),
    Pass("stretches", "sums that count on a part of an axis are arrays of that part", separate_stretches),
    Pass("commute", "factors in one order: equal work looks equal", commute),
    Pass("common", "equal statements are computed once", eliminate_common),
    Pass("dead", "what no result needs is dropped", eliminate_dead),
    Pass("sort", "what is put in order is an array, and elements move with their keys", order_arrays),
    Pass("rows", "rows of a loop that follow from its others are computed again", recompute_cheap_rows),
    Pass("fuse", "statements go into their readers where that pays", fuse),
    Pass("checkpoints", "nothing merges any more: what is computed again stays so", inline_checkpoints),
    Pass("steps", "products that no step of a loop waits for are done for all steps at once", join_steps),
    Pass("strips", "long axes a stretch at a time, so that less is alive at once", strip_mine, for_memory=True),
    Pass("near", "arrays that would wait for memory, a stretch at a time in the cache", strip_for_caches),
    Pass("extremes", "a maximum whose position is known is read there", read_extremes),
    Pass("radix", "sums over all elements of blocks of which a datum names one are over blocks", sum_blocks),
    Pass("speculate", "guards leave contractions whose operands turn out finite", speculate_guards),
    Pass("operands", "guarded operands of contractions are arrays of their own", separate_operands),
    Pass("shared", "operands that are equal are computed once", eliminate_common),
    Pass("windows", "sums over whole axes of which conditions leave a few steps are over these", narrow_windows),
    Pass("shifts", "products of which a shifted axis' conditions leave a part come before the shifts", shift_products),
    Pass("pad", "conditions on contraction operands become zero borders", pad_operands),
    Pass("order", "factors that windows and borders brought are in one order too", commute),
    Pass("narrow", "positions take as few bytes as their range needs", narrow_positions),
    Pass("hoist", "small statements and conversions that are the same in every trip leave their loop", hoist_small),
    Pass("gather", "small statements are early, so that those over one space are neighbours", gather_neighbours),
)

# Statements stay as written.
DEBUG_PASSES = tuple(p for p in PASSES if p.name in ("halves", "rules", "checkpoints", "dead", "sort"))


def optimise(program: Program, dims: Mapping[str, int], levels: int = 1, for_memory: bool = False) -> Program:
    """The program for the given dims after every pass. Time is linear in its size.

    Args:
        levels: how many levels of blocks keep the rows that loops store for loops that run backwards; 1 stores all.
        for_memory: whether to run the passes that are for least memory, too.
    """
    with stage("specialise"):
        program = recompute_rows(specialise(program, dims), levels)
    verified = Verified()
    for p in PASSES:
        if p.for_memory and not for_memory:
            continue
        with stage(f"pass {p.name}"):
            program = p.run(program)
        if verifying():
            _verify(program, p, verified)
    return program


def _verify(program: Program, after: Pass, verified: Verified) -> None:
    try:
        verify(program, verified)
    except VerifyError as error:
        error.add_note(f"after the pass {after.name!r}: {after.purpose}")
        raise


def stages(program: Program, dims: Mapping[str, int]) -> list[Stage]:
    """The program as written, specialised, and after each pass."""
    out = [Stage("elaborated", "as traced and checked", program, {})]
    if dims:
        program = specialise(program, dims)
        out.append(Stage("specialised", "dims given are numbers", program, {}))
    for p in PASSES:
        if p.for_memory and program.settings.memory != "least":
            continue
        with record_rules() as rules:
            program = p.run(program)
        out.append(Stage(p.name, p.purpose, program, dict(rules)))
    return out
