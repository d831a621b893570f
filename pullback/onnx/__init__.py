"""ONNX files: networks of other libraries as traced functions, and traced functions for other libraries.

    f, parameters = pullback.onnx.load("model.onnx")
    f(parameters, x)                      # NumPy in, NumPy out
    f.export("out")                       # C

It needs the package onnx (`pip install 'pullback[onnx]'`). What there is of ONNX is one table, `onnx.operators`.
"""

from pullback.onnx.load import load

__all__ = ["load"]
