/* What the derivatives written by hand share: vectors of eight doubles. Put in front of each of them. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef double lanes __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t choice __attribute__((vector_size(64), aligned(8), may_alias));
enum { L = 8 };

#define ALWAYS static inline __attribute__((always_inline))
#define EACH _Pragma("omp simd")
#if defined(__x86_64__) && defined(__AVX512F__)
#define HELD(x) __asm__("" : "+v"(x)) /* in a register, not loaded again for each use */
#else
#define HELD(x) (void)0
#endif
#ifdef __x86_64__
__attribute__((simd("notinbranch"))) double exp(double); /* libmvec */
#endif

ALWAYS lanes load(const double *p) { return *(const lanes *)p; }
ALWAYS void store(double *p, lanes x) { *(lanes *)p = x; }
ALWAYS lanes all(double x) { return x - (lanes){0}; }
ALWAYS lanes either(choice which, lanes a, lanes b) { return (lanes)((which & (choice)a) | (~which & (choice)b)); }
#if defined(__AVX512F__) && !defined(__clang__)
ALWAYS lanes larger(lanes a, lanes b) { return __builtin_ia32_maxpd512_mask(a, b, a, -1, 4); }
ALWAYS lanes smaller(lanes a, lanes b) { return __builtin_ia32_minpd512_mask(a, b, a, -1, 4); }
#else
ALWAYS lanes larger(lanes a, lanes b) { return either(a > b, a, b); }
ALWAYS lanes smaller(lanes a, lanes b) { return either(a < b, a, b); }
#endif

ALWAYS double sum(lanes x) {
  return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

/* Memory that is kept for the next call. */
ALWAYS double *room(int64_t count) {
  static void *memory;
  static int64_t size;
  if (count > size) {
    free(memory), size = count;
    if (posix_memalign(&memory, 64, sizeof(double) * size)) abort();
  }
  return memory;
}
