"""Calls between traced functions: the callee becomes part of the caller's program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.arrays.elementwise import convert
from pullback.calls.arguments import Leaf, wrong_dtype
from pullback.calls.signature import Signature
from pullback.calls.traced import Traced, identifier
from pullback.errors import DTypeError, ShapeError
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.dims import linear_in
from pullback.ir.index import Cond, DimSymbol, Index, as_index, cond, divide_exactly, prove, symbol
from pullback.ir.program import blocks_of, program_of, walk_statements, whole_reads
from pullback.ir.traverse import Substitution
from pullback.source import Position, user_position
from pullback.tracing import tree
from pullback.tracing.array import Array, Indices, shape_text
from pullback.tracing.making import as_array, axes_for, axes_text, extent_of, from_ref, ref_of, view
from pullback.tracing.printing import over
from pullback.tracing.ranges import RangeChecker
from pullback.tracing.tracer import current


def inline(name: str, traced: Traced, leaves: Sequence[Leaf], values: Sequence[Any]) -> Any:
    """Return the results of a call on traced values; the callee's statements join the traced program."""
    tracer = current()
    position = user_position()
    known = traced.known
    handles: list[Array] = []
    dims: dict[DimSymbol, Index] = {}
    for leaf, value in zip(leaves, values):
        if leaf.kind == "size":
            dims[DimSymbol(leaf.size)] = extent_of(value, leaf.path)
        elif leaf.is_input:
            handles.append(_fitting(leaf, value, position))
    inputs = known.inputs[: len(handles)]
    arrays = [leaf for leaf in leaves if leaf.is_input]
    for ref, leaf in zip(inputs, arrays):  # keep known properties of unannotated arguments
        dims |= {s: as_index(s) for e, token in zip(ref.shape, leaf.dims) if e is token for s in e.symbols}
    unify(name, inputs, handles, dims, position)
    handles += [view(r.shape, r.dtype, lambda i, r=r: expr.get(r, *i)) for r in traced.foreign]  # type: ignore[misc]
    captured = traced.captured
    given = known.inputs[len(known.inputs) - len(captured) :]
    handles += [from_ref(tracer.capture(a, r.name)) for a, r in zip(captured, given)]
    sub = Substitution(dims=dims)
    for c in known.requires:
        mapped = sub.condition(c)
        if mapped is False:
            raise ShapeError(
                "E114",
                f"{name} requires {c}, which these shapes never fulfil",
                position=position,
                facts=[f"{s.name} = {dims[s]}" for s in c.index.symbols if s in dims],
            )
        tracer.require(mapped)
    prints = traced.prints
    if prints is None and isinstance(known, ir.Outline) and (waiting := _deferred(known, handles, dims)) is not None:
        return tree.unflatten(traced.structure, [from_ref(r) for r in waiting])
    around = known.inputs[len(arrays) : len(known.inputs) - len(captured)]
    block, results = _instantiate(program_of(traced.shown), handles, dims, around)
    adopted = tracer.adopt(block)
    made = [handles[r] if isinstance(r, int) else from_ref(adopted[k]) for k, r in enumerate(results)]
    if prints is not None:
        count = len(known.outputs)
        refs = iter([ref_of(h, "printed") for h in made[count:]])
        tracer.prints(*over(prints.entries, refs))
        made = made[:count]
    return tree.unflatten(traced.structure, made)


def apart(name: str, signature: Signature, values: Sequence[Any]) -> Signature:
    """Rename a call's dims so that they share a name with the caller's only if they are the same.

    A function traced inside another may contain the outer function's dims, from arguments without annotations, from
    indices, and from captured values. Arguments with other dims of such a name are unchanged.
    """
    declared = [(leaf, value) for leaf, value in zip(signature.flat, values, strict=True) if leaf.own_dims]
    own = {s.name for leaf, _ in declared for d in leaf.own_dims for s in d.symbols}
    clashing = own & current().dim_names
    if not clashing:
        return signature
    sizes = {symbol(leaf.size): extent_of(value, leaf.path) for leaf, value in declared if leaf.kind == "size"}
    dims = {s: extent for size, extent in sizes.items() for s in size.symbols}
    handles = {leaf: as_array(value, leaf.path) for leaf, value in declared if leaf.is_input}
    inputs = [ir.Ref(identifier(leaf.path), h.settled, leaf.extents) for leaf, h in handles.items()]
    unify(name, inputs, list(handles.values()), dims, user_position())
    different = {s for s, e in dims.items() if s.name in clashing and e is not as_index(s)}

    def as_given(leaf: Leaf) -> Leaf:
        if all(different.isdisjoint(d.symbols) for d in leaf.own_dims):
            return leaf
        return leaf.with_dims(handles[leaf].extents) if leaf in handles else leaf.with_size(sizes[symbol(leaf.size)])

    return Signature(signature.structures, tuple(tuple(map(as_given, group)) for group in signature.leaves))


