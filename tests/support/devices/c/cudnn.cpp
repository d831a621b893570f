/* A cuDNN for tests: convolutions as plain loops, on the driver for tests. Descriptors are tested strictly.

   fake_cudnn_set("right"), "wrong": one element is; "refuses": no way to compute; "fails": convolutions fail.
   f32 is rounded to TF32 unless a convolution asks for FMA, as on devices that have it. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

#include "elements.h"

enum { BAD = 3, FAILED = 8, UNSUPPORTED = 9 };
enum { DEFAULT, TENSOR, CONVERSION, FMA };

static std::string mode = "right";
static long convolutions; /* calls so far */

struct tensor { int type = -1, size[4], stride[4]; };
struct filter { int type = -1, last, size[4]; };
struct convolution { int padding[2], stride[2], dilation[2], sums = -1, groups = 1, mathematics = DEFAULT; };
struct way { int algorithm, status; float time; size_t workspace; int deterministic, mathematics, reserved[3]; };
struct handle { void *stream = nullptr; };
struct shape { int type, size[4]; size_t stride[4]; };
struct job { shape y, x, w; convolution c; int kind; const char *left, *right; char *out; bool wrong, rough; };

static int type_of(int own) { return own == 9 ? BF16 : own; } /* those of the header are else equal */
static shape shape_of(const tensor &t) {
    shape s{type_of(t.type), {}, {}};
    for (int k = 0; k < 4; ++k) s.size[k] = t.size[k], s.stride[k] = t.stride[k];
    return s;
}
static shape shape_of(const filter &f) {
    const size_t c = f.size[1], h = f.size[2], w = f.size[3];
    if (f.last) return {type_of(f.type), {f.size[0], f.size[1], f.size[2], f.size[3]}, {h * w * c, 1, w * c, c}};
    return {type_of(f.type), {f.size[0], f.size[1], f.size[2], f.size[3]}, {c * h * w, h * w, w, 1}};
}
static size_t count(const shape &s) { return size_t(s.size[0]) * s.size[1] * s.size[2] * s.size[3]; }
/* The elements from the first to the last. */
static size_t extent(const shape &s) {
    size_t n = 1;
    for (int k = 0; k < 4; ++k) n += (s.size[k] - 1) * s.stride[k];
    return n;
}
/* Elements have places of their own: rows of pixels are neighbors, or channels are. */
static bool placed(const shape &s) {
    const size_t c = s.size[1], h = s.size[2], w = s.size[3], *const t = s.stride;
    const bool first = t[3] == 1 && t[2] >= w && t[1] >= h * t[2] && t[0] >= c * t[1];
    return first || (t[1] == 1 && t[3] >= c && t[2] >= w * t[3] && t[0] >= h * t[2]);
}
static bool fits(const shape &y, const shape &x, const shape &w, const convolution &c) {
    for (int k = 0; k < 2; ++k) {
        const int room = x.size[2 + k] + 2 * c.padding[k] - c.dilation[k] * (w.size[2 + k] - 1) - 1;
        if (room < 0 || y.size[2 + k] != room / c.stride[k] + 1) return false;
    }
    return y.type == x.type && x.type == w.type && c.sums == (x.type == F64) && placed(x) && placed(y) &&
           y.size[0] == x.size[0] && y.size[1] == w.size[0] && x.size[1] == w.size[1] * c.groups &&
           !(w.size[0] % c.groups);
}

