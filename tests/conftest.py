"""What every test may ask for."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

os.environ.setdefault("PULLBACK_VERIFY", "1")  # every program that a test compiles is verified after each pass
gc.set_threshold(100_000, 20, 20)  # programs are many objects that live long: a tenth of the time went into this


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of data sets: `PULLBACK_DATA`, or the place beside the checkout."""
    folder = Path(os.environ.get("PULLBACK_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no data sets at {folder}; set PULLBACK_DATA")
    return folder


@pytest.fixture(scope="session")
def mnist_folder(data_folder: Path) -> Path:
    """The folder of MNIST idx files."""
    folder = data_folder / "mnist"
    if not folder.is_dir():
        pytest.skip(f"no MNIST files at {folder}; set PULLBACK_DATA")
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` rewrites the expected texts instead of comparing with them."""
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the files of tests/golden, then read the diff"
    )
