"""C for open sizes: dim checks, slot locations, and the size of the arena."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Final

from pullback.codegen.c.expressions import Expressions
from pullback.codegen.c.kernels import Unit
from pullback.codegen.c.names import Names
from pullback.codegen.c.statements import Writer
from pullback.codegen.c.text import shape_text, wrap
from pullback.codegen.c.types import c_type
from pullback.ir.index import Atom, Cond, Data, DimSymbol, Floor, Index, Mod, polynomial
from pullback.ir.index.polynomial import Monomial
from pullback.loops.memory.plan import MemoryPlan
from pullback.loops.memory.slots import ALIGNMENT
from pullback.loops.program.nodes import For, Function, kernels_of, walk
from pullback.loops.program.values import Buffer

WRONG_DIMS: Final = -1  # the return value for dims that a function rejects
TOO_LARGE: Final = -2  # the return value for too large arrays
LARGEST: Final = "4e18"  # below half of the largest int64_t, so that a size plus a memory size fits
_ALIGNED: Final = f"""\
static inline size_t pb_aligned(int64_t bytes) {{
    return ((size_t)bytes + {ALIGNMENT - 1}) / {ALIGNMENT} * {ALIGNMENT};
}}
"""


def fails(needs: tuple[Cond, ...], e: Expressions) -> str:
    """The C test whether one of the conditions fails."""
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


def tests(f: Function, plan: MemoryPlan, e: Expressions, wrong: str, large: str) -> list[str]:
    """Lines that return `wrong` for dims that the function rejects, `large` for too large arrays.

    Conditions on single dims come first, so all dims are then at least 1. Whether sizes fit is tested in floating
    point, where nothing wraps. After that nothing wraps in the other conditions either.
    """
    single = tuple(c for c in f.needs if _is_single(c))
    others = tuple(c for c in f.needs if not _is_single(c))
    tested = [(fails(single, e), wrong), (_too_large(f, plan, e), large), (fails(others, e), wrong)]
    return [f"if ({test}) return {code};" for test, code in tested if test]


def _is_single(c: Cond) -> bool:
    """Whether a condition compares a dim with a number."""
    return all(not m or (len(m) == 1 and isinstance(m[0], DimSymbol) and abs(k) == 1) for m, k in c.index.terms)


def _too_large(f: Function, plan: MemoryPlan, e: Expressions) -> str:
    """The C test whether sizes overflow: the arena as memory; arrays, loops and conditions as integers."""
    stored: Counter[Monomial] = Counter()
    for n in (n for s in plan.slots for n in s.sizes):
        stored.update(_positive(n))
    more: dict[Monomial, int] = {}
    for terms in sorted(_sizes(f), key=lambda terms: -max(map(len, terms), default=0)):
        held: Counter[Monomial] = Counter()
        for m, c in terms.items():
            held[next((k for k in (*stored, *more) if _covers(k, m)), m)] += c
        if any(c > max(stored[m], more.get(m, 0)) for m, c in held.items()):
            more |= {m: max(more.get(m, 0), c) for m, c in terms.items()}
    parts = ((stored, "(double)(SIZE_MAX / 4)"), (more, LARGEST))
    test = " || ".join(f"{_sum(terms.items(), e)} > {limit}" for terms, limit in parts if terms)
    small = max((n for n in range(1, 63) if _bound(stored, n) < 1 << 30 and _bound(more, n) < 1 << 61), default=0)
    if not small or not test:
        return test
    dims = " | ".join(e.names(d, d.name) for d in f.dims)
    return f"({dims}) >= INT64_C({1 << small}) && ({test})" if len(f.dims) > 1 else test


def _sizes(f: Function) -> Iterator[dict[Monomial, int]]:
    """Upper bounds of the integers that the C computes from the dims."""
    for b in (*f.inputs, *f.outputs):
        yield _positive(b.elements * b.dtype.size)
    for body in (f.body, *(k.body for k in kernels_of(f.body))):
        for s in walk(body):
            if isinstance(s, For) and isinstance(s.upper, Index) and not s.upper.free:
                yield _positive(s.upper)
    for c in f.needs:
        yield from (_positive(c.index), _positive(-c.index))


def _positive(i: Index) -> dict[Monomial, int]:
    """The positive terms: they bound the magnitude of every part of a nonnegative sum."""
    return {m: c for m, c in i.terms if c > 0 and m}


def _covers(m: Monomial, other: Monomial) -> bool:
    """Whether a product is at least as large as another, given that all dims are at least 1."""
    more = Counter(m)
    more.subtract(other)
    return all(n >= 0 and (n == 0 or isinstance(a, DimSymbol)) for a, n in more.items())


def arena_body(f: Function, plan: MemoryPlan, e: Expressions) -> list[str]:
    """The lines of the function for the arena's size, SIZE_MAX if it is too large."""
    terms = [str(plan.bytes)] if plan.bytes or not plan.slots else []
    return [*tests(f, plan, e, "SIZE_MAX", "SIZE_MAX"), f"return {' + '.join([*terms, *slot_sizes(plan, e)])};"]


