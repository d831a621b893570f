"""Small ONNX files that ask for much: refused with the node's name, before memory and time are taken."""

from __future__ import annotations

import sys
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX files need the extra onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from pullback.errors import DataError  # noqa: E402
from pullback.onnx import load  # noqa: E402

BOUNDS = sys.modules["pullback.onnx.load"]
node = helper.make_node
BILLION = 10**9
SUM = [node("ReduceSum", ["z"], ["s0"]), node("Cast", ["s0"], ["s"], to=1), node("Add", ["x", "s"], ["y"])]


def value(name: str, kind: int = TensorProto.FLOAT, shape: Any = None) -> Any:
    """The type of an input or result."""
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: list[Any], **arrays: Any) -> Any:
    """A file with these nodes and arrays, from `x` to `y`."""
    held = [numpy_helper.from_array(np.array(a), n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "g", [value("x", shape=[2, 3])], [value("y")], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def body(nodes: list[Any]) -> Any:
    """The body of a loop from `v` to `w`."""
    given = [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("v")]
    made = [value("d", TensorProto.BOOL, []), value("w")]
    return helper.make_graph([*nodes, node("Identity", ["c"], ["d"])], "b", given, made)


INNER = node("Loop", ["n", "t", "v"], ["w"], "inner", body=body([node("Add", ["v", "v"], ["w"])]))
DOUBLED = [node("Concat", [f"c{k}"] * 2, [f"c{k + 1}"], axis=0) for k in range(40)]
FILES = {
    "Pad": model([node("Pad", ["x", "p"], ["y"])], p=[0, 0, BILLION, BILLION]),
    "Pad of a constant": model([node("Pad", ["c", "p"], ["z"]), *SUM], p=[0, BILLION], c=[1, 2]),
    "Tile": model([node("Tile", ["x", "p"], ["y"])], p=[BILLION, BILLION]),
    "Tile of a constant": model([node("Tile", ["c", "p"], ["z"]), *SUM], p=[BILLION], c=[1, 2]),
    "Expand": model([node("Expand", ["x", "p"], ["y"])], p=[BILLION * 9, 2, 3]),
    "Expand of a constant": model([node("Expand", ["c", "p"], ["z"]), *SUM], p=[BILLION, 2], c=[[1, 2]]),
    "ConstantOfShape": model([node("ConstantOfShape", ["p"], ["z"]), *SUM], p=[BILLION, 9]),
    "Range": model([node("Range", ["a", "b", "d"], ["z"]), *SUM], a=0, b=2**28, d=1),
    "Range without end": model([node("Range", ["a", "b", "d"], ["z"]), *SUM], a=0, b=2**62, d=1),
    "HannWindow": model([node("HannWindow", ["n"], ["z"]), *SUM], n=2 * BILLION),
    "Resize": model([node("Resize", ["x", "", "", "n"], ["y"])], n=[10**6, 10**6]),
    "Resize of an axis": model([node("Resize", ["x", "", "", "n"], ["y"])], n=[2, BILLION]),
    "EyeLike": model([node("Pad", ["x", "p"], ["l"]), node("EyeLike", ["l"], ["y"])], p=[0, 0, 9 * 10**4, 9 * 10**4]),
    "OneHot": model([node("Cast", ["x"], ["i"], to=7), node("OneHot", ["i", "n", "v"], ["y"])], n=10**10,
                    v=np.float32([0, 1])),
    "MatMul of constants": model([node("Expand", ["c", "p"], ["a"]), node("Transpose", ["a"], ["b"]),
                                  node("MatMul", ["a", "b"], ["z"]), *SUM], p=[50_000, 1], c=[[1]]),
    "Concat of many": model([node("Concat", ["c"] * 5000, ["z"], axis=0), *SUM], c=np.arange(2**16)),
    "doubled forty times": model([*DOUBLED, node("Identity", ["c40"], ["z"]), *SUM], c0=[1, 2]),
    "doubled when traced": model([node("Identity", ["x"], ["c0"]), *DOUBLED, node("Identity", ["c40"], ["y"])]),
    "Loop": model([node("Loop", ["n", "t", "x"], ["y"], body=body([INNER]))], n=2**40, t=True),
    "Loop of constants": model([node("Loop", ["n", "t", "k"], ["z"], body=body([INNER])), *SUM], n=2**40,
                               t=True, k=[1]),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_small_file_asks_for_little(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BOUNDS, "MOST_NODES", 100)
    monkeypatch.setenv("PULLBACK_READ_LIMIT", str(1 << 33))
    start = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(DataError) as caught:
            load(FILES[name])
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.code == ("E528" if "Loop" in name else "E527")
    assert caught.value.what.startswith("node ")
    assert taken < 1 << 29 and time.process_time() - start < 15


def test_constants_that_are_weights_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_READ_LIMIT", "10000")
    weights = [node("ConstantOfShape", ["p"], [f"w{k}"]) for k in range(3)]
    sums = [node("Sum", ["x", "w0", "w1", "w2"], ["y"])]
    _, parameters = load(model([*weights, *sums], p=[300, 2, 1]))
    assert sum(a.nbytes for a in parameters.values()) == 7200
    with pytest.raises(DataError, match="its constants have 12000 bytes"):
        load(model([*weights, *sums], p=[500, 2, 1]))


def test_a_file_with_large_arrays_may_compute_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BOUNDS, "COMPUTED", 1000)
    doubled = [node("Concat", ["c", "c"], ["z"], axis=0), *SUM]
    f, parameters = load(model(doubled, c=np.arange(1000)))
    assert float(f(parameters, np.zeros((2, 3), np.float32))[0, 0]) == 999_000.0
    with pytest.raises(DataError, match=r"node Tile -> d: computing its constants takes 80080 bytes"):
        load(model([node("Tile", ["c", "p"], ["d"]), *doubled], c=np.arange(10), p=[1000]))


def test_the_message_of_a_node_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_READ_LIMIT", "1000")
    with pytest.raises(DataError) as caught:
        load(model([node("Tile", ["x", "p"], ["y"], "tiles")], p=[100, 100]))
    assert caught.value.message.splitlines()[0] == (
        "DataError [E527] node tiles (Tile): its result: an array of shape (200, 300) has 240000 bytes"
    )
    monkeypatch.setenv("PULLBACK_READ_LIMIT", str(1 << 30))
    monkeypatch.setattr(BOUNDS, "MOST_NODES", 10)
    with pytest.raises(DataError) as caught:
        load(model([node("Loop", ["n", "t", "x"], ["y"], "loop", body=body([INNER]))], n=100, t=True))
    assert caught.value.message.splitlines()[0] == (
        "DataError [E528] node inner (Loop): its loops are more than 10 nodes when they are written out"
    )
