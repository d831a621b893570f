"""Operators by the node tests that come with the package onnx; all of them run by `python -m tests.unit.onnx.nodes`."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx", reason="ONNX files need the extra onnx")

from tests.peers.test_array_calls import is_older
from tests.unit.onnx.nodes import cases_of, outcome

CORRECTED = "expected values of attention, Adam and QLinearMatMul were corrected by 1.23, which has more operators, too"
pytestmark = pytest.mark.skipif(is_older("onnx", (1, 23)), reason=CORRECTED)

GROUPS = {
    "arithmetic": ["add", "div", "mod", "pow", "clip", "where", "bitshift", "gelu", "hardsigmoid"],
    "shape": ["reshape", "slice", "squeeze", "transpose", "expand", "pad", "split", "gathernd", "scatternd", "onehot"],
    "reduction": ["reduce_log_sum_exp", "reducemax", "argmax", "cumsum", "topk"],
    "products": ["gemm", "matmul", "einsum"],
    "windows": ["conv", "convtranspose", "maxpool", "averagepool"],
    "normalization": ["batch_normalization", "lrn", "instance_normalization", "groupnormalization", "softmax"],
    "recurrent": ["rnn", "gru", "lstm"],
    "sampling": ["resize"],
    "spectra": ["dft", "stft", "melweightmatrix"],
    "detection": ["roialign", "nonmaxsuppression", "deformconv"],
    "states": ["linear_attention", "causal_conv_with_state", "tensorscatter"],
    "types": ["bitcast", "quantizelinear", "dequantizelinear", "qlinearconv"],
    "training": ["adagrad", "adam", "momentum"],
}


@pytest.mark.parametrize("group", GROUPS)
def test_operators_pass_the_tests_of_onnx(group: str) -> None:
    cases = cases_of(GROUPS[group])
    assert cases
    found = {case.name: outcome(case) for case in cases}
    assert {name: what for name, what in found.items() if what not in ("passed", "out of reach")} == {}
    assert sum(what == "passed" for what in found.values()) > len(found) / 2
