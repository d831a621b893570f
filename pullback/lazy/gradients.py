"""Derivatives: `backward` into weights, and `grad` of functions with any control flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final

import numpy as np

from pullback.errors import DerivativeError
from pullback.lazy.copies import moved
from pullback.lazy.higher import differentiable_cotangents, variable
from pullback.lazy.leaving import OPEN, check_leaves
from pullback.lazy.node import BUSY, LOCK, Array, added, stored, value_of
from pullback.lazy.operation import as_operand
from pullback.lazy.places import leaf_at
from pullback.lazy.plan import planned
from pullback.lazy.plugins import PLUGGED, Plugin, having, mistaken, unseen
from pullback.lazy.quick import both
from pullback.lazy.running import Straight, at_once, attach, run_chunks, thread_count, under_way
from pullback.lazy.tape import Cotangents, Tape, walk_back
from pullback.lazy.weight import Weight
from pullback.source import user_position
from pullback.state import context_variable
from pullback.tracing import tree

__all__ = ["backward", "grad", "value_and_grad"]


_INSIDE: Final[ContextVar[bool]] = context_variable("inside", False)  # whether a function is being differentiated


def cotangents_of(loss: Array, seed: Any, retain: bool, stops: Sequence[Array] = ()) -> dict[Array, Any]:
    """The cotangents of all tracked leaves below an array, given its own cotangent; None means 1."""
    cotangents = Cotangents(stops)
    with LOCK, BUSY:
        since = under_way()
        try:
            threads = thread_count()
            _run_forward(loss, seed, retain, cotangents, threads)
            return walk_back(cotangents, retain, lambda calls: at_once(calls, threads))
        except BaseException:
            attach(since)
            raise


def _run_forward(loss: Array, seed: Any, retain: bool, cotangents: Cotangents, threads: int) -> None:
    """Compute the loss, and add its cotangent."""
    if seed is None and (found := both(loss)) is not None:
        count, leaves, values = found
        for x, cotangent in zip(leaves, values):
            cotangents.add(x, cotangent)
        if count == 1 and not retain and loss.origin is not None:
            loss.origin[0].release()
        return
    chunks = planned([loss], threads)
    is_whole = len(chunks) == 1
    last = chunks.pop() if chunks and seed is None and not chunks[-1][0].application.foreign else None
    try:
        run_chunks(chunks, threads)
        if last is None:
            cotangents.add(loss, np.ones(loss.shape, loss.type.numpy) if seed is None else seed)
        else:
            _run_both(last, loss, cotangents, retain, threads if is_whole else None)
    finally:
        if last is not None:
            last.clear()


def _run_both(chunk: list[Array], loss: Array, cotangents: Cotangents, retain: bool, threads: int | None) -> None:
    """Run a chunk that ends in the loss: forward and backward in one kernel.

    Args:
        threads: their number, if the chunk is all that there is to run.
    """
    straight = Straight()
    straight.begin(chunk)
    place = next(k for k, x in enumerate(straight.outputs) if x is loss)
    made = straight.piece.both(straight.wrt, place) if straight.wrt else None
    if made is None or made.kernel is None:
        straight.settle(straight.compute())
        return
    leaves = straight.leaves
    results = straight.compute(made.kernel)
    tape = Tape(straight.piece, straight.wrt, leaves, None) if straight.tracked else None
    straight.settle_with(results, tape)
    for k, cotangent in zip(made.places, results[len(straight.outputs) :]):
        cotangents.add(leaves[k], cotangent)
    if threads is not None and place == 0:
        straight.note(threads, made)
    if tape is not None and not retain and len(straight.outputs) == 1:
        tape.release()


def _scalar(loss: Any, what: str) -> Array:
    """Return the loss as an array of one floating-point number.

    Raises:
        DerivativeError: [E201] the loss is not one floating-point number.
    """
    if not isinstance(loss, Array) or loss.shape or not loss.type.floating or loss.type.form:
        found = repr(loss.type) if isinstance(loss, Array) else type(loss).__name__
        raise DerivativeError("E201", f"{what} is {found}, and a gradient is that of one floating-point number",
                              position=user_position(), remedy="reduce it, e.g. with `lazy.sum`")  # fmt: skip
    return loss.leaf


def backward(loss: Array, gradient: Any = None, *, retain_graph: bool = False) -> float:
    """Run the network backward: add gradients to `weight.grad` of every weight below the loss.

    Args:
        loss: one number; or any array, if `gradient` has its shape.
        gradient: the cotangent of `loss`; 1 by default.
        retain_graph: whether to keep the residuals for another backward pass.
    Returns:
        The loss.
    Raises:
        DerivativeError: [E201] the loss is not one number. [E702] The loss has run backward before. [E703] A weight has
            changed since its value was used. [E715] an active gradient depends on the loss.
    Cost:
        One to two forward passes. Until then, `lazy.stats().live_bytes` bytes are kept. The walk over tapes with reader
        counts is that of Yang (2019), *Monadic deep learning*, section 5.

    >>> import numpy as np
    >>> from pullback import lazy
    >>> w = lazy.Weight(np.array([1.0, 2.0]))
    >>> lazy.backward(lazy.sum(w * w))
    5.0
    >>> w.grad.tolist()
    [2.0, 4.0]
    """
    return backward_into(loss, gradient, retain_graph)[0]


def backward_into(loss: Array, gradient: Any = None, retain_graph: bool = False) -> tuple[float, list[Weight]]:
    """As `backward`; return the loss, and the weights below it."""
    loss = loss.leaf if gradient is not None else _scalar(loss, "backward: the loss")
    check_leaves(loss, "lazy.backward()")
    seed = None if gradient is None else as_operand(gradient)
    if seed is not None:
        check_leaves(seed, "lazy.backward(gradient=...)")
    found = cotangents_of(loss, None if seed is None else stored(seed), retain_graph)
    weights = {x.origin: d for x, d in found.items() if isinstance(x.origin, Weight)}
    for x in found:
        if isinstance(x.origin, Weight) and x.origin.leaf is not x:
            raise DerivativeError(
                "E703",
                f"{x.origin.name} was changed between the forward and the backward pass",
                position=user_position(),
                remedy="run the network again, or change weights after its backward pass",
            )
    if PLUGGED and (plugins := having("backward")):
        with unseen():
            weights = _plugged(weights, plugins)
    for weight, own in weights.items():
        weight.grad = own if weight.grad is None else added(weight, weight.grad, own)
    return float(value_of(loss)) if not loss.shape else float("nan"), list(weights)


def _plugged(gradients: dict[Weight, Any], plugins: Sequence[Plugin]) -> dict[Weight, Any]:
    """Gradients by way of plugins.

    Raises:
        TraceError: [E716] a plugin gives something else than gradients of these weights.
    """
    for own in plugins:
        given = {w: leaf_at(d, w.type.device) if hasattr(d, "dtype") else d for w, d in gradients.items()}
        found: Any = own.backward(dict(given))
        if not isinstance(found, dict) or not given.keys() >= found.keys():
            what = "does not return a dict of gradients of the weights that it was given"
            raise mistaken([own], "backward", what, "`return {w: … for w, g in gradients.items()}`")
        gradients = {w: _checked(own, w, given[w], found[w]) for w in given if w in found}
    return gradients


def _checked(plugin: Plugin, weight: Weight, given: Any, found: Any) -> Any:
    """A gradient that a plugin returns for a weight, as it is stored."""
    if not isinstance(given, Array):  # of a type of the user's own
        return found
    x = as_operand(found)
    if x.type is not weight.type:
        what = f"gives {x.type} as the gradient of {weight.name} : {weight.type}"
        raise mistaken([plugin], "backward", what, "a gradient has the shape, element type and device of its weight")
    return stored(x)


def _leaves(x: Any) -> tuple[list[Array], tree.Structure]:
    """The arrays of an argument and its structure; lists of numbers become arrays."""
    parts, structure = tree.flatten(x)
    if isinstance(x, list) and all(isinstance(y, int | float | complex) for y in x):
        parts, structure = [np.asarray(x)], tree.LEAF
    found, structure = _whole(structure, iter(parts))
    return [as_operand(y) for y in found], structure


def _whole(s: tree.Structure, parts: Iterator[Any]) -> tuple[list[Any], tree.Structure]:
    """The leaves of a structure without splitting complex arrays, and the structure of these leaves."""
    if s.kind == "leaf":
        return [next(parts)], s
    if s.kind == "complex":
        return [tree.unflatten(s, [np.asarray(next(parts)) for _ in s.children])], tree.LEAF
    found = [_whole(c, parts) for c in s.children]
    return [y for own, _ in found for y in own], replace(s, children=tuple(c for _, c in found))


def _gradient(x: Array, found: Any) -> Array:
    """The cotangent of a variable as an array at the variable's place; None means zero."""
    if isinstance(found, Array):
        return moved(found, x.device)
    return leaf_at(np.zeros(x.shape, x.type.numpy) if found is None else found, x.type.device)


