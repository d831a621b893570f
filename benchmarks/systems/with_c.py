"""Hand-written vector C, compiled with the machine's compiler and called through ctypes."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Runner
from benchmarks.inputs import PARAMETER_SHAPES, ZhangInputs
from pullback.errors import CompilerError
from pullback.state import cached

__all__ = ["FORMS", "library", "recognize", "train"]

FORMS = ("hand-written vectors",)
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")


def compiler() -> str:
    """The C compiler: `CC`, or the first of cc, gcc and clang that is installed.

    Raises:
        CompilerError: [E606] there is none.
    """
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        path = shutil.which(name) if name else None
        if path:
            return path
    raise CompilerError("E606", "no C compiler for the reference program", remedy="install gcc, or set CC")


@cached(2)
def library(dtype: str) -> ctypes.CDLL:
    """Compile and load the reference program for float32 or float64.

    Raises:
        CompilerError: [E606] there is no compiler, or it failed.
    """
    command = compiler()
    with (
        tempfile.TemporaryDirectory(prefix="pullback-bench-") as folder,
        as_file(files("benchmarks") / "reference" / "zhang.c") as source,
    ):
        target = Path(folder) / "zhang.so"
        is_double = int(dtype == "float64")
        done = subprocess.run(
            [command, *FLAGS, f"-DREAL_IS_DOUBLE={is_double}", "-shared", "-fPIC", str(source), "-o", str(target)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise CompilerError(
                "E606", f"{command} could not compile the reference program", facts=(done.stderr[:400],)
            )
        loaded = ctypes.CDLL(str(target))
    loaded.zhang_train.restype = ctypes.c_double
    loaded.zhang_recognize.restype = None
    return loaded


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def flatten(parameters: tuple[NDArray[Any], ...]) -> NDArray[Any]:
    """The parameters as the C structure has them: one after another."""
    return np.concatenate([array.ravel() for array in parameters])


def unflatten(flat: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """The parameters by name, from the C structure."""
    result, start = {}, 0
    for name, shape in PARAMETER_SHAPES.items():
        size = int(np.prod(shape))
        result[name] = flat[start : start + size].reshape(shape)
        start += size
    return result


class _TrainingByC:
    def __init__(self, inputs: ZhangInputs, form: str) -> None:
        self.inputs = inputs
        self.functions = library(inputs.images.dtype.name)
        self.initial = flatten(inputs.parameters)
        self.parameters = self.initial.copy()

    def reset(self) -> None:
        self.parameters[:] = self.initial

    def call(self) -> NDArray[Any]:
        images, labels = self.inputs.images, self.inputs.labels
        loss = self.functions.zhang_train(
            _pointer(self.parameters),
            ctypes.c_int64(len(images)),
            _pointer(images),
            _pointer(labels),
            ctypes.c_double(self.inputs.rate),
        )
        return np.array([loss / len(images)])


class _RecognitionByC:
    def __init__(self, inputs: ZhangInputs, form: str) -> None:
        self.inputs = inputs
        self.functions = library(inputs.images.dtype.name)
        self.parameters = flatten(inputs.parameters)
        self.digits = np.zeros(len(inputs.images), np.uint8)

    def reset(self) -> None:
        self.digits[:] = 255

    def call(self) -> NDArray[Any]:
        images = self.inputs.images
        self.functions.zhang_recognize(
            _pointer(self.parameters), ctypes.c_int64(len(images)), _pointer(images), _pointer(self.digits)
        )
        return self.digits.astype(np.int64)


def train(inputs: ZhangInputs, form: str) -> Runner:
    """One pass over the images, updating at every image."""
    return _TrainingByC(inputs, form)


def recognize(inputs: ZhangInputs, form: str) -> Runner:
    """The most likely digit of every image."""
    return _RecognitionByC(inputs, form)
