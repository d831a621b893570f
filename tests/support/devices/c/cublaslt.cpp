/* A cuBLASLt for tests: products as plain loops, on the driver for tests. Matrices are stored column by column.

   fake_cublaslt_set("right"), "wrong": one element is; "rough": f32 with 10 bits of mantissa; "refuses": no way to
   multiply; "fails": products fail */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

#include "elements.h"

static std::string mode = "right";
static size_t version = 120800;
static long products; /* calls so far */

struct matmul { int32_t compute, scale, turned[2] = {0, 0}; };
struct layout { int32_t type; uint64_t rows, columns; int64_t lead; int32_t count = 1; int64_t apart = 0; };
struct preference { uint64_t most = 0; uint32_t start[4] = {256, 256, 256, 256}; };
struct way { uint64_t how[8]; size_t workspace; int state; float waves; int reserved[4]; };
struct job { matmul what; layout a, b, d; const char *left, *right; char *out; bool wrong, rough; };

static size_t bytes(const layout &l) {
    return size_of(l.type) * ((l.count - 1) * l.apart + (l.columns - 1) * l.lead + l.rows);
}
static int multiplied(void *data) {
    const job &j = *(const job *)data;
    const bool ta = j.what.turned[0], tb = j.what.turned[1];
    const uint64_t terms = ta ? j.a.rows : j.a.columns;
    for (int n = 0; n < j.d.count; ++n) {
        for (uint64_t c = 0; c < j.d.columns; ++c) {
            for (uint64_t r = 0; r < j.d.rows; ++r) {
                double sum = 0;
                for (uint64_t k = 0; k < terms; ++k) {
                    const size_t at = n * j.a.apart + (ta ? r * j.a.lead + k : k * j.a.lead + r);
                    const size_t bt = n * j.b.apart + (tb ? k * j.b.lead + c : c * j.b.lead + k);
                    sum += element(j.left, j.a.type, at, j.rough) * element(j.right, j.b.type, bt, j.rough);
                }
                store(j.out, j.d.type, n * j.d.apart + c * j.d.lead + r, j.wrong && !n && !c && !r ? sum + 1 : sum);
            }
        }
    }
    return 0;
}

extern "C" {

void fake_cublaslt_set(const char *asked) { mode = asked, products = 0; }
long fake_cublaslt_count() { return products; }
size_t cublasLtGetVersion() {
    const char *own = getenv("FAKE_CUBLASLT_VERSION");
    return own ? atol(own) : version;
}
int cublasLtCreate(void **out) { return *out = malloc(1), 0; }
int cublasLtDestroy(void *p) { return free(p), 0; }
int cublasLtMatmulDescCreate(matmul **out, int compute, int scale) {
    const bool known = (scale == 0 && (compute == 68 || compute == 77)) || (scale == 1 && compute == 70);
    return known ? *out = new matmul{compute, scale}, 0 : 15;
}
int cublasLtMatmulDescDestroy(matmul *p) { return delete p, 0; }
int cublasLtMatmulDescSetAttribute(matmul *p, int what, const void *from, size_t n) {
    if ((what != 3 && what != 4) || n != 4) return 7;
    return memcpy(&p->turned[what - 3], from, 4), 0;
}
int cublasLtMatrixLayoutCreate(layout **out, int type, uint64_t rows, uint64_t columns, int64_t lead) {
    if (lead < (int64_t)rows || !rows || !columns) return 7;
    return *out = new layout{type, rows, columns, lead}, 0;
}
int cublasLtMatrixLayoutDestroy(layout *p) { return delete p, 0; }
int cublasLtMatrixLayoutSetAttribute(layout *p, int what, const void *from, size_t n) {
    if (what == 5 && n == 4) return memcpy(&p->count, from, 4), 0;
    if (what == 6 && n == 8) return memcpy(&p->apart, from, 8), 0;
    return 7;
}
int cublasLtMatmulPreferenceCreate(preference **out) { return *out = new preference, 0; }
int cublasLtMatmulPreferenceDestroy(preference *p) { return delete p, 0; }
int cublasLtMatmulPreferenceSetAttribute(preference *p, int what, const void *from, size_t n) {
    if (what >= 5 && what <= 8 && n == 4) return memcpy(&p->start[what - 5], from, 4), 0;
    return what == 1 && n == 8 ? memcpy(&p->most, from, 8), 0 : 7;
}
/* The shapes of operands and result fit. */
static bool fits(const matmul &w, const layout &a, const layout &b, const layout &d) {
    const uint64_t rows = w.turned[0] ? a.columns : a.rows, terms = w.turned[0] ? a.rows : a.columns;
    const uint64_t columns = w.turned[1] ? b.rows : b.columns, others = w.turned[1] ? b.columns : b.rows;
    return rows == d.rows && columns == d.columns && terms == others && a.count == d.count && b.count == d.count &&
           a.type == b.type && (d.type == a.type || (a.type > 1 && d.type == 0)) && (w.scale == 1) == (a.type == 1);
}
int cublasLtMatmulAlgoGetHeuristic(void *, matmul *w, layout *a, layout *b, layout *, layout *d, preference *p, int,
                                   way *out, int *found) {
    *found = mode != "refuses" && fits(*w, *a, *b, *d);
    if (*found) memset(out, 0, sizeof *out), out->how[0] = p->start[0], out->workspace = p->most < 4096 ? p->most : 4096;
    return *found ? 0 : 15;
}
int cublasLtMatmul(void *, matmul *w, const void *one, const char *left, layout *a, const char *right, layout *b,
                   const void *zero, const char *c, layout *, char *out, layout *d, const way *how, void *workspace,
                   size_t room, void *stream) {
    ++products;
    if (mode == "fails") return 13;
    const bool is_double = w->scale == 1;
    if ((is_double ? *(const double *)one : *(const float *)one) != 1 || c != out) return 7;
    if (((uintptr_t)left | (uintptr_t)right | (uintptr_t)out) % how->how[0]) return 7;
    if ((is_double ? *(const double *)zero : *(const float *)zero) != 0 || room < 4096 || !workspace) return 7;
    typedef int (*queued)(void *, int (*)(void *), void *, const uint64_t *, const size_t *, int);
    static const queued queue = (queued)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_cuda_library");
    const uint64_t places[] = {(uint64_t)left, (uint64_t)right, (uint64_t)out};
    const size_t sizes[] = {bytes(*a), bytes(*b), bytes(*d)};
    return queue(stream, multiplied, new job{*w, *a, *b, *d, left, right, out, mode == "wrong", mode == "rough"}, places, sizes, 3);
}
}
