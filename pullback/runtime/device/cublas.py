"""Products by cuBLASLt, an optional library of NVIDIA, which is found by `dlopen`.

The library is PULLBACK_CUBLASLT, that of the wheel `nvidia-cublas`, or the system's. Its matrices are stored column by
column, so `out = left @ right` is computed as its transpose, `right.T @ left.T`. The numbers of attributes and types
are those of `cublasLt.h` and `library_types.h`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from ctypes import POINTER, Structure, byref, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64
from ctypes import c_void_p as _P
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pullback.codegen.device.host import START
from pullback.loops.program.library import LibraryProduct, Matrix
from pullback.runtime.device.array import Memory
from pullback.runtime.device.cuda import CudaGpu
from pullback.runtime.device.driver import Gpu
from pullback.runtime.device.schedules import say
from pullback.state import cached

SYSTEM: Final = ("libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so")
OLDEST: Final = 12_00_00  # as cublasLtGetVersion counts; from 13 on one digit more
WORKSPACE: Final = 32 << 20  # the most bytes that a product may use beside its arrays
TYPES: Final = {"f32": 0, "f64": 1, "f16": 2, "bf16": 14}  # cudaDataType
SUMS: Final = {"f32": 68, "f64": 70, "tf32": 77}  # cublasComputeType_t
LEFT_TURNED, RIGHT_TURNED = 3, 4  # attributes of a product: whether operands are transposed
COUNT, APART = 5, 6  # attributes of a matrix: of a batch
MOST_WORKSPACE, ALIGNMENTS = 1, (5, 6, 7, 8)  # attributes of a preference
ENTRIES: Final[dict[str, tuple[Any, ...]]] = {
    "cublasLtCreate": (POINTER(_P),),
    "cublasLtDestroy": (_P,),
    "cublasLtMatmulDescCreate": (POINTER(_P), c_int, c_int),
    "cublasLtMatmulDescDestroy": (_P,),
    "cublasLtMatmulDescSetAttribute": (_P, c_int, _P, c_size_t),
    "cublasLtMatrixLayoutCreate": (POINTER(_P), c_int, c_uint64, c_uint64, c_int64),
    "cublasLtMatrixLayoutDestroy": (_P,),
    "cublasLtMatrixLayoutSetAttribute": (_P, c_int, _P, c_size_t),
    "cublasLtMatmulPreferenceCreate": (POINTER(_P),),
    "cublasLtMatmulPreferenceDestroy": (_P,),
    "cublasLtMatmulPreferenceSetAttribute": (_P, c_int, _P, c_size_t),
    "cublasLtMatmulAlgoGetHeuristic": (_P, _P, _P, _P, _P, _P, _P, c_int, _P, POINTER(c_int)),
    "cublasLtMatmul": (_P,) * 14 + (c_size_t, _P),
}


class _Way(Structure):
    """cublasLtMatmulHeuristicResult_t: a way to compute a product."""

    _fields_ = (("how", c_uint64 * 8), ("workspace", c_size_t), ("state", c_int), ("waves", c_float),
                ("reserved", c_int * 4))  # fmt: skip


class _Product(Structure):
    """`struct product` of the host program."""

    _fields_ = tuple((name, _P) for name in ("what", "right", "left", "out", "how", "one", "zero"))


class _Products(Structure):
    """`struct products` of the host program."""

    _fields_ = (("matmul", _P), ("handle", _P), ("workspace", _P), ("workspace_bytes", c_size_t),
                ("each", POINTER(_Product)), ("failed", c_int))  # fmt: skip


class LibraryError(Exception):
    """Raised when the library refuses a step."""


class CublasLt:
    """The loaded library: `library("cublasLtCreate", …)` calls an entry point.

    Attributes:
        version: as cublasLtGetVersion counts.
    """

    def __init__(self, path: str) -> None:
        """Load the library.

        Raises:
            OSError, AttributeError: it is no such library.   LibraryError: it is too old.
        """
        library = ctypes.CDLL(path)
        library.cublasLtGetVersion.restype = c_size_t
        self.version: int = library.cublasLtGetVersion()
        if self.version < OLDEST:
            raise LibraryError(f"{path} has the version {self.version}, and {OLDEST} is the oldest that is used")
        self._entries: dict[str, Any] = {}
        for name, kinds in ENTRIES.items():
            entry = getattr(library, name)
            entry.argtypes, entry.restype = kinds, c_int
            self._entries[name] = entry

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call an entry point.

        Raises:
            LibraryError: it failed.
        """
        status = self._entries[name](*arguments)
        if status:
            raise LibraryError(f"{name} of cuBLASLt fails with status {status}")

    def made(self, name: str, *arguments: Any) -> _P:
        """The handle that an entry point makes."""
        handle = _P()
        self(name, byref(handle), *arguments)
        return handle

    def address(self, name: str) -> int | None:
        """The address of an entry point."""
        return ctypes.cast(self._entries[name], _P).value


def _places() -> Iterator[str]:
    if own := os.environ.get("PULLBACK_CUBLASLT"):
        yield own
        return
    found = find_spec("nvidia")
    for folder in (found.submodule_search_locations or ()) if found else ():
        yield from map(str, sorted(Path(folder).glob("*/lib/libcublasLt.so.*"), reverse=True))
    yield from SYSTEM