def check_dims(unit: Unit, writer: Writer, text: str) -> None:
    """Write the tests of the dims, and mark unused dims."""
    f = unit.function
    lines = tests(f, unit.plan, writer.expressions, str(WRONG_DIMS), str(TOO_LARGE))
    for line in lines:
        writer.line(line)
    for d in f.dims:
        name = writer.names(d, d.name)
        if not any(name in t for t in (text, *lines)):
            writer.line(f"(void){name};")


def place_slots(unit: Unit, writer: Writer, text: str) -> None:
    """Write the start of each slot, and its contents."""
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
    """Declare a pointer to a buffer, if the text uses it."""
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
    for line in arena_body(f, unit.plan, writer.expressions):
        writer.line(line)
    used = "\n".join(writer.lines)
    unused = [f"    (void){t};" for d in f.dims if (t := names(d, d.name)) not in used]
    raw = f"({params}) {{\n" + "\n".join([*unused, *writer.lines]) + "\n}\n"
    text = wrap(f"size_t {unit.name}_arena_bytes", names.resolve(raw, unit.style, frozenset(unit.taken)))
    declaration = text[: text.index(" {\n")] + ";"
    comment = "/* Bytes of the arena; SIZE_MAX for dims that the function does not take. */\n" * unit.comments
    return f"{comment}{declaration}\n{text}", declaration


def _bound(terms: Mapping[Monomial, int], bits: int) -> int:
    """The value of the bound `_sum` if all dims are below 2 ** bits."""
    return sum(c * prod(_atom_bound(a, bits) for a in m) for m, c in terms.items())


def _atom_bound(a: Atom, bits: int) -> int:
    match a:
        case Floor():
            part: Index | None = a.numerator
        case Mod():
            part = a.denominator
        case Data():
            part = a.extent
        case _:
            return 1 << bits
    return 1 if part is None else _bound({m: abs(c) for m, c in part.terms}, bits)


def _sum(terms: Iterable[tuple[Monomial, int]], e: Expressions) -> str:
    """An upper bound for the magnitude of a sum, as a double; casts avoid integer products."""
    return " + ".join(" * ".join([f"{abs(c)}.0", *(_atom(a, e) for a in m)]) for m, c in terms)


def _atom(a: Atom, e: Expressions) -> str:
    match a:
        case DimSymbol():
            return f"(double){e.names(a, a.name)}"
        case Floor():
            return f"({_sum(a.numerator.terms, e)})"
        case Mod():
            return f"({_sum(a.denominator.terms, e)})"
        case Data():  # such as the end of a loop over part of a row; an unbounded one is already an integer
            return f"({_sum(a.extent.terms, e)})" if a.extent is not None else "1.0"
        case _:
            raise AssertionError(f"{a} in the size of an array")
