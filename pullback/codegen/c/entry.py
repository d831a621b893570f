"""The entry function of a unit: parameters, array locations in the arena, statements."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

from pullback.codegen.c import sizes
from pullback.codegen.c.kernels import Unit
from pullback.codegen.c.literals import literal
from pullback.codegen.c.names import Names
from pullback.codegen.c.statements import Writer
from pullback.codegen.c.text import shape_text, thousands, wrap
from pullback.codegen.c.types import c_type
from pullback.ir.index import Index
from pullback.loops.analysis.work import cycles
from pullback.loops.program import nodes
from pullback.loops.program.nodes import WORKERS, Call, Copy, Fill, For, If, Loop, Parallel, Procedure, Stmt
from pullback.loops.program.values import Buffer

MOST_ARGUMENTS = 1024  # most arguments that foreign function interfaces pass
LOST: Final = 1000  # the entry only calls if its own statements have at most 1 / LOST of all cycles


def is_threaded(unit: Unit) -> bool:
    """Whether the entry takes a pool."""
    return any(isinstance(s, Parallel) for s in nodes.walk(unit.function.body))


def entry_function(unit: Unit) -> str:
    """The C text of the entry. Kernels that it calls are printed into the unit on the way."""
    f = unit.function
    names = Names()
    params = _arrays(unit, names)
    memory, body = unit.writer(names), unit.writer(names)
    body.expressions = memory.expressions
    body.body(f.body)
    params.append("void *restrict arena")
    if body.fails:
        params.append("int64_t *fault")
    taken = unit.taken | {"status"}
    if is_threaded(unit):
        params.append("pb_pool *pool")
        taken |= {"pool", "shared", "chunk", "worker"}
    text = "\n".join(body.lines)
    _declare(unit, memory, text)
    if memory.lines:
        memory.line("")
    raw = f"({', '.join(params)}) {{\n" + "\n".join([*memory.lines, text, "    return 0;"]) + "\n}\n"
    found = wrap(f"int {unit.name}", names.resolve(raw, unit.style, frozenset(taken)))
    return found if len(params) <= MOST_ARGUMENTS else found + _packed(unit, len(params))


def _packed(unit: Unit, count: int) -> str:
    """The function for callers with limited argument counts: it takes an array of arguments."""
    f = unit.function
    first_dim = len(f.given) + len(f.outputs)
    dims = range(first_dim, first_dim + len(f.dims))
    values = (f"(int64_t)(intptr_t)arguments[{k}]" if k in dims else f"arguments[{k}]" for k in range(count))
    lines = textwrap.fill(", ".join(values), 110, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return f"\nint {unit.name}_packed(void *const *arguments) {{\n    return {unit.name}(\n{lines});\n}}\n"


def _arrays(unit: Unit, names: Names) -> list[str]:
    """The parameters up to the arena: inputs, outputs and dims."""
    f = unit.function
    shared = {f.inputs[j] for _, j in f.in_place}
    params = []
    for b in f.given:
        restrict = "" if b in shared else "restrict "
        params.append(f"const {c_type(b.dtype)} *{restrict}{names(b, b.name)}")
    params += [f"{c_type(b.dtype)} *restrict {names(b, b.name)}" for b in f.outputs]
    return params + [f"int64_t {names(d, d.name)}" for d in f.dims]


def _declare(unit: Unit, writer: Writer, text: str) -> None:
    """Write the head of the entry: dim checks, array declarations, and unused names."""
    f, plan, names = unit.function, unit.plan, writer.names
    if f.dims:
        sizes.check_dims(unit, writer, text)
    if not plan.offsets and not plan.slots:
        writer.line("(void)arena;")
    for b, offset in plan.offsets.items():
        if b.space != "worker" or not plan.slots:
            place = "arena" if offset == 0 else f"((char *)arena + {offset})"
            sizes.place_buffer(unit, writer, b, place, text)
    for b in plan.local:
        token = names(b, b.name)
        if token in text:
            shape = f" /* {shape_text(b)} */" if unit.comments else ""
            writer.line(f"{c_type(b.dtype)} {token}[{b.elements}];{shape}")
    sizes.place_slots(unit, writer, text)
    for b, elements in f.constants.items():
        if names(b, b.name) in text:
            _constant(writer, b, elements)
    for b in f.given:
        if names(b, b.name) not in text:
            writer.line(f"(void){names(b, b.name)};")
    if names(WORKERS, WORKERS.name) in text:
        writer.line(f"const int64_t {names(WORKERS, WORKERS.name)} = pool ? pool->workers : 1;")
    if re.search(r"\bstatus\b", text):
        writer.line("int status;")


def _constant(writer: Writer, b: Buffer, elements: Sequence[bool | int | float]) -> None:
    """Write an array as a constant table in the C."""
    numbers = ", ".join(literal(x, b.dtype)[0] for x in elements) or "0"
    head = f"static const {c_type(b.dtype)} {writer.names(b, b.name)}[{max(len(elements), 1)}] = {{"
    lines = textwrap.wrap(f"{numbers}}};", 100, break_long_words=False, break_on_hyphens=False)
    lines[0] = head + lines[0]
    for k, line in enumerate(lines):
        writer.line("    " * (k > 0) + line)  # no line begins or ends with a brace as blocks do


def entry_comment(unit: Unit) -> str:
    """The comment on the entry's return value and arena."""
    plan = unit.plan
    text = f"/* Returns 0. `arena` has {thousands(plan.bytes)} bytes, aligned to 64."
    if plan.slots:
        text = f"/* Returns 0. `arena` has {unit.name}_arena_bytes(..) bytes, aligned to 64."
    elif plan.swap_bytes:
        end = plan.shared_bytes
        text += f" Copies alone touch those from {thousands(end - plan.swap_bytes)} to {thousands(end)}."
    elif not plan.bytes:
        text = "/* Returns 0. `arena` is not used and may be null."
    if unit.function.dims:
        text += " For other dims than it takes it returns -1."
    if unit.sites:
        text = text.replace("Returns 0.", "Returns 0, or the number of the range check that failed; `fault` may be "
                            "null, else it gets\n   the index and its bound.")
    return text + " */\n"


def only_calls(unit: Unit) -> bool:
    """Whether all work is in called functions, so that optimizing the entry gains nothing."""
    body = unit.function.body
    return LOST * _written_out(unit, body) <= float(cycles(body, {}, unit.function.machine))


def _written_out(unit: Unit, body: Iterable[Stmt]) -> float:
    """The cycles of the statements themselves, without the functions that they call."""
    total = 0.0
    for s in body:
        match s:
            case For():
                inside = _written_out(unit, s.body)
                low, high = s.lower, s.upper
                known = isinstance(low, Index) and isinstance(high, Index) and (high - low).constant
                total += inside and (inside * known / s.step if known else inf)
            case Loop():
                total += _written_out(unit, s.body) and inf
            case If():
                total += _written_out(unit, (*s.then, *s.otherwise))
            case Call():
                total += float(cycles((s,), {}, unit.function.machine)) if unit.inline(s.kernel) else 0.0
                total += _written_out(unit, s.kernel.body) if unit.inlined(s.kernel) else 0.0
            case Parallel() | Copy() | Fill() | Procedure():
                pass
            case _:
                total += float(cycles((s,), {}, unit.function.machine))
    return total
