"""vmap: a function of single values as one of arrays of them, for every kind of statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pullback.api.direction import leaf_count
from pullback.api.function import Function
from pullback.api.modes import Derived, as_function, made_once
from pullback.api.signature import Parameter, Signature
from pullback.api.traced import Traced
from pullback.errors import DerivativeError, PullbackError, ShapeError
from pullback.ir import expr
from pullback.ir.expr import Ref
from pullback.ir.index import Index, Var, symbol
from pullback.ir.program import Block, Build, Program, Statement, walk_statements
from pullback.lang import tree
from pullback.lang.annotations import MISSING, Leaf, Leaves, Spec
from pullback.lang.arguments import as_numpy
from pullback.lang.handle import Handle, view
from pullback.lang.tree import Structure
from pullback.source import Position, user_position

Axes = Any  # an int, None, or a tree of these


@dataclass(frozen=True)
class Mapped:
    """How the leaf of a batched argument came about: the axis, and the leaf of a single value."""

    axis: int
    single: Leaf


@dataclass
class BatchedSpec(Spec):
    """An argument with an axis more than the annotation of the mapped function says."""

    spec: Spec
    axes: Axes
    what: str
    position: Position | None

    def leaves(self, value: Any, path: str) -> Leaves:  # noqa: D102
        if value is MISSING:
            structure, leaves, values = self.spec.leaves(MISSING, path)
            axes = spread(self.what, "in_axes", self.axes, structure, path, self.position)
            return structure, [self._batched(leaf, a) for leaf, a in zip(leaves, axes, strict=True)], values
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
        structure, leaves, values = self.spec.leaves(tree.unflatten(outer, singles), path)
        axis_of = {id(v): a for v, a in zip(given, wanted, strict=True)}
        out, restored = [], []
        for leaf, v in zip(leaves, values, strict=True):
            original, axis = originals.get(id(v), (v, None))
            if original is v and axis_of.get(id(v)) is not None and leaf.is_input:
                raise self._no_axis(leaf.path, len(leaf.dims), axis_of[id(v)])
            out.append(self._batched(leaf, axis))
            restored.append(original)
        return structure, out, restored

    def _single(self, value: Any, axis: int, path: str) -> Any:
        """A stand-in for one of the values along the axis; of rank 0 the value itself."""
        if isinstance(value, Handle):
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
        if isinstance(value, Handle):
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
        return Leaf(leaf.path, "array", leaf.dtype, (*leaf.dims[:at], "batch", *leaf.dims[at:]), Mapped(at, leaf))

    def _no_axis(self, path: str, rank: int, axis: int | None) -> PullbackError:
        found = "a single value" if rank == 0 else f"an array of {rank} ax{'i' if rank == 1 else 'e'}s"
        return ShapeError(
            "E224",
            f"{self.what}: {path} is {found} and has no axis {axis} to map over",
            position=self.position,
            remedy="`in_axes` with None in its place: the same value is used for all",
        )


def spread(
    what: str, which: str, axes: Axes, structure: Structure, path: str, position: Position | None
) -> list[int | None]:
    """One axis for each leaf: an int or None holds for all of a tree.

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
        step = f".{key}" if structure.kind in ("namedtuple", "dataclass") else f"[{key!r}]"
        out += spread(what, which, a, s, path + step, position)
    return out


