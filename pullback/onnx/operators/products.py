"""Matrix products."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback import linalg
from pullback.onnx.operators.common import integers
from pullback.onnx.operators.elementwise import dequantize, quantize
from pullback.onnx.operators.table import WrongNode, operator


@operator("MatMul")
def matmul(a: Any, b: Any) -> Any:
    """Matrix product over the last two axes."""
    return pb.matmul(a, b)


@operator("Gemm")
def gemm(a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0,
         broadcast: int = 0) -> Any:  # fmt: skip
    """Return `α A B + β C`, with A and B transposed on request."""
    if a.ndim != 2 or b.ndim != 2:
        raise WrongNode(f"matrices of {a.ndim} and {b.ndim} axes")
    a, b = (pb.matrix_transpose(m) if turned else m for m, turned in ((a, transA), (b, transB)))
    product = a @ b
    whole = product if alpha == 1 else _times(alpha, product)
    return whole if c is None else whole + (c if beta == 1 else _times(beta, c))


def _times(factor: float, x: Any) -> Any:
    return x * (factor if pb.isdtype(x.dtype, "real floating") else int(factor))


@operator("Einsum")
def einsum(*xs: Any, equation: str) -> Any:
    """The sum of products that an einsum equation defines."""
    return pb.einsum(equation.replace(" ", ""), *xs)


@operator("Det")
def determinant(x: Any) -> Any:
    """Determinant over the last two axes."""
    return linalg.det(x)


@operator("MatMulInteger")
def matmul_integer(a: Any, b: Any, a_zero_point: Any = None, b_zero_point: Any = None) -> Any:
    """Subtract the zero points from 8-bit integer matrices and multiply them in int32."""
    left, right = pb.astype(a, pb.int32), pb.astype(b, pb.int32)
    if a_zero_point is not None:
        zero = pb.astype(a_zero_point, pb.int32)
        left = left - (pb.expand_dims(zero, -1) if zero.ndim == 1 and integers(zero.shape) != [1] else zero)
    if b_zero_point is not None:
        right = right - pb.astype(b_zero_point, pb.int32)
    return left @ right


@operator("QLinearMatMul")
def quantized_matmul(a: Any, a_scale: Any, a_zero_point: Any, b: Any, b_scale: Any, b_zero_point: Any, y_scale: Any,
                     y_zero_point: Any) -> Any:  # fmt: skip
    """Product of quantized 8-bit matrices, quantized to 8 bits."""
    left = dequantize(a, a_scale, a_zero_point, axis=-2)
    right = dequantize(b, b_scale, b_zero_point, axis=-1)
    product = pb.astype(left, pb.float32) @ pb.astype(right, pb.float32)
    return quantize(product, pb.astype(y_scale, pb.float32), y_zero_point, axis=-2)