def _deferred(known: ir.Outline, handles: Sequence[Array], dims: dict[DimSymbol, Index]) -> list[ir.Ref] | None:
    """Return the results of a call whose statements join later; None if an argument is not an array."""
    refs = [h.ref for h in handles if h.ref is not None and h.weak is None]
    made = current().defer(known, refs, dims) if len(refs) == len(handles) else None
    if made is not None:
        for r, h in zip(known.inputs, handles):
            _pass_bounds(r, h, dims)
    return made


def _fitting(leaf: Leaf, value: Any, position: Position | None) -> Array:
    """An argument with the dtype of its leaf, which weak values take."""
    h = as_array(value, leaf.path)
    assert leaf.dtype is not None
    if h.strong is not None and h.storage is leaf.dtype:
        return h
    if h.weak is not None:
        computed = leaf.dtype.computed
        fits = {"bool": computed.is_bool, "integer": not computed.is_bool, "floating": computed.is_floating}
        if fits[h.weak]:
            return convert(h, leaf.dtype)
    elif leaf.kind in ("int", "float") and h.rank == 0 and h.settled.is_floating == leaf.dtype.is_floating:
        return convert(h, leaf.dtype)
    error = wrong_dtype(leaf.path, [leaf.dtype], h.storage, h)
    raise DTypeError(error.code, error.what, position=position, remedy=error.remedy)


def unify(
    name: str,
    inputs: Sequence[ir.Ref],
    handles: Sequence[Array],
    dims: dict[DimSymbol, Index],
    position: Position | None,
) -> None:
    """Infer the callee's dims from argument shapes; raise ShapeError in the caller's terms on a mismatch."""
    origin: dict[DimSymbol, str] = {}
    pending: list[tuple[ir.Ref, int, Index, Index]] = []
    for ref, h in zip(inputs, handles):
        if ref.rank != h.rank:
            raise ShapeError(
                "E110",
                f"{name}: {ref.name} has {axes_text(ref.rank)}, the argument {_called(h, ref)} has {h.rank}",
                position=position,
                facts=_facts(inputs, handles),
            )
        pending += [(ref, axis, pattern, actual) for axis, (pattern, actual) in enumerate(zip(ref.shape, h.extents))]
    while pending:
        left = [item for item in pending if not _determined(name, inputs, handles, item, dims, origin, position)]
        if len(left) == len(pending):
            ref, axis, pattern, actual = left[0]
            unknown = [s for s in pattern.symbols if s not in dims]
            if len(unknown) == 1 and linear_in(pattern, unknown[0]) is not None:
                what, code = f"axis {axis} of {ref.name} is {pattern}, the argument has {actual}", "E101"
            else:
                what, code = f"the size {pattern} of {ref.name} does not determine its dims", "E106"
            raise ShapeError(code, f"{name}: {what}", position=position, facts=_facts(inputs, handles))
        pending = left


def _determined(
    name: str,
    inputs: Sequence[ir.Ref],
    handles: Sequence[Array],
    equation: tuple[ir.Ref, int, Index, Index],
    dims: dict[DimSymbol, Index],
    origin: dict[DimSymbol, str],
    position: Position | None,
) -> bool:
    """Whether a size's equation holds or determines a dim; False if others must be solved first."""
    ref, axis, pattern, actual = equation
    unknown = [s for s in pattern.symbols if s not in dims]
    if not unknown:
        expected = Substitution(dims=dims).index(pattern)
        if expected is not actual and not prove(cond("==", expected - actual), current().known):
            came = [_came(s, dims, origin) for s in pattern.symbols if s in origin]
            raise ShapeError(
                "E101",
                f"{name}: axis {axis} of {ref.name} must be {_equation(pattern, expected)}, the argument has {actual}",
                position=position,
                facts=[*came, *_facts(inputs, handles)],
                remedy="pass arrays whose dims agree, or give equal dims one name in the caller's annotations",
            )
        return True
    form = linear_in(pattern, unknown[0]) if len(unknown) == 1 else None
    if form is None:
        return False
    factor, rest = map(Substitution(dims=dims).index, form)
    value = divide_exactly(actual - rest, factor)
    if value is None:
        return False
    dims[unknown[0]] = value
    origin[unknown[0]] = f"axis {axis} of {ref.name}"
    return True


