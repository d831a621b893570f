"""The drivers of devices in C: one record of text for each.

The text of a driver defines the types `STREAM` and `KERNEL`, `struct device` (what a program holds of its device), and
the macros and functions below. All functions return 0, or an error below 0. `stream` is a variable where they are used.

    OK(call)                                   leave the function with the error of a call
    LAUNCH(kernel, groups, threads, ...)       launch; the arguments are ARRAY(address) and NUMBER(type, n)
    attach(struct device *, int number)        find the driver and take the device
    enter(struct device *), leave()            make the device the current one of the thread, and undo it
    load(struct device *, const void *image)   load machine code, and make a stream
    kernel(struct device *, KERNEL *, name)    find a kernel of the loaded code
    detach(struct device *)                    give everything back; the device is entered
    release(struct device *)                   give the device back; it is not entered
    allocate(char **at, size_t), freed(char *) memory of the device
    send(to, from, bytes, stream)              copy from the host
    fetch(to, from, bytes, stream)             copy to the host
    copy(to, from, bytes, stream)              copy on the device
    zero(at, bytes, stream)                    set bytes to zero
    wait_for(stream)                           wait until a stream has done its work
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Driver:
    """A driver as C.

    Attributes:
        library: the file that programs load.   errors: the name of its error numbers.
        stream: the C type of a stream in a header, and its declaration.
        text: the functions that all programs use.
        copy, zero: functions for programs that use them.
        taken: the names that the text defines, beside those of all drivers.
    """

    library: str
    errors: str
    stream: str
    declaration: str
    text: str
    copy: str
    zero: str
    taken: frozenset[str]


CUDA: Final = Driver(
    library="libcuda.so.1",
    errors="a CUresult",
    stream="struct CUstream_st *",
    declaration="struct CUstream_st; /* CUstream and cudaStream_t are pointers to it */",
    text="""\
/* The part of the driver that is used. */
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext, *CUmodule, *KERNEL;
typedef struct CUstream_st *STREAM;
static struct {
    int (*Init)(unsigned), (*DeviceGet)(int *, int), (*DevicePrimaryCtxRetain)(CUcontext *, int);
    int (*DevicePrimaryCtxRelease)(int), (*CtxPushCurrent)(CUcontext), (*CtxPopCurrent)(CUcontext *);
    int (*ModuleLoadData)(CUmodule *, const void *), (*ModuleUnload)(CUmodule);
    int (*ModuleGetFunction)(KERNEL *, CUmodule, const char *);
    int (*MemAlloc)(CUdeviceptr *, size_t), (*MemFree)(CUdeviceptr);
    int (*StreamCreate)(STREAM *, unsigned), (*StreamDestroy)(STREAM), (*StreamSynchronize)(STREAM);
    int (*MemcpyHtoDAsync)(CUdeviceptr, const void *, size_t, STREAM);
    int (*MemcpyDtoHAsync)(void *, CUdeviceptr, size_t, STREAM);
    int (*MemcpyDtoDAsync)(CUdeviceptr, CUdeviceptr, size_t, STREAM);
    int (*MemsetD8Async)(CUdeviceptr, unsigned char, size_t, STREAM);
    int (*LaunchKernel)(KERNEL, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, STREAM, void **,
                        void **);
} cu;
struct device {
    int number;
    CUcontext context;
    CUmodule module;
    STREAM stream;
};

/* Leaves with the driver's error, below 0. */
#define OK(call) do { const int failed = (call); if (failed) return failed < 0 ? failed : -failed; } while (0)
#define ON_DEVICE(p) ((CUdeviceptr)(uintptr_t)(p))
#define ARRAY(p) &(const void *){p}
#define NUMBER(type, n) &(type){(type)(n)}
#define LAUNCH(kernel, groups, threads, ...) \\
    OK(cu.LaunchKernel(kernel, groups, 1, 1, threads, 1, 1, 0, stream, (void *[]){__VA_ARGS__}, NULL))

