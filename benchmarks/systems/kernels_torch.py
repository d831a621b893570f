"""Single kernels by PyTorch: eager, results into the same tensor where there is such a form."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.environment import allowed_threads

if TYPE_CHECKING:
    from benchmarks.kernels import KernelCase

__all__ = ["prepare"]


def prepare(case: KernelCase) -> Callable[[], Any]:
    """A call on tensors."""
    torch = import_module("torch")
    torch.set_num_threads(allowed_threads())
    torch.set_grad_enabled(False)
    arguments = [torch.from_numpy(a) for a in case.make()]
    if case.layer is None:
        name = {"product": "matmul", "logistic": "sigmoid"}.get(case.kind, case.kind)
        function = getattr(torch, name)
        out = torch.empty(case.output, dtype=arguments[0].dtype)
        return lambda: function(*arguments, out=out).numpy()
    layer = case.layer
    step, border = [layer.stride] * 2, [layer.padding] * 2
    if case.kind == "forward":
        return lambda: torch.conv2d(*arguments, None, step, border).numpy()
    backward = torch.ops.aten.convolution_backward
    wanted = [case.kind == "data", case.kind == "weights", False]
    if case.kind == "data":
        k, g = arguments
        x = torch.zeros(layer.image)
    else:
        x, g = arguments
        k = torch.zeros(layer.kernel)
    index = wanted.index(True)

    def call() -> Any:
        made = backward(g, x, k, None, step, border, [1, 1], False, [0, 0], 1, wanted)
        return made[index].numpy()

    return call
