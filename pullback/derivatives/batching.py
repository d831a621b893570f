"""Batching, `vmap`: a function of single values applied to arrays, for every kind of statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.calls.arguments import MISSING, Leaf, Leaves, Origin, array_of, as_numpy
from pullback.calls.function import Function
from pullback.calls.mistakes import public
from pullback.calls.signature import Parameter, Signature
from pullback.calls.specs import ArraySpec, Spec
from pullback.calls.traced import Traced
from pullback.derivatives import direction
from pullback.derivatives.derived import Derived, as_function
from pullback.derivatives.direction import leaf_count
from pullback.errors import DerivativeError, PullbackError, ShapeError, counted
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var, symbol
from pullback.ir.program import program_of
from pullback.records import dataclass, replace
from pullback.source import Position, user_position
from pullback.tracing import tree
from pullback.tracing.active import is_tracing
from pullback.tracing.array import Array
from pullback.tracing.making import axes_text, view
from pullback.tracing.printing import Prints, depths
from pullback.tracing.tracer import current
from pullback.tracing.tree import Structure

Axes = Any  # an int, None, or a tree of these


@dataclass(frozen=True)
class Mapped(Origin):
    """The origin of a batched argument's leaf: the axis, the single value's leaf, and the vmap."""

    axis: int
    single: Leaf
    by: Batched

    def with_dims(self, extents: Sequence[Index]) -> Mapped:  # noqa: D102
        rest = (*extents[: self.axis], *extents[self.axis + 1 :])
        return Mapped(self.axis, self.single.with_dims(rest), self.by)


@dataclass
class BatchedSpec(Spec):
    """The spec of an argument with one more axis than in the mapped function's annotation."""

    spec: Spec
    axes: Axes
    by: Batched

    @property
    def what(self) -> str:
        """The name of the mapped function in errors."""
        return self.by.what

    @property
    def position(self) -> Position | None:
        """The place where the user maps the function."""
        return self.by.position

    def leaves(self, value: Any, path: str) -> Leaves:  # noqa: D102
        if value is MISSING:
            structure, leaves, values = self.spec.leaves(MISSING, path)
            axes = spread(self.what, "in_axes", self.axes, structure, path, self.position)
            return structure, [self._batched(leaf, a) for leaf, a in zip(leaves, axes, strict=True)], values
        if isinstance(self.spec, ArraySpec) and isinstance(value, list | tuple):
            value = array_of(value, path, self.spec.dtypes)
        given, outer = tree.flatten(value)
        wanted = spread(self.what, "in_axes", self.axes, outer, path, self.position)
        paths = tree.leaf_paths(outer, path)
        originals: dict[int, tuple[Any, int | None]] = {}
        singles = []
        for v, a, p in zip(given, wanted, paths, strict=True):
            single = v if a is None else self._single(v, a, p)
            if single is not v:
                originals[id(single)] = (v, a)
            singles.append(single)
        structure, leaves, values = self.spec.leaves(tree.unflatten(outer, singles, apart=True), path)
        axis_of = {id(v): a for v, a in zip(given, wanted, strict=True)}
        out, restored = [], []
        for leaf, v in zip(leaves, values, strict=True):
            original, axis = originals.get(id(v), (v, None))
            if original is v and axis_of.get(id(v)) is not None and leaf.is_input:
                raise self._no_axis(leaf.path, len(leaf.dims), axis_of[id(v)])
            out.append(self._batched(leaf, axis))
            restored.append(original)
        asked = [a for a in wanted if a is not None]
        if asked and any(leaf.is_input for leaf in leaves) and not any(isinstance(x.value, Mapped) for x in out):
            raise self._no_axis(path, 0, asked[0])
        return structure, out, restored

    def _single(self, value: Any, axis: int, path: str) -> Any:
        """A placeholder for one of the values along the axis; for rank 0, the value itself."""
        if isinstance(value, Array):
            extents: tuple[Any, ...] = value.extents
        elif isinstance(value, int | float | str) or callable(value):
            return value
        else:
            value = as_numpy(value, path)
            extents = value.shape
        if not extents:
            return value
        if not -len(extents) <= axis < len(extents):
            raise self._no_axis(path, len(extents), axis)
        at = axis % len(extents)
        rest = (*extents[:at], *extents[at + 1 :])
        if isinstance(value, Array):
            dtype = value.settled
            return view(rest, dtype, lambda i: expr.const(0, dtype))
        return np.broadcast_to(np.zeros((), value.dtype), rest)

    def _batched(self, leaf: Leaf, axis: int | None) -> Leaf:
        if axis is None or not leaf.is_input:
            return leaf
        rank = len(leaf.dims) + 1
        if not -rank <= axis < rank:
            raise self._no_axis(leaf.path, rank - 1, axis)
        at = axis % rank
        dims = (*leaf.dims[:at], "batch", *leaf.dims[at:])
        return Leaf(leaf.path, "array", leaf.dtype, dims, Mapped(at, leaf, self.by))

    def _no_axis(self, path: str, rank: int, axis: int | None) -> PullbackError:
        found = "a single value" if rank == 0 else f"an array of {axes_text(rank)}"
        return ShapeError(
            "E224",
            f"{self.what}: {path} is {found} and has no axis {axis} to map over",
            position=user_position(),
            remedy="`in_axes` with None in its place: the same value is used for all",
        )


