/* Threads that share out the chunks of a parallel loop.

   A pool of n workers has n - 1 threads of its own; the caller is worker 0. `run` gives each worker a run of chunks, an
   atomic word on a cache line of its own: the next chunk and the end. A worker takes its chunks from the front, so that
   it finds what it wrote last time in its caches. Then it steals from the end of the longest other run. So a thread
   that wakes late or is descheduled holds at most the chunk that it runs. The task counts as done when every chunk is. A
   second caller that finds the pool busy runs its chunks itself. Idle threads look for work for a while, then sleep;
   where there are more workers than processors they sleep at once. A caller that Ctrl-C may end (`runtime/c/call.c`)
   leaves from here: chunks that run are left by a jump of their threads, those that are left are skipped, and when nobody
   uses its stack any more it jumps. After a fork the child has none of the threads: it starts afresh. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for CPU_COUNT */
#endif
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef void (*Task)(void *context, int64_t chunk, int64_t worker);

typedef struct pb_pool pb_pool;
struct pb_pool { /* what generated code knows */
    int64_t workers;
    void (*run)(pb_pool *pool, Task task, void *context, int64_t chunks);
};

#define CHUNK_BITS 20
#define MOST_CHUNKS (((int64_t)1 << CHUNK_BITS) - 1)
#define IDLE_NANOSECONDS 100000 /* how long an idle thread looks for work */
#define PAUSES 64               /* looks between two looks at the clock */

typedef struct { /* as in call.c */
    volatile sig_atomic_t active, shared, stop;
    pthread_t thread;
    void (*leave)(void);
    void (*stop_chunks)(int number), (*leave_chunk)(void);
    int (*is_worker)(void);
} Guard;

static Guard none, *guard = &none;

typedef struct { /* a thread, what it has to do, and the way out of its chunk while it is inside one */
    uint64_t open; /* turn, next chunk, end of its run */
    Task task; /* stable while a chunk is left or running */
    void *context;
    int guarded; /* whether the caller may be ended */
    char apart[100];
    pthread_t thread;
    sigjmp_buf out;
    int inside, known; /* `known` says that `thread` is set */
} Worker;

typedef struct Pool Pool;
struct Pool {
    pb_pool seen;
    Pool *next;
    int started, spins;
    int stopping; /* whether it is telling the others */
    Worker *each; /* as many as workers, the caller first */
    pthread_mutex_t mutex; /* for those that sleep */
    pthread_cond_t work, done;
    int sleeping, waiting;
    uint64_t turn;
    int busy;
    char apart0[128];
    int64_t left; /* chunks not yet done: a worker counts its own when it has done all of them */
    char apart1[128];
};

static Pool *pools;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static inline void breathe(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t next_chunk(uint64_t open) { return (int64_t)(open >> CHUNK_BITS) & MOST_CHUNKS; }
static int64_t end_chunk(uint64_t open) { return (int64_t)open & MOST_CHUNKS; }
static int64_t length(uint64_t open) { return end_chunk(open) - next_chunk(open); }

/* Ctrl-C. Who is inside a chunk is told by the signal, and leaves it by a jump: chunks hold nothing that could be lost. A
   worker says that it is inside before it looks for the note, and the handler leaves the note before it looks who is inside,
   so that one sees the other. */

static Pool *volatile guarded_pool;

static void stop_chunks(int number) {
    Pool *p = guarded_pool;
    if (p) __atomic_store_n(&p->stopping, 1, __ATOMIC_SEQ_CST);
    guard->stop = 1;
    if (!p) return;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (int64_t k = 1; k < p->seen.workers; ++k)
        if (__atomic_load_n(&p->each[k].inside, __ATOMIC_SEQ_CST)) pthread_kill(p->each[k].thread, number);
    __atomic_store_n(&p->stopping, 0, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&p->each[0].inside, __ATOMIC_SEQ_CST)) siglongjmp(p->each[0].out, 1);
}

static void leave_chunk(void) {
    Pool *p = guarded_pool;
    for (int64_t k = 1; p && k < p->seen.workers; ++k)
        if (__atomic_load_n(&p->each[k].inside, __ATOMIC_SEQ_CST) && pthread_equal(p->each[k].thread, pthread_self()))
            siglongjmp(p->each[k].out, 1);
}

static int is_worker(void) {
    for (Pool *p = __atomic_load_n(&pools, __ATOMIC_ACQUIRE); p; p = p->next)
        for (int64_t k = 1; k < p->seen.workers; ++k)
            if (__atomic_load_n(&p->each[k].known, __ATOMIC_ACQUIRE) && pthread_equal(p->each[k].thread, pthread_self()))
                return 1;
    return 0;
}

