"""Export of programs for devices: kernels as text, a host program in C, and its header.

kernels.cu    the kernels; kernels.cl in OpenCL
kernels.cubin their machine code, for each architecture that is asked for
network.c     the host program, which finds the driver at load time
network.h     how to compile, load and call it
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pullback.codegen.device.dialect import DIALECTS
from pullback.codegen.device.program import DeviceProgram, device_program
from pullback.device import GENERIC, H100, Device, cuda_model
from pullback.errors import CompilerError
from pullback.grid.sorts import MOST_SORTED
from pullback.ir import nodes as ir
from pullback.ir.dims import determined_dims
from pullback.ir.foreign import Foreign
from pullback.ir.index import Index
from pullback.loops.plain.candidates import Preference
from pullback.loops.program.nodes import For, Function, Procedure, Stmt, kernels_of, walk
from pullback.runtime.device.nvrtc import compiled
from pullback.runtime.emit import Lowered, lower_program, with_constants
from pullback.runtime.export import put_files
from pullback.source import user_position

__all__ = ["compiled_text", "export", "loops_for", "lowered_for", "refuse"]

ANY_DRIVER: Final = 99_000  # a driver for which all compilers are old enough
MOST_LAUNCHED: Final = (1 << 31) - 1  # groups of a launch
WITHOUT: Final = "a function without this part; calls and `export` run all of it on the processor"


def export(program: ir.Program, dims: Mapping[str, int], directory: str | os.PathLike[str],
           language: str = "cuda", architectures: Sequence[str] = ()) -> dict[str, Any]:
    """Write the files of a program without open sizes; `f.export_device` calls this.

    Args:
        directory: created where it does not exist; files of the same names are replaced.
        language: the language of the kernels.
        architectures: those of CUDA for which kernels are compiled, each in a folder of its name.

    Returns:
        `files`, the paths written, `device_bytes`, the device memory, and `kernels`, the number of kernels; the largest
        of all architectures.
    Raises:
        CompilerError: [E417] the program uses features that devices do not support yet, or a size is open.
        DeviceError: [E419] there is no compiler of kernels, or it does not know an architecture.
    """
    if architectures and language != "cuda":
        raise CompilerError("E417", f"{language} has no machine code for {architectures[0]}", position=user_position(),
                            remedy="no architectures: the driver compiles the text")  # fmt: skip
    made = [compiled_text(program, dims, language, cuda_model(a)) for a in architectures]
    texts = {f"{a}/{name}": text for a, m in zip(architectures, made, strict=True)
             for name, text in {**_texts(m, language), "kernels.cubin": _cubin(m, a, program.settings.exact)}.items()}
    if not made:
        made = [compiled_text(program, dims, language)]
        texts = _texts(made[0], language)
    return {"files": put_files(directory, texts), "device_bytes": max(m.device_bytes for m in made),
            "kernels": max(len(m.launches) for m in made)}  # fmt: skip


def _texts(made: DeviceProgram, language: str) -> dict[str, str | bytes]:
    return {f"kernels.{DIALECTS[language].suffix}": made.kernels, f"{made.name}.c": made.host,
            f"{made.name}.h": made.header}  # fmt: skip


def _cubin(made: DeviceProgram, architecture: str, exact: bool) -> bytes:
    return compiled(made.kernels, architecture, ANY_DRIVER, ("--fmad=false",) * exact)


def compiled_text(program: ir.Program, dims: Mapping[str, int], language: str = "cuda",
                  device: Device = H100) -> DeviceProgram:
    """The text of a program for a device.

    Raises:
        CompilerError: [E417] see `export`.
    """
    if language not in DIALECTS:
        raise CompilerError("E417", f"there are no devices with the language {language!r}", position=user_position(),
                            remedy=f"one of {', '.join(DIALECTS)}")  # fmt: skip
    lowered = lowered_for(program, dims, device if DIALECTS[language].tensor else GENERIC)
    return device_program(lowered.function, lowered.memory, DIALECTS[language], device,
                          exact=program.settings.exact)  # fmt: skip


def lowered_for(program: ir.Program, dims: Mapping[str, int], device: Device = H100) -> Lowered:
    """The loops of a program for a device.

    Raises:
        CompilerError: [E417] see `export`.
    """
    return with_constants(loops_for(program, dims, device), program)


def loops_for(program: ir.Program, dims: Mapping[str, int], device: Device = H100,
              prefer: Preference | None = None) -> Lowered:
    """The loops of a program for a device; captured arrays are arguments.

    Args:
        prefer: chooses kernels before the estimates do.

    Raises:
        CompilerError: [E417] see `export`.
    """
    if missing := sorted(determined_dims(program).keys() - dims.keys()):
        values = ", ".join(f"{d}=…" for d in missing)
        raise CompilerError("E417", f"{program.name}: a device program has all sizes; open: {', '.join(missing)}",
                            position=user_position(), remedy=f"give them: {values}")  # fmt: skip
    if program.settings.debug:
        raise CompilerError("E417", f"{program.name}: a debug build runs on the processor", position=user_position(),
                            remedy="debug=False")  # fmt: skip
    lowered = lower_program(program, dims, device=device, prefer=prefer)
    refuse(lowered.function)
    return lowered


def refuse(function: Function) -> None:
    """Raise an error for the first kernel that devices do not support.

    Raises:
        CompilerError: [E417] there is such a kernel.
    """
    for k in kernels_of(function.body):
        for s in walk(k.body):
            if what := _refused(s):
                raise CompilerError("E417", f"{function.name}: {what} is not supported on devices yet",
                                    position=k.position, remedy=WITHOUT)  # fmt: skip


def _refused(s: Stmt) -> str:
    """The name of a statement that devices do not support; empty if they do."""
    match s:
        case Procedure(work=Foreign() as work):
            return f"the C function {work.name}"
        case Procedure():
            return f"sorting of {MOST_SORTED:,} elements or more"
        case For(kind="group", upper=Index() as groups) if (groups.constant or 0) > MOST_LAUNCHED:
            return f"a launch of {groups.constant:,} groups of threads"
        case _:
            return ""
