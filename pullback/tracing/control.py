"""Loops: fold, scan, while_loop. States are trees of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from pullback.errors import DTypeError, ShapeError, TraceError
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var, as_index, extreme
from pullback.ir.index import cond as condition
from pullback.ir.types import DType
from pullback.source import Position, user_position
from pullback.tracing import tree
from pullback.tracing.arithmetic import choose, convert
from pullback.tracing.array import Array, from_index, shape_text, type_text, weak
from pullback.tracing.branches import as_test
from pullback.tracing.making import as_array, extent_of, from_ref, ref_of, scalar
from pullback.tracing.naming import assigned_name, check_callable, parameter_names
from pullback.tracing.printing import Repeated, arrays_of
from pullback.tracing.tracer import Tracer, current
from pullback.tracing.tree import Structure


class _State:
    """The state of a loop: structure, and per leaf a name, an initial value and a dtype (None if open)."""

    def __init__(self, what: str, init: Any, position: Position | None) -> None:
        self.what = what
        leaves, self.structure = tree.flatten(init)
        self.handles: list[Array] = [as_array(leaf, what) for leaf in leaves]
        default = assigned_name(position) or "state"
        self.names = tree.leaf_names(self.structure, default)
        self.paths = tree.leaf_paths(self.structure, "state")
        self.dtypes: list[DType | None] = [h.strong for h in self.handles]
        self.kinds = [h.weak for h in self.handles]

    def refs(self, tracer: Tracer) -> list[ir.Ref]:
        """Fresh arrays for the states in the current block."""
        return [tracer.define(n, d or h.settled, h.extents) for n, d, h in zip(self.names, self.dtypes, self.handles)]

    def view(self, refs: Sequence[ir.Ref]) -> Any:
        """The states as the user's function sees them; open dtypes are weak."""
        out: list[Array] = []
        for r, d, kind in zip(refs, self.dtypes, self.kinds):
            if d is None and kind is not None:
                out.append(weak(kind, lambda dtype, r=r: expr.cast(current().read(r, ()), dtype)))  # type: ignore[misc]
            else:
                out.append(from_ref(r))
        return tree.unflatten(self.structure, out)

    def settle(self, results: Sequence[Array]) -> bool:
        """Fix open dtypes by the body's results; return whether any differs from the assumption."""
        changed = False
        for k, (d, h) in enumerate(zip(self.dtypes, results)):
            if d is None:
                self.dtypes[k] = h.settled
                changed = True
        return changed

    def inits(self) -> list[ir.Ref]:
        """The initial states as arrays with checked data reads, as later guards come too late."""
        out = []
        for h, d, n in zip(self.handles, self.dtypes, self.names):
            out.append(current().whole(ref_of(h if h.strong is d or d is None else convert(h, d), n)))
        return out

    def check(self, structure: Structure, results: Sequence[Array], position: Position | None) -> list[Array]:
        """Return the results in the states' dtypes; raise if a structure, shape or dtype changed."""
        if structure != self.structure:
            raise ShapeError(
                "E139",
                f"{self.what}: the state is {self.structure}, the function gives {structure}",
                position=position,
                remedy="is a `return` missing in it?"
                if structure == tree.NONE
                else "return a state of the same structure as the initial one",
            )
        out: list[Array] = []
        for h, start, dtype, path in zip(results, self.handles, self.dtypes, self.paths):
            if h.extents != start.extents:
                raise ShapeError(
                    "E139",
                    f"{self.what}: {path} starts as {shape_text(start.extents)}, the function gives "
                    f"{shape_text(h.extents)}",
                    position=position,
                    facts=[f"start : {type_text(start)}", f"result : {type_text(h)}"],
                    remedy="keep the shape of every state; grow by indexing into an array of the final size",
                )
            assert dtype is not None
            if h.weak is not None:
                ok = (
                    dtype.is_floating
                    or (h.weak == "integer" and dtype.is_integer)
                    or (dtype.is_bool and h.weak == "bool")
                )
            else:
                ok = h.strong is dtype
            if not ok:
                raise DTypeError(
                    "E139",
                    f"{self.what}: {path} starts as {dtype}, the function gives {type_text(h)}",
                    position=position,
                    remedy="convert the initial state or the result with `astype`",
                )
            out.append(h if h.strong is dtype else convert(h, dtype))
        return out


