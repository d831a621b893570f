"""A Python function traced for one signature: its program, and the structure of its results."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from types import CodeType
from typing import Any

from pullback.calls.annotated import check_result
from pullback.calls.arguments import Leaf
from pullback.calls.extents import check_solvable
from pullback.calls.mistakes import explained
from pullback.calls.policy import backend
from pullback.calls.signature import Parameter, Signature, called_with, code_of
from pullback.calls.specs import Spec
from pullback.clock import stage
from pullback.errors import PullbackError, ShapeError, together
from pullback.ir import nodes as ir
from pullback.ir.expr import in_order, is_in_order
from pullback.ir.identity import digest, identity
from pullback.ir.index import Index, symbol
from pullback.ir.intern import uncollected
from pullback.ir.program import block_reads, program_of
from pullback.ir.settings import Settings
from pullback.records import dataclass, field, replace
from pullback.rewrite.fired import recording
from pullback.source import returning_from, user_position
from pullback.tracing import tree
from pullback.tracing.active import float_beside, is_tracing, tracing
from pullback.tracing.array import Weak, from_index
from pullback.tracing.lift import free_variables
from pullback.tracing.making import as_array, from_ref, ref_of, weak_input
from pullback.tracing.naming import assigned_name
from pullback.tracing.printing import Prints
from pullback.tracing.tracer import Tracer, current
from pullback.tracing.tree import Structure


@dataclass
class Traced:
    """A program or its outline, with the structure of its results. `leaves` are its input arguments.

    `foreign` are arrays of the function around a closure. They are inputs after the arguments.
    `prints` is what a call prints, also for a function derived from the printing one. It is `enclosed` if it was traced
    inside another function, whose dims it may then contain. `own` holds the dims that have C of their own.
    `general` holds its open-size code for each target.
    Its function sets its `signature`.
    """

    known: ir.Known
    structure: Structure
    leaves: tuple[Leaf, ...]
    foreign: tuple[ir.Ref, ...] = ()
    enclosed: bool = False
    prints: Prints | None = None
    own: set[tuple[int, ...]] = field(default_factory=set, init=False)
    general: dict[Any, Any] = field(default_factory=dict, init=False)
    signature: Signature = field(init=False, compare=False)

    @property
    def program(self) -> ir.Program:
        """The program, created now if only its outline was known."""
        return program_of(self.known)

    @cached_property
    def shown(self) -> ir.Known:
        """The program with its prints as further results; without them if that is impossible."""
        prints = self.prints
        if prints is None:
            return self.known
        if prints.of is self.known:
            return prints.known
        return prints.beside(self.known) or self.known

    @cached_property
    def identity(self) -> str:
        """A digest of the program, or of the ingredients of an outline."""
        return identity(self.known)

    @property
    def closes_over_indices(self) -> bool:
        """Whether the program contains index variables of the function around a closure."""
        known = self.known
        return isinstance(known, ir.Program) and any(free_variables(s, {}) for s in known.body.statements)

    @property
    def captured(self) -> list[Any]:
        """The captured NumPy arrays, which are the last inputs of the program."""
        return list(self.known.settings.captured)


def trace(
    f: Callable[..., Any],
    name: str,
    parameters: Sequence[Parameter],
    result: Spec,
    signature: Signature,
    settings: Settings,
    donate: Sequence[str] = (),
) -> Traced:
    """Run f on symbolic arrays and record its operations as a program.

    Args:
        result: the specification of the result.
        donate: the parameters whose memory results may take.
    """
    inputs = [leaf for leaf in signature.flat if leaf.is_input]
    arrays = [leaf.dtype for leaf in inputs if leaf.kind == "array" and leaf.dtype is not None]
    parent = current() if is_tracing() else None
    tracer = Tracer(name, float_beside(arrays) if arrays or parent is None else parent.default_float, parent)
    with tracing(tracer):
        sizes = [leaf.size for leaf in signature.flat if leaf.kind == "size"]
        shapes = [(leaf.path, leaf.extents) for leaf in inputs]
        around = [s.name for leaf in inputs for t in leaf.dims if isinstance(t, Index) for s in t.symbols]
        error = check_solvable(shapes, [*sizes, *around])
        if error is not None:
            raise error
        extents = dict(shapes)
        values = [[_argument(tracer, leaf, extents.get(leaf.path, ())) for leaf in g] for g in signature.leaves]
        arguments = [tree.unflatten(s, v) for s, v in zip(signature.structures, values)]
        named = dict(zip((p.name for p in parameters), arguments))

        def check(found: Any) -> None:
            check_result(name, result, found, signature.flat)

        def body() -> Any:
            try:
                return called_with(f, parameters, arguments)
            except Exception as error:
                made = explained(error, name, named)
                if made is error:
                    raise
                raise made.with_traceback(error.__traceback__) from None

        settings = replace(settings, donate=_positions(parameters, signature, donate))
        program, structure = run(tracer, body, inspect.getdoc(f) or "", settings, code_of(f), check)
    return Traced(program, structure, tuple(inputs), tuple(tracer.foreign), parent is not None, tracer.printed)


def _positions(parameters: Sequence[Parameter], signature: Signature, names: Sequence[str]) -> tuple[int, ...]:
    """The positions of the program's inputs that belong to the parameters of these names."""
    owners = [p.name for p, leaves in zip(parameters, signature.leaves) for leaf in leaves if leaf.is_input]
    return tuple(k for k, owner in enumerate(owners) if owner in names)


