"""Oracle transformations: derivatives by dual numbers, all partials in one run; vmap; user rules."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from tests.support.oracle import arrays, notation, numbers, trees
from tests.support.oracle.arrays import (
    FLOAT32,
    FLOAT64,
    WEAK_FLOAT,
    Array,
    OracleError,
    as_array,
    convert,
    subscript,
)
from tests.support.oracle.elementwise import strong
from tests.support.oracle.functions import moveaxis
from tests.support.oracle.numbers import Dual, Number

_tags = count()
_depth = [0]


class Function:
    """A user's function: called with NumPy arrays it converts them, inside others it runs as is."""

    parameters: list[str]

    def __init__(self, f: Callable[..., Any], parameters: Sequence[str] | None = None) -> None:
        functools.update_wrapper(self, f)
        self.run = f  # what is called inside others
        if parameters is None:
            parameters = f.parameters if isinstance(f, Function) else list(inspect.signature(f).parameters)
        self.parameters = list(parameters)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """The result, in arrays of the oracle."""
        if _depth[0]:
            return self.run(*args, **keywords)
        taken = [leaf for leaf in trees.leaves([list(args), keywords]) if isinstance(leaf, np.ndarray | np.generic)]
        floating = [a.dtype for a in taken if a.dtype.kind == "f"]
        single = bool(floating) and all(d == np.float32 for d in floating)
        _depth[0] += 1
        arrays._default_float.append(FLOAT32 if single else FLOAT64)
        try:
            given = [_entered(a) for a in args]
            return trees.mapped(strong, self.run(*given, **{k: _entered(v) for k, v in keywords.items()}))
        finally:
            arrays._default_float.pop()
            _depth[0] -= 1


def _entered(x: Any) -> Any:
    return trees.mapped(lambda a: as_array(a) if isinstance(a, np.ndarray | np.generic) else a, x)


def function(f: Callable[..., Any] | None = None, **settings: Any) -> Any:
    """The function; how it is compiled plays no part."""
    return (lambda g: Function(g)) if f is None else Function(f)


def _as_function(f: Callable[..., Any]) -> Function:
    return f if isinstance(f, Function) else Function(f)


# ---------------------------------------------------------------- seeds


class _Moved:
    """Arguments with derivatives: the elements to differentiate by, and the arguments with duals."""

    def __init__(self, args: Sequence[Any], places: Sequence[int]) -> None:
        self.tag = next(_tags)
        self.given: list[list[Array]] = []
        self.args = list(args)
        at = 0
        for k in places:
            leaves = []
            made = []
            for leaf in trees.leaves(args[k]):
                a = as_array(leaf)
                if not a.dtype.floating:
                    leaves.append(a)
                    made.append(leaf)
                    continue
                duals = [Dual(self.tag, e, {at + n: _one(e)}) for n, e in enumerate(a.data)]
                leaves.append(a)
                made.append(Array(a.shape, a.dtype, duals))
                at += a.size
            self.given.append(leaves)
            self.args[k] = trees.rebuilt(args[k], made)
        self.count = at

    def primal(self, result: Any) -> Any:
        """The result without these dual parts."""
        return trees.mapped(lambda a: _parts(as_array(a), self.tag, None), result)

    def partial(self, a: Array, k: int) -> Array:
        """The derivative of an array by one element."""
        return _parts(a, self.tag, k)


def _one(like: Number) -> Number:
    return numbers.lift(1.0, like)


def _parts(a: Array, tag: int, k: int | None) -> Array:
    if not a.dtype.floating:
        return a
    return Array(a.shape, a.dtype, [_part(e, tag, k) for e in a.data])


def _part(e: Number, tag: int, k: int | None) -> Number:
    if type(e) is Dual and e.tag == tag:
        if k is None:
            return e.primal
        return e.partials[k] if k in e.partials else numbers.lift(0.0, e)
    if type(e) is Dual and e.tag > tag:
        raise OracleError("a derivative left its function")
    return e if k is None else numbers.lift(0.0, e)


def _chosen(f: Function, wrt: Any) -> tuple[list[int], bool]:
    several = isinstance(wrt, tuple | list)
    wanted = wrt if several else (0 if wrt is None else wrt,)
    return [f.parameters.index(w) if isinstance(w, str) else w % len(f.parameters) for w in wanted], several


