"""The files of a device program: kernels, the host program and its header."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pullback.codegen.c.text import shape_text
from pullback.codegen.device.dialect import DeviceWords
from pullback.codegen.device.host import (
    NO_DRIVER,
    NO_MEMORY,
    NOT_ALIGNED,
    NOT_OPEN,
    OLD_DRIVER,
    START,
    DeviceUnit,
    HostText,
    host_text,
)
from pullback.codegen.device.kernels import Launch
from pullback.device import Device
from pullback.loops.memory.plan import MemoryPlan
from pullback.loops.program.nodes import Function, If, Site, kernels_of, walk
from pullback.loops.program.vendor import LibraryCall


@dataclass(frozen=True)
class DeviceProgram:
    """A device program as text.

    Attributes:
        name: the name of its function.
        kernels: the text of its kernels.   host: the host program.   header: the header of the host program.
        sites: the meaning of each return code (from 1).
        memory_bytes: its working memory on the device.   array_bytes: the memory for arrays of the host.
        launches: its distinct launches.   vendor_calls: the kernels that libraries may compute.
    """

    name: str
    kernels: str
    host: str
    header: str
    sites: tuple[Site, ...]
    memory_bytes: int
    array_bytes: int
    launches: tuple[Launch, ...]
    vendor_calls: tuple[LibraryCall, ...] = ()

    @property
    def device_bytes(self) -> int:
        """The bytes of device memory that the program uses."""
        return self.memory_bytes + self.array_bytes

    @property
    def start(self) -> int:
        """The number of bytes of which the addresses of arguments must be multiples."""
        return START if self.vendor_calls or any(launch.aligned for launch in self.launches) else 1


def device_program(function: Function, plan: MemoryPlan, words: DeviceWords, device: Device,
                   comments: bool = True, exact: bool = False) -> DeviceProgram:
    """Print a program whose kernels are launches.

    Args:
        exact: whether products are rounded before addition, without fused multiply-add.
    """
    unit = DeviceUnit(function, plan, words, comments)
    host = host_text(unit)
    text = "\n".join(unit.kernels.texts.values())
    kernels = words.file("\n".join(unit.words.definitions(text)), text, exact)
    launches = dict.fromkeys(x for k in kernels_of(function.body) for x in unit.kernels.launches(k))
    header = _header(unit, host, device, exact)
    return DeviceProgram(unit.name, kernels, host.text, header, tuple(unit.sites), host.memory_bytes, host.array_bytes,
                         tuple(launches), tuple(unit.calls))


HEADER: Final = """\
/* {about}

{kernels}   Compile the program:  cc -std=gnu99 -O2 -c {name}.c    (link with -ldl)
*/
#ifndef {macro}_H
#define {macro}_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{declaration}struct {name};

/* All functions return 0, or
    {no_driver}  there is no driver ({file})
    {old_driver}  the driver is too old
    {not_open}  the program is not open
    {no_memory}  the host has no memory
    -n     error {errors}
   One call of a program at a time. Each device needs a program of its own. */

/* Open the program on a device, counted from 0, and take {memory} bytes of its memory.
   `image` is {image}. */
int {name}_open(struct {name} **made, const void *image, int device);
{extra}
/* Call it with arrays of the host, stored row by row. It waits for the results. The first such call takes
   {arrays_bytes} bytes of the device.
{arrays}
{failures}*/
{called}

/* Call it with arrays of the device. It does not wait{but}.{repeated}
   Calls share working memory, so calls on different streams need an order.{given}{aligned}{fault} */
{enqueued}

/* Give everything back. */
void {name}_close(struct {name} *self);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _header(unit: DeviceUnit, host: HostText, device: Device, exact: bool) -> str:
    f, name, driver = unit.function, unit.name, unit.driver
    given = "\n".join(f"    {b.name}: {shape_text(b)}" for b in (*f.given, *f.outputs))
    failures = "".join(f"    {k}  an index left the range of {site.array} (in {site.statement})\n"
                       for k, site in enumerate(unit.sites, 1))  # fmt: skip
    about = " ".join((f.doc or f.name).split()).replace("*/", "* /")
    called, declared = host.declarations
    looks = any(isinstance(s, If) for s in walk(f.body))
    fault = "\n   `fault` is 24 bytes of the device: the code of the check that failed first or 0, its index, its size."
    aligned = f"\n   Arrays begin at multiples of {START} bytes; otherwise it returns {NOT_ALIGNED}."
    kernels = driver.kernels.format(architecture=device.architecture, exact=" -fmad=false" * exact)
    return HEADER.format(
        about=about, name=name, macro=name.upper(), arrays=given, kernels=kernels, image=driver.image,
        memory=host.memory_bytes, arrays_bytes=host.array_bytes, called=called, enqueued=declared, given=driver.arrays,
        but=", except for conditions that are computed on the device" * looks,
        repeated="\n   Repeated calls with the same arrays are one launch of a graph." * unit.has_graphs,
        fault=fault * unit.kernels.checks, aligned=aligned * unit.aligned,
        declaration=driver.declaration, file=driver.file, errors=driver.errors,
        extra=driver.extra[0].format(name=name), no_driver=NO_DRIVER, old_driver=OLD_DRIVER, not_open=NOT_OPEN,
        no_memory=NO_MEMORY, failures=f"   Returns also\n{failures}" if failures else "")  # fmt: skip