@cached(1, stays="with the process: a library is never unloaded")
def library() -> CublasLt | None:
    """The library; None, with a warning, if there is none that can be used."""
    why = "cuBLASLt is not found: `pip install nvidia-cublas`, or PULLBACK_CUBLASLT with the path of libcublasLt"
    for path in _places():
        try:
            return CublasLt(path)
        except LibraryError as error:
            why = str(error)
        except (OSError, AttributeError) as error:
            if "PULLBACK_CUBLASLT" in os.environ:
                why = f"{path} is no cuBLASLt: {error}"
    say(f"{why}; products have the kernels of Pullback")
    return None


class Products:
    """The products of a program on a device, ready for its host program.

    Attributes:
        struct: `struct products`.
    """

    def __init__(self, gpu: CudaGpu, lt: CublasLt, wanted: Sequence[LibraryProduct]) -> None:
        """Ask the library how to compute each product.

        Raises:
            LibraryError: it fails, or cannot compute one.
        """
        self._gpu, self._lt = gpu, lt
        self._made: list[tuple[str, _P]] = []
        self._kept: list[Any] = []
        self.struct = own = _Products(matmul=lt.address("cublasLtMatmul"))
        with gpu.current("cuBLASLt"):
            handle = self._own("", "cublasLt")
            own.handle = handle
            preference = self._own("Preference", "cublasLtMatmul")
            most = c_size_t(WORKSPACE)
            lt("cublasLtMatmulPreferenceSetAttribute", preference, MOST_WORKSPACE, byref(most), ctypes.sizeof(most))
            for attribute in ALIGNMENTS:
                start = c_uint32(START)
                lt("cublasLtMatmulPreferenceSetAttribute", preference, attribute, byref(start), ctypes.sizeof(start))
            ways = [self._way(handle, preference, p) for p in wanted]
        each = (_Product * len(wanted))(*(product for product, _ in ways))
        own.each = ctypes.cast(each, POINTER(_Product))
        self._kept.append(each)
        if count := max(size for _, size in ways):
            memory = Memory(gpu, count, "the workspace of cuBLASLt")
            own.workspace, own.workspace_bytes = memory.at, count
            self._kept.append(memory)

    @property
    def failed(self) -> int:
        """The status of the first product that failed in a call, since when kernels compute all; 0 for none."""
        return int(self.struct.failed)

    def close(self) -> None:
        """Give everything back, after the device has done its work."""
        with self._gpu.current("cuBLASLt"):
            while self._made:
                name, handle = self._made.pop()
                self._lt(f"{name}Destroy", handle)

    def _own(self, what: str, prefix: str, *arguments: Any) -> _P:
        handle = self._lt.made(f"{prefix}{what}Create", *arguments)
        self._made.append((prefix + what, handle))
        return handle

    def _way(self, handle: _P, preference: _P, p: LibraryProduct) -> tuple[_Product, int]:
        """A product, and the bytes of workspace that it needs."""
        lt, sums = self._lt, "f64" if p.left.dtype.name == "f64" else "f32"
        kind = "tf32" if p.tf32 and p.left.dtype.name == "f32" else sums
        what = self._own("Desc", "cublasLtMatmul", SUMS[kind], TYPES[sums])
        for attribute, matrix in ((LEFT_TURNED, p.right), (RIGHT_TURNED, p.left)):
            turned = c_int32(matrix.transposed)
            lt("cublasLtMatmulDescSetAttribute", what, attribute, byref(turned), ctypes.sizeof(turned))
        sides = ((p.right, p.terms, p.columns), (p.left, p.rows, p.terms), (p.out, p.rows, p.columns))
        right, left, out = (self._layout(m, rows, columns, p.many) for m, rows, columns in sides)
        way, found = _Way(), c_int()
        try:
            lt("cublasLtMatmulAlgoGetHeuristic", handle, what, right, left, out, out, preference, 1, byref(way),
               byref(found))  # fmt: skip
        except LibraryError:
            found.value = 0
        if not found.value or way.state:
            raise LibraryError(f"cuBLASLt has no way to multiply {p.rows} x {p.terms} by {p.terms} x {p.columns}")
        one, zero = ((c_double if sums == "f64" else c_float)(n) for n in (1, 0))
        self._kept += [way, one, zero]
        at = [ctypes.cast(byref(x), _P) for x in (way, one, zero)]
        return _Product(what, right, left, out, *at), int(way.workspace)

    def _layout(self, m: Matrix, rows: int, columns: int, many: int) -> _P:
        """A matrix, column by column, as the library has them: its rows are our columns."""
        shape = (rows, columns) if m.transposed else (columns, rows)
        made = self._own("Layout", "cublasLtMatrix", TYPES[m.dtype.name], *shape, m.lead)
        if many > 1:
            count, apart = c_int32(many), c_int64(m.apart)
            self._lt("cublasLtMatrixLayoutSetAttribute", made, COUNT, byref(count), ctypes.sizeof(count))
            self._lt("cublasLtMatrixLayoutSetAttribute", made, APART, byref(apart), ctypes.sizeof(apart))
        return made


def products(gpu: Gpu, wanted: Sequence[LibraryProduct], name: str) -> Products | None:
    """The products of a program; None, with a warning, if the library cannot compute them."""
    lt = library()
    if lt is None or not isinstance(gpu, CudaGpu):
        return None
    try:
        return Products(gpu, lt, wanted)
    except LibraryError as error:
        say(f"{name}: {error}; its kernels compute products on {gpu.name}")
        return None
