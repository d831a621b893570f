"""C functions that sort rows.

An element becomes an unsigned key of the same order, NaN above all. For positions, -0.0 and 0.0 have one key. Keys of
up to 32 bits carry their position in the lower half of a 64-bit key, wider ones beside it. Short rows are sorted by
merging. Long ones are sorted by the bytes of their keys, the lowest first, and equal bytes are skipped (LSD radix sort:
Knuth, The Art of Computer Programming 3, 5.2.5). Both are stable.

With vectors, rows of up to 4096 elements go through a network of comparisons (`pb_network`). It is not stable, and need
not be: equal keys are equal elements, or carry different positions. For positions of wide elements, the highest bits in
which keys differ share 64 bits with the position. Where that leaves the order of two keys open, the row is sorted again
in the other way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pullback.codegen.c.types import c_type
from pullback.codegen.target import Definitions
from pullback.ir.types import DType
from pullback.loops.program.nodes import Sorting

SHORT: Final = 96  # most elements sorted by merging
FEW: Final = 16  # most elements that are always sorted by merging
NETWORK: Final = 4096  # most elements sorted by a network

_MERGE = """\
static {k} *pb_merge_{n}({k} *a, {k} *b, int64_t count) {{ /* a in order, in a or b */
    for (int64_t s = 0; s < count; s += 8) {{
        for (int64_t i = s + 1; i < count && i < s + 8; ++i) {{
            const {k} x = a[i];
            int64_t j = i;
            for (; j > s && x{key} < a[j - 1]{key}; --j) a[j] = a[j - 1];
            a[j] = x;
        }}
    }}
    for (int64_t w = 8; w < count; w *= 2) {{
        for (int64_t s = 0; s < count; s += 2 * w) {{
            const int64_t m = s + w < count ? s + w : count, e = s + 2 * w < count ? s + 2 * w : count;
            int64_t i = s, j = m, k = s;
            while (i < m && j < e) {{
                const {k} x = a[i], y = a[j];
                const int second = y{key} < x{key};
                b[k++] = second ? y : x;
                j += second;
                i += !second;
            }}
            while (i < m) b[k++] = a[i++];
            while (j < e) b[k++] = a[j++];
        }}
        {k} *other = a;
        a = b;
        b = other;
    }}
    return a;
}}
"""
_RADIX = """\
static {k} *pb_radix_{n}({k} *a, {k} *b, uint32_t *counts, int64_t count, int low, int high) {{ /* by these bits */
    memset(counts, 0, 256 * 4 * (size_t)((high - low) / 8));
    for (int64_t i = 0; i < count; ++i)
        for (int bit = low; bit < high; bit += 8) ++counts[(bit - low) * 32 + (a[i]{key} >> bit & 255)];
    for (int bit = low; bit < high; bit += 8) {{
        uint32_t *place = counts + (bit - low) * 32, next = 0;
        if (place[a[0]{key} >> bit & 255] == count) continue;
        for (int v = 0; v < 256; ++v) {{
            const uint32_t n = place[v];
            place[v] = next;
            next += n;
        }}
        for (int64_t i = 0; i < count; ++i) b[place[a[i]{key} >> bit & 255]++] = a[i];
        {k} *other = a;
        a = b;
        b = other;
    }}
    return a;
}}
"""
# A matrix of `rows` vectors. To merge two sorted sequences, compare the first with the mirrored second, then neighbors
# at distances that halve (Batcher 1968). The lesser key always goes first. Columns are sorted by comparing whole
# vectors, eight rows at a time by the network of 19 comparisons (Knuth, 5.3.4). Merging columns shuffles lanes.
# At last squares are transposed, so a vector holds neighbors.
_SIZE_OF_ROWS = """\
#ifdef PB_VECTORS
#ifdef __AVX2__
#define PB_SORT_BYTES 32
#else
#define PB_SORT_BYTES 16
#endif
#define PB_SORT_INLINE static inline __attribute__((always_inline))
#endif
"""
_NETWORK = """\
{start}typedef int{bits}_t pb_keys_{bits} __attribute__((vector_size(PB_SORT_BYTES)));
typedef int{bits}_t pb_row_{bits} __attribute__((vector_size(PB_SORT_BYTES), aligned({size}), may_alias));
enum {{ PB_LANES_{bits} = PB_SORT_BYTES / {size} }};
#if {known}
typedef {word} pb_words_{bits} __attribute__((vector_size(PB_SORT_BYTES)));
#define PB_EXCHANGE_{bits}(x, y) do {{ /* the lesser keys go to x */ \\
    const pb_words_{bits} pb_x = (pb_words_{bits})x, pb_y = (pb_words_{bits})y; \\
    x = (pb_keys_{bits}){least}; \\
    y = (pb_keys_{bits}){most}; \\
}} while (0)
#else
#define PB_EXCHANGE_{bits}(x, y) do {{ /* the lesser keys go to x */ \\
    const pb_keys_{bits} pb_x = x, pb_y = y, pb_less = pb_x < pb_y; \\
    x = (pb_less & pb_x) | (~pb_less & pb_y); \\
    y = (pb_less & pb_y) | (~pb_less & pb_x); \\
}} while (0)
#endif
PB_SORT_INLINE pb_keys_{bits} pb_turn_{bits}(pb_keys_{bits} x, const int by) {{ /* lane l ^ by goes to lane l */
    pb_keys_{bits} at = x;
#ifdef __clang__
    for (int l = 0; l < PB_LANES_{bits}; ++l) at[l] = x[l ^ by];
    return at;
#else
    for (int l = 0; l < PB_LANES_{bits}; ++l) at[l] = l ^ by;
    return __builtin_shuffle(x, at);
#endif
}}
PB_SORT_INLINE pb_keys_{bits} pb_either_{bits}(pb_keys_{bits} x, pb_keys_{bits} y, const int bit) {{
    pb_keys_{bits} of_x = x; /* the lanes without this bit */
    for (int l = 0; l < PB_LANES_{bits}; ++l) of_x[l] = -!(l & bit);
    return (of_x & x) | (~of_x & y);
}}
PB_SORT_INLINE void pb_two_{bits}(pb_row_{bits} *p, pb_row_{bits} *q) {{
    pb_keys_{bits} a = *p, b = *q;
    PB_EXCHANGE_{bits}(a, b);
    *p = a, *q = b;
}}
PB_SORT_INLINE void pb_four_{bits}(pb_row_{bits} *p, int64_t h) {{ /* distances 2 h and h */
    pb_keys_{bits} a = p[0], b = p[h], c = p[2 * h], d = p[3 * h];
    PB_EXCHANGE_{bits}(a, c); PB_EXCHANGE_{bits}(b, d);
    PB_EXCHANGE_{bits}(a, b); PB_EXCHANGE_{bits}(c, d);
    p[0] = a, p[h] = b, p[2 * h] = c, p[3 * h] = d;
}}
PB_SORT_INLINE void pb_eight_{bits}(pb_row_{bits} *p, const int merge) {{ /* distances 4, 2 and 1; or sort */
    pb_keys_{bits} a = p[0], b = p[1], c = p[2], d = p[3], e = p[4], f = p[5], g = p[6], h = p[7];
    if (!merge) {{
        PB_EXCHANGE_{bits}(a, c); PB_EXCHANGE_{bits}(b, d); PB_EXCHANGE_{bits}(e, g); PB_EXCHANGE_{bits}(f, h);
    }}
    PB_EXCHANGE_{bits}(a, e); PB_EXCHANGE_{bits}(b, f); PB_EXCHANGE_{bits}(c, g); PB_EXCHANGE_{bits}(d, h);
    if (merge) {{
        PB_EXCHANGE_{bits}(a, c); PB_EXCHANGE_{bits}(b, d); PB_EXCHANGE_{bits}(e, g); PB_EXCHANGE_{bits}(f, h);
    }}
    PB_EXCHANGE_{bits}(a, b); PB_EXCHANGE_{bits}(c, d); PB_EXCHANGE_{bits}(e, f); PB_EXCHANGE_{bits}(g, h);
    if (!merge) {{
        PB_EXCHANGE_{bits}(c, e); PB_EXCHANGE_{bits}(d, f);
        PB_EXCHANGE_{bits}(b, e); PB_EXCHANGE_{bits}(d, g);
        PB_EXCHANGE_{bits}(b, c); PB_EXCHANGE_{bits}(d, e); PB_EXCHANGE_{bits}(f, g);
    }}
    p[0] = a, p[1] = b, p[2] = c, p[3] = d, p[4] = e, p[5] = f, p[6] = g, p[7] = h;
}}
static void pb_halve_{bits}(pb_row_{bits} *p, int64_t rows, int64_t d) {{ /* distances d, d / 2, .. 1 */
    for (; d >= 16; d /= 4)
        for (int64_t s = 0; s < rows; s += 2 * d)
            for (int64_t r = s; r < s + d / 2; ++r) pb_four_{bits}(p + r, d / 2);
    for (; d == 8 || d == 1; d /= 2)
        for (int64_t s = 0; s < rows; s += 2 * d)
            for (int64_t r = s; r < s + d; ++r) pb_two_{bits}(p + r, p + r + d);
    if (d == 4)
        for (int64_t s = 0; s < rows; s += 8) pb_eight_{bits}(p + s, 1);
    if (d == 2)
        for (int64_t s = 0; s < rows; s += 4) pb_four_{bits}(p + s, 1);
}}
PB_SORT_INLINE void pb_columns_{bits}(pb_row_{bits} *p, int64_t rows, const int width) {{ /* merge halves */
    for (int64_t r = 0; r < rows / 2; ++r) {{
        pb_keys_{bits} a = p[r], b = pb_turn_{bits}(p[rows - 1 - r], width - 1);
        PB_EXCHANGE_{bits}(a, b);
        p[r] = pb_either_{bits}(a, b, width / 2);
        p[rows - 1 - r] = pb_turn_{bits}(pb_either_{bits}(b, a, width / 2), width - 1);
    }}
    for (int64_t r = 0; r < rows && width > 2; ++r) {{
        pb_keys_{bits} a = p[r];
        for (int by = width / 4; by; by /= 2) {{
            pb_keys_{bits} b = pb_turn_{bits}(a, by);
            PB_EXCHANGE_{bits}(a, b);
            a = pb_either_{bits}(a, b, by);
        }}
        p[r] = a;
    }}
    pb_halve_{bits}(p, rows, rows / 2);
}}
PB_SORT_INLINE void pb_swap_{bits}(pb_row_{bits} *p, const int bit) {{ /* swap this bit of rows and lanes */
    for (int r = 0; r < PB_LANES_{bits}; ++r) {{
        if (r & bit) continue;
        const pb_keys_{bits} a = p[r], b = p[r + bit];
        p[r] = pb_either_{bits}(a, pb_turn_{bits}(b, bit), bit);
        p[r + bit] = pb_either_{bits}(pb_turn_{bits}(a, bit), b, bit);
    }}
}}
static int64_t pb_network_{bits}(int{bits}_t *keys, int64_t count) {{ /* column l of L rows ends in the l-th of them */
    pb_row_{bits} *const p = (pb_row_{bits} *)(void *)keys;
    int64_t rows = PB_LANES_{bits}, sorted = 2;
    while (rows * PB_LANES_{bits} < count) rows *= 2;
    for (int64_t i = count; i < rows * PB_LANES_{bits}; ++i) keys[i] = INT{bits}_MAX;
    for (; rows >= 8 && sorted < 16; sorted = 16)
        for (int64_t s = 0; s < rows; s += 8) pb_eight_{bits}(p + s, 0);
    for (; sorted <= rows; sorted *= 2) {{
        for (int64_t s = 0; s < rows; s += sorted)
            for (int64_t r = 0; r < sorted / 2; ++r) pb_two_{bits}(p + s + r, p + s + sorted - 1 - r);
        pb_halve_{bits}(p, rows, sorted / 4);
    }}
    pb_columns_{bits}(p, rows, 2);
    if (PB_LANES_{bits} >= 4) pb_columns_{bits}(p, rows, 4);
    if (PB_LANES_{bits} >= 8) pb_columns_{bits}(p, rows, 8);
    for (int64_t s = 0; s < rows; s += PB_LANES_{bits}) {{
        pb_swap_{bits}(p + s, 1);
        if (PB_LANES_{bits} >= 4) pb_swap_{bits}(p + s, 2);
        if (PB_LANES_{bits} >= 8) pb_swap_{bits}(p + s, 4);
    }}
    return rows;
}}
{end}"""
_PAIR = "typedef struct { uint64_t key; int64_t place; } pb_pair;\n"
_KEYS: Final = {
    "floating": (
        """\
