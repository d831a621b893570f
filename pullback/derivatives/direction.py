"""Arguments of derivatives: all arguments as a tuple, with trees of tangents or cotangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.calls.arguments import MISSING, Leaf, Leaves, as_numpy, numpy_dtype
from pullback.calls.function import Function
from pullback.calls.signature import Signature, bind
from pullback.calls.specs import Spec, joined
from pullback.calls.traced import Traced, identifier
from pullback.errors import DerivativeError, TraceError
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var
from pullback.ir.traverse import Substitution
from pullback.ir.types import DType
from pullback.records import dataclass, replace
from pullback.rewrite.fired import fired, step
from pullback.rewrite.steps import Seeded
from pullback.source import Position, user_position
from pullback.tracing import elsewhere, tree
from pullback.tracing.array import Array, type_text
from pullback.tracing.tree import LEAF, Structure

Wrt = str | int | tuple[str | int, ...] | list[str | int]


@dataclass(frozen=True)
class Slot:
    """An array that may have a tangent or cotangent. `dtype` is None if the array is not in the program."""

    path: str
    dtype: DType | None
    rank: int

    @property
    def is_floating(self) -> bool:
        """Whether there is a derivative with respect to it."""
        return self.dtype is not None and self.dtype.is_floating


Expected = Callable[[], tuple[Structure, list[Slot]]]


@dataclass
class ArgumentsSpec(Spec):
    """All arguments of a function as one tuple."""

    base: Function

    def leaves(self, value: Any, path: str) -> Leaves:  # noqa: D102
        parameters = self.base.parameters
        given: Sequence[Any] = [MISSING] * len(parameters)
        if value is not MISSING:
            if not isinstance(value, tuple | list) or tree.is_namedtuple(value):
                names = "".join(f"{p.name}, " for p in parameters)
                raise DerivativeError(
                    "E220",
                    f"{path} of {self.base.name}: a tuple of all arguments is needed, and this is {_found(value)}",
                    remedy=f"pass `({names[:-1] if len(parameters) == 1 else names[:-2]})`",
                )
            given = bind(self.base.name, parameters, value, {}, in_order=True)
        found = [p.spec.leaves(v, p.name) for p, v in zip(parameters, given)]
        return joined(tuple_of([LEAF] * len(found)), found)


@dataclass
class DirectionSpec(Spec):
    """A tree of tangents or cotangents, matched when the derivative is taken."""

    expected: Expected

    def leaves(self, value: Any, path: str) -> Leaves:  # noqa: D102
        if value is MISSING:
            structure, slots = self.expected()
            kept = [s for s in slots if s.is_floating]
            wanted = floating_only(structure, slots)
            paths = tree.leaf_paths(wanted, path)
            leaves = [_array_leaf(p, s.dtype, s.rank) for p, s in zip(paths, kept, strict=True)]
            return wanted, leaves, [MISSING] * len(leaves)
        values, structure = tree.flatten(value)
        return structure, [_leaf(v, p) for v, p in zip(values, tree.leaf_paths(structure, path))], values


def _array_leaf(path: str, dtype: DType | None, rank: int) -> Leaf:
    own = identifier(path)  # its own dims: that its extents equal the primal's is checked later
    return Leaf(path, "array", dtype, tuple(f"{own}_{k}" for k in range(rank)))


def _leaf(value: Any, path: str) -> Leaf:
    if isinstance(value, Array):
        if value.weak is not None:
            return Leaf(path, "float", types.f64)
        return _array_leaf(path, value.settled, value.rank)
    if type(value) in (int, float):
        return Leaf(path, "float", types.f64)
    array = as_numpy(value, path)
    return _array_leaf(path, numpy_dtype(array, path), array.ndim)


def tuple_of(children: Sequence[Structure]) -> Structure:
    """The structure of a tuple of trees."""
    return Structure("tuple", None, tuple(range(len(children))), tuple(children))


def pair(a: Structure, b: Structure) -> Structure:
    """The structure of `(a, b)`."""
    return tuple_of([a, b])


def leaf_count(s: Structure) -> int:
    """The number of leaves."""
    return 1 if s.kind == "leaf" else sum(leaf_count(c) for c in s.children)


def with_leaves(s: Structure, leaves: Sequence[Structure]) -> Structure:
    """The structure with its leaves replaced by other structures."""
    rest = iter(leaves)

    def walk(s: Structure) -> Structure:
        return next(rest) if s.kind == "leaf" else replace(s, children=tuple(walk(c) for c in s.children))

    return walk(s)


def with_pairs(results: Structure, slots: Sequence[Slot], wanted: Structure, leaves: Sequence[Structure]) -> Structure:
    """The tree `wanted` for each floating result; None for other results."""
    rest = iter(leaves)
    each = leaf_count(wanted)
    return with_leaves(
        results,
        [with_leaves(wanted, [next(rest) for _ in range(each)]) if s.is_floating else tree.NONE for s in slots],
    )


def floating_only(s: Structure, slots: Sequence[Slot]) -> Structure:
    """The structure with None for leaves without a derivative."""
    return with_leaves(s, [tree.LEAF if slot.is_floating else tree.NONE for slot in slots])


def argument_slots(leaves: Sequence[Leaf]) -> list[Slot]:
    """The arguments as slots."""
    types = (leaf.dtype.computed if leaf.is_input and leaf.dtype else None for leaf in leaves)
    return [Slot(leaf.path, dtype, len(leaf.dims)) for leaf, dtype in zip(leaves, types)]


def result_slots(structure: Structure, refs: Sequence[ir.Ref], name: str) -> list[Slot]:
    """The results as slots."""
    return [Slot(p, r.dtype, r.rank) for p, r in zip(tree.leaf_paths(structure, name), refs, strict=True)]


def jacobian_slots(
    what: str, results: Structure, refs: Sequence[ir.Ref], wanted: Structure, position: Position | None
) -> list[Slot]:
    """The results of a function as slots, if it has a Jacobian by parameters of the structure `wanted`.

    Raises:
        DerivativeError: [E222] no result is floating-point. [E225] results and parameters are complex.
    """
    slots = result_slots(results, refs, "the result")
    if tree.holds_complex(results) and tree.holds_complex(wanted):
        raise DerivativeError(
            "E225",
            f"{what}: derivatives of complex numbers by complex numbers have four parts",
            position=user_position(),
            remedy="make both real: `lambda x, y: pb.real(f(x + 1j * y))`, and the same with `pb.imag`",
        )
    if not any(s.is_floating for s in slots):
        raise DerivativeError(
            "E222",
            f"{what}: no result is floating-point: {', '.join(f'{s.path} is {s.dtype}' for s in slots)}",
            position=position,
            remedy="return the value before it is rounded or compared",
        )
    return slots


def split(structure: Structure, leaves: Sequence[Leaf]) -> Signature:
    """The signature of a call whose arguments are one tuple."""
    groups, rest = [], list(leaves)
    for child in structure.children:
        count = leaf_count(child)
        groups.append(tuple(rest[:count]))
        rest = rest[count:]
    return Signature(structure.children, tuple(groups))


def match(
    what: str, structure: Structure, slots: Sequence[Slot], given: Structure, leaves: Sequence[Leaf], path: str
) -> list[int]:
    """The slot of each given leaf; a None in the tree gives no leaf.

    Raises:
        DerivativeError: [E220] the tree, an element type or a rank does not fit.
    """
    found: list[int] = []
    at = 0

    def walk(s: Structure, g: Structure, where: str) -> None:
        nonlocal at
        if g.kind == "none":
            at += leaf_count(s)
            return
        same = s.kind == g.kind and s.keys == g.keys
        if same and s.kind == "leaf":
            _fits(what, slots[at], leaves[len(found)])
            found.append(at)
            at += 1
            return
        if not same or s.type is not g.type:
            raise DerivativeError(
                "E220",
                f"{what}: {where} is {g}, where {s} is needed",
                remedy=f"pass {floating_only(structure, slots)}; each * is an array, or None for zero",
            )
        for key, sc, gc in zip(s.keys, s.children, g.children):
            walk(sc, gc, where + tree.step(s.kind, key))

    walk(structure, given, path)
    return found


def _found(value: Any) -> str:
    return f"a traced {type_text(value)}" if isinstance(value, Array) else f"of type {type(value).__name__}"


def _fits(what: str, slot: Slot, leaf: Leaf) -> None:
    if not slot.is_floating:
        kind = "is static" if slot.dtype is None else f"is {slot.dtype}"
        raise DerivativeError(
            "E220",
            f"{what}: {leaf.path} was given, and {slot.path} {kind}: only floating-point values have a derivative",
            remedy="pass None in its place",
        )
    if leaf.kind != "array":  # a number, converted
        rank, fits = 0, slot.rank == 0
    else:
        rank, fits = len(leaf.dims), len(leaf.dims) == slot.rank and leaf.dtype is slot.dtype
    if not fits:
        raise DerivativeError(
            "E220",
            f"{what}: {leaf.path} is {_kind(leaf.dtype, rank)}, and {slot.path} is {_kind(slot.dtype, slot.rank)}",
            remedy="pass an array of the same element type and shape",
        )


def _kind(dtype: DType | None, rank: int) -> str:
    return f"{dtype} of {'no axes' if rank == 0 else '1 axis' if rank == 1 else f'{rank} axes'}"


def entering(leaf: Leaf, target: ir.Ref) -> tuple[ir.Ref, list[ir.Statement], ir.Ref]:
    """The input, statements and array of a direction given by `leaf`; numbers take the target's type."""
    if leaf.kind == "array" or leaf.dtype is target.dtype:
        return target, [], target
    assert leaf.dtype is not None
    number = ir.Ref(target.name, leaf.dtype, ())
    out = ir.Ref(target.name, target.dtype, ())
    return number, [ir.Build((out,), (), (expr.cast(expr.get(number), target.dtype),))], out