def _trips(n: Any, what: str) -> tuple[Index, Index]:
    """The number of steps to allocate for, and the number to run; they differ if it has an index."""
    extent = extent_of(n, what)
    if extent.constant is not None:
        if extent.constant < 0:
            raise ShapeError(
                "E105", f"{what}: {extent} steps", position=user_position(), remedy="a number of steps from 0 up"
            )
        return extent, extent
    if not extent.free and extent.is_dim:
        return current().extent(extent, what), extent
    bound = extreme(extent, upper=True)
    if bound is None:
        raise ShapeError(
            "E106",
            f"{what}: the number of steps {extent} has no bound known at definition",
            position=user_position(),
            remedy="`while_loop` with `max_trips`",
        )
    return current().extent(bound, what), extent


def _loop(
    what: str, n: Any, init: Any, f: Callable[..., Any], rows: bool, count: Array | None = None
) -> tuple[Any, Any]:
    """A fold of n steps; those from `count` on, a number of data, change nothing."""
    tracer = current()
    position = user_position()
    room, steps = _trips(n, what)
    check_callable(f, what, ("state", "i"))
    state = _State(what, init, position)
    index_name = parameter_names(f, 2)[1]
    for _ in range(2):
        var = Var(index_name, room)
        with tracer.block(var) as scope:
            scope.prints = []
            refs = state.refs(tracer)
            result = f(state.view(refs), from_index(var))
            carried, emitted = _split(what, result, rows, position)
            leaves, structure = tree.flatten(carried)
            handles = [as_array(leaf, what) for leaf in leaves]
            if structure == state.structure and state.settle(handles):
                continue
            handles = state.check(structure, handles, position)
            going = None
            if steps is not room:
                going = scalar(expr.test([condition(">=", steps - 1 - as_index(var))]))
            elif count is not None:
                going = from_index(var) < count
            if going is not None:
                handles = [choose(going, h, from_ref(r)) for h, r in zip(handles, refs)]
            row_leaves, row_structure = tree.flatten(emitted)
            row_handles = [as_array(leaf, what) for leaf in row_leaves]
            results = [ref_of(h, name) for h, name in zip(handles, state.names)]
            row_names = tree.leaf_names(row_structure, "row")
            results += [ref_of(h, name) for h, name in zip(row_handles, row_names)]
            printed: list[ir.Ref] = []
            if scope.prints:
                taken = scalar(expr.const(True, types.bool_)) if going is None else going
                printed = [ref_of(taken, "taken"), *arrays_of(scope.prints)]
            results += printed
            owed = tracer.settle_block(results)
            body = ir.Block(tuple(scope.statements), tuple(results))
        break
    inits = state.inits()
    outs = [ir.Ref(name, r.dtype, r.shape) for name, r in zip(state.names, refs)]
    names = [*row_names, *(r.name for r in printed)]
    stacked = [ir.Ref(name, r.dtype, (room, *r.shape), r.bounds) for name, r in zip(names, results[len(refs) :])]
    owed += tracer.settle(*inits)
    statement = ir.Fold(
        (*outs, *stacked), var, tuple(refs), tuple(inits), body, () if position is None else (position,)
    )
    tracer.emit(statement, owed)
    if printed:
        rows_printed = tuple(stacked[len(row_handles) :])
        tracer.prints(Repeated(tuple(scope.prints or ()), rows_printed))
    final = tree.unflatten(state.structure, [from_ref(r) for r in outs])
    return final, tree.unflatten(row_structure, [from_ref(r) for r in stacked[: len(row_handles)]])


def _split(what: str, result: Any, rows: bool, position: Position | None) -> tuple[Any, Any]:
    if not rows:
        return result, ()
    if not isinstance(result, tuple) or len(result) != 2:
        raise TraceError(
            "E139",
            f"{what}: the function gives {type(result).__name__}, not a pair (state, row)",
            position=position,
            remedy="return `state, row`",
        )
    return result