def _bound(f: Function, args: Sequence[Any], keywords: dict[str, Any]) -> list[Any]:
    """All arguments by position."""
    if not keywords:
        return list(args)
    return [*args, *(keywords[p] for p in f.parameters[len(args) :] if p in keywords)]


def _derived(f: Function, run: Callable[..., Any], parameters: Sequence[str] | None = None) -> Function:
    return Function(run, f.parameters if parameters is None else parameters)


# ---------------------------------------------------------------- derivatives


def value_and_grad(f: Callable[..., Any], wrt: Any = None, has_aux: bool = False) -> Function:
    """Value and gradient."""
    base = _as_function(f)
    places, several = _chosen(base, wrt)

    def run(*args: Any, **keywords: Any) -> Any:
        moved = _Moved(_bound(base, args, keywords), places)
        result = base.run(*moved.args)
        value = strong(result[0] if has_aux else result)
        if value.shape or not value.dtype.floating:
            raise OracleError("the gradient of what is no number")
        gradients = [trees.rebuilt(args[k], shaped) for k, shaped in zip(places, _by(moved, value), strict=True)]
        return moved.primal(result), tuple(gradients) if several else gradients[0]

    return _derived(base, run)


def _by(moved: _Moved, value: Array) -> list[list[Array]]:
    """The derivatives of an array by each array that moves; axes of the value come first."""
    out, at = [], 0
    for group in moved.given:
        shaped = []
        for a in group:
            rows = [_part(e, moved.tag, at + n) for e in value.data for n in range(a.size)]
            shaped.append(Array((*value.shape, *a.shape), value.dtype if a.dtype is WEAK_FLOAT else a.dtype, rows))
            at += a.size
        out.append(shaped)
    return out


def grad(f: Callable[..., Any], wrt: Any = None, has_aux: bool = False) -> Function:
    """Gradient."""
    both = value_and_grad(f, wrt, has_aux)

    def run(*args: Any, **keywords: Any) -> Any:
        value, gradient = both.run(*args, **keywords)
        return (gradient, value[1]) if has_aux else gradient

    return _derived(both, run)


def jacobian(f: Callable[..., Any], wrt: Any = None, mode: str = "auto", sparse: Any = False) -> Function:
    """All derivatives, axes of the result first; modes are ways to the same."""
    base = _as_function(f)
    places, several = _chosen(base, wrt)

    def run(*args: Any, **keywords: Any) -> Any:
        given = _bound(base, args, keywords)
        moved = _Moved(given, places)

        def of(leaf: Any) -> Any:
            value = strong(leaf)
            if not value.dtype.floating:
                return None
            made = [trees.rebuilt(given[k], group) for k, group in zip(places, _by(moved, value), strict=True)]
            return tuple(made) if several else made[0]

        return trees.mapped(of, base.run(*moved.args))

    return _derived(base, run)


def hessian(f: Callable[..., Any], wrt: Any = None, sparse: Any = False) -> Function:
    """All second derivatives."""
    return jacobian(grad(f, wrt), wrt)


def jvp(f: Callable[..., Any]) -> Function:
    """Result and its derivative in a direction."""
    base = _as_function(f)

    def run(primals: Any, tangents: Any) -> Any:
        primals = tuple(primals)
        tangents = (*tangents, *(None,) * (len(primals) - len(tangents)))
        tag = next(_tags)

        def entered(primal: Any, tangent: Any) -> Any:
            if tangent is None:
                return primal
            a = strong(primal)
            t = convert(as_array(tangent), a.dtype)
            return Array(a.shape, a.dtype, [Dual(tag, e, {0: d}) for e, d in zip(a.data, t.data, strict=True)])

        args = [
            trees.rebuilt(p, [entered(a, t) for a, t in zip(trees.leaves(p), trees.beside(p, d), strict=True)])
            for p, d in zip(primals, tangents, strict=True)
        ]
        result = trees.mapped(strong, base.run(*args))
        tangent = trees.mapped(lambda a: _parts(a, tag, 0) if a.dtype.floating else None, result)
        return trees.mapped(lambda a: _parts(a, tag, None), result), tangent

    return _derived(base, run, ["primals", "tangents"])


