"""Traced functions in JAX: under `jit`, with gradients of any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from pullback.calls.compiled import Compiled
from pullback.interop.flat import Flat, Flats, library
from pullback.interop.pointer import of_executable
from pullback.state import registered
from pullback.templates import filled
from pullback.tracing import tree

__all__ = ["as_jax"]


def as_jax(f: Any) -> Callable[..., Any]:
    """Wrap a traced function as a differentiable function of JAX arrays.

    It works under `jax.jit` and `jax.grad`, also nested: its derivative rule is the compiled pullback, which has a
    derivative rule itself. Result shapes are known when JAX traces. `jax.vmap` calls the function for one row after
    another.

    Args:
        f: a traced function of arrays, or of trees of arrays; other arguments are passed on.
    Returns:
        The function of JAX arrays.
    Raises:
        DataError: [E506] JAX is not installed.

    >>> import pullback as pb
    >>> from pullback.interop import as_jax
    >>> def example():
    ...     import jax, jax.numpy as jnp
    ...     square = as_jax(lambda x: pb.sum(x * x))
    ...     return jax.jit(jax.grad(square))(jnp.array([1.0, 2.0])).tolist()  # [2.0, 4.0]
    """
    jax = library("jax", "as_jax")
    flats = Flats(f, lambda x: isinstance(x, jax.Array | np.ndarray), lambda flat: _differentiable(jax, flat))

    def call(*args: Any) -> Any:
        (run, flat), arrays = flats.of(args)
        leaves = run(*arrays)
        assert flat.results is not None
        return tree.unflatten(flat.results, list(leaves))

    call.__name__ = call.__qualname__ = flats.f.name
    call.__doc__ = flats.f.__doc__
    return call


def _differentiable(jax: Any, flat: Flat) -> tuple[Callable[..., Any], Flat]:
    """A JAX function with a custom derivative rule, and its pullback."""
    pullbacks: dict[Any, Any] = {}

    def plain(*arrays: Any) -> Any:
        found = flat.compiled([(a.shape, a.dtype) for a in arrays])
        shapes = [jax.ShapeDtypeStruct(s, d) for s, d in found._results]
        name = _registered(jax, found, len(arrays))
        if name is not None:
            return tuple(jax.ffi.ffi_call(name, shapes, vmap_method="sequential")(*arrays))

        def run(*given: Any) -> Any:
            return tuple(flat.run([np.asarray(a) for a in given]))

        return jax.pure_callback(run, tuple(shapes), *arrays, vmap_method="sequential")

    run = jax.custom_vjp(plain)

    def forward(*arrays: Any) -> Any:
        return run(*arrays), arrays

    def backward(arrays: Any, cotangents: Any) -> Any:
        kinds = [np.dtype(a.dtype) for a in arrays]
        wanted = tuple(k for k, d in enumerate(kinds) if d.kind == "f")
        floating = tuple(k for k, c in enumerate(cotangents) if np.dtype(c.dtype).kind == "f")
        if (wanted, floating) not in pullbacks:
            pullbacks[wanted, floating] = _differentiable(jax, flat.pullback(wanted, floating))[0]
        found = dict(zip(wanted, pullbacks[wanted, floating](*arrays, *(cotangents[k] for k in floating))))
        zeros = [np.zeros(a.shape, jax.dtypes.float0) for a in arrays]
        return tuple(found.get(k, zeros[k]) for k in range(len(arrays)))

    run.defvjp(forward, backward)
    return run, flat


_KEPT: dict[str, Any] = registered(
    {}, "one for each function given to JAX", stays="with the process: XLA may call a handler until then"
)


def _registered(jax: Any, found: Compiled, arity: int) -> str | None:
    """Register the machine code with XLA; return its name, or None if XLA cannot call it directly."""
    if found.executable is None or found.prints is not None or found.device:
        return None
    p = of_executable(found.name, found.executable, found.traced.captured)
    if p is None or len(p.inputs) != arity:
        return None
    arguments = [f"BUFFER(args, {k})" for k in range(arity)] + [f"BUFFER(rets, {k})" for k in range(len(p.outputs))]
    text = filled(_HANDLER, {"arguments": ", ".join(arguments)})
    handler = p.wrapped(text, (f"-I{jax.ffi.include_dir()}",))
    name = f"pullback_{len(_KEPT)}_{found.name}"
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform="cpu")
    _KEPT[name] = handler
    return name


_HANDLER: Final = """
#include <string.h>
#include "xla/ffi/api/c_api.h"
#define BUFFER(group, k) ((XLA_FFI_Buffer *)frame->group.group[k])->data
XLA_FFI_Error *wrapped(XLA_FFI_CallFrame *frame) {
    XLA_FFI_Extension_Base *more = frame->extension_start;
    if (more && more->type == XLA_FFI_Extension_Metadata) { /* asked for the version before any call */
        XLA_FFI_Metadata *about = ((XLA_FFI_Metadata_Extension *)more)->metadata;
        about->api_version.major_version = XLA_FFI_API_MAJOR;
        about->api_version.minor_version = XLA_FFI_API_MINOR;
        return NULL;
    }
    if (!RUN({{arguments}})) return NULL;
    XLA_FFI_Error_Create_Args error;
    memset(&error, 0, sizeof error);
    error.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
    error.message = "an index left its range, or there is no memory";
    error.errc = XLA_FFI_Error_Code_OUT_OF_RANGE;
    return frame->api->XLA_FFI_Error_Create(&error);
}
"""
