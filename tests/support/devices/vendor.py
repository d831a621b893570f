"""The libraries for tests that compute products and convolutions, each alone with a table."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest

from pullback.runtime.cache import cache_folder
from pullback.runtime.device import schedules, tuner
from pullback.runtime.device.vendor import loaded
from tests.support.devices import fake

FILES = {"cublaslt": fake.LIBRARY, "cudnn": fake.CUDNN}


class Library:
    """The control of a library for tests: "cublaslt" or "cudnn"."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._library = ctypes.CDLL(str(fake.built(FILES[name])))

    def set(self, mode: str) -> None:
        """Choose what it does; see `c/cublaslt.cpp` and `c/cudnn.cpp`."""
        self._library[f"fake_{self._name}_set"](mode.encode())

    @property
    def asked(self) -> int:
        """The products or convolutions that were asked for since `set`."""
        return int(self._library[f"fake_{self._name}_count"]())


@contextmanager
def fast(name: str, devices: fake.Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """Have a library that is faster than all kernels, and a table of its own."""
    own = f"tuned-{uuid4().hex}"
    monkeypatch.setattr(schedules, "KIND", own)
    for each, file in FILES.items():
        monkeypatch.setenv(f"PULLBACK_{each.upper()}", str(fake.built(file)))
    loaded.cache_clear()
    schedules._SAID.clear()
    found = Library(name)
    found.set("right")
    devices.set(time="0x0:100")
    monkeypatch.setattr(tuner, "WIDTH", 1)  # only the cheapest by its estimate is tried
    yield found
    found.set("right")
    loaded.cache_clear()
    schedules._SAID.clear()
    shutil.rmtree(cache_folder() / own, ignore_errors=True)
