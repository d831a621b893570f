"""Traced functions in other libraries: PyTorch, JAX, SciPy, and callers of C function pointers.

    as_torch(f), as_torch(f, parameters)     a function of tensors, or a module, with gradients of any order
    as_jax(f)                                a function of JAX arrays that works under jit and grad
    scipy.minimization(f, x0), …             the arguments of SciPy's solvers, with derivatives
    pointer(f, **dims)                       an address and its C prototype for ctypes, Numba, Cython, cffi

Traced functions also take the arrays of these libraries directly, through DLPack or buffers and without a copy.
"""

from pullback.interop import scipy
from pullback.interop.jax import as_jax
from pullback.interop.pointer import Pointer, pointer
from pullback.interop.torch import as_torch
from pullback.tracing.public import public_module as _public_module

__all__ = ["Pointer", "as_jax", "as_torch", "pointer", "scipy"]

_public_module(__name__)
