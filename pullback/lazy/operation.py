"""Lazy operations: functions of the language with fixed arguments, applied to typed arrays.

    apply(Operation("pb.sum", pullback.sum), (x,), {"axis": 0})

Tracing an operation once for the types of its operands determines its result. So shape and type errors are those
of traced arrays, and are raised where the node is built. The resulting `Application` is cached: building the same node
again costs one dictionary lookup.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from weakref import ref
from zlib import crc32

import numpy as np

from pullback.calls.traced import run
from pullback.device import is_on_device
from pullback.errors import TraceError
from pullback.ir import nodes as ir
from pullback.ir.intern import uncollected
from pullback.ir.program import blocks_of, program_of
from pullback.ir.settings import DEFAULT
from pullback.ir.traverse import children, walk
from pullback.ir.types import DType, f32
from pullback.lazy.layers import here
from pullback.lazy.node import Array
from pullback.lazy.places import common_place, default_place, leaf_at, place_named
from pullback.lazy.types import ArrayType, array_type
from pullback.lazy.views import VIEWS, View, view_of
from pullback.passes.cost import has_data_index
from pullback.source import user_position
from pullback.state import registered
from pullback.tracing import tree
from pullback.tracing.active import float_beside, tracing
from pullback.tracing.complex_array import complex64, complex128
from pullback.tracing.making import unmasked
from pullback.tracing.tracer import Tracer
from pullback.tracing.tree import LEAF, Structure

__all__ = ["Application", "Operation", "apply", "node_of", "quick_key", "traced_program"]

TERMS: Final = 16  # terms of a sum in registers that take as long as reading, computing and writing an element
_COUNT: Final = itertools.count()
_STATIC: Final = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


class Operation:
    """A function of traced arrays, with a name that is the same in every process.

    Attributes:
        name: the name in structures.   run: the function.
        is_lifted: whether it is a user's function, whose keywords are its own.
        known: the applications, by their arguments other than values.
    """

    __slots__ = ("is_lifted", "known", "name", "run")

    def __init__(self, name: str, run: Callable[..., Any], is_lifted: bool = False) -> None:
        self.name = name
        self.run = run
        self.is_lifted = is_lifted
        self.known: dict[Any, Application] = {}

    def __repr__(self) -> str:
        return self.name


class Application:
    """An operation for given operand types, with all other arguments fixed.

    Attributes:
        number: the number in this process.   text: the description, the same in every process.
        rank: a number computed from the text.
        operands, results: the types of operands and results.   structure: the tree structure of the results.
        type: the type of the result if it is one array.
        floating: whether derivatives pass through; False for step functions and `stop_gradient`.
        work: the approximate number of operations.
        checked: whether the operation may fail at run time, so that its nodes keep their source location.
        device: the device of the results; "" for the processor.
        item: the number of the result to take from the operand; -1 for operations.
        view: how the result lies in the first operand, if they share elements as NumPy's views do.
        program: the traced program, if it is kept.
    """

    __slots__ = (
        "checked",
        "device",
        "floating",
        "item",
        "number",
        "operands",
        "program",
        "rank",
        "results",
        "rule",
        "structure",
        "text",
        "type",
        "view",
        "work",
    )  # fmt: skip
    foreign = False  # whether the operation runs Python (`lazy.foreign`)

    def __init__(
        self,
        text: str,
        rule: Callable[..., Any] | None,
        operands: tuple[ArrayType, ...],
        results: tuple[ArrayType, ...],
        structure: Structure,
        work: float = 0.0,
        checked: bool = False,
        item: int = -1,
        smooth: bool = True,
    ) -> None:
        self.number = next(_COUNT)
        self.text = text
        self.rank = crc32(text.encode())
        self.rule = rule
        self.operands = operands
        self.results = results
        self.structure = structure
        self.device = results[0].device if results else ""
        self.type = results[0] if structure is LEAF or structure == LEAF else None
        self.floating = smooth and any(t.floating for t in results)
        self.work = work
        self.checked = checked
        self.item = item
        self.view: View | None = None
        self.program: ir.Program | None = None

    @property
    def name(self) -> str:
        """The name of the operation in its namespace, such as "sum"."""
        return self.text.partition("(")[0].rpartition(".")[2]

    @property
    def quick(self) -> bool:
        """Whether nodes are single arrays that cannot fail, and so need no source location."""
        return self.type is not None and not self.checked

    def run(self, handles: Sequence[Any]) -> Any:
        """The traced result, or a list of results, for traced operands."""
        assert self.rule is not None
        found = self.rule(handles)
        return found if self.type is not None else leaves_of(found)[0]

    def __repr__(self) -> str:
        return self.text


def leaves_of(x: Any) -> tuple[list[Any], Structure]:
    """The arrays in a tree, complex ones whole, and its structure."""
    leaves: list[Any] = []

    def visit(x: Any) -> Structure:
        node = tree.open_node(x)
        if node is None or node[0].kind == "complex":
            leaves.append(x)
            return LEAF
        structure, children = node
        if structure.kind == "none":
            return structure
        return Structure(structure.kind, structure.type, structure.keys, tuple(map(visit, children)))

    return leaves, visit(x)


def traced_program(
    name: str, operands: Sequence[ArrayType], body: Callable[[list[Any]], Any]
) -> tuple[ir.Program, tuple[ArrayType, ...], Structure]:
    """Trace a function for arrays of these types; return the program, result types and structure."""
    floats = [t.part for t in operands]
    tracer = Tracer(name, float_beside(floats))
    found: list[Structure] = []
    with uncollected(), tracing(tracer):
        handles = [t.enter(tracer, f"x{k}") for k, t in enumerate(operands)]

        def whole() -> Any:
            leaves, structure = leaves_of(body(handles))
            found.append(structure)
            return leaves

        known, structure = run(tracer, whole, "", DEFAULT, None, lambda _: None)
        program = program_of(known)
    refs = iter(program.outputs)
    return program, tuple(_type(child, refs) for child in structure.children), found[0]


def _type(structure: Structure, refs: Any) -> ArrayType:
    first = next(refs)
    shape = tuple(int(e.constant) for e in first.shape if e.constant is not None)
    if structure.kind != "complex":
        return array_type(first.storage, shape)
    next(refs)
    return array_type(complex64 if first.dtype is f32 else complex128, shape)


# Binding ------------------------------------------------------------------------------------------------------------


class _Operand:
    """The position of an operand among the arguments of a call."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position


