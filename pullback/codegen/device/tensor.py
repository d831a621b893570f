"""Helper functions of CUDA's text for tensor cores and for copies to shared memory that run ahead.

A panel in shared memory has lines of 128 bytes, of eight chunks. A line runs along the terms of a sum, or across them.
Chunk c of line l is at place c ^ (l mod 8), so eight lines have their chunks c in different banks. For f32 it is at
place c ^ (2 (l mod 4) + l div 4 mod 2), so four lines have two chunks each in different banks. `pb_fragment` loads
twice eight rows (of the left operand) or columns (of the right one) by two chunks of terms, as `mma` takes them.

The driver for tests defines PB_EMULATED, and these functions as plain C++.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_KINDS: Final = "enum { PB_BF16, PB_F16, PB_F32 }; /* operands of tensor cores; f32 is rounded to TF32 */\n"
_REQUESTED: Final = "#define PB_REQUESTED(name, bytes) extern __shared__ __align__(1024) unsigned char name[]\n"
_SWIZZLED: Final = """\
template <int bytes> static __device__ __forceinline__ int pb_swizzled(int i) { /* the place of an element */
    return bytes == 2 ? i ^ (i >> 3 & 56) : i ^ (i >> 2 & 24) ^ (i >> 5 & 4);
}
"""
_FETCH: Final = """\
static __device__ __forceinline__ void pb_fetch(void *to, const void *from, bool inside = true) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::
                 "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
static __device__ __forceinline__ void pb_fetched() { asm volatile("cp.async.commit_group;" ::: "memory"); }
"""
_WAIT: Final = """\
template <int pending> static __device__ __forceinline__ void pb_wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory");
}
"""
_MMA: Final = """\
#define PB_MMA(shape, type) \\
    asm("mma.sync.aligned." shape ".row.col.f32." type "." type ".f32 " \\
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \\
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \\
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
template <int kind> static __device__ __forceinline__ void pb_mma(float *d, const unsigned *a, const unsigned *b) {
    if constexpr (kind == PB_BF16) PB_MMA("m16n8k16", "bf16");
    if constexpr (kind == PB_F16) PB_MMA("m16n8k16", "f16");
    if constexpr (kind == PB_F32) PB_MMA("m16n8k8", "tf32");
}
"""
_FRAGMENT: Final = """\
#define PB_LDMATRIX(way) \\
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" way ".shared.b16 {%0,%1,%2,%3}, [%4];" \\
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3]) \\
                 : "r"(panel + line * 128 + (chunk ^ turn) * 16) : "memory")
