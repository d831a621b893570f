"""Single kernels by JAX: compiled, each call waited for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.kernels import KernelCase

__all__ = ["prepare"]


def _function(jax: Any, case: KernelCase) -> Callable[..., Any]:
    jnp = import_module("jax.numpy")
    if case.kind == "product":
        return lambda x, y: x @ y
    if case.layer is None:
        found = jax.nn.sigmoid if case.kind == "logistic" else getattr(jnp, case.kind)
        return lambda x: found(x)
    layer = case.layer
    step, border = layer.stride, layer.padding

    def forward(x: Any, k: Any) -> Any:
        return jax.lax.conv_general_dilated(x, k, (step, step), ((border, border), (border, border)))

    if case.kind == "forward":
        return forward
    if case.kind == "data":
        nothing = jnp.zeros(layer.image, case.dtype)
        return lambda k, g: jax.vjp(lambda x: forward(x, k), nothing)[1](g)[0]
    nothing = jnp.zeros(layer.kernel, case.dtype)
    return lambda x, g: jax.vjp(lambda k: forward(x, k), nothing)[1](g)[0]


def prepare(case: KernelCase) -> Callable[[], Any]:
    """A call on arrays of the device."""
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    compiled = jax.jit(_function(jax, case))
    arguments = tuple(jax.device_put(a) for a in case.make())
    wait = jax.block_until_ready
    return lambda: wait(compiled(*arguments))
