"""The operators of ONNX, each a row of one table: what there is, and how to find it."""

from pullback.onnx.operators import elementwise, normalisation, products, recurrent, reduction, resize, shape, windows
from pullback.onnx.operators.table import Known, Operator, WrongNode, find

__all__ = ["Known", "Operator", "WrongNode", "elementwise", "find", "normalisation", "products", "recurrent",
           "reduction", "resize", "shape", "windows"]  # fmt: skip