def derived(
    base: Traced,
    name: str,
    body: Callable[[ir.Program], ir.Block],
    what: object,
    inputs: Sequence[ir.Ref],
    outputs: Sequence[ir.Ref],
    names: Sequence[str],
    structure: Structure,
    leaves: Sequence[Leaf] = (),
    settings: Settings | None = None,
) -> Traced:
    """Derive a function from another, in outline if the cache knows that it can be derived.

    A function that is derived for the first time is made at once, so that errors appear where they are expected. So are
    enclosed functions, and derivations that are recorded.

    Args:
        body: a function that makes the body from the base's program.
        what: a value whose text identifies everything else that the body depends on.
        inputs: all inputs; inputs for `leaves` come after the arguments of the base.
        outputs: arrays like the results, and `names` for them.
        leaves: the additional arguments.
        settings: the settings; by default those of the base.
    """
    from pullback.runtime.record import note_derived, was_derived

    known = base.known
    made = ir.Outline(
        name,
        tuple(inputs),
        tuple(outputs),
        digest(name, str((what, [(leaf.kind, leaf.dtype) for leaf in leaves])), base.identity),
        lambda: _made(made, base, body),
        tuple(names),
        known.requires,
        known.sizes,
        known.doc,
        known.settings if settings is None else settings,
    )
    leaves = (*base.leaves, *leaves)
    if base.foreign or _reads_around(known) or recording() or (is_tracing() and base.closes_over_indices):
        return replace(base, known=made.program, structure=structure, leaves=leaves)
    if backend() != "c" or not was_derived(made.identity):
        program_of(made)
        note_derived(made.identity)
    return replace(base, known=made, structure=structure, leaves=leaves)


def _reads_around(known: ir.Known) -> bool:
    """Whether a program contains expressions of an enclosing function, so that it cannot join it later."""
    return isinstance(known, ir.Program) and not block_reads(known.body).keys() <= set(known.inputs)


def _made(made: ir.Outline, base: Traced, body: Callable[[ir.Program], ir.Block]) -> ir.Program:
    from pullback.rewrite.copies import tidy
    from pullback.rewrite.trim import trim

    program = trim(base.program)
    with uncollected(), stage(f"derive {made.name}"), in_order(program.settings.exact):
        return tidy(made.with_body(body(program)))


def run(
    tracer: Tracer,
    body: Callable[[], Any],
    doc: str,
    settings: Settings,
    code: CodeType | None,
    check: Callable[[Any], None],
) -> tuple[ir.Known, Structure]:
    """Run `body` under the active tracer; return its program and the structure of its result.

    Args:
        code: the code that the body runs.
        check: refuses an invalid result.
    """
    try:
        result = body()
        with returning_from(code):
            leaves, structure = tree.flatten(result)
            if not leaves:
                raise ShapeError(
                    "E104",
                    f"{tracer.name} returns nothing that could be computed",
                    position=user_position(),
                    remedy="return an array or a tree of arrays",
                )
            handles = [as_array(leaf, "result") for leaf in leaves]
            check(result)
            own = identifier(tracer.name) or "out"
            refs = [ref_of(h, own) for h in handles]
            taken = {r.name for r in tracer.inputs}
            assigned = [assigned_name(tracer.origins.get(r)) for r in refs]
            names = tree.leaf_names(structure, own=[None if n in taken else n for n in assigned])
    except PullbackError as error:
        if tracer.errors and error not in tracer.errors:
            raise together([*tracer.errors, error]) from None
        raise
    program = tracer.finish(refs, _unique(names), doc, replace(settings, exact=is_in_order()))
    return program, structure


def _unique(names: Sequence[str]) -> list[str]:
    out: dict[str, None] = {}
    for n in names:
        while n in out:
            n += "_"
        out[n] = None
    return list(out)


def _argument(tracer: Tracer, leaf: Leaf, extents: tuple[Any, ...]) -> Any:
    if leaf.kind == "static":
        return leaf.value
    if leaf.kind == "index":
        return from_index(leaf.value)
    if leaf.kind == "size":
        tracer.sizes[leaf.size] = None
        return from_index(symbol(leaf.size))
    assert leaf.dtype is not None
    for e in extents:
        if e.constant is None:
            tracer.extent(e, leaf.path)
    ref = tracer.input(identifier(leaf.path), leaf.dtype, extents)
    if leaf.kind == "array":
        return from_ref(ref)
    kinds: dict[str, Weak] = {"int": "integer", "float": "floating", "bool": "bool"}
    return weak_input(ref, kinds[leaf.kind])


def identifier(path: str) -> str:
    """`params['w'][0]` as `params_w_0`."""
    return re.sub(r"[\W_]+", "_", path).strip("_")


__all__ = ["Traced", "derived", "identifier", "run", "trace"]