static inline {u} pb_key_{t}({c} x) {{ /* ordered as x is, NaN last */
    {u} bits;
    memcpy(&bits, &x, sizeof x);
    return x != x ? ({u})-1 : bits ^ (({u})-(bits >> {top}) | ({u})1 << {top});
}}
""",
        """\
static inline {c} pb_unkey_{t}({u} key) {{ /* the inverse of pb_key_{t} */
    const {u} bits = key >> {top} ? key ^ ({u})1 << {top} : ({u})~key;
    {c} x;
    memcpy(&x, &bits, sizeof x);
    return x;
}}
""",
    ),
    "signed": (
        """\
static inline {u} pb_key_{t}({c} x) {{ /* ordered as x is */
    return ({u})({u})x ^ ({u})1 << {top};
}}
""",
        """\
static inline {c} pb_unkey_{t}({u} key) {{ /* the inverse of pb_key_{t} */
    return ({c})(key ^ ({u})1 << {top});
}}
""",
    ),
    "unsigned": (
        """\
static inline {u} pb_key_{t}({c} x) {{
    return x;
}}
""",
        """\
static inline {c} pb_unkey_{t}({u} key) {{
    return ({c})key;
}}
""",
    ),
}
_BY_NETWORK = """\
{start}    if (count > {few} && count <= {network}) {{
        enum {{ L = PB_LANES_{key} }};
        int{key}_t *k = (int{key}_t *)(void *)keys;
        {fill}
        const int64_t rows = pb_network_{key}(k, count);
        for (int64_t s = 0; s < count; s += rows, k += L)
            for (int64_t r = 0; r < rows && s + r < count; r += L) {{
                if (s + r + L <= count)
                    for (int64_t j = 0; j < L; ++j) out[s + r + j] = {read};
                else
                    for (int64_t j = 0; s + r + j < count; ++j) out[s + r + j] = {read};
            }}
        {done}
    }}
{end}"""
_SORT = """\
static void pb_sort_{t}(const {c} *x, {c} *out, {u} *keys, uint32_t *counts, int64_t count) {{
{by_network}    for (int64_t i = 0; i < count; ++i) keys[i] = pb_key_{t}(x[i]);
    const {u} *sorted = count <= {short} ? pb_merge_u{bits}(keys, keys + count, count)
        : pb_radix_u{bits}(keys, keys + count, counts, count, 0, {bits});
    for (int64_t i = 0; i < count; ++i) out[i] = pb_unkey_{t}(sorted[i]);
}}
"""
_ORDER_NARROW = """\
static void pb_order_{t}(const {c} *x, int64_t *out, uint64_t *keys, uint32_t *counts, int64_t count) {{
{by_network}    for (int64_t i = 0; i < count; ++i) keys[i] = (uint64_t)pb_key_{t}({x}) << 32 | (uint64_t)i;
    const uint64_t *sorted = count <= {short} ? pb_merge_u64(keys, keys + count, count)
        : pb_radix_u64(keys, keys + count, counts, count, 32, 64);
    for (int64_t i = 0; i < count; ++i) out[i] = (int64_t)(sorted[i] & UINT32_MAX);
}}
"""
_ORDER_WIDE = """\
static void pb_order_{t}(const {c} *x, int64_t *out, uint64_t *keys, uint32_t *counts, int64_t count) {{
{by_network}    pb_pair *pairs = (pb_pair *)(void *)keys;
    for (int64_t i = 0; i < count; ++i) pairs[i] = (pb_pair){{pb_key_{t}({x}), i}};
    const pb_pair *sorted = count <= {short} ? pb_merge_pairs(pairs, pairs + count, count)
        : pb_radix_pairs(pairs, pairs + count, counts, count, 0, 64);
    for (int64_t i = 0; i < count; ++i) out[i] = sorted[i].place;
}}
"""
_TO_SIGNED = "for (int64_t i = 0; i < count; ++i) k[i] = (int{key}_t)({made} ^ (uint{key}_t)1 << {last});"
_LEADING = """\
uint64_t least = UINT64_MAX, most = 0;
        for (int64_t i = 0; i < count; ++i) {{
            const uint64_t key = pb_key_{t}({x});
            least = key < least ? key : least;
            most = key > most ? key : most;
        }}
        const int room = __builtin_clzll((most - least) | 1);
        const uint64_t place = ((uint64_t)2 << (63 - __builtin_clzll((uint64_t)count))) - 1;
        """
_IF_DECIDED = """\
int64_t i = 1;
        for (; i < count; ++i) {{
            const uint64_t a = pb_key_{t}({before}), b = pb_key_{t}({after});
            if (a > b || (a == b && out[i - 1] > out[i])) break;
        }}
        if (i == count) return;"""
_COMPARES: Final = "#if !defined(__SSE2__) || defined(__SSE4_2__) /* has an instruction that compares 64 bits */"
_WORDS: Final = {
    32: {
        "start": "#ifdef PB_VECTORS\n",
        "end": "#endif\n",
        "bits": 32,
        "size": 4,
        "word": "int",
        "known": "defined(__AVX2__) && !defined(__clang__)",
        "least": "__builtin_ia32_pminsd256(pb_x, pb_y)",
        "most": "__builtin_ia32_pmaxsd256(pb_x, pb_y)",
    },
    64: {
        "start": f"#ifdef PB_VECTORS\n{_COMPARES}\n",
        "end": "#endif\n#endif\n",
        "bits": 64,
        "size": 8,
        "word": "long long",
        "known": "defined(__AVX512VL__) && !defined(__clang__)",
        "least": "__builtin_ia32_pminsq256_mask(pb_x, pb_y, pb_x, -1)",
        "most": "__builtin_ia32_pmaxsq256_mask(pb_x, pb_y, pb_x, -1)",
    },
}


def sorting(work: Sorting, vectors: bool = False) -> tuple[str, Definitions]:
    """The function that sorts a row, and the definitions it needs."""
    name = f"pb_{'sort' if work.what == 'values' else 'order'}_{work.dtype.name}"
    return name, _source(work.dtype, work.what == "positions", vectors)


def _source(dtype: DType, places: bool, vectors: bool) -> Definitions:
    """The C functions that a sort of elements of a type needs, in order."""
    bits = max(32, dtype.bits)
    narrow = dtype.bits <= 32
    kind = dtype.kind if dtype.kind in _KEYS else "unsigned"
    element = f"x[{{i}}] + ({c_type(dtype)})0" if dtype.is_floating else "x[{i}]"  # -0.0 + 0 is 0.0
    words = {
        "t": dtype.name,
        "c": c_type(dtype),
        "u": f"uint{bits}_t",
        "bits": bits,
        "top": bits - 1,
        "short": SHORT,
        "x": element.format(i="i"),
        "before": element.format(i="out[i - 1]"),
        "after": element.format(i="out[i]"),
    }
    size = 32 if narrow and not places else 64
    words["by_network"] = _by_network(words, size, places, narrow) if vectors else ""
    key, unkey = (text.format(**words) for text in _KEYS[kind])
    layout = {"k": f"uint{size}_t", "n": f"u{size}", "key": ""}
    if places and not narrow:
        layout = {"k": "pb_pair", "n": "pairs", "key": ".key"}
    networks = (("PB_SORT_BYTES", _SIZE_OF_ROWS), (f"pb_network_{size}", _NETWORK.format(**_WORDS[size])))
    algorithms = (
        *(networks if vectors else ()),
        (f"pb_merge_{layout['n']}", _MERGE.format(**layout)),
        (f"pb_radix_{layout['n']}", _RADIX.format(**layout)),
    )
    if not places:
        return (
            (f"pb_key_{dtype.name}", key),
            (f"pb_unkey_{dtype.name}", unkey),
            *algorithms,
            (f"pb_sort_{dtype.name}", _SORT.format(**words)),
        )
    whole = _ORDER_NARROW if narrow else _ORDER_WIDE
    pair = () if narrow else (("pb_pair", _PAIR),)
    return (*pair, (f"pb_key_{dtype.name}", key), *algorithms, (f"pb_order_{dtype.name}", whole.format(**words)))


def _by_network(words: Mapping[str, object], size: int, places: bool, narrow: bool) -> str:
    """The statements that sort a row by a network of keys of this size."""
    back = f"((uint{size}_t)k[r * L + j] ^ (uint{size}_t)1 << {size - 1})"
    if not places:
        made, read = f"pb_key_{words['t']}(x[i])", f"pb_unkey_{words['t']}({back})"
    elif narrow:
        made, read = f"((uint64_t)pb_key_{words['t']}({words['x']}) << 32 | (uint64_t)i)", f"{back} & UINT32_MAX"
    else:
        made = f"(((pb_key_{words['t']}({words['x']}) - least) << room & ~place) | (uint64_t)i)"
        read = f"{back} & place"
    fill = _TO_SIGNED.format(key=size, made=made, last=size - 1)
    wide = places and not narrow
    return _BY_NETWORK.format(
        **_WORDS[size],
        key=size,
        few=FEW,
        network=NETWORK,
        fill=_LEADING.format(**words) + fill if wide else fill,
        read=f"(int64_t)({read})" if places else read,
        done=_IF_DECIDED.format(**words) if wide else "return;",
    )