static int convolved(void *data) {
    const job &j = *(const job *)data;
    const shape &out = j.kind == 0 ? j.y : j.kind == 1 ? j.x : j.w;
    const int own = j.w.size[1], each = j.w.size[0] / j.c.groups;
    std::vector<double> sums(extent(out)); /* results have no gaps */
    for (int n = 0; n < j.y.size[0]; ++n)
    for (int k = 0; k < j.y.size[1]; ++k)
    for (int c = 0; c < own; ++c)
    for (int i = 0; i < j.y.size[2]; ++i)
    for (int u = 0; u < j.w.size[2]; ++u) {
        const int p = i * j.c.stride[0] + u * j.c.dilation[0] - j.c.padding[0];
        if (p < 0 || p >= j.x.size[2]) continue;
        for (int l = 0; l < j.y.size[3]; ++l)
        for (int v = 0; v < j.w.size[3]; ++v) {
            const int q = l * j.c.stride[1] + v * j.c.dilation[1] - j.c.padding[1];
            if (q < 0 || q >= j.x.size[3]) continue;
            const auto at = [](const shape &s, int a, int b, int d, int e) {
                return a * s.stride[0] + b * s.stride[1] + d * s.stride[2] + e * s.stride[3];
            };
            const size_t y = at(j.y, n, k, i, l), x = at(j.x, n, k / each * own + c, p, q), w = at(j.w, k, c, u, v);
            const size_t places[3][3] = {{x, w, y}, {w, y, x}, {x, y, w}}, *const e = places[j.kind];
            sums[e[2]] += element(j.left, out.type, e[0], j.rough) * element(j.right, out.type, e[1], j.rough);
        }
    }
    if (j.wrong) sums[0] += 1;
    for (size_t k = 0; k < sums.size(); ++k) store(j.out, out.type, k, sums[k]);
    return 0;
}

/* What a library lists: first those that must not be used. */
static int ways(int kind, const convolution &c, const shape &out, int asked, int *found, way *to) {
    const int good = c.mathematics;
    const way all[] = {
        {kind ? 4 : 6, 0, 1, 0, 1, good, {}},               /* Winograd's */
        {kind ? 0 : 1, 0, 2, 0, 0, good, {}},               /* not deterministic */
        {1, 0, 3, size_t(1) << 40, 1, good, {}},            /* too much memory */
        {1, 0, 4, 4096, 1, CONVERSION, {}},                 /* of numbers with 16 bits */
        {1, UNSUPPORTED, -1, 0, 1, good, {}},
        {1, 0, 5, count(out) * size_of(out.type), 1, good, {}},
    };
    *found = 0;
    if (mode == "refuses") return UNSUPPORTED;
    for (const way &w : all) if (*found < asked) to[(*found)++] = w;
    return 0;
}
static int convolve(int kind, handle *h, const void *one, const shape &y, const shape &x, const shape &w,
                    const convolution *c, int algorithm, void *workspace, size_t room, const void *zero,
                    const void *left, const void *right, void *to) {
    ++convolutions;
    if (mode == "fails") return FAILED;
    const bool is_double = x.type == F64;
    if ((is_double ? *(const double *)one : *(const float *)one) != 1) return BAD;
    if ((is_double ? *(const double *)zero : *(const float *)zero) != 0 || !h->stream) return BAD;
    const shape &out = kind == 0 ? y : kind == 1 ? x : w;
    if (!fits(y, x, w, *c) || algorithm != 1 || !workspace || room < count(out) * size_of(out.type)) return BAD;
    if (c->mathematics == CONVERSION || (x.type == F16 && c->mathematics != TENSOR)) return BAD;
    typedef int (*queued)(void *, int (*)(void *), void *, const uint64_t *, const size_t *, int);
    static const queued queue = (queued)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_cuda_library");
    const shape &first = kind == 1 ? w : x, &second = kind == 0 ? w : y;
    const uint64_t places[] = {(uint64_t)left, (uint64_t)right, (uint64_t)to};
    const size_t one_size = size_of(x.type), sizes[] = {extent(first) * one_size, extent(second) * one_size,
                                                        extent(out) * one_size};
    const bool rough = x.type == F32 && c->mathematics != FMA;
    return queue(h->stream, convolved, new job{y, x, w, *c, kind, (const char *)left, (const char *)right, (char *)to,
                                               mode == "wrong", rough}, places, sizes, 3);
}

