/* Elements of arrays, for libraries for tests; types are those of cuBLAS */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { F32 = 0, F64 = 1, F16 = 2, BF16 = 14 };

static inline size_t size_of(int type) { return type == F64 ? 8 : type == F32 ? 4 : 2; }
static inline float half(const char *p, int type) {
    uint16_t bits;
    memcpy(&bits, p, 2);
    if (type == BF16) {
        const uint32_t wide = uint32_t(bits) << 16;
        float f;
        return memcpy(&f, &wide, 4), f;
    }
    _Float16 h;
    return memcpy(&h, &bits, 2), float(h);
}
/* Element k; with `rough` f32 has 10 bits of mantissa, as TF32. */
static inline double element(const char *at, int type, size_t k, bool rough) {
    if (type == F64) return ((const double *)at)[k];
    if (type != F32) return half(at + 2 * k, type);
    uint32_t bits;
    memcpy(&bits, at + 4 * k, 4);
    if (rough) bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
    float f;
    return memcpy(&f, &bits, 4), f;
}
static inline void store(char *at, int type, size_t k, double value) {
    if (type == F64) ((double *)at)[k] = value;
    else if (type == F32) ((float *)at)[k] = float(value);
    else if (type == F16) ((_Float16 *)at)[k] = _Float16(float(value));
    else {
        const float f = float(value);
        uint32_t wide;
        memcpy(&wide, &f, 4);
        ((uint16_t *)at)[k] = uint16_t((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
    }
}
