"""Layers of sequences and models beside PyTorch itself, where it is there."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed; its stored numbers are compared in tests/unit/nn")

from tests.unit.nn.torch_peers.cases import LAYERS, MODELS, distance, our_model, ours
from tests.unit.nn.torch_peers.peers import their_model, theirs


@pytest.mark.parametrize("name", LAYERS)
def test_c27_layers_equal_pytorch(name: str) -> None:
    case = LAYERS[name]
    far, where = distance(ours(case, np.float64, interpreted=True), theirs(name, case, np.float64))
    assert far < 1e-11, where


@pytest.mark.parametrize("name", MODELS)
def test_c31_c33_models_equal_pytorch(name: str) -> None:
    far, where = distance(our_model(name), their_model(name, MODELS[name]))
    assert far < 1e-11, where
