"""Values of the loop IR: buffers, reads, computations, and loop bounds.

    Value         Literal Load Gather Read IndexValue Holds Broadcast Binary Unary Apply Choice Convert Across
                  Shuffle Steps

Values are a closed union of nodes, each with a `Type` (dtype, lanes); one lane is a scalar. Indices are
`ir.index.Index` polynomials; a data-dependent index is loaded first. Its atom is then a `Data` made by `loaded_index`,
with a name and no range except its extent.

Buffers are flat and row-major. Their space says where they live: "input" and "output" are parameters of the function,
"parameter" those of a kernel, "arena" has a byte offset given by `memory.plan`, "stack" is a local array of a kernel,
at most 4 KiB. "swap" buffers lie behind those of the arena; copies alone touch them. Each worker of a parallel
statement has its own copy of a "worker" buffer, behind both. On a device each group of threads has its own "shared"
buffers, and each thread its row of a "registers" buffer of shape [threads, n]. Nodes are compared by identity; nothing
here is interned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from typing import Literal as Lit

from pullback.ir import nodes as ir
from pullback.ir.expr import get
from pullback.ir.index import Cond, Data, Index, as_index
from pullback.ir.primitive import Primitive
from pullback.ir.types import DType, bool_, i64
from pullback.records import dataclass, field
from pullback.state import cached

Space = Lit["input", "output", "parameter", "arena", "swap", "worker", "stack", "shared", "registers"]
BinaryOp = Lit["+", "-", "*", "/", "max", "min", "&&", "||", "==", "!=", "<", ">", "<=", ">=", "&", "|", "^", ">>"]
UnaryOp = Lit["-", "!"]

OPERATORS: Final[Mapping[str, BinaryOp]] = {
    "sum": "+", "prod": "*", "max": "max", "min": "min", "any": "||", "all": "&&",
}  # of reductions; neutral elements are in `ir.reduction`

STACK_LIMIT = 4096
LOCAL = frozenset(("stack", "shared", "registers"))  # spaces of buffers that a kernel has while it runs


@dataclass(frozen=True)
class Type:
    """The type of a value: `lanes` elements of `dtype`."""

    dtype: DType
    lanes: int = 1

    def __repr__(self) -> str:
        return self.dtype.name + (f"x{self.lanes}" if self.lanes > 1 else "")


@cached(256)
def scalar(dtype: DType) -> Type:
    """The type of one element."""
    return Type(dtype, 1)


# Buffers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Buffer:
    """A flat run of `elements` elements. `shape` is for people: comments, tables and headers.

    A "shared" buffer may have several `slots` of equal size, used in turn. If it is `swizzled`, a device stores the
    eight chunks of 16 bytes in each line of 128 in an order of the line's own. So threads that read chunks below each
    other find them in different banks of memory.
    """

    name: str
    dtype: DType
    shape: tuple[Index, ...]
    space: Space
    elements: Index
    written: bool = True  # for a kernel's parameters: whether the kernel writes it
    slots: int = 1
    swizzled: bool = False

    @property
    def bytes(self) -> int:
        """Size in bytes; the elements must be known."""
        n = self.elements.constant
        assert n is not None, f"{self.name} has symbolic size {self.elements}"
        return n * self.dtype.size

    def enlarge(self, count: int) -> None:
        """Make room for `count` elements: working memory is as large as its largest use in a kernel."""
        if count > (self.elements.constant or 0):
            object.__setattr__(self, "elements", as_index(count))
            object.__setattr__(self, "shape", (as_index(count),))

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class View:
    """A buffer from element `offset` on."""

    buffer: Buffer
    offset: Index = field(default_factory=lambda: as_index(0))

    def same_place(self, other: View) -> bool:
        """Whether both begin at the same element."""
        return self.buffer is other.buffer and self.offset is other.offset


# Values ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Temp:
    """A local variable, made by `Let`. Names need not be unique; the printer sees to that."""

    name: str
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class Literal:
    """A number, the same in all lanes."""

    value: bool | int | float
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class Load:
    """A load of `buffer[offset]`, or of several lanes from there on; no alignment is assumed.

    With a mask only its lanes are read; the others are 0. From a buffer of f16 or bf16 a load of f32 converts.
    """

    buffer: Buffer
    offset: Index
    type: Type
    mask: Value | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Gather:
    """One element per lane, from explicit offsets; it converts as a load does."""

    buffer: Buffer
    offsets: tuple[Index, ...]
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class Read:
    """The value of a temporary."""

    temp: Temp

    @property
    def type(self) -> Type:
        """The type of the value."""
        return self.temp.type


@dataclass(frozen=True, eq=False, slots=True)
class IndexValue:
    """An index (64-bit) as a number of the type's dtype."""

    index: Index
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class Steps:
    """A vector with 0, step, 2 step, .. in its lanes."""

    step: int
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class Holds:
    """A bool: whether all index conditions hold."""

    conds: tuple[Cond, ...]

    @property
    def type(self) -> Type:
        """The type of the value."""
        return scalar(bool_)


