/* Runs the groups of a launch: threads one after the other, as fibers that meet, or on threads of the system. */
#pragma once
#include <errno.h>
#include <stdlib.h>

#include <vector>

#include "module.h"

struct running {
    const module_table *module;
    const kernel *function;
    const order *launch;
    void **arguments;
};

#ifdef SYSTEM_THREADS
#include <pthread.h>

static pthread_barrier_t all_threads[2];
static thread_local unsigned met;

/* All threads wait for each other, at two barriers in turn. A thread that wakes up late would otherwise seem to know
   what others have done since, up to their next meeting, and races there would go unseen. */
static void wait_for_all(int) { pthread_barrier_wait(&all_threads[met++ % 2]); }

struct job {
    const running *r;
    unsigned thread;
};
static void *one_thread(void *given) {
    const job *j = (const job *)given;
    const order *o = j->r->launch;
    for (uint64_t g = 0; g < o->groups; ++g) {
        j->r->module->place(o, o->group ? o->group[g] : g, j->thread);
        j->r->function->one(j->r->arguments);
        wait_for_all(0); /* shared memory is the next group's */
    }
    return nullptr;
}

/* Runs a launch; null, or what went wrong. */
static const char *run_groups(const running &r) {
    const unsigned n = r.launch->threads;
    std::vector<pthread_t> threads(n);
    std::vector<job> jobs(n);
    r.module->prepare(r.launch, wait_for_all);
    for (pthread_barrier_t &b : all_threads) pthread_barrier_init(&b, nullptr, n);
    for (unsigned k = 0; k < n; ++k) {
        jobs[k] = {&r, k};
        if (pthread_create(&threads[k], nullptr, one_thread, &jobs[k])) abort();
    }
    for (unsigned k = 0; k < n; ++k) pthread_join(threads[k], nullptr);
    for (pthread_barrier_t &b : all_threads) pthread_barrier_destroy(&b);
    return nullptr;
}
#else
#include "fibers.h"

enum { DONE = -1 };
static stacks all_stacks;
static fiber fibers[stacks::most], outside;
static int waits_at[stacks::most]; /* the number of the barrier, or DONE */
static unsigned turn; /* the fiber that runs */
static const running *now;

static void give_way(int number) {
    waits_at[turn] = number;
    change(fibers[turn], outside);
}
static void one_thread() {
    now->function->one(now->arguments);
    give_way(DONE);
}

/* Runs the threads of a group up to their next barrier, again and again. */
static const char *run_group(uint64_t group) {
    const order *o = now->launch;
    const unsigned first = o->thread ? o->thread[0] : 0;
    for (bool begun = false;; begun = true) {
        for (unsigned k = 0; k < o->threads; ++k) {
            turn = o->thread ? o->thread[k] : k;
            if (!begun) {
                now->module->place(o, group, turn);
                start_at(fibers[turn], all_stacks.end(turn), one_thread);
            }
            change(outside, fibers[turn]);
            if (waits_at[turn] != waits_at[first]) return "threads do not meet at one barrier";
        }
        if (waits_at[first] == DONE) return nullptr;
    }
}

/* Runs a launch; null, or what went wrong. */
static const char *run_groups(const running &r) {
    const order *o = r.launch;
    r.module->prepare(o, give_way);
    now = &r;
    if (!r.function->meets) return r.function->all(r.arguments, o), nullptr;
    for (uint64_t g = 0; g < o->groups; ++g) {
        if (const char *wrong = run_group(o->group ? o->group[g] : g)) return wrong;
    }
    return nullptr;
}
#endif
