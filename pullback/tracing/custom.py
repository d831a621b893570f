"""Functions with a user's derivative rule, and checkpoints, as Call statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from pullback.errors import DerivativeError
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.records import dataclass
from pullback.source import Position, user_position
from pullback.tracing import tree
from pullback.tracing.arithmetic import convert
from pullback.tracing.array import Array, type_text, weak
from pullback.tracing.making import as_array, from_ref, ref_of, view
from pullback.tracing.naming import assigned_name, check_callable
from pullback.tracing.ranges import Obligation
from pullback.tracing.tracer import current
from pullback.tracing.tree import Structure

Body = Callable[..., Any]


class _Arguments:
    """The arguments of a call: the array leaves, and their replacements in the body."""

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.leaves, self.structure = tree.flatten(args)
        self.places = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, Array) and leaf.literal is None]
        self.handles: list[Array] = [as_array(self.leaves[k], "argument") for k in self.places]
        names = tree.leaf_names(self.structure, "x")
        self.operands = [ref_of(h, h.name or names[k]) for k, h in zip(self.places, self.handles)]
        self.params = [ir.Ref(r.name, r.dtype, r.shape, r.bounds) for r in self.operands]

    def tree(self) -> Any:
        """The arguments as the user's function sees them: arrays are the params."""
        leaves = list(self.leaves)
        for k, h, r in zip(self.places, self.handles, self.params):
            current().own(r)
            leaves[k] = _standing_for(h, r)
        return tree.unflatten(self.structure, leaves)

    def kinds(self) -> tuple[Any, ...]:
        """The key that calls with equal rules share: array types, and other values."""
        arrays = tuple((h.extents, r.dtype, h.weak) for h, r in zip(self.handles, self.operands))
        rest = (leaf.literal if isinstance(leaf, Array) else leaf for leaf in self.leaves)
        return (self.structure, arrays, tuple(rest))

    @property
    def moving(self) -> list[int]:
        """The positions of leaves that have a derivative."""
        return [k for k, r in zip(self.places, self.params) if r.dtype.is_floating]

    def beside(self, refs: Sequence[ir.Ref]) -> Any:
        """A tree like the arguments, with these arrays for floating leaves, else None."""
        leaves: list[Any] = [None] * len(self.leaves)
        given = dict(zip(self.places, self.handles))
        for k, r in zip(self.moving, refs, strict=True):
            leaves[k] = _standing_for(given[k], r)
        return tree.unflatten(self.structure, leaves)

    @property
    def weak(self) -> set[ir.Ref]:
        """The params of weak arguments, whose derivatives are weak, too."""
        return {r for h, r in zip(self.handles, self.params) if h.weak is not None}


def _standing_for(given: Array, r: ir.Ref) -> Any:
    """An array that replaces an argument or its tangent; weak if the argument is."""
    if given.weak is None:
        return from_ref(r)
    return weak(given.weak, lambda dtype: expr.cast(current().read(r, ()), dtype))


@dataclass(eq=False)
class _Open:
    """A call whose rules are being traced, with the name for recursive uses."""

    key: tuple[Any, ...]
    what: str
    name: str = ""


def _again(key: tuple[Any, ...]) -> _Open | None:
    """The enclosing call of the same function with similar arguments."""
    return next((c for c in current().ruled if c.key == key), None)


def rule_is_traced(f: Body) -> bool:
    """Whether a rule of a call of f is being traced."""
    return any(c.key[0] is f for c in current().ruled)


def _name(what: str) -> str:
    """A name that differs from those of all enclosing calls."""
    taken = {c.name for c in current().ruled}
    names = (what if k < 2 else f"{what}_{k}" for k in count(1))
    return next(n for n in names if n not in taken)


def emit_call(what: str, f: Body, args: tuple[Any, ...], jvp: Body | None = None, vjp: Body | None = None) -> Any:
    """Emit f(*args) as one Call statement, with derivative rules, or as a checkpoint without rules.

    If a rule calls its own function on similar arguments, that call uses the same rules by name.
    """
    tracer = current()
    position = user_position()
    ruled = jvp is not None or vjp is not None
    given = _Arguments(args) if ruled else _Arguments(())
    with tracer.block() as scope:
        leaves, structure = tree.flatten(f(*(given.tree() if ruled else args)))
        handles = [as_array(leaf, what) for leaf in leaves]
        names = tree.leaf_names(structure, assigned_name(position) or "value")
        results = [ref_of(h, n) for h, n in zip(handles, names)]
        owed = tracer.settle_block(results)
        body = ir.Block(tuple(scope.statements), tuple(results))
    outs = [ir.Ref(r.name, r.dtype, r.shape, r.bounds) for r in results]
    forward = backward = None
    key = (f, jvp, vjp, *given.kinds())
    around = _again(key) if ruled else None
    if around is not None:
        around.name = around.name or _name(what)
    else:
        rules = _Rules(what, given, outs, structure, position, owed)
        around = _Open(key, what)
        tracer.ruled.append(around)
        try:
            forward = None if jvp is None else rules.forward(jvp)
            backward = None if vjp is None else rules.backward(vjp)
        finally:
            tracer.ruled.pop()
    positions = () if position is None else (position,)
    operands, params = tuple(given.operands), tuple(given.params)
    call = ir.Call(tuple(outs), operands, params, body, forward, backward, positions, around.name)
    tracer.emit(call, owed)
    return tree.unflatten(structure, [from_ref(r) for r in outs])


