"""C functions that sort rows.

An element becomes an unsigned key of the same order, NaN above all. For positions, -0.0 and 0.0 have one key. Keys of
up to 32 bits carry their position in the lower half of a 64-bit key, wider ones beside it. Short rows are sorted by
merging. Long ones are sorted by the bytes of their keys, the lowest first, and equal bytes are skipped (LSD radix sort:
Knuth, The Art of Computer Programming 3, 5.2.5). Both are stable.
"""

from __future__ import annotations

from typing import Final

from pullback.codegen.c.types import c_type
from pullback.codegen.target import Definitions
from pullback.ir.types import DType
from pullback.loops.program.nodes import Sorting

SHORT: Final = 96  # most elements sorted by merging

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
_PAIR = "typedef struct { uint64_t key; int64_t place; } pb_pair;\n"
_KEYS: Final = {
    "floating": ("""\
static inline {u} pb_key_{t}({c} x) {{ /* ordered as x is, NaN last */
    {u} bits;
    memcpy(&bits, &x, sizeof x);
    return x != x ? ({u})-1 : bits ^ (({u})-(bits >> {top}) | ({u})1 << {top});
}}
""", """\
static inline {c} pb_unkey_{t}({u} key) {{ /* the inverse of pb_key_{t} */
    const {u} bits = key >> {top} ? key ^ ({u})1 << {top} : ({u})~key;
    {c} x;
    memcpy(&x, &bits, sizeof x);
    return x;
}}
"""),
    "signed": ("""\
static inline {u} pb_key_{t}({c} x) {{ /* ordered as x is */
    return ({u})({u})x ^ ({u})1 << {top};
}}
""", """\
static inline {c} pb_unkey_{t}({u} key) {{ /* the inverse of pb_key_{t} */
    return ({c})(key ^ ({u})1 << {top});
}}
"""),
    "unsigned": ("""\
static inline {u} pb_key_{t}({c} x) {{
    return x;
}}
""", """\
static inline {c} pb_unkey_{t}({u} key) {{
    return ({c})key;
}}
"""),
}
_SORT = """\
static void pb_sort_{t}(const {c} *x, {c} *out, {u} *keys, uint32_t *counts, int64_t count) {{
    for (int64_t i = 0; i < count; ++i) keys[i] = pb_key_{t}(x[i]);
    const {u} *sorted = count <= {short} ? pb_merge_u{bits}(keys, keys + count, count)
        : pb_radix_u{bits}(keys, keys + count, counts, count, 0, {bits});
    for (int64_t i = 0; i < count; ++i) out[i] = pb_unkey_{t}(sorted[i]);
}}
"""
_ORDER_NARROW = """\
static void pb_order_{t}(const {c} *x, int64_t *out, uint64_t *keys, uint32_t *counts, int64_t count) {{
    for (int64_t i = 0; i < count; ++i) keys[i] = (uint64_t)pb_key_{t}({x}) << 32 | (uint64_t)i;
    const uint64_t *sorted = count <= {short} ? pb_merge_u64(keys, keys + count, count)
        : pb_radix_u64(keys, keys + count, counts, count, 32, 64);
    for (int64_t i = 0; i < count; ++i) out[i] = (int64_t)(sorted[i] & UINT32_MAX);
}}
"""
_ORDER_WIDE = """\
static void pb_order_{t}(const {c} *x, int64_t *out, uint64_t *keys, uint32_t *counts, int64_t count) {{
    pb_pair *pairs = (pb_pair *)(void *)keys;
    for (int64_t i = 0; i < count; ++i) pairs[i] = (pb_pair){{pb_key_{t}({x}), i}};
    const pb_pair *sorted = count <= {short} ? pb_merge_pairs(pairs, pairs + count, count)
        : pb_radix_pairs(pairs, pairs + count, counts, count, 0, 64);
    for (int64_t i = 0; i < count; ++i) out[i] = sorted[i].place;
}}
"""


def sorting(work: Sorting) -> tuple[str, Definitions]:
    """The function that sorts a row, and the definitions it needs."""
    name = f"pb_{'sort' if work.what == 'values' else 'order'}_{work.dtype.name}"
    return name, _source(work.dtype, work.what == "positions")


def _source(dtype: DType, places: bool) -> Definitions:
    """The C functions that a sort of elements of a type needs, in order."""
    bits = max(32, dtype.bits)
    narrow = dtype.bits <= 32
    kind = dtype.kind if dtype.kind in _KEYS else "unsigned"
    words = {"t": dtype.name, "c": c_type(dtype), "u": f"uint{bits}_t", "bits": bits, "top": bits - 1, "short": SHORT,
             "x": f"x[i] + ({c_type(dtype)})0" if dtype.is_floating else "x[i]"}
    key, unkey = (text.format(**words) for text in _KEYS[kind])
    size = 32 if narrow and not places else 64
    element = {"k": f"uint{size}_t", "n": f"u{size}", "key": ""}
    if places and not narrow:
        element = {"k": "pb_pair", "n": "pairs", "key": ".key"}
    algorithms = ((f"pb_merge_{element['n']}", _MERGE.format(**element)),
                  (f"pb_radix_{element['n']}", _RADIX.format(**element)))
    if not places:
        return ((f"pb_key_{dtype.name}", key), (f"pb_unkey_{dtype.name}", unkey), *algorithms,
                (f"pb_sort_{dtype.name}", _SORT.format(**words)))
    whole = _ORDER_NARROW if narrow else _ORDER_WIDE
    pair = () if narrow else (("pb_pair", _PAIR),)
    return (*pair, (f"pb_key_{dtype.name}", key), *algorithms, (f"pb_order_{dtype.name}", whole.format(**words)))
