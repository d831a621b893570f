/* What a Cortex-M4 starts with: the stack, the vectors, the floating-point unit; newlib's semihosting does the rest. */
#include <stdint.h>

extern char stack_top[];
void _start(void); /* of newlib: clears memory, calls main, exits */
void reset(void);
void fault(void);

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))stack_top, reset, fault, fault, fault, fault, fault,
};

void reset(void) {
    *(volatile uint32_t *)0xE000ED88u |= 15u << 20; /* CPACR: coprocessors 10 and 11 */
    __asm__ volatile("dsb\n isb");
    _start();
}

void fault(void) {
    for (;;) {
    }
}
