"""Text as windows of characters; the targets are the next characters."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from pullback import reading
from pullback.data.dataset import Dataset
from pullback.errors import DataError

__all__ = ["load_text"]


def load_text(path: str | os.PathLike[str], sequence_length: int = 64, stride: int | None = None) -> Dataset:
    """Load windows of a text file, each with the same window shifted by one as its target.

    Args:
        path: a UTF-8 file.
        sequence_length: the number of characters per window.
        stride: the distance between the starts of windows; by default `sequence_length`, without overlap.
    Returns:
        Inputs and targets of shape (N, sequence_length), as windows of one array. Elements index characters in
        `classes`; they are uint8 if there are at most 256 characters, otherwise int32.
    Raises:
        DataError: [E501] the file cannot be read, [E519] it is not UTF-8 text, [E512] it is shorter than a window,
            [E527] it is larger than the limit.

    >>> from pullback import data
    >>> from pathlib import Path
    >>> _ = Path("abc.txt").write_text("abcabcabc")
    >>> text = data.load_text("abc.txt", sequence_length=3)
    >>> text.classes, text.inputs.tolist(), text.targets.tolist()
    (('a', 'b', 'c'), [[0, 1, 2], [0, 1, 2]], [[1, 2, 0], [1, 2, 0]])
    """
    path = Path(path)
    content = reading.content(path)
    reading.check_size(path, (len(content),), 4)  # a character takes four bytes temporarily
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            "E519",
            f"{path}: no text in UTF-8",
            facts=(f"byte {error.start} is {content[error.start]:#04x}: {error.reason}",),
            remedy="a text file, converted to UTF-8",
        ) from error
    if len(text) <= sequence_length:
        raise DataError(
            "E512",
            f"{path}: {len(text)} characters make no window of {sequence_length} with one behind it",
            remedy="a shorter `sequence_length`, or more text",
        )
    points, codes = np.unique(np.frombuffer(text.encode("utf-32-le"), np.uint32), return_inverse=True)
    numbers = codes.astype(np.uint8 if len(points) <= 256 else np.int32)
    windows = np.lib.stride_tricks.sliding_window_view(numbers, sequence_length)
    every = slice(None, None, stride or sequence_length)
    return Dataset(
        windows[:-1][every], windows[1:][every], path.name, classes=tuple(map(chr, points.tolist()))
    )