def enter(
    leaves: Sequence[Leaf], targets: Sequence[ir.Ref]
) -> tuple[list[ir.Ref], list[ir.Statement], dict[ir.Ref, ir.Ref]]:
    """The inputs of the given directions, number conversions, and the arrays that replace the targets."""
    extra: list[ir.Ref] = []
    first: list[ir.Statement] = []
    refs: dict[ir.Ref, ir.Ref] = {}
    for leaf, target in zip(leaves, targets, strict=True):
        entered, made, refs[target] = entering(leaf, target)
        extra.append(entered)
        first += made
    return extra, first, refs


def substituted(
    derived: ir.Program, refs: dict[ir.Ref, ir.Ref], constants: dict[ir.Ref, ir.Scalar]
) -> tuple[tuple[ir.Statement, ...], tuple[ir.Ref, ...]]:
    """The derivative's body over other arrays, with some inputs constant and constants propagated."""
    known: dict[ir.Ref, ir.Scalar] = {}
    made: list[ir.Statement] = []
    mapping = dict(refs)
    for r, value in constants.items():
        stand_in = ir.Ref(r.name, r.dtype, r.shape)
        mapping[r] = stand_in
        known[stand_in] = value
        made.append(ir.Build((stand_in,), tuple(Var("i", e) for e in r.shape), (value,)))

    def get(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
        return known.get(ref) or expr.get(ref, *indices)

    sub = Substitution(refs=mapping, get=get)
    for s in derived.body.statements:
        s = sub.statement(s)
        if isinstance(s, ir.Build):
            known.update((r, v) for r, v in zip(s.outs, s.values) if isinstance(v, ir.Const | ir.Zero))
        made.append(s)
    results = tuple(sub.ref(r) for r in derived.body.results)
    for value in constants.values():
        fired("trivial.zero" if isinstance(value, ir.Zero) else "trivial.one")
    step(lambda: Seeded(tuple(constants.items()), sub.refs, derived.body, ir.Block(tuple(made), results)))
    return tuple(made), results


def selection(wrt: Wrt | None) -> str | int | tuple[str | int, ...] | None:
    """Normalize `wrt` as a key: a list becomes a tuple.

    Raises:
        TraceError: [E108] an item of `wrt` is neither a name nor a position.
    """
    given = tuple(wrt) if isinstance(wrt, list) else wrt
    for w in given if isinstance(given, tuple) else (given,):
        if isinstance(w, bool) or not isinstance(w, str | int | None):
            raise TraceError(
                "E108",
                f"wrt is {_found(w)}, and names no parameter",
                position=user_position(),
                remedy="the name or the position of a parameter, or a tuple of these; arguments go to the derivative: "
                "`pb.grad(f)(x)`",
            )
    return given


def chosen(what: str, base: Function, wrt: Wrt | None, position: Position | None) -> tuple[list[int], bool]:
    """Positions of the parameters of `wrt`, and whether it may hold several."""
    parameters = base.parameters
    several = isinstance(wrt, tuple | list)
    given: Sequence[str | int] = wrt if isinstance(wrt, tuple | list) else (0 if wrt is None else wrt,)
    out = []
    for w in given:
        if isinstance(w, str):
            found = next((k for k, p in enumerate(parameters) if p.name == w), None)
        else:
            found = w if -len(parameters) <= w < len(parameters) else None
        if found is None:
            raise TraceError(
                "E108",
                f"{what}: wrt={w!r} names no parameter",
                position=position,
                remedy=elsewhere.one_of(str(w), [p.name for p in parameters]),
            )
        out.append(found % len(parameters))
    return out, several


def sources(
    what: str, base: Function, wrt: Wrt | None, signature: Signature, position: Position | None
) -> tuple[list[int], Structure]:
    """The positions of the differentiated inputs, and the structure of a derivative.

    Raises:
        DerivativeError: [E202] an input is not floating-point.
    """
    parameters, several = chosen(what, base, wrt, position)
    positions, structures = [], []
    for k in parameters:
        for offset, leaf in zip(input_positions(signature, k), signature.leaves[k]):
            if offset is None or leaf.dtype is None or not leaf.dtype.computed.is_floating:
                kind = leaf.kind if leaf.dtype is None else str(leaf.dtype)
                raise DerivativeError(
                    "E202",
                    f"{what}: {leaf.path} is {kind}, and only floating-point values have a derivative",
                    position=user_position(),
                    remedy="choose other parameters with `wrt=`, or convert the argument",
                )
            positions.append(offset)
        structures.append(signature.structures[k])
    return positions, tuple_of(structures) if several else structures[0]


def input_positions(signature: Signature, parameter: int) -> list[int | None]:
    """The input position of each leaf of a parameter; None if it is not an input."""
    at = sum(leaf.is_input for group in signature.leaves[:parameter] for leaf in group)
    out: list[int | None] = []
    for leaf in signature.leaves[parameter]:
        out.append(at if leaf.is_input else None)
        at += leaf.is_input
    return out


def inputs_with(base: Traced, extra: Sequence[ir.Ref]) -> tuple[ir.Ref, ...]:
    """The inputs of a traced function, with others after its arguments."""
    inputs, count = base.known.inputs, len(base.leaves)
    return (*inputs[:count], *extra, *inputs[count:])


def unique(names: Sequence[str]) -> tuple[str, ...]:
    """Make names unique by numbering repeated ones."""
    out: list[str] = []
    for k, n in enumerate(names):
        out.append(f"{n}_{k}" if n in out else n)
    return tuple(out)


def result_names(program: ir.Known) -> list[str]:
    """A name for each output."""
    return list(program.output_names) or [r.name for r in program.outputs]