/* Lets the signal come to this thread, or keeps it off and forgets one that has come. */
static void listen(int wanted) {
    sigset_t set, pending;
    int number;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    pthread_sigmask(wanted ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
    if (!wanted && guard->stop && !sigpending(&pending) && sigismember(&pending, SIGINT)) sigwait(&set, &number);
}

/* Runs a chunk of a caller that Ctrl-C may end; the thread is open to the signal. */
static void run_guarded(Pool *p, const Worker *of, int64_t chunk, int64_t worker) {
    Worker *w = &p->each[worker];
    if (!sigsetjmp(w->out, 0)) {
        __atomic_store_n(&w->inside, 1, __ATOMIC_SEQ_CST);
        if (!guard->stop) of->task(of->context, chunk, worker);
    }
    __atomic_store_n(&w->inside, 0, __ATOMIC_SEQ_CST);
    if (!guard->stop || !worker) return;
    while (__atomic_load_n(&p->stopping, __ATOMIC_SEQ_CST)) breathe();
    listen(0); /* a signal that was sent has come by now */
    listen(1);
}

/* Takes the first chunk of a run, or the last; -1 if none is left. */
static int64_t take(uint64_t *run, int last) {
    uint64_t open = __atomic_load_n(run, __ATOMIC_ACQUIRE);
    while (length(open) > 0) {
        uint64_t then = last ? open - 1 : open + ((uint64_t)1 << CHUNK_BITS);
        if (__atomic_compare_exchange_n(run, &open, then, 1, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return last ? end_chunk(then) : next_chunk(open);
    }
    return -1;
}

/* The worker with the most chunks left; NULL if nobody has any. */
static Worker *longest(Pool *p) {
    Worker *found = NULL;
    int64_t most = 0;
    for (int64_t k = 0; k < p->seen.workers; ++k) {
        int64_t own = length(__atomic_load_n(&p->each[k].open, __ATOMIC_ACQUIRE));
        if (own > most) most = own, found = &p->each[k];
    }
    return found;
}

/* Runs all chunks of a worker in order, or its last one. What belongs to a run is read once a chunk of it is held: until
   then the next run may begin and write it. It stays while this chunk is not done. */
static void run_chunks(Pool *p, Worker *of, int64_t worker, int last) {
    int64_t done = 0, chunk;
    while (!(last && done) && (chunk = take(&of->open, last)) >= 0) {
        if (of->guarded) run_guarded(p, of, chunk, worker);
        else of->task(of->context, chunk, worker);
        ++done;
    }
    if (done && __atomic_sub_fetch(&p->left, done, __ATOMIC_SEQ_CST) == 0
        && __atomic_load_n(&p->waiting, __ATOMIC_SEQ_CST)) {
        pthread_mutex_lock(&p->mutex);
        pthread_cond_signal(&p->done);
        pthread_mutex_unlock(&p->mutex);
    }
}

/* Runs chunks until none is left: first its own. */
static void take_chunks(Pool *p, int64_t worker) {
    Worker *of = &p->each[worker];
    run_chunks(p, of, worker, 0);
    while ((of = longest(p))) run_chunks(p, of, worker, 1);
}

static int has_work(Pool *p, int64_t worker) {
    return length(__atomic_load_n(&p->each[worker].open, __ATOMIC_SEQ_CST)) > 0;
}

static int is_done(Pool *p, int64_t worker) {
    (void)worker;
    return __atomic_load_n(&p->left, __ATOMIC_SEQ_CST) == 0;
}

typedef int (*Condition)(Pool *p, int64_t worker);

/* Looks until `holds` or the time is over; whether it holds. */
static int look(Pool *p, int64_t worker, Condition holds) {
    if (holds(p, worker)) return 1;
    if (!p->spins) return 0;
    for (int64_t end = now() + IDLE_NANOSECONDS;;) {
        for (int k = 0; k < PAUSES; ++k) {
            if (holds(p, worker)) return 1;
            breathe();
        }
        if (now() > end) return 0;
    }
}

/* Sleeps until `holds`; `sleepers` tells the other side that someone does. */
static void wait_until(Pool *p, int64_t worker, Condition holds, int *sleepers, pthread_cond_t *signal) {
    if (look(p, worker, holds)) return;
    if (worker) listen(0); /* signals that come now are for others */
    pthread_mutex_lock(&p->mutex);
    __atomic_add_fetch(sleepers, 1, __ATOMIC_SEQ_CST);
    while (!holds(p, worker)) pthread_cond_wait(signal, &p->mutex);
    __atomic_sub_fetch(sleepers, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&p->mutex);
    if (worker) listen(1);
}

typedef struct {
    Pool *pool;
    int64_t worker;
} Start;

static void *worker_main(void *argument) {
    Start s = *(Start *)argument;
    free(argument);
    s.pool->each[s.worker].thread = pthread_self();
    __atomic_store_n(&s.pool->each[s.worker].known, 1, __ATOMIC_RELEASE);
    listen(1);
    for (;;) {
        wait_until(s.pool, s.worker, has_work, &s.pool->sleeping, &s.pool->work);
        take_chunks(s.pool, s.worker);
    }
    return NULL;
}

/* The number of processors that this process may use. */
static long processors(void) {
#ifdef CPU_COUNT
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
#endif
    return sysconf(_SC_NPROCESSORS_ONLN);
}

/* Starts the threads; those that cannot be had are done without. Signals stay with the threads of the program. */
static void start_threads(Pool *p) {
    sigset_t all, before;
    pthread_attr_t detached;
    p->started = 1;
    p->spins = processors() >= p->seen.workers;
    if (pthread_attr_init(&detached)) return;
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int64_t k = 1; k < p->seen.workers; ++k) {
        pthread_t thread;
        Start *s = malloc(sizeof *s);
        if (!s) break;
        *s = (Start){p, k};
        if (pthread_create(&thread, &detached, worker_main, s)) {
            free(s);
            break;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
}

/* Nobody else uses the caller's stack: the note that Ctrl-C left is read. */
static void end_sharing(void) {
    guard->shared = 0;
    if (guard->stop) guard->leave();
}

static void run(pb_pool *pool, Task task, void *context, int64_t chunks) {
    Pool *p = (Pool *)pool;
    int idle = 0, guarded = pthread_equal(pthread_self(), guard->thread) && guard->active;
    if (guarded) guard->shared = 1;
    if (chunks < 2 || chunks > MOST_CHUNKS || pool->workers < 2
        || !__atomic_compare_exchange_n(&p->busy, &idle, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        if (guarded) end_sharing();
        for (int64_t k = 0; k < chunks; ++k) task(context, k, 0);
        return;
    }
    if (guarded) guarded_pool = p;
    if (!p->started) start_threads(p);
    __atomic_store_n(&p->left, chunks, __ATOMIC_RELAXED);
    uint64_t turn = ++p->turn << (2 * CHUNK_BITS);
    for (int64_t k = pool->workers - 1, end = chunks; k >= 0; --k) { /* the caller's own run, the first one, comes last */
        int64_t first = chunks * k / pool->workers;
        Worker *w = &p->each[k];
        w->task = task, w->context = context, w->guarded = guarded;
        __atomic_store_n(&w->open, turn | (uint64_t)first << CHUNK_BITS | (uint64_t)end, __ATOMIC_SEQ_CST);
        end = first;
    }
    if (__atomic_load_n(&p->sleeping, __ATOMIC_SEQ_CST)) {
        pthread_mutex_lock(&p->mutex);
        pthread_cond_broadcast(&p->work);
        pthread_mutex_unlock(&p->mutex);
    }
    take_chunks(p, 0);
    wait_until(p, 0, is_done, &p->waiting, &p->done);
    if (guarded) guarded_pool = NULL;
    __atomic_store_n(&p->busy, 0, __ATOMIC_RELEASE);
    if (guarded) end_sharing();
}

static void make_fresh(Pool *p) {
    for (int64_t k = 0; k < p->seen.workers; ++k) p->each[k].open = p->each[k].inside = p->each[k].known = 0;
    p->stopping = 0;
    p->started = p->sleeping = p->waiting = p->busy = 0;
    p->left = 0;
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
}

static void before_fork(void) { pthread_mutex_lock(&making); }
static void after_fork(void) { pthread_mutex_unlock(&making); }
static void in_child(void) {
    guarded_pool = NULL;
    pthread_mutex_init(&making, NULL);
    for (Pool *p = pools; p; p = p->next) make_fresh(p);
}

/* Tells the pools who may be ended. */
void pb_pool_guard(Guard *of_calls) {
    guard = of_calls;
    guard->stop_chunks = stop_chunks;
    guard->leave_chunk = leave_chunk;
    guard->is_worker = is_worker;
}

/* The pool of so many workers, made when first asked for and kept; NULL where there is no memory. */
pb_pool *pb_pool_of(int64_t workers) {
    static int registered;
    pthread_mutex_lock(&making);
    Pool *p = pools;
    while (p && p->seen.workers != workers) p = p->next;
    Worker *each = p || workers < 1 ? NULL : calloc((size_t)workers, sizeof *each); /* what they write lies apart */
    if (each && !(p = calloc(1, sizeof *p))) free(each);
    else if (each) {
        p->each = each;
        p->seen = (pb_pool){workers, run};
        make_fresh(p);
        p->next = pools;
        __atomic_store_n(&pools, p, __ATOMIC_RELEASE); /* handlers of signals read it */
        if (!registered) registered = pthread_atfork(before_fork, after_fork, in_child) == 0;
    }
    pthread_mutex_unlock(&making);
    return (pb_pool *)p;
}
