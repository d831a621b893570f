"""The languages of devices: one record of words for each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pullback.codegen.c.libm import FUNCTIONS
from pullback.codegen.c.text import reached
from pullback.codegen.c.types import c_type
from pullback.codegen.device.tensor import TENSOR
from pullback.ir.types import DType


@dataclass(frozen=True)
class DeviceWords:
    """The words of a language for device kernels.

    Attributes:
        name: the language.   suffix: the suffix of its files.
        head: the text at the top of a file.
        kernel: the prefix of a kernel's definition; {0} is the number of threads in a group.
        resident: the same, with {1} groups on a multiprocessor; empty if the language cannot say so.
        function: the prefix of a helper function's definition.
        array: the parameters for an array; {0}, {1} and {2} are its element type, its name and the name of an offset,
            {3} is `restrict` or empty.
        restrict: the qualifier of an array that only one thread accesses, or that is only read.
        begin: the statement that adds the offset; empty if arrays have none.
        group, thread: the index of the current group, and of the current thread in it.
        meet: the barrier statement for all threads of a group.
        shared: the prefix of a shared array's declaration.   local: the same for an array in registers.
        requested: the declaration of shared memory that a launch requests; {0} is its bytes. Empty if all is declared.
        tensor: whether the language has the helper functions of `tensor`.
        branches: whether barriers may be in branches. OpenCL allows them, but PoCL runs some of their sides untaken.
        unroll: the line before an unrolled loop.
        wide: the statement that copies {0} neighboring elements at once, from {2} to {1}, which are aligned; empty if
            compilers find such copies.
        boolean, code: the element types of boolean arrays, and of the array for the first failed check.
        fault: the statement that stores the first failed check; {0}, {1} and {2} are its code, index and size.
        failed: the condition that a check has failed.
        exact: the line that forbids fused multiply-add; empty if an option of the compiler does it.
        double: the line that allows f64, if there is one.
        reserved: words that cannot be names.
        spelling: words of C that the language spells differently.
        definitions: definitions of words of C that the language lacks; a file has those that it uses.
    """

    name: str
    suffix: str
    head: str
    kernel: str
    function: str
    array: str
    restrict: str
    group: str
    thread: str
    meet: str
    shared: str
    unroll: str
    code: str
    fault: str
    failed: str
    reserved: frozenset[str]
    begin: str = ""
    resident: str = ""
    requested: str = ""
    tensor: bool = False
    branches: bool = False
    wide: str = ""
    local: str = ""
    boolean: str = "bool"
    exact: str = ""
    double: str = ""
    spelling: Mapping[str, str] = field(default_factory=dict)
    definitions: Mapping[str, str] = field(default_factory=dict)

    def element(self, dtype: DType) -> str:
        """The element type of an array."""
        return self.boolean if dtype.is_bool else c_type(dtype)

    def file(self, helpers: str, kernels: str, exact: bool) -> str:
        """The text of a file: its head, helper functions and kernels."""
        helpers = helpers.replace("static inline ", self.function)
        wanted = reached(helpers + kernels, self.definitions)
        own = "".join(text for name, text in self.definitions.items() if name in wanted)
        body = "\n".join(p for p in (own, helpers, kernels) if p)
        head = self.head + self.double * bool(re.search(r"\bdouble\b", body)) + self.exact * exact
        return "\n".join(p for p in (head, self._spelled(body)) if p)

    def _spelled(self, text: str) -> str:
        return re.sub(r"\w+", lambda word: self.spelling.get(word[0], word[0]), text) if self.spelling else text


_CUDA: Final = """
    asm blockDim blockIdx catch class const_cast delete dim3 explicit export fault friend gridDim mutable namespace new
    operator private protected public template this threadIdx throw try typename using virtual warpSize clock clock64
    float2 float4 double2 int2 int4 uint ushort ulong atomicAdd atomicCAS min max requested
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
    resident='extern "C" __global__ __launch_bounds__({0}, {1})\n',
    function="static __device__ inline ",
    array="{0} *{3}{1}",
    restrict="__restrict__ ",
    group="blockIdx.x",
    thread="threadIdx.x",
    meet="__syncthreads();",
    shared="alignas(16) __shared__ ",
    local="alignas(16) ",
    wide="pb_wide<{0}>({1}, {2});",
    unroll="#pragma unroll",
    code="unsigned long long",
    fault="if (atomicCAS(&fault[0], 0ull, {0}ull) == 0) fault[1] = {1}, fault[2] = {2};",
    failed="*(volatile unsigned long long *)fault",
    reserved=frozenset(_CUDA.split()),
    requested="PB_REQUESTED(requested, {0});",
    tensor=True,
    branches=True,
    definitions={
        **TENSOR,
        "pb_wide": """\
template <class T, int n> struct alignas(n * sizeof(T)) pb_run { T lanes[n]; };
template <int n, class T> static __device__ inline void pb_wide(T *to, const T *from) {
    *(pb_run<T, n> *)to = *(const pb_run<T, n> *)from;
}
""",
    },
)

