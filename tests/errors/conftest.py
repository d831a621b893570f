"""Error messages are compared whole: each test holds the program a user wrote and the text they see."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from pullback.errors import PullbackError

PREAMBLE = """\
import math
import numpy as np
import pullback as pb
from jaxtyping import Bool, Float, Float32, Float64, Int64, UInt8
from pullback import Array
"""
NARROW = {  # places that Python marks more exactly since 3.12 or 3.13, and the earlier ones
    ("4:14", "    for v in x:", "             ^"): ("4:5", "    ^^^^^^^^^^^"),
    ("3:8", "    if training:", "       ^^^^^^^^"): ("3:5", "    ^^^^^^^^^^^^"),
    ("3:27", "    return sum(v for v in x)", "                          ^"): ("3:15", "              ^^^^^^^^^^^^^^"),
}


def marked(at: str, line: str, marks: str) -> str:
    """A place as messages show it."""
    return f"user.py:{at}\n   | {line}\n   | {marks}\n"


@pytest.fixture
def message(tmp_path: Path) -> Callable[[str], str]:
    """The message that running a program ends with; lines count from the program's own first one."""

    def run(source: str) -> str:
        path = tmp_path / "user.py"
        text = dedent(source).strip("\n") + "\n"
        path.write_text(text, encoding="utf-8")
        linecache.checkcache(str(path))
        names: dict[str, object] = {"__name__": "user"}
        exec(PREAMBLE, names)
        with pytest.raises(PullbackError) as caught:
            exec(compile(text, str(path), "exec", dont_inherit=True), names)
        shown = str(caught.value).replace(str(path), "user.py") + "\n"
        for (at, line, marks), (old_at, old_marks) in NARROW.items():
            shown = shown.replace(marked(at, line, marks), marked(old_at, line, old_marks))
        return shown

    return run
