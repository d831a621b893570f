"""Make the page from one WebAssembly module, digits and parameters as text, and templates.

    page.html the content      page.css, page.js its style and behavior

All computation is traced here: scaling of images, training, recognition. The page draws, and passes arrays.
The digits are scikit-learn's copy of E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine
Learning Repository (1998), license CC BY 4.0, as stated on the page.
"""

from __future__ import annotations

import base64
import os
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Float32

import pullback as pb
from pullback import Array
from pullback.data.datasets import DIGITS_TRAIN, SIDE, bundled_digits, resize
from pullback.nn.models import zhang
from pullback.runtime.export import Exported, library
from pullback.state import cached
from pullback.templates import filled
from pullback.wasm import loader

__all__ = ["export_page"]

HERE: Final = Path(__file__).parent
TOGETHER: Final = 16  # images per training call
TESTED: Final = 100
CELLS: Final = 8  # pixels per side of a bundled digit


def export_page(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """Write the page to one file, which needs no server and no network.

    Args:
        directory: the folder, created if it does not exist.
    Returns:
        `files`, and `wasm_bytes`, the size of the module in it.
    Raises:
        CompilerError: [E415] no compiler for WebAssembly is installed.
        DataError: [E506] scikit-learn, which has the digits, is not installed.
    """
    from pullback.runtime.export import put_files

    parts = bundled_digits()
    digits, labels = (np.concatenate(pair) for pair in zip(*((p.inputs, p.targets) for p in (parts.train, parts.test))))
    module, size = loader(_functions(), "network", "Zhang's network: training and recognition")
    pixels = zlib.compress(labels.astype(np.uint8).tobytes() + digits.astype(np.uint8).tobytes(), 9)
    start = np.concatenate([np.ravel(p) for p in zhang.start(seed=0)]).astype("<f4")
    texts = {
        "style": _text("page.css"),
        "module": module,
        "script": _text("page.js"),
        "digits": base64.b64encode(pixels).decode(),
        "start": base64.b64encode(start.tobytes()).decode(),
        "count": str(len(labels)),
        "train": str(DIGITS_TRAIN),
        "tested": str(TESTED),
        "together": str(TOGETHER),
    }
    page = filled(_text("page.html"), texts)
    return {"files": put_files(directory, {"index.html": page}), "wasm_bytes": size}


def _text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


@cached(1)
def _functions() -> tuple[Exported, ...]:
    """The functions of the module as C, for these sizes."""
    parameters = zhang.start(seed=0)
    kind: Any = zhang.Training
    state, rate, labels = kind(parameters, np.float32(0)), np.float32(0), np.zeros(TOGETHER, np.uint8)
    several, tested = (np.zeros((n, SIDE, SIDE), np.float32) for n in (TOGETHER, TESTED))
    return (
        _library(zhang.train, state, several, labels, rate, N=TOGETHER),
        _library(zhang.layers, parameters, several[0]),
        _library(zhang.recognize, parameters, tested, N=TESTED),
        _library(_enlarge()),
        _library(_coarse()),
    )


def _library(f: pb.Function, *arguments: Any, **dims: int) -> Exported:
    """The function as C, for the types of some arguments."""
    own = pb.function(f.python)  # the original may be in use with other types
    own.program(*arguments)
    return library(*own.for_dims(dims))


def _enlarge() -> pb.Function:
    """The function that scales bundled digits, with levels from 0 to 16, to images for the network."""
    rows = resize(np.eye(CELLS)[:, :, None] * np.ones(CELLS), SIDE)  # the image of each row of ones
    weights = np.ascontiguousarray(rows[:, :, 0].T, dtype=np.float32)
    weights.setflags(write=False)

    @pb.function
    def enlarge(levels: Float32[Array, "8 8"]) -> Any:
        w = pb.asarray(weights)
        return w @ levels @ w.T / 16

    return enlarge


def _coarse() -> pb.Function:
    """The function that sums ink in each of 8 × 8 cells of a drawing, 0 to 16 as in the bundled digits."""

    @pb.function
    def coarse(ink: Float32[Array, "32 32"]) -> Any:
        return pb.build((CELLS, CELLS), lambda n, m: pb.sum_over((4, 4), lambda i, j: ink[4 * n + i, 4 * m + j]))

    return coarse