template <int kind, bool left, bool along, int depth>
static __device__ __forceinline__ void pb_fragment(unsigned *f, unsigned panel, int first, int step, int lane) {
    const int low = left ? lane / 8 % 2 : lane / 16, high = left ? lane / 16 : lane / 8 % 2; /* in rows, in terms */
    if constexpr (along) {
        const int line = first + lane % 8 + 8 * low, chunk = 2 * step + high;
        const int turn = kind == PB_F32 ? lane % 4 * 2 + lane / 4 % 2 : lane % 8;
        PB_LDMATRIX("");
    } else if constexpr (kind != PB_F32) {
        const int line = first / 64 * depth + 16 * step + lane % 8 + 8 * high;
        const int chunk = first % 64 / 8 + low, turn = lane % 8;
        PB_LDMATRIX(".trans");
    } else {
        for (int k = 0; k < 4; ++k) {
            const int more = left ? k % 2 : k / 2, later = left ? k / 2 : k % 2;
            const int line = first / 32 * depth + 8 * step + 4 * later + lane % 4;
            const int chunk = (first % 32 / 8 + more ^ lane % 4) * 2 + (lane / 16 ^ later);
            asm volatile("ld.shared.b32 %0, [%1];" : "=r"(f[k])
                         : "r"(panel + line * 128 + chunk * 16 + lane / 4 % 4 * 4) : "memory");
        }
    }
    if constexpr (kind == PB_F32)
        for (int k = 0; k < 4; ++k) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(f[k]) : "f"(__uint_as_float(f[k])));
}
"""
_MULTIPLY: Final = """\
/* Each warp adds to its sums, rows x 16 by columns x 8. Fragments of 16 bits are loaded during the step before. */
template <int kind, int rows, int columns, int across, int depth, bool left_along, bool right_along>
static __device__ __forceinline__ void pb_multiply(float *sums, const void *left, const void *right, int thread) {
    constexpr int steps = kind == PB_F32 ? depth / 8 : depth / 16, sets = kind == PB_F32 ? 1 : 2;
    constexpr int line = kind == PB_F32 ? 32 : 64;
    const int lane = thread % 32;
    const int row = thread / 32 / across * (rows * 16), column = thread / 32 % across * (columns * 8);
    const unsigned l = (unsigned)__cvta_generic_to_shared(left) + (left_along ? row : row / line * depth) * 128;
    const unsigned r = (unsigned)__cvta_generic_to_shared(right) + (right_along ? column : column / line * depth) * 128;
    const int first = left_along || rows * 16 % line == 0 ? 0 : row % line; /* in the first line */
    const int second = right_along || columns * 8 % line == 0 ? 0 : column % line;
    unsigned a[sets][rows][4], b[sets][columns / 2][4];
    #pragma unroll
    for (int step = 1 - sets; step < steps; ++step) {
        const int next = step + sets - 1;
        if (next < steps) {
            #pragma unroll
            for (int i = 0; i < rows; ++i)
                pb_fragment<kind, true, left_along, depth>(a[next % sets][i], l, first + 16 * i, next, lane);
            #pragma unroll
            for (int j = 0; j < columns / 2; ++j)
                pb_fragment<kind, false, right_along, depth>(b[next % sets][j], r, second + 16 * j, next, lane);
        }
        if (step < 0) continue;
        #pragma unroll
        for (int i = 0; i < rows; ++i)
            #pragma unroll
            for (int j = 0; j < columns; ++j)
                pb_mma<kind>(sums + (i * columns + j) * 4, a[step % sets][i], b[step % sets][j / 2] + j % 2 * 2);
    }
}
"""
_TOGETHER: Final = """\
template <int pending> static __device__ __forceinline__ void pb_wait_together() {
    asm volatile("cp.async.wait_group %0;\\n\\tfence.proxy.async.shared::cta;" :: "n"(pending) : "memory");
}
"""
_FINISH: Final = """\
template <int count> static __device__ __forceinline__ void pb_finish(float (&sums)[count]) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    #pragma unroll
    for (int k = 0; k < count; ++k) asm volatile("" : "+f"(sums[k]) :: "memory");
}
"""
_PANEL: Final = """\
/* The descriptor of a panel: the bytes between blocks of 64 rows (or columns) across lines, and between 8 lines. */
static __device__ __forceinline__ uint64_t pb_panel(unsigned at, int block) {
    return (at & 0x3ffff) >> 4 | (uint64_t)(block >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}
"""
_WARPS: Final = """\
/* Four warps add to the sums of 64 rows. The products of the panel before are done when this returns. */
#define PB_WGMMA_@columns(type) \\
    asm volatile("wgmma.mma_async.sync.aligned.m64n@columnsk16.f32." type "." type " " \\
                 "{@places}, %@count, %@next, 1, 1, 1, %@left, %@right;" \\
                 : @sums \\
                 : "l"(a), "l"(b), "n"(!left_along), "n"(!right_along))
template <int kind, int depth, bool left_along, bool right_along>
static __device__ __forceinline__ void pb_multiply_64x@columns(float *sums, const void *left, const void *right,
                                                            int thread) {
    const unsigned l = (unsigned)__cvta_generic_to_shared(left) + thread / 128 * (left_along ? 64 : depth) * 128;
    const unsigned r = (unsigned)__cvta_generic_to_shared(right);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    #pragma unroll
    for (int step = 0; step < depth / 16; ++step) {
        const uint64_t a = pb_panel(l + step * (left_along ? 32 : 2048), depth * 128);
        const uint64_t b = pb_panel(r + step * (right_along ? 32 : 2048), depth * 128);
        if constexpr (kind == PB_BF16) PB_WGMMA_@columns("bf16");
        else PB_WGMMA_@columns("f16");
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}
"""


_MEMORY: Final = """\
/* The sums of a group in the memory of tensor cores: barriers that even and odd panels complete, and the first column.
   One barrier would not do: it tells phases apart by their parity, and a late thread could see two completed ones. */
struct pb_memory { uint64_t done[2]; unsigned place; };
static __device__ __forceinline__ unsigned pb_shared(const void *x) { return (unsigned)__cvta_generic_to_shared(x); }
template <int columns> static __device__ __forceinline__ void pb_reserve(pb_memory &m, int thread) {
    if (thread < 32) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;\\n\\t"
                     "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
                     :: "r"(pb_shared(&m.place)), "n"(columns) : "memory");
    }
    if (thread == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\\n\\tmbarrier.init.shared::cta.b64 [%0 + 8], 1;\\n\\t"
                     "fence.mbarrier_init.release.cluster;" :: "r"(pb_shared(m.done)) : "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}
template <int columns> static __device__ __forceinline__ void pb_release(pb_memory &m, int thread) {
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    if (thread < 32)
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(m.place), "n"(columns) : "memory");
}
static __device__ __forceinline__ void pb_product(unsigned to, uint64_t a, uint64_t b, unsigned form, int adds) {
    asm volatile("{.reg .pred p;\\n\\tsetp.ne.b32 p, %4, 0;\\n\\t"
                 "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;}"
                 :: "r"(to), "l"(a), "l"(b), "r"(form), "r"(adds) : "memory");
}
static __device__ __forceinline__ void pb_commit(uint64_t *done) { /* completed after the products before it */
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                 :: "r"(pb_shared(done)) : "memory");
}
static __device__ __forceinline__ void pb_await(uint64_t *done, int parity) { /* of the phase that is completed */
    int ready = 0;
    while (!ready)
        asm volatile("{.reg .pred p;\\n\\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\\n\\t"
                     "selp.b32 %0, 1, 0, p;}" : "=r"(ready) : "r"(pb_shared(done)), "r"(parity) : "memory");
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}
static __device__ __forceinline__ void pb_columns(float *sums, unsigned from) { /* 16 columns of a row */
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 {@places}, [%16];" : @sums : "r"(from));
}
template <int count> static __device__ __forceinline__ void pb_arrived(float *sums) {
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    #pragma unroll
    for (int k = 0; k < count; ++k) asm volatile("" : "+f"(sums[k]) :: "memory");
}
"""
_GROUP: Final = """\
static __device__ __forceinline__ pb_memory &pb_own_memory() {
    static __shared__ pb_memory own;
    return own;
}
/* One thread adds products to the sums of its group. Those of the panel before are done when this returns. */
template <int kind, int columns, int depth, bool left_along, bool right_along>
static __device__ __forceinline__ void pb_multiply_128(float *, const void *left, const void *right, int thread,
                                                       int panel) {
    constexpr unsigned type = kind == PB_BF16;
    constexpr unsigned form = 1u << 4 | type << 7 | type << 10 | (unsigned)!left_along << 15 |
                              (unsigned)!right_along << 16 | columns / 8u << 17 | 128u / 16 << 24;
    pb_memory &m = pb_own_memory();
    if (panel == 0) pb_reserve<columns>(m, thread);
    if (thread == 0) {
        const unsigned l = pb_shared(left), r = pb_shared(right);
        #pragma unroll
        for (int step = 0; step < depth / 16; ++step) {
            const uint64_t a = pb_panel(l + step * (left_along ? 32 : 2048), depth * 128) | (uint64_t)1 << 46;
            const uint64_t b = pb_panel(r + step * (right_along ? 32 : 2048), depth * 128) | (uint64_t)1 << 46;
            pb_product(m.place, a, b, form, panel + step);
        }
        pb_commit(m.done + panel % 2);
    }
    if (panel > 0) pb_await(m.done + (panel - 1) % 2, (panel - 1) / 2 % 2);
}
"""
_GET: Final = """\
/* Warp w has rows 32 (w mod 4) and on; the columns are divided among sets of four warps. */
template <int columns, int panels, int count>
static __device__ __forceinline__ void pb_finish_128(float (&sums)[count], int thread) {
    pb_memory &m = pb_own_memory();
    pb_await(m.done + (panels - 1) % 2, (panels - 1) / 2 % 2);
    const unsigned from = m.place + ((unsigned)thread / 32 % 4 * 32 << 16) + thread / 128 * count;
    #pragma unroll
    for (int k = 0; k < count; k += 16) pb_columns(sums + k, from + k);
    pb_arrived<count>(sums);
    pb_release<columns>(m, thread);
}
"""


def _warps(columns: int) -> str:
    """The multiplication of 64 rows and a number of columns."""
    count = columns // 2
    words = {"columns": columns, "count": count, "next": count + 1, "left": count + 2, "right": count + 3}
    text = _WARPS
    for word, value in words.items():
        text = text.replace(f"@{word}", str(value))
    return _numbered(text, count, "+f")


def _numbered(text: str, count: int, way: str) -> str:
    """The text with the operands of a number of sums."""
    places, sums = ",".join(f"%{k}" for k in range(count)), ", ".join(f'"{way}"(sums[{k}])' for k in range(count))
    return text.replace("@places", places).replace("@sums", sums)


def _real(text: str) -> str:
    return f"#ifndef PB_EMULATED\n{text}#endif\n"


TENSOR: Final[Mapping[str, str]] = {
    "PB_BF16": _KINDS,
    "PB_REQUESTED": _real(_REQUESTED),
    "pb_swizzled": _SWIZZLED,
    "pb_fetch": _real(_FETCH),
    "pb_wait": _real(_WAIT),
    "pb_mma": _real(_MMA),
    "pb_fragment": _real(_FRAGMENT),
    "pb_multiply": _real(_MULTIPLY),
    "pb_wait_together": _real(_TOGETHER),
    "pb_finish": _real(_FINISH),
    "pb_panel": _real(_PANEL),
    **{f"pb_multiply_64x{n}": _real(_warps(n)) for n in (128, 256)},
    "pb_memory": _real(_numbered(_MEMORY, 16, "=f")),
    "pb_multiply_128": _real(_GROUP),
    "pb_finish_128": _real(_GET),
}
