"""Settings of a program apart from its statements: order of computation, memory, and sizes."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

import numpy as np

from pullback.records import dataclass

NDArray = np.ndarray[Any, Any]
Specialize = Literal["auto", "always", "never"]
SPECIALIZE: Final[tuple[Specialize, ...]] = get_args(Specialize)
Precision = Literal["f32", "tf32"]
PRECISIONS: Final[tuple[Precision, ...]] = get_args(Precision)
Tune = bool | Literal["libraries"]

# From the fastest to the smallest; no mode needs more memory than the one before:
# fastest   the fastest order
# less      the same work in an order that needs less memory, with the same results bit for bit
# least     other work where that needs even less memory; results may differ by rounding
MemoryMode = Literal["fastest", "less", "least"]
MODES: Final[tuple[MemoryMode, ...]] = get_args(MemoryMode)


@dataclass(frozen=True, eq=False)
class Settings:
    """The settings of a program apart from its statements.

    Attributes:
        exact: whether sums and products keep their order, and only rewrites apply that preserve rounding, NaN and
            infinity.
        memory: the memory mode.
        memory_limit: bytes of working memory that no call exceeds.
        workspace_limit: the most bytes of working memory of one kernel.
        swap: the folder of the file to which arrays may move to keep that limit; empty if they stay.
        donate: the inputs whose memory results may reuse.
        captured: the arrays that the function captured; they are the program's last inputs.
        debug: whether statements stay as written, and every result is tested for NaN and infinity.
        specialize: whether C is compiled for the sizes of each call.
        precision: the numbers that products of f32 may be computed with: "tf32" permits 10 bits of mantissa.
        tune: whether kernels of devices take the schedules that were measured as the fastest; with "libraries" also
            products and convolutions of the maker's libraries.
        device: the device of calls, such as "cuda:0"; "" for that of the arguments. With "!" it runs nowhere else.
    """

    exact: bool = False
    memory: MemoryMode = "fastest"
    memory_limit: int | None = None
    workspace_limit: int | None = None
    swap: str = ""
    donate: tuple[int, ...] = ()
    captured: tuple[NDArray, ...] = ()
    debug: bool = False
    specialize: Specialize = "auto"
    precision: Precision = "f32"
    tune: Tune = False
    device: str = ""

    @property
    def text(self) -> str:
        """The settings that a program's derivatives and C depend on."""
        more = (self.precision,) * (self.precision != "f32") + ("swap",) * bool(self.swap)
        more += (f"tune {self.tune}",) * bool(self.tune)
        more += (f"workspace {self.workspace_limit}",) * (self.workspace_limit is not None)
        return str((self.exact, self.memory_limit, self.memory, self.donate, *more))


DEFAULT: Final = Settings()