static int find_driver(void) {
    static const struct { void *function; const char *name; } wanted[] = {
        {&cu.Init, "cuInit"}, {&cu.DeviceGet, "cuDeviceGet"},
        {&cu.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain"},
        {&cu.DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2"},
        {&cu.CtxPushCurrent, "cuCtxPushCurrent_v2"}, {&cu.CtxPopCurrent, "cuCtxPopCurrent_v2"},
        {&cu.ModuleLoadData, "cuModuleLoadData"}, {&cu.ModuleUnload, "cuModuleUnload"},
        {&cu.ModuleGetFunction, "cuModuleGetFunction"}, {&cu.MemAlloc, "cuMemAlloc_v2"},
        {&cu.MemFree, "cuMemFree_v2"}, {&cu.StreamCreate, "cuStreamCreate"},
        {&cu.StreamDestroy, "cuStreamDestroy_v2"}, {&cu.StreamSynchronize, "cuStreamSynchronize"},
        {&cu.MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2"}, {&cu.MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2"},
        {&cu.MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2"}, {&cu.MemsetD8Async, "cuMemsetD8Async"},
        {&cu.LaunchKernel, "cuLaunchKernel"}};
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return NO_DRIVER;
    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; ++k) {
        if (!(*(void **)wanted[k].function = dlsym(driver, wanted[k].name))) return OLD_DRIVER;
    }
    return 0;
}

static int attach(struct device *on, int number) {
    OK(find_driver());
    OK(cu.Init(0));
    OK(cu.DeviceGet(&on->number, number));
    return -cu.DevicePrimaryCtxRetain(&on->context, on->number);
}

static int enter(const struct device *on) {
    return -cu.CtxPushCurrent(on->context);
}

static void leave(void) {
    CUcontext last;
    cu.CtxPopCurrent(&last);
}

static int load(struct device *on, const void *image) {
    OK(cu.ModuleLoadData(&on->module, image));
    return -cu.StreamCreate(&on->stream, 1); /* 1: it does not wait for others */
}

static int kernel(const struct device *on, KERNEL *found, const char *name) {
    return -cu.ModuleGetFunction(found, on->module, name);
}

static void detach(const struct device *on) {
    if (on->stream) cu.StreamDestroy(on->stream);
    if (on->module) cu.ModuleUnload(on->module);
}

static void release(const struct device *on) {
    if (on->context) cu.DevicePrimaryCtxRelease(on->number);
}

static int allocate(char **at, size_t bytes) {
    CUdeviceptr block;
    OK(cu.MemAlloc(&block, bytes));
    *at = (char *)(uintptr_t)block; /* an address on the device, for which nothing is read here */
    return 0;
}

static void freed(char *at) {
    if (at) cu.MemFree(ON_DEVICE(at));
}

static int send(void *to, const void *from, size_t bytes, STREAM stream) {
    return -cu.MemcpyHtoDAsync(ON_DEVICE(to), from, bytes, stream);
}

static int fetch(void *to, const void *from, size_t bytes, STREAM stream) {
    return -cu.MemcpyDtoHAsync(to, ON_DEVICE(from), bytes, stream);
}

static int wait_for(STREAM stream) {
    return -cu.StreamSynchronize(stream);
}
""",
    copy="""\

static int copy(void *to, const void *from, size_t bytes, STREAM stream) {
    return to == from ? 0 : -cu.MemcpyDtoDAsync(ON_DEVICE(to), ON_DEVICE(from), bytes, stream);
}
""",
    zero="""\

static int zero(void *at, size_t bytes, STREAM stream) {
    return -cu.MemsetD8Async(ON_DEVICE(at), 0, bytes, stream);
}
""",
    taken=frozenset(("cu", "CUdeviceptr", "CUcontext", "CUmodule", "ON_DEVICE", "find_driver", "failed", "wanted")),
)

DRIVERS: Final[Mapping[str, Driver]] = {"cuda": CUDA}
