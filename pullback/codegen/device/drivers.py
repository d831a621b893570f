"""Device drivers as C text: one record for each driver.

The text of a driver defines the types `STREAM` and `KERNEL`, `struct device` (a program's handles of its device), and
the macros and functions below. All functions return 0, or an error below 0. `stream` is a variable where they are used.

    OK(call)                                   leave the function with the error of a call
    LAUNCH(kernel, groups, threads, ...)       launch; the arguments are ARRAY(address) and NUMBER(type, n)
    LAUNCH_WITH(shared, kernel, ...)           the same, with bytes of shared memory that `request` has requested
    attach(struct device *, int number)        find the driver and take the device; `Driver.openings` has other ways
    enter(struct device *), leave()            make the device current in the thread, and undo this
    load(struct device *, const void *image)   load machine code, and make a stream
    kernel(struct device *, KERNEL *, name)    find a kernel of the loaded code
    request(KERNEL, bytes)                     request shared memory for a kernel
    detach(struct device *)                    release everything; the device is current
    release(struct device *)                   release the device; it is not current
    allocate(char **at, size_t), freed(char *) memory of the device
    send(to, from, bytes, stream)              copy from the host
    fetch(to, from, bytes, stream)             copy to the host
    copy(to, from, bytes, stream)              copy on the device
    zero(at, bytes, stream)                    set bytes to zero
    wait_for(stream)                           wait until a stream has done its work

A driver may have graphs. A program with graphs has a `struct graphs`. It defines ARRAYS and INPUTS, the numbers of a
call's arrays and arguments, and `places` for the small ones in APART_BYTES.

    find_graphs(void)                          find the entry points, which the driver may lack
    graph_of(struct graphs *, arrays, stream)  the graph for a call's arrays; NULL if the call launches its kernels
    begin_capture(device), end_capture(graphs, graph, device, int status)
                                               make a graph of the work queued in between; there is none after errors
    launch_graph(graph, arrays, stream)        launch it
    drop_graphs(struct graphs *)               destroy all graphs; the device is current
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Driver:
    """A driver as C.

    Attributes:
        file: the library that programs load.   errors: the meaning of its error numbers.
        kernels: the line of the header that says how kernels are compiled.   image: the contents of `image`.
        stream: the C type of a stream in a header.   declaration: the declaration of such types.
        array: the C type of an array of the caller on the device; empty for a pointer to its elements.
        address: the address of such an array; {0} is its number in the call, {1} its name.
        arrays: a sentence of the header about such arrays.
        blocks: a line of the host program; {0} is the number of these arrays.
        openings: the functions that open a program: the parameters of each, and the call that takes the device.
        extra: the prototypes of further functions, and the definitions of those that are no openings; {name} is the
            program's name.
        text: the functions that all programs use.   kernel: those of programs that have kernels.
        copy, zero, request: functions for programs that use them.
        graphs: those for graphs; empty if the driver has none.   vendor: those for kernels that libraries compute.
        taken: the names that this text defines, in addition to those of all drivers.
    """

    file: str
    errors: str
    kernels: str
    image: str
    text: str
    kernel: str
    copy: str
    zero: str
    request: str
    taken: frozenset[str]
    stream: str
    declaration: str
    graphs: str = ""
    vendor: str = ""
    array: str = ""
    address: str = "{1}"
    arrays: str = ""
    blocks: str = ""
    openings: Mapping[str, tuple[str, str]] = field(
        default_factory=lambda: {"open": ("int device", "attach(&self->on, device)")})
    extra: tuple[str, str] = ("", "")


CUDA: Final = Driver(
    file="libcuda.so.1",
    errors="n of the driver, a CUresult",
    kernels="   Compile the kernels:  nvcc -cubin -arch={architecture}{exact} kernels.cu -o kernels.cubin\n",
    image="the contents of kernels.cubin",
    stream="struct CUstream_st *",
    declaration="struct CUstream_st; /* CUstream and cudaStream_t are pointers to it */\n",
    text="""\
