/* Fibers: many stacks on one thread of the system, each of which runs until it gives way. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#ifdef __x86_64__
/* Saves the registers that a function must keep, and goes on with another stack. */
extern "C" void change_stack(void **from, void *to);
asm(R"(
    .text
    .type change_stack, @function
change_stack:
    pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
    ret
    .size change_stack, .-change_stack
)");

struct fiber {
    void *stack;
};
static inline void change(fiber &from, fiber &to) { change_stack(&from.stack, to.stack); }
static inline void start_at(fiber &f, char *end, void (*run)()) {
    void **top = (void **)((uintptr_t)end & ~(uintptr_t)15);
    *--top = nullptr; /* run never returns; the stack is aligned as after a call */
    *--top = (void *)run;
    for (int k = 0; k < 6; ++k) *--top = nullptr;
    f.stack = top;
}
#else
#include <ucontext.h>
struct fiber {
    ucontext_t context;
};
static inline void change(fiber &from, fiber &to) { swapcontext(&from.context, &to.context); }
static inline void start_at(fiber &f, char *end, void (*run)()) {
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = end - 32768;
    f.context.uc_stack.ss_size = 32768;
    makecontext(&f.context, run, 0);
}
#endif

/* A stack of its own for each fiber, with forbidden pages between them. */
struct stacks {
    static constexpr size_t bytes = 65536, guard = 4096;
    static constexpr unsigned most = 1024;
    char *all = nullptr;
    unsigned opened = 0;

    char *end(unsigned k) {
        if (!all) all = (char *)mmap(nullptr, most * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        for (; opened <= k; ++opened) mprotect(all + opened * bytes + guard, bytes - guard, PROT_READ | PROT_WRITE);
        return all + (k + 1) * bytes - k % 16 * 256; /* tops of stacks that do not share lines of the cache */
    }
};
