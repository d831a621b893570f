/* Threads that share out the chunks of a parallel loop.

   A pool of n workers has n - 1 threads of its own; the caller is worker 0. `run` publishes a task and takes chunks
   like everyone else, so a thread that wakes late costs nothing but its help: whoever comes finds the next chunk in
   one atomic word, and the task counts as done when every chunk is. A second caller that finds the pool busy runs its
   chunks itself. Idle threads look for work for a while, then sleep; where there are more workers than processors
   they sleep at once. A caller that Ctrl-C may end (`runtime/c/call.c`) leaves from here: chunks that run are left by a
   jump of their threads, those that are left are skipped, and when nobody uses its stack any more it jumps. After a fork the
   child has none of the threads: it starts afresh. */

#include <pthread.h>
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
} Guard;

static Guard none, *guard = &none;

typedef struct { /* a thread, and the way out of its chunk while it is inside one */
    pthread_t thread;
    sigjmp_buf out;
    int inside;
} Worker;

typedef struct Pool Pool;
struct Pool {
    pb_pool seen;
    Pool *next;
    int started, spins;
    int guarded; /* whether the caller may be ended */
    int stopping; /* whether it is telling the others */
    Worker *each; /* as many as workers, the caller first */
    pthread_mutex_t mutex; /* for those that sleep */
    pthread_cond_t work, done;
    int sleeping, waiting;
    Task task; /* stable while a chunk is left or running */
    void *context;
    char apart0[64];
    uint64_t open; /* turn, next chunk, chunks: a chunk is taken by counting up */
    char apart1[64];
    int64_t left; /* chunks not yet done */
    int busy;
    char apart2[64];
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
static int64_t all_chunks(uint64_t open) { return (int64_t)open & MOST_CHUNKS; }

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

/* Lets the signal come to this thread, or keeps it off and forgets one that has come. */
static void listen(int wanted) {
    sigset_t set, pending;
    int number;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    pthread_sigmask(wanted ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
    if (!wanted && guard->stop && !sigpending(&pending) && sigismember(&pending, SIGINT)) sigwait(&set, &number);
}

/* Runs a chunk that Ctrl-C may end; the thread is open to the signal. */
static void run_guarded(Pool *p, int64_t chunk, int64_t worker) {
    Worker *w = &p->each[worker];
    if (!sigsetjmp(w->out, 0)) {
        __atomic_store_n(&w->inside, 1, __ATOMIC_SEQ_CST);
        if (!guard->stop) p->task(p->context, chunk, worker);
    }
    __atomic_store_n(&w->inside, 0, __ATOMIC_SEQ_CST);
    if (!guard->stop || !worker) return;
    while (__atomic_load_n(&p->stopping, __ATOMIC_SEQ_CST)) breathe();
    listen(0); /* a signal that was sent has come by now */
    listen(1);
}

/* Runs chunks until none is left. What belongs to a run is read once a chunk of it is held: until then the
   next run may begin and write it. */
static void take_chunks(Pool *p, int64_t worker) {
    int listening = 0;
    uint64_t open = __atomic_load_n(&p->open, __ATOMIC_ACQUIRE);
    while (next_chunk(open) < all_chunks(open)) {
        if (!__atomic_compare_exchange_n(&p->open, &open, open + ((uint64_t)1 << CHUNK_BITS), 1, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE))
            continue;
        if (p->guarded && worker && !listening) listen(listening = 1);
        if (p->guarded) run_guarded(p, next_chunk(open), worker); /* the task stays: this chunk is not done */
        else p->task(p->context, next_chunk(open), worker);
        if (__atomic_sub_fetch(&p->left, 1, __ATOMIC_SEQ_CST) == 0 && __atomic_load_n(&p->waiting, __ATOMIC_SEQ_CST)) {
            pthread_mutex_lock(&p->mutex);
            pthread_cond_signal(&p->done);
            pthread_mutex_unlock(&p->mutex);
        }
        open = __atomic_load_n(&p->open, __ATOMIC_ACQUIRE);
    }
    if (listening) listen(0);
}

static int has_work(Pool *p) {
    uint64_t open = __atomic_load_n(&p->open, __ATOMIC_SEQ_CST);
    return next_chunk(open) < all_chunks(open);
}

static int is_done(Pool *p) { return __atomic_load_n(&p->left, __ATOMIC_SEQ_CST) == 0; }

/* Looks until `holds` or the time is over; whether it holds. */
static int look(Pool *p, int (*holds)(Pool *)) {
    if (holds(p)) return 1;
    if (!p->spins) return 0;
    for (int64_t end = now() + IDLE_NANOSECONDS;;) {
        for (int k = 0; k < PAUSES; ++k) {
            if (holds(p)) return 1;
            breathe();
        }
        if (now() > end) return 0;
    }
}

/* Sleeps until `holds`; `sleepers` tells the other side that someone does. */
static void wait_until(Pool *p, int (*holds)(Pool *), int *sleepers, pthread_cond_t *signal) {
    if (look(p, holds)) return;
    pthread_mutex_lock(&p->mutex);
    __atomic_add_fetch(sleepers, 1, __ATOMIC_SEQ_CST);
    while (!holds(p)) pthread_cond_wait(signal, &p->mutex);
    __atomic_sub_fetch(sleepers, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&p->mutex);
}

typedef struct {
    Pool *pool;
    int64_t worker;
} Start;

static void *worker_main(void *argument) {
    Start s = *(Start *)argument;
    free(argument);
    s.pool->each[s.worker].thread = pthread_self();
    for (;;) {
        wait_until(s.pool, has_work, &s.pool->sleeping, &s.pool->work);
        take_chunks(s.pool, s.worker);
    }
    return NULL;
}

/* Starts the threads; those that cannot be had are done without. Signals stay with the threads of the program. */
static void start_threads(Pool *p) {
    sigset_t all, before;
    pthread_attr_t detached;
    p->started = 1;
    p->spins = sysconf(_SC_NPROCESSORS_ONLN) >= p->seen.workers;
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
static void unshare(void) {
    guard->shared = 0;
    if (guard->stop) guard->leave();
}

static void run(pb_pool *pool, Task task, void *context, int64_t chunks) {
    Pool *p = (Pool *)pool;
    int idle = 0, guarded = pthread_equal(pthread_self(), guard->thread) && guard->active;
    if (guarded) guard->shared = 1;
    if (chunks < 2 || chunks > MOST_CHUNKS || pool->workers < 2
        || !__atomic_compare_exchange_n(&p->busy, &idle, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        if (guarded) unshare();
        for (int64_t k = 0; k < chunks; ++k) task(context, k, 0);
        return;
    }
    p->guarded = guarded;
    if (guarded) guarded_pool = p;
    if (!p->started) start_threads(p);
    p->task = task;
    p->context = context;
    __atomic_store_n(&p->left, chunks, __ATOMIC_RELAXED);
    uint64_t turn = (__atomic_load_n(&p->open, __ATOMIC_RELAXED) >> (2 * CHUNK_BITS)) + 1;
    __atomic_store_n(&p->open, turn << (2 * CHUNK_BITS) | (uint64_t)chunks, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&p->sleeping, __ATOMIC_SEQ_CST)) {
        pthread_mutex_lock(&p->mutex);
        pthread_cond_broadcast(&p->work);
        pthread_mutex_unlock(&p->mutex);
    }
    take_chunks(p, 0);
    wait_until(p, is_done, &p->waiting, &p->done);
    if (guarded) guarded_pool = NULL;
    __atomic_store_n(&p->busy, 0, __ATOMIC_RELEASE);
    if (guarded) unshare();
}

static void make_fresh(Pool *p) {
    for (int64_t k = 0; k < p->seen.workers; ++k) p->each[k].inside = 0;
    p->stopping = 0;
    p->started = p->sleeping = p->waiting = p->busy = 0;
    p->left = 0;
    p->open = 0;
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
}

/* The pool of so many workers, made when first asked for and kept; NULL where there is no memory. */
pb_pool *pb_pool_of(int64_t workers) {
    static int registered;
    pthread_mutex_lock(&making);
    Pool *p = pools;
    while (p && p->seen.workers != workers) p = p->next;
    Worker *each = p || workers < 1 ? NULL : calloc((size_t)workers, sizeof *each);
    if (each && !(p = calloc(1, sizeof *p))) free(each);
    else if (each) {
        p->each = each;
        p->seen = (pb_pool){workers, run};
        make_fresh(p);
        p->next = pools;
        pools = p;
        if (!registered) registered = pthread_atfork(before_fork, after_fork, in_child) == 0;
    }
    pthread_mutex_unlock(&making);
    return (pb_pool *)p;
}
