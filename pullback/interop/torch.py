"""Traced functions in PyTorch: with gradients of any order, and as modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from pullback.interop.flat import Flat, Flats, elsewhere, library
from pullback.state import cached
from pullback.tracing import tree

__all__ = ["as_torch"]


def as_torch(f: Any, parameters: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    """Wrap a traced function as a differentiable function of PyTorch tensors, or as a module.

    Tensors are read in place, and results are written to memory that tensors own. Only arrays that are not contiguous
    are copied. The backward pass is the compiled pullback for the arguments that require a gradient. It is
    differentiable itself, so `create_graph=True` and `torch.autograd.functional.hessian` work.

    Args:
        f: a traced function of arrays, or of trees of arrays; NumPy arrays are accepted too, and other arguments are
            passed on.
        parameters: a tree of arrays (dicts, lists or tuples) that become the parameters of a module. f takes this tree
            as its first argument.
    Returns:
        The function; with `parameters` a `torch.nn.Module`, whose parameters are named by their paths in the tree.
    Raises:
        DataError: [E506] PyTorch is not installed.
        TraceError: [E530] at a call: a tensor is not in this machine's memory.
    Cost:
        About 10 microseconds per call in addition to f.

    >>> import pullback as pb
    >>> from pullback.interop import as_torch
    >>> def example():
    ...     import torch
    ...     x = torch.tensor([1.0, 2.0], requires_grad=True)
    ...     as_torch(lambda x: pb.sum(x * x))(x).backward()
    ...     return x.grad.tolist()  # [2.0, 4.0]
    """
    made = _for_torch()
    flats: Flats[Flat] = Flats(f, made.is_array, lambda flat: flat)

    def call(*args: Any) -> Any:
        flat, arrays = flats.of(args)
        leaves = made.Call.apply(flat, *map(made.tensor_of, arrays))
        assert flat.results is not None
        return tree.unflatten(flat.results, leaves)

    call.__name__ = call.__qualname__ = flats.f.name
    call.__doc__ = flats.f.__doc__
    return call if parameters is None else made.Module(call, parameters)


@cached(1, stays="with the process: classes are told apart by identity")
def _for_torch() -> SimpleNamespace:
    """The subclasses of PyTorch classes, defined when PyTorch is first imported."""
    torch = library("torch", "as_torch")

    def numpy_of(t: Any) -> Any:
        if t.device.type != "cpu":
            raise elsewhere("a tensor", t.device, "`x.cpu()`")
        t = t.detach().resolve_conj().resolve_neg()
        return np.asarray(t.numpy())

    class Call(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, flat: Flat, *tensors: Any) -> Any:
            results = tuple(torch.from_numpy(r) for r in flat.run([numpy_of(t) for t in tensors]))
            ctx.flat = flat
            ctx.save_for_backward(*tensors)
            ctx.floating = tuple(k for k, r in enumerate(results) if r.dtype.is_floating_point)
            ctx.mark_non_differentiable(*(r for r in results if not r.dtype.is_floating_point))
            return results

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            wanted = tuple(k for k, needed in enumerate(ctx.needs_input_grad[1:]) if needed)
            back = ctx.flat.pullback(wanted, ctx.floating)
            found = Call.apply(back, *ctx.saved_tensors, *(cotangents[k] for k in ctx.floating))
            by_place = dict(zip(wanted, found))
            return None, *(by_place.get(k) for k in range(len(ctx.needs_input_grad) - 1))

    class Module(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, call: Callable[..., Any], parameters: Any) -> None:
            super().__init__()
            leaves, self._structure = tree.flatten(parameters)
            self._call = call
            self._names = [name.replace(".", "_") for name in _names(parameters)]
            for name, leaf in zip(self._names, leaves, strict=True):
                tensor = torch.from_numpy(np.array(leaf))
                self.register_parameter(name, torch.nn.Parameter(tensor, tensor.dtype.is_floating_point))

        def forward(self, *args: Any) -> Any:
            leaves = [getattr(self, name) for name in self._names]
            return self._call(tree.unflatten(self._structure, leaves), *args)

    def is_array(x: Any) -> bool:
        return isinstance(x, (torch.Tensor, np.ndarray))

    return SimpleNamespace(Call=Call, Module=Module, is_array=is_array, tensor_of=torch.as_tensor)


def _names(parameters: Any) -> list[str]:
    from pullback.nn.parameters import named

    return [name.replace("/", "_") for name in named(parameters)]