class _Binding:
    """The bound arguments of a call: the operands, the fixed arguments, and a key for both."""

    def __init__(self) -> None:
        self.operands: list[Array] = []
        self.depth = 0  # index 2 holds the arguments themselves

    def take(self, x: Any) -> tuple[Any, Any]:
        """Return an argument with placeholders for its operands, and its key."""
        kind = x.__class__
        if kind is Array:
            return self.operand(x)
        if kind is float:
            return x, ("f", x.hex())
        if kind in _STATIC:
            return x, (kind.__name__, x)
        if kind is tuple or kind is list:
            self.depth += 1
            parts = [self.take(y) for y in x]
            self.depth -= 1
            return kind([p[0] for p in parts]), (kind.__name__, *[p[1] for p in parts])
        if kind is slice:
            parts = [self.take(y) for y in (x.start, x.stop, x.step)]
            return slice(*(p[0] for p in parts)), ("slice", *(p[1] for p in parts))
        if kind is dict:
            taken = {k: self.take(v) for k, v in x.items()}
            return {k: v[0] for k, v in taken.items()}, ("dict", *((k, v[1]) for k, v in taken.items()))
        if isinstance(x, np.integer) and self.depth > 2:
            return self.take(int(x))  # in a shape or a subscript
        if isinstance(x, Array | np.ndarray | np.generic) or is_on_device(x):
            return self.operand(as_operand(x))
        if isinstance(x, tuple | list):  # a named tuple, or a subclass of list
            parts = [self.take(y) for y in x]
            form = tuple(p[0] for p in parts)
            return (type(x)(*form) if tree.is_namedtuple(x) else form), (type(x).__name__, *(p[1] for p in parts))
        if isinstance(x, np.dtype | type) or type(x).__module__.startswith("pullback."):
            return x, ("static", x)
        raise TraceError(
            "E701",
            f"{type(x).__name__} is no argument of an operation on lazy arrays",
            position=user_position(),
            remedy="`lazy.asarray` makes an array, `lazy.lift` an operation",
        )

    def operand(self, x: Array) -> tuple[Any, Any]:
        self.operands.append(x)
        return _Operand(len(self.operands) - 1), x.type


def _filled(x: Any, handles: Sequence[Any]) -> Any:
    """Replace the placeholders of an argument by traced operands."""
    kind = x.__class__
    if kind is _Operand:
        return handles[x.position]
    if kind is tuple or kind is list:
        return kind(_filled(y, handles) for y in x)
    if kind is slice:
        return slice(_filled(x.start, handles), _filled(x.stop, handles), _filled(x.step, handles))
    if kind is dict:
        return {k: _filled(v, handles) for k, v in x.items()}
    if tree.is_namedtuple(x):
        return kind(*(_filled(y, handles) for y in x))
    return x


def quick_key(args: Iterable[Any], operands: list[Array]) -> tuple[Any, ...] | None:
    """A key for arrays, numbers, dtypes, and tuples, lists and slices of them; None for other arguments.

    Arrays go to `operands`, in the order in which `apply` finds them.
    """
    key: list[Any] = []
    for x in args:
        kind = x.__class__
        if kind is Array:
            operands.append(x)
            key.append(x.type)
        elif kind is int or kind is DType or x is None or x is Ellipsis:
            key.append(x)
        elif kind is float:
            key.append(x.hex())
        elif kind is tuple or kind is list or kind is slice:
            inner = quick_key((x.start, x.stop, x.step) if kind is slice else x, operands)
            if inner is None:
                return None
            key.append((kind, inner))
        elif isinstance(x, Array):
            operands.append(x.leaf)
            key.append(x.type)
        else:
            return None
    return tuple(key)


