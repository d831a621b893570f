"""Export of a network or a traced function as an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from pullback import nn
from pullback.errors import ShapeError, TraceError
from pullback.ir import nodes as ir
from pullback.ir.program import program_of
from pullback.ir.traverse import specialize
from pullback.nn.parameters import named
from pullback.onnx.graph import library
from pullback.onnx.layers import ROWS
from pullback.onnx.marks import marking
from pullback.onnx.write import model
from pullback.source import user_position
from pullback.tracing.array import shape_text
from pullback.writing import write_file

__all__ = ["save"]


def save(f: Any, file: str | os.PathLike[str], parameters: Any = None, state: Any = None, **dims: int) -> None:
    """Write a network or a function as an ONNX file, for ONNX runtimes and tools.

    Layers become the operators that ONNX has for them: a convolution becomes `Conv`. Everything else is written as
    operators on whole arrays. Sizes that are not given stay open in the file.

    Args:
        f: a network, for inference; or a function, whose annotations or last call determine the types.
        file: the path to write; an existing file is replaced.
        parameters: the tree for the first argument of f; the file then stores it. Without it all arguments are inputs
            of the graph.
        state: the tree for the second argument of f, which the file stores; that of a network's running statistics.
        dims: sizes for dims that are not to stay open.
    Raises:
        DataError: [E506] the package onnx is not installed. [E524] the function uses features without an ONNX
            counterpart, such as random numbers. All are listed.
        ShapeError: [E161] the parameters are not those of f.
        UsageError: [E607] the file cannot be written.

    >>> from pullback import nn, onnx
    >>> net = nn.sequential(nn.conv(4, 3), nn.relu, nn.flatten(), nn.dense(2)).on("N 1 8 8")
    >>> parameters, state = net.init(seed=0)
    >>> save(net, "net.onnx", parameters, state)
    >>> again, held = onnx.load("net.onnx")
    >>> again.type.rpartition("}, ")[2]
    'x: f32[N, 1, 8, 8]) -> f32[N, 2]'
    >>> x = np.ones((3, 1, 8, 8), np.float32)
    >>> bool(np.allclose(again(held, x), net(parameters, x), atol=1e-6))
    True
    """
    onnx = library()
    if isinstance(f, nn.Layer):
        if parameters is None:
            what = "onnx.save was given a network without parameters"
            remedy = '`onnx.save(net, "net.onnx", parameters, state)`'
            raise TraceError("E149", what, position=user_position(), remedy=remedy)
        doubles = any(a.dtype == np.float64 for a in named(parameters).values())
        f, state = f.function(np.float64 if doubles else np.float32), {} if state is None else state
    if not hasattr(f, "for_dims"):
        what = "onnx.save was given what is no `pb.function`"
        raise TraceError("E149", what, position=user_position(), remedy="`pb.function(f)`")
    program, captured = _program(f, dims)
    write_file(file, model(onnx, program, _held(program, parameters, state), captured).SerializeToString())


def _program(f: pb.Function, dims: Mapping[str, int]) -> tuple[ir.Program, Sequence[NDArray[Any]]]:
    """The program to write, with its layers marked, and the arrays that it captures."""
    _, found = f.known_for_dims(dict(dims))
    traced = f.determined(dims)
    if not f.is_derivative:  # a derivative is of a function's program, in which no layers are left
        with marking(ROWS):
            traced = pb.function(f.python).traced(traced.signature)
    return specialize(program_of(traced.known), found), traced.captured


def _held(program: ir.Program, parameters: Any, state: Any) -> dict[str, NDArray[Any]]:
    """The arrays that the file stores for the first inputs, by name."""
    held: dict[str, NDArray[Any]] = {}
    for tree in (parameters, state):
        for name, array in ({} if tree is None else named(tree)).items():
            held[name if name not in held else f"state/{name}"] = array
    inputs = program.inputs[: len(held)]
    for r, (name, array) in zip(inputs, held.items()):
        sizes = [e.constant for e in r.shape]
        if len(sizes) != array.ndim or any(e is not None and e != n for e, n in zip(sizes, array.shape)):
            what = f"onnx.save: {name} is {list(array.shape)}, and {program.name} takes {shape_text(r.shape)}"
            raise ShapeError("E161", what, position=user_position(), remedy="the parameters of this function")
    return {name: np.asarray(array, r.storage.numpy) for r, (name, array) in zip(inputs, held.items())}
