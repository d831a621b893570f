"""A driver and a compiler of CUDA for tests: devices that are this processor.

`c/driver.cpp` takes the place of `libcuda.so.1`, `c/nvrtc.cpp` that of NVRTC, `c/cublaslt.cpp` that of cuBLASLt, and
`c/cudnn.cpp` that of cuDNN. They are compiled at first use and kept by their content. A process that has loaded the
first two finds them by their names, as it would find the real ones.

PULLBACK_TEST_CUDA=1 leaves all out: tests of devices run on the computer's own device.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from pullback.runtime.cache import cache_folder
from tests.support.devices import nvrtc

HERE: Final = Path(__file__).parent / "c"
SOURCES: Final = tuple(sorted(HERE.iterdir()))
DRIVER, COMPILER, LIBRARY, CUDNN = "libcuda.so.1", "libnvrtc.so.12", "libcublasLt.so.12", "libcudnn.so.9"
_FILES: Final = {DRIVER: "driver.cpp", COMPILER: "nvrtc.cpp", LIBRARY: "cublaslt.cpp", CUDNN: "cudnn.cpp"}
HAS_COMPILER: Final = shutil.which("g++") is not None
REST: Final = "right on a real device so far; the rest controls the driver for tests"
IS_REAL: Final = os.environ.get("PULLBACK_TEST_CUDA") == "1"
_CACHE: Final = cache_folder()  # before a test names another


@cache
def home() -> Path:
    """The folder of the kernels' headers, and of everything compiled with them."""
    digest = hashlib.sha256(b"\0".join(f.read_bytes() for f in SOURCES)).hexdigest()[:16]
    folder = _CACHE / "devices-for-tests" / digest
    folder.mkdir(parents=True, exist_ok=True)
    for f in SOURCES:
        if f.suffix == ".h":
            _put(folder / f.name, f.read_bytes())
    os.environ["FAKE_NVRTC_HOME"] = str(folder)
    return folder


def _put(path: Path, content: bytes) -> None:
    if not path.exists():
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(content)
        Path(file.name).replace(path)


@cache
def built(name: str = DRIVER, flags: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> Path:
    """One of the libraries, in a folder of its own.

    Args:
        flags: the compiler's flags.   without: entry points to leave out, as in old drivers.
    """
    source = _FILES[name]
    folder = home() / hashlib.sha256(repr((name, flags, without)).encode()).hexdigest()[:16]
    if (folder / name).exists():
        return folder / name
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        script = Path(place) / "exports"
        script.write_text(f"{{ global: *; {'local: ' * bool(without)}{' '.join(f'{n};' for n in without)} }};")
        command = ["g++", "-std=c++17", "-O1", "-g", "-Wall", "-Wextra", *flags, "-shared", "-fPIC"]
        command += [f"-Wl,-soname,{name}", f"-Wl,--version-script={script}", str(HERE / source)]
        subprocess.run([*command, "-o", f"{place}/{name}", "-ldl", "-lpthread"], check=True)
        Path(f"{place}/{name}").replace(folder / name)
    return folder / name


def compiled(text: str, architecture: str = "sm_90a", *options: str, flags: Sequence[str] = ()) -> bytes:
    """The image of kernels for the driver for tests.

    Args:
        options: NVRTC's options.   flags: the flags of g++.
    Raises:
        ValueError: the text does not compile; the message is the compiler's.
    """
    rtc = ctypes.CDLL(str(built(COMPILER)))
    rtc.fake_nvrtc_flags(" ".join(flags).encode())
    try:
        return nvrtc.image_and_log(rtc, text, (f"--gpu-architecture={architecture}", *options))[0]
    finally:
        rtc.fake_nvrtc_flags(b"")


class Driver:
    """The control of the loaded driver for tests; `c/settings.h` lists the settings."""

    def __init__(self) -> None:
        self._driver = ctypes.CDLL(str(built(DRIVER)), ctypes.RTLD_GLOBAL)
        self._compiler = ctypes.CDLL(str(built(COMPILER)))
        self._driver.fake_cuda_count.restype = self._compiler.fake_nvrtc_count.restype = ctypes.c_uint64
        self._driver.fake_cuda_message.restype = ctypes.c_char_p

    def set(self, **settings: int | str) -> None:
        """Change settings."""
        words = " ".join(f"{k}={v}" for k, v in settings.items())
        assert self._driver.fake_cuda_set(words.encode()), words

    def fail(self, call: str, error: int, after: int = 1) -> None:
        """Let a call fail, the first of its name from now on or a later one."""
        self.set(fail=f"{call}:{after}:{error}")

    def count(self, what: str) -> int:
        """The number of calls of a name, or another figure, since `reset`."""
        return int(self._driver.fake_cuda_count(what.encode()))

    @property
    def message(self) -> str:
        """The reason of the last error."""
        return str(self._driver.fake_cuda_message().decode())

    @property
    def compilations(self) -> int:
        """The number of texts that were compiled rather than found in the cache."""
        return int(self._compiler.fake_nvrtc_count())

    @property
    def launched(self) -> bool:
        """Whether kernels were launched since `reset`."""
        return self.count("cuLaunchKernel") > 0

    def reset(self) -> None:
        """Restore all settings and counts; contexts that had failed work again."""
        self._driver.fake_cuda_reset()


class Real(Driver):
    """The computer's own driver, for tests up to the point where they control theirs."""

    launched = True

    def __init__(self) -> None:
        pass

    def set(self, **settings: int | str) -> None:
        pytest.skip(REST)

    def count(self, what: str) -> int:
        pytest.skip(REST)

    @property
    def message(self) -> str:
        return "of a real driver"

    @property
    def compilations(self) -> int:
        pytest.skip(REST)

    def reset(self) -> None:
        pass


def on_host(x: Any) -> np.ndarray[Any, Any]:
    """A copy of an array on a device, as NumPy makes it from 2.1 on; by `numpy()` before."""
    if np.lib.NumpyVersion(np.__version__) < "2.1.0":
        return np.asarray(x.numpy())
    return np.from_dlpack(x, device="cpu")


@contextmanager
def loaded(**settings: int | str) -> Iterator[Driver]:
    """Use the driver for tests in this process, with some settings."""
    driver = Driver()
    driver.reset()
    driver.set(**settings)
    try:
        yield driver
    finally:
        driver.reset()
