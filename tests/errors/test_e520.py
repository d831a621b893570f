"""E520 to E524: ONNX files, and the complete messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("onnx", reason="ONNX files need the extra onnx")

MODEL = """
from onnx import TensorProto, helper
from pullback import onnx
x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
s = helper.make_tensor_value_info("s", TensorProto.INT64, [1])
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [6])
def load(*nodes):
    return onnx.load(helper.make_model(helper.make_graph(nodes, "net", [x, s], [y])))
"""


def test_no_onnx_file(message: Callable[[str], str]) -> None:
    assert (
        message("from pullback import onnx\nonnx.load(b'')")
        == """\
DataError [E520] the model is no ONNX file: it has no graph with a result, or no set of operators
  try: copy it again      See `pullback explain-error E520`
"""
    )


def test_operators_that_there_are_none_of(message: Callable[[str], str]) -> None:
    assert (
        message(MODEL + 'load(helper.make_node("StringConcat", ["x", "x"], ["y"], "join"))')
        == """\
DataError [E521] the model has 1 operator that there is none of: StringConcat
   | StringConcat (join)
  try: an export of the model without them      See `pullback explain-error E521`
"""
    )


def test_a_node_that_is_wrong(message: Callable[[str], str]) -> None:
    assert (
        message(MODEL + 'load(helper.make_node("Concat", ["x", "x"], ["y"], "join", axis=5))')
        == """\
DataError [E522] node join (Concat): axis 5 of an array with 2
  --> user.py:7:12
   |     return onnx.load(helper.make_model(helper.make_graph(nodes, "net", [x, s], [y])))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | x: f32[2, 3]      x: f32[2, 3]
  try: `onnx.checker.check_model` on the file      See `pullback explain-error E522`
"""
    )


def test_a_shape_that_follows_from_an_argument(message: Callable[[str], str]) -> None:
    assert (
        message(MODEL + 'load(helper.make_node("Reshape", ["x", "s"], ["y"], "flat"))')
        == """\
DataError [E523] node flat (Reshape): a shape follows from its input s, which is computed of the argument s
  --> user.py:7:12
   |     return onnx.load(helper.make_model(helper.make_graph(nodes, "net", [x, s], [y])))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: load(…, known={"s": …}), which makes it a constant      See `pullback explain-error E523`
"""
    )


def test_what_onnx_has_not(message: Callable[[str], str]) -> None:
    assert (
        message("""
from pullback import onnx
@pb.function
def drawn(x: Float32[Array, "N"]):
    return x + pb.random.normal(pb.random.key(1), x.shape)
onnx.save(drawn, "drawn.onnx", N=2)
""")
        == """\
DataError [E524] drawn has what ONNX files here have not: bitwise_right_shift, bitwise_left_shift
  try: `export` writes C of everything      See `pullback explain-error E524`
"""
    )