def fold(n: Any, init: Any, f: Callable[[Any, Any], Any], max_trips: Any = None) -> Any:
    """Return the state after n steps: `state = f(state, i)` for i = 0, ..., n - 1.

    Args:
        n: the number of steps: an int or dim, which may depend on indices in scope, or an integer of rank 0 computed
            from data.
        init: the initial state: an array, a number, or a tree of these.
        f: a function that returns the next state, of the same structure, shapes and element types.
        max_trips: the largest n, for an n computed from data; reverse mode and `build` need it.
    Returns:
        The final state; `init` if n is 0, or if an n from data is negative.
    Raises:
        ShapeError: [E139] f returns another structure or shape. [E105] a negative n that is known at definition.
        DTypeError: [E139] f returns another element type. [E121] n is no integer.
        TraceError: [E133] n is computed from data inside `build` or a reduction, without `max_trips`.
        UnfinishedError: [E404] when the function runs: n is above `max_trips`.
    Cost:
        An n from data takes n steps. Inside `build`, and in reverse mode, it takes `max_trips`.

    >>> import pullback as pb
    >>> @pb.function
    ... def factorial(n: pb.Size["N"]):
    ...     return pb.fold(n, 1, lambda product, i: product * (i + 1))
    >>> int(factorial(5))
    120
    >>> @pb.function
    ... def power(x, n):
    ...     return pb.fold(n, 1.0, lambda y, i: y * x, max_trips=10)
    >>> float(power(2.0, np.array(3))), float(pb.grad(power, wrt="x")(2.0, np.array(3)))
    (8.0, 12.0)
    """
    from_data = isinstance(n, Array) and n.index is None and not n.rank and not n.settled.is_floating
    if max_trips is None and not from_data:
        return _loop("fold", n, init, f, rows=False)[0]
    count = as_array(n, "fold")
    if count.rank or not count.settled.is_integer:
        raise DTypeError("E121", f"fold: the number of steps is {type_text(count)}, not a single integer",
                         position=user_position(), remedy="`n[0]`, or `x.astype(pb.int64)`")  # fmt: skip
    return _counted(count, init, f, max_trips)


def _counted(count: Array, init: Any, f: Callable[[Any, Any], Any], max_trips: Any) -> Any:
    """A fold whose number of steps is data: a while loop, or inside `build` all of `max_trips`."""
    position = user_position()
    count = from_ref(ref_of(convert(count, types.i64), "trips"))
    room = None if max_trips is None else _trips(max_trips, "fold")[0]
    if current().inside:
        if room is None:
            raise TraceError("E133", "fold inside `build` or a reduction: the number of steps is data without a bound",
                             position=position, remedy="`max_trips=`, the most steps of any element")  # fmt: skip
        last = _loop("fold", room, init, f, rows=False, count=count)[0]
    else:
        check_callable(f, "fold", ("state", "i"))
        shown = _State("fold", init, position)

        def body(state: Any) -> Any:
            leaves, structure = tree.flatten(f(state[0], _weakened(state[1])))
            handles = [as_array(leaf, "fold") for leaf in leaves]
            if not (structure == shown.structure and shown.settle(handles)):
                handles = shown.check(structure, handles, position)
            return tree.unflatten(structure, handles), state[1] + 1

        first = (init, convert(as_array(0), types.i64))
        names = [*shown.names, parameter_names(f, 2)[1]]
        last = _while("fold", lambda state: state[1] < count, body, first, room, names)[0]
    return last if room is None else finished(last, count > from_index(room), position)


def _weakened(i: Array) -> Array:
    """A number of data as weak as the index of a fold."""
    return weak("integer", lambda dtype: expr.cast(i.element(), dtype))


def scan(n: Any, init: Any, f: Callable[[Any, Any], tuple[Any, Any]]) -> tuple[Any, Any]:
    """Like `fold`, keeping a row of every step: `state, row = f(state, i)`.

    Args:
        n: the number of steps, an int or dim.
        init: the initial state.
        f: a function that returns the next state and a row, an array or a tree of arrays.
    Returns:
        The final state, and the rows stacked along a new leading axis.

    >>> import pullback as pb
    >>> @pb.function
    ... def squares(n: pb.Size["N"]):
    ...     return pb.scan(n, 0, lambda total, i: (total + i * i, total))[1]
    >>> squares(4).tolist()
    [0, 0, 1, 5]
    """
    return _loop("scan", n, init, f, rows=True)


AT_LIMIT = ("error", "report")


