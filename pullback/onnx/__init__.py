"""ONNX files: import networks as traced functions, and export traced functions.

    f, parameters = pullback.onnx.load("model.onnx")
    f(parameters, x)                      # NumPy in, NumPy out
    f.export("out")                       # C
    pullback.onnx.save(f, "again.onnx", parameters)

It needs the package onnx (`pip install 'pullback[onnx]'`). The supported operators are one table, `onnx.operators`.
"""

from pullback.onnx.load import load
from pullback.onnx.save import save
from pullback.tracing.public import public_module as _public_module

__all__ = ["load", "save"]

_public_module(__name__)
