"""Whatever writes a file for users says with a code that it cannot."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32

import pullback as pb
from pullback import Array, onnx
from pullback.data import write_idx
from pullback.errors import UsageError


@pb.function
def twice(x: Float32[Array, "3"]) -> Any:
    return 2 * x


WRITERS: dict[str, Callable[[Path], Any]] = {
    "twice/twice.h": lambda folder: twice.export(folder / "twice"),
    "small/twice.h": lambda folder: twice.export_microcontroller(folder / "small"),
    "twice.onnx": lambda folder: onnx.save(twice, folder / "twice.onnx"),
    "x.idx": lambda folder: write_idx(folder / "x.idx", np.zeros(2, np.uint8)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    if name.endswith("onnx"):
        pytest.importorskip("onnx")
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UsageError) as caught:
        WRITERS[name](tmp_path / "file")
    assert str(caught.value) == (
        f"UsageError [E607] {tmp_path}/file/{name}: cannot be written: Not a directory\n"
        "  try: a folder you may write to      See `pullback explain-error E607`"
    )


def test_what_a_killed_process_left_goes_and_nothing_else(tmp_path: Path) -> None:
    left = tmp_path / f".pullback-{2**22 + 1}-{'0' * 16}.new"  # a number that no process has
    ours = tmp_path / f".pullback-{os.getpid()}-{'1' * 16}.new"
    mine = [tmp_path / name for name in (".mine.new", ".pullback-notes.new", f".pullback-7-{'0' * 16}.newer")]
    for path in (left, ours, *mine):
        path.write_text("x")
    write_idx(tmp_path / "x.idx", np.zeros(2, np.uint8))
    assert {p.name for p in tmp_path.iterdir()} == {"x.idx", ours.name, *(p.name for p in mine)}