def value_and_grad(
    f: Callable[..., Any], wrt: int | Sequence[int] = 0, *, differentiable: bool | None = None
) -> Callable[..., Any]:
    """Return a function for `(value, gradient)` of a function of lazy arrays, with any control flow.

    Arguments and errors are those of `grad`.

    Cost:
        One run of f, forward and backward.

    >>> from pullback import lazy
    >>> value, gradient = lazy.value_and_grad(lambda x: lazy.sum(x * x))(lazy.asarray([1.0, 2.0]))
    >>> float(value), gradient.tolist()
    (5.0, [2.0, 4.0])
    """
    several = not isinstance(wrt, int)
    positions = (wrt,) if isinstance(wrt, int) else tuple(wrt)
    what = f"grad({getattr(f, '__name__', 'f')}): the result"

    def call(*args: Any, **keywords: Any) -> Any:
        given = list(args)
        variables: list[Array] = []
        structures = []
        again = _INSIDE.get() if differentiable is None else differentiable
        for k in positions:
            leaves, structure = _leaves(given[k])
            again = again or any(x.tracked for x in leaves)
            own = [variable(x) for x in leaves]
            given[k] = tree.unflatten(structure, own)
            variables += own
            structures.append((structure, len(own)))
        token = _INSIDE.set(True)
        OPEN.update(variables)
        try:
            loss = _scalar(f(*given, **keywords), what)
        finally:
            OPEN.difference_update(variables)
            _INSIDE.reset(token)
        found = differentiable_cotangents(loss, variables) if again else cotangents_of(loss, None, False, variables)
        arrays = iter([_gradient(x, found.get(x)) for x in variables])
        trees = [tree.unflatten(structure, [next(arrays) for _ in range(count)]) for structure, count in structures]
        return loss, tuple(trees) if several else trees[0]

    return call


