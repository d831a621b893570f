/* A driver for tests, libcuda.so.1: its devices are this processor. See `settings.h` for what a test may ask of it.

   Kernels run in a fixed order, on one thread of the system; compiled with SYSTEM_THREADS, each thread of a group is one
   of the system, for sanitizers. Calls that no device takes are refused, and copies beyond what was allocated. */
#include <mutex>

#include "figures.h"
#include "launches.h"

static std::recursive_mutex one_at_a_time;
static bool started;
static std::map<int, context *> primary;
static std::map<char *, size_t> pinned;
static thread_local std::vector<context *> current;

static context *here() { return current.empty() ? nullptr : current.back(); }

/* Begins a call: the lock, the count, and its error if it cannot begin. */
struct call {
    std::lock_guard<std::recursive_mutex> lock{one_at_a_time};
    int error;

    call(const char *name, bool in_context) : error(fails(name)) {
        if (error) return;
        if (!started && strcmp(name, "cuInit")) error = refuse(3, "cuInit was not called");
        else if (in_context && wanted.lost_after && wanted.lost_after != 1) --wanted.lost_after;
        else if (in_context && wanted.lost_after) error = refuse(999, "the device is lost");
        if (error || !in_context) return;
        if (!here() || !alive.count(here())) error = refuse(201, "there is no current context");
        else error = here()->failed;
    }
};
#define FREE_CALL(name) \
    const call begun(#name, false); \
    if (begun.error) return begun.error
#define CALL(name) \
    const call begun(#name, true); \
    if (begun.error) return begun.error
#define CALL_ENDING(name) \
    const call begun(#name, true); \
    if (begun.error && !here()) return begun.error
#define NEED(condition, error, why) \
    if (!(condition)) return refuse(error, why)

static bool is_device(int n) { return n >= 0 && n < wanted.devices; }
static bool is_own(stream *s) { return s == &here()->null || (alive.count(s) && s->owner == here()); }
static bool is_busy(context *c) {
    return std::any_of(c->streams.begin(), c->streams.end(), [](stream *s) { return !s->queue.empty(); });
}
static stream *of(void *given) { return (uintptr_t)given <= 2 ? &here()->null : (stream *)given; }
#define STREAM(s, given) \
    stream *const s = of(given); \
    NEED(is_own(s), 400, "the stream is not of the current context")
#define NOT_CAPTURED(mode, what) \
    if (const int error = while_captured(here(), what, mode)) return error
#define DEVICE(n) NEED(is_device(n), 101, "there is no such device")

extern "C" {

/* The control of a test ---------------------------------------------------------------------------------------- */

int fake_cuda_set(const char *text) { return wanted.set(text); }
uint64_t fake_cuda_count(const char *name) { return counts[name]; }
const char *fake_cuda_message() { return message.c_str(); }

/* Settings as at first, no counts, and contexts that work again. */
void fake_cuda_reset() {
    const uint64_t bytes = counts["bytes"], graphs = counts["graphs"];
    wanted = initial(), counts.clear(), message.clear();
    counts["bytes"] = counts["most bytes"] = bytes, counts["graphs"] = graphs;
    for (auto &c : primary) c.second->failed = 0;
}

/* The driver and its devices ----------------------------------------------------------------------------------- */

int cuInit(unsigned) {
    FREE_CALL(cuInit);
    NEED(wanted.devices, 100, "there is no device");
    return started = true, 0;
}
int cuDriverGetVersion(int *out) { return *out = wanted.driver, 0; }
int cuDeviceGetCount(int *out) {
    FREE_CALL(cuDeviceGetCount);
    return *out = wanted.devices, 0;
}
int cuDeviceGet(int *out, int n) {
    FREE_CALL(cuDeviceGet);
    DEVICE(n);
    return *out = n, 0;
}
int cuDeviceGetName(char *out, int most, int n) {
    FREE_CALL(cuDeviceGetName);
    DEVICE(n);
    return snprintf(out, most, "Device %d for tests", n), 0;
}
int cuDeviceTotalMem_v2(size_t *out, int n) {
    FREE_CALL(cuDeviceTotalMem_v2);
    DEVICE(n);
    return *out = wanted.memory, 0;
}
int cuDeviceGetUuid_v2(char *out, int n) {
    FREE_CALL(cuDeviceGetUuid_v2);
    DEVICE(n);
    return memset(out, n + 1, 16), 0;
}
int cuDeviceGetAttribute(int *out, int which, int n) {
    FREE_CALL(cuDeviceGetAttribute);
    DEVICE(n);
    const std::map<int, int> known = attributes(n);
    const auto found = known.find(which);
    return *out = found == known.end() ? 0 : found->second, 0;
}
int cuGetErrorName(int error, const char **out) {
    const auto found = ERRORS.find(error);
    return *out = found == ERRORS.end() ? nullptr : found->second, *out ? 0 : 1;
}
int cuGetErrorString(int error, const char **out) {
    static const std::string text = "the words of the driver for tests";
    return *out = ERRORS.count(error) ? text.c_str() : nullptr, *out ? 0 : 1;
}

/* Contexts ----------------------------------------------------------------------------------------------------- */

int cuDevicePrimaryCtxRetain(context **out, int n) {
    FREE_CALL(cuDevicePrimaryCtxRetain);
    DEVICE(n);
    if (!primary[n]) primary[n] = made(new context(n));
    return ++primary[n]->retained, *out = primary[n], 0;
}
int cuDevicePrimaryCtxReset_v2(int n) {
    FREE_CALL(cuDevicePrimaryCtxReset_v2);
    DEVICE(n);
    if (context *c = primary[n]) {
        release_all(c);
        for (stream *s : c->streams) destroyed(s);
        c->streams.clear(), c->null.queue.clear(), c->failed = 0;
    }
    return 0;
}
int cuDevicePrimaryCtxRelease_v2(int n) {
    FREE_CALL(cuDevicePrimaryCtxRelease_v2);
    NEED(is_device(n) && primary[n] && primary[n]->retained, 201, "the context was not retained");
    return --primary[n]->retained, 0; /* what is in it stays until it is reset */
}
int cuCtxSetCurrent(context *c) {
    FREE_CALL(cuCtxSetCurrent);
    NEED(!c || alive.count(c), 201, "there is no such context");
    if (!current.empty()) current.pop_back();
    if (c) current.push_back(c);
    return 0;
}
int cuCtxGetCurrent(context **out) {
    FREE_CALL(cuCtxGetCurrent);
    return *out = here(), 0;
}
int cuCtxPushCurrent_v2(context *c) {
    FREE_CALL(cuCtxPushCurrent_v2);
    NEED(alive.count(c), 201, "there is no such context");
    return current.push_back(c), 0;
}
int cuCtxPopCurrent_v2(context **out) {
    FREE_CALL(cuCtxPopCurrent_v2);
    NEED(here(), 201, "there is no current context");
    if (out) *out = here();
    return current.pop_back(), 0;
}
int cuCtxGetDevice(int *out) {
    CALL(cuCtxGetDevice);
    return *out = here()->device, 0;
}
int cuCtxSynchronize() {
    CALL(cuCtxSynchronize);
    NOT_CAPTURED(2, "a wait");
    const int error = drain_all(here());
    return close_all(), error;
}

/* Modules ------------------------------------------------------------------------------------------------------ */

int cuModuleLoadData(module **out, const void *image) {
    CALL(cuModuleLoadData);
    NOT_CAPTURED(1, "loading a module");
    return load(here(), (const char *)image, out);
}
int cuModuleUnload(module *m) {
    CALL(cuModuleUnload);
    NOT_CAPTURED(2, "a wait");
    NEED(alive.count(m), 400, "there is no such module");
    const int error = drain_all(here());
    return unload(m), error;
}
int cuModuleGetFunction(function **out, module *m, const char *name) {
    CALL(cuModuleGetFunction);
    NEED(alive.count(m), 400, "there is no such module");
    *out = found(m, name);
    NEED(*out, 500, std::string("there is no kernel ") + name);
    return 0;
}
int cuFuncGetAttribute(int *out, int which, function *f) {
    CALL(cuFuncGetAttribute);
    NEED(alive.count(f), 400, "there is no such function");
    const std::map<int, int> known = {{0, int(f->made->most_threads)}, {1, int(f->made->shared_bytes)}, {4, 32}};
    return *out = known.count(which) ? known.at(which) : 0, 0;
}
int cuFuncSetAttribute(function *f, int which, int value) {
    CALL(cuFuncSetAttribute);
    NEED(alive.count(f), 400, "there is no such function");
    NEED(which != 8 || (value >= 0 && value + f->made->shared_bytes <= 232448), 1, "too much shared memory");
    if (which == 8) f->most_dynamic = value;
    return 0;
}
int cuLaunchKernel(function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned dynamic, void *given, void **arguments, void **extra) {
    CALL(cuLaunchKernel);
    STREAM(s, given);
    NEED(alive.count(f) && f->from->owner == here(), 400, "the kernel is not of the current context");
    NEED(!extra, 801, "arguments in a buffer");
    for (const auto &c : primary) counts["launches beside other devices"] += c.second && c.second != here() && is_busy(c.second);
    launch l{f, {gx, gy, gz}, {bx, by, bz}, {}};
    if (const int error = checked(f, l.grid, l.block, dynamic)) return error;
    for (unsigned k = 0; k < f->made->count; ++k) {
        l.values.push_back(0);
        memcpy(&l.values.back(), arguments[k], f->made->arguments[k].bytes);
    }
    return put(s, [l]() mutable { return run(l); });
}

/* Memory ------------------------------------------------------------------------------------------------------- */

int cuMemGetInfo_v2(size_t *free, size_t *all) {
    CALL(cuMemGetInfo_v2);
    return *all = wanted.memory, *free = wanted.memory - used[here()], 0;
}
int cuMemAlloc_v2(address *out, size_t bytes) {
    CALL(cuMemAlloc_v2);
    NOT_CAPTURED(1, "an allocation");
    return allocate(here(), bytes, out);
}
int cuMemFree_v2(address at) {
    CALL(cuMemFree_v2);
    NOT_CAPTURED(2, "a wait");
    const int error = drain_all(here());
    return error ? error : at ? release(at) : 0;
}
int cuMemAllocAsync(address *out, size_t bytes, void *given) {
    CALL(cuMemAllocAsync);
    STREAM(s, given);
    NEED(!s->capturing, 801, "an allocation as a part of a graph");
    return allocate(here(), bytes, out);
}
int cuMemFreeAsync(address at, void *given) {
    CALL(cuMemFreeAsync);
    STREAM(s, given);
    NEED(allocations.count(at), 1, "nothing was allocated at this address");
    NEED(!s->capturing, 801, "a release of memory as a part of a graph");
    return put(s, [at] { return release(at); });
}
int cuMemAllocHost_v2(char **out, size_t bytes) {
    CALL(cuMemAllocHost_v2);
    NOT_CAPTURED(1, "an allocation");
    *out = (char *)aligned_alloc(PAGE, up(bytes, PAGE));
    return pinned[*out] = bytes, 0;
}
int cuMemFreeHost(char *at) {
    CALL(cuMemFreeHost);
    NOT_CAPTURED(2, "a wait");
    NEED(pinned.erase(at), 1, "no such memory of the host");
    const int error = drain_all(here());
    return free(at), error;
}
static bool is_pinned(const void *at) {
    auto found = pinned.upper_bound((char *)at);
    return found != pinned.begin() && (--found, (char *)at < found->first + found->second);
}

/* Copies. An address without `_device` is of the host. */
static int copied(address to, bool to_device, address from, bool from_device, size_t bytes) {
    permission open;
    NEED((!to_device || open.add(to, bytes)) && (!from_device || open.add(from, bytes)), 700, "a copy's memory was freed");
    open.settle();
    return memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes), 0;
}
static bool inside(address at, size_t bytes) { return !bytes || holder(at, bytes) != allocations.end(); }
#define INSIDE(at, bytes) NEED(inside(at, bytes), 1, "a copy beyond an allocation")
static std::vector<std::pair<address, size_t>> seen; /* arrays that were copied to or from the host */

/* Pageable memory of the host is read before the call returns, as CUDA does. */
int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, void *given) {
    CALL(cuMemcpyHtoDAsync_v2);
    STREAM(s, given);
    INSIDE(to, bytes);
    counts["bytes to devices"] += bytes;
    seen.push_back({to, bytes});
    if (s->capturing || is_pinned(from)) {
        return put(s, [=] { return copied(to, true, (address)(uintptr_t)from, false, bytes); });
    }
    const std::vector<char> staged((const char *)from, (const char *)from + bytes);
    return put(s, [=] { return copied(to, true, (address)(uintptr_t)staged.data(), false, bytes); });
}
/* And it is written before the call returns. */
int cuMemcpyDtoHAsync_v2(void *to, address from, size_t bytes, void *given) {
    CALL(cuMemcpyDtoHAsync_v2);
    STREAM(s, given);
    INSIDE(from, bytes);
    counts["bytes from devices"] += bytes;
    if (bytes > 1) seen.push_back({from, bytes}); /* a single byte is a condition in working memory */
    const int error = put(s, [=] { return copied((address)(uintptr_t)to, false, from, true, bytes); });
    return error || s->capturing || is_pinned(to) ? error : waited(s);
}
int cuMemcpyDtoDAsync_v2(address to, address from, size_t bytes, void *given) {
    CALL(cuMemcpyDtoDAsync_v2);
    STREAM(s, given);
    INSIDE(to, bytes);
    INSIDE(from, bytes);
    counts["bytes between devices"] += bytes;
    return put(s, [=] { return copied(to, true, from, true, bytes); });
}
/* Between the memory of two contexts, on a stream of either. */
int cuMemcpyPeerAsync(address to, context *there, address from, context *source, size_t bytes, void *given) {
    CALL(cuMemcpyPeerAsync);
    STREAM(s, given);
    NEED(alive.count(there) && alive.count(source), 201, "there is no such context");
    INSIDE(to, bytes);
    INSIDE(from, bytes);
    NEED(holder(to, bytes)->second.owner == there && holder(from, bytes)->second.owner == source, 1, "memory of another device");
    NEED(!s->capturing, 801, "a copy between devices as a part of a graph");
    counts["bytes between devices"] += bytes;
    return put(s, [=] { return copied(to, true, from, true, bytes); });
}
/* CUDA_MEMCPY2D; only rows between arrays of devices are copied. */
struct side {
    size_t x, y;
    int kind;
    void *host;
    address at;
    void *array;
    size_t pitch;
};
struct rows {
    side from, to;
    size_t width, count;
};
int cuMemcpy2DAsync_v2(const rows *given_rows, void *given) {
    CALL(cuMemcpy2DAsync_v2);
    STREAM(s, given);
    const rows r = *given_rows;
    for (const side &x : {r.from, r.to}) {
        NEED(x.kind == 2 && !x.x && !x.y && !x.host && !x.array, 801, "a copy of rows of this kind");
        NEED(x.pitch >= r.width && r.count, 1, "rows that overlap, or no rows");
        INSIDE(x.at, (r.count - 1) * x.pitch + r.width);
    }
    counts["bytes between devices"] += r.width * r.count;
    return put(s, [=] {
        for (size_t k = 0; k < r.count; ++k) {
            const int error = copied(r.to.at + k * r.to.pitch, true, r.from.at + k * r.from.pitch, true, r.width);
            if (error) return error;
        }
        return 0;
    });
}
int cuMemcpyHtoD_v2(address to, const void *from, size_t bytes) {
    const int error = cuMemcpyHtoDAsync_v2(to, from, bytes, nullptr);
    return error ? error : drain(&here()->null);
}
int cuMemcpyDtoH_v2(void *to, address from, size_t bytes) {
    const int error = cuMemcpyDtoHAsync_v2(to, from, bytes, nullptr);
    return error ? error : drain(&here()->null);
}
int cuMemcpyDtoD_v2(address to, address from, size_t bytes) { return cuMemcpyDtoDAsync_v2(to, from, bytes, nullptr); }

static int filled(address at, unsigned value, size_t size, size_t n) {
    permission open;
    NEED(open.add(at, size * n), 700, "the memory was freed");
    open.settle();
    for (size_t k = 0; k < n; ++k) memcpy((char *)(uintptr_t)at + k * size, &value, size);
    return 0;
}
int cuMemsetD8Async(address at, unsigned char value, size_t n, void *given) {
    CALL(cuMemsetD8Async);
    STREAM(s, given);
    INSIDE(at, n);
    return put(s, [=] { return filled(at, value, 1, n); });
}
int cuMemsetD32Async(address at, unsigned value, size_t n, void *given) {
    CALL(cuMemsetD32Async);
    STREAM(s, given);
    INSIDE(at, 4 * n);
    return put(s, [=] { return filled(at, value, 4, n); });
}

/* With the sanitizer of addresses: what lies between these arrays must not be touched from now on. The working memory
   is before the first of them. */
void forbid_gaps() {
    for (const auto &a : seen) {
        const auto whole = holder(a.first, a.second);
        if (whole == allocations.end()) continue;
        address next = whole->first + whole->second.bytes;
        for (const auto &b : seen) {
            if (b.first > a.first && b.first < next) next = b.first;
        }
        (void)next;
        __asan_poison_memory_region((void *)(a.first + a.second), next - a.first - a.second);
    }
}

/* Which memory an address is of: 1 host, 2 device. */
int cuPointerGetAttribute(void *out, int which, address at) {
    CALL(cuPointerGetAttribute);
    const auto found = holder(at, 1);
    NEED(found != allocations.end(), 1, "not an address of a device");
    if (which == 1) *(context **)out = found->second.owner;
    else if (which == 2) *(int *)out = 2;
    else if (which == 9) *(int *)out = found->second.owner->device;
    else return refuse(801, "this attribute");
    return 0;
}

/* Streams and events ------------------------------------------------------------------------------------------- */

int cuStreamCreate(stream **out, unsigned flags) {
    CALL(cuStreamCreate);
    *out = made(new stream{here(), bool(flags & 1), {}});
    return here()->streams.insert(*out), 0;
}
int cuStreamCreateWithPriority(stream **out, unsigned flags, int) { return cuStreamCreate(out, flags); }
int cuStreamDestroy_v2(stream *s) {
    CALL(cuStreamDestroy_v2);
    NEED(is_own(s), 400, "the stream is not of the current context");
    const int error = drain(s); /* on a device, what it has to do is done later */
    return here()->streams.erase(s), destroyed(s), error;
}
int cuStreamSynchronize(void *given) {
    CALL(cuStreamSynchronize);
    STREAM(s, given);
    if (s->capturing) return s->capturing->whole = false, refuse(900, "a stream that is captured does not wait");
    return waited(s);
}
/* Work goes on a step with each question. */
int cuStreamQuery(void *given) {
    CALL(cuStreamQuery);
    STREAM(s, given);
    if (s->capturing) return s->capturing->whole = false, refuse(900, "a stream that is captured is not asked");
    if (!s->queue.empty()) step(s);
    return s->queue.empty() ? s->owner->failed : 600;
}
int cuEventCreate(event **out, unsigned) {
    CALL(cuEventCreate);
    return *out = made(new event{here(), {}}), 0;
}
int cuEventDestroy_v2(event *e) { /* at once, also where its work is still queued */
    CALL(cuEventDestroy_v2);
    NEED(alive.count(e), 400, "there is no such event");
    return destroyed(e);
}
int cuEventRecord(event *e, void *given) {
    CALL(cuEventRecord);
    STREAM(s, given);
    NEED(alive.count(e) && e->owner == here(), 400, "the event is not of the current context");
    if (s->capturing) return e->captured = s->capturing, 0;
    const auto m = std::make_shared<mark>(mark{s});
    e->last = m, e->captured = nullptr;
    return put(s, [=] { return m->at = elapsed, m->done = true, 0; });
}
/* Work up to a record. If it fails, so does its own device, and others go on. */
static int until(const std::shared_ptr<mark> &m) {
    while (!m->done && !m->where->queue.empty()) step(m->where);
    return 0;
}
int cuStreamWaitEvent(void *given, event *e, unsigned) {
    CALL(cuStreamWaitEvent);
    STREAM(s, given);
    NEED(alive.count(e), 400, "there is no such event");
    if (e->captured) return s->capturing = e->captured, 0;
    const auto m = e->last;
    return e->done() ? 0 : put(s, [=] { return until(m); });
}
int cuEventSynchronize(event *e) {
    CALL(cuEventSynchronize);
    NEED(alive.count(e), 400, "there is no such event");
    if (e->last) until(e->last);
    return close_all(), e->owner->failed;
}
int cuEventQuery(event *e) {
    CALL(cuEventQuery);
    NEED(alive.count(e), 400, "there is no such event");
    if (!e->done() && !e->last->where->queue.empty()) step(e->last->where);
    return e->owner->failed ? e->owner->failed : e->done() ? 0 : 600;
}
int cuEventElapsedTime(float *out, event *a, event *b) {
    CALL(cuEventElapsedTime);
    NEED(alive.count(a) && alive.count(b), 400, "there is no such event");
    NEED(a->last && b->last, 400, "the event was not recorded");
    NEED(a->done() && b->done(), 600, "the work before the event is not done");
    return *out = (b->last->at - a->last->at) / 1e6f, 0;
}
/* The work of a library for tests, which touches these arrays. */
int fake_cuda_library(void *given, int (*f)(void *), void *data, const address *arrays, const size_t *sizes, int n) {
    CALL(cuLaunchKernel);
    STREAM(s, given);
    const std::vector<address> at(arrays, arrays + n);
    for (int k = 0; k < n; ++k) INSIDE(at[k], sizes[k]);
    return put(s, [=] {
        permission open;
        for (const address a : at) NEED(open.add(a, 0), 700, "the memory was freed");
        open.settle();
        elapsed += wanted.times.count({0, 0}) ? wanted.times.at({0, 0}) : 1000;
        return f(data);
    });
}
int cuLaunchHostFunc(void *given, void (*f)(void *), void *data) {
    CALL(cuLaunchHostFunc);
    STREAM(s, given);
    return put(s, [=] { return f(data), 0; });
}

/* Graphs ------------------------------------------------------------------------------------------------------- */

int cuStreamBeginCapture_v2(void *given, int mode) {
    CALL(cuStreamBeginCapture_v2);
    STREAM(s, given);
    NEED(s != &here()->null && !s->capturing, 900, "this stream is not captured");
    NEED(mode >= 0 && mode <= 2, 1, "there is no such mode");
    return s->capturing = made(new graph{{}, here(), mode}), 0;
}
/* The capture ends in any case. */
int cuStreamEndCapture(void *given, graph **out) {
    CALL_ENDING(cuStreamEndCapture);
    STREAM(s, given);
    NEED(s->capturing, 401, "nothing is captured");
    graph *const g = s->capturing;
    for (stream *other : here()->streams) other->capturing = other->capturing == g ? nullptr : other->capturing;
    *out = nullptr;
    if (begun.error || !g->whole) return destroyed(g), begun.error ? begun.error : refuse(901, "the capture has failed");
    return *out = g, 0;
}
int cuStreamIsCapturing(void *given, int *out) {
    CALL(cuStreamIsCapturing);
    STREAM(s, given);
    return *out = s->capturing != nullptr, 0;
}
int cuGraphInstantiateWithFlags(graph **out, graph *g, unsigned long long) {
    CALL(cuGraphInstantiateWithFlags);
    NEED(alive.count(g), 400, "there is no such graph");
    return *out = made(new graph(*g)), ++counts["graphs"], 0;
}
int cuGraphGetNodes(graph *g, void **, size_t *n) {
    CALL(cuGraphGetNodes);
    NEED(alive.count(g), 400, "there is no such graph");
    return *n = g->nodes.size(), 0;
}
int cuGraphLaunch(graph *g, void *given) {
    CALL(cuGraphLaunch);
    STREAM(s, given);
    NEED(alive.count(g) && g->owner == here(), 400, "the graph is not of the current context");
    NEED(!s->capturing, 900, "a graph as a part of a capture");
    int error = 0;
    for (const work &w : g->nodes) error = error ? error : put(s, w);
    return error;
}
int cuGraphDestroy(graph *g) {
    CALL(cuGraphDestroy);
    return destroyed(g);
}
int cuGraphExecDestroy(graph *g) {
    CALL(cuGraphExecDestroy);
    if (const int error = destroyed(g)) return error;
    return --counts["graphs"], 0;
}

/* The newest version of an entry point. */
int cuGetProcAddress_v2(const char *name, void **out, int, uint64_t, int *how) {
    static void *const all = dlopen("libcuda.so.1", RTLD_NOW);
    *out = nullptr;
    for (const char *version : {"_v3", "_v2", ""}) {
        if (!*out) *out = dlsym(all, (name + std::string(version)).c_str());
    }
    if (how) *how = *out == nullptr;
    return *out ? 0 : 500;
}
}
