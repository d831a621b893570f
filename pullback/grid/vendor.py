"""Products and convolutions by libraries of the device's maker: candidates for tuners.

    z[b, m, n] = sum k { x[b, m, k] * y[b, k, n] }

The kernel has launches of its own, and its `vendor` says what they compute. So all readings of the kernel stay, and a
host program launches it where there is no library. Only plain sums qualify, without an epilogue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pullback.device import Device
from pullback.grid.called import LibraryConvolution, LibraryProduct, Matrix
from pullback.grid.convolutions import convolution
from pullback.grid.reductions import Reduction, element, moved, reduction
from pullback.grid.spread import spread
from pullback.grid.steps import count_of
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var
from pullback.ir.types import DType, f32, f64
from pullback.loops.plain.builder import KernelBuilder, Work, flat_position
from pullback.loops.plain.candidates import Candidate
from pullback.loops.product.contraction import Contraction, contractions
from pullback.loops.program.nodes import Kernel
from pullback.loops.program.schedule import EVERY, Schedule, Step
from pullback.loops.program.values import Buffer

RATE: Final = 0.85  # the part of the peak that a library reaches


@dataclass(frozen=True)
class Library(Step):
    """The step that leaves a statement to a library."""

    name: str

    def __str__(self) -> str:
        return self.name


def library_calls(work: Work, device: Device, others: Iterable[Candidate]) -> Iterator[Candidate]:
    """The candidates for plain products and convolutions, if libraries may compute them.

    Args:
        others: the other candidates, of which the cheapest has the launches.
    """
    r = reduction(work.statement)
    if not device.libraries or work.wish is not EVERY or r is None or not _is_plain(r):
        return
    offered: dict[str, LibraryProduct | LibraryConvolution | None] = {
        "cuBLASLt": next((p for c in contractions(r.build, work.address) if (p := _product(r, c, work, device))), None),
        "cuDNN": convolution(r, work, device.tf32)}  # fmt: skip
    if any(offered.values()):
        own = min(others, key=lambda c: c.cycles)
        for name, call in offered.items():
            if call is not None:
                build = partial(_build, own, call)
                yield Candidate("library", _cycles(call, work, device), build, Schedule((Library(name),)))


def _cycles(call: LibraryProduct | LibraryConvolution, work: Work, device: Device) -> float:
    """An estimate of the time of a library's kernel."""
    rate = device.double if call.dtype is f64 else device.single
    if call.dtype.is_half or (call.dtype is f32 and call.tf32):
        rate = device.tensor * 2 // call.dtype.size
    bandwidth = device.bandwidth / device.clock
    return device.launch + max(call.count / (device.multiprocessors * rate * RATE), moved(work.statement) / bandwidth)


def _build(own: Candidate, call: LibraryProduct | LibraryConvolution, builder: KernelBuilder) -> Kernel:
    return replace(spread(own.build(builder)), vendor=call)


def _is_plain(r: Reduction) -> bool:
    """Whether a statement is a sum, rounded once if it has 16 bits, and nothing else."""
    if r.total.op != "sum" or len(r.build.outs) != 1 or r.total.arg.dtype.bits < 32:
        return False
    value = r.build.values[0]
    return value is r.total or (isinstance(value, ir.Cast) and value.arg is r.total)


def _product(r: Reduction, c: Contraction, work: Work, device: Device) -> LibraryProduct | None:
    """A contraction as a product of a library; None if it is none."""
    build, [out] = r.build, r.build.outs
    if c.only_a or c.only_b:
        return None
    one, other = (element(o.term) for o in (c.a, c.b))
    if one is None or other is None:
        return None
    left = _matrix(work.parameter(one.ref), one.dtype, work.address(one.ref, one.indices)[1], c.rows, c.depth, c.shared)
    right = _matrix(work.parameter(other.ref), other.dtype, work.address(other.ref, other.indices)[1], c.depth,
                    c.columns, c.shared)  # fmt: skip
    to = _matrix(work.parameter(out), out.dtype, flat_position(build.vars), c.rows, c.columns, c.shared)
    if left is None or right is None or to is None or to.transposed or not _fits(left.dtype, right.dtype, to.dtype):
        return None
    many, rows, columns, terms = (count_of(v) or 1 for v in (c.shared, c.rows, c.columns, c.depth))
    return LibraryProduct(many, rows, columns, terms, left, right, to, device.tf32)


def _fits(left: DType, right: DType, out: DType) -> bool:
    """Whether a library multiplies these types, with sums of f32 for 16 bits."""
    if left is not right:
        return False
    return out is left if left in (f32, f64) else left.is_half and out in (left, f32)


def _matrix(buffer: Buffer, dtype: DType, flat: Index, down: Sequence[Var], across: Sequence[Var],
            around: Sequence[Var]) -> Matrix | None:  # fmt: skip
    """A matrix by the address of its elements; None if neither its rows nor its columns are contiguous."""
    by_row, by_column, apart = (_step(flat, run) for run in (down, across, around))
    known = {(v,) for v in (*down, *across, *around)}
    if by_row is None or by_column is None or apart is None or any(m not in known for m, _ in flat.terms):
        return None
    transposed = by_column != 1
    lead, least = (by_column, count_of(down) or 1) if transposed else (by_row, count_of(across) or 1)
    if (transposed and by_row != 1) or lead < least:
        return None
    return Matrix(buffer, dtype, transposed, lead, apart)


def _step(flat: Index, run: Sequence[Var]) -> int | None:
    """The distance of neighbors along a run of variables; None if it is not the same for all."""
    found = [None if s is None else s.constant for s in map(flat.coefficient, run)]
    for before, after, v in zip(found, found[1:], run[1:]):
        if before is None or after is None or before != after * (v.extent.constant or 0):
            return None
    return found[-1] if found else 0
