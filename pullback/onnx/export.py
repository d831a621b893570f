"""Export of ONNX files as C projects: the function, its weights, and a program that reads files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from pullback.codegen.targets import C_TO_READ
from pullback.errors import ShapeError
from pullback.ir.dims import determined_dims
from pullback.nn.export_main import Array, Field, Main, Step
from pullback.onnx.graph import names_for
from pullback.onnx.load import load
from pullback.runtime.buffer import extents
from pullback.runtime.export import library, put_files

__all__ = ["export"]


def export(source: Any, directory: str | os.PathLike[str], *, batch_size: int | None = None,
           dims: Mapping[str, int] | None = None) -> dict[str, Any]:  # fmt: skip
    """Write an ONNX file as a C project that needs only libc and libm.

        lenet_infer.c .h        the function: parameters, inputs, results, working memory
        lenet.safetensors       the parameters in the order of its arguments
        main.c                  lenet infer | test, for networks with one input and one result
        CMakeLists.txt

    Args:
        source: the path of the file; the project takes its name.
        directory: created if missing; files of the same names are replaced.
        batch_size, dims: open sizes, as for `load`.
    Returns:
        `files`, the paths written, and `arena_bytes`, the size of working memory.
    Raises:
        DataError: as for `load`. ShapeError: [E115] a size is open and has no value.
    """
    name = names_for([Path(source).stem])[0]
    f, parameters = load(source, batch_size=batch_size, dims=dims, name=f"{name}_infer")
    program, _ = f.for_dims({})
    if open_ := list(determined_dims(program)):
        remedy = "--batch-size 1, or --dim NAME=VALUE for each"
        raise ShapeError("E115", f"{source}: the size {open_[0]} is not given", facts=[f.type], remedy=remedy)
    made = library(program, {}, target=C_TO_READ)
    variables = names_for([f"parameters_{key}" for key in sorted(parameters)])
    arrays = [Array(key, v, parameters[key]) for key, v in zip(sorted(parameters), variables)]
    function = made.lowered.function
    given = [b for b in function.inputs if b not in function.constants][len(arrays) :]
    sample = np.zeros(extents(given[0]) if given else (1,), given[0].dtype.numpy if given else np.float32)
    result = function.outputs[0]
    labels = sample.shape[:1] == (1,) and extents(result)[:1] == (1,)
    target = np.zeros((1,), np.int64) if labels else np.zeros(extents(result), result.dtype.numpy)
    classes = prod(extents(result)) if labels else 0
    inputs = [Field("INPUTS", "input", sample)]
    targets = [Field("TARGETS", "target", target, "targets", classes)]
    main = Main(name, Step(made.source, [result]), None, arrays, len(arrays), inputs, targets, 1)
    texts: dict[str, str | bytes] = {**made.files, main.weights: main.content}
    if len(given) == len(function.outputs) == 1 and sample.ndim and not given[0].dtype.is_half:
        texts |= {"main.c": main.text, "CMakeLists.txt": main.cmake}
    return {"files": put_files(directory, texts), "arena_bytes": made.source.arena_bytes}
