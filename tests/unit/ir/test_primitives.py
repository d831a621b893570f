"""The primitive record: C filled in per dtype, and a table without doubles."""

import pytest

from pullback.codegen.c.primitives import primitive
from pullback.ir import types
from pullback.ir.primitive import Primitive, PrimitiveTable
from pullback.ir.primitives import PRIMITIVES


def test_c_is_filled_in_per_dtype():
    assert primitive(PRIMITIVES["sin"], types.f32) == ("sinf({0})", ())
    assert primitive(PRIMITIVES["sin"], types.f64) == ("sin({0})", ())
    assert primitive(PRIMITIVES["floor_divide"], types.i16)[0] == "pb_floor_divide_i16({0}, {1})"
    called, ((name, text),) = primitive(PRIMITIVES["floor_divide"], types.f32)
    assert called == "pb_floor_divide_f32({0}, {1})" and name == "pb_floor_divide_f32" and "fmaf(-q, b, a)" in text
    _, ((_, text),) = primitive(PRIMITIVES["abs"], types.i8)
    assert "int8_t pb_abs_i8(int8_t a)" in text and "(uint8_t)" in text


def test_a_name_is_given_once():
    table = PrimitiveTable()
    row = table.add(Primitive("twice", "Twice x.", 1, lambda x: x + x))
    assert table["twice"] is row and "twice" in table and list(table) == [row]
    with pytest.raises(ValueError, match="twice is defined twice"):
        table.add(row)