def vjp(f: Callable[..., Any], wrt: Any = None) -> Function:
    """Result and the derivative of its sum with weights."""
    base = _as_function(f)

    def run(*args: Any, cotangent: Any = None) -> Any:
        if len(args) > len(base.parameters):
            args, cotangent = args[:-1], args[-1]
        places, several = (list(range(len(args))), True) if wrt is None else _chosen(base, wrt)
        moved = _Moved(args, places)
        result = trees.mapped(strong, base.run(*moved.args))
        weights = trees.beside(result, cotangent)
        out = []
        at = 0
        for k, group in zip(places, moved.given, strict=True):
            leaves = []
            for a in group:
                leaves.append(_weighted(moved, result, weights, a, at) if a.dtype.floating else None)
                at += a.size if a.dtype.floating else 0
            out.append(trees.rebuilt(args[k], leaves))
        return moved.primal(result), tuple(out) if several else out[0]

    return _derived(base, run, [*base.parameters, "cotangent"])


def _weighted(moved: _Moved, result: Any, weights: Sequence[Any], a: Array, at: int) -> Array:
    """The cotangent of an array whose elements begin at a place."""
    dtype = arrays.settled(a.dtype)
    data = []
    for n in range(a.size):
        total = numbers.lift(0.0, a.data[n])
        for leaf, weight in zip(trees.leaves(result), weights, strict=True):
            if weight is not None and leaf.dtype.floating:
                for e, w in zip(leaf.data, convert(as_array(weight), leaf.dtype).data, strict=True):
                    if type(e) is Dual and e.tag == moved.tag and at + n in e.partials:
                        total = total + e.partials[at + n] * w
        data.append(total)
    return Array(a.shape, dtype, data)


def forward_backward(f: Callable[..., Any], wrt: Any = None) -> tuple[Function, Function]:
    """The result with the arguments, and `vjp` of these."""
    base = _as_function(f)
    weighted = vjp(base, wrt)

    def backward(residuals: Any, cotangent: Any) -> Any:
        return weighted.run(*residuals, cotangent=cotangent)[1]

    return _derived(base, lambda *args: (base.run(*args), args)), Function(backward)


def hvp(f: Callable[..., Any], wrt: Any = None) -> Function:
    """A Hessian times a vector."""
    base = _as_function(f)
    places, several = _chosen(base, wrt)
    gradient = jvp(grad(base, wrt))

    def run(args: Any, v: Any) -> Any:
        tangents: list[Any] = [None] * len(args)
        for k, d in zip(places, v if several else (v,), strict=True):
            tangents[k] = d
        return gradient.run(tuple(args), tuple(tangents))[1]

    return _derived(base, run, ["args", "v"])


# ---------------------------------------------------------------- other functions of functions


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Function:
    """The function of each slice."""
    base = _as_function(f)

    def run(*args: Any) -> Any:
        axes = in_axes if isinstance(in_axes, tuple | list) else (in_axes,) * len(args)
        leaves = trees.leaves(args)
        flat = [x for a, given in zip(args, axes, strict=True) for x in _spread(a, given)]
        flat = [None if isinstance(leaf, bool | int | float) else x for leaf, x in zip(leaves, flat, strict=True)]
        rows = [leaf if x is None else moveaxis(leaf, x, 0) for leaf, x in zip(leaves, flat, strict=True)]
        size = next(row.shape[0] for row, x in zip(rows, flat, strict=True) if x is not None)
        results = []
        for k in range(size):
            single = [row if x is None else subscript(row, k) for row, x in zip(rows, flat, strict=True)]
            results.append(base.run(*trees.rebuilt(args, single)))
        made = notation.stacked((size,), results)
        places = zip(trees.leaves(made), _spread(made, out_axes), strict=True)
        return trees.rebuilt(made, [moveaxis(leaf, 0, x) for leaf, x in places])

    return _derived(base, run)


def _spread(x: Any, axes: Any) -> list[Any]:
    """One axis for each leaf."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(trees.leaves(x))
    return trees.beside(x, axes)


def checkpoint(f: Callable[..., Any]) -> Function:
    """The function itself: what is stored plays no part."""
    return _as_function(f)


def custom_derivative(f: Any = None, *, jvp: Any = None, vjp: Any = None) -> Any:
    """The function with a derivative of the user's own."""
    if f is None:
        return lambda g: custom_derivative(g, jvp=jvp, vjp=vjp)
    base = _as_function(f)
    return _derived(base, lambda *args: _ruled(base.run, jvp, vjp, args))


