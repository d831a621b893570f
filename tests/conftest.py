"""What every test may ask for."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from pullback.calls.function import Function
from pullback.codegen.c import build as c_build
from pullback.errors import DeviceError
from pullback.lazy import places
from pullback.runtime import arena, shim
from pullback.runtime.device import cuda as cuda_driver
from pullback.runtime.device import executor, nvrtc, opencl
from pullback.runtime.device.cuda import gpus as cuda_gpus
from pullback.runtime.entry import PythonEntry
from tests import rotation
from tests.lowered import loops_are_held  # noqa: F401
from tests.support.devices import fake

ROOT = Path(__file__).resolve().parents[1]

os.environ.setdefault("PULLBACK_VERIFY", "1")  # every program that a test compiles is verified after each pass
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in background jobs of shells; tests send it
    signal.signal(signal.SIGINT, signal.default_int_handler)
gc.set_threshold(100_000, 20, 20)  # programs are many objects that live long: a tenth of the time went into this

# A test that asks what a function means has its C compiled with little optimization, in half the time, and linked
# without what the process has anyway. Where machine code is the subject it is what users run; with
# PULLBACK_TEST_C=users it is so everywhere.
OF_MACHINE_CODE = tuple(
    ROOT / "tests" / place
    for place in ("docs", "examples", "golden", "laws/test_c.py", "laws/test_c_agrees.py", "laws/test_equal_rows.py",
                  "laws/test_fuzz.py", "laws/test_guards.py", "laws/test_threads.py", "table/test_guarded_reads.py",
                  "table/test_primitives.py", "unit/cli/test_train.py", "unit/codegen", "unit/loops", "unit/runtime",
                  "unit/test_complex_matrices.py", "unit/test_decompositions.py", "unit/test_eigen.py",
                  "unit/test_random.py",
                  "unit/lazy/test_remote.py")  # compared with workers, which compile as users do
)  # fmt: skip
OF_MEANING = tuple(ROOT / "tests" / "unit" / "loops" / f"test_{name}.py" for name in ("all_sizes", "open_sizes"))
AS_USERS = c_build.FLAGS, c_build.GCC_FLAGS
LITTLE = (*("-Og" if flag == "-O2" else flag for flag in c_build.FLAGS), "-nostdlib"), ()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set the flags with which C is compiled in this test."""
    machine_code = any(map(item.path.is_relative_to, OF_MACHINE_CODE)) and item.path not in OF_MEANING
    full = os.environ.get("PULLBACK_TEST_C") == "users" or machine_code
    c_build.FLAGS, c_build.GCC_FLAGS = AS_USERS if full else LITTLE  # type: ignore[misc]


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Skip tests that need a second device where a real driver has one."""
    try:
        return (yield)
    except DeviceError as error:
        if fake.IS_REAL and "there is no device cuda:1" in str(error):
            pytest.skip("there is no second device")
        raise


def pytest_sessionfinish() -> None:
    """Set aside what is alive: pytest collects several times at its end, and each would look at millions of objects."""
    gc.freeze()


@pytest.fixture
def few_objects() -> Iterator[None]:
    """Set aside what is alive, millions of objects late in a run: `gc.collect()` looks at what the test made.

    Not for all tests: while objects are set aside, compiling does not spare new ones the collector.
    """
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[fake.Driver]:
    """Load a driver and a compiler of CUDA for tests, so that this process has a device."""
    if fake.IS_REAL:
        yield fake.Real()
        return
    if not fake.HAS_COMPILER:
        pytest.skip("no g++")
    monkeypatch.setenv("PULLBACK_NVRTC", str(fake.built(fake.COMPILER)))
    with fake.loaded() as driver:
        yield driver


@pytest.fixture
def devices(cuda: fake.Driver, few_objects: None) -> Iterator[fake.Driver]:
    """Two devices of CUDA, whose work runs only when a call waits for it."""
    if not fake.IS_REAL:
        cuda.set(devices=2, late=1)
    if not fake.IS_REAL and cuda_gpus.cache_info().currsize and len(cuda_gpus()) != 2:
        cuda_gpus.cache_clear()
    executor._SAID.clear()
    places.default_place.cache_clear()
    yield cuda
    places.default_place.cache_clear()
    gc.collect()


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process look for its drivers and compilers of devices again."""
    for module, name in ((cuda_driver, "driver"), (cuda_driver, "gpus"), (nvrtc, "compiler"), (opencl, "loader"),
                         (opencl, "gpus")):  # fmt: skip
        monkeypatch.setattr(module, name, getattr(module, name).__wrapped__)


@pytest.fixture(params=["extension", "python"])
def entries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Calls of functions made in the test, once with entries of the extension and once with those in Python."""
    kind: str = request.param
    if kind == "extension" and shim.extension() is None:
        pytest.skip("no Python.h or no compiler for extensions")
    with monkeypatch.context() as patch:
        if kind == "python":
            patch.setattr(shim, "_found", [None])
            patch.setattr(sys.modules[Function.__module__], "answer_of", _answer_in_python)
            arena.arenas.cache_clear()
        yield kind
    arena.arenas.cache_clear()


def _answer_in_python(entries: list[Any], *call: Any) -> Any:
    """A function that outlives its test may have entries of the extension, too: drop them."""
    entries[:] = [entry for entry in entries if isinstance(entry, PythonEntry)]
    return shim.answer_of(entries, *call)


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
    """Add `--update-golden` and `--everything`."""
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the files of tests/golden, then read the diff"
    )
    parser.addoption(
        "--everything",
        action="store_true",
        help="run all rows of the large tables and all slow tests; an ordinary run has a sixteenth",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the rows of this run, before the workers start: they inherit the environment."""
    rotation.choose(config)


def pytest_report_header() -> list[str]:
    """Say which rows run."""
    return rotation.header()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that took long and are not marked slow; those of tables are rows already."""
    for line in rotation.without_mark(terminalreporter.stats.get("passed", [])):
        terminalreporter.write_line(f"long, and not marked slow: {line}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the rows of other runs."""
    kept = rotation.kept(items)
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=list({*items} - {*kept}))
        items[:] = kept
