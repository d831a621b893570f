"""The primitive record: C filled in per dtype, and a table without doubles."""

import pytest

from pullback.ir import types
from pullback.ir.primitive import Primitive, PrimitiveTable
from pullback.prim import PRIMITIVES


def test_c_is_filled_in_per_dtype():
    assert PRIMITIVES["sin"].c_template(types.f32) == "sinf({0})"
    assert PRIMITIVES["sin"].c_template(types.f64) == "sin({0})"
    assert PRIMITIVES["floor_divide"].c_template(types.i16) == "pb_floor_divide_i16({0}, {1})"
    assert PRIMITIVES["floor_divide"].c_template(types.f32) == "pb_floor_divide_f32({0}, {1})"
    assert "fmaf(-q, b, a)" in (PRIMITIVES["floor_divide"].c_helper(types.f32) or "")
    assert PRIMITIVES["divide"].c_helper(types.f32) is None
    helper = PRIMITIVES["abs"].c_helper(types.i8)
    assert helper is not None and "int8_t pb_abs_i8(int8_t a)" in helper and "(uint8_t)" in helper


def test_a_name_is_given_once():
    table = PrimitiveTable(__name__)
    row = table.add(Primitive("twice", "Twice x.", 1, lambda x: x + x))
    assert table["twice"] is row and "twice" in table and list(table) == [row]
    with pytest.raises(ValueError, match="twice is defined twice"):
        table.add(row)
