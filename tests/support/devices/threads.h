/* CUDA's words for a processor: a group runs on threads of the system, one for each of its own. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct position {
    unsigned x;
};
static thread_local position blockIdx, threadIdx;
static pthread_barrier_t all_threads[2];
static thread_local unsigned met;

/* All threads wait for each other, at two barriers in turn. A thread that wakes up late would otherwise seem to know
   what others have done since, up to their next meeting, and races there would go unseen. */
static inline void wait_for_all(void) {
    pthread_barrier_wait(&all_threads[met++ % 2]);
}

#define __global__
#define __device__
#define __shared__ static
#define __restrict__ __restrict
#define __launch_bounds__(threads)
#define __syncthreads() meet(__COUNTER__)

/* Barriers are numbered in the order of the text; one of them is left out on request. */
static inline void meet(int number) {
    static const char *const left_out = getenv("WITHOUT_BARRIER");
    if (!left_out || atoi(left_out) != number) wait_for_all();
}

static inline unsigned long long atomicCAS(unsigned long long *at, unsigned long long was, unsigned long long now) {
    __atomic_compare_exchange_n(at, &was, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return was;
}
