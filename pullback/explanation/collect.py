"""Collection of a function's compilation stages, derivation steps, and compile times."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pullback.explanation.stages import About, Backend, Explained, Explanation, Format, KernelRow
from pullback.ir import nodes as ir
from pullback.ir.dims import determined_dims
from pullback.ir.printer import print_program
from pullback.pictures import Picture
from pullback.rewrite.fired import record_steps
from pullback.source import Position

if TYPE_CHECKING:
    from pullback.derivation.render import Derivation

__all__ = ["compile_times", "derive", "explanation_of"]


def explanation_of(
    program: ir.Program,
    dims: Mapping[str, int] | None,
    about: About,
    derivation: Derivation | None = None,
    format: Format = "text",
    plain: bool = False,
    find_graph: Callable[[], Picture | None] = lambda: None,
    device: str | None = None,
) -> Explanation:
    """Collect the stages from the traced program to C, or to a device's language.

    Without dims, sizes stay symbolic, and there is no C.
    """
    from pullback.machine import native
    from pullback.passes.pipeline import stages

    made = stages(program, dims or {}, native())
    names = tuple(map(str, determined_dims(program)))
    found = [Explained(s.name, s.purpose, print_program(s.program), s.rules) for s in made]
    if device is not None:
        found += _on_device(program, dims or {}, device.removesuffix("!").partition(":")[0])
        return Explanation(tuple(found), derivation, format, about, None, find_graph, names)
    if dims is None:
        return Explanation(tuple(found), derivation, format, about, None, find_graph, names)
    backend, text = _backend(program, dims, plain)
    chosen = "\n".join(f"{k.name}: {k.chosen.described}" for k in backend.kernels)
    found.append(Explained("kernels", "what is chosen for each statement here, by estimated cycles", chosen, {}))
    found.append(Explained("C", "what the compiler is given", text, {}))
    return Explanation(tuple(found), derivation, format, about, backend, find_graph, names)


def _on_device(program: ir.Program, dims: Mapping[str, int], language: str) -> list[Explained]:
    """Collect the launches on a device, and the text of its kernels."""
    from pullback.device import H100
    from pullback.grid.roofline import roofline
    from pullback.grid.summary import summary
    from pullback.runtime.device.export import compiled_text, lowered_for

    kernels, function = compiled_text(program, dims, language).kernels, lowered_for(program, dims).function
    return [Explained("launches", "what runs on the device, and what the host does between", summary(function), {}),
            Explained("roofline", "the least time of each kernel, and what bounds it", roofline(function, H100), {}),
            Explained(language, "what the device's compiler is given", kernels, {})]  # fmt: skip


def _backend(program: ir.Program, dims: Mapping[str, int], plain: bool) -> tuple[Backend, str]:
    """Collect the kernels for this processor, the memory, and portable C."""
    from pullback.codegen.targets import PLAIN_C, C
    from pullback.loops.program.nodes import kernels_of
    from pullback.machine import GENERIC, native
    from pullback.runtime.emit import exported_memory, lower_program, print_lowered, with_constants

    machine = native()
    made = kernels_of(lower_program(program, dims, False, machine).function.body)
    rows = tuple(KernelRow(k.name, k.choice, tuple(p for p in k.positions if _is_python(p)))
                 for k in made if k.choice is not None)  # fmt: skip
    target = PLAIN_C if plain else C
    lowered = with_constants(lower_program(program, dims, machine=target.machine(GENERIC)), program)
    source = print_lowered(lowered, places=True, target=target)
    return Backend(machine.name, rows, exported_memory(lowered), source.places), source.text


def _is_python(place: object) -> bool:
    """Whether a source location is in a Python file, not in another language's text."""
    return isinstance(place, Position)


def compile_times(program: ir.Known, dims: Mapping[str, int]) -> tuple[float, bool]:
    """Compile a program without the cache, for measurement by `clock.record_time`.

    Returns:
        The seconds of a later load from the cache, and whether the user's cache already has the program.
    Raises:
        CompilerError: [E410] there is no compiler.
    """
    from pullback.clock import record_time
    from pullback.runtime.cache import another_cache
    from pullback.runtime.executor import compile_program
    from pullback.runtime.record import CacheEntry

    with record_time():
        cached = CacheEntry(program, dims).record is not None
    with another_cache():
        compile_program(program, dims)
        start = time.perf_counter()
        with record_time():
            compile_program(program, dims)
        return time.perf_counter() - start, cached


def derive(make: Callable[[], ir.Program], check: bool = False) -> Derivation:
    """Record the derivation while `make` runs; with `check`, verify its steps numerically."""
    from pullback.derivation.check import check as check_steps
    from pullback.derivation.render import Derivation

    with record_steps() as steps:
        program = make()
    checked = check_steps(program, steps) if check else None
    return Derivation(program, tuple(steps), checked)
