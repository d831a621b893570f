/* Device memory: each allocation is between forbidden pages, and nobody but the driver and kernels may touch it. */
#pragma once
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
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
    const auto is_margin = [](unsigned char c) { return c == MARGIN; };
    const unsigned char *pages = (unsigned char *)a.pages, *at = (unsigned char *)start;
    return std::all_of(pages + PAGE, at, is_margin) && std::all_of(at + a.bytes, pages + a.all - PAGE, is_margin);
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
    allocations.erase(found);
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

/* Allocations that may be touched as long as this lives. */
struct permission {
    std::map<address, allocation> open;

    bool add(address at, size_t bytes) {
        const auto found = holder(at, bytes);
        if (found == allocations.end()) return false;
        if (open.insert(*found).second) permit(found->second, true);
        return true;
    }
    bool margins() const {
        for (const auto &a : open) {
            if (!margins_are_whole(a.first, a.second)) return false;
        }
        return true;
    }
    ~permission() {
        for (const auto &a : open) permit(a.second, false);
    }
};
