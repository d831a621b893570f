"""The files of a device program: kernels, the host program and its header."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pullback.codegen.c.text import shape_text
from pullback.codegen.device.dialect import DeviceWords
from pullback.codegen.device.host import NO_DRIVER, NOT_LOADED, OLD_DRIVER, DeviceUnit, host_text
from pullback.codegen.device.kernels import Launch
from pullback.devices import Device
from pullback.loops.memory.plan import MemoryPlan
from pullback.loops.program.nodes import Function, Site, kernels_of


@dataclass(frozen=True)
class DeviceProgram:
    """A device program as text.

    Attributes:
        name: the name of its function.
        kernels: the text of its kernels.   host: the host program.   header: the header of the host program.
        sites: the meaning of each return code (from 1).
        device_bytes: the device memory that it uses.
        launches: its distinct launches.
    """

    name: str
    kernels: str
    host: str
    header: str
    sites: tuple[Site, ...]
    device_bytes: int
    launches: tuple[Launch, ...]


def device_program(function: Function, plan: MemoryPlan, words: DeviceWords, device: Device,
                   comments: bool = True, exact: bool = False) -> DeviceProgram:
    """Print a program whose kernels are launches.

    Args:
        exact: whether products are rounded before addition, without fused multiply-add.
    """
    unit = DeviceUnit(function, plan, words, comments)
    host = host_text(unit)
    text = "\n".join(unit.kernels.texts.values())
    helpers = "\n".join(unit.words.definitions(text)).replace("static inline ", words.function)
    kernels = "\n".join(p for p in (words.head, helpers, text) if p)
    launches = dict.fromkeys(x for k in kernels_of(function.body) for x in unit.kernels.launches(k))
    header = _header(unit, host.declaration, host.device_bytes, words, device, exact)
    return DeviceProgram(unit.name, kernels, host.text, header, tuple(unit.sites), host.device_bytes, tuple(launches))


HEADER: Final = """\
/* {about}

   Compile the kernels:  nvcc -cubin -arch={architecture}{exact} kernels.{suffix} -o kernels.cubin
   Compile the program:  cc -std=gnu99 -O2 -c {name}.c    (link with -ldl)
*/
#ifndef {macro}_H
#define {macro}_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

/* All functions return 0, or
    {no_driver}  there is no driver (libcuda.so.1)
    {old_driver}  the driver is too old
    {not_loaded}  the program is not loaded
    -n     error n of the driver, a CUresult
   One call at a time. */

/* Take the first device and {bytes} bytes of its memory, and load the contents of kernels.cubin. */
int {name}_load(const void *image);

/* Call it with arrays of the host, stored row by row.
{arrays}
{failures}*/
{declaration}

/* Give everything back. */
void {name}_unload(void);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _header(unit: DeviceUnit, declaration: str, device_bytes: int, words: DeviceWords, device: Device,
            exact: bool) -> str:
    f, name = unit.function, unit.name
    given = "\n".join(f"    {b.name}: {shape_text(b)}" for b in (*f.given, *f.outputs))
    failures = "".join(f"    {k}  an index left the range of {site.array} (in {site.statement})\n"
                       for k, site in enumerate(unit.sites, 1))  # fmt: skip
    about = " ".join((f.doc or f.name).split()).replace("*/", "* /")
    return HEADER.format(
        about=about, exact=" -fmad=false" * exact,
        name=name, macro=name.upper(), bytes=device_bytes, declaration=declaration, arrays=given,
        suffix=words.suffix, architecture=device.architecture, no_driver=NO_DRIVER, old_driver=OLD_DRIVER,
        not_loaded=NOT_LOADED, failures=f"   Returns also\n{failures}" if failures else "")  # fmt: skip
