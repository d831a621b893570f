"""`pb.function` for checkers.

Arrays of annotated functions, `Array[tuple[int, int], np.float32]`, are in calls what callers have: NumPy's arrays of
this shape and element type. No ParamSpec can be mapped so, hence overloads by the number of arrays: up to three arrays,
by position. All other functions take anything, as do those whose arrays have no types for checkers.
"""

# mypy takes overloads for several numbers of arrays, and for unknown shapes, for the same.
# mypy: disable-error-code="overload-overlap, overload-cannot-match"

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Protocol, TypeAlias, TypeVar, overload

import numpy as np

from pullback.calls.function import Function
from pullback.ir.settings import MemoryMode, Precision, Specialize, Tune
from pullback.tracing.array import Array

S = TypeVar("S", bound=tuple[int, ...])
S0 = TypeVar("S0", bound=tuple[int, ...])
S1 = TypeVar("S1", bound=tuple[int, ...])
S2 = TypeVar("S2", bound=tuple[int, ...])
D = TypeVar("D", bound=np.generic)
D0 = TypeVar("D0", bound=np.generic)
D1 = TypeVar("D1", bound=np.generic)
D2 = TypeVar("D2", bound=np.generic)
S_co = TypeVar("S_co", bound=tuple[int, ...], covariant=True)
D_co = TypeVar("D_co", bound=np.generic, covariant=True)

class NoSize(int):
    """A size that no array has: only Any matches it."""

class Exporter(Protocol[S_co, D_co]):
    """NumPy's arrays, and those that become one: lazy arrays, tensors."""

    def __array__(self) -> np.ndarray[S_co, np.dtype[D_co]]: ...

Unknown: TypeAlias = tuple[NoSize, NoSize, NoSize, NoSize, NoSize, NoSize, NoSize, NoSize, NoSize]
Given: TypeAlias = np.ndarray[S, np.dtype[D]] | Array[S, D] | Exporter[S, D] | list[Any]

class Decorator(Protocol):
    @overload
    def __call__(self, f: Callable[[Array[Unknown, Any]], Any], /) -> Function[..., Any]: ...
    @overload
    def __call__(
        self, f: Callable[[Array[S0, D0]], Array[S, D]], /
    ) -> Function[[Given[S0, D0]], np.ndarray[S, np.dtype[D]]]: ...
    @overload
    def __call__(self, f: Callable[[Array[S0, D0]], Any], /) -> Function[[Given[S0, D0]], Any]: ...
    @overload
    def __call__(self, f: Callable[[Array[Unknown, Any], Array[Unknown, Any]], Any], /) -> Function[..., Any]: ...
    @overload
    def __call__(
        self, f: Callable[[Array[S0, D0], Array[S1, D1]], Array[S, D]], /
    ) -> Function[[Given[S0, D0], Given[S1, D1]], np.ndarray[S, np.dtype[D]]]: ...
    @overload
    def __call__(
        self, f: Callable[[Array[S0, D0], Array[S1, D1]], Any], /
    ) -> Function[[Given[S0, D0], Given[S1, D1]], Any]: ...
    @overload
    def __call__(
        self, f: Callable[[Array[Unknown, Any], Array[Unknown, Any], Array[Unknown, Any]], Any], /
    ) -> Function[..., Any]: ...
    @overload
    def __call__(
        self, f: Callable[[Array[S0, D0], Array[S1, D1], Array[S2, D2]], Array[S, D]], /
    ) -> Function[[Given[S0, D0], Given[S1, D1], Given[S2, D2]], np.ndarray[S, np.dtype[D]]]: ...
    @overload
    def __call__(
        self, f: Callable[[Array[S0, D0], Array[S1, D1], Array[S2, D2]], Any], /
    ) -> Function[[Given[S0, D0], Given[S1, D1], Given[S2, D2]], Any]: ...
    @overload
    def __call__(self, f: Callable[..., Any], /) -> Function[..., Any]: ...

@overload
def function(f: Callable[[Array[Unknown, Any]], Any], /) -> Function[..., Any]: ...
@overload
def function(f: Callable[[Array[S0, D0]], Array[S, D]], /) -> Function[[Given[S0, D0]], np.ndarray[S, np.dtype[D]]]: ...
@overload
def function(f: Callable[[Array[S0, D0]], Any], /) -> Function[[Given[S0, D0]], Any]: ...
@overload
def function(f: Callable[[Array[Unknown, Any], Array[Unknown, Any]], Any], /) -> Function[..., Any]: ...
@overload
def function(
    f: Callable[[Array[S0, D0], Array[S1, D1]], Array[S, D]], /
) -> Function[[Given[S0, D0], Given[S1, D1]], np.ndarray[S, np.dtype[D]]]: ...
@overload
def function(f: Callable[[Array[S0, D0], Array[S1, D1]], Any], /) -> Function[[Given[S0, D0], Given[S1, D1]], Any]: ...
@overload
def function(
    f: Callable[[Array[Unknown, Any], Array[Unknown, Any], Array[Unknown, Any]], Any], /
) -> Function[..., Any]: ...
@overload
def function(
    f: Callable[[Array[S0, D0], Array[S1, D1], Array[S2, D2]], Array[S, D]], /
) -> Function[[Given[S0, D0], Given[S1, D1], Given[S2, D2]], np.ndarray[S, np.dtype[D]]]: ...
@overload
def function(
    f: Callable[[Array[S0, D0], Array[S1, D1], Array[S2, D2]], Any], /
) -> Function[[Given[S0, D0], Given[S1, D1], Given[S2, D2]], Any]: ...
@overload
def function(f: Callable[..., Any], /) -> Function[..., Any]: ...
@overload
def function(
    *,
    threads: int | None = None,
    specialize: Specialize | None = None,
    donate: Sequence[str] = (),
    memory: MemoryMode = "fastest",
    memory_limit: int | None = None,
    workspace_limit: int | None = None,
    swap: bool | str | PathLike[str] = False,
    debug: bool | None = None,
    precision: Precision = "f32",
    tune: Tune = False,
    device: str | None = None,
) -> Decorator: ...
