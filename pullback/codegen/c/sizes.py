"""What C for all sizes has beside C for some: tests of its dims, places of slots, and the bytes of its arena."""

from __future__ import annotations

from typing import Final

from pullback.codegen.c.expressions import Expressions
from pullback.codegen.c.kernels import Unit
from pullback.codegen.c.names import Names
from pullback.codegen.c.statements import Writer
from pullback.codegen.c.text import shape_text, wrap
from pullback.codegen.c.types import c_type
from pullback.ir.index import Atom, Cond, Data, DimSymbol, Floor, Index, Mod, polynomial
from pullback.loops.memory.plan import MemoryPlan
from pullback.loops.memory.slots import ALIGNMENT
from pullback.loops.program.values import Buffer

WRONG_DIMS: Final = -1  # what a function returns for dims that it does not take
TOO_LARGE: Final = -2  # and for those whose arena has no size
_ALIGNED: Final = f"""\
static inline size_t pb_aligned(int64_t bytes) {{
    return ((size_t)bytes + {ALIGNMENT - 1}) / {ALIGNMENT} * {ALIGNMENT};
}}
"""


def fails(needs: tuple[Cond, ...], e: Expressions) -> str:
    """A test that one of the conditions does not hold."""
    opposite = {">=": "<", "==": "!=", "!=": "=="}
    out = []
    for c in needs:
        left = polynomial({m: k for m, k in c.index.terms if k > 0})
        right = polynomial({m: -k for m, k in c.index.terms if k < 0})
        out.append(f"{e.index(left)} {opposite[c.op]} {e.index(right)}")
    return " || ".join(out)


def slot_sizes(plan: MemoryPlan, e: Expressions) -> list[str]:
    """The bytes of each slot."""
    if plan.slots:
        e.words.own("pb_aligned", _ALIGNED)
    return [f"pb_aligned({e.bound(s.bytes)})" for s in plan.slots]


def arena_body(plan: MemoryPlan, needs: tuple[Cond, ...], e: Expressions) -> list[str]:
    """The lines of the function that gives the bytes of the arena, SIZE_MAX where there can be none.

    Whether they fit is found in floating point, where nothing wraps.
    """
    lines = [f"if ({fails(needs, e)}) return SIZE_MAX;"] if needs else []
    terms = [str(plan.bytes)] if plan.bytes or not plan.slots else []
    if plan.slots:
        about = " + ".join(_magnitude(n, e) for s in plan.slots for n in s.sizes)
        lines.append(f"if ({about} > (double)(SIZE_MAX / 4)) return SIZE_MAX;")
    return [*lines, f"return {' + '.join([*terms, *slot_sizes(plan, e)])};"]


def check_dims(unit: Unit, writer: Writer, text: str) -> None:
    """Tests of the dims, and which of them are not used."""
    f = unit.function
    if f.needs:
        writer.line(f"if ({fails(f.needs, writer.expressions)}) return {WRONG_DIMS};")
    if unit.plan.slots:
        dims = ", ".join(writer.names(d, d.name) for d in f.dims)
        writer.line(f"if ({unit.name}_arena_bytes({dims}) == SIZE_MAX) return {TOO_LARGE};")
    else:
        tested = {s for c in f.needs for s in c.index.symbols}
        for d in f.dims:
            if d not in tested and writer.names(d, d.name) not in text:
                writer.line(f"(void){writer.names(d, d.name)};")


def place_slots(unit: Unit, writer: Writer, text: str) -> None:
    """Where each slot begins, and what is in it."""
    before = f"(char *)arena + {unit.plan.shared_bytes}" if unit.plan.shared_bytes else "(char *)arena"
    own = [b for b in unit.plan.offsets if b.space == "worker"]
    last = len(unit.plan.slots) - 1
    bytes_of = slot_sizes(unit.plan, writer.expressions)
    for k, (slot, size) in enumerate(zip(unit.plan.slots, bytes_of, strict=True)):
        name = writer.names(slot, f"memory{k}")
        writer.line(f"char *const {name} = {before};")
        before = f"{name} + {size}" if k < last or own else ""
        for b in slot.buffers:
            place_buffer(unit, writer, b, name, text)
    for b in own if unit.plan.slots else ():
        offset = unit.plan.offsets[b] - unit.plan.shared_bytes
        place_buffer(unit, writer, b, f"({before}" + f" + {offset}" * bool(offset) + ")", text)


def place_buffer(unit: Unit, writer: Writer, b: Buffer, place: str, text: str) -> None:
    """A name for where a buffer is, if the text uses it."""
    token = writer.names(b, b.name)
    if token in text:
        shape = f" /* {shape_text(b)} */" if unit.comments else ""
        writer.line(f"{c_type(b.dtype)} *const {token} = ({c_type(b.dtype)} *){place};{shape}")


def arena_function(unit: Unit) -> tuple[str, str]:
    """The function that gives the bytes of the arena for some dims, and its prototype."""
    f = unit.function
    names = Names()
    writer = unit.writer(names)
    params = ", ".join(f"int64_t {names(d, d.name)}" for d in f.dims)
    for line in arena_body(unit.plan, f.needs, writer.expressions):
        writer.line(line)
    used = "\n".join(writer.lines)
    unused = [f"    (void){t};" for d in f.dims if (t := names(d, d.name)) not in used]
    raw = f"({params}) {{\n" + "\n".join([*unused, *writer.lines]) + "\n}\n"
    text = wrap(f"size_t {unit.name}_arena_bytes", names.resolve(raw, unit.style, frozenset(unit.taken)))
    declaration = text[: text.index(" {\n")] + ";"
    comment = "/* Bytes of the arena; SIZE_MAX for dims that the function does not take. */\n" * unit.comments
    return f"{comment}{declaration}\n{text}", declaration


def _magnitude(i: Index, e: Expressions) -> str:
    """A bound of the magnitude of a dim as a double; `(double)` keeps products from being ones of integers."""
    return " + ".join(" * ".join([f"{abs(c)}.0", *(_atom(a, e) for a in m)]) for m, c in i.terms)


def _atom(a: Atom, e: Expressions) -> str:
    match a:
        case DimSymbol():
            return f"(double){e.names(a, a.name)}"
        case Floor():
            return f"({_magnitude(a.numerator, e)})"
        case Mod():
            return f"({_magnitude(a.denominator, e)})"
        case _:
            assert not isinstance(a, Data)
            raise AssertionError(f"{a} in the size of an array")
