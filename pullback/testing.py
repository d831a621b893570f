"""Tests of derivatives by finite differences and against one another, and of C by the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pullback.calls import Function, function
from pullback.calls.signature import bind, signature_of
from pullback.derivatives.modes import jvp, vjp
from pullback.tracing import tree
from pullback.tracing.tree import Structure

NDArray = np.ndarray[Any, Any]
CheckedMode = Literal["forward", "reverse"]


@dataclass(frozen=True)
class Tolerance:
    """Tolerances: |a - b| <= absolute + relative * |b|; `step` is that of finite differences."""

    relative: float
    absolute: float
    step: float


DOUBLE = Tolerance(1e-5, 1e-6, 1e-5)
SINGLE = Tolerance(3e-2, 2e-2, 1e-2)


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    modes: Sequence[CheckedMode] = ("forward", "reverse"),
    order: int = 2,
    *,
    tolerance: Tolerance | None = None,
    elements: int = 16,
    seed: int = 0,
) -> None:
    """Check the derivatives of a function at a point where it is smooth.

    Checked are: the interpreter and C give the same values; forward and reverse mode agree with central differences;
    <v̄, J v> = <Jᵀ v̄, v> for random v and v̄; and the same of the derivatives themselves, up to `order`.

    Args:
        f: the function; its results may be trees, and its integer arguments are not differentiated.
        args: where to check, one item for each parameter.
        modes: "forward", "reverse" or both.
        order: 1 for first derivatives, 2 for second ones too, of every mode in every mode.
        tolerance: by default one that suits the narrowest floating-point type among arguments and results.
        elements: at most this many random elements of each argument are compared with differences.
        seed: of the random choices.
    Raises:
        AssertionError: a derivative is wrong; the message names the argument, the position and both values.

    >>> import numpy as np, pullback as pb
    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> @pb.function
    ... def energy(x: Float64[Array, "N"]):
    ...     return pb.sum(pb.sin(x) * x)
    >>> check_grads(energy, (np.array([0.1, 0.2]),))
    """
    for mode in modes:
        if mode not in ("forward", "reverse"):
            raise ValueError(f'modes={modes!r}: each is "forward" or "reverse"')
    if order < 1:
        raise ValueError(f"order={order!r}: at least 1")
    made = f if isinstance(f, Function) else function(f)
    _Check(tuple(modes), tolerance, elements, np.random.default_rng(seed)).function(made, tuple(args), order)


class _Point:
    """The arguments of a call as leaves, with the movable ones marked."""

    def __init__(self, f: Function, args: tuple[Any, ...]) -> None:
        signature, values = signature_of(f.parameters, bind(f.name, f.parameters, args, {}))
        self.structures: tuple[Structure, ...] = signature.structures
        self.counts = [len(group) for group in signature.leaves]
        self.values = list(values)
        self.paths = [leaf.path for leaf in signature.flat]
        self.floating = []
        for k, leaf in enumerate(signature.flat):
            if leaf.is_input and leaf.dtype is not None and leaf.dtype.is_floating:
                self.values[k] = np.array(values[k], leaf.dtype.numpy)
                self.floating.append(k)

    def arguments(self, values: Sequence[Any]) -> list[Any]:
        """The arguments of these leaves."""
        out, at = [], 0
        for s, n in zip(self.structures, self.counts, strict=True):
            out.append(tree.unflatten(s, values[at : at + n]))
            at += n
        return out

    def moved(self, leaf: int, position: tuple[int, ...], by: float) -> list[Any]:
        """The arguments with one element moved."""
        values = list(self.values)
        values[leaf] = values[leaf].copy()
        values[leaf][position] += by
        return self.arguments(values)

    def directions(self, given: dict[int, NDArray]) -> list[Any]:
        """Tangents: the given ones, else None."""
        return self.arguments([given.get(k) for k in range(len(self.values))])


def _floating(result: Any) -> list[NDArray]:
    leaves = [np.asarray(leaf) for leaf in tree.flatten(result)[0]]
    return [leaf for leaf in leaves if leaf.dtype.kind == "f"]


def _result_paths(result: Any) -> list[str]:
    leaves, structure = tree.flatten(result)
    paths = tree.leaf_paths(structure, "the result")
    return [p for p, leaf in zip(paths, leaves, strict=True) if np.asarray(leaf).dtype.kind == "f"]


@dataclass
class _Check:
    modes: tuple[str, ...]
    tolerance: Tolerance | None
    elements: int
    rng: np.random.Generator

    def function(self, f: Function, args: tuple[Any, ...], order: int) -> None:
        """One function at one point."""
        point = _Point(f, args)
        result = f(*point.arguments(point.values))
        self.same_in_c(f, point, result)
        outs = _floating(result)
        if not point.floating or not outs:
            what = "no argument" if not point.floating else "no result"
            raise AssertionError(f"check_grads({f.name}): {what} is floating-point")
        kinds = {a.dtype for a in outs} | {point.values[k].dtype for k in point.floating}
        near = self.tolerance or (SINGLE if np.dtype(np.float32) in kinds else DOUBLE)
        tangents = {k: self.random(point.values[k]) for k in point.floating}
        cotangents = [self.random(a) for a in outs]
        bars = self.tree_of(result, cotangents)
        differences = self.differences(f, point, near)
        forward, backward = jvp(f), vjp(f)
        if "forward" in self.modes:
            for (leaf, position), column in differences.items():
                units = {k: np.zeros_like(point.values[k]) for k in point.floating}  # all given: one program for all
                units[leaf][position] = 1
                primals = tuple(point.arguments(point.values))
                _, dots = forward(primals, tuple(point.directions(units)))
                for path, found, expected in zip(_result_paths(result), _floating(dots), column, strict=True):
                    self.compare(f, point, leaf, position, "forward mode", found, expected, near, path)
        if "reverse" in self.modes:
            _, found_bars = backward(*point.arguments(point.values), bars)
            gradients = dict(zip(point.floating, _floating(found_bars), strict=True))
            for (leaf, position), column in differences.items():
                total = sum(float((c * d).sum()) for c, d in zip(cotangents, column, strict=True))
                size = sum(float(np.abs(c * d).sum()) for c, d in zip(cotangents, column, strict=True))
                wide = Tolerance(near.relative, near.absolute * max(1.0, size), near.step)
                found = np.asarray(gradients[leaf][position])
                self.compare(f, point, leaf, position, "reverse mode", found, np.asarray(total), wide, "")
        if len(self.modes) == 2:
            self.duality(f, point, tangents, gradients, cotangents, near)
        if order > 1:
            if "forward" in self.modes:
                primals = tuple(point.arguments(point.values))
                self.function(forward, (primals, tuple(point.directions(tangents))), order - 1)
            if "reverse" in self.modes:
                self.function(backward, (*point.arguments(point.values), bars), order - 1)

    def random(self, like: NDArray) -> NDArray:
        return np.asarray(self.rng.uniform(0.5, 1.5, like.shape) * self.rng.choice([-1, 1], like.shape), like.dtype)

    def tree_of(self, result: Any, cotangents: Sequence[NDArray]) -> Any:
        """The cotangents in the result's structure, None for leaves that are not floating."""
        leaves, structure = tree.flatten(result)
        rest = iter(cotangents)
        return tree.unflatten(structure, [next(rest) if np.asarray(a).dtype.kind == "f" else None for a in leaves])

    def differences(
        self, f: Function, point: _Point, near: Tolerance
    ) -> dict[tuple[int, tuple[int, ...]], list[NDArray]]:
        """Central differences of all results by some elements of each argument."""
        out = {}
        for leaf in point.floating:
            places = list(np.ndindex(point.values[leaf].shape))
            if len(places) > self.elements:
                places = [places[i] for i in sorted(self.rng.choice(len(places), self.elements, replace=False))]
            for position in places:
                step = near.step * max(1.0, abs(float(point.values[leaf][position])))
                up, down = (_floating(f(*point.moved(leaf, position, s))) for s in (step, -step))
                out[leaf, position] = [
                    (np.asarray(a, np.float64) - b) / (2 * step) for a, b in zip(up, down, strict=True)
                ]
        return out

    def compare(
        self,
        f: Function,
        point: _Point,
        leaf: int,
        position: tuple[int, ...],
        mode: str,
        found: NDArray,
        expected: NDArray,
        near: Tolerance,
        path: str,
    ) -> None:
        close = np.abs(found - expected) <= near.absolute + near.relative * np.abs(expected)
        if close.all():
            return
        worst = tuple(int(i) for i in np.argwhere(~close)[0])
        of = f" of {path}{list(worst) if worst else ''}" if path else ""
        by = f"{point.paths[leaf]}{list(position) if position else ''}"
        raise AssertionError(
            f"check_grads({f.name}): the derivative{of} by {by} is {float(found[worst]):.9g} in {mode} "
            f"and {float(expected[worst]):.9g} by differences"
        )

    def duality(
        self,
        f: Function,
        point: _Point,
        tangents: dict[int, NDArray],
        gradients: dict[int, NDArray],
        cotangents: Sequence[NDArray],
        near: Tolerance,
    ) -> None:
        """<v̄, J v> = <Jᵀ v̄, v>."""
        _, dots = jvp(f)(tuple(point.arguments(point.values)), tuple(point.directions(tangents)))
        terms = [(c * d).astype(np.float64) for c, d in zip(cotangents, _floating(dots), strict=True)]
        others = [(gradients[k] * tangents[k]).astype(np.float64) for k in point.floating]
        left, right = (float(sum(t.sum() for t in ts)) for ts in (terms, others))
        size = float(sum(np.abs(t).sum() for t in (*terms, *others)))
        single = any(t.dtype == np.float32 for t in (*cotangents, *tangents.values()))
        if not abs(left - right) <= (1e-4 if single else 1e-10) * max(1.0, size):
            raise AssertionError(
                f"check_grads({f.name}): <v̄, J v> is {left:.9g} in forward mode, "
                f"<Jᵀ v̄, v> is {right:.9g} in reverse mode"
            )

    def same_in_c(self, f: Function, point: _Point, result: Any) -> None:
        """Check that the interpreter and C agree."""
        other = f.interpret(*point.arguments(point.values))
        leaves, structure = tree.flatten(result)
        for path, a, b in zip(tree.leaf_paths(structure, "the result"), leaves, tree.flatten(other)[0], strict=True):
            a, b = np.asarray(a), np.asarray(b)
            if a.dtype.kind == "f":
                scale = float(np.abs(b[np.isfinite(b)]).max(initial=1.0))
                close = np.isclose(
                    a, b, rtol=0, atol=(1e-4 if a.dtype == np.float32 else 1e-10) * scale, equal_nan=True
                )
            else:
                close = a == b
            if not close.all():
                worst = tuple(int(i) for i in np.argwhere(~close)[0])
                raise AssertionError(
                    f"check_grads({f.name}): {path}{list(worst) if worst else ''} is {a[worst]} in C and {b[worst]} in "
                    "the interpreter"
                )
