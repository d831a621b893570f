"""The build step that adds the compiled `pullback/runtime/c/call.c` to a wheel where PULLBACK_PREBUILT is 1.

A wheel is pure without it, and the file is compiled at the first call where there are a compiler and `Python.h`. With
it calls are quick at once, and also where there is no `Python.h`. One compiled with CPython 3.12 or later is for the
stable ABI and serves all later ones; 3.11 has a wheel of its own, as its stable ABI lacks the quick form of calls. A
free-threaded CPython has no stable ABI, and so a wheel for each version.

    PULLBACK_PREBUILT=1 python3.12 -m pip wheel --no-deps .
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FIRST_STABLE = (3, 12)


class ShimBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles the extension into a wheel, and gives the wheel its tag."""

    def dependencies(self) -> list[str]:
        """Return further build requirements: NumPy's headers, of a version whose extensions serve older ones too."""
        return ["numpy>=2"] if _is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file; called before the wheel is written."""
        if not _is_wanted() or version == "editable":
            return
        free = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""  # such a CPython has no stable ABI
        stable = sys.version_info >= FIRST_STABLE and not free
        abi = "abi3" if stable else sysconfig.get_config_var("SOABI")
        made = Path(self.directory) / f"call.{abi}.so"
        made.parent.mkdir(parents=True, exist_ok=True)
        # from the root, as names of sources are in what is compiled: the wheel is the same wherever it is built
        subprocess.run(_command(Path("pullback/runtime/c/call.c"), made.resolve(), stable), check=True, cwd=self.root)
        python = "cp{}{}".format(*(FIRST_STABLE if stable else sys.version_info[:2]))
        build_data["force_include"][str(made)] = f"pullback/runtime/{made.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"{python}-{'abi3' if stable else python + free}-{_platform()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the wheel now."""
        for made in Path(self.directory).glob("call.*.so"):
            made.unlink()


def _is_wanted() -> bool:
    return os.environ.get("PULLBACK_PREBUILT") == "1"


def _command(source: Path, made: Path, stable: bool) -> list[str]:
    import numpy as np

    flags = ["-O2", "-shared", "-fPIC", *(["-DPy_LIMITED_API=0x030C0000"] if stable else [])]
    if sys.platform == "darwin":
        flags += ["-undefined", "dynamic_lookup"]
    include = [f"-I{sysconfig.get_paths()['include']}", f"-I{np.get_include()}"]
    return [*shlex.split(os.environ.get("CC", "cc")), *flags, *include, str(source), "-o", str(made)]


def _platform() -> str:
    """The platform's part of a wheel's tag; on Linux that of the C library it is linked with (PEP 600)."""
    name, libc = platform.libc_ver()
    if sys.platform == "linux" and name == "glibc":
        return f"manylinux_{libc.replace('.', '_')}_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
