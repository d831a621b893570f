"""The languages of devices: one record of words for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class DeviceWords:
    """The words of a language for device kernels.

    Attributes:
        name: the language.   suffix: the suffix of its files.
        head: the text at the top of a file.
        kernel: the prefix of a kernel's definition; {0} is the number of threads in a group.
        function: the prefix of a helper function's definition.
        restrict: the qualifier of a pointer without aliases.
        group, thread: the index of the current group, and of the current thread in it.
        meet: the barrier statement for all threads of a group.
        shared: the prefix of a shared array's declaration.
        unroll: the line before an unrolled loop.
        fault: the statement that stores the first failed check; {0}, {1} and {2} are its code, index and size.
        reserved: words that cannot be names.
    """

    name: str
    suffix: str
    head: str
    kernel: str
    function: str
    restrict: str
    group: str
    thread: str
    meet: str
    shared: str
    unroll: str
    fault: str
    reserved: frozenset[str]


_CUDA: Final = """
    asm blockDim blockIdx catch class const_cast delete dim3 explicit export fault friend gridDim mutable namespace new
    operator private protected public template this threadIdx throw try typename using virtual warpSize clock clock64
    float2 float4 double2 int2 int4 uint ushort ulong atomicAdd atomicCAS min max
"""
CUDA: Final = DeviceWords(
    name="cuda",
    suffix="cu",
    head="""\
#ifdef __CUDACC_RTC__ /* NVRTC has no headers */
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define INT64_C(x) x##LL
#define UINT64_C(x) x##ULL
#define INT8_MIN (-128)
#define INT8_MAX 127
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MIN (-INT64_C(9223372036854775807) - 1)
#define INT64_MAX INT64_C(9223372036854775807)
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295u
#define UINT64_MAX UINT64_C(18446744073709551615)
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
#else
#include <math.h>
#include <stdint.h>
#include <string.h>
#endif
""",
    kernel='extern "C" __global__ __launch_bounds__({0})\n',
    function="static __device__ inline ",
    restrict="__restrict__",
    group="blockIdx.x",
    thread="threadIdx.x",
    meet="__syncthreads();",
    shared="__shared__ ",
    unroll="#pragma unroll",
    fault="if (atomicCAS(&fault[0], 0ull, {0}ull) == 0) fault[1] = {1}, fault[2] = {2};",
    reserved=frozenset(_CUDA.split()),
)

DIALECTS: Final[Mapping[str, DeviceWords]] = {d.name: d for d in (CUDA,)}
