"""Single kernels by Pullback: index notation, its derivatives, called with `out=`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import pullback as pb

if TYPE_CHECKING:
    from benchmarks.kernels import KernelCase, Layer

__all__ = ["function", "prepare"]


@pb.function
def _product(x: Any, y: Any) -> Any:
    return x @ y


def _convolution(layer: Layer) -> Any:
    """The convolution of a layer as a traced function of image and weights."""
    step, border = layer.stride, layer.padding
    _, _, rows, columns = layer.result

    @pb.function
    def forward(x: Any, k: Any) -> Any:
        (batch, *_), (outputs, channels, height, width) = x.shape, k.shape

        def pixel(b: Any, o: Any, i: Any, j: Any) -> Any:
            def term(c: Any, p: Any, q: Any) -> Any:
                u, v = step * i + p - border, step * j + q - border
                return (x.at(b, c, u, v, fill=0) if border else x[b, c, u, v]) * k[o, c, p, q]

            return pb.sum_over((channels, height, width), term)

        return pb.build((batch, outputs, rows, columns), pixel)

    return forward


def function(case: KernelCase) -> Callable[..., Any]:
    """The traced function of a case."""
    if case.kind == "product":
        return _product
    if case.layer is None:
        elementwise = getattr(pb, case.kind)
        return pb.function(lambda x: elementwise(x))
    layer = case.layer
    forward = _convolution(layer)
    if case.kind == "forward":
        made: Callable[..., Any] = forward
    elif case.kind == "data":
        by_image = pb.vjp(forward, wrt=0)
        made = pb.function(lambda k, g: by_image(pb.zeros(layer.image, dtype=pb.float32), k, cotangent=g)[1])
    else:
        by_weights = pb.vjp(forward, wrt=1)
        made = pb.function(lambda x, g: by_weights(x, pb.zeros(layer.kernel, dtype=pb.float32), cotangent=g)[1])
    return made


def prepare(case: KernelCase) -> Callable[[], Any]:
    """A call of the compiled function that writes its result into the same array each time."""
    compiled, arguments = function(case), case.make()
    out = np.empty(case.output, case.dtype)
    compiled(*arguments, out=out)
    return lambda: compiled(*arguments, out=out)