class _Rules:
    """The user's rules, traced with the function."""

    def __init__(
        self,
        what: str,
        given: _Arguments,
        outs: list[ir.Ref],
        structure: Structure,
        position: Position | None,
        owed: list[Obligation],
    ) -> None:
        self.what, self.given, self.outs, self.structure = what, given, outs, structure
        self.position, self.owed = position, owed
        self.floating = [r for r in outs if r.dtype.is_floating]

    def forward(self, jvp: Body) -> ir.Rule:
        """`jvp(primals, out, tangents) -> tangent`."""
        operands = [r for r in self.given.params if r.dtype.is_floating]
        places = [k for k, r in enumerate(self.outs) if r.dtype.is_floating]
        return self._rule("jvp", jvp, operands, "dot", self.given.beside, self.structure, places, self.floating)

    def backward(self, vjp: Body) -> ir.Rule:
        """`vjp(primals, out, cotangent) -> cotangents`."""
        operands = [r for r in self.given.params if r.dtype.is_floating]

        def beside(refs: Sequence[ir.Ref]) -> Any:
            rest = iter(refs)
            leaves = [from_ref(next(rest)) if r.dtype.is_floating else None for r in self.outs]
            return tree.unflatten(self.structure, leaves)

        return self._rule("vjp", vjp, self.floating, "bar", beside, self.given.structure, self.given.moving, operands)

    def _rule(
        self,
        kind: str,
        rule: Body,
        like: Sequence[ir.Ref],
        mark: str,
        beside: Callable[[Sequence[ir.Ref]], Any],
        structure: Structure,
        places: Sequence[int],
        expected: Sequence[ir.Ref],
    ) -> ir.Rule:
        """Trace a rule as a block, from directions like `like` to a tree with floating leaves `expected`."""
        tracer = current()
        outs = [ir.Ref(r.name, r.dtype, r.shape, r.bounds) for r in self.outs]
        directions = [ir.Ref(f"{r.name}_{mark}", r.dtype, r.shape) for r in like]
        with tracer.block() as scope:
            primals = self.given.tree()
            for r in (*outs, *directions):
                tracer.own(r)
            out = tree.unflatten(self.structure, [from_ref(r) for r in outs])
            directed = "tangents" if kind == "jvp" else "cotangent"
            check_callable(rule, f"{self.what}, its {kind}", ("primals", "out", directed))
            answer = rule(primals, out, beside(directions))
            results = self._checked(kind, answer, structure, places, expected)
            self.owed += tracer.settle_block(results)
            block = ir.Block(tuple(scope.statements), tuple(results))
            return ir.Rule((*outs, *directions), block, getattr(rule, "__name__", kind))

    def _checked(
        self, kind: str, answer: Any, structure: Structure, places: Sequence[int], expected: Sequence[ir.Ref]
    ) -> list[ir.Ref]:
        """The arrays of a rule's result, with zeros for None."""
        found = _leaves_beside(answer, structure)
        paths = tree.leaf_paths(structure, "result")
        if found is None or any(v is not None for k, v in enumerate(found) if k not in places):
            given = "one array" if tree.open_node(answer) is None else f"a tree {tree.flatten(answer)[1]}"
            wanted = f"a tree like {structure}" if structure.keys else "one array"
            raise self._wrong(kind, f"gives {given}", f"{wanted}, None for what is zero or not floating-point")
        out: list[ir.Ref] = []
        for k, r in zip(places, expected, strict=True):
            like = from_ref(r)
            if found[k] is None:
                h = view(r.shape, r.dtype, lambda i, r=r: expr.zero(r.dtype))  # type: ignore[misc]
            else:
                h = as_array(found[k], f"{kind} of {self.what}")
                if h.weak is not None:
                    h = view(r.shape, r.dtype, lambda i, h=h, r=r: h.element((), r.dtype))  # type: ignore[misc]
                elif r in self.given.weak and h.settled.is_floating:
                    h = convert(h, r.dtype)
            if h.strong is not r.dtype or h.extents != r.shape:
                raise self._wrong(kind, f"gives {type_text(h)} for {paths[k]}, which is {type_text(like)}", None)
            out.append(ref_of(h, f"{r.name}_{'dot' if kind == 'jvp' else 'bar'}"))
        return out

    def _wrong(self, kind: str, found: str, remedy: str | None) -> DerivativeError:
        needed = "one tangent for each result" if kind == "jvp" else "a tuple with one cotangent for each argument"
        return DerivativeError(
            "E252",
            f"{self.what}: its {kind} {found}",
            position=self.position,
            remedy=f"return {needed}" + (f": {remedy}" if remedy else ", of its shape and element type"),
        )


def _leaves_beside(answer: Any, structure: Structure) -> list[Any] | None:
    """The result's entry for each leaf of the structure; None if the trees differ."""
    if structure.kind == "leaf":
        node = tree.open_node(answer)
        return [answer] if node is None or node[0].kind == "none" else None
    if answer is None:
        return [None] * _count(structure)
    node = tree.open_node(answer)
    if node is None or node[0].kind != structure.kind or node[0].keys != structure.keys:
        return None
    out: list[Any] = []
    for child, s in zip(node[1], structure.children, strict=True):
        below = _leaves_beside(child, s)
        if below is None:
            return None
        out += below
    return out


def _count(s: Structure) -> int:
    return 1 if s.kind == "leaf" else sum(map(_count, s.children))