def _came(s: DimSymbol, dims: dict[DimSymbol, Index], origin: dict[DimSymbol, str]) -> str:
    value = str(dims[s])
    return f"{s.name} {'' if value == s.name else f'= {value} '}comes from {origin[s]}"


def _equation(pattern: Index, expected: Index) -> str:
    return str(pattern) if pattern is expected else f"{pattern} = {expected}"


def _called(h: Array, ref: ir.Ref) -> str:
    return h.name or ref.name


def _facts(inputs: Sequence[ir.Ref], handles: Sequence[Array]) -> list[str]:
    return [f"{r.name} : {shape_text(r.shape)} got {shape_text(h.extents)}" for r, h in zip(inputs, handles)]


def _instantiate(
    p: ir.Program, handles: Sequence[Array], dims: dict[DimSymbol, Index], around: Sequence[ir.Ref]
) -> tuple[Any, list[int | None]]:
    """Instantiate the body over these arguments; for each result, return the argument that it is, if any.

    `around` are the inputs for arrays captured by a closure; properties of these arrays hold for them.

    Views that only move data are read where the callee reads its input, so passing `images[i]` copies nothing.
    Computed arguments, and arguments used as whole arrays, become arrays first.
    """
    whole: set[ir.Ref] = set()
    for s in walk_statements(p.body):
        whole.update(whole_reads(s))
        for b in blocks_of(s):
            whole.update(b.results)
    tracer = current()
    simple = all(isinstance(s, ir.Build) for s in p.body.statements)
    refs: dict[ir.Ref, ir.Ref] = {}
    rules: dict[ir.Ref, Array] = {}
    for r, h in zip(p.inputs, handles):
        if r in whole:
            refs[r] = ref_of(h, r.name)
        else:
            known = (h.ref is not None and h.weak is None and simple) or _moves_data(h)
            array = h if known else from_ref(ref_of(h, r.name))
            if array.ref is not None and not simple and not tracer.is_foreign(array.ref):
                array = from_ref(tracer.whole(array.ref))  # an outer guard does not hold inside a loop
            refs[r] = ir.Ref(r.name, r.dtype, h.extents)
            rules[refs[r]] = array
        if r not in around:
            _pass_bounds(r, h, dims)

    def get(ref: ir.Ref, indices: Indices) -> ir.Scalar:
        h = rules.get(ref)
        if h is not None:
            return h.element(indices)
        return tracer.read(ref, indices) if tracer.is_view(ref) else expr.get(ref, *indices)

    positions = {r: k for k, r in enumerate(p.inputs)}
    results = [positions.get(r) for r in p.outputs]
    block = Substitution(dims=dims, refs=refs, get=get, place=tracer.place).block(p.body)
    return block, results


def _pass_bounds(r: ir.Ref, h: Array, dims: dict[DimSymbol, Index]) -> None:
    """Apply the range that the callee declared for an argument to the caller's array."""
    if r.bounds is None:
        return
    low, high = (Substitution(dims=dims).index(b) for b in r.bounds)
    if h.ref is not None:
        if h.ref.bounds is not None and prove_within(h.ref.bounds, (low, high)):
            return
        if h.ref in current().inputs:
            h.ref.bounds = (low, high)
            return
    raise ShapeError(
        "E109",
        f"{r.name} must lie in [{low}, {high}), and the values passed are not known to",
        position=user_position(),
        remedy="declare it where the array enters: `pb.in_range(x, n)` on the caller's argument",
    )


def prove_within(inner: tuple[Index, Index], outer: tuple[Index, Index]) -> bool:
    """Prove that one half-open range is inside another."""
    known: tuple[Cond, ...] = current().known
    return prove(cond(">=", inner[0] - outer[0]), known) and prove(cond(">=", outer[1] - inner[1]), known)


def _moves_data(h: Array) -> bool:
    """Whether reading an element of h is one plain read that is in range."""
    if h.weak is not None:
        return False
    variables = axes_for(h.extents)
    e = h.element(tuple(as_index(v) for v in variables))
    inner = e.arg if isinstance(e, ir.Bracket) else e
    if not isinstance(inner, ir.Get | ir.Const):
        return False
    tracer = current()
    checker = RangeChecker(tracer, frozenset(variables))
    before = len(tracer.errors)
    checked = checker.scalar(e, ())
    clean = checked is e and not checker.obligations and len(tracer.errors) == before
    del tracer.errors[before:]
    return clean