@dataclass(frozen=True, eq=False, slots=True)
class Broadcast:
    """A scalar in all lanes."""

    value: Value
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class Binary:
    """An operation `a op b`, lane by lane. Integers wrap; max and min propagate NaN.

    A comparison of vectors gives a mask: integers of the same size, all bits set where it holds.
    """

    op: BinaryOp
    a: Value
    b: Value
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class Unary:
    """Negation (integers wrap) or logical not."""

    op: UnaryOp
    a: Value
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class Apply:
    """A primitive of the table; with several lanes, one that the target has for vectors."""

    primitive: Primitive
    args: tuple[Value, ...]
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class Choice:
    """A choice `test ? a : b`: for scalars only the taken side is evaluated; for vectors a mask."""

    test: Value
    a: Value
    b: Value
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class Convert:
    """Conversion of dtype: floating to integer saturates with NaN 0, integers wrap, bool is `!= 0`."""

    value: Value
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class Across:
    """The lanes of a vector combined into a scalar, pairwise."""

    op: Lit["+", "*", "max", "min"]
    value: Value

    @property
    def type(self) -> Type:
        """The type of the value."""
        return scalar(self.value.type.dtype)


@dataclass(frozen=True, eq=False, slots=True)
class Shuffle:
    """Reorder the lanes of two vectors: places count the lanes of a, then of b."""

    a: Value
    b: Value
    places: tuple[int, ...]
    type: Type


Value = (Literal | Load | Gather | Read | IndexValue | Holds | Broadcast | Binary | Unary | Apply | Choice
         | Convert | Across | Shuffle | Steps)


# Bounds ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Extreme:
    """The largest or smallest of several indices, for loop bounds."""

    op: Lit["max", "min"]
    args: tuple[Bound, ...]


Bound = Index | Extreme


def largest(*args: Bound) -> Bound:
    """The maximum of the bounds; constants fold."""
    return _extreme("max", args)


def smallest(*args: Bound) -> Bound:
    """The minimum of the bounds; constants fold."""
    return _extreme("min", args)


def _extreme(op: Lit["max", "min"], args: tuple[Bound, ...]) -> Bound:
    numbers = [a.constant for a in args if isinstance(a, Index) and a.constant is not None]
    rest: dict[Bound, None] = {a: None for a in args if not (isinstance(a, Index) and a.constant is not None)}
    parts: tuple[Bound, ...] = tuple(rest)
    if numbers:
        parts = (as_index(max(numbers) if op == "max" else min(numbers)), *parts)
    return parts[0] if len(parts) == 1 else Extreme(op, parts)


def operands(v: Value) -> tuple[Value, ...]:
    """The operands of a value."""
    match v:
        case Broadcast() | Convert() | Across():
            return (v.value,)
        case Binary() | Shuffle():
            return (v.a, v.b)
        case Load() if v.mask is not None:
            return (v.mask,)
        case Unary():
            return (v.a,)
        case Apply():
            return v.args
        case Choice():
            return (v.test, v.a, v.b)
        case _:
            return ()


def bound_indices(b: Bound) -> tuple[Index, ...]:
    """The indices in a bound."""
    return (b,) if isinstance(b, Index) else tuple(i for a in b.args for i in bound_indices(a))


def walk_value(v: Value) -> Iterator[Value]:
    """A value and the values below it; iterative, as expressions may be deep."""
    stack = [v]
    while stack:
        node = stack.pop()
        yield node
        parts = operands(node)
        if parts:
            stack.extend(reversed(parts))


def loaded_index(name: str, extent: Index | None) -> Data:
    """A new atom for a loaded index: 0 <= it < extent if `extent` is given, else any integer."""
    return Data(get(ir.Ref(name, i64, ())), extent)


def loaded_name(atom: Data) -> str:
    """The name of a loaded index."""
    assert isinstance(atom.scalar, ir.Get)
    return atom.scalar.ref.name
