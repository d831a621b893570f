"""Programs loaded on devices, by program, sizes and device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

from pullback.codegen.device.program import device_program
from pullback.device import FALLS_BACK
from pullback.errors import CompilerError, DeviceError
from pullback.ir import nodes as ir
from pullback.ir.program import program_of
from pullback.runtime.device.driver import Gpu
from pullback.runtime.device.executor import DeviceExecutable, warn_once
from pullback.runtime.device.export import loops_for
from pullback.runtime.device.listing import gpu, named
from pullback.runtime.device.tuner import tuned
from pullback.state import registered

_LOADED: WeakValueDictionary[Any, DeviceExecutable] = registered(WeakValueDictionary(), "living programs")


def compile_on(where: str, known: ir.Known, dims: Mapping[str, int]) -> DeviceExecutable | None:
    """Compile a program for a device and numbers for all sizes.

    Args:
        where: a device, such as "cuda:0"; with "!" at the end it must run there.
    Returns:
        The program; None if it runs on the processor after a warning.
    Raises:
        PullbackError: it must run there, and cannot.
    """
    try:
        found = gpu(named(where))
        key = id(known), tuple(dims.items()), found.name
        made = _LOADED.get(key)
        if made is None:
            made = _LOADED[key] = _compiled_on(found, known, dims, key[:2])
        return made
    except (DeviceError, CompilerError) as error:
        if where.endswith("!") or error.code not in FALLS_BACK:
            raise
        warn_once(known.name, error)
        return None


def _compiled_on(gpu: Gpu, known: ir.Known, dims: Mapping[str, int], key: tuple[Any, ...]) -> DeviceExecutable:
    program = program_of(known)
    exact, tune = program.settings.exact, program.settings.tune
    others = [e for (*k, _), e in [*_LOADED.items()] if tuple(k) == key and alike(e.gpu, gpu)
              and (e.gpu.family == gpu.family or not tune)]  # fmt: skip
    if others:  # its loops and its text are those of another device
        return DeviceExecutable(gpu, known, others[0].lowered, others[0].program, gpu.image(others[0].program, exact))
    prefer = tuned(gpu, program, dims) if tune else None
    lowered = loops_for(program, dims, gpu.model, prefer)
    made = device_program(lowered.function, lowered.memory, gpu.words, gpu.model, comments=False, exact=exact)
    return DeviceExecutable(gpu, known, lowered, made, gpu.image(made, exact))


def alike(one: Gpu, other: Gpu) -> bool:
    """Whether two devices are of one driver and one architecture, so that they run the same kernels."""
    return one.kind == other.kind and one.model == other.model and one.entry.architecture == other.entry.architecture
