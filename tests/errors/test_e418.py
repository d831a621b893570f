# ruff: noqa: E501
"""E418: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pullback.runtime.device import cuda


def test_no_driver(message: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("driver", "gpus"):
        monkeypatch.setattr(cuda, name, getattr(cuda, name).__wrapped__)
    monkeypatch.setenv("PULLBACK_LIBCUDA", "/nowhere/libcuda.so.1")
    assert (
        message("""
pb.device_put(np.ones(3), "cuda:0")
""")
        == """\
DeviceError [E418] there is no driver of CUDA: /nowhere/libcuda.so.1: cannot open shared object file: No such file or directory
  --> user.py:1:1
   | pb.device_put(np.ones(3), "cuda:0")
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: install the driver of your device; `device="cpu"` needs none      See `pullback explain-error E418`
"""
    )
