"""Products by a library of the device's maker: a candidate for tuners.

    z[b, m, n] = sum k { x[b, m, k] * y[b, k, n] }

The kernel has launches of its own, and its `library` says which product they compute. So all readings of the kernel
stay, and a host program launches it where there is no library. Only plain products qualify, without an epilogue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pullback.device import Device
from pullback.grid.products import products
from pullback.grid.reductions import Reduction, moved, reduction
from pullback.grid.steps import count_of
from pullback.grid.tensor import tensor_products
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var
from pullback.ir.types import DType, f32, f64
from pullback.loops.plain.builder import KernelBuilder, Work, flat_position
from pullback.loops.plain.candidates import Candidate
from pullback.loops.product.contraction import Contraction, contractions
from pullback.loops.program.library import LibraryProduct, Matrix
from pullback.loops.program.nodes import Kernel
from pullback.loops.program.schedule import EVERY, Schedule, Step
from pullback.loops.program.values import Buffer
from pullback.machine import Machine

RATE: Final = 0.85  # the part of the peak that a library reaches


@dataclass(frozen=True)
class Library(Step):
    """The step that leaves a product to a library."""

    name: str

    def __str__(self) -> str:
        return self.name


def library_products(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """The strategy for plain products, if libraries may compute them."""
    r = reduction(work.statement)
    if not device.libraries or work.wish is not EVERY or r is None:
        return
    own = [*tensor_products(work, machine, device), *products(work, machine, device)]
    found = next((p for c in contractions(r.build, work.address) if (p := _product(r, c, work, device))), None)
    if found is None or not own:
        return
    left = found.left.dtype
    rate = device.double if left is f64 else device.single
    if left.is_half or (left is f32 and found.tf32):
        rate = device.tensor * 2 // left.size
    count = found.many * found.rows * found.columns * found.terms
    bandwidth = device.bandwidth / device.clock
    cycles = max(count / (device.multiprocessors * rate * RATE), moved(work.statement) / bandwidth)
    yield Candidate("library", device.launch + cycles, partial(_build, min(own, key=lambda c: c.cycles), found),
                    Schedule((Library("cuBLASLt"),)))  # fmt: skip


def _build(own: Candidate, found: LibraryProduct, builder: KernelBuilder) -> Kernel:
    return replace(own.build(builder), library=found)


def _product(r: Reduction, c: Contraction, work: Work, device: Device) -> LibraryProduct | None:
    """A contraction as a product of a library; None if it is none."""
    build = r.build
    if r.total.op != "sum" or len(build.outs) != 1 or r.total.arg.dtype.bits < 32 or c.only_a or c.only_b:
        return None
    value, [out] = build.values[0], build.outs
    if value.arg is not r.total if isinstance(value, ir.Cast) else value is not r.total:
        return None
    one, other = (_operand(o.term) for o in (c.a, c.b))
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


def _operand(term: ir.Scalar) -> ir.Get | None:
    """The array element that an operand is, or whose value it is in f32."""
    if isinstance(term, ir.Cast) and term.arg.dtype.is_half:
        term = term.arg
    return term if isinstance(term, ir.Get) else None


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
