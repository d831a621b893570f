/* CUDA's words for a processor, and the table of the kernels that follow. A driver runs them (`driver.cpp`). */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"

#ifdef SYSTEM_THREADS
#define OF_A_THREAD thread_local
#else
#define OF_A_THREAD
#endif

static OF_A_THREAD position blockIdx, threadIdx;
static position gridDim, blockDim;
static void (*wait_for_all)(int number);

#define __global__
#define __device__
#define __shared__ static
#define __restrict__ __restrict
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __syncthreads() meet(__COUNTER__)

/* Barriers are numbered in the order of the text; one of them is left out on request. */
static const char *const left_out = getenv("WITHOUT_BARRIER");
static inline void meet(int number) {
    if (left_out && atoi(left_out) == number) return;
    const position here = threadIdx;
    wait_for_all(number);
    threadIdx = here;
}

static inline unsigned long long atomicCAS(unsigned long long *at, unsigned long long was, unsigned long long now) {
    __atomic_compare_exchange_n(at, &was, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return was;
}

/* Shared memory that a launch requests, copies that run ahead, and tensor cores. */
#define PB_EMULATED
#define PB_REQUESTED(name, bytes) alignas(1024) static unsigned char name[bytes]

/* A thread copies at once, or as late as it may. */
static const bool is_late = getenv("LATE_COPIES");
struct ahead {
    void *to;
    const void *from;
    bool inside;
    unsigned batch;
};
static struct {
    ahead queue[64];
    unsigned first, end, batch;
} copies[1024];

static inline void copy_now(const ahead &a) { a.inside ? memcpy(a.to, a.from, 16) : memset(a.to, 0, 16); }
static inline void pb_fetch(void *to, const void *from, bool inside = true) {
    auto &own = copies[threadIdx.x];
    const ahead made{to, from, inside, own.batch};
    if (!is_late) return copy_now(made);
    if (own.end - own.first == 64) abort();
    own.queue[own.end++ % 64] = made;
}
static inline void pb_fetched() { ++copies[threadIdx.x].batch; }
template <int pending> static inline void pb_wait() {
    auto &own = copies[threadIdx.x];
    while (own.first != own.end && int(own.batch - own.queue[own.first % 64].batch) > pending)
        copy_now(own.queue[own.first++ % 64]);
}

/* An operand: its element in row (or column) i of term k. */
template <int kind, bool along, int depth> static inline float operand(const void *panel, int i, int k) {
    constexpr int bytes = kind == 2 ? 4 : 2, line = 128 / bytes;
    int at = along ? i * line + k : (i / line * depth + k) * line + i % line;
    at = bytes == 2 ? at ^ (at >> 3 & 56) : at ^ (at >> 2 & 24) ^ (at >> 5 & 4);
    uint32_t bits = bytes == 2 ? ((const uint16_t *)panel)[at] : (((const uint32_t *)panel)[at] + 0x1000) & 0xffffe000;
    float x;
    if (kind == 1) {
        _Float16 half;
        return memcpy(&half, &bits, 2), half;
    }
    bits <<= kind == 0 ? 16 : 0;
    return memcpy(&x, &bits, 4), x;
}
/* Each thread computes its own sums, whose places are those of the instructions. */
template <int kind, int rows, int columns, int across, int depth, bool left_along, bool right_along>
static inline void pb_multiply(float *sums, const void *left, const void *right, int thread) {
    const int row = thread / 32 / across * (rows * 16) + thread % 32 / 4;
    const int column = thread / 32 % across * (columns * 8) + thread % 4 * 2;
    for (int n = 0; n < rows * columns * 4; ++n) {
        const int i = row + n / 4 / columns * 16 + n / 2 % 2 * 8, j = column + n / 4 % columns * 8 + n % 2;
        for (int k = 0; k < depth; ++k)
            sums[n] += operand<kind, left_along, depth>(left, i, k) * operand<kind, right_along, depth>(right, j, k);
    }
}
#define MULTIPLY(columns) \
    template <int kind, int depth, bool left_along, bool right_along> \
    static inline void pb_multiply_64x##columns(float *sums, const void *left, const void *right, int thread) { \
        pb_multiply<kind, 1, columns / 8, 1, depth, left_along, right_along>(sums, left, right, thread); \
    }
MULTIPLY(128)
MULTIPLY(256)
template <int pending> static inline void pb_wait_together() { pb_wait<pending>(); }
static inline void pb_finish(float *) {}
/* A thread has columns of one row; four warps have 128 rows. */
template <int kind, int columns, int depth, bool left_along, bool right_along>
static inline void pb_multiply_128(float *sums, const void *left, const void *right, int thread, int) {
    const int own = columns / (blockDim.x / 128);
    for (int n = 0; n < own; ++n)
        for (int k = 0; k < depth; ++k)
            sums[n] += operand<kind, left_along, depth>(left, thread % 128, k) *
                       operand<kind, right_along, depth>(right, thread / 128 * own + n, k);
}
template <int columns, int panels> static inline void pb_finish_128(float *, int) {}

/* The k-th iteration of three loops, x innermost. */
static inline position at(position size, uint64_t k) {
    if (size.y == 1 && size.z == 1) return {unsigned(k), 0, 0};
    return {unsigned(k % size.x), unsigned(k / size.x % size.y), unsigned(k / size.x / size.y)};
}

template <class T> constexpr bool is_pointer = false;
template <class T> constexpr bool is_pointer<T *> = true;

template <class T, T k> struct of;
template <class... A, void (*k)(A...)> struct of<void (*)(A...), k> {
    static constexpr unsigned count = sizeof...(A);
    static constexpr argument arguments[] = {{sizeof(A), is_pointer<A>}..., {0, false}};

    struct one_thread {
        one_thread(A... a) { k(a...); }
    };
    static void one(void **a) {
        int i = 0;
        one_thread{*(A *)a[i++]...}; /* braces: from the left to the right */
    }
    struct all_threads {
        all_threads(const order *o, A... a) {
            for (uint64_t g = 0; g < o->groups; ++g) {
                blockIdx = at(o->grid, o->group ? o->group[g] : g);
                for (unsigned t = 0; t < o->threads; ++t) {
                    threadIdx = at(o->block, o->thread ? o->thread[t] : t);
                    k(a...);
                }
            }
        }
    };
    static void all(void **a, const order *o) {
        int i = 0;
        all_threads{o, *(A *)a[i++]...};
    }
};

static void place(const order *o, uint64_t group, unsigned thread) {
    blockIdx = at(o->grid, group);
    threadIdx = at(o->block, thread);
}
static void prepare(const order *o, void (*wait)(int)) {
    gridDim = o->grid, blockDim = o->block, wait_for_all = wait;
}

#define KERNEL(name, threads, shared, meets) \
    {#name, threads, shared, meets, of<decltype(&name), &name>::count, of<decltype(&name), &name>::arguments, \
     of<decltype(&name), &name>::one, of<decltype(&name), &name>::all}
#define MODULE(architecture, ...) \
    static const kernel table[] = {__VA_ARGS__ {}}; \
    extern "C" __attribute__((visibility("default"))) const module_table device_module = {architecture, table, prepare, place};