class Batched(Derived):
    """The function over a further axis of its arguments."""

    def __init__(self, base: Function, in_axes: Axes, out_axes: Axes, position: Position | None) -> None:
        super().__init__(base, "vmap", position)
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
                    f"{self.what}: in_axes gives {len(axes)} for the {len(parameters)} parameters of {self.base.name}",
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
        made = [
            Parameter(p.name, BatchedSpec(p.spec, a, self.what, self.position), p.default)
            for p, a in zip(parameters, axes, strict=True)
        ]
        if not any(a is not None for axis in axes for a in ([axis] if axis is None else tree.flatten(axis)[0])):
            raise DerivativeError(
                "E223",
                f"{self.what}: in_axes={self.in_axes!r} maps no argument",
                position=self.position,
                remedy="an int for at least one parameter",
            )
        return made

    def _trace(self, signature: Signature) -> Traced:
        from pullback.ir.traverse import instantiate
        from pullback.rewrite.batch import batch

        groups = tuple(
            tuple(leaf.value.single if isinstance(leaf.value, Mapped) else leaf for leaf in group)
            for group in signature.leaves
        )
        base = self.base.traced(Signature(signature.structures, groups))
        program = base.program
        leaves = [leaf for leaf in signature.flat if leaf.is_input]
        given_as = dict(zip(program.inputs, leaves, strict=False))
        mapped = {r: leaf.value.axis for r, leaf in given_as.items() if isinstance(leaf.value, Mapped)}
        extent = symbol(free_name(program))
        batched = batch(program, list(mapped), [Var("b", extent)])
        before: list[Statement] = []
        inputs, given = [], []
        for r, lifted in zip(program.inputs, batched.inputs, strict=True):
            entering, source = _moved_in(lifted, mapped[r], before) if r in mapped else (lifted, lifted)
            inputs.append(entering)
            given.append(source)
        block = instantiate(batched, dict(zip(batched.inputs, given, strict=True)))
        axes = spread(self.what, "out_axes", self.out_axes, base.structure, "the result", self.position)
        after: list[Statement] = []
        paths = tree.leaf_paths(base.structure, "the result")
        results = [self._moved_out(r, a, p, after) for r, a, p in zip(block.results, axes, paths, strict=True)]
        statements = (*before, *block.statements, *after)
        changed = replace(base, known=replace(program, inputs=tuple(inputs)))
        return self._result(changed, (), Block(statements, tuple(results)), base.structure, (), _names(program))

    def _moved_out(self, r: Ref, axis: int | None, path: str, after: list[Statement]) -> Ref:
        if axis is None or not -r.rank <= axis < r.rank:
            raise DerivativeError(
                "E223",
                f"{self.what}: out_axes gives {axis} for {path}, which has {r.rank} axes with the new one",
                position=self.position,
                remedy=f"an int from {-r.rank} to {r.rank - 1}",
            )
        at = axis % r.rank
        if at == 0:
            return r
        order = [*range(1, at + 1), 0, *range(at + 1, r.rank)]
        variables = tuple(Var(f"i{k}", r.shape[k]) for k in order)
        out = Ref(r.name, r.dtype, tuple(r.shape[k] for k in order), r.bounds)
        after.append(Build((out,), variables, (_read(r, variables, order),)))
        return out


def _moved_in(r: Ref, axis: int, before: list[Statement]) -> tuple[Ref, Ref]:
    """The input with the batch axis where the caller has it, and the array with the axis in front."""
    if axis == 0:
        return r, r
    order = [*range(1, axis + 1), 0, *range(axis + 1, r.rank)]  # order[k] is the front form's axis at place k
    entering = Ref(r.name, r.dtype, tuple(r.shape[k] for k in order), r.bounds)
    front = Ref(f"{r.name}_front", r.dtype, r.shape, r.bounds)
    variables = tuple(Var(f"i{k}", e) for k, e in enumerate(r.shape))
    before.append(Build((front,), variables, (expr.get(entering, *(variables[k] for k in order)),)))
    return entering, front


def _read(r: Ref, variables: Sequence[Var], order: Sequence[int]) -> expr.Scalar:
    at: dict[int, Var] = dict(zip(order, variables, strict=True))
    return expr.get(r, *(at[k] for k in range(r.rank)))


def _names(program: Program) -> list[str]:
    return list(program.output_names) or [r.name for r in program.outputs]


def free_name(program: Program, wanted: str = "B") -> str:
    """A name for an extent of its own that no dim of the program has."""
    """A name for the batch's extent that no dim of the program has."""
    used = set(program.sizes)

    def see(extents: Sequence[Index]) -> None:
        used.update(s.name for e in extents for s in e.symbols)

    for r in program.inputs:
        see(r.shape)
    for c in program.requires:
        used.update(s.name for s in c.index.symbols)
    for s in walk_statements(program.body):
        for r in s.outs:
            see(r.shape)
    name, k = wanted, 1
    while name in used:
        k += 1
        name = f"{wanted}{k}"
    return name


def vmap(f: Callable[..., Any], in_axes: Axes = 0, out_axes: Axes = 0) -> Function:
    """The function applied along an axis of its arguments, all at once.

    Args:
        f: the function of single values.
        in_axes: which axis of the arguments is mapped over: an int, or None for an argument that is the same for all;
            a tuple with one item for each parameter, where an item may be a tree of these for a tree. Static values
            and sizes are never mapped.
        out_axes: where the axis is in the result: an int, or a tree of these.
    Returns:
        A traced function. The extent of the axis is a dim of its own, the same in all arguments.
    Raises:
        DerivativeError: [E223] the axes do not fit the parameters or the result.
        ShapeError: [E224] an argument has no such axis.

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
    return made_once(base, key, lambda: Batched(base, in_axes, out_axes, user_position()))


def _frozen(axes: Axes) -> Any:
    leaves, structure = tree.flatten(axes)
    return tuple(map(repr, leaves)), structure
