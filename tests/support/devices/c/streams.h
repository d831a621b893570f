/* Contexts, streams, events and graphs. Work waits in the queue of its stream; it runs at once, or late. */
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <set>

#include "memory.h"

typedef std::function<int()> work;

struct graph {
    std::vector<work> nodes;
    context *owner;
    int mode = 0;       /* of its capture: 0 global, 1 of the thread, 2 relaxed */
    bool whole = true;  /* false once a call was refused because of the capture */
};
struct stream {
    context *owner;
    bool alone; /* it does not wait for the null stream */
    std::deque<work> queue;
    graph *capturing = nullptr;
};
/* A record of an event, which may outlive the event. */
struct mark {
    stream *where;
    bool done = false;
    uint64_t at = 0; /* when it was done, in nanoseconds of the devices */
};
struct event {
    context *owner;
    std::shared_ptr<mark> last;
    graph *captured = nullptr;

    bool done() const { return !last || last->done; }
};
struct context {
    const int device;
    unsigned retained = 0;
    int failed = 0; /* all later calls fail with it */
    stream null{this, false, {}};
    std::set<stream *> streams;

    explicit context(int n) : device(n) {}
};

static uint64_t elapsed; /* nanoseconds of work so far, as settings say */
static std::set<void *> alive; /* handles that were not destroyed */

template <class T> static T *made(T *handle) { return alive.insert(handle), handle; }
template <class T> static int destroyed(T *handle) {
    if (!alive.erase(handle)) return refuse(400, "this handle was destroyed, or never made");
    delete handle;
    return 0;
}

/* Run the next work of a stream. */
static void step(stream *s) {
    const work next = std::move(s->queue.front());
    s->queue.pop_front();
    if (s->owner->device == wanted.broken) s->owner->failed = refuse(999, "the device is lost");
    if (const int error = s->owner->failed ? 0 : next()) s->owner->failed = error;
}
static int drain(stream *s) {
    while (!s->queue.empty()) step(s);
    return s->owner->failed;
}
/* The host waits for a stream, and device memory is closed to it. */
static int waited(stream *s) {
    const int error = drain(s);
    return close_all(), error;
}
static int drain_all(context *c) {
    drain(&c->null);
    for (stream *s : c->streams) drain(s);
    return c->failed;
}

/* Refuse a call that a capture in some mode forbids. The capture then fails as a whole. */
static int while_captured(context *c, const char *what, int most_strict) {
    int error = 0;
    for (stream *s : c->streams) {
        if (!s->capturing || s->capturing->mode > most_strict) continue;
        s->capturing->whole = false;
        error = refuse(900, std::string(what) + " while a stream is captured");
    }
    return error;
}

/* Put work into a stream, which may be captured. The null stream and those that are not alone wait for each other. */
static int put(stream *s, work w) {
    if (s->capturing && !s->capturing->whole) return refuse(901, "the capture has failed");
    if (s->capturing) return s->capturing->nodes.push_back(std::move(w)), 0;
    if (s == &s->owner->null) {
        for (stream *other : s->owner->streams) {
            if (other->alone) continue;
            if (other->capturing) return other->capturing->whole = false, refuse(906, "work would wait for a capture");
            drain(other);
        }
    } else if (!s->alone) {
        drain(&s->owner->null);
    }
    s->queue.push_back(std::move(w));
    return wanted.late ? 0 : drain(s);
}
