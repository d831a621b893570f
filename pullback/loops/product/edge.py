"""Tiles at the edges of a product: the valid part of a tile, through working memory."""

from __future__ import annotations

from pullback.ir.index import ZERO_INDEX, Index, Var, as_index, cond
from pullback.ir.types import DType
from pullback.loops.plain.builder import free_variables
from pullback.loops.product.multiply import Walk, multiply
from pullback.loops.product.packing import pieces
from pullback.loops.program.nodes import Call, For, Kernel, Stmt, Store, either
from pullback.loops.program.values import Buffer, Load, Type, View
from pullback.state import cached


@cached(64)
def edge(dtype: DType, lanes: int, tile: tuple[int, int], in_place: bool | Walk, by: tuple[float, bool]) -> Kernel:
    """Compute the valid part of a partial tile; half the vectors are used if they suffice.

    Index parameters: those of `multiply`, the rows that are `present` and the columns `used`.
    """
    rows, vectors = tile
    large = as_index(1 << 40)
    present, used, stride, begun = (as_index(Var(name, large)) for name in ("present", "used", "stride", "begun"))
    numbers = {"present": present, "stride": as_index(vectors * lanes), "begun": ZERO_INDEX}
    *inputs, line, c = (Buffer(name, dtype, (large,), "parameter", large, name in ("line", "c"))
                        for name in ("a", "b", *("scale",) * by[1], "line", "c"))

    def sums(height: int, across: int) -> list[Stmt]:
        if across == vectors > 1:
            few = across // 2
            return either(cond(">=", few * lanes - used), sums(height, few), call(height, across))
        return call(height, across)

    def call(height: int, across: int) -> list[Stmt]:
        kernel = multiply(dtype, lanes, height, across, in_place, by, (rows, vectors * lanes))
        own = {v.name: numbers.setdefault(v.name, as_index(Var(v.name, large))) for v in kernel.indices}
        return [Call.by_name(kernel, tuple(map(View, (*inputs, line))), own)]

    body = either(cond(">=", rows // 2 - present), sums(rows // 2, vectors), sums(rows, vectors))
    body += store_part(line, vectors * lanes, View(c), (present, used), stride, begun, lanes)
    comment = ("the part of c[i, j] (+)= sum over k of a[i, k] * b[k, j] with i < present, j < used",)
    name = f"edge_{dtype.name}_{rows}x{vectors * lanes}" + "_in_place" * bool(in_place)
    return Kernel(name, (*inputs, line, c), free_variables(tuple(body)), tuple(body), comment)


def store_part(
    line: Buffer, width: int, to: View, sizes: tuple[Index, Index], stride: Index, begun: Index, lanes: int
) -> list[Stmt]:
    """Store the valid part of a tile from working memory; add it once the sum has begun."""
    rows, used = sizes

    def stores(accumulate: bool) -> list[Stmt]:
        i = Var("i", rows)

        def piece(done: Index, n: int) -> list[Stmt]:
            value = Load(line, as_index(i) * width + done, Type(line.dtype, n))
            return [Store(to.buffer, to.offset + as_index(i) * stride + done, value, accumulate)]

        return [For(i, ZERO_INDEX, rows, tuple(pieces(used, lanes, piece)))]

    return either(cond(">=", begun - 1), stores(True), stores(False))
