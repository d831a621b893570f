/* The interface between the kernels of a compiled text and the driver that runs them. */
#pragma once
#include <stdint.h>

struct position {
    unsigned x, y, z;
};

/* The shape of a launch, and the order in which its groups and threads run (null: one after the other). */
struct order {
    position grid, block;
    uint64_t groups;
    unsigned threads;
    const unsigned *group, *thread;
};

struct argument {
    unsigned char bytes;
    bool pointer;
};

struct kernel {
    const char *name;
    unsigned most_threads, shared_bytes;
    bool meets; /* whether there is a barrier */
    unsigned count;
    const argument *arguments;
    void (*one)(void **arguments);                       /* the current thread */
    void (*all)(void **arguments, const order *launch);  /* all threads of a kernel without barriers */
};

struct module_table {
    const char *architecture;
    const kernel *kernels; /* up to one without a name */
    void (*prepare)(const order *launch, void (*wait_for_all)(int number));
    void (*place)(const order *launch, uint64_t group, unsigned thread); /* make it the current thread */
};
