"""Branches: `cond`, of which one function runs, or inside `build` a choice between both results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pullback.errors import DTypeError, ShapeError
from pullback.ir import nodes as ir
from pullback.ir import types
from pullback.ir.types import DType
from pullback.source import Position, user_position
from pullback.tracing import tree
from pullback.tracing.arithmetic import choose, common_settled, convert
from pullback.tracing.array import Array, shape_text, type_text
from pullback.tracing.making import as_array, from_ref, ref_of
from pullback.tracing.naming import assigned_name, check_callable
from pullback.tracing.ranges import Obligation, conditions
from pullback.tracing.tracer import current
from pullback.tracing.tree import Structure

__all__ = ["alternatives", "as_test", "cond", "promoted_cond"]


def as_test(value: Any, what: str) -> Array:
    """A single bool.

    Raises:
        DTypeError: [E121] it is something else.
    """
    h = as_array(value, what)
    if h.settled is not types.bool_ or h.rank:
        raise DTypeError(
            "E121",
            f"{what}: the test is {type_text(h)}, not a single bool",
            position=user_position(),
            remedy="compare, e.g. `x > 0`, or reduce with `any` or `all`",
        )
    return h


def cond(test: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any) -> Any:
    """then(*operands) where the test holds, else otherwise(*operands); only the one chosen runs.

    Args:
        test: a bool of rank 0. Inside `build` both functions are computed and one result is chosen for each element.
        then: a function of the operands.
        otherwise: a function of the operands that gives the same structure, shapes and element types.
        operands: the operands of both; they may also capture values.

    >>> @pb.function
    ... def clamp(x):
    ...     return pb.cond(x > 1.0, lambda y: y / y, lambda y: y, x)
    >>> float(clamp(3.0)), float(clamp(0.5))
    (1.0, 0.5)
    """
    for f, which in ((then, "then"), (otherwise, "otherwise")):
        check_callable(f, f"cond, {which}", [f"x{k}" for k in range(len(operands))])
    return _chosen(test, then, otherwise, operands, _common)


def promoted_cond(test: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any) -> Any:
    """`cond` for languages with one number type: differing integer results become floating-point."""
    return _chosen(test, then, otherwise, operands, _promoted)


def alternatives(whole: Callable[..., Any], blocks: Callable[..., Any], *operands: Any) -> Any:
    """Return whole(*operands), or blocks(*operands), equal up to rounding; `passes.alternatives` decides."""
    return _chosen(as_array(True), whole, blocks, operands, _common, ir.Alternatives)


Agreement = Callable[[list[tuple[Structure, list["Array"]]], Position | None], list[DType]]


def _chosen(
    test: Any, then: Callable[..., Any], otherwise: Callable[..., Any], operands: Sequence[Any], agree: Agreement,
    node: type[ir.Choose] = ir.Choose,
) -> Any:  # fmt: skip
    if isinstance(test, bool):
        return (then if test else otherwise)(*operands)
    tracer = current()
    position = user_position()
    chosen = as_test(test, "cond")
    if tracer.inside and node is ir.Alternatives:
        return then(*operands)
    if tracer.inside:
        return _both(chosen, then(*operands), otherwise(*operands), agree, position)
    owed: list[Obligation] = []
    test_ref, element, default = ref_of(chosen, "test"), chosen.element(), assigned_name(position) or "value"

    def traced(f: Callable[..., Any], truth: bool, dtypes_of: Callable[[Any], Sequence[Any]]) -> Any:
        with tracer.block() as scope:
            leaves, structure = tree.flatten(f(*operands))
            result = structure, [as_array(v, "cond") for v in leaves]
            names, dtypes = tree.leaf_names(structure, default), dtypes_of(result)
            if None in dtypes:
                return result, None
            refs = [ref_of(h if h.strong is d else convert(h, d), n) for h, d, n in zip(result[1], dtypes, names)]
            owed.extend(tracer.settle_block(refs, tuple(conditions(element, truth))))
            return result, (ir.Block(tuple(scope.statements), tuple(refs)), names)

    first, side = traced(then, True, lambda result: [h.strong if agree is _common else None for h in result[1]])
    if side is None:  # the element types may depend on the other branch, which is traced for them
        dtypes = agree([first, traced(otherwise, False, lambda result: [None] * len(result[1]))[0]], position)
        first, side = traced(then, True, lambda _: dtypes)
    _, (other, names) = traced(otherwise, False, lambda result: agree([first, result], position))
    outs = tuple(ir.Ref(n, r.dtype, r.shape) for n, r in zip(names, side[0].results))
    tracer.emit(node(outs, test_ref, side[0], other, () if position is None else (position,)), owed)
    return tree.unflatten(first[0], [from_ref(r) for r in outs])


def _pairs(results: list[tuple[Structure, list[Array]]], position: Position | None) -> Iterator[tuple[Array, Array]]:
    """The results of both branches of a cond, which must agree in structure and shapes."""
    (first, a), (second, b) = results
    if first != second:
        raise ShapeError(
            "E139",
            f"cond: one function gives {first}, the other {second}",
            position=position,
            remedy="return the same structure from both",
        )
    for h, g in zip(a, b):
        if h.extents != g.extents:
            raise ShapeError(
                "E139",
                f"cond: one function gives {shape_text(h.extents)}, the other {shape_text(g.extents)}",
                position=position,
                remedy="return the same shapes from both",
            )
        yield h, g


def _common(results: list[tuple[Structure, list[Array]]], position: Position | None) -> list[DType]:
    """The dtypes of both branches of a cond, which must agree."""
    dtypes = []
    for h, g in _pairs(results, position):
        found = h.strong or g.strong or common_settled(h, g)
        if any(x.strong not in (None, found) for x in (h, g)):
            raise DTypeError(
                "E139",
                f"cond: one function gives {type_text(h)}, the other {type_text(g)}",
                position=position,
                remedy="convert one with `astype`",
            )
        dtypes.append(found)
    return dtypes


def _promoted(results: list[tuple[Structure, list[Array]]], position: Position | None) -> list[DType]:
    """The dtypes of both branches of a cond; if two differ, the wider one."""

    def order(d: DType) -> tuple[bool, bool, int]:
        return d.is_floating, not d.is_bool, d.numpy.itemsize

    return [
        max((h.settled, g.settled), key=order) if h.weak is None or g.weak is None else common_settled(h, g)
        for h, g in _pairs(results, position)
    ]


def _both(test: Array, a: Any, b: Any, agree: Agreement, position: Position | None) -> Any:
    (first, s), (second, t) = tree.flatten(a), tree.flatten(b)
    sides = [[as_array(x) for x in first], [as_array(y) for y in second]]
    dtypes = agree([(s, sides[0]), (t, sides[1])], position)
    pairs = [[h if h.strong in (None, d) else convert(h, d) for h in hs] for hs, d in zip(zip(*sides), dtypes)]
    return tree.unflatten(s, [choose(test, x, y, position) for x, y in pairs])
