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
