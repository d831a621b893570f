"""Products by cuBLASLt.

Its matrices are stored column by column, so `out = left @ right` is computed as its transpose, `right.T @ left.T`. The
numbers of attributes and types are those of `cublasLt.h` and `library_types.h`.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, byref, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64
from ctypes import c_void_p as _P
from typing import Any, Final

from pullback.codegen.device.host import START
from pullback.grid.called import LibraryProduct, Matrix
from pullback.runtime.device.vendor import CallStruct, DeviceLibrary, LibraryError, LibraryStruct, Prepared

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


class CublasLt(DeviceLibrary):
    """The library for products. Its version is counted as 12_08_00, from 13 on with one digit more."""

    name, computes, prefix = "cuBLASLt", "products", "cublasLt"
    file, versions = "libcublasLt", (".13", ".12", "")
    wheel, variable = "nvidia-cublas", "PULLBACK_CUBLASLT"
    version, oldest = "cublasLtGetVersion", 12_00_00
    entries, most = ENTRIES, 32 << 20

    def begin(self, struct: LibraryStruct) -> None:
        """Store the entry points that the host program calls."""
        struct.matmul = self.address("cublasLtMatmul")

    def prepare(self, owner: Prepared, call: LibraryProduct) -> tuple[CallStruct, int]:
        """Choose how to compute a product."""
        p, sums = call, "f64" if call.dtype.name == "f64" else "f32"
        kind = "tf32" if p.tf32 and p.dtype.name == "f32" else sums
        what = owner.own("MatmulDesc", SUMS[kind], TYPES[sums])
        for attribute, matrix in ((LEFT_TURNED, p.right), (RIGHT_TURNED, p.left)):
            self._set("MatmulDesc", what, attribute, c_int32(matrix.transposed))
        sides = ((p.right, p.terms, p.columns), (p.left, p.rows, p.terms), (p.out, p.rows, p.columns))
        right, left, out = (self._layout(owner, m, rows, columns, p.many) for m, rows, columns in sides)
        way, found = _Way(), c_int()
        try:
            self("cublasLtMatmulAlgoGetHeuristic", owner.handle, what, right, left, out, out, self._preference(owner),
                 1, byref(way), byref(found))  # fmt: skip
        except LibraryError:
            found.value = 0
        if not found.value or way.state:
            raise LibraryError(f"cuBLASLt has no way to multiply {p.rows} x {p.terms} by {p.terms} x {p.columns}")
        one, zero = owner.factors(p.dtype)
        return CallStruct(what=what, left=left, right=right, out=out, how=owner.keep(way), one=one,
                          zero=zero), int(way.workspace)  # fmt: skip

    def _preference(self, owner: Prepared) -> _P:
        """The working memory that a product may use, and the alignment of its arrays."""
        made = owner.own("MatmulPreference")
        self._set("MatmulPreference", made, MOST_WORKSPACE, c_size_t(self.most))
        for attribute in ALIGNMENTS:
            self._set("MatmulPreference", made, attribute, c_uint32(START))
        return made

    def _layout(self, owner: Prepared, m: Matrix, rows: int, columns: int, many: int) -> _P:
        """A matrix, column by column, as the library has them: its rows are our columns."""
        shape = (rows, columns) if m.transposed else (columns, rows)
        made = owner.own("MatrixLayout", TYPES[m.dtype.name], *shape, m.lead)
        if many > 1:
            self._set("MatrixLayout", made, COUNT, c_int32(many))
            self._set("MatrixLayout", made, APART, c_int64(m.apart))
        return made

    def _set(self, what: str, handle: _P, attribute: int, value: Any) -> None:
        """Set an attribute."""
        self(f"cublasLt{what}SetAttribute", handle, attribute, byref(value), ctypes.sizeof(value))