def spread(
    what: str, which: str, axes: Axes, structure: Structure, path: str, position: Position | None
) -> list[int | None]:
    """Expand axes to one per leaf; an int or None holds for a whole tree.

    Raises:
        DerivativeError: [E223] the tree of axes does not fit.
    """
    if axes is None or (isinstance(axes, int) and not isinstance(axes, bool)):
        return [axes] * leaf_count(structure)
    node = tree.open_node(axes)
    if node is None or node[0].kind == "none" or node[0].kind != structure.kind or node[0].keys != structure.keys:
        raise DerivativeError(
            "E223",
            f"{what}: {which}={axes!r} does not fit {path}, which is {structure}",
            position=position,
            remedy="an int, None, or a tree of these of the same structure",
        )
    out: list[int | None] = []
    for key, a, s in zip(structure.keys, node[1], structure.children, strict=True):
        out += spread(what, which, a, s, path + tree.step(structure.kind, key), position)
    return out


class Batched(Derived):
    """A function mapped over a further axis of its arguments."""

    def __init__(self, base: Function, in_axes: Axes, out_axes: Axes, position: Position | None) -> None:
        super().__init__(base, "vmap", position, "{f} for each element of a batch.")
        self.in_axes = in_axes
        self.out_axes = out_axes

    def _find_parameters(self) -> list[Parameter]:
        parameters = self.base.parameters
        axes: Sequence[Axes] = [self.in_axes] * len(parameters)
        if isinstance(self.in_axes, tuple | list):
            axes = self.in_axes
            if len(axes) != len(parameters):
                raise DerivativeError(
                    "E223",
                    f"{self.what}: in_axes gives {len(axes)} "
                    f"for the {counted(len(parameters), 'parameter')} of {self.base.name}",
                    position=self.position,
                    remedy="one item for each of " + ", ".join(p.name for p in parameters),
                )
        elif self.in_axes is not None and (isinstance(self.in_axes, bool) or not isinstance(self.in_axes, int)):
            raise DerivativeError(
                "E223",
                f"{self.what}: in_axes={self.in_axes!r} is no axis",
                position=self.position,
                remedy="an int, None, or a tuple with one item for each parameter",
            )
        made = [replace(p, spec=BatchedSpec(p.spec, a, self)) for p, a in zip(parameters, axes, strict=True)]
        if not any(a is not None for axis in axes for a in ([axis] if axis is None else tree.flatten(axis)[0])):
            raise DerivativeError(
                "E223",
                f"{self.what}: in_axes={self.in_axes!r} maps no argument",
                position=self.position,
                remedy="an int for at least one parameter",
            )
        return made

    def _trace(self, signature: Signature) -> Traced:
        groups = tuple(
            tuple(leaf if (mapped := self._mapped(leaf)) is None else mapped.single for leaf in group)
            for group in signature.leaves
        )
        base = self.base.traced(Signature(signature.structures, groups))
        known = base.known
        leaves = [leaf for leaf in signature.flat if leaf.is_input]
        axes = [None if (mapped := self._mapped(leaf)) is None else mapped.axis for leaf in leaves]
        axes += [None] * (len(known.inputs) - len(axes))
        extent = symbol(free_name(known))
        inputs = [r if axis is None else _longer(r, extent, axis) for r, axis in zip(known.inputs, axes, strict=True)]
        wanted = spread(self.what, "out_axes", self.out_axes, base.structure, "the result", self.position)
        paths = tree.leaf_paths(base.structure, "the result")
        places = [self._place(r, a, p) for r, a, p in zip(known.outputs, wanted, paths, strict=True)]
        outputs = [_longer(r, extent, at) for r, at in zip(known.outputs, places, strict=True)]
        names = direction.result_names(known)

        def body(program: ir.Program) -> ir.Block:
            return _batched(program, inputs, axes, places, extent)

        made = self._in_outline(base, body, outputs, names, base.structure, (axes, places), inputs=inputs)
        prints = base.prints and _printed(base.prints, made.known, inputs, axes, extent)
        return replace(made, prints=prints)

    def _mapped(self, leaf: Leaf) -> Mapped | None:
        """The mapping of a leaf by this vmap; None if it has none, even if an inner vmap has."""
        return leaf.value if isinstance(leaf.value, Mapped) and leaf.value.by is self else None

    def _place(self, r: ir.Ref, axis: int | None, path: str) -> int:
        """The position of the new axis in a result."""
        if axis is None or not -r.rank - 1 <= axis <= r.rank:
            raise DerivativeError(
                "E223",
                f"{self.what}: out_axes gives {axis} for {path}, "
                f"which has {axes_text(r.rank + 1)} with the new one",
                position=self.position,
                remedy=f"an int from {-r.rank - 1} to {r.rank}",
            )
        return axis % (r.rank + 1)