def node_of(application: Application, operands: Sequence[Array]) -> Array:
    """The node of an application, without a source location."""
    tracked = False
    for x in operands:
        if x.tracked:
            tracked = True
            break
    return Array(application, tuple(operands), tracked)


def apply(operation: Operation, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Build the node, or tree of nodes, that applies an operation to arrays, numbers and fixed arguments.

    Raises:
        ShapeError, DTypeError, TraceError: what traced arrays raise, with the user's line, when the node is built.
    """
    wish = None if operation.is_lifted else keywords.get("device")
    if wish is not None:
        keywords = {**keywords, "device": None}
    binding = _Binding()
    form, key = binding.take((args, keywords))
    operands = tuple(binding.operands)
    place = "" if operands else place_named(operation.name, wish)
    if place:
        key = key, place
    application = operation.known.get(key)
    if application is None:
        types = tuple(x.type for x in operands)
        application = operation.known[key] = _applied(operation, form, types, _text(key), place)
    found = build(application, operands)
    return found if wish is None or not operands else found.to_device(wish)


def _text(key: Any) -> str:
    """A key as text, the same in every process."""
    return f"({' '.join(map(_text, key))})" if isinstance(key, tuple) else repr(key)


def _applied(operation: Operation, form: Any, types: tuple[ArrayType, ...], text: str, place: str) -> Application:
    function, name = operation.run, operation.name.rpartition(".")[2]
    place = place or common_place(name, types)

    def rule(handles: Sequence[Any]) -> Any:
        args, keywords = _filled(form, handles)
        return function(*args, **keywords)

    program, results, structure = traced_program(name, types, rule)
    results = tuple(t.on(place) for t in results)
    made = Application(f"{operation.name}{text}", rule, types, results, structure,
                       0.0 if place else _work(program),  # a device needs no threads
                       any(map(_is_checked, program.body.statements)),
                       smooth=_returns_input(program) or any(map(_is_smooth, program.body.statements)))  # fmt: skip
    made.program = program
    if len(types) == 1 and operation.name in VIEWS:
        made.view = view_of(operation.name, form[0][1:], form[1], types[0])
    return made


def _is_checked(s: ir.Statement) -> bool:
    """Whether a statement may read at a data-dependent index, or loop forever."""
    return not isinstance(s, ir.Build) or any(has_data_index(v) for v in s.values)


def _returns_input(program: ir.Program) -> bool:
    """Whether a result is an input as it is, such as that of `+x`."""
    return not set(program.body.results).isdisjoint(program.inputs)


def _is_smooth(s: ir.Statement) -> bool:
    """Whether a statement may have a derivative: it reads elements outside step functions and constants."""
    if not isinstance(s, ir.Build):
        return True
    stack: list[ir.Scalar] = list(s.values)
    while stack:
        e = stack.pop()
        if isinstance(e, ir.Get):
            return True
        if not (isinstance(e, ir.Apply) and e.primitive.no_derivative):
            stack += children(e)
    return False


def _work(program: ir.Program) -> float:
    """Estimate the number of operations of a program."""
    return sum(_statement_work(s) for s in program.body.statements)


def _statement_work(s: ir.Statement) -> float:
    inner = sum(_statement_work(t) for b in blocks_of(s) for t in b.statements)
    if isinstance(s, ir.Fold):
        return inner * _extent((s.var,))
    if isinstance(s, ir.Build):
        sums = (_extent(e.vars) for v in s.values for e in walk(v) if isinstance(e, ir.Reduce))
        return _extent(s.vars) * (len(s.values) + sum(sums) / TERMS)
    return inner + sum(_extent(r.shape) for r in s.outs)


def _extent(of: Sequence[Any]) -> float:
    total = 1.0
    for e in of:
        total *= getattr(e, "extent", e).constant or 1
    return total


def build(application: Application, operands: tuple[Array, ...]) -> Any:
    """The node of an application, or the tree of its items."""
    node = node_of(application, operands)
    if application.checked:
        node.origin = here()
    if application.type is not None:
        return node
    shared = application.view is not None
    items = [Array(_item(t, k, shared), (node,), node.tracked) for k, t in enumerate(application.results)]
    node.origin = tuple(map(ref, items))
    return tree.unflatten(application.structure, items)


_ITEMS: Final[dict[tuple[ArrayType, int, bool], Application]] = registered(
    {}, "types of results and their places", stays="with the process: compared by identity"
)


def _item(type: ArrayType, k: int, shared: bool) -> Application:
    """Take result k of an operation with several results, which may be views."""
    found = _ITEMS.get((type, k, shared))
    if found is None:
        found = Application(f"item {k}", None, (), (type,), LEAF, item=k)
        found.view = View(operator.itemgetter(k)) if shared else None
        found = _ITEMS.setdefault((type, k, shared), found)
    return found


def as_operand(x: Any) -> Array:
    """Convert to a lazy array, on the device of new arrays unless it is on one.

    Raises:
        DTypeError: [E122] NumPy elements that the language does not have.
    """
    if isinstance(x, Array):
        return x.leaf
    if is_on_device(x):
        return leaf_at(x)
    return leaf_at(np.asarray(unmasked(x, "an operand") if isinstance(x, np.ndarray) else x), default_place())
