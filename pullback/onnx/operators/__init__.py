"""The operators of ONNX: a table, a row for each, and its lookup."""

from pullback.onnx.operators import (
    attention,
    detection,
    elementwise,
    normalization,
    products,
    recurrent,
    reduction,
    resize,
    shape,
    spectra,
    training,
    windows,
)
from pullback.onnx.operators.table import Known, Operator, WrongNode, find

__all__ = ["Known", "Operator", "WrongNode", "attention", "detection", "elementwise", "find", "normalization",
           "products", "recurrent", "reduction", "resize", "shape", "spectra", "training", "windows"]  # fmt: skip
