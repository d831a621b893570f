"""Functions that derivatives treat as one unit: custom_derivative and checkpoint."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from pullback.calls.function import Function
from pullback.calls.mistakes import public
from pullback.calls.signature import Parameter, bind, called_with, parameters_of
from pullback.errors import DerivativeError
from pullback.source import user_position
from pullback.tracing.active import is_tracing
from pullback.tracing.custom import emit_call, rule_is_traced

Body = Callable[..., Any]


class Whole(Function):
    """A function that is one Call in the program of its callers."""

    def __init__(self, f: Body, jvp: Body | None = None, vjp: Body | None = None) -> None:
        own = f.python if isinstance(f, Function) else f
        what = getattr(own, "__name__", "function")

        def emit(*args: Any, **keywords: Any) -> Any:
            if all(p.kind == "plain" for p in self.parameters) and not keywords:
                return emit_call(what, f, args, jvp, vjp)
            values = bind(what, self.parameters, args, keywords)
            return emit_call(what, in_order, tuple(values), jvp, vjp)

        def in_order(*values: Any) -> Any:  # one for each parameter, as rules take them
            return called_with(f, self.parameters, values)

        super().__init__(functools.wraps(own)(emit))
        self.called, self.bodies, self.emit = own, (f, in_order), emit
        self.define()

    def _call_slowly(self, *args: Any, out: Any = None, **keywords: Any) -> Any:
        if is_tracing() and any(map(rule_is_traced, self.bodies)):  # inside its own rule it has no separate program
            return self.emit(*args, **keywords)
        return super()._call_slowly(*args, out=out, **keywords)

    def _find_parameters(self) -> list[Parameter]:
        return parameters_of(self.called)


@overload
def custom_derivative(f: Body, *, jvp: Body | None = ..., vjp: Body | None = ...) -> Function: ...
@overload
def custom_derivative(*, jvp: Body | None = ..., vjp: Body | None = ...) -> Callable[[Body], Function]: ...
@public
def custom_derivative(f: Body | None = None, *, jvp: Body | None = None, vjp: Body | None = None) -> Any:
    """Give a function your own derivative, in every mode and to every order.

    One rule is enough: the other direction is its transpose. The rule is traced, so higher derivatives differentiate
    it. Inside the rule the function keeps its rules.

    Args:
        f: the function; without it, a decorator is returned.
        jvp: `jvp(primals, out, tangents) -> tangent`. It takes the tuple of all arguments, f's result, and tangents (a
            tuple like the arguments, None if not floating-point). It returns the tangent of the result.
        vjp: `vjp(primals, out, cotangent) -> cotangents`: a tuple with a cotangent for each argument, None for zero and
            for arguments that are not floating-point.
    Returns:
        A traced function of the same arguments.
    Raises:
        DerivativeError: [E253] no rule is given. [E252] a rule gives a tree, shape or element type that does not fit.
            When a derivative is taken: [E250] f captures an array that the derivative is taken by; [E251] a rule is not
            linear, so it has no transpose.
    Cost:
        The cost of f, plus that of the rule when a derivative is taken.

    >>> import numpy as np, pullback as pb
    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> def root(x: Float64[Array, ""], a: Float64[Array, ""]):
    ...     return pb.fold(20, x, lambda y, i: (y + a / y) / 2)
    >>> def rule(primals, y, tangents):  # y * y = a, whatever the first guess was
    ...     return tangents[1] / (2 * y)
    >>> root = pb.custom_derivative(root, jvp=rule)
    >>> float(pb.grad(root, wrt="a")(1.0, 9.0)), float(pb.grad(root, wrt="x")(1.0, 9.0))
    (0.16666666666666666, 0.0)
    """
    if jvp is None and vjp is None:
        raise DerivativeError(
            "E253",
            "custom_derivative has no rule",
            position=user_position(),
            remedy="`jvp=` or `vjp=`; `pb.stop_gradient` makes a constant",
        )

    def make(g: Body) -> Function:
        made = Whole(g, jvp, vjp)
        made.made_by = custom_derivative, (g,), {"jvp": jvp, "vjp": vjp}
        return made

    return make if f is None else make(f)


@public
def checkpoint(f: Body) -> Function:
    """Make reverse mode run the function again instead of storing its intermediate results.

    Values and derivatives are the same. Nothing of f is kept for the backward pass except its arguments and captured
    arrays.

    Args:
        f: the function.
    Returns:
        A traced function of the same arguments.
    Cost:
        In reverse mode, f runs once more; memory holds the inside of only one checkpoint at a time.

    >>> import numpy as np, pullback as pb
    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> @pb.checkpoint
    ... def layer(x: Float64[Array, "N"]):
    ...     return pb.tanh(pb.exp(x))
    >>> @pb.function
    ... def loss(x: Float64[Array, "N"]):
    ...     return pb.sum(layer(layer(x)))
    >>> pb.grad(loss)(np.array([0.0])).round(6).tolist()
    [0.048294]
    """
    made = Whole(f)
    made.made_by = checkpoint, (f,), {}
    return made


__all__ = ["checkpoint", "custom_derivative"]
