"""The operators of ONNX: a table, a row for each, and its lookup."""

from pullback.onnx.operators import elementwise, normalization, products, recurrent, reduction, resize, shape, windows
from pullback.onnx.operators.table import Known, Operator, WrongNode, find

__all__ = ["Known", "Operator", "WrongNode", "elementwise", "find", "normalization", "products", "recurrent",
           "reduction", "resize", "shape", "windows"]  # fmt: skip