def _printed(
    prints: Prints, known: ir.Known, inputs: Sequence[ir.Ref], axes: Sequence[int | None], extent: Index
) -> Prints:
    """The prints of all mapped calls, merged: each array gains the batch axis after the enclosing loops'."""
    block = _batched(prints.alone(), inputs, axes, depths(prints.entries), extent)
    program = program_of(known)
    body = ir.Block((*block.statements, *program.body.statements), (*program.outputs, *block.results))
    return Prints(prints.entries, known, replace(program, body=body, output_names=()))


def _longer(r: ir.Ref, extent: Index, axis: int) -> ir.Ref:
    """Add an axis to an array."""
    return ir.Ref(r.name, r.dtype, (*r.shape[:axis], extent, *r.shape[axis:]), r.bounds, r.storage)


def _batched(
    program: ir.Program, inputs: Sequence[ir.Ref], axes: Sequence[int | None], places: Sequence[int], extent: Index
) -> ir.Block:
    """The program's body over the new axis, at these positions of inputs and results."""
    from pullback.ir.traverse import instantiate
    from pullback.rewrite.batch import batch

    mapped = [r for r, axis in zip(program.inputs, axes, strict=True) if axis is not None]
    batched = batch(program, mapped, [Var("b", extent)])
    before: list[ir.Statement] = []
    given = [_in_front(r, axis or 0, before) for r, axis in zip(inputs, axes, strict=True)]
    block = instantiate(batched, dict(zip(batched.inputs, given, strict=True)))
    after: list[ir.Statement] = []
    results = [_moved_out(r, at, after) for r, at in zip(block.results, places, strict=True)]
    return ir.Block((*before, *block.statements, *after), tuple(results))


def _moved_out(r: ir.Ref, at: int, after: list[ir.Statement]) -> ir.Ref:
    """Move the first axis of an array to another position."""
    if at == 0:
        return r
    order = [*range(1, at + 1), 0, *range(at + 1, r.rank)]
    variables = tuple(Var(f"i{k}", r.shape[k]) for k in order)
    out = ir.Ref(r.name, r.dtype, tuple(r.shape[k] for k in order), r.bounds, r.storage)
    after.append(ir.Build((out,), variables, (_read(r, variables, order),)))
    return out


def _in_front(r: ir.Ref, axis: int, before: list[ir.Statement]) -> ir.Ref:
    """Move this axis of an array to the front."""
    if axis == 0:
        return r
    order = [axis, *range(axis), *range(axis + 1, r.rank)]
    front = ir.Ref(f"{r.name}_front", r.dtype, tuple(r.shape[k] for k in order), r.bounds)
    variables = tuple(Var(f"i{k}", e) for k, e in enumerate(front.shape))
    before.append(ir.Build((front,), variables, (_read(r, variables, order),)))
    return front


def _read(r: ir.Ref, variables: Sequence[Var], order: Sequence[int]) -> expr.Scalar:
    at: dict[int, Var] = dict(zip(order, variables, strict=True))
    return expr.get(r, *(at[k] for k in range(r.rank)))


def free_name(known: ir.Known, wanted: str = "B") -> str:
    """A name for a new dim that the program does not use."""
    indices = [*(e for r in known.inputs for e in r.shape), *(c.index for c in known.requires)]
    used = {*known.sizes, *(s.name for i in indices for s in i.symbols), *(current().dim_names if is_tracing() else ())}
    name, k = wanted, 1
    while name in used:
        k += 1
        name = f"{wanted}{k}"
    return name


@public
def vmap(f: Callable[..., Any], in_axes: Axes = 0, out_axes: Axes = 0) -> Function:
    """Map a function over an axis of its arguments.

    Args:
        f: the function of single values.
        in_axes: the axis of the arguments to map over: an int, or None for an argument that is the same for all. A
            tuple has one item per parameter; an item may be a tree of these. Static values and sizes are not mapped.
        out_axes: the position of the axis in the result: an int, or a tree of these.
    Returns:
        A traced function. The size of the axis is a new dim, equal in all arguments.
    Raises:
        DerivativeError: [E223] the axes do not fit the parameters or the result.
        ShapeError: [E224] an argument has no such axis.
    Cost:
        One run of f for each element of the axis.

    >>> import numpy as np, pullback as pb
    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> @pb.function
    ... def dot(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    ...     return pb.sum(x * y)
    >>> rows = pb.vmap(dot, in_axes=(0, None))
    >>> rows(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 1.0])).tolist()
    [3.0, 7.0]
    >>> rows.type
    '(x: f64[B, N], y: f64[N]) -> f64[B]'
    """
    base = as_function(f)
    key = ("vmap", _frozen(in_axes), _frozen(out_axes))
    return base.once(key, lambda: Batched(base, in_axes, out_axes, user_position()))


def _frozen(axes: Axes) -> Any:
    leaves, structure = tree.flatten(axes)
    return tuple(map(repr, leaves)), structure
