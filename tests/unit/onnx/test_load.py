# ruff: noqa: E402
"""ONNX files as functions: values, gradients, open sizes, C, and what is refused."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX files need the extra onnx")

from onnx import TensorProto, helper

import pullback as pb
from pullback.cli.main import main
from pullback.errors import DataError, PullbackError
from pullback.onnx import load
from tests.strict import QUIET
from tests.unit.onnx.models import model, network, value

X = np.random.default_rng(1).normal(size=(2, 1, 6, 6)).astype(np.float32)


def by_hand(p: dict[str, Any], x: Any) -> Any:
    """The network of `models` in NumPy, in double precision."""
    p = {k: v.astype(np.float64) for k, v in p.items()}
    image = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(2, 3))
    y = np.einsum("nchwuv,ocuv->nohw", windows, p["conv.weight"]) + p["conv.bias"][:, None, None]
    factor = p["scale"] / np.sqrt(p["var"] + 1e-5)
    y = np.maximum((y - p["mean"][:, None, None]) * factor[:, None, None] + p["shift"][:, None, None], 0)
    y = y.reshape(len(x), 4, 3, 2, 3, 2).max((3, 5)).reshape(len(x), -1) @ p["fc.weight"].T + p["fc.bias"]
    e = np.exp(y - y.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def test_a_network_with_an_open_batch() -> None:
    f, parameters = load(network())
    assert sorted(parameters) == ["conv.bias", "conv.weight", "fc.bias", "fc.weight", "mean", "scale", "shift", "var"]
    for n in (1, 2):
        np.testing.assert_allclose(f(parameters, X[:n]), by_hand(parameters, X[:n]), rtol=1e-5, atol=1e-6)


def test_the_gradient_by_the_parameters() -> None:
    f, parameters = load(network(2))
    slopes = pb.grad(lambda p, x: pb.sum(f(p, x)[:, 0] * 10.0), wrt="p")(parameters, X)
    rng = np.random.default_rng(2)
    for name in ("conv.weight", "scale", "fc.bias"):
        along = rng.normal(size=parameters[name].shape)
        sides = [by_hand({**parameters, name: parameters[name] + s * 1e-5 * along}, X)[:, 0].sum() for s in (1, -1)]
        wanted = 10 * (sides[0] - sides[1]) / 2e-5
        assert abs(np.sum(slopes[name] * along) - wanted) <= 2e-4 * max(1.0, abs(wanted))


def test_weights_that_the_file_has_as_a_shape_and_a_value() -> None:
    fill = helper.make_node("ConstantOfShape", ["shape"], ["w"], "fill",
                            value=helper.make_tensor("v", TensorProto.FLOAT, [1], [0.5]))  # fmt: skip
    product = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    f, parameters = load(model([fill, product], [value("x", 1, 2)], [value("y", 1, 3)], {"shape": np.array([2, 3])}))
    assert {k: v.shape for k, v in parameters.items()} == {"w": (2, 3)}
    assert f.interpret(parameters, np.ones((1, 2), np.float32)).tolist() == [[1.0, 1.0, 1.0]]


def test_constants_are_parameters_where_it_is_asked() -> None:
    fixed = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("v", TensorProto.FLOAT, [3], [1, 2, 3]))
    nodes = [fixed, helper.make_node("Mul", ["x", "c"], ["d"]), helper.make_node("Add", ["d", "w"], ["y"])]
    file = model(nodes, [value("x", 3)], [value("y", 3)], {"w": np.ones(3, np.float32)})
    assert [sorted(load(file, constants=c)[1]) for c in (False, True)] == [["w"], ["c", "w"]]
    for constants in (False, True):
        f, parameters = load(file, constants=constants)
        assert f.interpret(parameters, np.ones(3, np.float32)).tolist() == [2.0, 3.0, 4.0]


def test_sizes_and_names() -> None:
    node = helper.make_node("Add", ["input.1", "gpu_0/data"], ["y"], "sum")
    add = model([node], [value("input.1", "N", "M"), value("gpu_0/data", "N", "M")], [value("y", "N", "M")])
    f, parameters = load(add, batch_size=2, dims={"M": 3})
    assert f.type == "(parameters: {}, input_1: f32[2, 3], gpu_0_data: f32[2, 3]) -> f32[2, 3]"
    assert load(add)[0].type == "(parameters: {}, input_1: f32[N, M], gpu_0_data: f32[N, M]) -> f32[N, M]"
    assert f.interpret(parameters, np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)).sum() == 12


def test_a_shape_that_follows_from_an_argument() -> None:
    reshape = model([helper.make_node("Reshape", ["x", "shape"], ["y"], "flat")],
                    [value("x", 2, 3), value("shape", 1, kind=TensorProto.INT64)], [value("y", 6)])  # fmt: skip
    with pytest.raises(DataError, match=r"node flat \(Reshape\): a shape follows from its input shape"):
        load(reshape)
    f, _ = load(reshape, known={"shape": np.array([6])})
    assert f.interpret({}, np.ones((2, 3), np.float32)).shape == (6,)
    with pytest.raises(DataError, match="net has no input other"):
        load(reshape, known={"other": np.array([6])})


def test_branches_and_loops() -> None:
    double = helper.make_graph([helper.make_node("Add", ["x", "x"], ["t"], "twice")], "then", [], [value("t", 2)])
    same = helper.make_graph([helper.make_node("Neg", ["x"], ["e"], "minus")], "else", [], [value("e", 2)])
    branch = model([helper.make_node("If", ["c"], ["y"], "if", then_branch=double, else_branch=same)],
                   [value("x", 2), value("c", kind=TensorProto.BOOL)], [value("y", 2)])  # fmt: skip
    f, _ = load(branch)
    x = np.array([1, 2], np.float32)
    assert [f.interpret({}, x, np.bool_(c)).tolist() for c in (True, False)] == [[2.0, 4.0], [-1.0, -2.0]]
    body = helper.make_graph(
        [helper.make_node("Add", ["h", "row"], ["after"], "add"), helper.make_node("Identity", ["after"], ["shown"])],
        "body", [value("h", 2), value("row", 2)], [value("after", 2), value("shown", 2)],
    )  # fmt: skip
    scan = helper.make_node("Scan", ["h0", "rows"], ["last", "all"], "scan", num_scan_inputs=1, body=body)
    f, _ = load(model([scan], [value("h0", 2), value("rows", 3, 2)], [value("last", 2), value("all", 3, 2)]))
    last, rows = f.interpret({}, np.zeros(2, np.float32), np.arange(6, dtype=np.float32).reshape(3, 2))
    assert last.tolist() == [6.0, 9.0] and rows.tolist() == [[0.0, 1.0], [2.0, 4.0], [6.0, 9.0]]


# C ------------------------------------------------------------------------------------------------------------------


def test_export_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(network(), tmp_path / "digits.onnx")
    out = tmp_path / "out"
    assert main(["export", str(tmp_path / "digits.onnx"), "--batch-size", "1", "--out", str(out)]) == 0
    assert "working memory" in capsys.readouterr().out
    assert sorted(os.listdir(out)) == ["CMakeLists.txt", "digits.safetensors", "digits_infer.c", "digits_infer.h",
                                       "main.c"]  # fmt: skip
    flags = ["-std=c99", "-O0", *QUIET, "-Werror"]
    subprocess.run(["cc", *flags, "main.c", "digits_infer.c", "-o", "digits", "-lm"], cwd=out, check=True)
    X[:1].tofile(out / "x")
    done = subprocess.run(["./digits", "infer", "x"], cwd=out, capture_output=True, text=True, check=True)
    f, parameters = load(network())
    np.testing.assert_allclose([float(v) for v in done.stdout.split()], f.interpret(parameters, X[:1])[0], rtol=1e-5)


def test_export_wants_all_extents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add = model([helper.make_node("Add", ["x", "x"], ["y"])], [value("x", "N")], [value("y", "N")])
    onnx.save(add, tmp_path / "add.onnx")
    assert main(["export", str(tmp_path / "add.onnx"), "--out", str(tmp_path)]) == 1
    assert "the size N is not given" in capsys.readouterr().err


# What is refused ------------------------------------------------------------------------------------------------------


def test_all_missing_operators_at_once() -> None:
    nodes = [helper.make_node("Det2", ["x"], ["a"], "one"), helper.make_node("Sparse", ["a"], ["b"], "two"),
             helper.make_node("Det2", ["b"], ["y"], "three")]  # fmt: skip
    with pytest.raises(DataError) as caught:
        load(model(nodes, [value("x", 2, 2)], [value("y", 2, 2)]))
    assert (
        str(caught.value)
        == """\
