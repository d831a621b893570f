"""One warm interpreter for all tests of a session."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.harness import Zygote, zygote


@pytest.fixture(scope="session")
def place() -> Iterator[tuple[Zygote, Path]]:
    """A zygote, and a folder for what it works on."""
    if sys.platform != "linux" or shutil.which("gcc") is None:
        pytest.skip("needs LD_PRELOAD as on Linux, and gcc")
    with zygote() as made:
        yield made
