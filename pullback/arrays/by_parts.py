"""Extension of real functions to complex arrays: by parts, bilinearly, or with one part 0."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from pullback.arrays.complex_parts import as_complex, pair, zero_beside
from pullback.arrays.elementwise import convert
from pullback.tracing.arithmetic import dtype_from
from pullback.tracing.complex_array import complex_type, is_complex
from pullback.tracing.devices import check_device

F = TypeVar("F", bound=Callable[..., Any])


def by_parts(f: F) -> F:
    """Extend a function to complex arrays by parts. Its first argument is an array or a list of arrays."""

    @functools.wraps(f)
    def both(x: Any, *args: Any, **keywords: Any) -> Any:
        dtype = keywords.get("dtype")
        wanted = complex_type(dtype)
        if wanted is not None:
            x, keywords = convert(x, wanted), {**keywords, "dtype": wanted.part}
        elif dtype is not None and is_complex(x):
            x = convert(x, dtype)  # raises
        if isinstance(x, list | tuple) and any(map(is_complex, x)):
            parts = [as_complex(a) for a in x]
            return _joined(f([p.real for p in parts], *args, **keywords),
                           f([p.imag for p in parts], *args, **keywords))
        if is_complex(x):
            z = as_complex(x)
            return _joined(f(z.real, *args, **keywords), f(z.imag, *args, **keywords))
        return f(x, *args, **keywords)

    return both  # type: ignore[return-value]


def each_by_parts(f: F) -> F:
    """Extend a function of arrays that returns as many arrays to complex arrays, by parts; types are kept."""

    @functools.wraps(f)
    def each(*arrays: Any, **keywords: Any) -> Any:
        if not any(map(is_complex, arrays)):
            return f(*arrays, **keywords)
        real = f(*(as_complex(a).real if is_complex(a) else a for a in arrays), **keywords)
        imaginary = f(*(as_complex(a).imag if is_complex(a) else a for a in arrays), **keywords)
        return tuple(pair(x, y) if is_complex(a) else x for a, x, y in zip(arrays, real, imaginary))

    return each  # type: ignore[return-value]


def _joined(real: Any, imag: Any) -> Any:
    if isinstance(real, tuple | list):
        return type(real)(map(pair, real, imag))
    return pair(real, imag)


def bilinear(f: F) -> F:
    """Extend a product of two arrays to complex arrays: (a + ib)(c + id) = ac - bd + i(ad + bc)."""

    @functools.wraps(f)
    def both(x1: Any, x2: Any, *args: Any, **keywords: Any) -> Any:
        if not is_complex(x1) and not is_complex(x2):
            return f(x1, x2, *args, **keywords)
        product: Callable[..., Any] = lambda a, b: f(a, b, *args, **keywords)
        if not is_complex(x1):
            z = as_complex(x2)
            return pair(product(x1, z.real), product(x1, z.imag))
        z = as_complex(x1)
        if not is_complex(x2):
            return pair(product(z.real, x2), product(z.imag, x2))
        w = as_complex(x2)
        return pair(product(z.real, w.real) - product(z.imag, w.imag),
                            product(z.real, w.imag) + product(z.imag, w.real))

    return both  # type: ignore[return-value]


def of_type(*values: int) -> Callable[[F], F]:
    """Extend a function that makes an array of a dtype on a device to complex dtypes.

    Args:
        values: the positions of arguments whose numbers enter the result; it is complex if one of them is.
    """

    def decorate(f: F) -> F:
        @functools.wraps(f)
        def made(*args: Any, dtype: Any = None, device: Any = None, **keywords: Any) -> Any:
            check_device(f.__name__, device)
            wanted = complex_type(dtype)
            if wanted is None and dtype is not None and dtype_from(dtype).is_half:
                return convert(made(*args, dtype=dtype_from(dtype).computed, **keywords), dtype)
            parts = {k: as_complex(args[k]) for k in values if k < len(args) and is_complex(args[k])}
            if wanted is None and not parts:
                return f(*args, **keywords) if dtype is None else f(*args, dtype=dtype, **keywords)
            if wanted is None and dtype is not None:
                return convert(made(*args, **keywords), dtype)  # raises
            typed = {} if wanted is None else {"dtype": wanted.part}
            real = f(*(parts[k].real if k in parts else a for k, a in enumerate(args)), **typed, **keywords)
            if not parts:
                return pair(real, zero_beside(real))
            imaginary = (parts[k].imag if k in parts else 0.0 if k in values else a for k, a in enumerate(args))
            return pair(real, f(*imaginary, **typed, **keywords))

        return made  # type: ignore[return-value]

    return decorate