def while_loop(
    test: Callable[[Any], Any],
    body: Callable[[Any], Any],
    init: Any,
    max_trips: Any = None,
    at_limit: str = "error",
) -> Any:
    """Repeat `state = body(state)` while `test(state)` holds; return the final state.

    Args:
        test: a function that returns a bool of rank 0 for a state.
        body: a function that returns the next state, of the same structure, shapes and element types.
        init: the initial state.
        max_trips: the maximum number of steps; reverse mode needs it.
        at_limit: the reaction if the test still holds after `max_trips` steps. "error": programs that need the state or
            its derivative raise UnfinishedError. "report": return a bool, too.
    Returns:
        The final state; with "report", a pair with a bool: whether the test still holds after `max_trips` steps.
    Raises:
        UnfinishedError: [E404] when the function runs.

    >>> @pb.function
    ... def halved(x):
    ...     return pb.while_loop(lambda y: y >= 1.0, lambda y: y / 2, x)
    >>> float(halved(10.0))
    0.625
    >>> @pb.function
    ... def thrice(x):
    ...     return pb.while_loop(lambda y: y >= 1.0, lambda y: y / 2, x, max_trips=3, at_limit="report")
    >>> state, max_trips_reached = thrice(10.0)
    >>> float(state), bool(max_trips_reached)
    (1.25, True)
    """
    position = user_position()
    check_at_limit("while_loop", at_limit)
    if at_limit == "report" and max_trips is None:
        raise TraceError("E144", "while_loop: at_limit='report' without max_trips", position=position,
                         remedy='"error", or "report" and a limit of trips')  # fmt: skip
    if current().inside:
        raise TraceError(
            "E133",
            "while_loop inside `build` or a reduction: each element would need its own number of steps",
            position=position,
            remedy="use `fold` with a fixed number of steps and `where`, or move the loop outside",
        )
    check_callable(test, "while_loop, the test", ("state",))
    check_callable(body, "while_loop, the body", ("state",))
    limit = None if max_trips is None else _trips(max_trips, "while_loop")[0]
    last = _while("while_loop", test, body, init, limit)
    if limit is None:
        return last
    reached = as_test(test(last), "while_loop")
    if at_limit == "report":
        return last, reached
    return finished(last, reached, position)


def _while(
    what: str, test: Callable[[Any], Any], body: Callable[[Any], Any], init: Any, limit: Index | None,
    names: list[str] | None = None,
) -> Any:  # fmt: skip
    """The state of a while loop after its last step; `names` are those of its leaves."""
    tracer = current()
    position = user_position()
    state = _State(what, init, position)
    state.names = names or state.names
    for _ in range(2):
        refs = state.refs(tracer)
        with tracer.block() as scope:
            for r in refs:
                tracer.own(r)
            result = body(state.view(refs))
            leaves, structure = tree.flatten(result)
            handles = [as_array(leaf, what) for leaf in leaves]
            if structure == state.structure and state.settle(handles):
                continue
            handles = state.check(structure, handles, position)
            results = [ref_of(h, name) for h, name in zip(handles, state.names)]
            owed = tracer.settle_block(results)
            body_block = ir.Block(tuple(scope.statements), tuple(results))
        with tracer.block() as scope:
            for r in refs:
                tracer.own(r)
            going = as_test(test(state.view(refs)), what)
            going_ref = ref_of(going, "going")
            owed += tracer.settle_block([going_ref])
            test_block = ir.Block(tuple(scope.statements), (going_ref,))
        break
    inits = state.inits()
    outs = [ir.Ref(name, r.dtype, r.shape) for name, r in zip(state.names, refs)]
    tracer.emit(
        ir.While(
            tuple(outs),
            tuple(refs),
            tuple(inits),
            test_block,
            body_block,
            limit,
            () if position is None else (position,),
        ),
        owed,
    )
    return tree.unflatten(state.structure, [from_ref(r) for r in outs])


def check_at_limit(kind: str, at_limit: str) -> None:
    """Refuse an invalid value of `at_limit`.

    Raises:
        TraceError: [E144] the value is neither "error" nor "report".
    """
    if at_limit not in AT_LIMIT:
        known = ", ".join(map(repr, AT_LIMIT))
        raise TraceError("E144", f"{kind}: at_limit={at_limit!r} is none of {known}", position=user_position(),
                         remedy='"error", or "report" for a bool beside the result')  # fmt: skip


def finished(result: Any, failed: Array, position: Position | None) -> Any:
    """Return the tree `result`; a program that needs its arrays or derivatives stops if `failed` holds.

    Raises:
        UnfinishedError: [E404] when the function runs.
    """
    unfinished = ir.Ref("unfinished", types.i64, ())
    demand = expr.demand_not(from_ref(ref_of(failed, "max_trips_reached")).element())
    current().emit(ir.Build((unfinished,), (), (demand,), () if position is None else (position,)), [])
    return tree.map_leaves(lambda leaf: _demanding(leaf, from_ref(unfinished)), result)


def _demanding(x: Array, unfinished: Array) -> Array:
    """Make elements and derivatives of `x` depend on `unfinished`, which fails unless the loop has ended."""
    if x.settled is types.bool_:
        return x & (unfinished == 0)
    return x * convert(1 - unfinished, x.settled)


__all__ = ["cast", "fold", "scan", "while_loop"]