extern "C" {

void fake_cudnn_set(const char *asked) { mode = asked, convolutions = 0; }
long fake_cudnn_count() { return convolutions; }
size_t cudnnGetVersion() {
    const char *own = getenv("FAKE_CUDNN_VERSION");
    return own ? atol(own) : 91002;
}
int cudnnCreate(handle **out) { return *out = new handle, 0; }
int cudnnDestroy(handle *p) { return delete p, 0; }
int cudnnSetStream(handle *h, void *stream) { return h->stream = stream, 0; }
int cudnnCreateTensorDescriptor(tensor **out) { return *out = new tensor, 0; }
int cudnnDestroyTensorDescriptor(tensor *p) { return delete p, 0; }
int cudnnCreateFilterDescriptor(filter **out) { return *out = new filter, 0; }
int cudnnDestroyFilterDescriptor(filter *p) { return delete p, 0; }
int cudnnCreateConvolutionDescriptor(convolution **out) { return *out = new convolution, 0; }
int cudnnDestroyConvolutionDescriptor(convolution *p) { return delete p, 0; }
static bool known(int type) { return type == 0 || type == 1 || type == 2 || type == 9; }
int cudnnSetTensor4dDescriptorEx(tensor *t, int type, int n, int c, int h, int w, int sn, int sc, int sh, int sw) {
    if (!known(type) || n < 1 || c < 1 || h < 1 || w < 1 || sn < 1 || sc < 1 || sh < 1 || sw < 1) return BAD;
    return *t = {type, {n, c, h, w}, {sn, sc, sh, sw}}, 0;
}
int cudnnSetFilter4dDescriptor(filter *f, int type, int format, int k, int c, int h, int w) {
    if (!known(type) || format < 0 || format > 1 || k < 1 || c < 1 || h < 1 || w < 1) return BAD;
    return *f = {type, format, {k, c, h, w}}, 0;
}
int cudnnSetConvolution2dDescriptor(convolution *p, int top, int left, int down, int across, int high, int wide,
                                    int way, int sums) {
    if (top < 0 || left < 0 || down < 1 || across < 1 || high < 1 || wide < 1 || way != 1 || sums < 0 || sums > 1) return BAD;
    return *p = {{top, left}, {down, across}, {high, wide}, sums}, 0;
}
int cudnnSetConvolutionGroupCount(convolution *p, int groups) { return groups < 1 ? BAD : (p->groups = groups, 0); }
int cudnnSetConvolutionMathType(convolution *p, int m) { return m < 0 || m > 3 ? BAD : (p->mathematics = m, 0); }

#define OF(name, kind, A, a, B, b, C, c, y, x, w)                                                                      \
    int cudnnGetConvolution##name##Algorithm_v7(handle *, A *a, B *b, convolution *p, C *c, int n, int *found, way *to) { \
        return fits(y, x, w, *p) ? ways(kind, *p, shape_of(*c), n, found, to) : BAD;                                   \
    }                                                                                                                  \
    int cudnnGetConvolution##name##WorkspaceSize(handle *, A *a, B *b, convolution *p, C *c, int algorithm, size_t *n) { \
        return fits(y, x, w, *p) && algorithm == 1 ? *n = count(shape_of(*c)) * size_of(shape_of(*c).type), 0 : BAD;   \
    }                                                                                                                  \
    int cudnnConvolution##name(handle *h, const void *one, A *a, const void *left, B *b, const void *right,            \
                               convolution *p, int algorithm, void *at, size_t room, const void *zero, C *c, void *out) { \
        return convolve(kind, h, one, y, x, w, p, algorithm, at, room, zero, left, right, out);                        \
    }
OF(Forward, 0, tensor, a, filter, b, tensor, c, shape_of(*c), shape_of(*a), shape_of(*b))
OF(BackwardData, 1, filter, a, tensor, b, tensor, c, shape_of(*b), shape_of(*c), shape_of(*a))
OF(BackwardFilter, 2, tensor, a, tensor, b, filter, c, shape_of(*b), shape_of(*a), shape_of(*c))
}
