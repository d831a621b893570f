"""The words of plain C, and its small static functions, which are included if used."""

from __future__ import annotations

from collections.abc import Mapping

from pullback.codegen.c.given import given
from pullback.codegen.c.halves import conversion
from pullback.codegen.c.literals import literal
from pullback.codegen.c.primitives import primitive
from pullback.codegen.c.sorting import sorting
from pullback.codegen.c.text import reached
from pullback.codegen.c.types import c_type, limit
from pullback.codegen.target import Definitions
from pullback.ir.foreign import Foreign
from pullback.ir.primitive import Primitive
from pullback.ir.types import DType
from pullback.loops.program.nodes import Kernel, Sorting
from pullback.loops.program.values import Type

INDEX_EXTREME = {
    "max": "static inline int64_t pb_max(int64_t a, int64_t b) {\n    return a > b ? a : b;\n}\n",
    "min": "static inline int64_t pb_min(int64_t a, int64_t b) {\n    return a < b ? a : b;\n}\n",
}
INDEX_DIVISION = {
    "floor": """\
static inline int64_t pb_floor(int64_t a, int64_t b) { /* floor(a / b) for b > 0 */
    return a / b - (a % b < 0);
}
""",
    "mod": """\
static inline int64_t pb_mod(int64_t a, int64_t b) { /* a - b * floor(a / b) for b > 0 */
    int64_t r = a % b;
    return r < 0 ? r + b : r;
}
""",
}


class PlainWords:
    """The words for one plain C file, with their definitions in printable order."""

    has_vectors = False  # whether definitions may have a form for compilers with vector extensions

    def __init__(self) -> None:
        self.scalar: dict[str, str] = {}

    def own(self, name: str, text: str) -> str:
        """A word with its definition."""
        self.scalar.setdefault(name, text)
        return name

    def own_all(self, definitions: Definitions) -> None:
        """Definitions, in order."""
        for name, text in definitions:
            self.own(name, text)

    def type(self, t: Type) -> str:
        """The C type of an element."""
        assert t.lanes == 1, f"{t}: plain C has no vectors"
        return c_type(t.dtype)

    def number(self, value: bool | int | float, dtype: DType) -> str:
        """Print a number exactly."""
        return literal(value, dtype)[0]

    def primitive(self, row: Primitive, operand: Type) -> str:
        """An expression with {0}, {1}, .. for operands."""
        template, definitions = primitive(row, operand.dtype)
        self.own_all(definitions)
        return template

    def conversion(self, source: Type, target: Type) -> str:
        """An expression with {0} for the converted value."""
        was, to = source.dtype, target.dtype
        if was.is_half or to.is_half:
            name, definitions = conversion(was, to)
            self.own_all(definitions)
            return f"{name}({{0}})"
        if to.is_bool:
            return "{0} != 0"
        if was.is_floating and to.is_integer:
            return f"{self._saturate(to)}({{0}})"
        return f"({c_type(to)}){{0}}"

    def procedure(self, work: Sorting | Foreign) -> str:
        """The function to call for work beyond loops."""
        name, definitions = sorting(work, self.has_vectors) if isinstance(work, Sorting) else given(work)
        self.own_all(definitions)
        return name

    def hold(self, t: Type) -> str:
        """Return nothing: plain C leaves registers to the compiler."""
        return ""

    def apart(self, k: Kernel) -> str:
        """Return nothing: plain C has no such attribute."""
        return ""

    def index_extreme(self, op: str) -> str:
        """The function pb_max or pb_min of indices."""
        return self.own(f"pb_{op}", INDEX_EXTREME[op])

    def index_division(self, which: str) -> str:
        """The function pb_floor or pb_mod of indices."""
        return self.own(f"pb_{which}", INDEX_DIVISION[which])

    def definitions(self, text: str) -> list[str]:
        """The definitions that a text needs."""
        wanted = reached(text, self.scalar)
        return ["\n".join(t for n, t in self.scalar.items() if n in wanted)]

    def where_used(self, kernels: Mapping[str, str], rest: str) -> dict[str, str]:
        """Return the kernels unchanged, because all are called."""
        return dict(kernels)

    def _saturate(self, to: DType) -> str:
        """Conversion of a double to an integer type: saturates, NaN gives 0."""
        name = f"pb_saturate_{to.name}"
        low, high, c = limit(to, "MIN"), limit(to, "MAX"), c_type(to)
        return self.own(name, f"""\
static inline {c} {name}(double x) {{
    if (x != x) return 0;
    return x <= (double){low} ? {low} : x >= (double){high} ? {high} : ({c})x;
}}
""")
