/* A driver for tests: device memory is memory, and a launch runs its groups on threads of the system.

   It refuses launches that no device takes, and copies beyond what was allocated. The kernels are above. */
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define __asan_poison_memory_region(at, bytes)
#endif

typedef unsigned long long address;
struct region {
    address at;
    size_t bytes;
};
static std::vector<region> blocks; /* that are allocated */
static int current; /* a context */
static std::vector<region> arrays; /* that were copied to or from the device */

template <class... A, size_t... K>
static void apply(void (*kernel)(A...), void **arguments, std::index_sequence<K...>) {
    kernel(*(A *)arguments[K]...);
}
template <class... A> static void called(void (*kernel)(A...), void **arguments) {
    apply(kernel, arguments, std::index_sequence_for<A...>());
}

struct job {
    void (*run)(void **);
    void **arguments;
    unsigned groups, thread;
};
static void *one_thread(void *given) {
    job *j = (job *)given;
    threadIdx.x = j->thread;
    for (unsigned group = 0; group < j->groups; ++group) {
        blockIdx.x = group;
        j->run(j->arguments);
        wait_for_all(); /* shared memory is the next group's */
    }
    return nullptr;
}

struct entry {
    const char *name;
    void (*run)(void **);
};
extern const entry entries[];

static const region *block_of(address at) {
    for (const region &b : blocks) {
        if (at >= b.at && at < b.at + b.bytes) return &b;
    }
    return nullptr;
}
static int inside(address at, size_t bytes) {
    const region *b = block_of(at);
    return b && at + bytes <= b->at + b->bytes;
}

extern "C" {
int cuInit(unsigned) { return 0; }
int cuDeviceGet(int *device, int number) { return *device = number, 0; }
int cuDevicePrimaryCtxRetain(void **context, int) { return *context = &current, 0; }
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxPushCurrent_v2(void *context) { return context == &current ? 0 : 201; }
int cuCtxPopCurrent_v2(void **context) { return *context = &current, 0; }
int cuModuleLoadData(void **module, const void *image) { return *module = &blocks, strcmp((const char *)image, "cubin") ? 200 : 0; }
int cuModuleUnload(void *) { return 0; }
int cuModuleGetFunction(void **function, void *, const char *name) {
    for (const entry *e = entries; e->name; ++e) {
        if (!strcmp(e->name, name)) return *function = (void *)e, 0;
    }
    return 500;
}
int cuMemAlloc_v2(address *at, size_t bytes) {
    if (const char *limit = getenv("DEVICE_MEMORY")) {
        if (bytes > strtoull(limit, nullptr, 10)) return 2;
    }
    const address block = (address)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
    memset((void *)block, 0xEE, bytes);
    blocks.push_back({block, bytes});
    return *at = block, 0;
}
int cuMemFree_v2(address at) {
    for (size_t k = 0; k < blocks.size(); ++k) {
        if (blocks[k].at != at) continue;
        blocks.erase(blocks.begin() + k);
        return free((void *)at), 0;
    }
    return 1;
}
int cuStreamCreate(void **stream, unsigned) { return *stream = &arrays, 0; }
int cuStreamDestroy_v2(void *) { return 0; }
int cuStreamSynchronize(void *) { return 0; }
int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, void *) {
    if (!inside(to, bytes)) return 1;
    arrays.push_back({to, bytes});
    return memcpy((void *)to, from, bytes), 0;
}
int cuMemcpyDtoHAsync_v2(void *to, address from, size_t bytes, void *) {
    if (!inside(from, bytes)) return 1;
    if (bytes > 1) arrays.push_back({from, bytes}); /* a single byte is a condition in working memory */
    return memcpy(to, (void *)from, bytes), 0;
}
int cuMemcpyDtoDAsync_v2(address to, address from, size_t bytes, void *) {
    if (!inside(to, bytes) || !inside(from, bytes)) return 1;
    return memmove((void *)to, (void *)from, bytes), 0;
}
int cuMemsetD8Async(address at, unsigned char value, size_t bytes, void *) {
    if (!inside(at, bytes)) return 1;
    return memset((void *)at, value, bytes), 0;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned, void *stream, void **arguments, void **) {
    static pthread_t threads[1024];
    static job jobs[1024];
    if (!gx || gx > 0x7fffffffu || gy != 1 || gz != 1 || !bx || bx > 1024 || by != 1 || bz != 1) return 1;
    if (stream != &arrays) return 400;
    for (pthread_barrier_t &b : all_threads) pthread_barrier_init(&b, nullptr, bx);
    for (unsigned k = 0; k < bx; ++k) {
        jobs[k] = {((const entry *)function)->run, arguments, gx, k};
        if (pthread_create(&threads[k], nullptr, one_thread, &jobs[k])) return 701;
    }
    for (unsigned k = 0; k < bx; ++k) pthread_join(threads[k], nullptr);
    for (pthread_barrier_t &b : all_threads) pthread_barrier_destroy(&b);
    return 0;
}

/* What lies between arrays must not be touched from now on. */
void forbid_gaps(void) {
    for (const region &a : arrays) {
        const region *block = block_of(a.at);
        address next = block->at + block->bytes;
        for (const region &b : arrays) {
            if (b.at > a.at && b.at < next) next = b.at;
        }
        (void)next;
        __asan_poison_memory_region((void *)(a.at + a.bytes), next - a.at - a.bytes);
    }
}
}