def _ruled(f: Callable[..., Any], jvp: Any, vjp: Any, args: Any) -> Any:
    """Apply `f` with a derivative rule for the outermost dual parts, and recursively for the rest."""
    flat = trees.leaves(args)
    tag = max((e.tag for a in flat if type(a) is Array and a.dtype.floating for e in a.data if type(e) is Dual),
              default=-1)  # fmt: skip
    if tag < 0:
        return f(*args)
    primals = trees.mapped(lambda a: _parts(a, tag, None) if type(a) is Array else a, args)
    out = trees.mapped(strong, _ruled(f, jvp, vjp, primals))
    directions = sorted({k for a in flat if type(a) is Array and a.dtype.floating for e in a.data
                         if type(e) is Dual and e.tag == tag for k in e.partials})  # fmt: skip
    rule = _by_jvp if jvp is not None else _by_vjp
    moved = rule(jvp if jvp is not None else vjp, args, primals, out, tag, directions)
    made = []
    for n, a in enumerate(trees.leaves(out)):
        if not a.dtype.floating:
            made.append(a)
            continue
        made.append(Array(a.shape, a.dtype, [
            Dual(tag, e, {k: moved[k][n].data[m] for k in directions if moved[k][n] is not None})
            for m, e in enumerate(a.data)
        ]))  # fmt: skip
    return trees.rebuilt(out, made)


def _tangents(args: Any, tag: int, k: int) -> Any:
    """The parts of the arguments in one direction; None for what does not move."""
    def one(a: Any) -> Any:
        if type(a) is not Array or not a.dtype.floating:
            return None
        return _parts(a, tag, k)

    return trees.mapped(one, args)


def _by_jvp(rule: Any, args: Any, primals: Any, out: Any, tag: int, directions: Sequence[int]) -> dict[int, list[Any]]:
    found = {}
    for k in directions:
        answer = rule(primals, out, _tangents(args, tag, k))
        found[k] = [None if t is None else _filled(t, a)
                    for a, t in zip(trees.leaves(out), trees.beside(out, answer), strict=True)]
    return found


def _filled(t: Any, like: Array) -> Array:
    """A rule's answer in the dtype and shape that it belongs to."""
    made = convert(as_array(t), like.dtype)
    return Array(like.shape, like.dtype, made.data * like.size) if made.shape != like.shape else made


def _by_vjp(rule: Any, args: Any, primals: Any, out: Any, tag: int, directions: Sequence[int]) -> dict[int, list[Any]]:
    """The transpose of a rule: its answer to each unit cotangent, times the directions of the arguments."""
    results = trees.leaves(out)
    found: dict[int, list[Any]] = {
        k: [Array(a.shape, a.dtype, [numbers.lift(0.0, e) for e in a.data]) if a.dtype.floating else None
            for a in results]
        for k in directions
    }  # fmt: skip
    for n, a in enumerate(results):
        if not a.dtype.floating:
            continue
        for m in range(a.size):
            units = [
                Array(b.shape, b.dtype, [numbers.lift(float(j == n and i == m), e) for i, e in enumerate(b.data)])
                if b.dtype.floating else None
                for j, b in enumerate(results)
            ]  # fmt: skip
            answer = rule(primals, out, trees.rebuilt(out, units))
            cotangents = trees.beside(args, answer)
            for k in directions:
                total = found[k][n].data[m]
                for leaf, c in zip(trees.leaves(args), cotangents, strict=True):
                    if c is None or type(leaf) is not Array or not leaf.dtype.floating:
                        continue
                    for e, w in zip(leaf.data, _filled(c, leaf).data, strict=True):
                        if type(e) is Dual and e.tag == tag and k in e.partials:
                            total = total + e.partials[k] * w
                found[k][n].data[m] = total
    return found

__all__ = [
    "Function",
    "checkpoint",
    "custom_derivative",
    "forward_backward",
    "function",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "value_and_grad",
    "vjp",
    "vmap",
]
