/* Modules, and launches of their kernels. A kernel that touches what it must not fails as it would on a device. */
#pragma once
#include <dlfcn.h>
#include <elf.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "groups.h"
#include "streams.h"

struct module {
    context *owner;
    void *library;
    const module_table *table;
    std::map<std::string, struct function *> functions;
};
struct function {
    module *from;
    const kernel *made;
    unsigned most_dynamic = 0;
};

/* Load an image, a shared object that the compiler for tests has made. */
static int load(context *c, const char *image, module **out) {
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
    if (memcmp(image, ELFMAG, SELFMAG)) return refuse(200, "the image is no ELF file");
    if (head->e_machine == EM_CUDA) return refuse(209, "the image is for a device");
    const size_t bytes = head->e_shoff + size_t(head->e_shentsize) * head->e_shnum;
    const char *folder = getenv("TMPDIR");
    std::string place = std::string(folder ? folder : "/tmp") + "/kernels-XXXXXX"; /* the loader knows files by name */
    const int file = mkstemp(&place[0]);
    const bool written = write(file, image, bytes) == (ssize_t)bytes;
    close(file);
    void *library = written ? dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
    unlink(place.c_str());
    if (!written) return refuse(200, "the image could not be written");
    if (!library) return refuse(200, dlerror());
    const module_table *table = (const module_table *)dlsym(library, "device_module");
    const std::string own = "sm_" + std::to_string(wanted.capability);
    if (!table) return refuse(200, "the image has no kernels");
    if (own != table->architecture && own + "a" != table->architecture) {
        const std::string other = table->architecture;
        dlclose(library);
        return refuse(209, "the image is for " + other + ", the device is " + own);
    }
    *out = made(new module{c, library, table, {}});
    return 0;
}

static function *found(module *m, const char *name) {
    if (m->functions.count(name)) return m->functions[name];
    for (const kernel *k = m->table->kernels; k->name; ++k) {
        if (!strcmp(k->name, name)) return m->functions[name] = made(new function{m, k});
    }
    return nullptr;
}

static void unload(module *m) {
    for (auto &f : m->functions) destroyed(f.second);
    dlclose(m->library);
    destroyed(m);
}

/* Faults in a kernel ------------------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static int guarded(const running &r) {
    const char *wrong = run_groups(r);
    return wrong ? refuse(719, wrong) : 0;
}
#else
static sigjmp_buf before;
static volatile uintptr_t fault_at;
static volatile bool in_kernel;
static const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE};
static struct sigaction others[3]; /* of the process: for faults elsewhere */

static void on_fault(int number, siginfo_t *about, void *) {
    if (in_kernel) {
        fault_at = (uintptr_t)about->si_addr;
        siglongjmp(before, number);
    }
    for (int k = 0; k < 3; ++k) sigaction(SIGNALS[k], &others[k], nullptr); /* the fault comes again, to them */
}
static bool watch() {
    static char stack[65536];
    struct sigaction ours = {};
    stack_t own = {};
    own.ss_sp = stack, own.ss_size = sizeof stack;
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int k = 0; k < 3; ++k) sigaction(SIGNALS[k], &ours, &others[k]);
    return !sigaltstack(&own, nullptr);
}

/* How far an address is from the allocation before it. */
static std::string described(uintptr_t at) {
    auto a = allocations.upper_bound(at);
    if (a == allocations.begin()) return "an address before all allocations";
    --a;
    return "byte " + std::to_string(at - a->first) + " of an allocation of " + std::to_string(a->second.bytes);
}

static int guarded(const running &r) {
    static const bool watched = watch();
    (void)watched;
    const int number = sigsetjmp(before, 0);
    in_kernel = true;
    const char *wrong = number ? nullptr : run_groups(r);
    in_kernel = false;
    if (number == SIGFPE) return refuse(719, std::string(r.function->name) + " divides an integer by 0");
    if (number) return refuse(700, std::string(r.function->name) + " touches " + described(fault_at));
    return wrong ? refuse(719, std::string(r.function->name) + ": " + wrong) : 0;
}
#endif

/* Launches ----------------------------------------------------------------------------------------------------- */

struct launch {
    const function *f;
    position grid, block;
    std::vector<uint64_t> values; /* of the arguments */
};

static std::vector<unsigned> in_order(uint64_t n, unsigned apart) {
    std::vector<unsigned> out;
    for (uint64_t first = 0; first < std::min<uint64_t>(n, apart); ++first) {
        for (uint64_t k = first; k < n; k += apart) out.push_back(k);
    }
    if (wanted.order < 0) std::reverse(out.begin(), out.end());
    if (wanted.order > 0) std::shuffle(out.begin(), out.end(), std::mt19937(wanted.order));
    return out;
}

static int run(launch &l) {
    const kernel &k = *l.f->made;
    permission open;
    std::vector<void *> arguments;
    for (unsigned i = 0; i < k.count; ++i) {
        if (k.arguments[i].pointer && l.values[i] && !open.add(l.values[i], 0)) {
            return refuse(700, std::string(k.name) + ": argument " + std::to_string(i) + " is not in device memory");
        }
        arguments.push_back(&l.values[i]);
    }
    order o{l.grid, l.block, uint64_t(l.grid.x) * l.grid.y * l.grid.z, l.block.x * l.block.y * l.block.z, nullptr, nullptr};
    std::vector<unsigned> groups, threads;
    if (wanted.order || o.groups > (unsigned)wanted.multiprocessors) {
        groups = in_order(o.groups, wanted.multiprocessors), o.group = groups.data();
    }
    if (wanted.order) threads = in_order(o.threads, 1), o.thread = threads.data();
    open.settle();
    const auto own = wanted.times.find({o.groups, o.threads});
    uint64_t cost = own == wanted.times.end() ? 1000 : own->second;
    if (wanted.slow_after > 1) --wanted.slow_after;
    else if (wanted.slow_after) cost = cost * wanted.slow / 100;
    if (wanted.flicker != 100 && counts["launches timed"]++ / 50 % 7 < 3) cost = cost * wanted.flicker / 100;
    elapsed += cost;
    const int error = guarded({l.f->from->table, &k, &o, arguments.data()});
    if (!error && !open.margins()) return refuse(700, std::string(k.name) + " writes beside an array");
    return error;
}

/* The error of a launch that no device takes, or 0. */
static int checked(const function *f, position grid, position block, size_t dynamic) {
    const uint64_t threads = uint64_t(block.x) * block.y * block.z, shared = f->made->shared_bytes;
    const std::string name = f->made->name;
    if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
        return refuse(1, name + ": no such grid");
    }
    if (!threads || threads > 1024 || block.z > 64) return refuse(1, name + ": " + std::to_string(threads) + " threads");
    if (threads > f->made->most_threads) return refuse(701, name + ": more threads than its bound");
    if (shared > 49152 || dynamic > std::max<uint64_t>(f->most_dynamic, 49152 - shared)) {
        return refuse(1, name + ": " + std::to_string(shared + dynamic) + " bytes of shared memory");
    }
    return 0;
}