_NUMBERS: Final = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double", "half")
_OPENCL: Final = """
    __kernel kernel __global global __local local __constant constant __private private generic pipe uniform quad
    read_only write_only read_write complex imaginary vec_step event_t sampler_t image1d_t image2d_t image3d_t intptr_t
    uintptr_t ptrdiff_t barrier get_group_id get_local_id atomic_cmpxchg max min MAXFLOAT CHAR_BIT
"""
_QUICK: Final = "cos divide exp exp2 exp10 log log2 log10 powr recip rsqrt sin sqrt tan"  # of half_ and native_
_INTEGERS: Final = {8: ("char", "CHAR"), 16: ("short", "SHRT"), 32: ("int", "INT"), 64: ("long", "LONG")}
OPENCL: Final = DeviceWords(
    name="opencl",
    suffix="cl",
    head="",
    kernel="__kernel __attribute__((reqd_work_group_size({0}, 1, 1)))\n",
    function="static inline ",
    # an array begins anywhere in a buffer; a buffer that begins inside another has the alignment of the device
    array="__global {0} *{3}{1}, const ulong {2}",
    restrict="restrict ",
    begin="{1} += {2};",
    group="get_group_id(0)",
    thread="get_local_id(0)",
    meet="barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    shared="__local ",
    unroll="#pragma unroll",  # OpenCL C 1.2 has no attribute for it, and compilers ignore unknown pragmas
    boolean="uchar",
    code="ulong",
    # 64-bit atomics are an extension; the code is in the low half of the first element
    fault="if (atomic_cmpxchg((volatile __global uint *)fault, 0u, {0}u) == 0) fault[1] = {1}, fault[2] = {2};",
    failed="*(volatile __global uint *)fault",
    exact="#pragma OPENCL FP_CONTRACT OFF\n",
    double="#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n",
    reserved=frozenset((
        *_OPENCL.split(), *_NUMBERS, *(f"{t}{n}" for t in _NUMBERS for n in (2, 3, 4, 8, 16)),
        *(f"{kind}_{name}" for kind in ("half", "native") for name in _QUICK.split()),
        *(f"{u}{n}_{end}" for u in ("", "U") for _, n in _INTEGERS.values() for end in ("MIN", "MAX")))),
    spelling={
        **{f"{name}f": name for name in FUNCTIONS if f"{name}f" in FUNCTIONS},
        **{f"{u}int{n}_t": f"{u}{name}" for u in ("", "u") for n, (name, _) in _INTEGERS.items()},
        **{f"{u}INT{n}_{end}": f"{u}{name}_{end}" for u in ("", "U") for end in ("MIN", "MAX")
           for n, (_, name) in _INTEGERS.items()},
        "memcpy": "pb_copy",
    },
    definitions={
        "INT64_C": "#define INT64_C(x) x##L\n",
        "UINT64_C": "#define UINT64_C(x) x##UL\n",
        "memcpy": """\
static inline void memcpy(void *to, const void *from, int bytes) {
    for (int k = 0; k < bytes; ++k) ((uchar *)to)[k] = ((const uchar *)from)[k];
}
""",
    },
)  # fmt: skip

DIALECTS: Final[Mapping[str, DeviceWords]] = {d.name: d for d in (CUDA, OPENCL)}