def grad(
    f: Callable[..., Any], wrt: int | Sequence[int] = 0, *, differentiable: bool | None = None
) -> Callable[..., Any]:
    """Return the gradient function of a scalar function of lazy arrays, with any Python control flow.

    Args:
        f: the function.
        wrt: the position of the argument to differentiate by, or several positions. The argument may be a tree of
            arrays.
        differentiable: whether the gradient can be differentiated. The default is True inside a function that is being
            differentiated. Use True for a gradient in a loss, so that weights get their cotangents.
    Returns:
        A function of the same arguments that returns an array like the argument, or a tuple of such arrays.
    Raises:
        DerivativeError: [E201] the result of f is not one floating-point number. [E708] a second derivative reaches an
            operation in Python. [E715] a value that the gradient depends on is converted to a number.
    Cost:
        One run of f, forward and backward.

    >>> from pullback import lazy
    >>> def f(x):
    ...     while x < 100.0:
    ...         x = x * x
    ...     return x
    >>> float(lazy.grad(f)(3.0)), float(lazy.grad(lazy.grad(f))(3.0))  # of x⁸
    (17496.0, 40824.0)
    """
    both = value_and_grad(f, wrt, differentiable=differentiable)
    return lambda *args, **keywords: both(*args, **keywords)[1]