/* The part of the driver that is used. */
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext, *CUmodule, *KERNEL;
typedef struct CUstream_st *STREAM;
static struct {
    int (*Init)(unsigned), (*DeviceGet)(int *, int), (*DevicePrimaryCtxRetain)(CUcontext *, int);
    int (*DevicePrimaryCtxRelease)(int), (*CtxPushCurrent)(CUcontext), (*CtxPopCurrent)(CUcontext *);
    int (*ModuleLoadData)(CUmodule *, const void *), (*ModuleUnload)(CUmodule);
    int (*ModuleGetFunction)(KERNEL *, CUmodule, const char *), (*FuncSetAttribute)(KERNEL, int, int);
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
        {&cu.ModuleGetFunction, "cuModuleGetFunction"}, {&cu.FuncSetAttribute, "cuFuncSetAttribute"},
        {&cu.MemAlloc, "cuMemAlloc_v2"}, {&cu.MemFree, "cuMemFree_v2"}, {&cu.StreamCreate, "cuStreamCreate"},
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

static inline int send(void *to, const void *from, size_t bytes, STREAM stream) {
    return -cu.MemcpyHtoDAsync(ON_DEVICE(to), from, bytes, stream);
}

static inline int fetch(void *to, const void *from, size_t bytes, STREAM stream) {
    return -cu.MemcpyDtoHAsync(to, ON_DEVICE(from), bytes, stream);
}

static int wait_for(STREAM stream) {
    return -cu.StreamSynchronize(stream);
}
""",
    kernel="""\

static int kernel(const struct device *on, KERNEL *found, const char *name) {
    return -cu.ModuleGetFunction(found, on->module, name);
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
    request="""\

#define LAUNCH_WITH(shared, kernel, groups, threads, ...) \\
    OK(cu.LaunchKernel(kernel, groups, 1, 1, threads, 1, 1, shared, stream, (void *[]){__VA_ARGS__}, NULL))

static int request(KERNEL kernel, int bytes) {
    return -cu.FuncSetAttribute(kernel, 8, bytes); /* 8: the most bytes of shared memory that a launch may add */
}
""",
    vendor="""\

/* Kernels that libraries compute, as `runtime/device/vendor.py` has prepared them. */
struct library {
    int (*matmul)(void *, const void *, const void *, const void *, const void *, const void *, const void *,
                  const void *, const void *, const void *, void *, const void *, const void *, void *, size_t, STREAM);
    int (*on)(void *, STREAM); /* of cuDNN: the stream of further calls */
    void *handle, *workspace;
    size_t workspace_bytes;
    int failed;
};
struct library_call {
    struct library *library; /* NULL for none */
    int (*convolve)(void *, const void *, const void *, const void *, const void *, const void *, const void *, int,
                    void *, size_t, const void *, const void *, void *);
    const void *what, *left, *right, *out, *how, *one, *zero;
    int algorithm;
};

/* Returns 0 if a library computes the kernel. One that has failed is not asked again. */
static int by_library(const struct library_call *all, int k, const void *left, const void *right, void *out,
                      STREAM stream) {
    const struct library_call *const c = all ? &all[k] : NULL;
    if (!c || !c->library || c->library->failed) return 1;
    struct library *const l = c->library;
    if (l->matmul) {
        return l->failed = l->matmul(l->handle, c->what, c->one, right, c->right, left, c->left, c->zero, out, c->out,
                                     out, c->out, c->how, l->workspace, l->workspace_bytes, stream);
    }
    if ((l->failed = l->on(l->handle, stream))) return 1;
    return l->failed = c->convolve(l->handle, c->one, c->left, left, c->right, right, c->what, c->algorithm,
                                   l->workspace, l->workspace_bytes, c->zero, c->out, out);
}
""",
    graphs="""\

/* Graphs. The second call with the same arrays is captured, and later ones launch all of its work at once. If only
   small arrays are new in each call, such as a number that the caller keeps, the graph has its own places for them. */
enum { GRAPHS = 8, RELAXED = 2, FEW = 8, SELDOM = 6, MOST_APART = 4 };
struct graph {
    void *arrays[ARRAYS];
    void *made;              /* NULL up to the call that is captured */
    unsigned long long last; /* the number of the last call with these arrays */
    unsigned calls;          /* their count */
};
struct graphs {
    struct graph of[GRAPHS];
    unsigned long long calls;
    unsigned patience; /* 1 << patience calls launch their kernels before a capture; it grows if graphs are of no use */
    char *memory;      /* for arrays that are apart */
    bool apart[ARRAYS];
};
static struct {
    int (*StreamIsCapturing)(STREAM, int *), (*StreamBeginCapture)(STREAM, int), (*StreamEndCapture)(STREAM, void **);
    int (*GraphInstantiate)(void **, void *, unsigned long long), (*GraphLaunch)(void *, STREAM);
    int (*GraphDestroy)(void *), (*GraphExecDestroy)(void *);
    bool found;
} capture;

static void find_graphs(void) {
    static const struct { void *function; const char *name; } wanted[] = {
        {&capture.StreamIsCapturing, "cuStreamIsCapturing"}, {&capture.StreamBeginCapture, "cuStreamBeginCapture_v2"},
        {&capture.StreamEndCapture, "cuStreamEndCapture"}, {&capture.GraphInstantiate, "cuGraphInstantiateWithFlags"},
        {&capture.GraphLaunch, "cuGraphLaunch"}, {&capture.GraphDestroy, "cuGraphDestroy"},
        {&capture.GraphExecDestroy, "cuGraphExecDestroy"}};
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; ++k) {
        if (!(*(void **)wanted[k].function = dlsym(driver, wanted[k].name))) return;
    }
    capture.found = true;
}

/* Put the arrays that differ from those of an earlier call apart, if they are few and small. */
static bool set_apart(struct graphs *all, void *const *arrays) {
    for (const struct graph *g = all->of; g < all->of + GRAPHS; ++g) {
        unsigned count = 0, more = 0;
        bool small = true;
        for (size_t k = 0; k < ARRAYS; ++k) {
            count += all->apart[k];
            if (!all->apart[k] && g->arrays[k] != arrays[k]) small &= places[k].bytes > 0, ++more;
        }
        if (!small || !more || count + more > MOST_APART) continue;
        if (!all->memory && allocate(&all->memory, APART_BYTES)) return false;
        for (size_t k = 0; k < ARRAYS; ++k) all->apart[k] |= g->arrays[k] != arrays[k];
        return true;
    }
    return false;
}

/* Give the place of the arrays that were used longest ago to others. */
static struct graph *replaced_graph(struct graphs *all, struct graph *oldest, void *const *arrays) {
    if (oldest->made) {
        const bool useful = oldest->calls > FEW + (1u << all->patience);
        all->patience = useful ? 0 : all->patience + (all->patience < SELDOM);
        capture.GraphExecDestroy(oldest->made);
    }
    for (size_t k = 0; k < ARRAYS; ++k) oldest->arrays[k] = arrays[k];
    oldest->made = NULL, oldest->calls = 0;
    return oldest;
}

static struct graph *graph_for(struct graphs *all, void *const *given) {
    struct graph *oldest = all->of;
    void *arrays[ARRAYS];
    for (size_t k = 0; k < ARRAYS; ++k) arrays[k] = all->apart[k] ? all->memory + places[k].at : given[k];
    for (struct graph *g = all->of; g < all->of + GRAPHS; ++g) {
        size_t k = 0;
        while (k < ARRAYS && g->arrays[k] == arrays[k]) ++k;
        if (k == ARRAYS) return g;
        if (g->last < oldest->last) oldest = g;
    }
    return oldest->last && set_apart(all, arrays) ? graph_for(all, given) : replaced_graph(all, oldest, arrays);
}

/* The caller may capture its own stream; a graph cannot be launched there. */
static struct graph *graph_of(struct graphs *all, void *const *given, STREAM stream) {
    int captured;
    if (!capture.found || capture.StreamIsCapturing(stream, &captured) || captured) return NULL;
    struct graph *const g = graph_for(all, given);
    g->last = ++all->calls;
    return ++g->calls > 1u << all->patience || g->made ? g : NULL;
}

static bool begin_capture(const struct device *on) {
    return !capture.StreamBeginCapture(on->stream, RELAXED);
}

/* Without a graph, `status` is known to be an error when the call launches its kernels. */
static void end_capture(struct graphs *all, struct graph *g, const struct device *on, int status) {
    void *graph = NULL;
    const int failed = capture.StreamEndCapture(on->stream, &graph);
    if (failed || status || capture.GraphInstantiate(&g->made, graph, 0)) {
        g->made = NULL, g->calls = 0, all->patience = SELDOM;
    }
    if (graph) capture.GraphDestroy(graph);
}

static int launch_graph(const struct graph *g, void *const *given, STREAM stream) {
    for (size_t k = 0; k < ARRAYS + 1; ++k) {
        if (k == INPUTS) OK(capture.GraphLaunch(g->made, stream));
        if (k == ARRAYS || given[k] == g->arrays[k]) continue;
        void *const to = k < INPUTS ? g->arrays[k] : given[k], *const from = k < INPUTS ? given[k] : g->arrays[k];
        OK(cu.MemcpyDtoDAsync(ON_DEVICE(to), ON_DEVICE(from), places[k].bytes, stream));
    }
    return 0;
}

static void drop_graphs(struct graphs *all) {
    freed(all->memory);
    for (struct graph *g = all->of; g < all->of + GRAPHS; ++g) {
        if (g->made) capture.GraphExecDestroy(g->made);
    }
}
""",
    taken=frozenset(("cu", "CUdeviceptr", "CUcontext", "CUmodule", "ON_DEVICE", "find_driver", "failed", "wanted",
                     "capture", "graph", "graphs", "graph_for", "set_apart", "replaced_graph", "GRAPHS", "RELAXED",
                     "FEW", "SELDOM", "MOST_APART")),
)  # fmt: skip

OPENCL: Final = Driver(
    file="libOpenCL.so.1",
    errors="-n of OpenCL",
    kernels="",
    image="the text of kernels.cl, which ends with 0; it is compiled now",
    stream="struct _cl_command_queue *",
    declaration="""\
/* cl_command_queue, cl_context, cl_device_id and cl_mem are pointers to these */
struct _cl_command_queue;
struct _cl_context;
struct _cl_device_id;
struct _cl_mem;
""",
    array="struct _cl_mem *",
    address="given({0}, {1})",
    arrays="\n   Arrays are buffers of the program's context. The queue is in order, and `clFlush` starts it at once.",
    blocks="#define BLOCKS {0} /* the two above, and arrays of the caller */\n",
    openings={
        "open": ("int device", "attach(&self->on, device)"),
        "open_in": ("struct _cl_context *context, struct _cl_device_id *device", "join(&self->on, context, device)")},
    extra=("""
/* The same in a context of the caller, on one of its devices. The program keeps the context while it is open. */
int {name}_open_in(struct {name} **made, const void *image,
                   struct _cl_context *context, struct _cl_device_id *device);

/* Return the messages of the compiler if the last program that this thread opened did not compile (-11). */
const char *{name}_messages(void);
""", """
const char *{name}_messages(void) {{
    return messages;
}}
"""),
    text="""\
/* The part of OpenCL that is used. Its objects are pointers. */
typedef void *KERNEL, *STREAM;
static struct {
    int (*GetPlatformIDs)(unsigned, void **, unsigned *);
    int (*GetDeviceIDs)(void *, uint64_t, unsigned, void **, unsigned *);
    int (*GetDeviceInfo)(void *, unsigned, size_t, void *, size_t *);
    void *(*CreateContext)(const intptr_t *, unsigned, void *const *, void *, void *, int *);
    void *(*CreateCommandQueue)(void *, void *, uint64_t, int *);
    void *(*CreateProgramWithSource)(void *, unsigned, const char **, const size_t *, int *);
    int (*BuildProgram)(void *, unsigned, void *const *, const char *, void *, void *);
    int (*GetProgramBuildInfo)(void *, void *, unsigned, size_t, void *, size_t *);
    void *(*CreateKernel)(void *, const char *, int *), *(*CreateBuffer)(void *, uint64_t, size_t, void *, int *);
    int (*SetKernelArg)(void *, unsigned, size_t, const void *);
    int (*EnqueueNDRangeKernel)(void *, void *, unsigned, const size_t *, const size_t *, const size_t *, unsigned,
                                const void *, void *);
    int (*EnqueueReadBuffer)(void *, void *, unsigned, size_t, size_t, void *, unsigned, const void *, void *);
    int (*EnqueueWriteBuffer)(void *, void *, unsigned, size_t, size_t, const void *, unsigned, const void *, void *);
    int (*EnqueueCopyBuffer)(void *, void *, void *, size_t, size_t, size_t, unsigned, const void *, void *);
    int (*EnqueueFillBuffer)(void *, void *, const void *, size_t, size_t, size_t, unsigned, const void *, void *);
    int (*Finish)(void *), (*ReleaseCommandQueue)(void *), (*ReleaseKernel)(void *), (*ReleaseProgram)(void *);
    int (*ReleaseMemObject)(void *), (*RetainContext)(void *), (*ReleaseContext)(void *);
} cl;
struct device {
    void *device, *context, *program, *stream, *blocks[BLOCKS], **kernels;
    unsigned count;
};

/* The device of the current call. An address is the number of a block, from 1, and the offset in it. */
_Static_assert(sizeof(void *) == 8, "an address has 64 bits");
static __thread struct device *current;
static __thread char messages[4096];
#define BLOCK(p) current->blocks[((uint64_t)(uintptr_t)(p) >> 48) - 1]
#define OFFSET(p) ((size_t)((uint64_t)(uintptr_t)(p) & 0xffffffffffff))

/* Leaves with OpenCL's error, below 0. */
#define OK(call) do { const int failed = (call); if (failed) return failed; } while (0)
struct argument {
    const void *at, *number;
    size_t bytes;
};
#define ARRAY(p) {p, NULL, sizeof *(p)}
#define NUMBER(type, n) {NULL, &(type){(type)(n)}, sizeof(type)}
#define LAUNCH(kernel, groups, threads, ...) \\
    OK(launch(kernel, groups, threads, (struct argument[]){__VA_ARGS__}, \\
              sizeof (struct argument[]){__VA_ARGS__} / sizeof(struct argument), stream))

static int find_driver(void) {
    static const struct { void *function; const char *name; } wanted[] = {
        {&cl.GetPlatformIDs, "clGetPlatformIDs"}, {&cl.GetDeviceIDs, "clGetDeviceIDs"},
        {&cl.GetDeviceInfo, "clGetDeviceInfo"}, {&cl.CreateContext, "clCreateContext"},
        {&cl.CreateCommandQueue, "clCreateCommandQueue"},
        {&cl.CreateProgramWithSource, "clCreateProgramWithSource"}, {&cl.BuildProgram, "clBuildProgram"},
        {&cl.GetProgramBuildInfo, "clGetProgramBuildInfo"}, {&cl.CreateKernel, "clCreateKernel"},
        {&cl.CreateBuffer, "clCreateBuffer"}, {&cl.SetKernelArg, "clSetKernelArg"},
        {&cl.EnqueueNDRangeKernel, "clEnqueueNDRangeKernel"}, {&cl.EnqueueReadBuffer, "clEnqueueReadBuffer"},
        {&cl.EnqueueWriteBuffer, "clEnqueueWriteBuffer"}, {&cl.EnqueueCopyBuffer, "clEnqueueCopyBuffer"},
        {&cl.EnqueueFillBuffer, "clEnqueueFillBuffer"}, {&cl.Finish, "clFinish"},
        {&cl.ReleaseCommandQueue, "clReleaseCommandQueue"}, {&cl.ReleaseKernel, "clReleaseKernel"},
        {&cl.ReleaseProgram, "clReleaseProgram"}, {&cl.ReleaseMemObject, "clReleaseMemObject"},
        {&cl.RetainContext, "clRetainContext"}, {&cl.ReleaseContext, "clReleaseContext"}};
    void *const driver = dlopen("libOpenCL.so.1", RTLD_NOW);
    if (!driver) return NO_DRIVER;
    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; ++k) {
        if (!(*(void **)wanted[k].function = dlsym(driver, wanted[k].name))) return OLD_DRIVER;
    }
    return 0;
}

/* Devices are counted over all platforms: first GPUs and accelerators, then processors. */
static int attach(struct device *on, int number) {
    static const uint64_t kinds[] = {4 | 8, 2};
    void *platforms[16], *devices[16];
    unsigned count, found;
    int status;
    OK(find_driver());
    OK(cl.GetPlatformIDs(16, platforms, &count));
    count = count < 16 ? count : 16;
    for (unsigned k = 0; k < 2 * count; ++k) {
        if (cl.GetDeviceIDs(platforms[k % count], kinds[k / count], 16, devices, &found)) continue; /* it has none */
        found = found < 16 ? found : 16;
        if (number < (int)found) {
            on->device = devices[number];
            on->context = cl.CreateContext(NULL, 1, &on->device, NULL, NULL, &status);
            return status;
        }
        number -= (int)found;
    }
    return -1; /* CL_DEVICE_NOT_FOUND */
}

static int join(struct device *on, void *context, void *device) {
    OK(find_driver());
    OK(cl.RetainContext(context));
    on->context = context, on->device = device;
    return 0;
}

static int enter(struct device *on) {
    current = on;
    return 0;
}

static void leave(void) {
    current = NULL;
}

/* Compile the kernels. Divisions and square roots are rounded correctly where the device can do so. */
static int load(struct device *on, const void *image) {
    const char *const rounded = "-cl-fp32-correctly-rounded-divide-sqrt";
    const char *text = image;
    uint64_t single = 0;
    int status;
    on->stream = cl.CreateCommandQueue(on->context, on->device, 0, &status);
    OK(status);
    on->program = cl.CreateProgramWithSource(on->context, 1, &text, NULL, &status);
    OK(status);
    OK(cl.GetDeviceInfo(on->device, 0x101B, sizeof single, &single, NULL)); /* CL_DEVICE_SINGLE_FP_CONFIG */
    status = cl.BuildProgram(on->program, 1, &on->device, single & 0x80 ? rounded : "", NULL, NULL);
    if (status) {
        size_t bytes = 0;
        cl.GetProgramBuildInfo(on->program, on->device, 0x1183, 0, NULL, &bytes); /* CL_PROGRAM_BUILD_LOG */
        char *const log = calloc(bytes + 1, 1);
        if (log) cl.GetProgramBuildInfo(on->program, on->device, 0x1183, bytes, log, NULL);
        for (size_t k = 0; log && k + 1 < sizeof messages; ++k) {
            if (!(messages[k] = log[k])) break;
        }
        free(log);
    }
    return status;
}

static void detach(struct device *on) {
    while (on->count) cl.ReleaseKernel(on->kernels[--on->count]);
    free(on->kernels);
    if (on->program) cl.ReleaseProgram(on->program);
    if (on->stream) cl.ReleaseCommandQueue(on->stream);
}

static void release(struct device *on) {
    if (on->context) cl.ReleaseContext(on->context);
}

static int allocate(char **at, size_t bytes) {
    const unsigned k = current->blocks[0] ? 1 : 0;
    int status;
    current->blocks[k] = cl.CreateBuffer(current->context, 1, bytes, NULL, &status); /* CL_MEM_READ_WRITE */
    if (!status) *at = (char *)(uintptr_t)((uint64_t)(k + 1) << 48);
    return status;
}

static void freed(char *at) {
    if (at) cl.ReleaseMemObject(BLOCK(at));
}

/* The address of the k-th array of the caller. */
static inline void *given(unsigned k, void *buffer) {
    current->blocks[k + 2] = buffer;
    return (void *)(uintptr_t)((uint64_t)(k + 3) << 48);
}

/* Copies wait (1), so that arrays of the host are free again whatever happens next. */
static inline int send(void *to, const void *from, size_t bytes, STREAM stream) {
    return cl.EnqueueWriteBuffer(stream, BLOCK(to), 1, OFFSET(to), bytes, from, 0, NULL, NULL);
}

static inline int fetch(void *to, const void *from, size_t bytes, STREAM stream) {
    return cl.EnqueueReadBuffer(stream, BLOCK(from), 1, OFFSET(from), bytes, to, 0, NULL, NULL);
}

static int wait_for(STREAM stream) {
    return cl.Finish(stream);
}
""",
    kernel="""\

static int kernel(struct device *on, KERNEL *found, const char *name) {
    int status;
    void **const kernels = realloc(on->kernels, (on->count + 1) * sizeof *kernels);
    if (!kernels) return NO_MEMORY;
    on->kernels = kernels;
    *found = cl.CreateKernel(on->program, name, &status);
    OK(status);
    kernels[on->count++] = *found;
    return 0;
}

static int launch(KERNEL kernel, size_t groups, size_t threads, const struct argument *given, size_t count,
                  STREAM stream) {
    const size_t all = groups * threads;
    unsigned k = 0;
    for (const struct argument *a = given; a < given + count; ++a) {
        if (a->number) {
            OK(cl.SetKernelArg(kernel, k++, a->bytes, a->number));
        } else {
            const uint64_t offset = OFFSET(a->at) / a->bytes;
            OK(cl.SetKernelArg(kernel, k++, sizeof(void *), &BLOCK(a->at)));
            OK(cl.SetKernelArg(kernel, k++, sizeof offset, &offset));
        }
    }
    return cl.EnqueueNDRangeKernel(stream, kernel, 1, NULL, &all, &threads, 0, NULL, NULL);
}
""",
    copy="""\

static int copy(void *to, const void *from, size_t bytes, STREAM stream) {
    if (to == from) return 0;
    return cl.EnqueueCopyBuffer(stream, BLOCK(from), BLOCK(to), OFFSET(from), OFFSET(to), bytes, 0, NULL, NULL);
}
""",
    zero="""\

static int zero(void *at, size_t bytes, STREAM stream) {
    const char nothing = 0;
    return cl.EnqueueFillBuffer(stream, BLOCK(at), &nothing, 1, OFFSET(at), bytes, 0, NULL, NULL);
}
""",
    request="",
    taken=frozenset(("cl", "current", "messages", "join", "given", "context", "BLOCK", "BLOCKS", "OFFSET", "argument",
                     "find_driver", "launch", "failed", "wanted")),
)  # fmt: skip

DRIVERS: Final[Mapping[str, Driver]] = {"cuda": CUDA, "opencl": OPENCL}