DataError [E521] the model has 2 operators that there are none of: Det2, Sparse
   | Det2 (one, three)      Sparse (two)
  try: an export of the model without them      See `pullback explain-error E521`"""
    )


@pytest.mark.parametrize(
    ("node", "what"),
    [
        (helper.make_node("Conv", ["x", "w"], ["y"], "c", strides=[0, 1]), r"window \[3, 3\], strides \[0, 1\]"),
        (helper.make_node("Conv", ["x", "w"], ["y"], "c", color=1), "Conv of version 17 has no attribute color"),
        (helper.make_node("Conv", ["x"], ["y"], "c"), "its input w is missing"),
        (helper.make_node("Conv", ["x", "v"], ["y"], "c"), "its input v is made by no node before it"),
        (helper.make_node("Concat", ["x", "w"], ["y"], "c", axis=9), "axis 9 of an array with 4"),
        (helper.make_node("Transpose", ["x"], ["y"], "c", perm=[0, 0, 1, 2]), "is no order of 4 axes"),
        (helper.make_node("MatMul", ["x", "w"], ["y"], "c"), "inner sizes differ"),
    ],
)
def test_a_wrong_node_is_named(node: Any, what: str) -> None:
    arrays = {"w": np.ones((1, 1, 3, 3), np.float32)}
    with pytest.raises(DataError, match=rf"node c \(\w+\): .*{what}") as caught:
        load(model([node], [value("x", 1, 1, 5, 5)], [value("y", 1, 1, 3, 3)], arrays))
    assert caught.value.code == "E522"


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"\[E501\] .*no.onnx: No such file"):
        load(tmp_path / "no.onnx")
    for content in (b"", b"no", b"\x00" * 64, network().SerializeToString()[:-40]):
        with pytest.raises(DataError, match=r"\[E520\]"):
            load(content)


def mutants(content: bytes, count: int, seed: int) -> list[bytes]:
    """Copies with a few bytes changed, cut out or doubled."""
    rng = random.Random(seed)
    out = []
    for _ in range(count):
        data = bytearray(content)
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(data))
            kind = rng.randrange(4)
            if kind < 2:
                data[at] = rng.randrange(256)
            elif kind == 2:
                del data[at : at + rng.randrange(1, 9)]
            else:
                data[at:at] = data[at : at + rng.randrange(1, 9)]
        out.append(bytes(data))
    return out


def outcome(content: bytes) -> str:
    """What became of a damaged file: it is refused, or read and run, where only numbers or names changed."""
    try:
        f, parameters = load(content, batch_size=1)
        f.interpret(parameters, X[:1])
    except PullbackError:
        return "refused"
    return "read"


def test_damaged_files_end_in_errors() -> None:
    found = [outcome(m) for m in mutants(network().SerializeToString(), 60, 3)]
    assert set(found) == {"refused", "read"}


def test_names_that_are_no_text() -> None:
    content = network().SerializeToString()
    for name in (b"batch", b"conv.weight", b"relu", b"net", b"Softmax"):
        assert outcome(content.replace(name, b"\xff" * len(name))) in ("refused", "read")


# Open sizes -----------------------------------------------------------------------------------------------------------


def reshaped(*shape: int) -> Any:
    node = helper.make_node("Reshape", ["x", "shape"], ["y"], "flat")
    return model([node], [value("x", "N", 4, 16)], [value("y", "M", 64)], {"shape": np.array(shape)})


@pytest.mark.parametrize("shape", [(-1, 64), (0, -1), (0, 64), (-1, 8, 8)])
def test_a_constant_shape_with_an_open_batch(shape: tuple[int, ...]) -> None:
    f, parameters = load(reshaped(*shape))
    assert "f32[N, 4, 16]" in f.type
    for n in (1, 3):
        x = np.arange(n * 64, dtype=np.float32).reshape(n, 4, 16)
        wanted = x.reshape([n if e == 0 else e for e in shape])
        np.testing.assert_array_equal(f.interpret(parameters, x), wanted)


def test_a_constant_shape_for_one_batch_size() -> None:
    with pytest.raises(DataError, match=r"shape \[1, 64\] fits \[N, 4, 16\] only for one N") as caught:
        load(reshaped(1, 64))[0].check()
    assert "batch_size=1" in str(caught.value.remedy)
    f, parameters = load(reshaped(1, 64), batch_size=1)
    assert f.interpret(parameters, np.ones((1, 4, 16), np.float32)).shape == (1, 64)


def test_a_loop_that_tests_a_value() -> None:
    body = helper.make_graph(
        [helper.make_node("Add", ["h", "h"], ["after"]), helper.make_node("ReduceSum", ["after"], ["s"], keepdims=0),
         helper.make_node("Less", ["s", "limit"], ["again"])],
        "body", [value("k", kind=TensorProto.INT64), value("c", kind=TensorProto.BOOL), value("h", 2)],
        [value("again", kind=TensorProto.BOOL), value("after", 2)],
    )  # fmt: skip
    nodes = [helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
             helper.make_node("Less", ["total", "limit"], ["first"]),
             helper.make_node("Loop", ["most", "first", "x"], ["y"], "loop", body=body)]  # fmt: skip
    arrays = {"limit": np.float32(100), "most": np.array(5)}
    f, parameters = load(model(nodes, [value("x", 2)], [value("y", 2)], arrays))
    for start, wanted in ((8, 64), (60, 60), (1e-3, 1e-3 * 32)):  # until 100, not at all, five times
        np.testing.assert_allclose(f.interpret(parameters, np.full(2, start, np.float32)), wanted)
