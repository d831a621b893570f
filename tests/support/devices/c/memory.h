/* Device memory: each allocation is between forbidden pages, and nobody but the driver and kernels may touch it. */
#pragma once
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "settings.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define __asan_poison_memory_region(at, bytes)
#endif

typedef unsigned long long address;
struct context;

constexpr size_t PAGE = 4096, ALIGNED = 256;
constexpr unsigned char MARGIN = 0xC9; /* fills what is left of the pages */

static size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }

struct allocation {
    size_t bytes;
    context *owner;
    char *pages; /* from the first forbidden page to the last */
    size_t all;
};
static std::map<address, allocation> allocations;
static std::map<context *, size_t> used;
static std::set<address> open_now; /* those that may be touched */

/* The allocation that has all of these bytes, or the end. */
static auto holder(address at, size_t bytes) {
    auto found = allocations.upper_bound(at);
    if (found == allocations.begin()) return allocations.end();
    --found;
    return at + bytes <= found->first + found->second.bytes ? found : allocations.end();
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static char *pages_for(allocation &a) { return a.pages = (char *)aligned_alloc(ALIGNED, up(a.bytes, ALIGNED)); }
static void give_back(const allocation &a) { free(a.pages); }
static void permit(const allocation &, bool) {}
static bool margins_are_whole(address, const allocation &) { return true; }
#else
static void permit(const allocation &a, bool yes) {
    mprotect(a.pages + PAGE, a.all - 2 * PAGE, yes ? PROT_READ | PROT_WRITE : PROT_NONE);
}
/* The array ends less than 256 bytes before a forbidden page. */
static char *pages_for(allocation &a) {
    a.all = up(a.bytes, PAGE) + 2 * PAGE;
    a.pages = (char *)mmap(nullptr, a.all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    permit(a, true);
    char *at = a.pages + a.all - PAGE - up(a.bytes, ALIGNED), *first = a.pages + PAGE, *last = a.pages + a.all - PAGE;
    memset(first, MARGIN, at - first);
    memset(at + a.bytes, MARGIN, last - at - a.bytes);
    return at;
}
static void give_back(const allocation &a) { munmap(a.pages, a.all); }
static bool margins_are_whole(address start, const allocation &a) {
    static const std::vector<char> whole(2 * PAGE, MARGIN);
    const char *first = a.pages + PAGE, *at = (char *)start, *end = at + a.bytes, *last = a.pages + a.all - PAGE;
    return !memcmp(first, whole.data(), at - first) && !memcmp(end, whole.data(), last - end);
}
#endif

static int allocate(context *owner, size_t bytes, address *at) {
    if (!bytes) return refuse(1, "an allocation of 0 bytes");
    if (used[owner] + bytes > wanted.memory) {
        return refuse(2, std::to_string(used[owner]) + " bytes are in use, and " + std::to_string(bytes) + " more asked for");
    }
    allocation a{bytes, owner, nullptr, 0};
    char *start = pages_for(a);
    memset(start, wanted.fresh, bytes);
    permit(a, false);
    used[owner] += bytes;
    counts["bytes"] += bytes;
    counts["most bytes"] = std::max(counts["most bytes"], counts["bytes"]);
    allocations[*at = (address)(uintptr_t)start] = a;
    return 0;
}

static int release(address at) {
    const auto found = allocations.find(at);
    if (found == allocations.end()) return refuse(1, "nothing was allocated at this address");
    const allocation a = found->second;
    allocations.erase(found), open_now.erase(at);
    used[a.owner] -= a.bytes;
    counts["bytes"] -= a.bytes;
    give_back(a);
    return 0;
}

static void release_all(context *owner) {
    std::vector<address> own;
    for (const auto &a : allocations) {
        if (a.second.owner == owner) own.push_back(a.first);
    }
    for (address at : own) release(at);
}

/* The allocations that a piece of work needs. No other may be touched; they stay open for the next one, which mostly
   needs the same, until the host waits. */
struct permission {
    std::set<address> needed;

    bool add(address at, size_t bytes) {
        const auto found = holder(at, bytes);
        return found != allocations.end() && (needed.insert(found->first), true);
    }
    void settle() const {
        for (auto a = open_now.begin(); a != open_now.end();) {
            if (needed.count(*a)) ++a;
            else permit(allocations.at(*a), false), a = open_now.erase(a);
        }
        for (address a : needed) {
            if (open_now.insert(a).second) permit(allocations.at(a), true);
        }
    }
    bool margins() const {
        return std::all_of(needed.begin(), needed.end(), [](address a) { return margins_are_whole(a, allocations.at(a)); });
    }
};
static void close_all() { permission().settle(); }
