"""The words of C for compilers with vector extensions: types, and small functions of vectors.

Vector types are those of gcc and clang; a vector `pb_f32x8u` is the same type without alignment, for loads and stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Template
from typing import Final

from pullback.codegen.c.halves import conversion
from pullback.codegen.c.text import reached
from pullback.codegen.c.types import c_type
from pullback.codegen.c.vectors import halves
from pullback.codegen.c.vectors.functions import vector_source
from pullback.codegen.c.vectors.functions.vector import HAS, if_known
from pullback.codegen.c.vectors.text import HAS_VECTORS, VECTORS, views
from pullback.codegen.c.words import PlainWords
from pullback.ir.primitive import Primitive
from pullback.ir.types import dtype_named, f32, i32, u16, u32
from pullback.loops.program.nodes import Kernel
from pullback.loops.program.values import Type
from pullback.loops.vectors.lanes import mask_of

INLINE: Final = """\
#define PB_INLINE static inline __attribute__((always_inline, unused)) /* which are used depends on the processor */
"""


def vector_name(t: Type) -> str:
    """The typedef of a vector type."""
    return f"pb_{t.dtype.name}x{t.lanes}"


_BLENDS = {
    ("f64", 4): ("__AVX__", "__builtin_ia32_blendvpd256"),
    ("f32", 8): ("__AVX__", "__builtin_ia32_blendvps256"),
    ("f64", 2): ("__SSE4_1__", "__builtin_ia32_blendvpd"),
    ("f32", 4): ("__SSE4_1__", "__builtin_ia32_blendvps"),
}
_LARGER = {
    ("f64", 4): ("__AVX__", "__builtin_ia32_{op}pd256"),
    ("f32", 8): ("__AVX__", "__builtin_ia32_{op}ps256"),
    ("f64", 2): ("__SSE2__", "__builtin_ia32_{op}pd"),
    ("f32", 4): ("__SSE2__", "__builtin_ia32_{op}ps"),
}


_LOADS = {
    ("f32", 16): ("defined(__AVX512F__) && !defined(__clang__)",
                  "return __builtin_ia32_loadups512_mask(p, (pb_f32x16){0}, "
                  "__builtin_ia32_ptestmd512((pb_i32x16)mask, (pb_i32x16)mask, -1));"),
    ("f64", 8): ("defined(__AVX512F__) && !defined(__clang__)",
                 "typedef long long wide __attribute__((vector_size(64)));\n"
                 "    return __builtin_ia32_loadupd512_mask(p, (pb_f64x8){0}, "
                 "__builtin_ia32_ptestmq512((wide)mask, (wide)mask, -1));"),
    ("f32", 8): ("defined(__AVX__)", "return __builtin_ia32_maskloadps256((const pb_f32x8 *)p, mask);"),
    ("f64", 4): ("defined(__AVX__)", "return __builtin_ia32_maskloadpd256((const pb_f64x4 *)p, "
                 "(long long __attribute__((vector_size(32))))mask);"),
    ("f32", 4): ("defined(__AVX__)", "return __builtin_ia32_maskloadps((const pb_f32x4 *)p, mask);"),
}


_EXTENDED = {  # bytes to integers of eight or four bytes
    (8, 8): ("__AVX512F__", "long long", "bq512_mask", ", (wide){0}, -1"),
    (4, 16): ("__AVX512F__", "int", "bd512_mask", ", (wide){0}, -1"),
    (8, 4): ("__AVX2__", "long long", "bq256", ""),
    (4, 8): ("__AVX2__", "int", "bd256", ""),
}
"""By bytes of an integer and lanes: extension, type, instruction, and further arguments."""


def _place(k: int, j: int) -> str:
    """The text of k * step + j."""
    step = "step" if k == 1 else f"{k} * step"
    return f"{step} + {j}" if k and j else step if k else str(j)


def _transposed(n: int) -> str:
    """Statements that transpose the square of vectors v0, v1, .. of n lanes; t is a vector."""
    out = ""
    half = 1
    while half < n:
        low = ", ".join(str(n + k - half if k & half else k) for k in range(n))
        high = ", ".join(str(n + k if k & half else k + half) for k in range(n))
        for i in (i for i in range(n) if not i & half):
            a, b = f"v{i}", f"v{i + half}"
            out += f"    t = __builtin_shufflevector({a}, {b}, {low});\n"
            out += f"    {b} = __builtin_shufflevector({a}, {b}, {high});\n    {a} = t;\n"
        half *= 2
    return out


def _extended(source: Type, target: Type, integer: str, instruction: str, more: str) -> str:
    """Statements that return the bytes x as wider integers, by an instruction for sixteen bytes."""
    vector, lanes = "__attribute__((vector_size({})))", source.lanes
    types = ["char bytes " + vector.format(16)]
    types += [f"{integer} wide " + vector.format(target.dtype.size * lanes)] if more else []
    types += ["uint64_t words " + vector.format(16)] if lanes < 16 else []
    whole = f"(words){{(uint{8 * lanes}_t)x, 0}}" if lanes < 16 else "x"
    sign = "sx" if source.dtype.name.startswith("i") else "zx"
    result = f"({vector_name(target)})__builtin_ia32_pmov{sign}{instruction}((bytes){whole}{more})"
    return "".join(f"    typedef {t};\n" for t in types) + f"    return {result};\n"


class VectorWords(PlainWords):
    """The words for one C file with vectors, in addition to plain C's."""

    has_vectors = True

    def __init__(self) -> None:
        super().__init__()
        self.vector: dict[str, str] = {}

    def used(self, text: str) -> dict[str, str]:
        """The definitions that a text needs, with their own needs, in groups.

        `always`, `with vectors` and `without` are scalar definitions by their use; `vectors` are vector ones.
        """
        sources = {**self.scalar, **self.vector}
        sources |= {f"{n}u": t for n, t in self.vector.items()}  # pb_f32x8u comes with pb_f32x8
        with_vectors, without = (reached(view, sources) for view in views(text))
        groups = {
            "always": (self.scalar, with_vectors & without),
            "with vectors": (self.scalar, with_vectors - without),
            "without": (self.scalar, without - with_vectors),
            "vectors": (self.vector, with_vectors),
        }
        return {g: "\n".join(t for n, t in of.items() if {n, f"{n}u"} & wanted) for g, (of, wanted) in groups.items()}

    def definitions(self, text: str) -> list[str]:
        """The definitions that a text needs: for all compilers, then by whether they have vectors."""
        found = self.used(text)
        parts = [found["always"], _by_vectors(found)]
        return [HAS_VECTORS, *parts] if "PB_VECTORS" in "\n".join([text, *parts]) else parts

    def where_used(self, kernels: Mapping[str, str], rest: str) -> dict[str, str]:
        """The kernels; those that are unused without vectors go in the vector section."""
        used = reached(views(rest)[1], {n: views(t)[1] for n, t in kernels.items()})
        return {n: t if n in used else f"{VECTORS}\n{t}#endif\n" for n, t in kernels.items()}

    def primitive(self, row: Primitive, operand: Type) -> str:
        """An expression with {0}, {1}, .. for operands; a function call if they are vectors."""
        if operand.lanes == 1:
            return super().primitive(row, operand)
        self.choose(operand)  # brings the vector type, its mask and the choice by mask
        for name, text in vector_source(row.name, operand.dtype, operand.lanes):
            self.vector.setdefault(name, text)
        operands = ", ".join(f"{{{k}}}" for k in range(row.arity))
        return f"pb_{row.name}_{operand}({operands})"

    def conversion(self, source: Type, target: Type) -> str:
        """An expression with {0} for the converted value."""
        if source.lanes == 1:
            return super().conversion(source, target)
        if source.dtype.is_half or target.dtype.is_half:
            return f"{self._half(source, target)}({{0}})"
        wider, narrower = target.dtype.size > 2 * source.dtype.size, source.dtype.size > 2 * target.dtype.size
        if source.dtype.is_integer and (wider or (narrower and source.lanes >= 8)):
            return f"{self._in_steps(source, target)}({{0}})"
        return f"__builtin_convertvector({{0}}, {self.type(target)})"

    def _in_steps(self, source: Type, target: Type) -> str:
        """Conversion of integers to a type more than twice as wide or narrow; gcc 12 converts lane by lane.

        Elements that fit together in one word are shifted in all lanes; otherwise widths are doubled or halved.
        """
        given, made = self.type(source), self.type(target)
        name = f"pb_{made[3:]}_from_{given[3:]}"
        if name in self.vector:
            return name
        lanes, bits, wanted = source.lanes, source.dtype.bits, target.dtype.bits
        direct = "defined(__clang__)"
        if target.dtype.is_integer and lanes * bits <= wanted:
            value = self._shifted(source, target)
            direct += " || __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__"
        else:
            half = dtype_named(f"{source.dtype.name[0]}{bits * 2 if wanted > bits else bits // 2}")
            step = Type(half if target.dtype.is_integer else i32, lanes)
            value = self.conversion(step, target).format(self.conversion(source, step).format("x"))
        general = f"    return {value};\n"
        found = _EXTENDED.get((target.dtype.size, lanes)) if bits == 8 and target.dtype.is_integer else None
        if found is not None:
            general = self._either(f"defined({found[0]})", _extended(source, target, *found[1:]), general)
        self.vector[name] = (
            f"static inline {made} {name}({given} x) {{\n"
            f"#if {direct}\n    return __builtin_convertvector(x, {made});\n"
            f"#else\n{general}#endif\n}}\n")
        return name

    def _shifted(self, source: Type, target: Type) -> str:
        """Unpack the integers of x, which fit in one word, by a shift in each lane of a wider type."""
        bits = source.dtype.bits
        lane = Type(dtype_named(f"u{target.dtype.bits}"), source.lanes)
        word = c_type(dtype_named(f"u{source.lanes * bits}"))
        shifts = ", ".join(str(k * bits) for k in range(source.lanes))
        value = f"({self.splat(lane)}(({word})x) >> ({self.type(lane)}){{{shifts}}} & {2**bits - 1})"
        if source.dtype.name.startswith("i"):  # the sign: x ^ 128 - 128
            value = f"(({value} ^ {2 ** (bits - 1)}) - {2 ** (bits - 1)})"
        return f"({self.type(target)}){value}"

    def type(self, t: Type) -> str:
        """An element type, or the typedef of a vector type, with its unaligned form."""
        if t.lanes == 1:
            return super().type(t)
        name = vector_name(t)
        if name not in self.vector:
            size = t.lanes * t.dtype.size
            self.vector[name] = (
                f"typedef {c_type(t.dtype)} {name} __attribute__((vector_size({size})));\n"
                f"typedef {c_type(t.dtype)} {name}u __attribute__((vector_size({size}), aligned({t.dtype.size}), "
                "may_alias));\n")
        return name

    def _half(self, source: Type, target: Type) -> str:
        """Conversion between f32 and a type of 16 bits."""
        name = conversion(source.dtype, target.dtype)[0]
        single = Type(f32, source.lanes)
        words = {"lanes": str(source.lanes), "wide": self.type(single), "short": self.type(Type(u16, source.lanes)),
                 "u": self.type(Type(u32, source.lanes)), "i": self.type(Type(i32, source.lanes))}
        half = (source if source.dtype.is_half else target).dtype
        words["half"] = self.type(Type(half, source.lanes))
        name = f"{name}_x{source.lanes}"
        body = halves.VECTOR_FROM[half.name] if source.dtype.is_half else halves.VECTOR_TO[half.name]
        quick = halves.QUICK.get((half.name, source.dtype.is_half, source.lanes))
        text = Template(body).substitute(words)
        if quick:
            text = self._either(quick[0], f"    {quick[1]}\n", text)
        given, made = self.type(source), self.type(target)
        self.vector.setdefault(name, f"static inline {made} {name}({given} x) {{\n{text}}}\n")
        return name

    def hold(self, t: Type) -> str:
        """A macro that keeps a value in a register; else gcc repeats loads, or moves scalars by vectors."""
        size = t.lanes * t.dtype.size
        name = f"PB_HOLD_{size}"
        has = {4: "__SSE__", 8: "__SSE2__", 16: "__SSE__", 32: "__AVX__", 64: "__AVX512F__"}[size]
        registers = "v" if size == 64 else "x"  # all 32 of them
        held = f'#define {name}(v) __asm__("" : "+{registers}"(v))'
        group, test = self.vector, f"defined({has})"
        if t.lanes == 1:
            group, test = self.scalar, f"defined(PB_VECTORS) && {test}"
        group.setdefault(name, f"#if {test}\n{held}\n#else\n#define {name}(v) (void)0\n#endif\n")
        return name

    def apart(self, k: Kernel) -> str:
        """A macro that isolates a function's compilation from its callers.

        It is for functions that gather: gcc 12 may treat one as free of side effects and drop its calls. This happens
        if each of eight steps stores eight lanes that were read eight elements apart (a transposed square).
        """
        if k.gathers:
            self.scalar.setdefault("PB_KEPT", (
                "#if defined(__GNUC__) && __GNUC__ >= 8 && !defined(__clang__)\n"
                "#define PB_KEPT __attribute__((noipa)) /* gcc 12 leaves out some calls that it thinks do nothing */\n"
                "#else\n#define PB_KEPT\n#endif\n"))  # fmt: skip
            return "PB_KEPT"
        if not (k.apart and k.only_vectors):
            return ""
        self.vector.setdefault("PB_APART", (
            "#if defined(__GNUC__) && __GNUC__ >= 8 && !defined(__clang__)\n"
            "#define PB_APART __attribute__((noipa)) /* gcc would keep elements of one step for the next, and those\n"
            "                                           registers are taken */\n"
            "#else\n#define PB_APART\n#endif\n"))  # fmt: skip
        return "PB_APART"

    def splat(self, t: Type) -> str:
        """A function that copies a scalar to all lanes."""
        c = self.type(t)
        name = f"pb_splat_{c[3:]}"
        lanes = ", ".join(["x"] * t.lanes)
        head = f"static inline {c} {name}({c_type(t.dtype)} x)"
        self.vector.setdefault(name, f"{head} {{\n    return ({c}){{{lanes}}};\n}}\n")
        return name

    def shuffle(self, t: Type) -> str:
        """A macro that shuffles lanes of two vectors; gcc before 12 names the builtin differently."""
        m = self.type(mask_of(t.dtype, t.lanes))
        self.type(t)
        name = f"PB_SHUFFLE_{m[3:]}"
        self.vector.setdefault(name, f"""\
#if defined(__clang__) || __GNUC__ >= 12
#define {name}(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define {name}(a, b, ...) __builtin_shuffle(a, b, ({m}){{__VA_ARGS__}})
#endif
""")
        return name

    def _either(self, condition: str, quick: str, general: str) -> str:
        """Conditional text: `quick` for compilers that have its builtins, `general` for others."""
        self.vector.setdefault("PB_HAS", HAS)
        return f"#if {if_known(condition, quick)}\n{quick}#else\n{general}#endif\n"

    def load(self, t: Type) -> str:
        """A function that loads the lanes of a mask; the other lanes are 0 and not read."""
        c, m = self.type(t), self.type(mask_of(t.dtype, t.lanes))
        name = f"pb_load_{c[3:]}"
        every = " & ".join(f"mask[{k}]" for k in range(t.lanes))
        body = (f"    if ({every}) return *(const {c}u *)p; /* most often all of them */\n"
                f"    {c} v = {{0}};\n    for (int k = 0; k < {t.lanes}; k++) if (mask[k]) v[k] = p[k];\n"
                "    return v;\n")
        found = _LOADS.get((t.dtype.name, t.lanes))
        if found:
            condition, quick = found
            body = self._either(condition, f"    {quick}\n", body)
        self.vector.setdefault(
            name, f"static inline {c} {name}({m} mask, const {c_type(t.dtype)} *p) {{\n{body}}}\n"
        )
        return name

    def choose(self, t: Type) -> str:
        """A function that selects a where the mask is set, else b; gcc does not find the instruction itself."""
        c, m = self.type(t), self.type(mask_of(t.dtype, t.lanes))
        name = f"pb_choose_{c[3:]}"
        general = f"    return ({c})((mask & ({m})a) | (~mask & ({m})b));\n"
        blend = _BLENDS.get((t.dtype.name, t.lanes))
        if blend:
            extension, function = blend
            general = self._either(f"defined({extension})", f"    return {function}(b, a, ({c})mask);\n", general)
        self.vector.setdefault(name, f"static inline {c} {name}({m} mask, {c} a, {c} b) {{\n{general}}}\n")
        return name

    def extreme(self, op: str, t: Type) -> str:
        """A function for the lane-wise max or min; a lane is NaN if either operand is."""
        c, choose = self.type(t), self.choose(t)
        name = f"pb_{op}_{c[3:]}"
        test = "a < b" if op == "max" else "b < a"
        if t.dtype.is_floating:
            test = f"({test}) | (b != b)"
        body = f"    return {choose}({test}, b, a);\n"
        found = _LARGER.get((t.dtype.name, t.lanes))
        if found:  # the instruction returns its second operand if either is NaN
            extension, function = found[0], found[1].format(op=op)
            quick = f"    return {choose}(a != a, a, {function}(a, b));\n"
            body = self._either(f"defined({extension})", quick, body)
        self.vector.setdefault(name, f"static inline {c} {name}({c} a, {c} b) {{\n{body}}}\n")
        return name

    def store_rows(self, t: Type, count: int) -> str:
        """Store vectors a, b, .. with lane k of each at p + k * step: one vector, or a square of them.

        The square is transposed by halves: lanes whose numbers differ in one bit are exchanged between vectors whose
        numbers differ in it (Eklundh 1972).
        """
        c, n = self.type(t), t.lanes
        name = f"pb_store_{'rows' if count > 1 else 'lanes'}_{c[3:]}"
        body = "".join(f"    p[{_place(k, j)}] = v{j}[{k}];\n" for k in range(n) for j in range(count))
        if count > 1:
            rows = "".join(f"    *({c}u *)(p + {_place(k, 0)}) = v{k};\n" for k in range(n))
            test = "#if defined(__clang__) || __GNUC__ >= 12\n"
            body = f"{test}    {c} t;\n{_transposed(n)}{rows}#else\n{body}#endif\n"
        vectors = ", ".join(f"{c} v{j}" for j in range(count))
        self.vector.setdefault(
            name, f"static inline void {name}({c_type(t.dtype)} *p, int64_t step, {vectors}) {{\n{body}}}\n"
        )
        return name

    def across(self, op: str, t: Type, combine: str) -> str:
        """A function that combines all lanes: upper half with lower half, down to the last two lanes.

        `combine` is a C template of two scalars. Halves are read through the type that may alias. With memcpy of half a
        vector, gcc would keep the vector, and sums with it, in memory for its whole lifetime.
        """
        c = self.type(t)
        word = {"+": "sum", "*": "product"}.get(op, op)
        name = f"pb_{word}_across_{c[3:]}"
        if t.lanes == 2:
            result = combine.format("v[0]", "v[1]")
            body = f"    return {result};\n"
        else:
            half = Type(t.dtype, t.lanes // 2)
            h, rest = self.type(half), self.across(op, half, combine)
            both = f"low {op} high" if op in ("+", "*") else f"{self.extreme(op, half)}(low, high)"
            body = (
                f"    const {h} low = ((const {h}u *)&v)[0], high = ((const {h}u *)&v)[1];\n"
                f"    return {rest}({both});\n"
            )
        self.vector.setdefault(name, f"static inline {c_type(t.dtype)} {name}({c} v) {{\n{body}}}\n")
        return name


def _by_vectors(found: Mapping[str, str]) -> str:
    """The definitions with vectors, and those without."""
    vectors, without = found["vectors"].replace("static inline ", "PB_INLINE "), found["without"]
    parts = [INLINE if vectors else "", found["with vectors"], vectors]
    with_vectors = "\n".join(p for p in parts if p)
    if not (with_vectors or without):
        return ""
    return f"{VECTORS}\n{with_vectors}" + (f"#else\n{without}" if without else "") + "#endif\n"
